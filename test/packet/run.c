/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pkt_run SCRIPT: runs a packet script against one stack, in process, on a virtual clock.
 * pkt_run --all FOLDER: runs every script of a folder and reports in TAP.
 *
 *     open <mss 1460,sackok>           # listen, and a handshake with these options of the peer
 *     < A 1:101(100) ack 1             # the peer sends 100 bytes
 *     event DATA 100                   # the application gets them
 *     send 50                          # and answers
 *     > PA 1:51(50) ack 101            # now, with the acknowledgment on the data
 *     +0.2 > A 1:51(50) ack 101        # 0.2 s later it comes again
 *
 * A script is named by the rule that it tests. Exits with 0 if all expectations of the script hold
 * and us_check() finds no violation; otherwise prints the failing line after the last frames and
 * events. README.md beside the scripts describes the language; -v prints every frame and event.
 */
#include "calls.h"
#include "segment.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EARLY_US = 1000, LATE_US = 10000 };

static void run_line(struct script *s, const char *line);
static void run_lines(struct script *s, unsigned first, unsigned last);

static void rig_failed(struct rig *rig, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    script_fail(rig->owner, "%s", text);
}

/* ---- settings ---------------------------------------------------------------------------- */

static u_u32 parse_caps(struct script *s, const char *word)
{
    static const struct {
        const char *name;
        u_u32 bit;
    } caps[] = {{"rx_csum", US_CAP_RX_CSUM},       {"tx_ip_csum", US_CAP_TX_IP_CSUM},
                {"tx_l4_csum", US_CAP_TX_L4_CSUM}, {"tx_tso", US_CAP_TX_TSO},
                {"tx_sg", US_CAP_TX_SG},           {"rx_sg", US_CAP_RX_SG}};
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
        if (strcmp(word, caps[i].name) == 0)
            return caps[i].bit;
    script_fail(s, "unknown capability \"%s\"", word);
}

static int set_config(struct script *s, const char *key)
{
    struct us_config *c = &s->rig.config;
    const struct {
        const char *name;
        u_u32 *field;
    } fields[] = {{"mtu", &c->mtu},
                  {"conn_max", &c->conn_max},
                  {"half_open_max", &c->half_open_max},
                  {"time_wait_max", &c->time_wait_max},
                  {"neighbour_max", &c->neighbour_max},
                  {"arp_passive", &c->arp_passive},
                  {"listen_max", &c->listen_max},
                  {"buffer_bytes", &c->buffer_bytes},
                  {"send_queue_bytes", &c->send_queue_bytes},
                  {"send_refs_max", &c->send_refs_max},
                  {"recv_window_bytes", &c->recv_window_bytes},
                  {"rto_min_us", &c->rto_min_us},
                  {"rto_initial_us", &c->rto_initial_us},
                  {"rto_max_us", &c->rto_max_us},
                  {"cc", &c->cc},
                  {"ecn", &c->ecn},
                  {"nagle", &c->nagle},
                  {"quick_acks", &c->quick_acks},
                  {"delayed_ack_us", &c->delayed_ack_us},
                  {"peer_ack_delay_us", &c->peer_ack_delay_us},
                  {"time_wait_us", &c->time_wait_us},
                  {"fin_wait2_us", &c->fin_wait2_us},
                  {"syn_retries_max", &c->syn_retries_max},
                  {"syn_ack_retries_max", &c->syn_ack_retries_max},
                  {"syn_cookies", &c->syn_cookies},
                  {"challenge_acks_max", &c->challenge_acks_max},
                  {"keepalive", &c->keepalive},
                  {"keepalive_idle_ms", &c->keepalive_idle_ms},
                  {"keepalive_interval_ms", &c->keepalive_interval_ms},
                  {"keepalive_count", &c->keepalive_count},
                  {"user_timeout_ms", &c->user_timeout_ms},
                  {"persist_ms", &c->persist_ms},
                  {"r2_ms", &c->r2_ms},
                  {"orphan_ms", &c->orphan_ms},
                  {"orphans_max", &c->orphans_max},
                  {"backoff_max_us", &c->backoff_max_us},
                  {"reply_to_source_mac", &c->reply_to_source_mac},
                  {"neighbour_lifetime_us", &c->neighbour_lifetime_us}};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(key, fields[i].name) == 0) {
            *fields[i].field = (u_u32)script_number(s, key);
            return 1;
        }
    }
    return 0;
}

static void do_set(struct script *s)
{
    const char *key = script_need(s, "name of a setting");
    if (s->started)
        script_fail(s, "set must come before everything else");
    if (set_config(s, key))
        return;
    if (strcmp(key, "caps") == 0)
        while (script_peek(s))
            s->rig.config.caps |= parse_caps(s, script_next(s));
    else if (strcmp(key, "auto_arp") == 0)
        s->rig.auto_arp = (int)script_number(s, key);
    else if (strcmp(key, "auto_checks") == 0)
        s->rig.auto_checks = (int)script_number(s, key);
    else if (strcmp(key, "burst") == 0)
        s->rig.burst = (unsigned)script_number(s, key);
    else if (strcmp(key, "local_ip") == 0)
        s->rig.local_ip = script_to_ip(s, script_need(s, key));
    else if (strcmp(key, "prefix_len") == 0)
        s->rig.prefix_len = (unsigned)script_number(s, key);
    else if (strcmp(key, "gateway") == 0)
        s->rig.gateway_ip = script_to_ip(s, script_need(s, key));
    else
        script_fail(s, "unknown setting \"%s\"", key);
}

static void do_let(struct script *s)
{
    const char *name = script_need(s, "name of a variable");
    if (name[1] != '\0' || name[0] < 'a' || name[0] > 'z')
        script_fail(s, "a variable is one lower-case letter");
    s->vars[name[0] - 'a'] = script_number(s, "value");
}

static void do_start(struct script *s)
{
    if (s->started)
        return;
    s->started = 1;
    rig_start(&s->rig);
    if (s->rig.auto_arp)
        rig_output(&s->rig); /* drops the gratuitous ARP */
}

static void do_flow(struct script *s)
{
    struct rig_flow *flow = segment_flow(s);
    while (script_peek(s)) {
        if (script_accept(s, "ip"))
            flow->peer_ip = script_to_ip(s, script_need(s, "address"));
        else if (script_accept(s, "mac"))
            script_to_mac(s, script_need(s, "MAC"), flow->peer_mac);
        else if (script_accept(s, "port"))
            flow->peer_port = (uint16_t)script_number(s, "port");
        else if (script_accept(s, "lport"))
            flow->local_port = (uint16_t)script_number(s, "port");
        else if (script_accept(s, "isn"))
            flow->peer_isn = (uint32_t)script_number(s, "sequence number");
        else if (script_accept(s, "again")) { /* forget the connection there was */
            flow->isn_known = flow->edge_known = flow->recv_edge_known = 0;
            flow->peer_syn_ts = flow->stack_syn_ts = 0;
            flow->peer_syn_ws = flow->stack_syn_ws = -1;
            flow->queued = flow->received = 0;
            flow->peer_mss = 536;
        } else {
            script_end(s);
        }
    }
}

/* ---- frames and time --------------------------------------------------------------------- */

static void flush_burst(struct script *s)
{
    rig_input(&s->rig, s->burst, s->burst_count);
    s->burst_count = 0;
}

static void log_injected(struct script *s, const struct rig_in *in)
{
    struct rig_out shown;
    char text[300];
    memset(&shown, 0, sizeof(shown));
    const char *error = frame_parse(in->bytes, in->len, &shown.frame);
    frame_describe(&shown.frame, 0, 0, text, sizeof(text));
    for (unsigned i = 0; i < s->rig.flow_count; i++) {
        const struct rig_flow *flow = &s->rig.flows[i];
        if (flow->peer_port == shown.frame.src_port && flow->peer_ip == shown.frame.src_ip)
            frame_describe(&shown.frame, flow->peer_isn, flow->stack_isn, text, sizeof(text));
    }
    fprintf(s->rig.log, "# %9.6f < %s%s%s\n", (double)s->rig.now_us / 1e6, text,
            error ? " BAD: " : "", error ? error : "");
}

static void do_inject(struct script *s)
{
    script_wait(s);
    if (s->burst_open && s->burst_count == 64)
        script_fail(s, "a burst has at most 64 frames");
    struct rig_in in = segment_build(s);
    log_injected(s, &in);
    s->burst[s->burst_count++] = in;
    if (!s->burst_open)
        flush_burst(s);
}

static void do_expect(struct script *s)
{
    struct rig *rig = &s->rig;
    uint64_t base = rig->now_us;
    uint64_t first = base + s->time_lo_us;
    uint64_t last = base + s->time_hi_us;
    if (rig->out_head == rig->out_tail) {
        if (s->has_time)
            rig_run(rig, last + LATE_US, 1, NULL);
        else
            rig_output(rig);
    }
    if (rig->out_head == rig->out_tail)
        script_fail(s, "the stack sent nothing");
    struct rig_out *out = &rig->out[rig->out_head];
    if (out->time_us + (s->has_time ? EARLY_US : 0) < first ||
        out->time_us > last + (s->has_time ? LATE_US : 0)) {
        char text[400];
        rig_describe(out, text, sizeof(text));
        script_fail(s, "sent %.6f s after the last line, not %.6f to %.6f s: %s",
                    ((double)out->time_us - (double)base) / 1e6, (double)s->time_lo_us / 1e6,
                    (double)s->time_hi_us / 1e6, text);
    }
    segment_expect(s, out);
    rig->out_head++;
}

static void do_none(struct script *s)
{
    struct rig *rig = &s->rig;
    rig_run(rig, rig->now_us + s->time_lo_us, 1, NULL);
    if (rig->out_head == rig->out_tail)
        return;
    char text[400];
    rig_describe(&rig->out[rig->out_head], text, sizeof(text));
    script_fail(s, "unexpected frame at %.6f s: %s", (double)rig->out[rig->out_head].time_us / 1e6,
                text);
}

static void do_burst(struct script *s)
{
    const char *word = script_need(s, "begin or end");
    s->burst_open = strcmp(word, "begin") == 0;
    if (!s->burst_open)
        flush_burst(s);
}

/* count OP N: compares the number of frames not expected yet, and drops them. */
static void do_count(struct script *s)
{
    struct rig *rig = &s->rig;
    rig_run(rig, rig->now_us + s->time_lo_us, 0, NULL);
    unsigned n = rig->out_tail - rig->out_head;
    const char *op = script_need(s, "comparison");
    if (!script_compare(s, n, op, (double)script_number(s, "number")))
        script_fail(s, "the stack sent %u frames", n);
    rig->out_head = rig->out_tail;
}

/* output: us_output() without input. */
static void do_output(struct script *s)
{
    rig_output(&s->rig);
}

static void do_drop(struct script *s)
{
    if (script_accept(s, "frames")) {
        rig_run(&s->rig, s->rig.now_us + s->time_lo_us, 0, NULL);
        s->rig.out_head = s->rig.out_tail;
    } else if (script_accept(s, "events")) {
        struct rig_event *e;
        while ((e = rig_event_first(&s->rig, NULL)) != NULL)
            rig_event_take(&s->rig, e);
    }
}

/* ---- events ------------------------------------------------------------------------------ */

static void wrong_event(struct script *s, const struct rig_event *e)
{
    script_fail(s, "the next event is %s (len %u, reason %s)", rig_event_name(e->ev.type),
                e->ev.type == US_EV_DATA ? e->ev.len : 0, rig_reason_name(e->ev.reason));
}

/* DATA may come in pieces; their sum must be exactly this. */
static void expect_data(struct script *s, struct rig_flow *flow, struct rig_event *e, long len)
{
    long have = 0;
    while (e && e->ev.type == US_EV_DATA && have < len) {
        have += e->ev.len;
        rig_event_take(&s->rig, e);
        e = rig_event_first(&s->rig, flow);
    }
    if (have != len)
        script_fail(s, "DATA of %ld bytes, not %ld", have, len);
}

static void do_event(struct script *s)
{
    struct rig *rig = &s->rig;
    struct rig_flow *flow = segment_flow(s);
    const char *name = script_need(s, "event");
    struct rig_event *e = rig_event_first(rig, flow);
    uint64_t first = rig->now_us + s->time_lo_us;
    if (e && s->has_time && s->time_lo_us > 0)
        script_fail(s, "%s came too early", rig_event_name(e->ev.type));
    if (!e) {
        rig_run(rig, rig->now_us + s->time_hi_us + (s->has_time ? LATE_US : 0), 0, flow);
        e = rig_event_first(rig, flow);
    }
    if (!e)
        script_fail(s, "no event came");
    if (rig->now_us + EARLY_US < first)
        script_fail(s, "%s came too early", rig_event_name(e->ev.type));
    if (strcmp(name, rig_event_name(e->ev.type)) != 0)
        wrong_event(s, e);
    if (e->ev.type == US_EV_DATA) {
        expect_data(s, flow, e, script_number(s, "length"));
        return;
    }
    if (e->ev.type == US_EV_CLOSED &&
        strcmp(script_need(s, "reason"), rig_reason_name(e->ev.reason)) != 0)
        wrong_event(s, e);
    if (e->ev.type == US_EV_RELEASED && script_number(s, "reference") != e->ref_id)
        script_fail(s, "reference %d was released", e->ref_id);
    rig_event_take(rig, e);
}

static void do_noevent(struct script *s)
{
    const struct rig_event *e = rig_event_first(&s->rig, NULL);
    if (e)
        wrong_event(s, e);
}

/* ---- inspection ----------------------------------------------------------------------------- */

static void do_state(struct script *s)
{
    struct rig_flow *flow = segment_flow(s);
    const char *name = script_need(s, "state");
    struct us_conn_info info;
    if (!flow->conn)
        script_fail(s, "the flow has no connection");
    us_conn_get_info(s->rig.stack, flow->conn, &info);
    if (strcmp(name, us_tcp_state_name(info.state)) != 0)
        script_fail(s, "the state is %s", us_tcp_state_name(info.state));
}

static void do_info(struct script *s)
{
    struct rig_flow *flow = calls_flow(s);
    struct us_conn_info i;
    us_conn_get_info(s->rig.stack, flow->conn, &i);
    const struct {
        const char *name;
        u_u32 value;
    } fields[] = {{"mss", i.mss},
                  {"path_mtu", i.path_mtu},
                  {"bytes_in", (u_u32)i.bytes_in},
                  {"bytes_out", (u_u32)i.bytes_out},
                  {"retries", i.retries},
                  {"sack", i.sack},
                  {"timestamps", i.timestamps},
                  {"srtt_us", i.srtt_us},
                  {"rttvar_us", i.rttvar_us},
                  {"rto_us", i.rto_us},
                  {"cwnd_bytes", i.cwnd_bytes},
                  {"cc", i.cc},
                  {"ecn", i.ecn},
                  {"ssthresh_bytes", i.ssthresh_bytes},
                  {"send_window_bytes", i.send_window_bytes},
                  {"recv_window_bytes", i.recv_window_bytes},
                  {"queued_bytes", i.queued_bytes},
                  {"retransmits", i.retransmits},
                  {"send_room", us_send_room(s->rig.stack, flow->conn)}};
    const char *name = script_need(s, "field");
    const char *op = script_need(s, "comparison");
    long value = script_number(s, "value");
    for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
        if (strcmp(name, fields[k].name) != 0)
            continue;
        if (!script_compare(s, fields[k].value, op, (double)value))
            script_fail(s, "%s is %u", name, fields[k].value);
        return;
    }
    script_fail(s, "unknown field \"%s\"", name);
}

/* isn VAR: the initial sequence number of the stack for the flow. */
static void do_isn(struct script *s)
{
    const struct rig_flow *flow = segment_flow(s);
    const char *name = script_need(s, "name of a variable");
    if (name[1] != '\0' || name[0] < 'a' || name[0] > 'z')
        script_fail(s, "a variable is one lower-case letter");
    if (!flow->isn_known)
        script_fail(s, "the stack has sent no SYN");
    s->vars[name[0] - 'a'] = (long)flow->stack_isn;
}

/* distance A B OP N: compares sequence number B - A. */
static void do_distance(struct script *s)
{
    uint32_t from = (uint32_t)script_number(s, "sequence number");
    uint32_t to = (uint32_t)script_number(s, "sequence number");
    const char *op = script_need(s, "comparison");
    if (!script_compare(s, to - from, op, (double)script_number(s, "value")))
        script_fail(s, "the distance is %u", to - from);
}

static void do_counter(struct script *s)
{
    const char *name = script_need(s, "name of a counter");
    const char *op = script_need(s, "comparison");
    long value = script_number(s, "value");
    for (unsigned i = 0; i < us_counter_count(); i++) {
        if (strcmp(us_counter_name(i), name) != 0)
            continue;
        u_u64 have = us_counter(s->rig.stack, i);
        if (!script_compare(s, (double)have, op, (double)value))
            script_fail(s, "%s is %lu", name, (unsigned long)have);
        return;
    }
    script_fail(s, "unknown counter \"%s\"", name);
}

static void do_deadline(struct script *s)
{
    rig_output(&s->rig);
    u_u64 deadline = us_deadline(s->rig.stack);
    if (script_accept(s, "never")) {
        if (deadline != US_NEVER)
            script_fail(s, "there is a deadline");
        return;
    }
    const char *op = script_need(s, "comparison");
    double seconds = strtod(script_need(s, "seconds"), NULL);
    double have = ((double)deadline - (double)s->rig.now_us) / 1e6;
    if (deadline == US_NEVER || !script_compare(s, have, op, seconds))
        script_fail(s, "the deadline is in %.6f s", deadline == US_NEVER ? -1.0 : have);
}

/* ---- compound commands ------------------------------------------------------------------- */

/* open [@N] [active] [<options>] [win N] [rtt SECONDS] */
static void do_open(struct script *s)
{
    char lines[6][400];
    struct rig_flow *flow = segment_flow(s);
    int n = flow->number;
    int active = script_accept(s, "active");
    const char *word = script_peek(s);
    char options[160] = "<mss 1460>";
    if (word && word[0] == '<')
        snprintf(options, sizeof(options), "%s", script_next(s));
    long window = script_accept(s, "win") ? script_number(s, "window") : 65535;
    const char *rtt = script_accept(s, "rtt") ? script_need(s, "seconds") : "0.01";
    char delay[32];
    snprintf(delay, sizeof(delay), "%s", rtt);
    unsigned count = 0;
    if (active) {
        snprintf(lines[count++], 400, "connect @%d", n);
        snprintf(lines[count++], 400, "> @%d S 0:0(0)", n);
        snprintf(lines[count++], 400, "+%s < @%d SA 0:0(0) ack 1 win %ld %s", delay, n, window,
                 options);
        snprintf(lines[count++], 400, "> @%d A 1:1(0) ack 1", n);
        snprintf(lines[count++], 400, "event @%d CONNECTED", n);
    } else {
        if (!s->listening)
            snprintf(lines[count++], 400, "listen");
        snprintf(lines[count++], 400, "< @%d S 0:0(0) win %ld %s", n, window, options);
        snprintf(lines[count++], 400, "> @%d SA 0:0(0) ack 1", n);
        snprintf(lines[count++], 400, "+%s < @%d A 1:1(0) ack 1 win %ld", delay, n, window);
        snprintf(lines[count++], 400, "event @%d ACCEPTED", n);
    }
    for (unsigned i = 0; i < count; i++)
        run_line(s, lines[i]);
}

/* repeat VAR FIRST LAST ... end; may be nested. Returns the index of the line after the end. */
static unsigned do_repeat(struct script *s, unsigned at, unsigned last)
{
    const char *name = script_need(s, "variable");
    int variable = name[0] - 'a';
    long from = script_number(s, "first value");
    long to = script_number(s, "last value");
    unsigned end = at;
    unsigned depth = 1;
    if (variable < 0 || variable > 25 || name[1] != '\0')
        script_fail(s, "a variable is one lower-case letter");
    while (depth > 0) {
        if (++end >= last)
            script_fail(s, "repeat without end");
        const char *p = s->lines[end] + strspn(s->lines[end], " \t");
        if (strncmp(p, "repeat ", 7) == 0)
            depth++;
        else if (strcmp(p, "end") == 0)
            depth--;
    }
    for (long i = from; i <= to; i++) {
        s->vars[variable] = i;
        run_lines(s, at + 1, end);
    }
    return end + 1;
}

/* ---- lines ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(struct script *s);
    int unstarted; /* may come before the stack is made */
} commands[] = {
    {"set", do_set, 1},         {"flow", do_flow, 1},         {"let", do_let, 1},
    {"start", do_start, 1},     {"<", do_inject, 0},          {">", do_expect, 0},
    {"none", do_none, 0},       {"burst", do_burst, 0},       {"drop", do_drop, 0},
    {"output", do_output, 0},   {"count", do_count, 0},       {"event", do_event, 0},
    {"noevent", do_noevent, 0}, {"open", do_open, 0},         {"state", do_state, 0},
    {"info", do_info, 0},       {"counter", do_counter, 0},   {"deadline", do_deadline, 0},
    {"isn", do_isn, 0},         {"distance", do_distance, 0},
};

/* "+SECONDS" or "+FROM~TO" in front of a command. */
static void parse_time(struct script *s)
{
    const char *word = script_peek(s);
    s->has_time = 0;
    s->time_lo_us = s->time_hi_us = 0;
    if (!word || word[0] != '+')
        return;
    char *end;
    double lo = strtod(word + 1, &end);
    double hi = lo;
    if (*end == '~')
        hi = strtod(end + 1, &end);
    if (*end != '\0')
        script_fail(s, "\"%s\" is not a time", word);
    s->has_time = 1;
    s->time_lo_us = (uint64_t)(lo * 1e6 + 0.5);
    s->time_hi_us = (uint64_t)(hi * 1e6 + 0.5);
    s->at++;
}

static void run_end_of_line(struct script *s)
{
    script_end(s);
    if (s->started)
        rig_check(&s->rig);
}

static void run_line(struct script *s, const char *line)
{
    script_lex(s, line);
    parse_time(s);
    const char *name = script_next(s);
    if (!name)
        return;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        if (!commands[i].unstarted)
            do_start(s);
        commands[i].run(s);
        run_end_of_line(s);
        return;
    }
    do_start(s);
    if (!calls_run(s, name))
        script_fail(s, "unknown command \"%s\"", name);
    run_end_of_line(s);
}

static void run_lines(struct script *s, unsigned first, unsigned last)
{
    for (unsigned i = first; i < last;) {
        s->line = i + 1;
        script_lex(s, s->lines[i]);
        if (s->word_count > 0 && strcmp(s->words[0], "repeat") == 0) {
            s->at = 1;
            i = do_repeat(s, i, last);
        } else {
            run_line(s, s->lines[i]);
            i++;
        }
    }
}

/* At the end no frame and no event may be pending, and no reference without a connection. */
static void run_end(struct script *s)
{
    struct rig *rig = &s->rig;
    s->line = s->line_count;
    s->has_time = 0;
    s->time_lo_us = s->time_hi_us = 0;
    do_start(s);
    do_none(s);
    do_noevent(s);
    rig_check(rig);
    for (unsigned i = 0; i < rig->ref_count; i++)
        if (!rig->refs[i].released && !rig->refs[i].flow->conn)
            script_fail(s, "reference %d was never released", rig->refs[i].id);
}

static void run_script(const char *path, int verbose)
{
    static struct script s;
    s.rig.owner = &s;
    s.rig.fail = rig_failed;
    s.rig.log = verbose ? stdout : open_memstream(&s.log_text, &s.log_bytes);
    script_load(&s, path);
    rig_defaults(&s.rig);
    run_lines(&s, 0, s.line_count);
    run_end(&s);
    rig_free(&s.rig);
    if (!verbose)
        fclose(s.rig.log);
    free(s.log_text);
    for (unsigned i = 0; i < s.line_count; i++)
        free(s.lines[i]);
    free(s.lines);
}

static int is_script(const struct dirent *entry)
{
    const char *suffix = strrchr(entry->d_name, '.');
    return suffix && strcmp(suffix, ".pkt") == 0;
}

/* Whether a script passes, in a process of its own: a failed assertion ends that process only. */
static int script_passes(const char *folder, const char *name)
{
    char path[4096];
    int status = 0;
    pid_t child;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        run_script(path, 0);
        exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Runs every script of a folder and reports in TAP. Returns 0 if all pass, and there are some. */
static int run_folder(const char *folder)
{
    struct dirent **entries;
    int failed = 0;
    int n = scandir(folder, &entries, is_script, alphasort);
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        int ok = script_passes(folder, entries[i]->d_name);
        printf("%s %d - %s\n", ok ? "ok" : "not ok", i + 1, entries[i]->d_name);
        failed += !ok;
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return n <= 0 || failed > 0;
}

int main(int argc, char **argv)
{
    int folder = argc == 3 && strcmp(argv[1], "--all") == 0;
    int verbose = argc == 3 && strcmp(argv[1], "-v") == 0;
    if (argc != 2 + (folder || verbose)) {
        fprintf(stderr, "usage: %s [-v] SCRIPT | --all FOLDER\n", argv[0]);
        return 2;
    }
    if (folder)
        return run_folder(argv[2]);
    run_script(argv[1 + verbose], verbose);
    return 0;
}
