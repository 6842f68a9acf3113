/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fast path against general code: random traffic of several connections for both (lockstep.h),
 * predicted frames and near misses of each predicate (mutate_frame.h).
 */
#include "craft.h"
#include "lockstep.h"
#include "mutate_frame.h"
#include "peer_frame.h"
#include "ustack/core/instance.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_synq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SEEDS = 60, STEPS = 400 };

/* ---- the traffic ---- */

static void open_peer(struct lockstep *t, struct peer *peer)
{
    struct frame f;
    u_u32 seq = lockstep_below(t, 0xffffffff);
    const struct us_synq_entry *entry;
    struct us_tcp_key key;

    peer->port = t->next_port++;
    frame_segment(t, &f, peer,
                  US_TCP_SYN | (lockstep_one_in(t, 4) ? (int)(US_TCP_ECE | US_TCP_CWR) : 0), seq, 0,
                  0);
    lockstep_input(t, &f, 1);
    key.local_ip =
        t->shape.ip6 ? us_local6_find(t->stack[LOCKSTEP_GENERAL], &craft_local6) : RAW_LOCAL_IP;
    key.remote_ip =
        t->shape.ip6 ? us_ip6_id(t->stack[LOCKSTEP_GENERAL], &craft_peer6) : RAW_PEER_IP;
    key.local_port = RAW_PORT;
    key.remote_port = peer->port;
    entry = us_synq_find(t->stack[LOCKSTEP_GENERAL], &key, t->shape.ip6 ? &craft_peer6 : NULL);
    assert_non_null(entry);
    frame_segment(t, &f, peer, US_TCP_ACK, seq + 1, entry->iss + 1, 0);
    lockstep_input(t, &f, 1);
    assert_non_null(peer->conn[LOCKSTEP_GENERAL]);
}

/* The next segment of a peer: data, an ACK of all or a part, or both. */
static void next_segment(struct lockstep *t, struct frame *f, struct peer *peer, u_u32 *ahead)
{
    const struct us_conn *conn = peer->conn[LOCKSTEP_GENERAL];
    u_u32 len = lockstep_one_in(t, 5)    ? 0
                : lockstep_one_in(t, 20) ? lockstep_below(t, 1400)
                                         : 1 + lockstep_below(t, 60);
    u_u32 in_flight = conn->snd_max - conn->snd_una;
    u_u32 ack = conn->snd_max - (lockstep_one_in(t, 4) ? lockstep_below(t, in_flight + 1) : 0);

    frame_segment(t, f, peer, US_TCP_ACK | (lockstep_one_in(t, 2) ? (int)US_TCP_PSH : 0),
                  conn->rcv_nxt + *ahead, ack, len);
    *ahead += len;
    if (lockstep_one_in(t, 30))
        f->len = f->len < 60 ? 60 : f->len; /* padding of Ethernet */
    if (t->shape.caps & US_CAP_RX_CSUM)
        f->flags = US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
}

/* Calls of the application without an event. */
static void random_call(struct lockstep *t, struct peer *peer)
{
    u_u32 what = lockstep_below(t, 100);
    u_u32 len = 1 + lockstep_below(t, 3000);
    static u_u8 zeros[3000];
    int w;

    for (w = 0; w < LOCKSTEP_STACKS; w++) {
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
            (void)us_conn_set_keepalive(t->stack[w], conn, 100, 50, 3);
            break;
        case 4:
            us_conn_set_user_timeout(t->stack[w], conn, len);
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

static void step(struct lockstep *t)
{
    static const u_u32 pauses_us[] = {0, 10, 10, 100, 1000, 1000, 12000, 400000};
    struct peer *peer = &t->peers[lockstep_below(t, LOCKSTEP_PEERS)];
    static struct frame frames[LOCKSTEP_BURST];
    unsigned n = lockstep_one_in(t, 3) ? 1 + lockstep_below(t, LOCKSTEP_BURST - 1) : 1;
    int quiet = t->now_us >> 20 & 1; /* phases with many and with few near misses */
    u_u32 ahead = 0;
    unsigned i;

    t->now_us += pauses_us[lockstep_below(t, U_ARRAY_LEN(pauses_us))];
    if (lockstep_one_in(t, 50)) {
        lockstep_input(t, NULL, 0);
        return;
    }
    if (peer->conn[LOCKSTEP_GENERAL] == NULL) {
        open_peer(t, peer);
        return;
    }
    if (lockstep_one_in(t, 4))
        random_call(t, peer);
    if (peer->conn[LOCKSTEP_GENERAL] == NULL ||
        peer->conn[LOCKSTEP_GENERAL]->state == US_TCP_CLOSED)
        n = 0;
    for (i = 0; i < n; i++) {
        next_segment(t, &frames[i], peer, &ahead);
        if (lockstep_one_in(t, quiet ? 20 : 4))
            mutate_frame(t, &frames[i]);
    }
    lockstep_input(t, frames, n);
}

/* ---- the shapes ---- */

static void run(const struct shape *shape)
{
    struct lockstep t;
    u_u64 fast = 0;
    u_u64 sent = 0;
    u_u64 all = 0;
    unsigned long rxtx = 0;
    u_u32 seed;

    for (seed = 0; seed < SEEDS; seed++) {
        unsigned i;
        lockstep_open(&t, shape, seed);
        for (i = 0; i < STEPS; i++)
            step(&t);
        fast += t.stack[LOCKSTEP_FAST]->counters[US_C_TCP_FAST_PATH];
        sent += t.stack[LOCKSTEP_FAST]->counters[US_C_TCP_FAST_SENT];
        all += t.stack[LOCKSTEP_FAST]->counters[US_C_TCP_RX_SEGMENTS];
        rxtx += t.rxtx;
        lockstep_close(&t);
    }
    assert_true(fast > all / 6); /* frames do take the fast path unless they are altered */
    assert_true(fast < all);
    if (shape->cc == US_CC_DCTCP) { /* its sender needs general code */
        assert_int_equal(sent, 0);
        assert_int_equal(rxtx, 0);
    } else {
        assert_true(sent > all / 50);
        assert_true(rxtx > 1000);
    }
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
    static const struct shape software = {0, 1, 0x123, 0, 0, US_CC_CUBIC};
    static const struct shape device = {0, 1, 0x123, US_CAP_TX_L4_CSUM, 0, US_CC_CUBIC};

    run(&software);
    run(&device);
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
