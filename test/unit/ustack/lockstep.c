/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast path and general code in lockstep; see lockstep.h. */
#include "lockstep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft.h"
#include "peer_frame.h"
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"

static u_u8 ref_bytes[8192]; /* the bytes of us_send_ref() */

/* ---- the comparison ---- */

static void same_general_conn(const struct us_conn *a, const struct us_conn *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->out_flags, b->out_flags);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->ecn, b->ecn);
    assert_int_equal(a->retries, b->retries);
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
    assert_int_equal(a->lazy_fields.recover, b->lazy_fields.recover);
    assert_int_equal(a->lazy_fields.cwnd_limited_end, b->lazy_fields.cwnd_limited_end);
    assert_memory_equal(&a->rtt, &b->rtt, U_OFFSET_OF(struct us_tcp_rtt, backoff) + 1);
    assert_int_equal(a->lazy_fields.rtt_timed, b->lazy_fields.rtt_timed);
    assert_int_equal(a->lazy_fields.rtt_seq, b->lazy_fields.rtt_seq);
    assert_true(a->lazy_fields.rtt_from_us == b->lazy_fields.rtt_from_us &&
                a->sent_us == b->sent_us);
    /* The deadline of an idle connection is derived from last_rx_us when it fires. */
    assert_true(a->last_rx_us == b->last_rx_us);
    assert_true(a->lazy_fields.main_deadline_us == b->lazy_fields.main_deadline_us ||
                (a->lazy_fields.main_timer == US_TCP_TIMER_KEEPALIVE && a->retries == 0));
    assert_true(a->delack_deadline_us == b->delack_deadline_us &&
                a->lazy_fields.no_progress_since_us == b->lazy_fields.no_progress_since_us);
    assert_int_equal(a->lazy_fields.main_timer, b->lazy_fields.main_timer);
    assert_int_equal(a->rec.consecutive_single_acks, b->rec.consecutive_single_acks);
    assert_int_equal(a->rec.tlp_count, b->rec.tlp_count);
    assert_true(a->bytes_in == b->bytes_in && a->bytes_out == b->bytes_out);
    assert_int_equal(a->sendq.copied, b->sendq.copied);
    assert_int_equal(a->sendq.refs, b->sendq.refs);
}

/* Compares connections after a copy of the first has left the fast path. */
static void same_conn(const struct us_conn *fast, const struct us_conn *slow)
{
    struct us_conn copy = *fast;

    assert_int_equal(slow->fast_path, US_FAST_NONE);
    us_conn_leave_fast_path(&copy);
    same_general_conn(&copy, slow);
}

/* Compares counters, connections and invariants of both. */
static void same_state(struct lockstep *t)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++)
        if (strncmp(us_counter_name(i), "tcp_fast_", 9) != 0 &&
            us_counter(t->stack[LOCKSTEP_FAST], i) != us_counter(t->stack[LOCKSTEP_GENERAL], i))
            fail_msg("%s: %lu with the fast path, %lu without", us_counter_name(i),
                     (unsigned long)us_counter(t->stack[LOCKSTEP_FAST], i),
                     (unsigned long)us_counter(t->stack[LOCKSTEP_GENERAL], i));
    for (i = 0; i < LOCKSTEP_PEERS; i++)
        if (t->peers[i].conn[LOCKSTEP_GENERAL] != NULL) {
            t->rxtx += t->peers[i].conn[LOCKSTEP_FAST]->fast_path == US_FAST_RXTX;
            same_conn(t->peers[i].conn[LOCKSTEP_FAST], t->peers[i].conn[LOCKSTEP_GENERAL]);
        }
    for (i = 0; i < LOCKSTEP_STACKS; i++) {
        const char *broken = us_check(t->stack[i]);
        if (broken != NULL)
            fail_msg("us_check of %d: %s", i, broken);
    }
    assert_int_equal(t->stack[LOCKSTEP_GENERAL]->counters[US_C_TCP_FAST_PATH], 0);
    assert_int_equal(t->stack[LOCKSTEP_GENERAL]->counters[US_C_TCP_FAST_SENT], 0);
}

/* ---- the application ---- */

static struct peer *peer_of(struct lockstep *t, int world, const struct us_conn *conn)
{
    unsigned i;

    for (i = 0; i < LOCKSTEP_PEERS; i++)
        if (t->peers[i].conn[world] == conn)
            return &t->peers[i];
    return NULL;
}

/* Handles a DATA event: with a response, by one of the ways to send, or none. */
static void on_data(struct lockstep *t, const struct us_event *ev)
{
    u_u32 what = lockstep_below(t, 12);
    u_u32 len = lockstep_one_in(t, 20) ? 1 + lockstep_below(t, 4000) : 1 + lockstep_below(t, 80);
    u_u8 text[4000];
    int w;

    for (w = 0; w < (int)sizeof(text); w++)
        text[w] = (u_u8)(t->replies + (unsigned)w);
    t->replies++;
    for (w = 0; w < LOCKSTEP_STACKS; w++) {
        u_u32 room = 0;
        u_u8 *at;

        switch (what) {
        case 0:
            break;
        case 1:
            (void)us_recv_keep(t->stack[w], ev[w].conn, ev[w].data, ev[w].len);
            break;
        case 2:
            (void)us_send_ref(t->stack[w], ev[w].conn, ref_bytes, len + 600, NULL);
            break;
        case 3:
        case 4:
        case 5:
            (void)us_send(t->stack[w], ev[w].conn, text, len);
            break;
        default:
            at = us_reserve(t->stack[w], ev[w].conn, 100, 0, &room);
            if (at == NULL)
                break;
            memcpy(at, text, 100);
            us_commit(t->stack[w], ev[w].conn, len > 100 ? 100 : len);
            break;
        }
    }
}

static void on_event(struct lockstep *t, const struct us_event *ev)
{
    struct peer *peer = NULL;
    int w;

    switch (ev->type) {
    case US_EV_ACCEPTED:
        /* Belongs to the peer without a connection that has this port. */
        for (w = 0; w < LOCKSTEP_PEERS; w++)
            if (t->peers[w].conn[LOCKSTEP_GENERAL] == NULL &&
                t->peers[w].port == ev[LOCKSTEP_GENERAL].conn->key.remote_port)
                peer = &t->peers[w];
        for (w = 0; w < LOCKSTEP_STACKS && peer != NULL; w++)
            peer->conn[w] = ev[w].conn;
        for (w = 0; w < LOCKSTEP_STACKS && peer == NULL; w++)
            us_abort(t->stack[w], ev[w].conn);
        break;
    case US_EV_DATA:
        on_data(t, ev);
        break;
    case US_EV_PEER_CLOSED:
        for (w = 0; w < LOCKSTEP_STACKS; w++)
            (void)us_close(t->stack[w], ev[w].conn);
        break;
    case US_EV_CLOSED:
        peer = peer_of(t, LOCKSTEP_GENERAL, ev[LOCKSTEP_GENERAL].conn);
        if (peer != NULL)
            peer->conn[LOCKSTEP_FAST] = peer->conn[LOCKSTEP_GENERAL] = NULL;
        break;
    default:
        break;
    }
}

/* ---- both stacks ---- */

static void take_events(struct lockstep *t)
{
    for (;;) {
        struct us_event ev[LOCKSTEP_STACKS];
        int some = us_next_event(t->stack[LOCKSTEP_FAST], &ev[LOCKSTEP_FAST]);

        assert_int_equal(us_next_event(t->stack[LOCKSTEP_GENERAL], &ev[LOCKSTEP_GENERAL]), some);
        if (!some)
            return;
        assert_int_equal(ev[LOCKSTEP_FAST].type, ev[LOCKSTEP_GENERAL].type);
        assert_int_equal(ev[LOCKSTEP_FAST].reason, ev[LOCKSTEP_GENERAL].reason);
        if (ev[LOCKSTEP_GENERAL].type == US_EV_DATA) {
            assert_int_equal(ev[LOCKSTEP_FAST].len, ev[LOCKSTEP_GENERAL].len);
            assert_memory_equal(ev[LOCKSTEP_FAST].data, ev[LOCKSTEP_GENERAL].data,
                                ev[LOCKSTEP_GENERAL].len);
        }
        if (ev[LOCKSTEP_GENERAL].type != US_EV_RELEASED)
            on_event(t, ev);
    }
}

/* Frames of several segments are compared by their bytes on the wire. */
static u_u32 flatten(const struct us_pkt *pkt, u_u8 *to)
{
    u_u32 len = 0;

    for (; pkt != NULL; pkt = pkt->next_seg) {
        memcpy(to + len, pkt->data, pkt->len);
        len += pkt->len;
    }
    return len;
}

static void take_frames(struct lockstep *t)
{
    static u_u8 room[LOCKSTEP_STACKS][FRAME_BYTES];
    static u_u8 wire[LOCKSTEP_STACKS][4 * FRAME_BYTES];
    unsigned n = 1;

    while (n != 0) {
        struct us_pkt pkt[LOCKSTEP_STACKS];
        u_u32 len[LOCKSTEP_STACKS];
        int w;

        for (w = 0; w < LOCKSTEP_STACKS; w++) {
            struct us_pkt *list = &pkt[w];
            unsigned filled;
            memset(&pkt[w], 0xa5, sizeof(pkt[w]));
            pkt[w].data = room[w];
            pkt[w].room = FRAME_BYTES;
            filled = us_output(t->stack[w], &list, 1, t->now_us);
            assert_true(w == 0 || filled == n);
            n = filled;
            len[w] = filled ? flatten(&pkt[w], wire[w]) : 0;
        }
        assert_int_equal(len[LOCKSTEP_FAST], len[LOCKSTEP_GENERAL]);
        assert_memory_equal(wire[LOCKSTEP_FAST], wire[LOCKSTEP_GENERAL], len[LOCKSTEP_GENERAL]);
        assert_int_equal(pkt[LOCKSTEP_FAST].flags, pkt[LOCKSTEP_GENERAL].flags);
        assert_int_equal(pkt[LOCKSTEP_FAST].csum_start, pkt[LOCKSTEP_GENERAL].csum_start);
        assert_int_equal(pkt[LOCKSTEP_FAST].csum_offset, pkt[LOCKSTEP_GENERAL].csum_offset);
        assert_int_equal(pkt[LOCKSTEP_FAST].l2_len, pkt[LOCKSTEP_GENERAL].l2_len);
        assert_int_equal(pkt[LOCKSTEP_FAST].l3_len, pkt[LOCKSTEP_GENERAL].l3_len);
        assert_int_equal(pkt[LOCKSTEP_FAST].l4_len, pkt[LOCKSTEP_GENERAL].l4_len);
    }
}

void lockstep_input(struct lockstep *t, const struct frame *frames, unsigned n)
{
    static struct frame copies[LOCKSTEP_STACKS][LOCKSTEP_BURST];
    static struct us_pkt empty;
    int w;

    for (w = 0; w < LOCKSTEP_STACKS; w++) {
        struct us_pkt pkts[LOCKSTEP_BURST];
        struct us_pkt *list[LOCKSTEP_BURST];
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
    assert_true(us_deadline(t->stack[LOCKSTEP_FAST]) == us_deadline(t->stack[LOCKSTEP_GENERAL]));
}

/* ---- instances ---- */

/* Announces the peer's MAC address by ARP. Over IPv6 its frames do (reply_to_source_mac). */
static void introduce_peer(struct lockstep *t)
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
    lockstep_input(t, &f, 1);
}

void lockstep_open(struct lockstep *t, const struct shape *shape, u_u32 seed)
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
    config.buffer_bytes = seed % 4 == 0 ? 12 * 2048 : 1u << 20; /* some runs have little memory */
    config.send_queue_bytes = 6000;
    config.recv_window_bytes = seed % 3 == 0 ? 5000 : 100000;
    config.caps = shape->caps;
    config.vlan_id = shape->vlan_id;
    config.nagle = shape->nagle;
    config.cc = shape->cc;
    config.dad_probes = 0;
    config.reply_to_source_mac = (u_u32)shape->ip6;
    memset(&addr, 0, sizeof(addr));
    addr.family = shape->ip6 ? US_IP6 : US_IP4;
    if (shape->ip6)
        memcpy(addr.bytes, craft_local6.b, 16);
    else
        memcpy(addr.bytes, "\x0a\x00\x00\x01", 4);
    bytes = us_memory_bytes(&config);
    assert_true(bytes > 0);
    for (w = 0; w < LOCKSTEP_STACKS; w++) {
        config.no_fast_path = w == LOCKSTEP_GENERAL;
        t->memory[w] = calloc(1, bytes);
        t->stack[w] = us_create(&config, t->memory[w], bytes, t->now_us);
        assert_non_null(t->stack[w]);
        assert_int_equal(us_addr_add(t->stack[w], &addr, shape->ip6 ? 0 : 24), 0);
        assert_int_equal(us_listen(t->stack[w], RAW_PORT, NULL), 0);
    }
    lockstep_input(t, NULL, 0);
    introduce_peer(t);
}

void lockstep_close(struct lockstep *t)
{
    int w;

    for (w = 0; w < LOCKSTEP_STACKS; w++)
        free(t->memory[w]);
}
