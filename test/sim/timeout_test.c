/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timeouts of a server: none is spurious twice in a row, none comes for queueing alone, and none
 * ends a connection in an outage. The tables are checked in; a worse value fails.
 *
 *     timeout_test --delayed FILE   peers with and without SACK and timestamps that delay ACKs
 *     timeout_test --burst FILE     many clients of one server behind one link, without a loss
 *     timeout_test --incast FILE    replies of many connections meet in a short queue
 *     timeout_test --outage FILE    links that are cut for up to 95 s
 *
 * Without FILE ("-") the table is printed only.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000, SECOND = 1000000, PORT = 7777, REQUEST_BYTES = 20, REQUEST_MAX = 8000 };

/* What the clients do: rounds of one request each and its replies, each reply one us_send(). */
struct shape {
    unsigned clients, rounds;
    unsigned request_bytes;        /* at most REQUEST_MAX; 0: REQUEST_BYTES */
    unsigned replies, reply_bytes; /* replies to a request, 100 us apart */
    uint64_t think_us;             /* from the last byte of the replies to the next request */
    uint64_t period_us;            /* instead: all clients begin a round together; 0: they do not */
    struct link_config link;
    enum us_cc_kind cc; /* 0: the default */
    enum us_ecn ecn;    /* with cc */
    int strip_sack, strip_ts;
    unsigned ack_delay_us;
    uint64_t cut_from_us, cut_us; /* an outage, from the start */
};

struct client {
    struct test *test;
    struct us_conn *conn;   /* the client's end */
    struct us_conn *server; /* the server's end */
    unsigned rounds, replies_due;
    unsigned request_received; /* by the server */
    uint64_t received, asked_us;
    int waits;
    enum us_close_reason reason; /* of the first end */
};

struct test {
    struct sim sim;
    struct host host[2]; /* 0: the server */
    struct link link[2]; /* out of them */
    const struct shape *shape;
    struct client *clients;
    unsigned accepted, finished;
    uint64_t round_us, slowest_us; /* the round's last answer; its sum over the rounds before */
    uint64_t busy_us, bytes;       /* from a request to the end of its replies */
    uint64_t first_after_cut_us;   /* when the first replies were complete after the outage */
    unsigned row, row_max;         /* timeouts in a row */
    uint64_t timeouts_seen, acked_seen;
    unsigned cwnd_min;                    /* segments, when a reply begins */
    uint64_t timeouts0, resent0, probes0; /* counters after the first round */
};

/* ---- the application ------------------------------------------------------------------------ */

static unsigned request_bytes(const struct test *test)
{
    return test->shape->request_bytes > 0 ? test->shape->request_bytes : REQUEST_BYTES;
}

static void ask(struct sim *sim, void *target, void *detail)
{
    static const uint8_t request[REQUEST_MAX];
    struct client *c = target;
    if (!c->conn || c->waits)
        return;
    c->received = 0;
    c->waits = 1;
    c->asked_us = sim->now_us;
    us_send(c->test->host[1].stack, c->conn, request, request_bytes(c->test));
    host_settle(&c->test->host[1]);
}

static void reply(struct sim *sim, void *target, void *detail)
{
    static const uint8_t bytes[65536];
    struct client *c = target;
    struct host *server = &c->test->host[0];
    if (!c->server || c->replies_due == 0)
        return;
    us_send(server->stack, c->server, bytes, c->test->shape->reply_bytes);
    host_settle(server);
    if (--c->replies_due > 0)
        sim_at(sim, sim->now_us + 100, reply, c, NULL);
}

static void server_event(struct host *host, const struct us_event *event)
{
    struct test *test = host->app;
    struct client *c = event->user;
    struct us_conn_info info;
    switch (event->type) {
    case US_EV_ACCEPTED:
        us_conn_get_info(host->stack, event->conn, &info);
        c = &test->clients[info.remote_port - 10000];
        c->server = event->conn;
        us_conn_set_user(event->conn, c);
        test->accepted++;
        break;
    case US_EV_DATA:
        c->request_received += event->len;
        if (c->request_received < request_bytes(test))
            break;
        c->request_received = 0;
        us_conn_get_info(host->stack, event->conn, &info);
        if (c->rounds > 0 && info.cwnd_bytes / info.mss < test->cwnd_min)
            test->cwnd_min = info.cwnd_bytes / info.mss;
        c->replies_due = test->shape->replies;
        sim_at(host->sim, host->sim->now_us, reply, c, NULL);
        break;
    case US_EV_CLOSED:
        c->server = NULL;
        if (c->reason == US_CLOSE_NONE)
            c->reason = event->reason;
        break;
    default:
        break;
    }
}

/* All replies to a request have arrived. */
static void round_done(struct test *test, struct client *c)
{
    const struct shape *shape = test->shape;
    uint64_t now_us = test->sim.now_us;
    c->waits = 0;
    test->busy_us += now_us - c->asked_us;
    test->bytes += c->received;
    if (now_us - c->asked_us > test->round_us)
        test->round_us = now_us - c->asked_us;
    if (shape->cut_us > 0 && test->first_after_cut_us == 0 &&
        now_us > test->link[0].config.cut_until_us)
        test->first_after_cut_us = now_us;
    if (++c->rounds == shape->rounds)
        test->finished++;
    else if (shape->period_us == 0)
        sim_at(&test->sim, now_us + shape->think_us, ask, c, NULL);
}

static void client_event(struct host *host, const struct us_event *event)
{
    struct test *test = host->app;
    struct client *c = event->user;
    switch (event->type) {
    case US_EV_CONNECTED:
        if (test->shape->period_us == 0)
            sim_at(host->sim, host->sim->now_us + 10 * MS, ask, c, NULL);
        break;
    case US_EV_DATA:
        c->received += event->len;
        if (c->received == (uint64_t)test->shape->replies * test->shape->reply_bytes)
            round_done(test, c);
        break;
    case US_EV_CLOSED:
        c->conn = NULL;
        if (c->reason == US_CLOSE_NONE)
            c->reason = event->reason;
        break;
    default:
        break;
    }
}

/* All clients send a request at the same time. */
static void begin_round(struct sim *sim, void *target, void *detail)
{
    struct test *test = target;
    test->slowest_us += test->round_us;
    test->round_us = 0;
    if (test->finished == test->shape->clients)
        return;
    for (unsigned i = 0; i < test->shape->clients; i++)
        ask(sim, &test->clients[i], NULL);
    sim_at(sim, sim->now_us + test->shape->period_us, begin_round, test, NULL);
}

/* Counts every millisecond the timeouts since something was acknowledged last. */
static void look(struct sim *sim, void *target, void *detail)
{
    struct test *test = target;
    uint64_t timeouts = host_counter(&test->host[0], "tcp_timeouts");
    struct us_conn_info info;
    if (!test->clients[0].server)
        return;
    us_conn_get_info(test->host[0].stack, test->clients[0].server, &info);
    test->row += (unsigned)(timeouts - test->timeouts_seen);
    test->timeouts_seen = timeouts;
    if (test->row > test->row_max)
        test->row_max = test->row;
    if (info.bytes_out != test->acked_seen)
        test->row = 0;
    test->acked_seen = info.bytes_out;
    sim_at(sim, sim->now_us + MS, look, test, NULL);
}

static void remember_counters(struct sim *sim, void *target, void *detail)
{
    struct test *test = target;
    test->timeouts0 = host_counter(&test->host[0], "tcp_timeouts");
    test->resent0 = host_counter(&test->host[0], "tcp_retransmits");
    test->probes0 = host_counter(&test->host[0], "tcp_tail_probes");
}

/* ---- run ------------------------------------------------------------------------------------
 */

static void set_host(struct test *test, unsigned index)
{
    struct host *host = &test->host[index];
    struct us_config *c = &host->config;
    us_config_defaults(c);
    for (unsigned i = 0; i < US_SECRET_BYTES; i++)
        c->secret[i] = (u_u8)sim_random(&test->sim.random);
    memset(c->mac, 0, sizeof(c->mac));
    c->mac[0] = 2;
    c->mac[5] = (u_u8)(index + 1);
    c->conn_max = c->half_open_max = 16384;
    c->buffer_bytes = 512u << 20;
    if (test->shape->cc) {
        c->cc = test->shape->cc;
        c->ecn = test->shape->ecn;
    }
    if (index == 0) { /* like ucached */
        c->keepalive = 1;
        c->keepalive_idle_ms = 120 * 1000;
        c->keepalive_interval_ms = 15 * 1000;
        c->keepalive_count = 8;
    } else if (test->shape->ack_delay_us > 0) {
        c->delayed_ack_us = 0; /* the link delays them */
    }
    host->name = index == 0 ? "server" : "clients";
    host->sim = &test->sim;
    host->addr.family = US_IP4;
    host->addr.bytes[0] = 10;
    host->addr.bytes[3] = (u_u8)(index + 1);
    host->rx_burst = host->tx_burst = 64;
    host->check_every = 100000;
    host->idle_limit = 1000000;
    host->on_event = index == 0 ? server_event : client_event;
    host->app = test;
    host->out = &test->link[index];
    test->link[index].to = &test->host[1 - index];
    test->link[index].direction = (int)index;
    test->link[index].config = test->shape->link;
}

static void connect_all(struct test *test)
{
    for (unsigned i = 0; i < test->shape->clients; i++) {
        struct client *c = &test->clients[i];
        int error;
        c->test = test;
        c->conn = us_connect(test->host[1].stack, &test->host[0].addr, PORT, (u_u16)(10000 + i), c,
                             &error);
        if (!c->conn)
            sim_fail(&test->sim, "us_connect(): %s", us_strerror(error));
    }
    host_settle(&test->host[1]);
}

static struct test *run(const struct shape *shape)
{
    struct test *test = calloc(1, sizeof(*test));
    uint64_t start_us;
    test->shape = shape;
    test->cwnd_min = ~0u;
    test->clients = calloc(shape->clients, sizeof(*test->clients));
    test->sim.replay = "timeout_test";
    sim_start(&test->sim, 1);
    start_us = test->sim.now_us;
    for (unsigned i = 0; i < 2; i++) {
        struct link_config *link = &test->link[i].config;
        set_host(test, i);
        link->faults_end_us = US_NEVER;
        if (shape->cut_us > 0) {
            link->cut_from_us = start_us + shape->cut_from_us;
            link->cut_until_us = link->cut_from_us + shape->cut_us;
        }
        host_start(&test->host[i]);
    }
    test->link[1].config.ack_delay_us = shape->ack_delay_us;
    test->link[1].config.strip_sack = shape->strip_sack;
    test->link[1].config.strip_ts = shape->strip_ts;
    if (us_listen(test->host[0].stack, PORT, NULL) != US_OK)
        sim_fail(&test->sim, "us_listen() fails");
    connect_all(test);
    if (shape->period_us > 0) {
        sim_at(&test->sim, start_us + SECOND, begin_round, test, NULL);
        sim_at(&test->sim, start_us + SECOND + shape->period_us - 1, remember_counters, test, NULL);
    } else {
        sim_at(&test->sim, start_us + 5 * MS, look, test, NULL);
    }
    while (test->finished < shape->clients && test->clients[0].reason == US_CLOSE_NONE &&
           test->sim.now_us < start_us + 1000ull * SECOND && sim_step(&test->sim))
        continue;
    test->slowest_us += test->round_us;
    return test;
}

static void free_test(struct test *test)
{
    for (unsigned i = 0; i < 2; i++) {
        link_free(&test->sim, &test->link[i]);
        host_free(&test->host[i]);
    }
    free(test->clients);
    sim_free(&test->sim);
    free(test);
}

/* ---- tables ------------------------------------------------------------------------------------
 */

enum { COLUMNS_MAX = 5 };

/* A column: how it is compared with the golden file. */
struct column {
    const char *name;
    enum { NOT_MORE, NOT_LESS } rule;
    double limit;     /* whatever the golden file says */
    double tolerance; /* part of the golden value */
};

struct table {
    FILE *golden;
    const struct column *columns;
    unsigned count;
    int worse;
};

static int golden_row(FILE *golden, const char *words, double *values, unsigned count)
{
    char line[300];
    rewind(golden);
    while (fgets(line, sizeof(line), golden)) {
        char *at = line + strlen(words);
        if (line[0] == '#' || strncmp(line, words, strlen(words)) != 0)
            continue;
        for (unsigned i = 0; i < count; i++)
            values[i] = strtod(at, &at);
        return 1;
    }
    return 0;
}

/* Prints a row and compares it with the golden one, and with the limits. */
static void judge(struct table *table, const char *words, const double *values)
{
    double golden[COLUMNS_MAX] = {0};
    int known = !table->golden || golden_row(table->golden, words, golden, table->count);
    printf("%s", words);
    for (unsigned i = 0; i < table->count; i++)
        printf(" %10.0f", values[i]);
    if (!known)
        printf("   NOT in the golden file");
    for (unsigned i = 0; i < table->count; i++) {
        const struct column *c = &table->columns[i];
        double slack = golden[i] * c->tolerance;
        int bad = c->rule == NOT_MORE ? values[i] > c->limit : values[i] < c->limit;
        if (table->golden)
            bad |=
                c->rule == NOT_MORE ? values[i] > golden[i] + slack : values[i] < golden[i] - slack;
        if (bad)
            printf("   WORSE: %s", c->name);
        table->worse |= bad;
    }
    table->worse |= !known;
    printf("\n");
}

static const struct link_config lan_link = {
    .delay_us = 100, .rate_bits = 10000000000u, .queue_bytes = 1 << 30};

static int run_delayed(FILE *golden)
{
    static const struct column columns[] = {{"timeouts", NOT_MORE, 4, 0},
                                            {"retransmissions", NOT_MORE, 8, 0},
                                            {"timeouts in a row", NOT_MORE, 1, 0},
                                            {"window", NOT_LESS, 5, 0},
                                            {"goodput", NOT_LESS, 0, 0.1}};
    static const char *const options[] = {"sack+ts", "sack", "ts", "none"};
    static const unsigned delays_ms[] = {0, 10, 40, 80, 200, 500};
    static const struct {
        const char *name;
        unsigned replies, bytes;
    } loads[] = {{"one", 1, 5}, {"eight", 8, 5}, {"bulk", 1, 65536}};
    struct table table = {golden, columns, 5, 0};
    printf(
        "# A server's replies to a peer that delays its ACKs; nothing gets lost. 20 requests, 1 s\n"
        "# apart. one: one line; eight: eight lines, 100 us apart; bulk: 64 KiB.\n"
        "# options, ACK delay ms, load: timeouts, needless retransmissions, most timeouts in a "
        "row,\n"
        "# smallest window after the first round trip (segments), bytes/s while replies are due\n");
    for (unsigned o = 0; o < 4; o++)
        for (unsigned d = 0; d < 6; d++)
            for (unsigned l = 0; l < 3; l++) {
                struct shape shape = {.clients = 1,
                                      .rounds = 20,
                                      .think_us = SECOND,
                                      .replies = loads[l].replies,
                                      .reply_bytes = loads[l].bytes,
                                      .link = lan_link,
                                      .strip_sack = o >= 2,
                                      .strip_ts = o % 2,
                                      .ack_delay_us = delays_ms[d] * MS};
                struct test *test = run(&shape);
                char words[100];
                double values[COLUMNS_MAX] = {
                    (double)host_counter(&test->host[0], "tcp_timeouts"),
                    (double)host_counter(&test->host[0], "tcp_retransmits"), test->row_max,
                    test->cwnd_min, (double)test->bytes * 1e6 / (double)test->busy_us};
                snprintf(words, sizeof(words), "%-7s %3u %-5s", options[o], delays_ms[d],
                         loads[l].name);
                judge(&table, words, values);
                free_test(test);
            }
    return table.worse;
}

static int run_burst(FILE *golden)
{
    static const struct column columns[] = {{"timeouts", NOT_MORE, 0, 0},
                                            {"retransmissions", NOT_MORE, 0, 0},
                                            {"probes", NOT_MORE, 0, 0},
                                            {"timeouts of the first round", NOT_MORE, 0, 0},
                                            {"probes of the first round", NOT_MORE, 1e9, 0}};
    static const struct {
        unsigned clients, request_bytes, bytes, delay_us;
        uint64_t rate_bits;
    } cases[] = {{100, 20, 1000, 100, 1000000000u},   {1000, 20, 1000, 100, 1000000000u},
                 {1000, 20, 8000, 100, 1000000000u},  {4000, 20, 1000, 100, 1000000000u},
                 {10000, 20, 1000, 100, 1000000000u}, {1000, 20, 65536, 11, 10000000000u},
                 {10000, 20, 8000, 11, 10000000000u}, {10000, 8000, 8, 11, 10000000000u}};
    struct table table = {golden, columns, 5, 0};
    printf("# Simultaneous clients, ten rounds, behind one link of 1 Gbit/s and 200 us (the last\n"
           "# three: 10 Gbit/s and 22 us) with a queue that loses nothing.\n"
           "# clients, bytes of a request and of a reply: timeouts, retransmissions and probes of\n"
           "# the server after the first round; timeouts and probes in the first round\n");
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shape shape = {.clients = cases[i].clients,
                              .rounds = 10,
                              .request_bytes = cases[i].request_bytes,
                              .replies = 1,
                              .reply_bytes = cases[i].bytes,
                              .period_us = SECOND};
        struct test *test;
        char words[100];
        shape.link = lan_link;
        shape.link.rate_bits = cases[i].rate_bits;
        shape.link.delay_us = cases[i].delay_us;
        test = run(&shape);
        double values[COLUMNS_MAX] = {
            (double)(host_counter(&test->host[0], "tcp_timeouts") - test->timeouts0),
            (double)(host_counter(&test->host[0], "tcp_retransmits") - test->resent0),
            (double)(host_counter(&test->host[0], "tcp_tail_probes") - test->probes0),
            (double)test->timeouts0, (double)test->probes0};
        snprintf(words, sizeof(words), "%5u %4u %5u", cases[i].clients, cases[i].request_bytes,
                 cases[i].bytes);
        judge(&table, words, values);
        if (test->finished < shape.clients || test->link[0].lost + test->link[1].lost > 0)
            table.worse = printf("not all rounds are done, or frames were lost\n") > 0;
        free_test(test);
    }
    return table.worse;
}

/* Rounds in which all connections answer at the same time into a queue of 300 kB. */
static int run_incast(FILE *golden)
{
    static const struct column columns[] = {{"timeouts", NOT_MORE, 1e9, 0.1},
                                            {"lost frames", NOT_MORE, 1e9, 0.1},
                                            {"us", NOT_MORE, 1e9, 0.1}};
    static const struct {
        const char *name;
        enum us_cc_kind cc;
        enum us_ecn ecn;
    } kinds[] = {{"cubic", US_CC_CUBIC, US_ECN_OFF},
                 {"cubic+ecn", US_CC_CUBIC, US_ECN_REQUEST},
                 {"dctcp", US_CC_DCTCP, US_ECN_REQUEST}};
    static const unsigned servers[] = {8, 32, 100, 200};
    struct table table = {golden, columns, 3, 0};
    printf(
        "# Incast: all connections answer a request at once through one link of 10 Gbit/s and\n"
        "# 100 us with a queue of 300 kB, which marks from 65 kB on; 1 MiB in all, ten rounds.\n"
        "# servers, congestion control: timeouts, lost frames, us until the last answer (mean)\n");
    for (unsigned s = 0; s < 4; s++)
        for (unsigned k = 0; k < 3; k++) {
            struct shape shape = {.clients = servers[s],
                                  .rounds = 10,
                                  .replies = 1,
                                  .reply_bytes = (1 << 20) / servers[s],
                                  .period_us = SECOND / 10,
                                  .link = lan_link,
                                  .cc = kinds[k].cc,
                                  .ecn = kinds[k].ecn};
            struct test *test;
            char words[100];
            shape.link.delay_us = 50;
            shape.link.queue_bytes = 300000;
            shape.link.mark_bytes = shape.ecn == US_ECN_OFF ? 0 : 65000;
            test = run(&shape);
            double values[COLUMNS_MAX] = {(double)host_counter(&test->host[0], "tcp_timeouts"),
                                          (double)test->link[0].lost,
                                          (double)test->slowest_us / shape.rounds};
            snprintf(words, sizeof(words), "%3u %-9s", servers[s], kinds[k].name);
            judge(&table, words, values);
            if (test->finished < shape.clients)
                table.worse = printf("not all rounds are done\n") > 0;
            free_test(test);
        }
    return table.worse;
}

static int run_outage(FILE *golden)
{
    static const struct column columns[] = {{"survived", NOT_LESS, 1, 0},
                                            {"ms until data flows", NOT_MORE, 10000, 0.1}};
    static const unsigned cuts_s[] = {5, 60, 95};
    static const char *const kinds[] = {"busy", "idle"};
    struct table table = {golden, columns, 2, 0};
    printf("# Both directions of a link are cut for some seconds; a request every 10 ms, "
           "or\n"
           "# is idle from 110 s before the outage until 30 s after it.\n"
           "# outage s, kind: survived, ms from the end of the outage to the next replies\n");
    for (unsigned i = 0; i < 3; i++)
        for (unsigned idle = 0; idle < 2; idle++) {
            struct shape shape = {.clients = 1,
                                  .replies = 1,
                                  .reply_bytes = 1000,
                                  .link = lan_link,
                                  .cut_us = (uint64_t)cuts_s[i] * SECOND};
            struct test *test;
            char words[100];
            shape.cut_from_us = (idle ? 110ull : 10ull) * SECOND;
            shape.think_us = idle ? shape.cut_from_us + shape.cut_us + 30ull * SECOND : 10 * MS;
            shape.rounds = idle ? 2 : 2000;
            test = run(&shape);
            uint64_t from_us = test->link[0].config.cut_until_us + (idle ? 30ull * SECOND : 0);
            double values[COLUMNS_MAX] = {test->finished == 1 &&
                                              test->clients[0].reason == US_CLOSE_NONE,
                                          test->first_after_cut_us > from_us
                                              ? (double)(test->first_after_cut_us - from_us) / 1000
                                              : 0};
            snprintf(words, sizeof(words), "%3u %s", cuts_s[i], kinds[idle]);
            judge(&table, words, values);
            free_test(test);
        }
    return table.worse;
}

int main(int argc, char **argv)
{
    FILE *golden = NULL;
    int worse;
    if (argc != 3) {
        fprintf(stderr, "usage: timeout_test --delayed|--burst|--incast|--outage FILE|-\n");
        return 2;
    }
    if (strcmp(argv[2], "-") != 0 && !(golden = fopen(argv[2], "r"))) {
        perror(argv[2]);
        return 2;
    }
    if (strcmp(argv[1], "--delayed") == 0)
        worse = run_delayed(golden);
    else if (strcmp(argv[1], "--incast") == 0)
        worse = run_incast(golden);
    else
        worse = strcmp(argv[1], "--burst") == 0 ? run_burst(golden) : run_outage(golden);
    if (golden)
        fclose(golden);
    return worse;
}
