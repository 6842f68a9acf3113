/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams on their way out; see dgram.h. */
#include "ustack/dgram.h"

#include "base/cksum.h"
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/stack.h"

struct us_dgram *us_dgram_new(struct us_stack *stack, u_u32 src_ip, u_u32 dst_ip, unsigned protocol)
{
    struct us_dgram *dgram = (struct us_dgram *)us_pool_get(&stack->dgrams.pool);

    if (dgram == U_NULL) {
        us_count(stack, US_C_DROP_DATAGRAM_QUEUE);
        return dgram;
    }
    u_list_init(&dgram->link);
    dgram->body = (struct us_chunk *)U_NULL;
    dgram->last = (struct us_chunk *)U_NULL;
    dgram->bytes = 0;
    dgram->src_ip = src_ip;
    dgram->dst_ip = dst_ip;
    dgram->protocol = (u_u8)protocol;
    return dgram;
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

    while (len > 0) {
        u_u32 n;

        if (dgram->last == U_NULL || dgram->last->room == 0) {
            struct us_chunk *chunk = us_block_get(stack, dgram->bytes);
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

static void dgram_build(struct us_stack *stack, struct us_dgram *dgram, struct us_pkt *pkt,
                        const u_u8 *mac)
{
    u_u8 *ip = pkt->data + US_ETH_HDR_BYTES;
    u_u8 *to = ip + US_IP4_HDR_BYTES;
    const struct us_chunk *chunk;

    us_eth_build(stack, pkt->data, mac, US_ETH_IP4);
    us_ip4_build(ip, dgram->src_ip, dgram->dst_ip, dgram->protocol);
    for (chunk = dgram->body; chunk != U_NULL; chunk = chunk->next) {
        u_copy(to, chunk->data, chunk->len);
        to += chunk->len;
    }
    pkt->flags = 0;
    us_ip4_finish(stack, pkt, US_IP4_HDR_BYTES + dgram->bytes,
                  u_cksum_add(0, ip, US_IP4_HDR_BYTES));
}

/* The neighbour to send it to now; null if it waits for one or was dropped. */
static struct us_neighbour *dgram_next_hop(struct us_stack *stack, struct us_dgram *dgram)
{
    struct us_neighbour *neighbour = (struct us_neighbour *)U_NULL;
    struct us_route route;

    if (us_route_find(stack, dgram->dst_ip, &route))
        neighbour = us_arp_want(stack, route.next_hop);
    if (neighbour == U_NULL) {
        us_count(stack, US_C_DROP_DATAGRAM_NO_HOP);
        dgram_free(stack, dgram);
        return neighbour;
    }
    if (us_neighbour_use(stack, neighbour))
        return neighbour;
    u_list_push_back(&neighbour->dgrams, &dgram->link);
    return (struct us_neighbour *)U_NULL;
}

int us_dgram_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct u_list *link;

    while ((link = u_list_pop_front(&stack->dgrams.ready)) != U_NULL) {
        struct us_dgram *dgram = U_CONTAINER_OF(link, struct us_dgram, link);
        struct us_neighbour *neighbour = dgram_next_hop(stack, dgram);

        if (neighbour != U_NULL) {
            dgram_build(stack, dgram, pkt, neighbour->mac);
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
