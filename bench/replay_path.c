/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load of `make bench-instructions`: replays a recorded trace of frames through stack, protocol
 * and engine of a server, whose instructions are counted.
 *
 *   bench/replay_path TRACE [setup]     replays; with "setup", only up to the pause in it
 *   bench/replay_path --record TRACE    records a new one
 *
 * The trace is a pcap file of the frames of 32 clients: handshakes, SETs of 200 keys, a pause, then
 * requests one at a time on each connection: gets of text, meta and binary, sets, gets of several
 * keys and misses. Of the server it has the SYN-ACKs, so that acknowledgments and echoed time
 * stamps can be shifted to the numbers that the server chooses in the replay.
 *
 * Under valgrind --tool=callgrind --toggle-collect=net_stack_turn the server alone is counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cksum.h"
#include "base/wire.h"
#include "path.h"

enum { KEYS = 200, ROUNDS = 20, PAUSE_US = 100000, FRAME_MAX = 1600, CLIENT_PORTS = 65536 };
enum { ETH_BYTES = 14, IP_BYTES = 20, TCP_BYTES = 20, FLAG_SYN = 2, FLAG_ACK = 16 };

struct pcap_header {
    uint32_t magic, version, zone, accuracy, snap_bytes, link_type;
};

struct record_header {
    uint32_t seconds, microseconds, captured_bytes, frame_bytes;
};

struct path {
    struct nic *ends[2]; /* the clients', the server's */
    struct net_stack_worker *server;
    uint64_t now_us;
    unsigned long reply_bytes; /* payload that the server has sent */
};

static struct path path;
static FILE *trace;

/* ---- frames ------------------------------------------------------------------------------ */

static uint32_t be32_at(const uint8_t *at)
{
    struct u_be32 be;

    memcpy(&be, at, sizeof(be));
    return u_get_be32(be);
}

static void put_be32(uint8_t *at, uint32_t v)
{
    struct u_be32 be = u_be32(v);

    memcpy(at, &be, sizeof(be));
}

static unsigned be16_at(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static bool is_tcp(const uint8_t *frame, uint32_t len)
{
    return len >= ETH_BYTES + IP_BYTES + TCP_BYTES && be16_at(frame + 12) == 0x0800 &&
           frame[ETH_BYTES] == 0x45 && frame[ETH_BYTES + 9] == 6;
}

static bool is_syn_ack(const uint8_t *frame, uint32_t len)
{
    return is_tcp(frame, len) && (frame[ETH_BYTES + IP_BYTES + 13] & 0x3f) == (FLAG_SYN | FLAG_ACK);
}

/* Address of the time stamps option of a segment (RFC 7323 section 3.2), or null. */
static uint8_t *time_stamps(uint8_t *tcp)
{
    uint8_t *at = tcp + TCP_BYTES, *end = tcp + (tcp[12] >> 4) * 4;

    while (at < end && *at != 0) {
        if (*at == 8)
            return at + 2;
        at += *at == 1 ? 1 : at[1] > 1 ? at[1] : end - at;
    }
    return NULL;
}

static void fill_checksum(uint8_t *frame)
{
    uint8_t *ip = frame + ETH_BYTES, *tcp = ip + IP_BYTES;
    uint32_t len = be16_at(ip + 2) - IP_BYTES;
    struct u_be32 from, to;
    struct u_be16 sum;

    memcpy(&from, ip + 12, 4);
    memcpy(&to, ip + 16, 4);
    memset(tcp + 16, 0, 2);
    sum = u_be16(u_cksum_finish(u_cksum_add(u_cksum_pseudo4(from, to, 6, len), tcp, len)));
    memcpy(tcp + 16, &sum, sizeof(sum));
}

/* ---- the file ---------------------------------------------------------------------------- */

static void write_record(const uint8_t *frame, uint32_t len)
{
    struct record_header head = {(uint32_t)(path.now_us / 1000000),
                                 (uint32_t)(path.now_us % 1000000), len, len};

    if (fwrite(&head, sizeof(head), 1, trace) != 1 || fwrite(frame, len, 1, trace) != 1)
        path_die("the trace cannot be written");
}

/* Returns the length of the next frame, with its time in *at_us; 0 at the end. */
static uint32_t read_record(uint8_t frame[FRAME_MAX], uint64_t *at_us)
{
    struct record_header head;

    if (fread(&head, sizeof(head), 1, trace) != 1)
        return 0;
    if (head.captured_bytes > FRAME_MAX || fread(frame, head.captured_bytes, 1, trace) != 1)
        path_die("the trace is damaged");
    *at_us = (uint64_t)head.seconds * 1000000 + head.microseconds;
    return head.captured_bytes;
}

static void open_trace(const char *name, const char *mode)
{
    struct pcap_header head = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, FRAME_MAX, 1};

    trace = fopen(name, mode);
    if (!trace)
        path_die("the trace cannot be opened");
    if (*mode == 'w' ? fwrite(&head, sizeof(head), 1, trace) != 1
                     : fread(&head, sizeof(head), 1, trace) != 1 || head.magic != 0xa1b2c3d4)
        path_die("this is no trace of this kind of machine");
}

/* ---- replay ------------------------------------------------------------------------------ */

/* By client port: difference of the server's numbers to the recorded ones. */
static uint32_t recorded_seq[CLIENT_PORTS], recorded_stamp[CLIENT_PORTS];
static uint32_t shift_seq[CLIENT_PORTS], shift_stamp[CLIENT_PORTS];

static void look_at_syn_ack(uint8_t *frame, bool recorded)
{
    uint8_t *tcp = frame + ETH_BYTES + IP_BYTES;
    uint8_t *stamps = time_stamps(tcp);
    unsigned port = be16_at(tcp + 2);
    uint32_t seq = be32_at(tcp + 4), stamp = stamps ? be32_at(stamps) : 0;

    if (recorded) {
        recorded_seq[port] = seq;
        recorded_stamp[port] = stamp;
        return;
    }
    shift_seq[port] = seq - recorded_seq[port];
    shift_stamp[port] = stamp - recorded_stamp[port];
}

/* One turn of the server; counts its replies. */
static void serve(void)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n, i;

    net_stack_turn(path.server, path.now_us);
    while ((n = nic_rx_burst(path.ends[0], pkts, NIC_BURST_MAX)) > 0) {
        for (i = 0; i < n; i++) {
            uint8_t *frame = pkts[i]->data;

            if (is_syn_ack(frame, pkts[i]->len))
                look_at_syn_ack(frame, false);
            if (is_tcp(frame, pkts[i]->len))
                path.reply_bytes += be16_at(frame + ETH_BYTES + 2) - IP_BYTES -
                                    (unsigned)(frame[ETH_BYTES + IP_BYTES + 12] >> 4) * 4;
        }
        nic_release(path.ends[0], pkts, n);
    }
}

static void send_recorded(uint8_t *frame, uint32_t len)
{
    struct us_pkt *pkt;
    uint8_t *tcp = frame + ETH_BYTES + IP_BYTES, *stamps;
    unsigned port;

    if (is_tcp(frame, len) && (tcp[13] & FLAG_ACK)) {
        port = be16_at(tcp);
        put_be32(tcp + 8, be32_at(tcp + 8) + shift_seq[port]);
        stamps = time_stamps(tcp);
        if (stamps)
            put_be32(stamps + 4, be32_at(stamps + 4) + shift_stamp[port]);
        fill_checksum(frame);
    }
    if (nic_alloc(path.ends[0], &pkt, 1) != 1)
        path_die("no packet is free");
    memcpy(pkt->data, frame, len);
    pkt->len = len;
    pkt->flags = 0;
    if (nic_tx_burst(path.ends[0], &pkt, 1) != 1)
        path_die("the link is full");
}

static void replay(bool only_setup)
{
    uint8_t frame[FRAME_MAX];
    uint64_t recorded_us, first_us = 0, at_us;
    unsigned waiting = 0;
    uint32_t len;

    while ((len = read_record(frame, &recorded_us)) > 0) {
        if (first_us == 0)
            first_us = recorded_us;
        at_us = PATH_START_US + (recorded_us - first_us);
        if (is_syn_ack(frame, len)) {
            look_at_syn_ack(frame, true);
            continue;
        }
        if (waiting > 0 && (at_us != path.now_us || waiting == NIC_BURST_MAX)) {
            serve();
            waiting = 0;
        }
        if (only_setup && at_us >= path.now_us + PAUSE_US / 2 && path.now_us > PATH_START_US)
            return;
        path.now_us = at_us;
        send_recorded(frame, len);
        waiting++;
    }
    serve();
}

/* ---- recording --------------------------------------------------------------------------- */

struct kind {
    unsigned upto; /* connections below this number, from the one before on */
    unsigned reply_bytes;
};

/* get, set, mg, binary get, get of four, miss */
static const struct kind kinds[] = {{18, 35}, {21, 8}, {24, 16}, {27, 36}, {30, 125}, {32, 5}};

static struct us_stack *clients;
static struct us_conn *conns[PATH_CONNECTIONS];
static unsigned connected, stored, answered;
static unsigned asked[PATH_CONNECTIONS], missing[PATH_CONNECTIONS];
static bool asking;

static uint32_t make_request(unsigned conn, unsigned number, char out[128])
{
    unsigned key = (number * 7 + conn * 13) % KEYS;
    char head[24] = {(char)0x80, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8};

    if (conn < kinds[0].upto)
        return (uint32_t)snprintf(out, 128, "get key_%04u\r\n", key);
    if (conn < kinds[1].upto)
        return (uint32_t)snprintf(out, 128, "set key_%04u 0 0 8\r\n%08u\r\n", key, number);
    if (conn < kinds[2].upto)
        return (uint32_t)snprintf(out, 128, "mg key_%04u v\r\n", key);
    if (conn < kinds[3].upto) {
        memcpy(out, head, sizeof(head));
        return 24 + (uint32_t)snprintf(out + 24, 104, "key_%04u", key);
    }
    if (conn < kinds[4].upto)
        return (uint32_t)snprintf(out, 128, "get key_%04u key_%04u key_%04u key_%04u\r\n", key,
                                  (key + 1) % KEYS, (key + 2) % KEYS, (key + 3) % KEYS);
    return (uint32_t)snprintf(out, 128, "get nokey%04u\r\n", key);
}

static void ask(unsigned conn)
{
    char request[128];
    uint32_t len;
    unsigned kind = 0;

    if (asked[conn] == ROUNDS)
        return;
    while (conn >= kinds[kind].upto)
        kind++;
    len = make_request(conn, asked[conn]++, request);
    missing[conn] = kinds[kind].reply_bytes;
    if (us_send(clients, conns[conn], request, len) != (long)len)
        path_die("a request does not fit");
}

static void on_data(const struct us_event *ev)
{
    unsigned conn = (unsigned)(uintptr_t)ev->user;

    if (!asking) {
        stored += ev->len / 8; /* STORED\r\n */
        return;
    }
    if (ev->len > missing[conn])
        path_die("a reply is longer than it should be");
    missing[conn] -= ev->len;
    if (missing[conn] > 0)
        return;
    answered++;
    ask(conn);
}

static void client_turn(void)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n = nic_rx_burst(path.ends[0], pkts, NIC_BURST_MAX);
    unsigned filled, i;
    struct us_event ev;

    for (i = 0; i < n; i++) {
        if (is_syn_ack(pkts[i]->data, pkts[i]->len))
            write_record(pkts[i]->data, pkts[i]->len);
    }
    us_input(clients, pkts, n, path.now_us);
    while (us_next_event(clients, &ev)) {
        if (ev.type == US_EV_CONNECTED)
            connected++;
        else if (ev.type == US_EV_DATA)
            on_data(&ev);
        else if (ev.type == US_EV_CLOSED)
            path_die("a connection ended");
    }
    nic_release(path.ends[0], pkts, n);
    n = nic_alloc(path.ends[0], pkts, NIC_BURST_MAX);
    filled = us_output(clients, pkts, n, path.now_us);
    for (i = 0; i < filled; i++)
        write_record(pkts[i]->data, pkts[i]->len);
    if (nic_tx_burst(path.ends[0], pkts, filled) != filled)
        path_die("the link is full");
    nic_release(path.ends[0], pkts + filled, n - filled);
}

/* Turns of both sides until *count has reached `wanted`. */
static void turns_until(const unsigned *count, unsigned wanted)
{
    unsigned i;

    for (i = 0; i < 100000 && *count < wanted; i++) {
        path.now_us += PATH_STEP_US;
        client_turn();
        net_stack_turn(path.server, path.now_us);
    }
    if (*count < wanted)
        path_die("the server does not answer");
}

static void record(void)
{
    struct us_addr to = path_address(1);
    char request[64];
    unsigned i;

    clients = path_client(path.ends[0], path.now_us);
    for (i = 0; i < PATH_CONNECTIONS; i++) {
        conns[i] =
            us_connect(clients, &to, PATH_PORT, (u_u16)(40000 + i), (void *)(uintptr_t)i, NULL);
        if (!conns[i])
            path_die("cannot connect");
    }
    turns_until(&connected, PATH_CONNECTIONS);
    /* In text, on connections that use no other protocol later. */
    for (i = 0; i < KEYS; i++) {
        int len = snprintf(request, sizeof(request), "set key_%04u 0 0 8\r\n12345678\r\n", i);

        if (us_send(clients, conns[i % kinds[2].upto], request, (u_u32)len) != len)
            path_die("a request does not fit");
    }
    turns_until(&stored, KEYS);
    path.now_us += PAUSE_US;
    asking = true;
    for (i = 0; i < PATH_CONNECTIONS; i++)
        ask(i);
    turns_until(&answered, PATH_CONNECTIONS * ROUNDS);
}

int main(int argc, char **argv)
{
    bool recording = argc == 3 && strcmp(argv[1], "--record") == 0;
    bool only_setup = argc == 3 && strcmp(argv[2], "setup") == 0;
    struct nic_loopback_config loop = {0};
    char error[NIC_ERROR_MAX];

    if (argc < 2 || (argc == 3 && !recording && !only_setup) || argc > 3)
        path_die("usage: replay_path TRACE [setup] | --record TRACE");
    if (nic_loopback_open(&loop, path.ends, error) != 0)
        path_die(error);
    path.now_us = PATH_START_US;
    path.server = path_server(path.ends[1], path_cache(1, path.now_us), NULL);
    open_trace(argv[recording ? 2 : 1], recording ? "wb" : "rb");
    if (recording)
        record();
    else
        replay(only_setup);
    if (fclose(trace) != 0)
        path_die("the trace cannot be written");
    printf("%u requests, %lu bytes of replies\n", only_setup ? 0 : PATH_CONNECTIONS * ROUNDS,
           path.reply_bytes);
    return 0;
}
