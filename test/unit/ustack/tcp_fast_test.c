/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path against the slow one: two instances with the same secret get the same frames and
 * calls at the same times, one of them with the fast path switched off. Every event, every frame
 * they send, every counter and the state of their connections must be the same at each step. The
 * frames are what header prediction expects and near misses of each of its predicates.
 */
#include "base/cksum.h"
#include "base/prng.h"
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"
#include "ustack/tcp_steady.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FAST, SLOW, WORLDS };
enum { PEERS = 4, PORT = 11211, FRAME_BYTES = 2048, BURST = 8, SEEDS = 60, STEPS = 400 };

/* What all frames of a test have. */
struct shape {
    int ip6;
    int timestamps;
    unsigned vlan_id;
    u_u32 caps;
    u_u32 nagle;
    u_u32 cc;
};

/* The other end of one connection, as the test plays it. */
struct peer {
    struct us_conn *conn[WORLDS]; /* null: there is none now */
    u_u16 port;
    u_u32 ts_val;
};

struct twins {
    struct us_stack *stack[WORLDS];
    void *memory[WORLDS];
    struct shape shape;
    struct peer peers[PEERS];
    struct u_prng prng;
    u_u64 now_us;
    u_u16 next_port;
    unsigned replies;
    unsigned long steady; /* how often a connection was found to be it altogether */
    unsigned long usual;  /* and to be one of those that nearly all are */
};

static const u_u8 local_mac[6] = {2, 0, 0, 0, 0, 1};
static const u_u8 peer_mac[6] = {2, 0, 0, 0, 0, 2};
static const struct us_ip6 local6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
static const struct us_ip6 peer6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
static u_u8 lent[8192]; /* what is sent by reference */

static u_u32 below(struct twins *t, u_u32 n)
{
    return u_prng_below(&t->prng, n);
}

static int one_in(struct twins *t, u_u32 n)
{
    return below(t, n) == 0;
}

/* ---- frames ---- */

struct frame {
    u_u8 bytes[FRAME_BYTES];
    u_u32 len;
    u_u32 flags; /* of the packet */
    u_u32 l3;    /* where the headers are */
    u_u32 l4;
    int chained;
};

static struct us_tcp_hdr *frame_tcp(struct frame *f)
{
    return (struct us_tcp_hdr *)(f->bytes + f->l4);
}

static struct us_ip4_hdr *frame_ip4(struct frame *f)
{
    return (struct us_ip4_hdr *)(f->bytes + f->l3);
}

/* Makes both checksums right. */
static void frame_sum(const struct twins *t, struct frame *f)
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
        ip->checksum = u_be16(u_cksum_fold(u_cksum_add(0, ip, US_IP4_HDR_BYTES)));
    }
    if (bytes > FRAME_BYTES - f->l4)
        return; /* a length that lies */
    tcp->checksum = u_be16(u_cksum_fold(u_cksum_add(sum, tcp, bytes)));
}

static void frame_headers(const struct twins *t, struct frame *f, u_u32 l4_bytes)
{
    struct us_eth_hdr *eth = (struct us_eth_hdr *)f->bytes;
    unsigned type = t->shape.ip6 ? US_ETH_IP6 : US_ETH_IP4;
    struct u_be16 tag[2];

    memset(f, 0, sizeof(*f));
    memcpy(eth->dst, local_mac, 6);
    memcpy(eth->src, peer_mac, 6);
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
        us_ip6_build(f->bytes + f->l3, &peer6, &local6, US_IP_TCP, 64);
        ip->payload_bytes = u_be16(l4_bytes);
        f->l4 = f->l3 + US_IP6_HDR_BYTES;
    } else {
        us_ip4_build(f->bytes + f->l3, 0x0a000002, 0x0a000001, US_IP_TCP);
        frame_ip4(f)->total_bytes = u_be16(US_IP4_HDR_BYTES + l4_bytes);
        f->l4 = f->l3 + US_IP4_HDR_BYTES;
    }
    f->len = f->l4 + l4_bytes;
}

/* A segment of this peer as it has to be, with `len` bytes of payload. */
static void frame_segment(struct twins *t, struct frame *f, struct peer *peer, unsigned flags,
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
    opts.ts_ecr =
        peer->conn[SLOW] == NULL ? 0 : us_ts_clock(t->now_us) + peer->conn[SLOW]->ts_offset;
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
    tcp->dst_port = u_be16(PORT);
    tcp->seq = u_be32(seq);
    tcp->ack = u_be32(ack);
    tcp->offset = (u_u8)(hdr_bytes << 2);
    tcp->flags = (u_u8)flags;
    tcp->window = u_be16(500 + below(t, 500));
    for (i = 0; i < len; i++)
        f->bytes[f->l4 + hdr_bytes + i] = (u_u8)below(t, 256);
    frame_sum(t, f);
}

/* ---- both at once ---- */

static void same_settled_conn(const struct us_conn *a, const struct us_conn *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->out_flags, b->out_flags);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->ecn, b->ecn);
    assert_int_equal(a->retries, b->retries);
    assert_int_equal(a->segs_unacked, b->segs_unacked);
    assert_int_equal(a->quick_acks, b->quick_acks);
    assert_int_equal(a->rcv_nxt, b->rcv_nxt);
    assert_int_equal(a->rcv_adv, b->rcv_adv);
    assert_int_equal(a->rcv_queued, b->rcv_queued);
    assert_int_equal(a->snd_una, b->snd_una);
    assert_int_equal(a->snd_nxt, b->snd_nxt);
    assert_int_equal(a->snd_max, b->snd_max);
    assert_int_equal(a->snd_end, b->snd_end);
    assert_int_equal(a->snd_wnd, b->snd_wnd);
    assert_int_equal(a->snd_wnd_max, b->snd_wnd_max);
    assert_int_equal(a->snd_wl1, b->snd_wl1);
    assert_int_equal(a->snd_wl2, b->snd_wl2);
    assert_int_equal(a->ts_recent, b->ts_recent);
    assert_int_equal(a->last_ack, b->last_ack);
    assert_int_equal(a->cc.cwnd, b->cc.cwnd);
    assert_int_equal(a->cc.credit, b->cc.credit);
    assert_int_equal(a->recover, b->recover);
    assert_int_equal(a->limited, b->limited);
    assert_memory_equal(&a->rtt, &b->rtt, U_OFFSET_OF(struct us_tcp_rtt, backoff) + 1);
    assert_int_equal(a->rtt_seq, b->rtt_seq);
    assert_true(a->rtt_from_us == b->rtt_from_us && a->sent_us == b->sent_us);
    /* While nothing happens what counts is when something was heard. */
    assert_true(a->heard_us == b->heard_us);
    assert_true(a->main_us == b->main_us || (a->main_timer == US_TT_KEEP && a->retries == 0));
    assert_true(a->ack_us == b->ack_us && a->patience.owed_us == b->patience.owed_us);
    assert_int_equal(a->main_timer, b->main_timer);
    assert_int_equal(a->rec.prompt, b->rec.prompt);
    assert_int_equal(a->rec.tails, b->rec.tails);
    assert_true(a->bytes_in == b->bytes_in && a->bytes_out == b->bytes_out);
    assert_int_equal(a->sendq.copied, b->sendq.copied);
    assert_int_equal(a->sendq.refs, b->sendq.refs);
}

/* The same of connections, of which the first may be steady: it is left as it is. */
static void same_conn(const struct us_conn *fast, const struct us_conn *slow)
{
    struct us_conn settled = *fast;

    assert_int_equal(slow->steady, US_STEADY_NOT);
    us_conn_settle(&settled);
    same_settled_conn(&settled, slow);
}

/* All that can be seen of both from outside, and what will be seen later. */
static void same_state(struct twins *t)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++)
        if (strncmp(us_counter_name(i), "tcp_fast_", 9) != 0 &&
            us_counter(t->stack[FAST], i) != us_counter(t->stack[SLOW], i))
            fail_msg("%s: %lu with the fast path, %lu without", us_counter_name(i),
                     (unsigned long)us_counter(t->stack[FAST], i),
                     (unsigned long)us_counter(t->stack[SLOW], i));
    for (i = 0; i < PEERS; i++)
        if (t->peers[i].conn[SLOW] != NULL) {
            t->steady += t->peers[i].conn[FAST]->steady >= US_STEADY_ALL;
            t->usual += t->peers[i].conn[FAST]->steady == US_STEADY_USUAL;
            same_conn(t->peers[i].conn[FAST], t->peers[i].conn[SLOW]);
        }
    for (i = 0; i < WORLDS; i++) {
        const char *broken = us_check(t->stack[i]);
        if (broken != NULL)
            fail_msg("us_check of %d: %s", i, broken);
    }
    assert_int_equal(t->stack[SLOW]->counters[US_C_TCP_FAST_PATH], 0);
    assert_int_equal(t->stack[SLOW]->counters[US_C_TCP_FAST_SENT], 0);
}

static struct peer *peer_of(struct twins *t, int world, const struct us_conn *conn)
{
    unsigned i;

    for (i = 0; i < PEERS; i++)
        if (t->peers[i].conn[world] == conn)
            return &t->peers[i];
    return NULL;
}

/* What the application does with data: mostly it answers, in one of the ways to do that. */
static void on_data(struct twins *t, const struct us_event *ev)
{
    u_u32 what = below(t, 12);
    u_u32 len = one_in(t, 20) ? 1 + below(t, 4000) : 1 + below(t, 80);
    u_u8 text[4000];
    int w;

    for (w = 0; w < (int)sizeof(text); w++)
        text[w] = (u_u8)(t->replies + (unsigned)w);
    t->replies++;
    for (w = 0; w < WORLDS; w++) {
        u_u32 room = 0;
        u_u8 *at;

        switch (what) {
        case 0:
            break;
        case 1:
            (void)us_recv_keep(t->stack[w], ev[w].conn, ev[w].data, ev[w].len);
            break;
        case 2:
            (void)us_send_ref(t->stack[w], ev[w].conn, lent, len + 600, NULL);
            break;
        case 3:
        case 4:
        case 5:
            (void)us_send(t->stack[w], ev[w].conn, text, len);
            break;
        default:
            at = us_reserve(t->stack[w], ev[w].conn, 100, &room);
            if (at == NULL)
                break;
            memcpy(at, text, 100);
            us_commit(t->stack[w], ev[w].conn, len > 100 ? 100 : len);
            break;
        }
    }
}

static void on_event(struct twins *t, const struct us_event *ev)
{
    struct peer *peer = NULL;
    int w;

    switch (ev->type) {
    case US_EV_ACCEPTED:
        /* The one that has asked last: it is without a connection, and its port is the newest. */
        for (w = 0; w < PEERS; w++)
            if (t->peers[w].conn[SLOW] == NULL &&
                t->peers[w].port == ev[SLOW].conn->key.remote_port)
                peer = &t->peers[w];
        for (w = 0; w < WORLDS && peer != NULL; w++)
            peer->conn[w] = ev[w].conn;
        for (w = 0; w < WORLDS && peer == NULL; w++)
            us_abort(t->stack[w], ev[w].conn);
        break;
    case US_EV_DATA:
        on_data(t, ev);
        break;
    case US_EV_PEER_CLOSED:
        for (w = 0; w < WORLDS; w++)
            (void)us_close(t->stack[w], ev[w].conn);
        break;
    case US_EV_CLOSED:
        peer = peer_of(t, SLOW, ev[SLOW].conn);
        if (peer != NULL)
            peer->conn[FAST] = peer->conn[SLOW] = NULL;
        break;
    default:
        break;
    }
}

static void take_events(struct twins *t)
{
    for (;;) {
        struct us_event ev[WORLDS];
        int some = us_next_event(t->stack[FAST], &ev[FAST]);

        assert_int_equal(us_next_event(t->stack[SLOW], &ev[SLOW]), some);
        if (!some)
            return;
        assert_int_equal(ev[FAST].type, ev[SLOW].type);
        assert_int_equal(ev[FAST].reason, ev[SLOW].reason);
        if (ev[SLOW].type == US_EV_DATA) {
            assert_int_equal(ev[FAST].len, ev[SLOW].len);
            assert_memory_equal(ev[FAST].data, ev[SLOW].data, ev[SLOW].len);
        }
        if (ev[SLOW].type != US_EV_RELEASED)
            on_event(t, ev);
    }
}

/* Frames of several segments are compared as what goes over the wire. */
static u_u32 flatten(const struct us_pkt *pkt, u_u8 *to)
{
    u_u32 len = 0;

    for (; pkt != NULL; pkt = pkt->next_seg) {
        memcpy(to + len, pkt->data, pkt->len);
        len += pkt->len;
    }
    return len;
}

static void take_frames(struct twins *t)
{
    static u_u8 room[WORLDS][FRAME_BYTES];
    static u_u8 wire[WORLDS][4 * FRAME_BYTES];
    unsigned n = 1;

    while (n != 0) {
        struct us_pkt pkt[WORLDS];
        u_u32 len[WORLDS];
        int w;

        for (w = 0; w < WORLDS; w++) {
            struct us_pkt *list = &pkt[w];
            unsigned filled;
            memset(&pkt[w], 0, sizeof(pkt[w]));
            pkt[w].data = room[w];
            pkt[w].room = FRAME_BYTES;
            filled = us_output(t->stack[w], &list, 1, t->now_us);
            assert_true(w == 0 || filled == n);
            n = filled;
            len[w] = filled ? flatten(&pkt[w], wire[w]) : 0;
        }
        assert_int_equal(len[FAST], len[SLOW]);
        assert_memory_equal(wire[FAST], wire[SLOW], len[SLOW]);
        assert_int_equal(pkt[FAST].flags, pkt[SLOW].flags);
        assert_int_equal(pkt[FAST].csum_start, pkt[SLOW].csum_start);
        assert_int_equal(pkt[FAST].csum_offset, pkt[SLOW].csum_offset);
        assert_int_equal(pkt[FAST].l2_len, pkt[SLOW].l2_len);
        assert_int_equal(pkt[FAST].l3_len, pkt[SLOW].l3_len);
        assert_int_equal(pkt[FAST].l4_len, pkt[SLOW].l4_len);
    }
}

/* Gives the frames to both and lets both do what follows from them. */
static void both_input(struct twins *t, const struct frame *frames, unsigned n)
{
    static struct frame copies[WORLDS][BURST];
    static struct us_pkt empty;
    int w;

    for (w = 0; w < WORLDS; w++) {
        struct us_pkt pkts[BURST];
        struct us_pkt *list[BURST];
        unsigned i;

        for (i = 0; i < n; i++) {
            copies[w][i] = frames[i];
            memset(&pkts[i], 0, sizeof(pkts[i]));
            pkts[i].data = copies[w][i].bytes;
            pkts[i].len = frames[i].len;
            pkts[i].flags = frames[i].flags;
            pkts[i].next_seg = frames[i].chained ? &empty : NULL;
            list[i] = &pkts[i];
        }
        assert_int_equal(us_input(t->stack[w], list, n, t->now_us), n);
    }
    take_events(t);
    take_frames(t);
    same_state(t);
    assert_true(us_deadline(t->stack[FAST]) == us_deadline(t->stack[SLOW]));
}

/* ---- near misses ---- */

enum { BENDS = 30 };

/* Changes what TCP's header says. */
static void bend_tcp(struct twins *t, struct frame *f, u_u32 how)
{
    struct us_tcp_hdr *tcp = frame_tcp(f);
    u_u8 *options = f->bytes + f->l4 + US_TCP_HDR_BYTES;

    switch (how) {
    case 0:
        tcp->seq = u_be32(u_get_be32(tcp->seq) - 1 - below(t, 40));
        break;
    case 1:
        tcp->seq = u_be32(u_get_be32(tcp->seq) + 1 + below(t, one_in(t, 2) ? 40 : 400000));
        break;
    case 2:
        tcp->ack = u_be32(u_get_be32(tcp->ack) - 1 - below(t, one_in(t, 2) ? 40 : 400000));
        break;
    case 3:
        tcp->ack = u_be32(u_get_be32(tcp->ack) + 1 + below(t, 40));
        break;
    case 4:
        tcp->window = u_be16(one_in(t, 3) ? 0 : 3 * below(t, 4)); /* a segment is 8 of them */
        break;
    case 5:
        tcp->flags ^= (u_u8)(1u << below(t, 8));
        break;
    case 6: /* an old timestamp, or one that wraps */
        options[4] ^= (u_u8)(one_in(t, 2) ? 0x80 : 0xff);
        break;
    case 7:
        options[below(t, 4)] ^= (u_u8)(1u << below(t, 4));
        break;
    case 8: /* no options, or what was payload becomes some */
        tcp->offset = (u_u8)(tcp->offset + (one_in(t, 2) ? 0x10 : -0x10));
        break;
    case 9:
        tcp->offset ^= (u_u8)(1u << below(t, 4));
        break;
    case 10:
        tcp->urgent = u_be16(1 + below(t, 9));
        break;
    case 11:
        tcp->src_port = u_be16(below(t, 65536));
        break;
    case 12:
        tcp->dst_port = u_be16(one_in(t, 2) ? 0 : PORT + 1);
        break;
    default:
        break;
    }
    frame_sum(t, f);
}

/* Changes what IP's header says. */
static void bend_ip(struct twins *t, struct frame *f, u_u32 how)
{
    u_u8 *ip = f->bytes + f->l3;

    switch (how) {
    case 13: /* ECN, DSCP or traffic class */
        ip[1] ^= (u_u8)(t->shape.ip6 ? 0x10u << below(t, 4) : 1u << below(t, 8));
        break;
    case 14:
        ip[1] |= (u_u8)(t->shape.ip6 ? 0x30 : 3);
        break;
    case 15: /* version, or the length of the header */
        ip[0] ^= (u_u8)(1u << below(t, 8));
        break;
    case 16: /* a fragment, or a flow label */
        ip[t->shape.ip6 ? 2 : 6] ^= (u_u8)(0x80u >> below(t, 4));
        break;
    case 17:
        ip[t->shape.ip6 ? 3 : 7] ^= (u_u8)(1u << below(t, 8));
        break;
    case 18: /* the length */
        ip[t->shape.ip6 ? 5 : 3] ^= (u_u8)(1u << below(t, 8));
        break;
    case 19: /* the protocol */
        ip[t->shape.ip6 ? 6 : 9] ^= (u_u8)(1u << below(t, 8));
        break;
    case 20: /* the source */
        ip[t->shape.ip6 ? 8 + below(t, 16) : 12 + below(t, 4)] ^= (u_u8)(1u << below(t, 8));
        break;
    case 21: /* the destination */
        ip[t->shape.ip6 ? 24 + below(t, 16) : 16 + below(t, 4)] ^= (u_u8)(1u << below(t, 8));
        break;
    default: /* how far it may go on */
        ip[t->shape.ip6 ? 7 : 8] ^= (u_u8)(1u << below(t, 8));
        break;
    }
    frame_sum(t, f);
}

/* Changes the frame around it, or damages it. */
static void bend_frame(struct twins *t, struct frame *f, u_u32 how)
{
    switch (how) {
    case 23:
        f->bytes[6 + below(t, 6)] ^= (u_u8)(1u << below(t, 8));
        break;
    case 24:
        f->bytes[below(t, 6)] ^= (u_u8)(1u << below(t, 8));
        break;
    case 25: /* the type, or the tag */
        f->bytes[12 + below(t, f->l3 - 12)] ^= (u_u8)(1u << below(t, 8));
        break;
    case 26: /* cut off, or with something behind it */
        f->len = one_in(t, 2) ? below(t, f->len) : f->len + below(t, 40);
        break;
    case 27: /* damaged on the way; the device may have noticed */
        f->bytes[f->l3 + below(t, f->len - f->l3)] ^= (u_u8)(1u << below(t, 8));
        f->flags = below(t, 16);
        break;
    case 28:
        f->chained = 1;
        break;
    default:
        f->flags = below(t, 16);
        break;
    }
}

static void bend(struct twins *t, struct frame *f)
{
    u_u32 how = below(t, BENDS);

    if (how < 13)
        bend_tcp(t, f, how);
    else if (how < 23)
        bend_ip(t, f, how);
    else
        bend_frame(t, f, how);
}

/* ---- the traffic ---- */

static void open_peer(struct twins *t, struct peer *peer)
{
    struct frame f;
    u_u32 seq = below(t, 0xffffffff);
    const struct us_conn *conn;
    struct us_tcp_key key;

    peer->port = t->next_port++;
    frame_segment(t, &f, peer, US_TCP_SYN, seq, 0, 0);
    both_input(t, &f, 1);
    key.local_ip = t->shape.ip6 ? us_local6_find(t->stack[SLOW], &local6) : 0x0a000001;
    key.remote_ip = t->shape.ip6 ? us_ip6_id(t->stack[SLOW], &peer6) : 0x0a000002;
    key.local_port = PORT;
    key.remote_port = peer->port;
    conn = us_tcp_find(t->stack[SLOW], &key, t->shape.ip6 ? &peer6 : NULL);
    assert_non_null(conn);
    frame_segment(t, &f, peer, US_TCP_ACK, seq + 1, conn->snd_max, 0);
    both_input(t, &f, 1);
    assert_non_null(peer->conn[SLOW]);
}

/* The next segment of a peer: data, an acknowledgment or both, of all or a part. */
static void next_segment(struct twins *t, struct frame *f, struct peer *peer, u_u32 *ahead)
{
    const struct us_conn *conn = peer->conn[SLOW];
    u_u32 len = one_in(t, 5) ? 0 : one_in(t, 20) ? below(t, 1400) : 1 + below(t, 60);
    u_u32 in_flight = conn->snd_max - conn->snd_una;
    u_u32 ack = conn->snd_max - (one_in(t, 4) ? below(t, in_flight + 1) : 0);

    frame_segment(t, f, peer, US_TCP_ACK | (one_in(t, 2) ? (int)US_TCP_PSH : 0),
                  conn->rcv_nxt + *ahead, ack, len);
    *ahead += len;
    if (one_in(t, 30))
        f->len = f->len < 60 ? 60 : f->len; /* padding of Ethernet */
    if (t->shape.caps & US_CAP_RX_CSUM)
        f->flags = US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
}

/* Calls that come without an event. */
static void random_call(struct twins *t, struct peer *peer)
{
    u_u32 what = below(t, 100);
    u_u32 len = 1 + below(t, 3000);
    static u_u8 zeros[3000];
    int w;

    for (w = 0; w < WORLDS; w++) {
        struct us_conn *conn = peer->conn[w];
        switch (what) {
        case 0:
            (void)us_send(t->stack[w], conn, zeros, len);
            break;
        case 1:
            (void)us_close(t->stack[w], conn);
            break;
        case 2:
            us_abort(t->stack[w], conn);
            break;
        case 3:
            (void)us_keepalive(t->stack[w], conn, 100, 50, 3);
            break;
        case 4:
            us_user_timeout(t->stack[w], conn, len);
            break;
        case 5:
            us_conn_set_nodelay(t->stack[w], conn, (int)len & 1);
            break;
        default:
            us_recv_resume(t->stack[w], conn);
            break;
        }
    }
}

static void step(struct twins *t)
{
    static const u_u32 pauses_us[] = {0, 10, 10, 100, 1000, 1000, 12000, 400000};
    struct peer *peer = &t->peers[below(t, PEERS)];
    static struct frame frames[BURST];
    unsigned n = one_in(t, 3) ? 1 + below(t, BURST - 1) : 1;
    int quiet = t->now_us >> 20 & 1; /* now many near misses, now few */
    u_u32 ahead = 0;
    unsigned i;

    t->now_us += pauses_us[below(t, U_ARRAY_LEN(pauses_us))];
    if (one_in(t, 50)) {
        both_input(t, NULL, 0);
        return;
    }
    if (peer->conn[SLOW] == NULL) {
        open_peer(t, peer);
        return;
    }
    if (one_in(t, 4))
        random_call(t, peer);
    if (peer->conn[SLOW] == NULL || peer->conn[SLOW]->state == US_TCP_CLOSED)
        n = 0;
    for (i = 0; i < n; i++) {
        next_segment(t, &frames[i], peer, &ahead);
        if (one_in(t, quiet ? 20 : 4))
            bend(t, &frames[i]);
    }
    both_input(t, frames, n);
}

/* ---- instances ---- */

/* Says where the peer is: by ARP, or over IPv6 by a solicitation that carries its address. */
static void introduce_peer(struct twins *t)
{
    static const u_u8 arp[28] = {0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 2,
                                 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};
    struct frame f;

    frame_headers(t, &f, sizeof(arp));
    f.bytes[f.l3 - 2] = 8;
    f.bytes[f.l3 - 1] = 6;
    memcpy(f.bytes + f.l3, arp, sizeof(arp));
    f.len = f.l3 + (u_u32)sizeof(arp);
    if (!t->shape.ip6)
        both_input(t, &f, 1);
}

static void twins_open(struct twins *t, const struct shape *shape, u_u32 seed)
{
    struct us_config config;
    struct us_addr addr;
    unsigned long bytes;
    int w;

    memset(t, 0, sizeof(*t));
    t->shape = *shape;
    t->now_us = 7000000;
    t->next_port = (u_u16)(2000 + seed % 1000);
    u_prng_seed(&t->prng, seed);
    us_config_defaults(&config);
    memcpy(config.mac, local_mac, 6);
    memset(config.secret, (int)seed & 0xff, sizeof(config.secret));
    config.conn_max = 16;
    config.time_wait_max = 16;
    config.buffer_bytes = seed % 4 == 0 ? 12 * 2048 : 1u << 20; /* some are short of memory */
    config.send_queue_bytes = 6000;
    config.recv_window_bytes = seed % 3 == 0 ? 5000 : 100000;
    config.caps = shape->caps;
    config.vlan_id = shape->vlan_id;
    config.nagle = shape->nagle;
    config.cc = shape->cc;
    config.dad_probes = 0;
    config.reply_to_sender = (u_u32)shape->ip6;
    memset(&addr, 0, sizeof(addr));
    addr.family = shape->ip6 ? US_IP6 : US_IP4;
    if (shape->ip6)
        memcpy(addr.bytes, local6.b, 16);
    else
        memcpy(addr.bytes, "\x0a\x00\x00\x01", 4);
    bytes = us_memory_bytes(&config);
    assert_true(bytes > 0);
    for (w = 0; w < WORLDS; w++) {
        t->memory[w] = calloc(1, bytes);
        t->stack[w] = us_create(&config, t->memory[w], bytes, t->now_us);
        assert_non_null(t->stack[w]);
        t->stack[w]->slow_only = (u_u8)(w == SLOW);
        assert_int_equal(us_addr_add(t->stack[w], &addr, shape->ip6 ? 0 : 24), 0);
        assert_int_equal(us_listen(t->stack[w], PORT, NULL), 0);
    }
    both_input(t, NULL, 0);
    introduce_peer(t);
}

static void run(const struct shape *shape)
{
    struct twins t;
    u_u64 fast = 0;
    u_u64 sent = 0;
    u_u64 all = 0;
    unsigned long steady = 0;
    unsigned long usual = 0;
    u_u32 seed;
    int w;

    for (seed = 0; seed < SEEDS; seed++) {
        unsigned i;
        twins_open(&t, shape, seed);
        for (i = 0; i < STEPS; i++)
            step(&t);
        fast += t.stack[FAST]->counters[US_C_TCP_FAST_PATH];
        sent += t.stack[FAST]->counters[US_C_TCP_FAST_SENT];
        all += t.stack[FAST]->counters[US_C_TCP_RX_SEGMENTS];
        steady += t.steady;
        usual += t.usual;
        for (w = 0; w < WORLDS; w++)
            free(t.memory[w]);
    }
    assert_true(fast > all / 6); /* that it is taken at all, by what isn't bent or in trouble */
    assert_true(fast < all);
    assert_true(sent > all / 20);
    assert_true(shape->cc == US_CC_DCTCP ? steady == 0 : steady > 1000);
    assert_true(steady == 0 || shape->ip6 || shape->vlan_id || !shape->timestamps ? usual == 0
                                                                                  : usual > 1000);
}

static void ip4_with_timestamps(void **state)
{
    static const struct shape shape = {0, 1, 0, 0, 0, US_CC_CUBIC};
    run(&shape);
}

static void ip4_without_options(void **state)
{
    static const struct shape shape = {0, 0, 0, 0, 1, US_CC_RENO};
    run(&shape);
}

static void ip4_with_a_device_that_sums(void **state)
{
    static const struct shape shape = {
        0, 1,          0, US_CAP_RX_CSUM | US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM | US_CAP_TX_SG,
        0, US_CC_DCTCP};
    run(&shape);
}

static void ip4_with_a_device_that_sums_what_is_sent(void **state)
{
    static const struct shape all = {0, 1,          0, US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM,
                                     0, US_CC_CUBIC};
    static const struct shape tcp = {0, 1, 0, US_CAP_TX_L4_CSUM, 0, US_CC_CUBIC};
    static const struct shape ip = {0, 1, 0, US_CAP_TX_IP_CSUM, 0, US_CC_CUBIC};

    run(&all);
    run(&tcp);
    run(&ip);
}

static void ip4_in_a_vlan(void **state)
{
    static const struct shape shape = {0, 1, 0x123, 0, 0, US_CC_CUBIC};
    run(&shape);
}

static void ip6_with_timestamps(void **state)
{
    static const struct shape shape = {1, 1, 0, 0, 0, US_CC_CUBIC};
    run(&shape);
}

static void ip6_without_options(void **state)
{
    static const struct shape shape = {1, 0, 0, US_CAP_TX_L4_CSUM, 0, US_CC_RENO};
    run(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ip4_with_timestamps),
        cmocka_unit_test(ip4_without_options),
        cmocka_unit_test(ip4_with_a_device_that_sums),
        cmocka_unit_test(ip4_with_a_device_that_sums_what_is_sent),
        cmocka_unit_test(ip4_in_a_vlan),
        cmocka_unit_test(ip6_with_timestamps),
        cmocka_unit_test(ip6_without_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
