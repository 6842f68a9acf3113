/* SPDX-License-Identifier: BSD-3-Clause */
/* One stack on a virtual clock, driven frame by frame. See rig.h. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_ROOM = 65536 + 64, SPIN_MAX = 2000 };

uint8_t rig_pattern(int from_peer, uint32_t offset)
{
    return (uint8_t)(offset * 131u + (offset >> 8) * 29u + (from_peer ? 17u : 90u));
}

void rig_defaults(struct rig *rig)
{
    static const u_u8 mac[6] = {2, 0, 0, 0, 0, 1};
    struct us_config *c = &rig->config;
    us_config_defaults(c);
    memcpy(c->mac, mac, 6);
    for (unsigned i = 0; i < US_SECRET_BYTES; i++)
        c->secret[i] = (u_u8)(i * 7 + 3);
    c->caps = 0;
    c->mtu = 1500;
    c->conn_max = 64;
    c->half_open_max = 16;
    c->time_wait_max = 16;
    c->neighbour_max = 16;
    c->listen_max = 4;
    c->buffer_bytes = 1 << 20;
    c->send_queue_bytes = 1 << 16;
    c->send_refs_max = 8;
    c->recv_window_bytes = 65535;
    c->rto_min_us = 200000;
    c->rto_initial_us = 1000000;
    c->rto_max_us = 60000000;
    c->delayed_ack_us = 40000;
    c->quick_acks = 0;  /* scripts about delays begin with a delay */
    c->cc = US_CC_RENO; /* whole numbers are easy to follow */
    c->time_wait_us = 10000000;
    c->fin_wait2_us = 20000000;
    c->syn_retries_max = 3;
    c->syn_ack_retries_max = 3;
    c->peer_ack_delay_us = 0; /* scripts about delayed ACKs set it */
    c->r2_ms = 100000;
    c->backoff_max_us = 60000000; /* scripts say where the doubling ends */
    c->neighbour_lifetime_us = 600000000;
    rig->local_ip = 0x0a000001;
    rig->prefix_len = 24;
    rig->auto_arp = 1;
    rig->auto_checks = 1;
    rig->burst = 32;
    rig->now_us = 1000000;
}

static struct us_addr addr4(uint32_t ip)
{
    struct us_addr a;
    memset(&a, 0, sizeof(a));
    a.family = US_IP4;
    for (unsigned i = 0; i < 4; i++)
        a.bytes[i] = (u_u8)(ip >> (24 - 8 * i));
    return a;
}

void rig_start(struct rig *rig)
{
    unsigned long bytes = us_memory_bytes(&rig->config);
    if (bytes == 0)
        rig->fail(rig, "us_memory_bytes() refuses the configuration");
    rig->memory = calloc(1, bytes);
    rig->stack = us_create(&rig->config, rig->memory, bytes, rig->now_us);
    if (!rig->stack)
        rig->fail(rig, "us_create() refuses the configuration");
    struct us_addr local = addr4(rig->local_ip);
    if (us_addr_add(rig->stack, &local, rig->prefix_len) != US_OK)
        rig->fail(rig, "us_addr_add() fails");
    if (rig->gateway_ip != 0) {
        struct us_addr gateway = addr4(rig->gateway_ip);
        if (us_gateway_set(rig->stack, &gateway) != US_OK)
            rig->fail(rig, "us_gateway_set() fails");
    }
}

static void forget_input(struct rig *rig)
{
    for (unsigned i = 0; i < rig->in_count; i++)
        free(rig->in[i]);
    rig->in_count = 0;
    for (unsigned i = 0; i < rig->flow_count; i++)
        rig->flows[i].data = NULL;
}

void rig_free(struct rig *rig)
{
    forget_input(rig);
    for (unsigned i = 0; i < rig->out_tail; i++)
        free(rig->out[i].bytes);
    for (unsigned i = 0; i < rig->ref_count; i++)
        free(rig->refs[i].bytes);
    free(rig->memory);
}

struct rig_flow *rig_flow(struct rig *rig, unsigned number)
{
    for (unsigned i = 0; i < rig->flow_count; i++)
        if (rig->flows[i].number == (int)number)
            return &rig->flows[i];
    if (rig->flow_count == RIG_FLOWS_MAX)
        rig->fail(rig, "too many flows");
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
    struct rig_flow *flow = &rig->flows[rig->flow_count++];
    memset(flow, 0, sizeof(*flow));
    flow->number = (int)number;
    flow->peer_ip = 0x0a000002;
    memcpy(flow->peer_mac, mac, 6);
    flow->peer_port = (uint16_t)(40000 + number);
    flow->local_port = 11211;
    flow->peer_isn = 1000000u * number;
    flow->window = 65535;
    flow->peer_syn_ws = flow->stack_syn_ws = -1;
    flow->peer_mss = 536;
    return flow;
}

static struct rig_flow *flow_of_frame(struct rig *rig, const struct frame *f)
{
    for (unsigned i = 0; i < rig->flow_count; i++) {
        struct rig_flow *flow = &rig->flows[i];
        if (f->kind == FRAME_TCP && flow->peer_ip == f->dst_ip && flow->peer_port == f->dst_port &&
            flow->local_port == f->src_port)
            return flow;
    }
    return NULL;
}

static struct rig_flow *flow_of_conn(struct rig *rig, struct us_conn *conn)
{
    struct us_conn_info info;
    us_conn_get_info(rig->stack, conn, &info);
    for (unsigned i = 0; i < rig->flow_count; i++) {
        struct rig_flow *flow = &rig->flows[i];
        struct us_addr addr = addr4(flow->peer_ip);
        if (info.remote_port == flow->peer_port && info.local_port == flow->local_port &&
            memcmp(&info.remote, &addr, sizeof(addr)) == 0)
            return flow;
    }
    rig->fail(rig, "ACCEPTED for a connection that no flow of the script belongs to");
    return NULL;
}

/* ---- events ------------------------------------------------------------------------------ */

static const char *const event_names[] = {"NONE",        "ACCEPTED", "CONNECTED", "DATA",
                                          "PEER_CLOSED", "SENDABLE", "RELEASED",  "CLOSED"};
const char *rig_event_name(enum us_event_type type)
{
    return (unsigned)type < 8 ? event_names[type] : "?";
}

const char *rig_reason_name(enum us_close_reason reason)
{
    return us_close_reason_name(reason);
}

static void check_data(struct rig *rig, struct rig_flow *flow, const struct us_event *ev)
{
    uint32_t at = flow->received + flow->stall_bytes;
    if (ev->len == 0)
        rig->fail(rig, "DATA event without bytes");
    if (flow->held)
        rig->fail(rig, "DATA event although bytes were kept and not asked for again");
    for (u_u32 i = 0; i < ev->len; i++)
        if (ev->data[i] != rig_pattern(1, at + i))
            rig->fail(rig, "DATA: byte %u of the stream is 0x%02x, not 0x%02x", at + i, ev->data[i],
                      rig_pattern(1, at + i));
    if (flow->stalled) {
        if (us_recv_keep(rig->stack, flow->conn, ev->data, ev->len) != US_OK)
            rig->fail(rig, "us_recv_keep() of %u bytes fails", ev->len);
        flow->stall_bytes += ev->len;
        return;
    }
    flow->received += ev->len;
    flow->data = ev->data;
    flow->data_len = ev->len;
}

static void note_released(struct rig *rig, struct rig_event *e)
{
    struct rig_ref *ref = e->ev.cookie;
    if (ref < rig->refs || ref >= rig->refs + rig->ref_count)
        rig->fail(rig, "RELEASED with a cookie that was never given");
    if (ref->released)
        rig->fail(rig, "reference %d released twice", ref->id);
    ref->released = 1;
    memset(ref->bytes, 0xdd, 1);
    e->flow = ref->flow;
    e->ref_id = ref->id;
}

static void take_events(struct rig *rig)
{
    struct us_event ev;
    memset(&ev, 0, sizeof(ev));
    while (us_next_event(rig->stack, &ev)) {
        if (rig->event_tail == RIG_EVENTS_MAX)
            rig->fail(rig, "too many events");
        struct rig_event *e = &rig->events[rig->event_tail++];
        memset(e, 0, sizeof(*e));
        e->ev = ev;
        if (ev.type == US_EV_RELEASED) {
            note_released(rig, e);
        } else if (ev.type == US_EV_ACCEPTED) {
            e->flow = flow_of_conn(rig, ev.conn);
            e->flow->conn = ev.conn;
            us_conn_set_user(ev.conn, e->flow);
        } else {
            e->flow = ev.user;
            if (!e->flow || e->flow->conn != ev.conn)
                rig->fail(rig, "%s for a connection that is not known", rig_event_name(ev.type));
        }
        if (ev.type == US_EV_CLOSED)
            e->flow->conn = NULL;
        fprintf(rig->log, "# %9.6f   event @%d %s len %u\n", (double)rig->now_us / 1e6,
                e->flow->number, rig_event_name(ev.type), ev.type == US_EV_DATA ? ev.len : 0);
        if (ev.type == US_EV_DATA) {
            check_data(rig, e->flow, &ev);
            if (e->flow->stalled)
                rig->event_tail--;
        }
    }
}

struct rig_event *rig_event_first(struct rig *rig, const struct rig_flow *flow)
{
    take_events(rig);
    for (unsigned i = 0; i < rig->event_tail; i++)
        if (!rig->event_taken[i] && (!flow || rig->events[i].flow == flow))
            return &rig->events[i];
    return NULL;
}

void rig_event_take(struct rig *rig, struct rig_event *event)
{
    rig->event_taken[event - rig->events] = 1;
}

/* ---- frames in --------------------------------------------------------------------------- */

static void note_injected(struct rig *rig, const struct rig_in *in)
{
    struct frame f;
    if (frame_parse(in->bytes, in->len, &f) != NULL || f.kind != FRAME_TCP)
        return;
    for (unsigned i = 0; i < rig->flow_count; i++) {
        struct rig_flow *flow = &rig->flows[i];
        if (flow->peer_ip != f.src_ip || flow->peer_port != f.src_port ||
            flow->local_port != f.dst_port)
            continue;
        if (f.flags & TCP_SYN && f.seq == flow->peer_isn) {
            flow->peer_syn_ws = f.opts.has_ws ? (int)(f.opts.ws > 14 ? 14 : f.opts.ws) : -1;
            flow->peer_syn_ts = f.opts.has_ts;
            flow->peer_mss = f.opts.has_mss ? f.opts.mss : 536;
        }
        if (!(f.flags & TCP_ACK))
            continue;
        int scaled = !(f.flags & TCP_SYN) && flow->peer_syn_ws > 0 && flow->stack_syn_ws >= 0;
        uint32_t edge = f.ack + ((uint32_t)f.window << (scaled ? flow->peer_syn_ws : 0));
        if (!flow->edge_known || (int32_t)(edge - flow->send_edge) > 0)
            flow->send_edge = edge;
        flow->edge_known = 1;
    }
}

void rig_input(struct rig *rig, const struct rig_in *in, unsigned n)
{
    struct us_pkt pkts[64];
    struct us_pkt *list[64];
    forget_input(rig);
    if (n > 64)
        rig->fail(rig, "a burst has at most 64 frames");
    memset(pkts, 0, sizeof(pkts));
    for (unsigned i = 0; i < n; i++) {
        note_injected(rig, &in[i]);
        rig->in[rig->in_count++] = in[i].bytes;
        pkts[i].data = in[i].bytes;
        pkts[i].len = pkts[i].room = (u_u32)in[i].len;
        pkts[i].flags = in[i].flags;
        list[i] = &pkts[i];
    }
    unsigned done = 0;
    unsigned rounds = 0;
    do {
        done += us_input(rig->stack, list + done, n - done, rig->now_us);
        if (done > n || ++rounds > 1000)
            rig->fail(rig, "us_input() makes no progress");
        take_events(rig);
    } while (done < n);
}

/* ---- frames out -------------------------------------------------------------------------- */

static void note_syn(struct rig_flow *flow, const struct frame *f)
{
    if (!flow->isn_known) {
        flow->stack_isn = f->seq;
        flow->isn_known = 1;
        if (!flow->edge_known)
            flow->send_edge = f->seq + 1;
    }
    flow->stack_syn_ws = f->opts.has_ws ? (int)f->opts.ws : -1;
    flow->stack_syn_ts = f->opts.has_ts;
}

static void check_window(struct rig *rig, struct rig_flow *flow, const struct frame *f)
{
    int shift = 0;
    if (!(f->flags & TCP_SYN) && flow->stack_syn_ws > 0 && flow->peer_syn_ws >= 0)
        shift = flow->stack_syn_ws;
    uint32_t edge = f->ack + ((uint32_t)f->window << shift);
    if (!flow->recv_edge_known || (int32_t)(edge - flow->recv_edge) > 0)
        flow->recv_edge = edge;
    else if ((int32_t)(flow->recv_edge - edge) >= 1 << shift)
        rig->fail(rig, "the window offered shrinks by %u", flow->recv_edge - edge);
    flow->recv_edge_known = 1;
}

static void check_payload(struct rig *rig, struct rig_flow *flow, const struct rig_out *out)
{
    const struct frame *f = &out->frame;
    uint32_t offset = f->seq - flow->stack_isn - 1;
    if (f->len == 0)
        return;
    if (!flow->isn_known || f->flags & TCP_SYN)
        rig->fail(rig, "payload before the handshake");
    for (uint32_t i = 0; i < f->len; i++)
        if (f->payload[i] != rig_pattern(0, offset + i))
            rig->fail(rig, "payload: byte %u of the stream is wrong", offset + i);
    if (offset + f->len > flow->queued)
        rig->fail(rig, "payload beyond what the application has sent");
    if ((int32_t)(f->seq + f->len - flow->send_edge) > 1)
        rig->fail(rig, "payload %u bytes beyond the peer's window",
                  f->seq + f->len - flow->send_edge);
    uint32_t mss = flow->peer_mss < rig->config.mtu - 40 ? flow->peer_mss : rig->config.mtu - 40;
    if (flow->peer_syn_ts && flow->stack_syn_ts)
        mss -= 12;
    if (!(out->flags & US_PKT_TX_TSO) && f->len > mss)
        rig->fail(rig, "payload of %u bytes, more than the MSS %u", f->len, mss);
    if (out->flags & US_PKT_TX_TSO && out->tso_mss > mss)
        rig->fail(rig, "tso_mss is %u, more than the MSS %u", out->tso_mss, mss);
}

static void check_out(struct rig *rig, struct rig_out *out)
{
    static const uint8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
    const struct frame *f = &out->frame;
    if (memcmp(f->src_mac, rig->config.mac, 6) != 0)
        rig->fail(rig, "source MAC is not ours");
    if (f->kind != FRAME_ARP && memcmp(f->dst_mac, broadcast, 6) == 0)
        rig->fail(rig, "IP packet to the broadcast MAC");
    if (f->kind != FRAME_ARP && f->src_ip != rig->local_ip)
        rig->fail(rig, "IP source address is not ours");
    if (f->kind != FRAME_TCP || !out->flow)
        return;
    struct rig_flow *flow = out->flow;
    if (rig->gateway_ip == 0 && memcmp(f->dst_mac, flow->peer_mac, 6) != 0)
        rig->fail(rig, "destination MAC is not the peer's");
    if (f->flags & TCP_SYN)
        note_syn(flow, f);
    if (f->opts.has_ts)
        flow->stack_ts = f->opts.ts_val;
    if (f->len > 0 && !flow->data_sent) {
        flow->data_sent = 1;
        flow->data_ts = flow->stack_ts;
    }
    if (!rig->auto_checks)
        return;
    if (f->flags & TCP_ACK && !(f->flags & TCP_RST) && flow->isn_known)
        check_window(rig, flow, f);
    check_payload(rig, flow, out);
}

/* Does what the NIC was asked to do. TSO frames stay in one piece. */
static void finish_offloads(struct rig *rig, struct rig_out *out, const struct us_pkt *pkt)
{
    uint8_t *b = out->bytes;
    u_u32 asked = pkt->flags & (US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM | US_PKT_TX_TSO);
    u_u32 may = (rig->config.caps & US_CAP_TX_IP_CSUM ? US_PKT_TX_IP_CSUM : 0u) |
                (rig->config.caps & US_CAP_TX_L4_CSUM ? US_PKT_TX_L4_CSUM : 0u) |
                (rig->config.caps & US_CAP_TX_TSO ? US_PKT_TX_TSO : 0u);
    if (asked & ~may)
        rig->fail(rig, "the stack asks for an offload that the NIC does not have");
    if (asked != 0 && (pkt->l2_len != 14 || pkt->l3_len != 20))
        rig->fail(rig, "offload with wrong header lengths %u %u", pkt->l2_len, pkt->l3_len);
    if (asked != 0 && out->len < (u_u32)pkt->l2_len + pkt->l3_len + pkt->l4_len)
        rig->fail(rig, "offload with headers longer than the frame: l4_len %u", pkt->l4_len);
    if (asked & US_PKT_TX_IP_CSUM) {
        b[24] = b[25] = 0;
        uint16_t sum = frame_checksum(b + 14, 20, 0);
        b[24] = (uint8_t)(sum >> 8);
        b[25] = (uint8_t)sum;
    }
    if (asked & US_PKT_TX_L4_CSUM) {
        if (pkt->csum_start != 34 || pkt->csum_offset != 16)
            rig->fail(rig, "csum_start %u or csum_offset %u wrong", pkt->csum_start,
                      pkt->csum_offset);
        if (asked & US_PKT_TX_TSO) {
            frame_fix_checksums(b, out->len);
            return;
        }
        uint16_t sum = frame_checksum(b + 34, out->len - 34, 0);
        b[50] = (uint8_t)(sum >> 8);
        b[51] = (uint8_t)sum;
    }
}

static void store_frame(struct rig *rig, const struct us_pkt *pkt)
{
    if (rig->out_tail == RIG_FRAMES_MAX)
        rig->fail(rig, "too many frames");
    struct rig_out *out = &rig->out[rig->out_tail++];
    memset(out, 0, sizeof(*out));
    out->time_us = rig->now_us;
    out->flags = pkt->flags;
    out->tso_mss = pkt->tso_mss;
    for (const struct us_pkt *s = pkt; s; s = s->next_seg) {
        out->len += s->len;
        out->segments++;
    }
    out->bytes = malloc(out->len);
    size_t at = 0;
    for (const struct us_pkt *s = pkt; s; s = s->next_seg) {
        memcpy(out->bytes + at, s->data, s->len);
        at += s->len;
    }
    u_u32 limit = rig->config.mtu + 14;
    if (!(pkt->flags & US_PKT_TX_TSO) && out->len > limit)
        rig->fail(rig, "frame of %zu bytes, the MTU allows %u", out->len, limit);
    finish_offloads(rig, out, pkt);
    const char *error = frame_parse(out->bytes, out->len, &out->frame);
    out->flow = flow_of_frame(rig, &out->frame);
    char text[300];
    rig_describe(out, text, sizeof(text));
    fprintf(rig->log, "# %9.6f > %s\n", (double)rig->now_us / 1e6, text);
    if (error)
        rig->fail(rig, "the stack sends a bad frame: %s", error);
    check_out(rig, out);
}

static void answer_arp(struct rig *rig)
{
    const struct rig_out *out = &rig->out[rig->out_tail - 1];
    if (!rig->auto_arp || out->frame.kind != FRAME_ARP)
        return;
    struct frame request = out->frame;
    free(rig->out[--rig->out_tail].bytes);
    if (request.arp_op != 1 || request.src_ip == request.dst_ip)
        return;
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
    struct frame reply;
    struct frame_faults none;
    memset(&reply, 0, sizeof(reply));
    memset(&none, 0, sizeof(none));
    reply.kind = FRAME_ARP;
    reply.arp_op = 2;
    memcpy(reply.src_mac, mac, 6);
    for (unsigned i = 0; i < rig->flow_count; i++)
        if (rig->flows[i].peer_ip == request.dst_ip)
            memcpy(reply.src_mac, rig->flows[i].peer_mac, 6);
    memcpy(reply.dst_mac, request.src_mac, 6);
    memcpy(reply.arp_sha, reply.src_mac, 6);
    memcpy(reply.arp_tha, request.src_mac, 6);
    reply.src_ip = request.dst_ip;
    reply.dst_ip = request.src_ip;
    struct rig_in in = {malloc(64), 0, 0};
    in.len = frame_build(&reply, &none, in.bytes);
    rig_input(rig, &in, 1);
}

void rig_output(struct rig *rig)
{
    struct us_pkt pkts[64];
    struct us_pkt *list[64];
    static uint8_t room[64][OUT_ROOM];
    unsigned rounds = 0;
    unsigned n;
    unsigned answered;
    forget_input(rig);
    do {
        memset(pkts, 0xa5, sizeof(pkts)); /* what earlier frames have left in the fields */
        for (unsigned i = 0; i < rig->burst; i++) {
            pkts[i].data = room[i];
            pkts[i].room = rig->config.caps & US_CAP_TX_SG    ? 2048
                           : rig->config.caps & US_CAP_TX_TSO ? 65000
                                                              : rig->config.mtu + 14;
            list[i] = &pkts[i];
        }
        n = us_output(rig->stack, list, rig->burst, rig->now_us);
        if (n > rig->burst || ++rounds > SPIN_MAX)
            rig->fail(rig, "us_output() does not come to an end");
        answered = 0;
        for (unsigned i = 0; i < n; i++) {
            unsigned before = rig->out_tail;
            store_frame(rig, list[i]);
            answer_arp(rig);
            answered += rig->out_tail == before;
        }
        take_events(rig);
    } while (n == rig->burst || answered > 0);
}

void rig_run(struct rig *rig, uint64_t until_us, int on_frame, const struct rig_flow *on_event)
{
    unsigned spins = 0;
    for (;;) {
        rig_output(rig);
        if ((on_frame && rig->out_head < rig->out_tail) ||
            (on_event && rig_event_first(rig, on_event)))
            return;
        u_u64 deadline = us_deadline(rig->stack);
        if (deadline > until_us) /* US_NEVER too */
            break;
        if (deadline > rig->now_us) {
            rig->now_us = deadline;
            spins = 0;
        } else if (++spins > 100) {
            rig->fail(rig, "us_deadline() is %s, and nothing comes of it",
                      deadline == 0 ? "\"at once\"" : "in the past");
        }
        rig_input(rig, NULL, 0);
    }
    rig->now_us = until_us > rig->now_us ? until_us : rig->now_us;
}

void rig_check(struct rig *rig)
{
    const char *broken = us_check(rig->stack);
    if (broken)
        rig->fail(rig, "us_check(): %s", broken);
}

void rig_describe(const struct rig_out *out, char *text, size_t room)
{
    const struct rig_flow *flow = out->flow;
    char label[16] = "";
    if (flow && flow->number != 1)
        snprintf(label, sizeof(label), "@%d ", flow->number);
    size_t used = (size_t)snprintf(text, room, "%s", label);
    frame_describe(&out->frame, flow && flow->isn_known ? flow->stack_isn : 0,
                   flow ? flow->peer_isn : 0, text + used, room - used);
}
