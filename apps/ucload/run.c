/* SPDX-License-Identifier: BSD-3-Clause */
/* All load threads; see run.h. */
#define _GNU_SOURCE
#include "run.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "common/value.h"
#include "nic/steer.h"

/* Length of an interval of the time series, and of the lines of progress. */
#define INTERVAL_NS 1000000000

/* Threads swap their histograms in the next turn, which comes within CLIENT_SLEEP_US_MAX. */
#define SWAP_WAIT_NS 60000000

/* Delay before the common start of a phase. */
#define START_DELAY_NS 1000000

/* Descriptors besides those of connections. */
#define FILES_SPARE 64

static int fail(struct run *run, const char *what, const char *why)
{
    snprintf(run->error, sizeof(run->error), "%s: %s", what, why);
    return -1;
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
}

/* Reports a wrong option. */
static int usage_error(struct run *run, const char *what, const char *why)
{
    run->misused = true;
    return fail(run, what, why);
}

/* ---- the plan ---------------------------------------------------------------------------- */

/* Finds the address, and the name and port by which ketama knows the server. */
static int find_server(struct run *run, const char *text, struct server *server,
                       char host[VALUE_HOST_MAX], uint16_t *number)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char port[VALUE_PORT_MAX] = "11211";
    uint64_t value = 0;
    int rc;

    if (value_endpoint(text, host, port) < 0)
        return usage_error(run, text, "is not HOST:PORT");
    (void)value_number(port, 0, UINT16_MAX, &value);
    *number = (uint16_t)value;
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fail(run, text, gai_strerror(rc));
    memcpy(&server->addr, found->ai_addr, found->ai_addrlen);
    server->addr_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

/* The address of a unix socket. */
static int find_unix(struct run *run, const char *path, struct server *server)
{
    struct sockaddr_un *addr = (struct sockaddr_un *)&server->addr;

    if (link_carries_frames(&run->plan.link) || run->plan.udp)
        return usage_error(run, "--server", "a unix socket needs --io=sock without --udp");
    if (strlen(path) >= sizeof(addr->sun_path))
        return usage_error(run, "--server", "the path is too long for a unix socket");
    addr->sun_family = AF_UNIX;
    memcpy(addr->sun_path, path, strlen(path) + 1);
    server->addr_len = sizeof(*addr);
    return 0;
}

/* Parses a list of servers, separated by commas; keys belong to several by ketama. */
static int find_servers(struct run *run, const char *list)
{
    static char hosts[CLIENT_SERVERS_MAX][VALUE_HOST_MAX];
    struct load_ketama_server names[CLIENT_SERVERS_MAX] = {{NULL, 0, 0}};
    struct plan *plan = &run->plan;
    char text[sizeof(plan->server_text)], *rest = text, *one;
    char why[ROUTING_ERROR_MAX];

    if (strlen(list) >= sizeof(text))
        return usage_error(run, "--server", "the list is too long");
    snprintf(plan->server_text, sizeof(plan->server_text), "%s", list);
    snprintf(text, sizeof(text), "%s", list);
    if (text[0] == '/') {
        plan->server_count = 1;
        return find_unix(run, text, &plan->servers[0]);
    }
    while ((one = strsep(&rest, ","))) {
        unsigned i = plan->server_count;

        if (i == CLIENT_SERVERS_MAX)
            return usage_error(run, "--server", "there are too many");
        plan->server_count++;
        if (find_server(run, one, &plan->servers[i], hosts[i], &names[i].port) < 0)
            return -1;
        names[i].host = hosts[i];
    }
    if (plan->server_count == 1 ||
        routing_open(&plan->routing, names, plan->server_count, &plan->keys,
                     plan->keys.count * (plan->mix.counts ? 2 : 1), why) == 0)
        return 0;
    return usage_error(run, "--server", why);
}

static int open_replay(struct run *run, const struct options *o)
{
    struct plan *plan = &run->plan;
    char why[LOAD_ERROR_MAX];

    if (loaded_trace_open(&plan->replay, o->replay_path, KEYSPACE_VALUE_MAX, why) < 0 ||
        keyspace_open_trace(&plan->keys, &plan->replay, why) < 0)
        return usage_error(run, o->replay_path, why);
    plan->replaying = true;
    plan->replay_again = o->seconds_given || o->requests > 0 || o->slo_given || o->scan_path;
    return 0;
}

static int make_plan(struct run *run, const struct options *o)
{
    struct plan *plan = &run->plan;
    char why[LOAD_ERROR_MAX];

    plan->link = o->link;
    plan->verify = o->verify;
    plan->poll = o->poll;
    plan->udp = o->udp;
    plan->depth = o->depth;
    plan->seed = o->seed;
    plan->arrivals = o->arrivals;
    plan->timeout_ns = (uint64_t)(o->timeout_s * 1e9);
    if (mix_parse(&plan->mix, o->mix, why) < 0)
        return usage_error(run, "--mix", why);
    plan->mix.multi = (uint32_t)o->multi;
    plan->fill = o->fill;
    plan->threads = o->threads;
    if (!load_popularity_parse(&plan->popularity, o->popularity, o->keys, o->seed, why))
        return usage_error(run, "--popularity", why);
    if (o->replay_path && open_replay(run, o) < 0)
        return -1;
    if (!o->replay_path && keyspace_open(&plan->keys, o->keys, o->key_size, o->value_size, why) < 0)
        return usage_error(run, "--key-size, --value-size", why);
    if (plan->mix.grows && plan->keys.value_bytes_max > MIX_GROWN_BYTES_MAX)
        return usage_error(run, "--mix", "append and prepend need values of at most 4096 bytes");
    if (templates_open(&plan->templates, o->protocol, &plan->keys, (uint32_t)o->exptime_s) < 0)
        return fail(run, "sizes", "no memory for the requests");
    plan->reconnect = o->reconnect;
    if (o->auth && login_open(&plan->login, o->auth, o->protocol == PROTOCOL_BINARY, why) < 0)
        return usage_error(run, "--auth", why);
    return find_servers(run, o->server);
}

/* ---- clients ----------------------------------------------------------------------------- */

static int raise_files(struct run *run, unsigned connections)
{
    struct rlimit limit;
    rlim_t wanted = connections + FILES_SPARE;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = wanted;
    if (limit.rlim_max < wanted)
        limit.rlim_max = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    return fail(run, "too many connections for the limit of open files", strerror(errno));
}

/* Opens a device queue or lane for each thread; none with kernel sockets. */
static int open_link(struct run *run, unsigned threads, struct nic *lane[])
{
    struct link_params use = {.queues = threads};
    char error[LINK_ERROR_MAX], why[NIC_ERROR_MAX];
    int queues;

    if (!link_carries_frames(&run->plan.link))
        return 0;
    queues = link_open(&run->plan.link, &use, lane, error);
    if (queues < 0)
        return fail(run, link_backend_name(&run->plan.link), error);
    if (threads == 1 || nic_steer_open(lane, (unsigned)queues, threads, lane, why) == 0)
        return 0;
    while (queues > 0)
        nic_close(lane[--queues]);
    return fail(run, link_backend_name(&run->plan.link), why);
}

static int open_clients(struct run *run, const struct options *o)
{
    struct nic *queue[NIC_QUEUES_MAX] = {NULL};
    unsigned left = o->connections, idle_left = o->idle;
    unsigned i, count;
    int rc = 0;

    if (open_link(run, o->threads, queue) < 0)
        return -1;
    for (i = 0; i < o->threads; i++) {
        struct client *client = &run->threads[i].client;

        run->threads[i].run = run;
        if (rc < 0) {
            if (queue[i])
                nic_close(queue[i]);
            continue;
        }
        run->thread_count = i + 1;
        client->number = i;
        client->group = &run->group;
        count = left / (o->threads - i);
        left -= count;
        client->idle_count = idle_left / (o->threads - i);
        idle_left -= client->idle_count;
        rc = client_open(client, &run->plan, count, queue[i]);
        if (rc < 0)
            snprintf(run->error, sizeof(run->error), "%s", client->error);
    }
    return rc;
}

/* ---- a phase ----------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct run_thread *thread = arg;

    if (client_run(&thread->client) < 0)
        atomic_store(&thread->run->group.stop, true); /* ends the other threads */
    sem_post(&thread->run->ended);
    return NULL;
}

uint64_t run_shown(const struct run *run)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < run->thread_count; i++)
        total += atomic_load_explicit(&run->threads[i].client.shown, memory_order_relaxed);
    return total;
}

static void show_progress(const struct run *run, uint64_t *before, double seconds, double elapsed)
{
    uint64_t total = run_shown(run);

    fprintf(stderr, "%s%6.0f s %12.0f requests/s %14llu requests%s", isatty(2) ? "\r" : "", elapsed,
            (double)(total - *before) / seconds, (unsigned long long)total, isatty(2) ? " " : "\n");
    fflush(stderr);
    *before = total;
}

/* The time series of a phase: the threads swap their histograms after each interval. */
struct intervals {
    struct series *series; /* null: the phase is one interval */
    uint64_t begin_ns;     /* end of the warm-up */
    uint64_t from_ns;      /* begin of the oldest interval that is not in the series */
    uint64_t upto_ns;      /* end of the interval whose swap is in progress; 0: none */
    uint64_t next_ns;      /* when the present interval is to end */
};

/* Adds the histograms to those of the result and of the interval, and clears them. */
static void take_set(struct load_histogram set[OP_COUNT], struct result *result,
                     struct load_histogram *interval)
{
    for (unsigned op = 0; op < OP_COUNT; op++) {
        if (set[op].total == 0)
            continue;
        load_histogram_add(&result->by_op[op], &set[op]);
        load_histogram_add(interval, &set[op]);
        load_histogram_clear(&set[op]);
    }
}

/* Adds the histograms that the threads have swapped out, and both sets of threads that are done. */
static void take_interval(struct run *run, struct intervals *in, uint64_t upto_ns,
                          struct result *result)
{
    static struct load_histogram interval;
    unsigned tick = atomic_load(&run->group.tick);

    load_histogram_clear(&interval);
    for (unsigned i = 0; i < run->thread_count; i++) {
        struct client *client = &run->threads[i].client;

        if (atomic_load_explicit(&client->done, memory_order_acquire))
            take_set(client->sets[tick & 1], result, &interval);
        take_set(client->sets[~tick & 1], result, &interval);
    }
    if (in->series)
        series_add(in->series, (double)(in->from_ns - in->begin_ns) / 1e9,
                   (double)(upto_ns - in->from_ns) / 1e9, &interval);
    in->from_ns = upto_ns;
    in->upto_ns = 0;
}

/* Whether each thread has swapped its histograms or is done. */
static bool all_have_ticked(const struct run *run)
{
    unsigned tick = atomic_load(&run->group.tick);

    for (unsigned i = 0; i < run->thread_count; i++) {
        const struct client *client = &run->threads[i].client;

        if (!atomic_load_explicit(&client->done, memory_order_acquire) &&
            atomic_load_explicit(&client->ticked, memory_order_acquire) != tick)
            return false;
    }
    return true;
}

/* Requests a swap when an interval has passed, and adds its histograms after all threads did. */
static void follow_intervals(struct run *run, struct intervals *in, uint64_t now_ns,
                             struct result *result)
{
    if (!in->series)
        return;
    if (in->upto_ns > 0 && all_have_ticked(run))
        take_interval(run, in, in->upto_ns, result);
    if (in->upto_ns > 0 || now_ns < in->next_ns)
        return;
    atomic_fetch_add(&run->group.tick, 1);
    in->upto_ns = now_ns;
    while (in->next_ns <= now_ns)
        in->next_ns += INTERVAL_NS;
}

/* When to wake up: at the end of the interval, or sooner while a swap is in progress. */
static struct timespec next_look(const struct intervals *in, uint64_t now_ns)
{
    uint64_t wait_ns = INTERVAL_NS, ns;
    struct timespec until;

    if (in->series && in->upto_ns > 0)
        wait_ns = SWAP_WAIT_NS;
    else if (in->series && in->next_ns > now_ns)
        wait_ns = in->next_ns - now_ns;
    clock_gettime(CLOCK_REALTIME, &until);
    ns = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return until;
}

/* Ends all threads without waiting for replies. */
static void give_up(struct run *run)
{
    atomic_store(&run->group.stop, true);
    atomic_store(&run->group.broken, true);
}

static void wait_for_threads(struct run *run, unsigned started, bool progress, struct intervals *in,
                             struct result *result)
{
    uint64_t begin_ns = client_clock_ns(), last_ns = begin_ns, now_ns = begin_ns;
    uint64_t before = 0;
    unsigned ended = 0;
    struct timespec until;

    while (ended < started) {
        until = next_look(in, now_ns);
        if (sem_timedwait(&run->ended, &until) == 0)
            ended++;
        now_ns = client_clock_ns();
        if (run->look && !run->look(run, run->look_arg))
            give_up(run);
        follow_intervals(run, in, now_ns, result);
        if (!progress || in->series || now_ns - last_ns < INTERVAL_NS)
            continue;
        show_progress(run, &before, (double)(now_ns - last_ns) / 1e9,
                      (double)(now_ns - begin_ns) / 1e9);
        last_ns = now_ns;
    }
    if (progress && isatty(2))
        fprintf(stderr, "\r%60s\r", "");
}

/* Called when all threads have ended. */
static void add_up(struct run *run, struct intervals *in, struct result *result)
{
    uint64_t end_ns = in->begin_ns;
    const struct client *client;
    unsigned i;

    for (i = 0; i < run->thread_count; i++) {
        client = &run->threads[i].client;
        tally_add(&result->tally, &client->ctx.tally);
        end_ns = u_max64(end_ns, client->end_ns);
        if (result->example[0] == '\0')
            snprintf(result->example, sizeof(result->example), "%s", client->ctx.error);
    }
    take_interval(run, in, u_max64(end_ns, in->from_ns), result);
    result_complete(result);
    result->seconds = (double)(end_ns - in->begin_ns) / 1e9;
    result->offered = run->threads[0].client.phase.per_second * run->thread_count;
}

/* Runs the phase in all threads and adds up the results. */
static int go(struct run *run, bool progress, struct series *series, struct result *result)
{
    const struct phase *phase = &run->threads[0].client.phase;
    struct intervals in = {.series = series, .begin_ns = phase->start_ns + phase->record_ns};
    unsigned started, i;
    int rc = 0;

    in.from_ns = in.begin_ns;
    in.next_ns = in.begin_ns + INTERVAL_NS;
    result_clear(result);
    atomic_store(&run->group.busy, run->thread_count);
    for (started = 0; started < run->thread_count && rc == 0; started++)
        rc = pthread_create(&run->threads[started].id, NULL, thread_main, &run->threads[started]);
    if (rc != 0) {
        give_up(run);
        started--;
    }
    wait_for_threads(run, started, progress, &in, result);
    for (i = 0; i < started; i++)
        pthread_join(run->threads[i].id, NULL);
    if (rc != 0)
        return fail(run, "cannot start a thread", strerror(rc));
    add_up(run, &in, result);
    for (i = 0; i < run->thread_count; i++) {
        if (!run->threads[i].client.failed)
            continue;
        snprintf(run->error, sizeof(run->error), "%s", run->threads[i].client.error);
        return -1;
    }
    return 0;
}

/* Prepares a phase that starts now in all threads. */
static void begin_phase(struct run *run, enum phase_kind kind)
{
    uint64_t start_ns = client_clock_ns();
    unsigned i;

    for (i = 0; i < run->thread_count; i++) {
        struct phase *phase = &run->threads[i].client.phase;

        memset(phase, 0, sizeof(*phase));
        phase->kind = kind;
        phase->start_ns = start_ns;
        atomic_store(&run->threads[i].client.done, false);
    }
}

/* Takes over the error of agents. Returns rc. */
static int lift(struct run *run, int rc)
{
    if (rc == 0)
        return 0;
    run->misused = run->agents.misused;
    snprintf(run->error, sizeof(run->error), "%s", run->agents.error);
    return -1;
}

/* The same for a measurement, which is one interval of the series. */
static int measure_by_agents(struct run *run, const struct options *o, double rate, uint64_t salt,
                             struct series *series, struct result *result)
{
    int rc = lift(run, coordinator_measure(&run->agents, o, rate, salt, result));

    if (rc == 0 && series)
        series_add(series, 0, result->seconds, &result->latency);
    return rc;
}

int run_server_cycles(struct run *run, uint64_t *cycles)
{
    static struct result ignored;

    begin_phase(run, PHASE_STATS);
    run->threads[0].client.ctx.server_cycles = 0;
    if (go(run, false, NULL, &ignored) < 0)
        return -1;
    *cycles = run->threads[0].client.ctx.server_cycles;
    return *cycles > 0 ? 0 : fail(run, "--server-cycles", "the server does not report them");
}

uint64_t run_answered(const struct run *run)
{
    uint64_t answered = 0;
    unsigned i;

    for (i = 0; i < run->thread_count; i++)
        answered += run->threads[i].client.ctx.answered;
    return answered;
}

uint64_t run_cycles(const struct run *run)
{
    uint64_t cycles = 0;
    unsigned i;

    for (i = 0; i < run->thread_count; i++)
        cycles += run->threads[i].client.host.cycles_busy;
    return cycles;
}

int run_store(struct run *run, unsigned part, unsigned parts, struct result *result)
{
    uint64_t ids = run->plan.keys.count * (run->plan.mix.counts ? 2 : 1);
    uint64_t first = ids * part / parts, total = ids * (part + 1) / parts - first;
    unsigned i;

    if (run->distributed)
        return lift(run, coordinator_store(&run->agents, result));
    begin_phase(run, PHASE_STORE);
    for (i = 0; i < run->thread_count; i++) {
        struct phase *phase = &run->threads[i].client.phase;

        phase->from = first + total * i / run->thread_count;
        phase->to = first + total * (i + 1) / run->thread_count;
    }
    return go(run, run->progress, NULL, result);
}

int run_measure(struct run *run, const struct options *o, double rate, uint64_t salt,
                struct series *series, struct result *result)
{
    uint64_t start_ns = client_clock_ns() + START_DELAY_NS;
    unsigned n = run->thread_count;
    double cpu_s = cpu_seconds();
    unsigned i;
    int rc;

    if (run->distributed)
        return measure_by_agents(run, o, rate, salt, series, result);
    begin_phase(run, PHASE_LOAD);
    hiccup_start(&run->watch, start_ns + (uint64_t)(o->warmup_s * 1e9));
    for (i = 0; i < n; i++) {
        struct phase *phase = &run->threads[i].client.phase;

        phase->start_ns = start_ns;
        phase->record_ns = (uint64_t)(o->warmup_s * 1e9);
        if (o->seconds_given || (o->requests == 0 && !o->replay_path) || o->slo_given ||
            o->scan_path)
            phase->duration_ns = phase->record_ns + (uint64_t)(o->seconds * 1e9);
        phase->requests_max = o->requests / n + (i < o->requests % n);
        phase->per_second = rate / n;
        phase->seed = o->seed + (salt * n + i) * UINT64_C(0x9e3779b97f4a7c15);
    }
    rc = go(run, run->progress, series, result);
    result->hiccups = hiccup_read(&run->watch);
    result->cpu_s = cpu_seconds() - cpu_s;
    return rc;
}

/* ---- start and end ----------------------------------------------------------------------- */

/* Called before the link is opened: DPDK pins this thread to one core. */
static int watch_cores(struct run *run, const struct options *o)
{
    struct cores cores = o->watch;
    char why[CORES_ERROR_MAX];
    int rc;

    if (cores.count == 0 && cores_all(&cores, why) < 0)
        return fail(run, "hiccups", why);
    rc = hiccup_open(&run->watch, &cores);
    return rc == 0 ? 0 : usage_error(run, "--watch-cores: a core cannot be watched", strerror(-rc));
}

static int open_tls(struct run *run, const struct options *o)
{
    const struct tls_client_config config = {
        .ca_cert = o->ca, .chain_cert = o->cert, .key = o->key};
    char error[TLS_ERROR_MAX];

    if (!o->tls)
        return 0;
    run->plan.tls_resume = o->tls_resume;
    run->plan.tls = tls_client_open(&config, error);
    if (run->plan.tls)
        return 0;
    return usage_error(run, "--tls", error);
}

static int open_agents(struct run *run, const struct options *o)
{
    int rc;

    run->distributed = true;
    snprintf(run->plan.server_text, sizeof(run->plan.server_text), "%s", o->server);
    rc = lift(run, coordinator_open(&run->agents, o, &run->group.stop));
    run->is_open = rc == 0;
    return rc;
}

int run_open(struct run *run, const struct options *o)
{
    static struct result ignored;
    int rc;

    run->progress = o->progress;
    if (o->agents)
        return open_agents(run, o);
    if (sem_init(&run->ended, 0, 0) < 0)
        return fail(run, "semaphore", strerror(errno));
    run->threads = calloc(o->threads, sizeof(run->threads[0]));
    if (!run->threads)
        return fail(run, "threads", "no memory");
    if (open_tls(run, o) < 0 || make_plan(run, o) < 0 || watch_cores(run, o) < 0)
        return -1;
    if (!link_carries_frames(&o->link) && raise_files(run, o->connections + o->idle) < 0)
        return -1;
    if (run->plan.server_count > 1 && o->connections < run->plan.server_count * o->threads)
        return usage_error(run, "--connections", "each thread needs one for each server");
    if (open_clients(run, o) < 0)
        return -1;
    begin_phase(run, PHASE_CONNECT);
    rc = go(run, false, NULL, &ignored);
    run->is_open = rc == 0;
    return rc;
}

void run_close(struct run *run)
{
    unsigned i;

    if (run->distributed) {
        coordinator_close(&run->agents);
        return;
    }
    hiccup_close(&run->watch);
    /* In reverse order: other threads may send through the first thread's queue. */
    for (i = run->thread_count; i-- > 0;)
        client_close(&run->threads[i].client);
    free(run->threads);
    if (run->plan.tls)
        tls_context_close(run->plan.tls);
    routing_close(&run->plan.routing);
    templates_close(&run->plan.templates);
    keyspace_close(&run->plan.keys);
    loaded_trace_close(&run->plan.replay);
    sem_destroy(&run->ended);
}
