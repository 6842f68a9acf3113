/* SPDX-License-Identifier: BSD-3-Clause */
/* Two stacks that live the same life; see twins.h. */
#include "twins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft.h"
#include "peer_frame.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"
#include "ustack/tcp_steady.h"

static u_u8 lent[8192]; /* what is sent by reference */

/* ---- the comparison ---- */

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
            us_counter(t->stack[TWINS_FAST], i) != us_counter(t->stack[TWINS_SLOW], i))
            fail_msg("%s: %lu with the fast path, %lu without", us_counter_name(i),
                     (unsigned long)us_counter(t->stack[TWINS_FAST], i),
                     (unsigned long)us_counter(t->stack[TWINS_SLOW], i));
    for (i = 0; i < TWINS_PEERS; i++)
        if (t->peers[i].conn[TWINS_SLOW] != NULL) {
            t->steady += t->peers[i].conn[TWINS_FAST]->steady >= US_STEADY_ALL;
            t->usual += t->peers[i].conn[TWINS_FAST]->steady == US_STEADY_USUAL;
            same_conn(t->peers[i].conn[TWINS_FAST], t->peers[i].conn[TWINS_SLOW]);
        }
    for (i = 0; i < TWINS_WORLDS; i++) {
        const char *broken = us_check(t->stack[i]);
        if (broken != NULL)
            fail_msg("us_check of %d: %s", i, broken);
    }
    assert_int_equal(t->stack[TWINS_SLOW]->counters[US_C_TCP_FAST_PATH], 0);
    assert_int_equal(t->stack[TWINS_SLOW]->counters[US_C_TCP_FAST_SENT], 0);
}

/* ---- the application ---- */

static struct peer *peer_of(struct twins *t, int world, const struct us_conn *conn)
{
    unsigned i;

    for (i = 0; i < TWINS_PEERS; i++)
        if (t->peers[i].conn[world] == conn)
            return &t->peers[i];
    return NULL;
}

/* What the application does with data: mostly it answers, in one of the ways to do that. */
static void on_data(struct twins *t, const struct us_event *ev)
{
    u_u32 what = twins_below(t, 12);
    u_u32 len = twins_one_in(t, 20) ? 1 + twins_below(t, 4000) : 1 + twins_below(t, 80);
    u_u8 text[4000];
    int w;

    for (w = 0; w < (int)sizeof(text); w++)
        text[w] = (u_u8)(t->replies + (unsigned)w);
    t->replies++;
    for (w = 0; w < TWINS_WORLDS; w++) {
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
        for (w = 0; w < TWINS_PEERS; w++)
            if (t->peers[w].conn[TWINS_SLOW] == NULL &&
                t->peers[w].port == ev[TWINS_SLOW].conn->key.remote_port)
                peer = &t->peers[w];
        for (w = 0; w < TWINS_WORLDS && peer != NULL; w++)
            peer->conn[w] = ev[w].conn;
        for (w = 0; w < TWINS_WORLDS && peer == NULL; w++)
            us_abort(t->stack[w], ev[w].conn);
        break;
    case US_EV_DATA:
        on_data(t, ev);
        break;
    case US_EV_PEER_CLOSED:
        for (w = 0; w < TWINS_WORLDS; w++)
            (void)us_close(t->stack[w], ev[w].conn);
        break;
    case US_EV_CLOSED:
        peer = peer_of(t, TWINS_SLOW, ev[TWINS_SLOW].conn);
        if (peer != NULL)
            peer->conn[TWINS_FAST] = peer->conn[TWINS_SLOW] = NULL;
        break;
    default:
        break;
    }
}

/* ---- both at once ---- */

static void take_events(struct twins *t)
{
    for (;;) {
        struct us_event ev[TWINS_WORLDS];
        int some = us_next_event(t->stack[TWINS_FAST], &ev[TWINS_FAST]);

        assert_int_equal(us_next_event(t->stack[TWINS_SLOW], &ev[TWINS_SLOW]), some);
        if (!some)
            return;
        assert_int_equal(ev[TWINS_FAST].type, ev[TWINS_SLOW].type);
        assert_int_equal(ev[TWINS_FAST].reason, ev[TWINS_SLOW].reason);
        if (ev[TWINS_SLOW].type == US_EV_DATA) {
            assert_int_equal(ev[TWINS_FAST].len, ev[TWINS_SLOW].len);
            assert_memory_equal(ev[TWINS_FAST].data, ev[TWINS_SLOW].data, ev[TWINS_SLOW].len);
        }
        if (ev[TWINS_SLOW].type != US_EV_RELEASED)
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
    static u_u8 room[TWINS_WORLDS][FRAME_BYTES];
    static u_u8 wire[TWINS_WORLDS][4 * FRAME_BYTES];
    unsigned n = 1;

    while (n != 0) {
        struct us_pkt pkt[TWINS_WORLDS];
        u_u32 len[TWINS_WORLDS];
        int w;

        for (w = 0; w < TWINS_WORLDS; w++) {
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
        assert_int_equal(len[TWINS_FAST], len[TWINS_SLOW]);
        assert_memory_equal(wire[TWINS_FAST], wire[TWINS_SLOW], len[TWINS_SLOW]);
        assert_int_equal(pkt[TWINS_FAST].flags, pkt[TWINS_SLOW].flags);
        assert_int_equal(pkt[TWINS_FAST].csum_start, pkt[TWINS_SLOW].csum_start);
        assert_int_equal(pkt[TWINS_FAST].csum_offset, pkt[TWINS_SLOW].csum_offset);
        assert_int_equal(pkt[TWINS_FAST].l2_len, pkt[TWINS_SLOW].l2_len);
        assert_int_equal(pkt[TWINS_FAST].l3_len, pkt[TWINS_SLOW].l3_len);
        assert_int_equal(pkt[TWINS_FAST].l4_len, pkt[TWINS_SLOW].l4_len);
    }
}

void twins_input(struct twins *t, const struct frame *frames, unsigned n)
{
    static struct frame copies[TWINS_WORLDS][TWINS_BURST];
    static struct us_pkt empty;
    int w;

    for (w = 0; w < TWINS_WORLDS; w++) {
        struct us_pkt pkts[TWINS_BURST];
        struct us_pkt *list[TWINS_BURST];
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
    assert_true(us_deadline(t->stack[TWINS_FAST]) == us_deadline(t->stack[TWINS_SLOW]));
}

/* ---- instances ---- */

/* Says by ARP where the peer is. Over IPv6 what it sends says so (reply_to_sender). */
static void introduce_peer(struct twins *t)
{
    static const u_u8 arp[28] = {0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 2,
                                 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};
    struct frame f;

    if (t->shape.ip6)
        return;
    frame_headers(t, &f, sizeof(arp));
    f.bytes[f.l3 - 2] = 8;
    f.bytes[f.l3 - 1] = 6;
    memcpy(f.bytes + f.l3, arp, sizeof(arp));
    f.len = f.l3 + (u_u32)sizeof(arp);
    twins_input(t, &f, 1);
}

void twins_open(struct twins *t, const struct shape *shape, u_u32 seed)
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
    memcpy(config.mac, raw_our_mac, 6);
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
        memcpy(addr.bytes, craft_local6.b, 16);
    else
        memcpy(addr.bytes, "\x0a\x00\x00\x01", 4);
    bytes = us_memory_bytes(&config);
    assert_true(bytes > 0);
    for (w = 0; w < TWINS_WORLDS; w++) {
        t->memory[w] = calloc(1, bytes);
        t->stack[w] = us_create(&config, t->memory[w], bytes, t->now_us);
        assert_non_null(t->stack[w]);
        t->stack[w]->slow_only = (u_u8)(w == TWINS_SLOW);
        assert_int_equal(us_addr_add(t->stack[w], &addr, shape->ip6 ? 0 : 24), 0);
        assert_int_equal(us_listen(t->stack[w], RAW_PORT, NULL), 0);
    }
    twins_input(t, NULL, 0);
    introduce_peer(t);
}

void twins_close(struct twins *t)
{
    int w;

    for (w = 0; w < TWINS_WORLDS; w++)
        free(t->memory[w]);
}
