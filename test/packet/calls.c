/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of packet scripts that are calls of the application. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "segment.h"

/* "= VALUE" at the end of a line; without it the call must not have failed. */
static void check_result(struct script *s, long result)
{
    if (script_accept(s, "=")) {
        long value = script_number(s, "value");
        if (result != value)
            script_fail(s, "the result is %ld, not %ld", result, value);
    } else if (result < 0) {
        script_fail(s, "the result is %ld (%s)", result, us_strerror((int)result));
    }
}

struct rig_flow *calls_flow(struct script *s)
{
    struct rig_flow *flow = segment_flow(s);
    script_wait(s);
    if (!flow->conn)
        script_fail(s, "the flow has no connection");
    return flow;
}

static void do_listen(struct script *s)
{
    const char *word = script_peek(s);
    long port = word && word[0] != '=' ? script_number(s, "port") : 11211;
    check_result(s, us_listen(s->rig.stack, (u_u16)port, NULL));
    s->listening = 1;
}

static void do_unlisten(struct script *s)
{
    const char *word = script_peek(s);
    long port = word && word[0] != '=' ? script_number(s, "port") : 11211;
    check_result(s, us_unlisten(s->rig.stack, (u_u16)port));
    s->listening = 0;
}

/* limit N drop|refuse: bounds the connections of the listener. */
static void do_limit(struct script *s)
{
    u_u32 limit = (u_u32)script_number(s, "connections");
    enum us_listen_overflow over = script_accept(s, "refuse") ? US_LISTEN_REFUSE : US_LISTEN_DROP;
    if (over == US_LISTEN_DROP)
        script_accept(s, "drop");
    check_result(s, us_listen_limit(s->rig.stack, 11211, limit, over));
}

static void do_connect(struct script *s)
{
    struct rig_flow *flow = segment_flow(s);
    struct us_addr remote;
    int error = 0;
    if (flow->local_port == 11211)
        flow->local_port = (uint16_t)(50000 + flow->number);
    u_u16 local = script_accept(s, "any_port") ? 0 : flow->local_port;
    memset(&remote, 0, sizeof(remote));
    remote.family = US_IP4;
    for (unsigned i = 0; i < 4; i++)
        remote.bytes[i] = (u_u8)(flow->peer_ip >> (24 - 8 * i));
    struct us_conn *conn = us_connect(s->rig.stack, &remote, flow->peer_port, local, flow, &error);
    if (!conn && error >= 0)
        script_fail(s, "us_connect() fails and does not say why");
    check_result(s, conn ? 0 : error);
    if (conn)
        flow->conn = conn;
    if (conn && local == 0) {
        struct us_conn_info info;
        us_conn_get_info(s->rig.stack, conn, &info);
        flow->local_port = info.local_port;
    }
}

/* Calls us_send() with n bytes and returns its result. */
static long send_bytes(struct script *s, struct rig_flow *flow, long n)
{
    static uint8_t bytes[1 << 20];
    if (n < 0 || n > (long)sizeof(bytes))
        script_fail(s, "length out of range");
    for (long i = 0; i < n; i++)
        bytes[i] = rig_pattern(0, flow->queued + (uint32_t)i);
    long taken = us_send(s->rig.stack, flow->conn, bytes, (u_u32)n);
    memset(bytes, 0xdd, (size_t)n);
    if (taken > 0)
        flow->queued += (uint32_t)taken;
    return taken;
}

static void do_send(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    long n = script_number(s, "length");
    long taken = send_bytes(s, flow, n);
    if (!script_peek(s) && taken != n)
        script_fail(s, "us_send() took %ld of %ld bytes", taken, n);
    check_result(s, taken);
}

/* fill N: sends until N bytes are taken or the stack takes no more. */
static void do_fill(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    long n = script_number(s, "length");
    while (n > 0) {
        long taken = send_bytes(s, flow, n);
        if (taken <= 0)
            return;
        n -= taken;
    }
}

static void do_reserve(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    u_u32 want = (u_u32)script_number(s, "bytes wanted");
    u_u32 used = (u_u32)script_number(s, "bytes used");
    u_u32 room = 0;
    u_u8 *p = us_reserve(s->rig.stack, flow->conn, want, 0, &room);
    if (script_accept(s, "=")) {
        script_accept(s, "full");
        if (p)
            script_fail(s, "us_reserve() gives %u bytes", room);
        return;
    }
    if (!p || room < want)
        script_fail(s, "us_reserve() gives %u bytes", p ? room : 0);
    for (u_u32 i = 0; i < used; i++)
        p[i] = rig_pattern(0, flow->queued + i);
    us_commit(s->rig.stack, flow->conn, used);
    flow->queued += used;
}

static void do_ref(struct script *s)
{
    struct rig *rig = &s->rig;
    struct rig_flow *flow = calls_flow(s);
    u_u32 n = (u_u32)script_number(s, "length");
    if (rig->ref_count == RIG_REFS_MAX)
        script_fail(s, "too many references");
    struct rig_ref *ref = &rig->refs[rig->ref_count++];
    ref->flow = flow;
    ref->id = (int)script_number(s, "number of the reference");
    ref->released = 0;
    ref->bytes = malloc(n);
    for (u_u32 i = 0; i < n; i++)
        ref->bytes[i] = rig_pattern(0, flow->queued + i);
    int result = us_send_ref(rig->stack, flow->conn, ref->bytes, n, ref);
    if (result == US_OK)
        flow->queued += n;
    else
        ref->released = 1;
    check_result(s, result);
}

static void do_close(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    check_result(s, us_close(s->rig.stack, flow->conn));
}

/* nodelay 0|1 */
static void do_nodelay(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    us_conn_set_nodelay(s->rig.stack, flow->conn, (int)script_number(s, "0 or 1"));
}

/* congestion KIND: us_conn_set_cc(). */
static void do_congestion(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    check_result(s, us_conn_set_cc(flow->conn, (enum us_cc_kind)script_number(s, "kind")));
}

/* linger MS: us_close_within(). */
static void do_linger(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    u_u32 linger_ms = (u_u32)script_number(s, "milliseconds");
    check_result(s, us_close_within(s->rig.stack, flow->conn, linger_ms));
}

/* alive IDLE_MS INTERVAL_MS COUNT */
static void do_keepalive(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    u_u32 idle_ms = (u_u32)script_number(s, "milliseconds of silence");
    u_u32 interval_ms = (u_u32)script_number(s, "milliseconds between questions");
    u_u32 count = (u_u32)script_number(s, "number of questions");
    check_result(s, us_conn_set_keepalive(s->rig.stack, flow->conn, idle_ms, interval_ms, count));
}

/* user_timeout MS: us_conn_set_user_timeout(). */
static void do_user_timeout(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    us_conn_set_user_timeout(s->rig.stack, flow->conn, (u_u32)script_number(s, "milliseconds"));
}

static void do_abort(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    us_abort(s->rig.stack, flow->conn);
}

static void do_keep(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    u_u32 n = (u_u32)script_number(s, "bytes to keep");
    if (!flow->data || n > flow->data_len)
        script_fail(s, "there is no DATA event of which %u bytes could be kept", n);
    check_result(s, us_recv_keep(s->rig.stack, flow->conn, flow->data + flow->data_len - n, n));
    flow->received -= n;
    flow->held = 1;
}

static void do_resume(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    flow->held = flow->stalled = 0;
    flow->stall_bytes = 0;
    us_recv_resume(s->rig.stack, flow->conn);
}

static void do_stall(struct script *s)
{
    segment_flow(s)->stalled = 1;
}

int calls_run(struct script *s, const char *name)
{
    static const struct {
        const char *name;
        void (*run)(struct script *s);
    } calls[] = {
        {"listen", do_listen},
        {"unlisten", do_unlisten},
        {"limit", do_limit},
        {"connect", do_connect},
        {"send", do_send},
        {"fill", do_fill},
        {"reserve", do_reserve},
        {"ref", do_ref},
        {"close", do_close},
        {"nodelay", do_nodelay},
        {"congestion", do_congestion},
        {"linger", do_linger},
        {"keepalive", do_keepalive},
        {"user_timeout", do_user_timeout},
        {"abort", do_abort},
        {"keep", do_keep},
        {"resume", do_resume},
        {"stall", do_stall},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(name, calls[i].name) == 0) {
            calls[i].run(s);
            return 1;
        }
    }
    return 0;
}
