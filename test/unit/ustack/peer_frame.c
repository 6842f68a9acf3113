/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of a peer; see peer_frame.h. */
#include "peer_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "craft.h"
#include "ustack/core/instance.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp.h"

struct us_tcp_hdr *frame_tcp(struct frame *f)
{
    return (struct us_tcp_hdr *)(f->bytes + f->l4);
}

static struct us_ip4_hdr *frame_ip4(struct frame *f)
{
    return (struct us_ip4_hdr *)(f->bytes + f->l3);
}

void frame_sum(const struct lockstep *t, struct frame *f)
{
    struct us_tcp_hdr *tcp = frame_tcp(f);
    u_u32 bytes;
    u_u32 sum;

    tcp->checksum = u_be16(0);
    if (t->shape.ip6) {
        struct us_ip6_hdr *ip = (struct us_ip6_hdr *)(f->bytes + f->l3);
        bytes = u_get_be16(ip->payload_bytes);
        sum = u_cksum_pseudo6(ip->src.b, ip->dst.b, US_IP_TCP, bytes);
    } else {
        struct us_ip4_hdr *ip = frame_ip4(f);
        bytes = (u_u32)(u_get_be16(ip->total_bytes) - US_IP4_HDR_BYTES);
        sum = u_cksum_pseudo4(ip->src, ip->dst, US_IP_TCP, bytes);
        ip->checksum = u_be16(0);
        ip->checksum = u_be16(u_cksum_finish(u_cksum_add(0, ip, US_IP4_HDR_BYTES)));
    }
    if (bytes > FRAME_BYTES - f->l4)
        return; /* an invalid length field */
    tcp->checksum = u_be16(u_cksum_finish(u_cksum_add(sum, tcp, bytes)));
}

void frame_headers(const struct lockstep *t, struct frame *f, u_u32 l4_bytes)
{
    struct us_eth_hdr *eth = (struct us_eth_hdr *)f->bytes;
    unsigned type = t->shape.ip6 ? US_ETH_IP6 : US_ETH_IP4;
    struct u_be16 tag[2];

    memset(f, 0, sizeof(*f));
    memcpy(eth->dst, raw_our_mac, 6);
    memcpy(eth->src, raw_peer_mac, 6);
    eth->type = u_be16(type);
    f->l3 = US_ETH_HDR_BYTES;
    if (t->shape.vlan_id != 0) {
        eth->type = u_be16(US_ETH_VLAN);
        tag[0] = u_be16(t->shape.vlan_id | 3 << 13); /* and a priority */
        tag[1] = u_be16(type);
        memcpy(f->bytes + f->l3, tag, sizeof(tag));
        f->l3 += US_VLAN_TAG_BYTES;
    }
    if (t->shape.ip6) {
        struct us_ip6_hdr *ip = (struct us_ip6_hdr *)(f->bytes + f->l3);
        us_ip6_build(f->bytes + f->l3, &craft_peer6, &craft_local6, US_IP_TCP, 64);
        ip->payload_bytes = u_be16(l4_bytes);
        f->l4 = f->l3 + US_IP6_HDR_BYTES;
    } else {
        us_ip4_build(f->bytes + f->l3, RAW_PEER_IP, RAW_LOCAL_IP, US_IP_TCP);
        frame_ip4(f)->total_bytes = u_be16(US_IP4_HDR_BYTES + l4_bytes);
        f->l4 = f->l3 + US_IP4_HDR_BYTES;
    }
    f->len = f->l4 + l4_bytes;
}

void frame_segment(struct lockstep *t, struct frame *f, struct peer *peer, unsigned flags,
                   u_u32 seq, u_u32 ack, u_u32 len)
{
    u_u32 hdr_bytes = US_TCP_HDR_BYTES;
    struct us_tcp_opts opts;
    struct us_tcp_hdr *tcp;
    u_u8 *options;
    u_u32 i;

    memset(&opts, 0, sizeof(opts));
    opts.has_ts = (u_u8)t->shape.timestamps;
    opts.ts_val = peer->ts_val++;
    opts.ts_ecr = peer->conn[LOCKSTEP_GENERAL] == NULL
                      ? 0
                      : us_ts_clock(t->now_us) + peer->conn[LOCKSTEP_GENERAL]->ts_offset;
    if (flags & US_TCP_SYN) {
        opts.mss = 1000;
        opts.has_scale = 1;
        opts.scale = 7;
        opts.sack_permitted = 1;
    }
    hdr_bytes += (opts.has_ts ? 12u : 0) + (flags & US_TCP_SYN ? 12u - (opts.has_ts ? 4u : 0) : 0);
    frame_headers(t, f, hdr_bytes + len);
    options = f->bytes + f->l4 + US_TCP_HDR_BYTES;
    assert_int_equal(us_tcp_opts_emit(&opts, options), hdr_bytes - US_TCP_HDR_BYTES);
    if (opts.has_ts && !(flags & US_TCP_SYN)) {
        assert_int_equal(options[0], 1);
        assert_int_equal(options[2], 8);
    }
    tcp = frame_tcp(f);
    tcp->src_port = u_be16(peer->port);
    tcp->dst_port = u_be16(RAW_PORT);
    tcp->seq = u_be32(seq);
    tcp->ack = u_be32(ack);
    tcp->offset = (u_u8)(hdr_bytes << 2);
    tcp->flags = (u_u8)flags;
    tcp->window = u_be16(500 + lockstep_below(t, 500));
    for (i = 0; i < len; i++)
        f->bytes[f->l4 + hdr_bytes + i] = (u_u8)lockstep_below(t, 256);
    frame_sum(t, f);
}
