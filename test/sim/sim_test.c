/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_test: two stacks, a link with faults, random work, an oracle.
 *
 *     sim_test --seed N              one case; prints its parameters
 *     sim_test --seeds A..B          a range of them
 *     sim_test --big BYTES           so many bytes each way at 5 % loss, 5 % reordering, 2 % twice
 *     sim_test --table [GOLDEN]      goodput by loss and window; compared with the file, if given
 *     sim_test --canary alter|silence    a planted fault: fails unless the oracle notices it
 *     sim_test --long                what `make check-long` runs: 20000 seeds, 100 MB each way
 *     --twice                        each case twice: the traces must be the same
 *     --hashes                       prints each case's trace hash, to compare builds with
 *     --pcap FILE                    writes the frames as they leave the hosts
 *
 * The seed decides everything: the link, the configuration with its deliberately tiny limits, and
 * the jobs. Exits with 0 if the oracle found nothing.
 */
#include "app.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000u
#define PICK(random, array) ((array)[sim_random(random) % (sizeof(array) / sizeof((array)[0]))])

struct options {
    const char *pcap;
    enum sim_canary canary;
    int verbose;
};

struct result {
    uint64_t hash, frames, virtual_us, bytes;
};

/* ---- one case from a seed ---------------------------------------------------------------- */

static void choose_link(struct sim *sim, struct link_config *c, unsigned mtu, unsigned mtu_min)
{
    static const unsigned delays[] = {0, 10, 50, 300, 2000, 10000, 40000};
    static const uint64_t rates[] = {0, 0, 1000000, 10000000, 100000000, 1000000000};
    static const unsigned losses[] = {0, 0, 1000, 10000, 30000, 60000, 100000};
    static const unsigned rare[] = {0, 0, 0, 5000, 20000, 50000};
    struct sim_random *r = &sim->random;
    c->delay_us = PICK(r, delays);
    c->jitter_us = sim_chance(r, 500000) ? (unsigned)sim_between(r, 0, c->delay_us) : 0;
    c->rate_bits = PICK(r, rates);
    c->queue_bytes = (unsigned)sim_between(r, 4, 200) * (mtu + 14);
    c->mark_bytes = sim_chance(r, 300000) ? c->queue_bytes / 4 : 0;
    c->loss = PICK(r, losses);
    c->duplicate = PICK(r, rare);
    c->reorder = PICK(r, rare);
    c->reorder_us = (unsigned)sim_between(r, 1, 20000);
    c->corrupt = PICK(r, rare);
    c->faults_end_us = sim->now_us + sim_between(r, 5, 30) * SECOND;
    if (sim_chance(r, 120000)) { /* the path MTU falls without ICMP errors */
        c->mtu_from_us = sim->now_us + sim_between(r, 0, 3 * SECOND);
        c->mtu = mtu < 600 ? mtu : (unsigned)sim_between(r, mtu_min, mtu);
    }
    if (sim_chance(r, 160000)) {
        c->cut_from_us = sim->now_us + sim_between(r, 0, 2 * SECOND);
        c->cut_until_us = c->cut_from_us + sim_between(r, 10000, 3 * SECOND);
    }
}

static void choose_host(struct sim *sim, struct host *host, unsigned index, int six)
{
    static const unsigned mtus[] = {576, 576, 600, 1000, 1500, 1500, 9000};
    static const unsigned mtus6[] = {1280, 1280, 1400, 1500, 1500, 9000};
    static const unsigned windows[] = {1024, 1500, 4000, 10000, 65535, 65535, 200000};
    static const unsigned queues[] = {2048, 4096, 16384, 65536, 65536, 200000};
    static const unsigned bursts[] = {1, 2, 3, 8, 32, 64};
    static const unsigned arp_lifetimes[] = {1 * SECOND, 5 * SECOND, 60 * SECOND, 600 * SECOND};
    struct us_config *c = &host->config;
    struct sim_random *r = &sim->random;
    us_config_defaults(c);
    for (unsigned i = 0; i < US_SECRET_BYTES; i++)
        c->secret[i] = (u_u8)sim_random(r);
    c->mac[0] = 2;
    c->mac[5] = (u_u8)(index + 1);
    c->mtu = six ? PICK(r, mtus6) : PICK(r, mtus);
    c->dad_probes = 0; /* no wait of a second before the first connection */
    c->recv_window_bytes = PICK(r, windows);
    c->send_queue_bytes = PICK(r, queues);
    c->conn_max = (u_u32)sim_between(r, 2, 16);
    c->half_open_max = (u_u32)sim_between(r, 1, c->conn_max);
    c->syn_cookies = 0; /* with cookies, a server that sends first would wait for a lost ACK */
    c->time_wait_max = (u_u32)sim_between(r, 1, 64);
    c->neighbour_max = 4;
    c->listen_max = 2;
    c->send_refs_max = (u_u32)sim_between(r, 1, 8);
    c->buffer_bytes = 24 * (c->recv_window_bytes + c->send_queue_bytes + 8192);
    c->rto_min_us = (u_u32)sim_between(r, 5000, 200000);
    c->rto_initial_us = (u_u32)sim_between(r, 100000, SECOND);
    c->rto_max_us = 2 * SECOND;
    c->delayed_ack_us = (u_u32)sim_between(r, 1000, 100000);
    c->peer_ack_delay_us = (u_u32)sim_between(r, 0, 100000);
    c->cc = (u_u32)sim_between(r, US_CC_RENO, US_CC_DCTCP);
    c->ecn = (u_u32)sim_between(r, US_ECN_OFF, US_ECN_REQUEST);
    c->nagle = (u_u32)sim_chance(r, 200000);
    c->quick_acks = (u_u32)sim_between(r, 0, 16);
    c->time_wait_us = 10 * SECOND;
    c->fin_wait2_us = 3600 * SECOND;
    c->syn_retries_max = 15;
    c->syn_ack_retries_max = 15;
    c->r2_ms = 60 * 1000;
    c->neighbour_lifetime_us = PICK(r, arp_lifetimes);
    host->name = index == 0 ? "A" : "B";
    host->sim = sim;
    host->addr.family = six ? US_IP6 : US_IP4;
    host->addr.bytes[0] = six ? 0xfd : 10;
    host->addr.bytes[six ? 15 : 3] = (u_u8)(index + 1);
    host->rx_burst = PICK(r, bursts);
    host->tx_burst = PICK(r, bursts);
    host->check_every = 1;
    host->idle_limit = 3000;
}

static void choose_job(struct sim *sim, struct job_plan *plan, uint64_t bytes_max)
{
    static const unsigned chunks[] = {1, 10, 100, 1000, 5000, 20000};
    static const unsigned chances[] = {0, 0, 100000, 500000, 1000000};
    struct sim_random *r = &sim->random;
    plan->kind = (enum job_kind)sim_between(r, 0, JOB_KINDS - 1);
    plan->client = (unsigned)sim_between(r, 0, 1);
    plan->chunk_max = PICK(r, chunks);
    if (plan->chunk_max <= 100) /* each piece may cost a round trip */
        bytes_max = plan->chunk_max * 200;
    for (unsigned i = 0; i < 2; i++)
        plan->bytes[i] = sim_chance(r, 200000) ? 0 : sim_between(r, 0, bytes_max);
    if (plan->kind == JOB_RPC) {
        uint64_t size_max = bytes_max < 8000 ? bytes_max : 8000;
        plan->request = (uint32_t)sim_between(r, 1, sim_chance(r, 500000) ? 50 : size_max);
        plan->response = (uint32_t)sim_between(r, 1, sim_chance(r, 500000) ? 50 : size_max);
        uint64_t most = plan->request > plan->response ? plan->request : plan->response;
        uint64_t rounds = sim_between(r, 1, 1 + (bytes_max / most < 40 ? bytes_max / most : 40));
        plan->bytes[plan->client] = rounds * plan->request;
        plan->bytes[!plan->client] = rounds * plan->response;
    }
    plan->ref_chance = PICK(r, chances);
    plan->reserve_chance = PICK(r, chances);
    plan->keep_chance = sim_chance(r, 300000) ? (unsigned)sim_between(r, 10000, 600000) : 0;
    plan->resume_us_max = (unsigned)sim_between(r, 0, 50000);
    plan->abort_by = sim_chance(r, 120000) ? (int)sim_between(r, 0, 1) : -1;
    if (plan->abort_by >= 0)
        plan->abort_after = sim_between(r, 0, plan->bytes[!plan->abort_by]);
    plan->close_late = sim_chance(r, 500000);
    plan->any_port = sim_chance(r, 500000);
}

/* A time limit that a correct stack meets: worst-case windows, delays and rates. */
static uint64_t time_bound(const struct work *work, uint64_t bytes)
{
    uint64_t bound = work->sim->now_us + 900ull * SECOND;
    for (unsigned i = 0; i < 2; i++) {
        const struct link_config *c = &work->link[i].config;
        const struct us_config *h = &work->host[i].config;
        uint64_t window =
            h->recv_window_bytes < h->send_queue_bytes ? h->recv_window_bytes : h->send_queue_bytes;
        window = window < h->mtu - 40 ? window : h->mtu - 40;
        uint64_t turn = 2 * (c->delay_us + c->jitter_us) + c->reorder_us + 300000;
        bound += 4 * (bytes / window + 1) * turn;
        if (c->rate_bits > 0)
            bound += 4 * bytes * 8 * SECOND / c->rate_bits;
    }
    return bound;
}

static void choose_keepalive(struct sim *sim, struct us_config *c)
{
    struct sim_random *r = &sim->random;
    c->keepalive = (u_u32)sim_chance(r, 300000);
    c->keepalive_idle_ms = (u_u32)sim_between(r, 500, 5000);
    c->keepalive_interval_ms = (u_u32)sim_between(r, 1000, 5000);
    c->keepalive_count = 30; /* a partition ends no connection */
}

static void choose_work(struct sim *sim, struct work *work)
{
    struct sim_random *r = &sim->random;
    int six = sim_chance(r, 300000);
    uint64_t total = 0;
    for (unsigned i = 0; i < 2; i++) {
        choose_host(sim, &work->host[i], i, six);
        choose_keepalive(sim, &work->host[i].config);
    }
    unsigned mtu = work->host[0].config.mtu > work->host[1].config.mtu ? work->host[0].config.mtu
                                                                       : work->host[1].config.mtu;
    for (unsigned i = 0; i < 2; i++)
        choose_link(sim, &work->link[i].config, mtu, six ? 1280 : 576);
    int many = sim_chance(r, 250000); /* many short connections, or a few longer ones */
    work->job_count = (unsigned)sim_between(r, 1, many ? 60 : 6);
    /* At most what both hosts can hold: hosts full of SYNs to each other would starve. */
    unsigned most = work->host[0].config.conn_max < work->host[1].config.conn_max
                        ? work->host[0].config.conn_max
                        : work->host[1].config.conn_max;
    work->concurrent = (unsigned)sim_between(r, 1, most);
    work->jobs = calloc(work->job_count, sizeof(*work->jobs));
    for (unsigned i = 0; i < work->job_count; i++) {
        choose_job(sim, &work->jobs[i].plan, many ? 3000 : 120000);
        total += work->jobs[i].plan.bytes[0] + work->jobs[i].plan.bytes[1];
    }
    if (sim_chance(r, 250000)) { /* few buffers: then no application keeps bytes */
        for (unsigned i = 0; i < work->job_count; i++)
            work->jobs[i].plan.keep_chance = 0;
        for (unsigned i = 0; i < 2; i++)
            work->host[i].config.buffer_bytes = (u_u32)sim_between(r, 8192, 65536);
    }
    for (unsigned i = 0; i < 2; i++)
        if (work->host[i].config.time_wait_max < 2 * work->job_count)
            work->resets_allowed = 1;
    work->deadline_us = time_bound(work, total);
}

/* Canaries use a perfect link, so that only the planted fault can fail. */
static void choose_canary(struct sim *sim, struct work *work)
{
    sim->canary_frame = 40;
    for (unsigned i = 0; i < 2; i++) {
        choose_host(sim, &work->host[i], i, 0);
        work->host[i].config.mtu = 1500;
        work->link[i].config.delay_us = 100;
        work->link[i].config.queue_bytes = 1000000;
    }
    work->job_count = work->concurrent = 1;
    work->jobs = calloc(1, sizeof(*work->jobs));
    work->jobs[0].plan.bytes[0] = work->jobs[0].plan.bytes[1] = 500000;
    work->jobs[0].plan.chunk_max = 5000;
    work->jobs[0].plan.abort_by = -1;
    work->deadline_us = time_bound(work, 1000000);
}

static void open_pcap(struct sim *sim, const char *path)
{
    static const uint32_t head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
    sim->pcap = fopen(path, "wb");
    if (sim->pcap)
        fwrite(head, sizeof(head), 1, sim->pcap);
}

static struct result run_work(struct sim *sim, struct work *work, const struct options *options)
{
    if (options->pcap)
        open_pcap(sim, options->pcap);
    work_run(work);
    struct result result = {sim->trace_hash, sim->frames, work->finished_us, work->bytes_received};
    work_free(work);
    sim_free(sim);
    return result;
}

static struct result run_seed(uint64_t seed, const struct options *options)
{
    struct sim sim;
    char replay[64];
    struct work *work = calloc(1, sizeof(*work));
    memset(&sim, 0, sizeof(sim));
    snprintf(replay, sizeof(replay), "--seed %" PRIu64, seed);
    sim.replay = replay;
    sim.canary = options->canary;
    sim_start(&sim, seed);
    work->sim = &sim;
    if (options->canary != CANARY_NONE)
        choose_canary(&sim, work);
    else
        choose_work(&sim, work);
    return run_work(&sim, work, options);
}

static void run_seeds(uint64_t first, uint64_t last, int twice, const struct options *options)
{
    uint64_t frames = 0;
    uint64_t bytes = 0;
    uint64_t traces = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        struct result one = run_seed(seed, options);
        frames += one.frames;
        bytes += one.bytes;
        traces = traces * 31 + one.hash;
        if (options->verbose)
            printf("seed %" PRIu64 ": %" PRIu64 " frames, %" PRIu64
                   " bytes, %.3f s, trace %016" PRIx64 "\n",
                   seed, one.frames, one.bytes, (double)one.virtual_us / 1e6, one.hash);
        if (twice && run_seed(seed, options).hash != one.hash) {
            printf("FAILED: seed %" PRIu64 " gives another trace the second time\n", seed);
            exit(1);
        }
    }
    printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " frames, %" PRIu64
           " bytes, all well, trace %016" PRIx64 "\n",
           first, last, frames, bytes, traces);
}

/* ---- chosen cases ------------------------------------------------------------------------ */

struct bulk {
    uint64_t bytes[2];
    unsigned window_bytes, delay_us, loss, duplicate, reorder;
    uint64_t rate_bits, bound_us;
};

static struct result run_bulk(const struct bulk *bulk, uint64_t seed, const char *replay,
                              const struct options *options)
{
    struct sim sim;
    struct work *work = calloc(1, sizeof(*work));
    memset(&sim, 0, sizeof(sim));
    sim.replay = replay;
    sim_start(&sim, seed);
    work->sim = &sim;
    for (unsigned i = 0; i < 2; i++) {
        struct us_config *c = &work->host[i].config;
        struct link_config *l = &work->link[i].config;
        choose_host(&sim, &work->host[i], i, 0);
        c->mtu = 1500;
        c->recv_window_bytes = bulk->window_bytes;
        c->send_queue_bytes = 2 * bulk->window_bytes + 65536;
        c->buffer_bytes = 8 * bulk->window_bytes + (1 << 20);
        c->rto_min_us = 20000;
        c->rto_initial_us = 200000;
        c->rto_max_us = 2 * SECOND;
        c->delayed_ack_us = 10000;
        c->peer_ack_delay_us = 12000;
        c->cc = US_CC_CUBIC;
        c->nagle = 0;
        c->quick_acks = 8;
        work->host[i].rx_burst = work->host[i].tx_burst = 32;
        work->host[i].check_every = 64;
        l->delay_us = bulk->delay_us;
        l->rate_bits = bulk->rate_bits;
        l->queue_bytes = 200000;
        l->loss = bulk->loss;
        l->duplicate = bulk->duplicate;
        l->reorder = bulk->reorder;
        l->reorder_us = 2 * bulk->delay_us;
        l->faults_end_us = US_NEVER;
    }
    work->job_count = work->concurrent = 1;
    work->jobs = calloc(1, sizeof(*work->jobs));
    work->jobs[0].plan.chunk_max = 20000;
    work->jobs[0].plan.abort_by = -1;
    memcpy(work->jobs[0].plan.bytes, bulk->bytes, sizeof(bulk->bytes));
    work->deadline_us = sim.now_us + bulk->bound_us;
    return run_work(&sim, work, options);
}

static void run_big(uint64_t bytes, const struct options *options)
{
    char replay[64];
    struct bulk bulk = {{bytes, bytes}, 262144, 500, 50000, 20000, 50000, 1000000000, 0};
    snprintf(replay, sizeof(replay), "--big %" PRIu64, bytes);
    bulk.bound_us = 60ull * SECOND + bytes / 100000 * SECOND; /* at least 100 kB/s */
    struct result result = run_bulk(&bulk, 1, replay, options);
    printf("%" PRIu64 " bytes each way in %.3f s of virtual time\n", bytes,
           (double)(result.virtual_us - SECOND) / 1e6);
}

/* ---- goodput table ----------------------------------------------------------------------- */

/* A line begins with '#' or is: loss in percent, window in bytes, goodput in bytes per second. */
static double golden_value(FILE *golden, double loss, unsigned window)
{
    char line[200];
    double l, g;
    unsigned w;
    rewind(golden);
    while (fgets(line, sizeof(line), golden))
        if (line[0] != '#' && sscanf(line, "%lf %u %lf", &l, &w, &g) == 3 && l == loss &&
            w == window)
            return g;
    return 0;
}

static int run_table(const char *golden_path, const struct options *options)
{
    static const unsigned losses[] = {0, 1000, 10000, 50000, 100000};
    static const unsigned windows[] = {1460, 4096, 16384, 65535, 262144};
    FILE *golden = golden_path ? fopen(golden_path, "r") : NULL;
    int worse = golden_path && !golden;
    printf("# Goodput of one transfer over 5 ms each way at 100 Mbit/s, mean of 5 seeds.\n");
    printf("# loss %%  window bytes  bytes/s\n");
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 5; k++) {
            struct bulk bulk = {{0, 0}, windows[k], 5000, losses[i], 0, 0, 100000000, 0};
            double sum = 0;
            bulk.bytes[0] = windows[k] < 10000 ? 300000 : 2000000;
            bulk.bound_us = 3600ull * SECOND;
            for (uint64_t seed = 1; seed <= 5; seed++) {
                struct result r = run_bulk(&bulk, seed, "--table", options);
                sum += (double)bulk.bytes[0] * 1e6 / (double)(r.virtual_us - SECOND);
            }
            double loss = losses[i] / 10000.0;
            double goodput = sum / 5;
            printf("%5.1f %8u %12.0f", loss, windows[k], goodput);
            double before = golden ? golden_value(golden, loss, windows[k]) : 0;
            if (golden && goodput < 0.8 * before) {
                printf("   WORSE than %.0f", before);
                worse = 1;
            } else if (golden && goodput > 1.25 * before) {
                printf("   better than %.0f: the golden file wants an update", before);
            }
            printf("\n");
        }
    }
    if (golden)
        fclose(golden);
    return worse;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim_test --seed N | --seeds A..B | --big BYTES | --table [FILE] | "
                    "--canary alter|silence | --long  [--twice] [--hashes] [--pcap FILE]\n");
    return 2;
}

struct arguments {
    uint64_t first, last, big;
    int twice, table, all;
    const char *golden;
    struct options options;
};

/* An option with a value. Returns 0 if it is unknown. */
static int parse_valued(struct arguments *a, const char *name, const char *value)
{
    if (strcmp(name, "--seed") == 0) {
        a->first = a->last = strtoull(value, NULL, 0);
        a->options.verbose = 1;
    } else if (strcmp(name, "--seeds") == 0) {
        return sscanf(value, "%" SCNu64 "..%" SCNu64, &a->first, &a->last) == 2;
    } else if (strcmp(name, "--big") == 0) {
        a->big = strtoull(value, NULL, 0);
    } else if (strcmp(name, "--pcap") == 0) {
        a->options.pcap = value;
    } else if (strcmp(name, "--canary") == 0) {
        a->options.canary = strcmp(value, "alter") == 0 ? CANARY_ALTER : CANARY_SILENCE;
    } else {
        return 0;
    }
    return 1;
}

static int parse_arguments(struct arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--twice") == 0) {
            a->twice = 1;
        } else if (strcmp(argv[i], "--hashes") == 0) {
            a->options.verbose = 1;
        } else if (strcmp(argv[i], "--long") == 0) {
            a->all = 1;
        } else if (strcmp(argv[i], "--table") == 0) {
            a->table = 1;
            if (i + 1 < argc && argv[i + 1][0] != '-')
                a->golden = argv[++i];
        } else if (i + 1 == argc || !parse_valued(a, argv[i], argv[i + 1])) {
            return 0;
        } else {
            i++;
        }
    }
    return a->table || a->all || a->big > 0 || a->options.canary != CANARY_NONE ||
           a->first <= a->last;
}

int main(int argc, char **argv)
{
    struct arguments a = {1, 0, 0, 0, 0, 0, NULL, {NULL, CANARY_NONE, 0}};
    if (!parse_arguments(&a, argc, argv))
        return usage();
    if (a.table)
        return run_table(a.golden, &a.options);
    if (a.options.canary != CANARY_NONE) {
        run_seed(1, &a.options);
        printf("FAILED: the canary was not noticed\n");
        return 1;
    }
    if (a.all) {
        run_seeds(1001, 21000, 0, &a.options);
        run_big(100000000, &a.options);
    } else if (a.big > 0)
        run_big(a.big, &a.options);
    else
        run_seeds(a.first, a.last, a.twice, &a.options);
    return 0;
}
