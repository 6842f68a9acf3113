/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents as their coordinator sees them; see coordinator.h. */
#include "coordinator.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "client.h"

/* An agent that sends nothing for this time while a request is open is given up. */
#define SILENCE_NS UINT64_C(30000000000)

/* Time for a greeting; an agent that is busy is asked again, as its last run may just end. */
#define GREETING_MS 10000
#define BUSY_TRIES 50
#define BUSY_PAUSE_US 100000

#define POLL_MS 200
#define SECOND_NS 1000000000

__attribute__((format(printf, 3, 4))) static int fail(struct coordinator *c, const char *name,
                                                      const char *format, ...)
{
    char why[600];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    snprintf(c->error, sizeof(c->error), "agent %s: %s", name, why);
    coordinator_close(c); /* the other agents end when their connections do */
    return -1;
}

static uint32_t share(uint64_t total, unsigned i, unsigned n)
{
    return (uint32_t)(total / n + (i < total % n));
}

/* ---- answers ----------------------------------------------------------------------------- */

static int failed(struct coordinator *c, struct coordinator_agent *agent, uint32_t len)
{
    char text[WIRE_TEXT_MAX];
    bool misused;

    if (wire_get_failed(agent->conn.payload, len, &misused, text) < 0)
        return fail(c, agent->name, "it sends an invalid answer");
    c->misused = misused;
    return fail(c, agent->name, "%s", text);
}

/* Handles a frame; result is null for a request whose answer has none. */
static int take(struct coordinator *c, struct coordinator_agent *agent, enum wire_kind kind,
                uint32_t len, struct result *result)
{
    static struct result one;
    bool good = false;

    agent->heard_ns = client_clock_ns();
    if (kind == WIRE_FAILED)
        return failed(c, agent, len);
    if (kind == WIRE_TICK) {
        good = wire_get_tick(agent->conn.payload, len, &agent->answered) == 0;
    } else if (kind == WIRE_DONE && agent->owes) {
        agent->owes = false;
        good = result ? wire_get_result(agent->conn.payload, len, &one) == 0 : len == 0;
        if (good && result)
            result_add(result, &one);
    }
    return good ? 0 : fail(c, agent->name, "it sends an invalid answer");
}

/* Takes all frames of an agent that have arrived. */
static int take_all(struct coordinator *c, struct coordinator_agent *agent, struct result *result)
{
    enum wire_kind kind;
    uint32_t len;
    int rc;

    while ((rc = agent_conn_receive(&agent->conn, 0, WIRE_ANSWER_MAX, &kind, &len)) > 0) {
        if (take(c, agent, kind, len, result) < 0)
            return -1;
    }
    if (rc < 0)
        return fail(c, agent->name, "the connection was lost");
    if (agent->owes && client_clock_ns() - agent->heard_ns > SILENCE_NS)
        return fail(c, agent->name, "it has sent nothing for 30 s");
    return 0;
}

static void show_progress(struct coordinator *c, uint64_t *next_ns, uint64_t *before)
{
    uint64_t now_ns = client_clock_ns(), total = 0;

    if (!c->progress || now_ns < *next_ns)
        return;
    for (unsigned i = 0; i < c->count; i++)
        total += c->agents[i].answered;
    if (*next_ns > 0)
        fprintf(stderr, "%12.0f requests/s of %u agents\n", (double)(total - *before), c->count);
    *next_ns = now_ns + SECOND_NS;
    *before = total;
}

static bool some_owe(const struct coordinator *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        if (c->agents[i].owes)
            return true;
    }
    return false;
}

/* Waits until all agents have answered, and adds up their results. */
static int gather(struct coordinator *c, struct result *result)
{
    struct pollfd fds[COORDINATOR_AGENTS_MAX];
    uint64_t next_ns = 0, before = 0;
    bool stopping = false;

    while (some_owe(c)) {
        for (unsigned i = 0; i < c->count; i++)
            fds[i] = (struct pollfd){.fd = c->agents[i].conn.fd, .events = POLLIN};
        (void)poll(fds, c->count, POLL_MS);
        for (unsigned i = 0; i < c->count; i++) {
            if (take_all(c, &c->agents[i], result) < 0)
                return -1;
        }
        show_progress(c, &next_ns, &before);
        for (unsigned i = 0; atomic_load(c->stop) && !stopping && i < c->count; i++)
            (void)agent_conn_send(&c->agents[i].conn, WIRE_STOP, NULL, 0);
        stopping = atomic_load(c->stop);
    }
    if (result)
        result_complete(result);
    return 0;
}

/* ---- requests ---------------------------------------------------------------------------- */

static int send_request(struct coordinator *c, unsigned i, enum wire_kind kind,
                        const uint8_t *payload, uint32_t len)
{
    struct coordinator_agent *agent = &c->agents[i];

    agent->owes = true;
    agent->heard_ns = client_clock_ns();
    if (agent_conn_send(&agent->conn, kind, payload, len) == 0)
        return 0;
    return fail(c, agent->name, "the connection was lost");
}

/* Connects to an agent. Returns 1, 0 if it is busy, or -1. */
static int greet(struct coordinator *c, struct coordinator_agent *agent)
{
    char error[AGENT_CONN_ERROR_MAX];
    uint8_t hello[WIRE_HELLO_BYTES];
    enum wire_kind kind;
    uint32_t len, version;
    int fd = agent_conn_connect(agent->name, error);

    if (fd < 0)
        return fail(c, agent->name, "%s", error);
    agent_conn_open(&agent->conn, fd);
    (void)agent_conn_send(&agent->conn, WIRE_HELLO, hello, wire_put_hello(hello));
    if (agent_conn_receive(&agent->conn, GREETING_MS, WIRE_HELLO_BYTES, &kind, &len) <= 0)
        return fail(c, agent->name, "it does not answer as an agent of ucload");
    if (kind == WIRE_BUSY) {
        agent_conn_close(&agent->conn);
        return 0;
    }
    if (kind != WIRE_HELLO || wire_get_hello(agent->conn.payload, len, &version) < 0)
        return fail(c, agent->name, "it does not answer as an agent of ucload");
    if (version != WIRE_VERSION)
        return fail(c, agent->name, "it speaks version %u of the protocol, this ucload %d", version,
                    WIRE_VERSION);
    return 1;
}

static int connect_agent(struct coordinator *c, struct coordinator_agent *agent)
{
    for (unsigned i = 0; i < BUSY_TRIES && !atomic_load(c->stop); i++) {
        int rc = greet(c, agent);

        if (rc != 0)
            return rc < 0 ? -1 : 0;
        usleep(BUSY_PAUSE_US);
    }
    return fail(c, agent->name, "it has another coordinator");
}

/* Parses the list of agents. */
static int find_agents(struct coordinator *c, const char *list)
{
    char *rest = c->text, *one;
    static char names[sizeof(c->text)];

    if (strlen(list) >= sizeof(c->text)) {
        snprintf(c->error, sizeof(c->error), "--agents: the list is too long");
        return -1;
    }
    snprintf(c->text, sizeof(c->text), "%s", list);
    snprintf(names, sizeof(names), "%s", list);
    rest = names;
    while ((one = strsep(&rest, ","))) {
        if (c->count == COORDINATOR_AGENTS_MAX) {
            snprintf(c->error, sizeof(c->error), "--agents: there are more than %d",
                     COORDINATOR_AGENTS_MAX);
            return -1;
        }
        c->agents[c->count].conn.fd = -1;
        c->agents[c->count++].name = one;
    }
    return 0;
}

static int send_open(struct coordinator *c, const struct options *o, unsigned i, uint8_t *payload)
{
    static struct wire_open open;
    uint32_t len;

    open = (struct wire_open){.index = i,
                              .agents = c->count,
                              .connections = share(o->connections, i, c->count),
                              .idle = share(o->idle, i, c->count)};
    if (o->argc <= WIRE_WORDS_MAX) {
        memcpy(open.argv, o->argv, (size_t)o->argc * sizeof(open.argv[0]));
        open.argc = o->argc;
    }
    len = open.argc > 0 ? wire_put_open(payload, &open) : 0;
    if (len > 0)
        return send_request(c, i, WIRE_OPEN, payload, len);
    c->misused = true;
    return fail(c, c->agents[i].name, "the command line is too long for it");
}

int coordinator_open(struct coordinator *c, const struct options *o, atomic_bool *stop)
{
    uint8_t *payload;
    int rc = 0;

    c->stop = stop;
    c->misused = true;
    if (find_agents(c, o->agents) < 0)
        return -1;
    if (o->connections < c->count * o->threads || (o->requests > 0 && o->requests < c->count)) {
        snprintf(c->error, sizeof(c->error),
                 "--agents: each thread of each agent needs a connection, and each a request");
        return -1;
    }
    c->misused = false;
    for (unsigned i = 0; i < c->count; i++) {
        if (connect_agent(c, &c->agents[i]) < 0)
            return -1;
    }
    payload = malloc(WIRE_REQUEST_MAX);
    if (!payload)
        return fail(c, c->agents[0].name, "no memory for a request");
    for (unsigned i = 0; i < c->count && rc == 0; i++)
        rc = send_open(c, o, i, payload);
    free(payload);
    if (rc == 0)
        rc = gather(c, NULL);
    c->progress = o->progress;
    return rc;
}

int coordinator_store(struct coordinator *c, struct result *result)
{
    result_clear(result);
    for (unsigned i = 0; i < c->count; i++) {
        if (send_request(c, i, WIRE_STORE, NULL, 0) < 0)
            return -1;
    }
    return gather(c, result);
}

int coordinator_measure(struct coordinator *c, const struct options *o, double rate, uint64_t salt,
                        struct result *result)
{
    uint8_t payload[WIRE_MEASURE_BYTES];

    result_clear(result);
    for (unsigned i = 0; i < c->count; i++) {
        const struct wire_measure measure = {
            .rate = rate / c->count,
            .seconds = o->seconds,
            .warmup_s = o->warmup_s,
            .requests = o->requests / c->count + (i < o->requests % c->count),
            .salt = salt * c->count + i,
        };

        if (send_request(c, i, WIRE_MEASURE, payload, wire_put_measure(payload, &measure)) < 0)
            return -1;
    }
    return gather(c, result);
}

void coordinator_close(struct coordinator *c)
{
    for (unsigned i = 0; i < c->count; i++)
        agent_conn_close(&c->agents[i].conn);
}
