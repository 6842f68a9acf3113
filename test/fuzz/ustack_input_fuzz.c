/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes one stack with a sequence of frames, application calls and passing time.
 *
 * The input is a little program (see run_op). Segments are built with right checksums and with
 * sequence numbers relative to what the stack has sent, so that mutations get past the first checks
 * and into the state machine. The oracle: no sanitizer report, us_check() finds nothing, and every
 * reference is released exactly once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ustack/ustack.h"

enum {
    PEERS = 4,
    CONNS_MAX = 8,
    FRAME_MAX = 2048,
    LOCAL_PORT = 11211,
    PEER_PORT = 40000,
    FRAMES_OUT = 8,
    PROTOCOL_ICMP_ERROR = 254, /* in the input: ICMP with an error made here */
    REF_BYTES = 9000
};

static const uint8_t LOCAL_IP[4] = {10, 0, 0, 1};
static const uint8_t PEER_IP[4] = {10, 0, 0, 2};
static const uint8_t LOCAL_MAC[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t PEER_MAC[6] = {2, 0, 0, 0, 0, 2};

struct peer {
    uint32_t seq; /* next that the peer would send */
    uint32_t ack; /* next that it expects */
};

struct world {
    struct us_stack *stack;
    uint64_t now_us;
    struct peer peers[PEERS];
    struct us_conn *conns[CONNS_MAX];
    unsigned refs_queued;
    unsigned refs_released;
    int keep; /* keep half of each DATA event */
    uint8_t ref_seen[256];
    uint8_t frame[FRAME_MAX];
};

static uint8_t ref_data[REF_BYTES];

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static unsigned take_u8(struct reader *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static unsigned take_u16(struct reader *in)
{
    unsigned high = take_u8(in);
    return high << 8 | take_u8(in);
}

static void put_u16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put_u32(uint8_t *p, uint32_t v)
{
    put_u16(p, v >> 16);
    put_u16(p + 2, v & 0xffff);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static unsigned sum16(unsigned sum, const uint8_t *p, unsigned len)
{
    for (unsigned i = 0; i < len; i++)
        sum += i % 2 ? p[i] : (unsigned)p[i] << 8;
    return sum;
}

static unsigned fold(unsigned sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

static void forget_conn(struct world *w, struct us_conn *conn)
{
    for (unsigned i = 0; i < CONNS_MAX; i++)
        if (w->conns[i] == conn)
            w->conns[i] = NULL;
}

static void remember_conn(struct world *w, struct us_conn *conn)
{
    for (unsigned i = 0; i < CONNS_MAX; i++) {
        if (w->conns[i] == NULL) {
            w->conns[i] = conn;
            return;
        }
    }
    us_abort(w->stack, conn);
}

static void handle_event(struct world *w, const struct us_event *ev)
{
    switch (ev->type) {
    case US_EV_ACCEPTED:
        remember_conn(w, ev->conn);
        break;
    case US_EV_DATA:
        if (ev->len == 0)
            abort();
        if (w->keep)
            (void)us_recv_keep(w->stack, ev->conn, ev->data + ev->len / 2, ev->len - ev->len / 2);
        break;
    case US_EV_RELEASED:
        w->refs_released++;
        if (w->ref_seen[(uintptr_t)ev->cookie] != 1)
            abort();
        w->ref_seen[(uintptr_t)ev->cookie] = 2;
        break;
    case US_EV_CLOSED:
        if (ev->reason == US_CLOSE_NONE)
            abort();
        forget_conn(w, ev->conn);
        break;
    case US_EV_DATAGRAM:
        /* Replies to the source; refused if that is no host address. */
        (void)us_udp_reply(w->stack, ev->datagram, ev->data, ev->len);
        break;
    case US_EV_CWND:
    case US_EV_NONE:
    case US_EV_CONNECTED:
    case US_EV_PEER_CLOSED:
    case US_EV_SENDABLE:
        break;
    }
}

static void drain_events(struct world *w)
{
    struct us_event ev;

    while (us_next_event(w->stack, &ev))
        handle_event(w, &ev);
}

/* Records a segment sent to a peer, so that later segments can acknowledge it. */
static void see_frame(struct world *w, const struct us_pkt *pkt)
{
    const uint8_t *tcp = pkt->data + 14 + 20;

    if (pkt->len < 54 || pkt->data[12] != 8 || pkt->data[13] != 0 || pkt->data[23] != 6)
        return;
    unsigned port = (unsigned)tcp[2] << 8 | tcp[3];
    if (port < PEER_PORT || port >= PEER_PORT + PEERS)
        return;
    unsigned ip_len = (unsigned)pkt->data[16] << 8 | pkt->data[17];
    uint32_t len = ip_len - 20 - (tcp[12] >> 4) * 4u;
    w->peers[port - PEER_PORT].ack = get_u32(tcp + 4) + len + !!(tcp[13] & 3);
}

static void pump(struct world *w)
{
    static uint8_t room[FRAMES_OUT][FRAME_MAX];
    struct us_pkt pkts[FRAMES_OUT];
    struct us_pkt *ptrs[FRAMES_OUT];
    unsigned n;

    for (unsigned turn = 0; turn < 16; turn++) {
        memset(pkts, 0, sizeof(pkts));
        for (unsigned i = 0; i < FRAMES_OUT; i++) {
            pkts[i].data = room[i];
            pkts[i].room = FRAME_MAX;
            ptrs[i] = &pkts[i];
        }
        n = us_output(w->stack, ptrs, FRAMES_OUT, w->now_us);
        for (unsigned i = 0; i < n; i++)
            see_frame(w, ptrs[i]);
        drain_events(w);
        if (n < FRAMES_OUT)
            return;
    }
}

static void input_frame(struct world *w, unsigned len)
{
    struct us_pkt pkt;
    struct us_pkt *ptr = &pkt;
    /* An exact heap copy: sanitizers detect reads beyond the end. */
    uint8_t *copy = malloc(len ? len : 1);

    memcpy(copy, w->frame, len);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = copy;
    pkt.len = len;
    while (us_input(w->stack, &ptr, 1, w->now_us) == 0)
        drain_events(w);
    drain_events(w);
    free(copy);
    pump(w);
}

static unsigned build_headers(struct world *w, unsigned protocol, unsigned body_len)
{
    uint8_t *ip = w->frame + 14;

    memcpy(w->frame, LOCAL_MAC, 6);
    memcpy(w->frame + 6, PEER_MAC, 6);
    put_u16(w->frame + 12, 0x0800);
    memset(ip, 0, 20);
    ip[0] = 0x45;
    put_u16(ip + 2, 20 + body_len);
    ip[8] = 64;
    ip[9] = (uint8_t)protocol;
    memcpy(ip + 12, PEER_IP, 4);
    memcpy(ip + 16, LOCAL_IP, 4);
    put_u16(ip + 10, fold(sum16(0, ip, 20)));
    return 14 + 20 + body_len;
}

static void op_segment(struct world *w, struct reader *in)
{
    unsigned who = take_u8(in);
    struct peer *peer = &w->peers[who % PEERS];
    unsigned flags = take_u8(in) & 0x3f;
    int16_t seq_off = (int16_t)take_u16(in);
    int16_t ack_off = (int16_t)take_u16(in);
    unsigned window = take_u16(in);
    unsigned opt_len = take_u8(in) % 11 * 4;
    unsigned len = take_u16(in) % 1400;
    uint8_t *tcp = w->frame + 34;
    uint8_t pseudo[12];

    put_u16(tcp, PEER_PORT + who % PEERS);
    put_u16(tcp + 2, who & 0x80 ? PEER_PORT - 1 : LOCAL_PORT);
    put_u32(tcp + 4, peer->seq + (uint32_t)seq_off);
    put_u32(tcp + 8, peer->ack + (uint32_t)ack_off);
    tcp[12] = (uint8_t)((20 + opt_len) / 4 << 4);
    tcp[13] = (uint8_t)flags;
    put_u16(tcp + 14, window);
    put_u16(tcp + 16, 0);
    put_u16(tcp + 18, 0);
    for (unsigned i = 0; i < opt_len; i++)
        tcp[20 + i] = (uint8_t)take_u8(in);
    for (unsigned i = 0; i < len; i++)
        tcp[20 + opt_len + i] = (uint8_t)(peer->seq + i);
    len += 20 + opt_len;
    memcpy(pseudo, PEER_IP, 4);
    memcpy(pseudo + 4, LOCAL_IP, 4);
    put_u16(pseudo + 8, 6);
    put_u16(pseudo + 10, len);
    put_u16(tcp + 16, fold(sum16(sum16(0, pseudo, 12), tcp, len)));
    if (seq_off == 0)
        peer->seq += len - 20 - opt_len + !!(flags & 3);
    input_frame(w, build_headers(w, 6, len));
}

/* An ICMP error about a segment that a peer may have been sent. */
static void op_icmp_error(struct world *w, struct reader *in)
{
    unsigned who = take_u8(in) % PEERS;
    unsigned code = take_u8(in);
    unsigned mtu = take_u16(in);
    int16_t seq_off = (int16_t)take_u16(in);
    uint8_t *icmp = w->frame + 34;
    uint8_t *quote = icmp + 8;

    memset(icmp, 0, 8 + 28);
    icmp[0] = code & 0x80 ? 11 : 3;
    icmp[1] = code & 0x40 ? code & 15 : 4;
    put_u16(icmp + 6, mtu);
    quote[0] = 0x45;
    quote[9] = 6;
    memcpy(quote + 12, LOCAL_IP, 4);
    memcpy(quote + 16, PEER_IP, 4);
    put_u16(quote + 20, LOCAL_PORT);
    put_u16(quote + 22, PEER_PORT + who);
    put_u32(quote + 24, w->peers[who].ack + (uint32_t)seq_off);
    put_u16(icmp + 2, fold(sum16(0, icmp, 8 + 28)));
    input_frame(w, build_headers(w, 1, 8 + 28));
}

static void op_ip(struct world *w, struct reader *in)
{
    unsigned protocol = take_u8(in);
    unsigned len = take_u16(in) % 1480;
    uint8_t *body = w->frame + 34;

    if (protocol == PROTOCOL_ICMP_ERROR) {
        op_icmp_error(w, in);
        return;
    }
    for (unsigned i = 0; i < len; i++)
        body[i] = (uint8_t)take_u8(in);
    if (len >= 4 && protocol == 1) {
        put_u16(body + 2, 0);
        put_u16(body + 2, fold(sum16(0, body, len)));
    }
    input_frame(w, build_headers(w, protocol, len));
}

/* The Ethernet and IPv6 headers in front of `len` bytes; to: 0 our address, 1 and 2 groups. */
static unsigned build_headers6(struct world *w, unsigned next, unsigned hop_limit, unsigned to,
                               unsigned from, unsigned len)
{
    static const uint8_t dst[3][16] = {
        {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
        {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
        {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1},
    };
    static const uint8_t src[3][16] = {
        {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
        {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
        {0},
    };
    uint8_t *ip = w->frame + 14;

    memcpy(w->frame, LOCAL_MAC, 6);
    if (to % 3 != 0) {
        put_u16(w->frame, 0x3333);
        memcpy(w->frame + 2, dst[to % 3] + 12, 4);
    }
    memcpy(w->frame + 6, PEER_MAC, 6);
    put_u16(w->frame + 12, 0x86dd);
    put_u32(ip, 6u << 28);
    put_u16(ip + 4, len);
    ip[6] = (uint8_t)next;
    ip[7] = (uint8_t)hop_limit;
    memcpy(ip + 8, src[from % 3], 16);
    memcpy(ip + 24, dst[to % 3], 16);
    return 14 + 40 + len;
}

/* ICMPv6 and UDP get right checksums if nothing stands in front of them. */
static void op_ip6(struct world *w, struct reader *in)
{
    unsigned next = take_u8(in);
    unsigned ends = take_u8(in);
    unsigned len = take_u16(in) % 1400;
    uint8_t *body = w->frame + 54;
    unsigned total;
    unsigned sum;

    for (unsigned i = 0; i < len; i++)
        body[i] = (uint8_t)take_u8(in);
    total = build_headers6(w, next, ends & 0x80 ? 255 : 64, ends & 3, ends >> 2 & 3, len);
    if (len >= 8 && (next == 58 || next == 17)) {
        unsigned at = next == 58 ? 2 : 6;
        if (next == 17)
            put_u16(body + 4, len);
        put_u16(body + at, 0);
        sum = sum16(next + len, w->frame + 22, 32);
        put_u16(body + at, fold(sum16(sum, body, len)));
    }
    input_frame(w, total);
}

/* A fragment of either family; few identifications, so that fragments match. */
static void op_fragment(struct world *w, struct reader *in)
{
    unsigned what = take_u8(in);
    unsigned field = take_u16(in) % 4096 & ~7u;
    unsigned len = take_u8(in) % 240 * 8;
    uint8_t *ip = w->frame + 14;
    unsigned total;

    if (what & 1) {
        uint8_t *hdr = w->frame + 54;
        memset(hdr, (int)what, 8 + len);
        hdr[0] = what & 2 ? 17 : 58;
        hdr[1] = 0;
        put_u16(hdr + 2, field | (what >> 2 & 1));
        put_u32(hdr + 4, what >> 3 & 1);
        total = build_headers6(w, 44, 64, 0, 0, 8 + len);
    } else {
        memset(ip + 20, (int)what, len);
        total = build_headers(w, what & 2 ? 17 : 1, len);
        put_u16(ip + 4, what >> 3 & 1);
        put_u16(ip + 6, field >> 3 | (what & 4 ? 0x2000 : 0));
        put_u16(ip + 10, 0);
        put_u16(ip + 10, fold(sum16(0, ip, 20)));
    }
    input_frame(w, total - (what >> 7 & (len > 0)));
}

static void op_raw(struct world *w, struct reader *in)
{
    unsigned len = take_u16(in) % FRAME_MAX;

    for (unsigned i = 0; i < len; i++)
        w->frame[i] = (uint8_t)take_u8(in);
    input_frame(w, len);
}

static void op_time(struct world *w, struct reader *in)
{
    unsigned kind = take_u8(in);
    uint64_t deadline = us_deadline(w->stack);

    if (kind & 1 && deadline != US_NEVER && deadline > w->now_us)
        w->now_us = deadline;
    else
        w->now_us += (uint64_t)take_u16(in) << (kind >> 1 & 15);
    (void)us_input(w->stack, NULL, 0, w->now_us);
    drain_events(w);
    pump(w);
}

static void send_some(struct world *w, struct us_conn *conn, unsigned how, unsigned len)
{
    u_u32 room = 0;
    u_u8 *at;

    if (how == 0) {
        (void)us_send(w->stack, conn, ref_data, len % REF_BYTES);
    } else if (how == 1) {
        at = us_reserve(w->stack, conn, 1 + len % US_RESERVE_MAX, 0, &room);
        if (at != NULL) {
            memset(at, 'r', room);
            us_commit(w->stack, conn, len % (room + 1));
        }
    } else if (w->refs_queued < 255) {
        unsigned id = w->refs_queued + 1;
        w->ref_seen[id] = 1;
        if (us_send_ref(w->stack, conn, ref_data, 1 + len % REF_BYTES, (void *)(uintptr_t)id) == 0)
            w->refs_queued++;
    }
}

/* Iterates over all connections; each must be returned once. */
static void walk(struct world *w)
{
    struct us_conn_info info;
    struct us_conn *conn;
    unsigned met = 0;
    u_u32 cursor = 0;

    do {
        conn = us_conn_next(w->stack, &cursor);
        if (conn == NULL)
            continue;
        us_conn_get_info(w->stack, conn, &info);
        if (info.state == US_TCP_CLOSED || ++met > CONNS_MAX)
            abort();
    } while (cursor != 0);
}

/* Settings of a connection: times of up to a minute, marks, limits. */
static void set_something(struct world *w, struct us_conn *conn, unsigned what, unsigned value)
{
    switch (what) {
    case 8:
        (void)us_conn_set_keepalive(w->stack, conn, value, 1 + value % 1000, 1 + value % 5);
        break;
    case 9:
        us_conn_set_user_timeout(w->stack, conn, value);
        break;
    case 10:
        (void)us_close_within(w->stack, conn, value);
        break;
    case 11:
        us_conn_set_low_water(w->stack, conn, value);
        us_request_sendable(w->stack, conn);
        break;
    default:
        (void)us_listen_limit(w->stack, LOCAL_PORT, value % (CONNS_MAX + 1),
                              value & 0x100 ? US_LISTEN_REFUSE : US_LISTEN_DROP);
        break;
    }
}

static void op_call(struct world *w, struct reader *in)
{
    unsigned what = take_u8(in);
    unsigned len = take_u16(in);
    struct us_conn *conn = w->conns[what >> 5];
    struct us_addr remote = {US_IP4, {10, 0, 0, 2}};

    if ((what & 15) == 7) {
        conn = us_connect(w->stack, &remote, (u_u16)(PEER_PORT + len % PEERS),
                          len & 0x8000 ? LOCAL_PORT : 0, NULL, NULL);
        if (conn != NULL)
            remember_conn(w, conn);
    } else if (conn != NULL) {
        switch (what & 15) {
        case 3:
            (void)us_close(w->stack, conn);
            break;
        case 4:
            us_abort(w->stack, conn);
            break;
        case 5:
            us_recv_resume(w->stack, conn);
            break;
        case 6:
            w->keep = !w->keep;
            break;
        case 8:
        case 9:
        case 10:
        case 11:
        case 12:
            set_something(w, conn, what & 15, len);
            break;
        case 13:
            walk(w);
            break;
        default:
            send_some(w, conn, what & 15, len);
            break;
        }
    }
    drain_events(w);
    pump(w);
}

static void run_op(struct world *w, struct reader *in)
{
    unsigned op = take_u8(in);

    switch (op % 8) {
    case 0:
        op_raw(w, in);
        break;
    case 1:
        if (op & 0x80)
            op_ip6(w, in);
        else if (op & 0x40)
            op_fragment(w, in);
        else
            op_ip(w, in);
        break;
    case 2:
    case 3:
        op_time(w, in);
        break;
    case 4:
        op_call(w, in);
        break;
    default:
        op_segment(w, in);
        break;
    }
}

static void create_stack(struct world *w, const struct us_config *config, void *memory,
                         unsigned long bytes)
{
    struct us_addr addr = {US_IP4, {10, 0, 0, 1}};
    struct us_addr addr6 = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

    memset(memory, 0, bytes);
    w->stack = us_create(config, memory, bytes, w->now_us);
    if (w->stack == NULL || us_addr_add(w->stack, &addr, 24) != 0 ||
        us_addr_add(w->stack, &addr6, 64) != 0 || us_listen(w->stack, LOCAL_PORT, NULL) != 0 ||
        us_udp_bind(w->stack, LOCAL_PORT, NULL) != 0)
        abort();
}

/* At the end all connections are closed: references are released, pools empty. */
static void finish(struct world *w)
{
    for (unsigned i = 0; i < CONNS_MAX; i++)
        if (w->conns[i] != NULL)
            us_abort(w->stack, w->conns[i]);
    drain_events(w);
    pump(w);
    if (us_check(w->stack) != NULL || w->refs_released != w->refs_queued)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *memory;
    static unsigned long bytes;
    static struct us_config config;
    struct reader in = {data, data + size};
    struct world w;

    if (memory == NULL) {
        us_config_defaults(&config);
        memcpy(config.mac, LOCAL_MAC, 6);
        memset(config.secret, 7, sizeof(config.secret));
        config.conn_max = 8;
        config.half_open_max = 4;
        config.time_wait_max = 2;
        config.neighbour_max = 4;
        config.listen_max = 2;
        config.datagram_max = 8;
        config.ip6_autoconf = 1;
        config.reassembly_max = 2;
        config.reassembly_bytes = 4096;
        config.buffer_bytes = 128 * 1024;
        config.send_queue_bytes = 16 * 1024;
        config.send_refs_max = 4;
        config.recv_window_bytes = 16 * 1024;
        bytes = us_memory_bytes(&config);
        memory = malloc(bytes);
    }
    memset(&w, 0, sizeof(w));
    w.now_us = 1000000;
    create_stack(&w, &config, memory, bytes);
    pump(&w);
    for (unsigned i = 0; i < 2; i++) { /* duplicate detection of the IPv6 addresses */
        w.now_us += 1000000;
        (void)us_input(w.stack, NULL, 0, w.now_us);
        pump(&w);
    }
    for (unsigned i = 0; i < PEERS; i++)
        w.peers[i].seq = 0xfffff000u + i;
    while (in.at < in.end) {
        run_op(&w, &in);
        if (us_check(w.stack) != NULL)
            abort();
    }
    finish(&w);
    return 0;
}
