/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of outgoing datagrams; see datagram_queue.h. */
#include "ustack/ip/datagram_queue.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

struct us_dgram *us_dgram_new(struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                              unsigned protocol)
{
    struct us_dgram *dgram = (struct us_dgram *)us_pool_get(&stack->dgrams.pool);

    if (dgram == U_NULL) {
        us_count(stack, US_C_DROP_DATAGRAM_QUEUE);
        return dgram;
    }
    u_zero(dgram, sizeof(*dgram));
    u_list_init(&dgram->link);
    dgram->src_ip = src_ip;
    dgram->dst_ip = dst.id;
    if (dst.six != U_NULL) {
        dgram->is_ip6 = 1;
        dgram->dst6 = *dst.six;
    }
    dgram->protocol = (u_u8)protocol;
    return dgram;
}

struct us_dgram *us_dgram_new_reply(struct us_stack *stack, const struct us_rx *rx,
                                    unsigned protocol)
{
    struct us_ip dst = us_rx_source(rx);
    struct us_dgram *dgram;
    struct us_route route;

    route.src_ip = rx->dst_ip;
    if (rx->cast != US_CAST_UNICAST && !us_route_find(stack, dst, &route)) {
        us_count(stack, US_C_DROP_DATAGRAM_NO_HOP);
        return (struct us_dgram *)U_NULL;
    }
    dgram = us_dgram_new(stack, route.src_ip, dst, protocol);
    if (dgram == U_NULL)
        return dgram;
    us_dgram_set_l2(stack, dgram, rx->mac);
    return dgram;
}

void us_dgram_set_l2(const struct us_stack *stack, struct us_dgram *dgram, const u_u8 *mac)
{
    dgram->has_l2 = 1;
    us_eth_build(stack, dgram->l2, mac, dgram->is_ip6 ? US_ETH_IP6 : US_ETH_IP4);
}

static struct us_ip dgram_dst(const struct us_dgram *dgram)
{
    struct us_ip dst = us_ip4(dgram->dst_ip);

    if (dgram->is_ip6)
        dst.six = &dgram->dst6;
    return dst;
}

static void dgram_free(struct us_stack *stack, struct us_dgram *dgram)
{
    while (dgram->body != U_NULL) {
        struct us_chunk *chunk = dgram->body;
        dgram->body = chunk->next;
        us_block_put(stack, chunk);
    }
    us_pool_put(&stack->dgrams.pool, dgram);
}

int us_dgram_append(struct us_stack *stack, struct us_dgram *dgram, const void *data, u_u32 len)
{
    const u_u8 *from = (const u_u8 *)data;

    U_ASSERT(dgram->sent == 0 && (data != U_NULL || len == 0));
    while (len > 0) {
        u_u32 n;

        if (dgram->last == U_NULL || dgram->last->room == 0) {
            struct us_chunk *chunk = us_block_get(
                stack, dgram->bytes, dgram->bytes == 0 ? US_BLOCK_MINIMUM : US_BLOCK_SHARED);
            if (chunk == U_NULL) {
                us_count(stack, US_C_DROP_DATAGRAM_QUEUE);
                dgram_free(stack, dgram);
                return 0;
            }
            if (dgram->last == U_NULL)
                dgram->body = chunk;
            else
                dgram->last->next = chunk;
            dgram->last = chunk;
        }
        n = us_chunk_append(dgram->last, from, len);
        dgram->bytes += n;
        from += n;
        len -= n;
    }
    return 1;
}

void us_dgram_queue(struct us_stack *stack, struct us_dgram *dgram)
{
    u_list_push_back(&stack->dgrams.ready, &dgram->link);
}

void us_dgram_checksum(struct us_stack *stack, struct us_dgram *dgram, unsigned offset)
{
    const struct us_chunk *chunk;
    struct u_be16 field;
    u_u32 sum = 0;
    u_u16 folded;

    U_ASSERT(dgram->body != U_NULL && offset + sizeof(field) <= dgram->body->len);
    if (dgram->protocol != US_IP_ICMP)
        sum =
            us_ip_pseudo_sum(stack, dgram->src_ip, dgram_dst(dgram), dgram->protocol, dgram->bytes);
    for (chunk = dgram->body; chunk != U_NULL; chunk = chunk->next)
        sum = u_cksum_add(sum, chunk->data, chunk->len);
    folded = u_cksum_finish(sum);
    field = u_be16(folded == 0 && dgram->protocol == US_IP_UDP ? 0xffffu : folded);
    u_copy(us_chunk_first(dgram->body) + offset, &field, sizeof(field));
}

/* Moves the next bytes of the body to `to` and frees emptied blocks. */
static void dgram_take(struct us_stack *stack, struct us_dgram *dgram, u_u8 *to, u_u32 len)
{
    while (len > 0) {
        struct us_chunk *chunk = dgram->body;
        u_u32 n = u_min32(len, chunk->len);

        u_copy(to, chunk->data, n);
        chunk->data += n;
        chunk->len -= n;
        to += n;
        len -= n;
        if (chunk->len == 0) {
            dgram->body = chunk->next;
            us_block_put(stack, chunk);
        }
    }
}

/*
 * Makes the IP header at `ip` that of the next fragment; !more: the last one (RFC 791 3.2, RFC 8200
 * 4.5). Returns the length of the header added behind it.
 */
static u_u32 dgram_cut(const struct us_dgram *dgram, u_u8 *ip, int more)
{
    struct us_ip4_hdr *hdr4 = (struct us_ip4_hdr *)ip;
    struct us_ip6_hdr *hdr6 = (struct us_ip6_hdr *)ip;
    u_u8 *fragment = ip + US_IP6_HDR_BYTES;
    struct u_be16 field;
    struct u_be32 ident = u_be32(dgram->ident);

    if (!dgram->is_ip6) {
        hdr4->id = u_be16(dgram->ident & 0xffff);
        hdr4->fragment = u_be16(dgram->sent >> 3 | (more ? (u_u32)US_IP4_MORE_FRAGMENTS : 0));
        return 0;
    }
    field = u_be16(dgram->sent | (more ? 1u : 0));
    fragment[0] = hdr6->next;
    fragment[1] = 0;
    u_copy(fragment + 2, &field, sizeof(field));
    u_copy(fragment + 4, &ident, sizeof(ident));
    hdr6->next = US_IP_FRAGMENT;
    return US_IP6_FRAGMENT_HDR_BYTES;
}

/* RFC 7739: an unpredictable identification. */
static u_u32 dgram_ident(struct us_stack *stack)
{
    u_u32 n = stack->dgrams.cut++;

    return (u_u32)u_siphash24(stack->key_port, &n, sizeof(n));
}

/* Builds the frame of the datagram or of its next fragment. Returns whether more follow. */
static int dgram_build(struct us_stack *stack, struct us_dgram *dgram, struct us_pkt *pkt,
                       const u_u8 *l2)
{
    u_u8 *ip = pkt->data + stack->l2_bytes;
    u_u32 left = dgram->bytes - dgram->sent;
    u_u32 l3_bytes;
    u_u32 mtu = us_ip_mtu(stack, dgram->is_ip6);
    u_u32 cut_bytes = 0;
    u_u32 n = left;

    u_copy(pkt->data, l2, stack->l2_bytes);
    l3_bytes = us_ip_build(stack, ip, dgram->src_ip, dgram_dst(dgram), dgram->protocol);
    if (dgram->sent != 0 || dgram->bytes > mtu - l3_bytes) { /* the MTU may change in between */
        u_u32 extra = dgram->is_ip6 ? (u_u32)US_IP6_FRAGMENT_HDR_BYTES : 0;
        n = u_min32(left, (mtu - l3_bytes - extra) & ~(u_u32)7);
        if (dgram->sent == 0)
            dgram->ident = dgram_ident(stack);
        cut_bytes = dgram_cut(dgram, ip, n < left);
        us_count(stack, US_C_FRAG_TX);
    }
    dgram_take(stack, dgram, ip + l3_bytes + cut_bytes, n);
    dgram->sent += n;
    pkt->flags = 0;
    us_ip_finish(stack, pkt, cut_bytes + n);
    return n < left;
}

/* Its Ethernet header; null if it now waits for resolution, or was dropped. */
static const u_u8 *dgram_next_hop(struct us_stack *stack, struct us_dgram *dgram)
{
    struct us_neighbour *neighbour = (struct us_neighbour *)U_NULL;
    struct us_route route;

    if (dgram->has_l2)
        return dgram->l2;
    if (us_route_find(stack, dgram_dst(dgram), &route))
        neighbour = us_neighbour_resolve(stack, route.next_hop);
    if (neighbour == U_NULL) {
        us_count(stack, US_C_DROP_DATAGRAM_NO_HOP);
        dgram_free(stack, dgram);
        return (const u_u8 *)U_NULL;
    }
    if (us_neighbour_use(stack, neighbour))
        return neighbour->l2;
    u_list_push_back(&neighbour->dgrams, &dgram->link);
    return (const u_u8 *)U_NULL;
}

int us_dgram_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct u_list *link;

    while ((link = u_list_pop_front(&stack->dgrams.ready)) != U_NULL) {
        struct us_dgram *dgram = U_CONTAINER_OF(link, struct us_dgram, link);
        const u_u8 *l2 = dgram_next_hop(stack, dgram);

        if (l2 != U_NULL) {
            if (dgram_build(stack, dgram, pkt, l2))
                u_list_push_front(&stack->dgrams.ready, &dgram->link);
            else
                dgram_free(stack, dgram);
            return 1;
        }
    }
    return 0;
}

void us_dgram_reachable(struct us_stack *stack, struct u_list *waiting)
{
    u_list_append_all(&stack->dgrams.ready, waiting);
}

void us_dgram_unreachable(struct us_stack *stack, struct u_list *waiting)
{
    while (!u_list_is_empty(waiting)) {
        us_count(stack, US_C_DROP_DATAGRAM_NO_HOP);
        dgram_free(stack, U_CONTAINER_OF(u_list_pop_front(waiting), struct us_dgram, link));
    }
}
