/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a request in ucload on its own stack: 32 connections with one request in flight on each,
 * keys and values of 8 bytes unless the load says otherwise, every byte of the replies verified,
 * over a link in memory. At the other end of the link a responder makes the reply from the key of
 * the request, without a lookup.
 *
 *   bench/client_path [requests] [get|zipf|set|mixed|etc]
 *
 * get, set: 1000 keys, each as often as any other. zipf, mixed: a million by Zipf's law (0.99),
 * GETs alone and with a SET among ten. etc: 100,000 by Zipf's law, keys and values of all sizes.
 *
 * The responder runs inside the client's device. Under
 *   valgrind --tool=callgrind --toggle-collect=measured --toggle-collect=respond
 * the instructions of the client alone are counted; with "0" as the first argument, those of start
 * and end.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"

enum { CONNECTIONS = 32, PORT = 11211, STEP_US = 10 };

static const struct load {
    const char *name, *popularity, *mix;
    uint64_t keys;
    const char *key_size, *value_size;
} loads[] = {{"get", "uniform", "get", 1000, "8", "8"},
             {"zipf", "zipf:0.99", "get", 1000000, "8", "8"},
             {"set", "uniform", "set", 1000, "8", "8"},
             {"mixed", "zipf:0.99", "get:90,set:10", 1000000, "8", "8"},
             {"etc", "zipf:0.99", "get", 100000, "etc-key", "etc-value"}};

struct bench {
    struct nic nic; /* the client's: `ends[0]`, and the responder behind it */
    struct nic *ends[2];
    struct us_stack *responder;
    struct plan plan;
    struct client client;
    uint64_t now_us;
};

static struct bench b;
static struct thread_group alone;

/*
 * Replaces clock_gettime() of libc for the client: each call adds a microsecond. So latencies are
 * those of a link in memory, however slow callgrind is.
 */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static uint64_t now_us = 1000000000;

    (void)clock;
    now_us++;
    now->tv_sec = (time_t)(now_us / 1000000);
    now->tv_nsec = (long)(now_us % 1000000 * 1000);
    return 0;
}

static __attribute__((noreturn)) void die(const char *what)
{
    fprintf(stderr, "client_path: %s\n", what);
    exit(1);
}

/* ---- the responder ----------------------------------------------------------------------- */

/* Undoes load_key_write(). */
static uint64_t id_of(const u_u8 *key, u_u32 key_bytes)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    uint64_t id = 0;
    unsigned i;

    for (i = key_bytes < 4 ? key_bytes : 4; i-- > 0;)
        id = id << 6 | (uint64_t)(strchr(digits, key[i]) - digits);
    return id;
}

/* "get <key>\r\n" */
static u_u32 answer_get(uint8_t *reply, u_u32 room, const u_u8 *key, u_u32 key_bytes)
{
    uint64_t id = id_of(key, key_bytes);
    uint32_t bytes = keyspace_value_bytes(&b.plan.keys, id);
    u_u32 n;

    memcpy(reply, "VALUE ", 6);
    memcpy(reply + 6, key, key_bytes);
    n = 6 + key_bytes;
    n += (u_u32)snprintf((char *)reply + n, room - n, " 0 %u\r\n", (unsigned)bytes);
    memcpy(reply + n, keyspace_value(&b.plan.keys, id), bytes);
    memcpy(reply + n + bytes, "\r\nEND\r\n", 7);
    return n + bytes + 7;
}

/* "set <8 bytes> 0 0 8\r\n<8 bytes>\r\n" */
static u_u32 answer_set(uint8_t *reply, const u_u8 *key)
{
    if (memcmp(key + 8, " 0 0 8\r\n", 8) != 0 ||
        memcmp(key + 16, keyspace_value(&b.plan.keys, id_of(key, 8)), 8) != 0)
        die("unexpected SET");
    memcpy(reply, "STORED\r\n", 8);
    return 8;
}

static void answer(struct us_conn *conn, const u_u8 *request, u_u32 len)
{
    static uint8_t reply[KEYSPACE_VALUE_MAX + 1024];
    u_u32 n;

    if (len > 6 && memcmp(request, "get ", 4) == 0)
        n = answer_get(reply, sizeof(reply), request + 4, len - 6);
    else if (len == 30 && memcmp(request, "set ", 4) == 0)
        n = answer_set(reply, request + 4);
    else
        die("unexpected request");
    if (us_send(b.responder, conn, reply, n) != (long)n)
        die("a reply does not fit");
}

/* One turn of the responder. Not inlined, so that callgrind can exclude it. */
static __attribute__((noinline)) void respond(void)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct us_event ev;
    unsigned n = nic_rx_burst(b.ends[1], pkts, NIC_BURST_MAX);
    unsigned filled, sent;

    b.now_us += STEP_US;
    us_input(b.responder, pkts, n, b.now_us);
    while (us_next_event(b.responder, &ev)) {
        if (ev.type == US_EV_DATA)
            answer(ev.conn, ev.data, ev.len);
    }
    nic_release(b.ends[1], pkts, n);
    n = nic_alloc(b.ends[1], pkts, NIC_BURST_MAX);
    filled = us_output(b.responder, pkts, n, b.now_us);
    sent = nic_tx_burst(b.ends[1], pkts, filled);
    nic_release(b.ends[1], pkts + sent, n - sent);
}

static void open_responder(void)
{
    struct us_addr addr = {US_IP4, {10, 0, 0, 1}};
    struct us_config config;
    void *memory;

    us_config_defaults(&config);
    memcpy(config.mac, b.ends[1]->mac, sizeof(config.mac));
    memset(config.secret, 1, sizeof(config.secret));
    memory = calloc(1, us_memory_bytes(&config));
    b.responder = us_create(&config, memory, us_memory_bytes(&config), b.now_us);
    if (!b.responder || us_addr_add(b.responder, &addr, 24) != 0 ||
        us_listen(b.responder, PORT, NULL) != 0)
        die("the responder cannot start");
}

/* ---- the client's device ----------------------------------------------------------------- */

static unsigned rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    (void)nic;
    respond();
    return nic_rx_burst(b.ends[0], pkts, n);
}

static unsigned take_empty(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    (void)nic;
    return nic_alloc(b.ends[0], pkts, n);
}

static void give_back(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    (void)nic;
    nic_release(b.ends[0], pkts, n);
}

static unsigned tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    (void)nic;
    return nic_tx_burst(b.ends[0], pkts, n);
}

/* The responder runs in the same thread: there is nothing to wait for. */
static int wait_not(struct nic *nic, uint64_t timeout_us)
{
    (void)nic;
    (void)timeout_us;
    return 0;
}

static void close_ends(struct nic *nic)
{
    (void)nic;
    nic_close(b.ends[0]);
    nic_close(b.ends[1]);
}

static const struct nic_ops ops = {.name = "responder",
                                   .rx_burst = rx_burst,
                                   .alloc = take_empty,
                                   .release = give_back,
                                   .tx_burst = tx_burst,
                                   .wait = wait_not,
                                   .close = close_ends};

/* ---- the client -------------------------------------------------------------------------- */

static void make_plan(const struct load *load)
{
    struct sockaddr_in *to = (struct sockaddr_in *)&b.plan.servers[0].addr;
    struct plan *plan = &b.plan;
    char error[LOAD_ERROR_MAX];

    plan->depth = 1;
    plan->verify = true;
    plan->poll = true;
    plan->threads = 1;
    plan->server_count = 1;
    plan->timeout_ns = UINT64_C(60000000000);
    snprintf(plan->server_text, sizeof(plan->server_text), "the responder");
    to->sin_family = AF_INET;
    to->sin_port = htons(PORT);
    to->sin_addr.s_addr = htonl(0x0a000001);
    plan->link.ip_count = 1;
    plan->link.ip[0].addr = (struct us_addr){US_IP4, {10, 0, 0, 2}};
    plan->link.ip[0].prefix_len = 24;
    if (mix_parse(&plan->mix, load->mix, error) < 0 ||
        !load_popularity_parse(&plan->popularity, load->popularity, load->keys, 1, error) ||
        keyspace_open(&plan->keys, load->keys, load->key_size, load->value_size, error) < 0)
        die(error);
    plan->mix.multi = 1;
    if (templates_open(&plan->templates, PROTOCOL_TEXT, &plan->keys, 0) < 0)
        die("no memory");
}

static void go_through(enum phase_kind kind)
{
    b.client.phase.kind = kind;
    b.client.phase.start_ns = client_clock_ns();
    atomic_store(&alone.busy, 1);
}

/* The measured part, without respond(). */
static __attribute__((noinline)) int measured(void)
{
    return client_run(&b.client);
}

static const struct load *find_load(const char *name)
{
    unsigned i;

    for (i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        if (strcmp(loads[i].name, name) == 0)
            return &loads[i];
    }
    die("unknown load");
}

int main(int argc, char **argv)
{
    struct nic_loopback_config loop = {0};
    uint64_t requests = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    char error[NIC_ERROR_MAX];

    b.now_us = 1000000;
    if (nic_loopback_open(&loop, b.ends, error) != 0)
        die(error);
    b.nic = *b.ends[0];
    b.nic.ops = &ops;
    make_plan(find_load(argc > 2 ? argv[2] : "get"));
    open_responder();
    b.client.group = &alone;
    if (client_open(&b.client, &b.plan, CONNECTIONS, &b.nic) < 0)
        die(b.client.error);
    go_through(PHASE_CONNECT);
    if (client_run(&b.client) < 0)
        die(b.client.error);
    b.client.phase.requests_max = requests + CONNECTIONS;
    b.client.phase.seed = 1;
    go_through(PHASE_LOAD);
    if (measured() < 0)
        die(b.client.error);
    if (b.client.ctx.tally.hits != requests + CONNECTIONS || b.client.ctx.tally.wrong > 0)
        die("replies are missing or wrong");
    printf("%llu requests\n", (unsigned long long)b.client.ctx.tally.hits);
    client_close(&b.client);
    templates_close(&b.plan.templates);
    keyspace_close(&b.plan.keys);
    return 0;
}
