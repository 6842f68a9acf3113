/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds segments: the template of a connection, and frames from it; see tcp.h. */
#include "base/cksum.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_tso.h"

/*
 * RFC 6437: all packets of a flow carry one unpredictable label. The hash of the timestamp offset
 * has more bits than that offset reveals.
 */
static u_u32 flow_label(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return (u_u32)(u_siphash24(stack->key_ts, key, sizeof(*key)) >> 44);
}

/* The addresses and ports as they stand in the peer's packets. */
static void fill_tuple(u_u8 *tuple, const struct us_tcp_key *key)
{
    struct u_be32 ips[2];
    struct u_be16 ports[2];

    ips[0] = u_be32(key->remote_ip);
    ips[1] = u_be32(key->local_ip);
    ports[0] = u_be16(key->remote_port);
    ports[1] = u_be16(key->local_port);
    u_copy(tuple, ips, sizeof(ips));
    u_copy(tuple + sizeof(ips), ports, sizeof(ports));
}

void us_tcp_template_fill(const struct us_stack *stack, struct us_tcp_template *head,
                          const struct us_tcp_key *key, const struct us_ip6 *remote6)
{
    struct us_ip dst;
    struct u_be16 ports[2];
    u_u32 l3_bytes;

    dst.id = key->remote_ip;
    dst.six = remote6;
    l3_bytes = us_ip_build(stack, head->ip, key->local_ip, dst, US_IP_TCP);
    ports[0] = u_be16(key->local_port);
    ports[1] = u_be16(key->remote_port);
    u_copy(head->ip + l3_bytes, ports, sizeof(ports));
    head->pseudo_sum = (u_u16)us_ip_pseudo_sum(stack, key->local_ip, dst, US_IP_TCP, 0);
    head->ports_sum = (u_u16)u_cksum_add(head->pseudo_sum, ports, sizeof(ports));
    head->ip_sum = 0;
    if (remote6 == U_NULL) {
        head->ip_sum = (u_u16)u_cksum_add(0, head->ip, US_IP4_HDR_BYTES);
        fill_tuple(head->ip + US_TCP_TUPLE_AT, key);
    } else {
        u_u32 first = (u_u32)6 << 28 | flow_label(stack, key);
        ((struct us_ip6_hdr *)head->ip)->first = u_be32(first);
    }
}

unsigned us_tcp_template_ttl(const struct us_tcp_template *head)
{
    return head->ip[0] >> 4 == 4 ? ((const struct us_ip4_hdr *)head->ip)->ttl
                                 : ((const struct us_ip6_hdr *)head->ip)->hop_limit;
}

unsigned us_tcp_template_dscp(const struct us_tcp_template *head)
{
    unsigned traffic_class = head->ip[0] >> 4 == 4
                                 ? head->ip[1]
                                 : (unsigned)(head->ip[0] << 4 | head->ip[1] >> 4) & 0xff;

    return traffic_class >> 2;
}

void us_tcp_template_set(struct us_tcp_template *head, unsigned ttl, unsigned dscp)
{
    if (head->ip[0] >> 4 == 4) {
        ((struct us_ip4_hdr *)head->ip)->ttl = (u_u8)ttl;
        head->ip[1] = (u_u8)(dscp << 2);
        head->ip_sum = (u_u16)u_cksum_add(0, head->ip, US_IP4_HDR_BYTES);
    } else {
        ((struct us_ip6_hdr *)head->ip)->hop_limit = (u_u8)ttl;
        head->ip[0] = (u_u8)(6 << 4 | dscp >> 2);
        head->ip[1] = (u_u8)((head->ip[1] & 0x0f) | (dscp & 3) << 6);
    }
}

/* Sets the ECN field of an IP header (RFC 3168 section 5); returns the new sum over the header. */
static u_u32 build_ecn(u_u8 *ip, unsigned ecn, u_u32 ip_sum)
{
    struct u_be16 word = u_be16(ecn);

    if (ip[0] >> 4 == 6) {
        ip[1] = (u_u8)(ip[1] | ecn << 4);
        return ip_sum;
    }
    ip[1] = (u_u8)(ip[1] | ecn);
    return u_cksum_add(ip_sum, &word, sizeof(word));
}

/* Completes the IP header and the lengths of the packet. */
static void build_finish(struct us_stack *stack, struct us_pkt *pkt, u_u32 l3_bytes, u_u32 l4_bytes,
                         unsigned ecn, u_u32 ip_sum)
{
    if (U_UNLIKELY(ecn != 0))
        ip_sum = build_ecn(pkt->data + stack->l2_bytes, ecn, ip_sum);
    if (U_LIKELY(l3_bytes == US_IP4_HDR_BYTES))
        us_ip4_finish(stack, pkt, US_IP4_HDR_BYTES + l4_bytes, ip_sum);
    else
        us_ip6_finish(stack, pkt, l4_bytes);
}

void us_tcp_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *l2,
                  const struct us_tcp_template *head, const struct us_tcp_desc *desc,
                  struct us_sendq *sendq)
{
    u_u32 l3_bytes = us_tcp_template_l3_bytes(head);
    u_u32 l4_at = stack->l2_bytes + l3_bytes;
    u_u8 *l4 = pkt->data + l4_at;
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    int software = !(stack->config.caps & US_CAP_TX_L4_CSUM);
    struct u_be16 l4_len;
    u_u32 outside = 0;
    u_u32 hdr_bytes;
    u_u32 sum;

    /* A constant number of bytes is copied; later headers overwrite the excess. */
    u_copy(pkt->data, l2, US_L2_HDR_MAX);
    u_copy(pkt->data + stack->l2_bytes, head->ip, US_TCP_TEMPLATE_BYTES);
    hdr_bytes = US_TCP_HDR_BYTES + us_tcp_opts_emit(&desc->opts, l4 + US_TCP_HDR_BYTES);
    hdr->seq = u_be32(desc->seq);
    hdr->ack = u_be32(desc->ack);
    hdr->offset = (u_u8)(hdr_bytes << 2);
    hdr->flags = desc->flags;
    hdr->window = u_be16(desc->window);
    hdr->checksum = u_be16(0);
    hdr->urgent = u_be16(0);

    l4_len = u_be16(hdr_bytes + desc->len);
    sum = u_cksum_add(head->pseudo_sum, &l4_len, sizeof(l4_len));
    pkt->flags = 0;
    pkt->next_seg = (struct us_pkt *)U_NULL;
    if (!software) {
        pkt->flags = US_PKT_TX_L4_CSUM;
        pkt->csum_start = (u_u16)l4_at;
        pkt->csum_offset = 16;
        hdr->checksum = u_be16(u_cksum_partial(sum));
    } else {
        sum = u_cksum_add(sum, l4, hdr_bytes);
    }
    if (desc->len > 0)
        sum = us_tso_payload(stack, pkt, l4_at + hdr_bytes, desc, sendq, sum, software, &outside);
    if (software)
        hdr->checksum = u_be16(u_cksum_finish(sum));
    pkt->l4_len = (u_u8)hdr_bytes;
    if (desc->tso_mss != 0) {
        pkt->flags |= US_PKT_TX_TSO;
        pkt->tso_mss = desc->tso_mss;
    }
    build_finish(stack, pkt, l3_bytes, hdr_bytes + desc->len, desc->ecn, head->ip_sum);
    pkt->len -= outside;
    us_count(stack, US_C_TCP_TX_SEGMENTS);
    if (desc->flags & US_TCP_RST)
        us_count(stack, US_C_TCP_TX_RST);
}

void us_tcp_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply)
{
    struct us_tcp_template head;
    struct us_tcp_desc desc;
    struct us_tcp_key key;
    u_u8 l2[US_L2_HDR_MAX];

    key.local_ip = reply->src_ip;
    key.remote_ip = reply->dst_ip;
    key.local_port = reply->tcp.src_port;
    key.remote_port = reply->tcp.dst_port;
    us_tcp_template_fill(stack, &head, &key,
                         reply->is_ip6 ? &reply->dst6 : (const struct us_ip6 *)U_NULL);
    us_eth_build(stack, l2, reply->mac, reply->is_ip6 ? US_ETH_IP6 : US_ETH_IP4);
    u_zero(&desc, sizeof(desc));
    desc.seq = reply->tcp.seq;
    desc.ack = reply->tcp.ack;
    desc.window = reply->tcp.window;
    desc.flags = reply->tcp.flags;
    desc.opts.mss = reply->tcp.mss;
    desc.opts.has_scale = reply->tcp.has_scale;
    desc.opts.scale = reply->tcp.scale;
    desc.opts.sack_permitted = reply->tcp.sack_permitted;
    desc.opts.has_ts = reply->tcp.has_ts;
    desc.opts.ts_val = reply->tcp.ts_val;
    desc.opts.ts_ecr = reply->tcp.ts_ecr;
    us_tcp_build(stack, pkt, l2, &head, &desc, (struct us_sendq *)U_NULL);
}
