/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents; see agent.h. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "agent_conn.h"
#include "run.h"

/* Time for a new coordinator to send its greeting and its first request. */
#define GREETING_MS 10000

/* Of the process that serves a coordinator. */
struct agent {
    struct agent_conn conn;
    struct run run;
    struct options options;
    struct result result;
    uint32_t index, agents;
};

static struct agent agent;

/* ---- one coordinator --------------------------------------------------------------------- */

/*
 * Called by the main thread of a run once per second: reports to the coordinator how many requests
 * were answered. Returns false if the coordinator is gone, which ends the run.
 */
static bool look(struct run *run, void *arg)
{
    struct agent *a = arg;
    uint8_t tick[WIRE_TICK_BYTES];
    enum wire_kind kind;
    uint32_t len;
    int rc;

    while ((rc = agent_conn_receive(&a->conn, 0, WIRE_REQUEST_MAX, &kind, &len)) > 0) {
        if (kind != WIRE_STOP || len != 0)
            return false;
        atomic_store(&run->group.stop, true);
    }
    return rc == 0 &&
           agent_conn_send(&a->conn, WIRE_TICK, tick, wire_put_tick(tick, run_shown(run))) == 0;
}

static int send_failed(struct agent *a, bool misused, const char *text)
{
    uint8_t payload[WIRE_FAILED_BYTES];

    (void)agent_conn_send(&a->conn, WIRE_FAILED, payload, wire_put_failed(payload, misused, text));
    return -1;
}

static int send_result(struct agent *a)
{
    uint8_t *payload = malloc(WIRE_ANSWER_MAX);
    int rc;

    if (!payload)
        return send_failed(a, false, "no memory for the result");
    rc = agent_conn_send(&a->conn, WIRE_DONE, payload, wire_put_result(payload, &a->result));
    free(payload);
    return rc;
}

static int open_run(struct agent *a, uint8_t *payload, uint32_t len)
{
    static struct wire_open open;

    if (a->agents > 0 || wire_get_open(payload, len, &open) < 0)
        return send_failed(a, false, "this is not a request to open a run");
    if (options_parse(open.argc, open.argv, &a->options) != CMDLINE_RUN)
        return send_failed(a, true, a->options.error);
    if (!a->options.agents)
        return send_failed(a, true, "the command line has no --agents");
    a->index = open.index;
    a->agents = open.agents;
    a->options.agents = NULL;
    a->options.connections = open.connections;
    a->options.idle = open.idle;
    a->options.progress = false;
    if (a->options.connections < a->options.threads)
        return send_failed(a, true, "there are fewer connections than threads");
    a->run.look = look;
    a->run.look_arg = a;
    if (run_open(&a->run, &a->options) < 0)
        return send_failed(a, a->run.misused, a->run.error);
    return agent_conn_send(&a->conn, WIRE_DONE, NULL, 0);
}

static int measure(struct agent *a, const uint8_t *payload, uint32_t len)
{
    struct wire_measure m;

    if (wire_get_measure(payload, len, &m) < 0)
        return send_failed(a, false, "this is not a request to measure");
    a->options.seconds = m.seconds;
    a->options.warmup_s = m.warmup_s;
    a->options.requests = m.requests;
    if (run_measure(&a->run, &a->options, m.rate, m.salt, NULL, &a->result) < 0)
        return send_failed(a, false, a->run.error);
    return send_result(a);
}

static int serve_request(struct agent *a, enum wire_kind kind, uint8_t *payload, uint32_t len)
{
    if (kind == WIRE_OPEN)
        return open_run(a, payload, len);
    if (kind == WIRE_STOP && len == 0)
        return 0; /* which has crossed the answer */
    if (a->agents == 0)
        return send_failed(a, false, "no run is open");
    if (kind == WIRE_MEASURE)
        return measure(a, payload, len);
    if (kind != WIRE_STORE || len != 0)
        return send_failed(a, false, "this is not a request");
    if (run_store(&a->run, a->index, a->agents, &a->result) < 0)
        return send_failed(a, false, a->run.error);
    return send_result(a);
}

/* Greets the coordinator. */
static int greet(struct agent *a)
{
    uint8_t hello[WIRE_HELLO_BYTES];
    enum wire_kind kind;
    uint32_t len, version;

    if (agent_conn_receive(&a->conn, GREETING_MS, WIRE_HELLO_BYTES, &kind, &len) <= 0 ||
        kind != WIRE_HELLO || wire_get_hello(a->conn.payload, len, &version) < 0)
        return -1;
    if (agent_conn_send(&a->conn, WIRE_HELLO, hello, wire_put_hello(hello)) < 0)
        return -1;
    return version == WIRE_VERSION ? 0 : -1;
}

/* The process of a coordinator: serves its requests until it closes the connection. */
static void serve(int fd)
{
    struct agent *a = &agent;
    enum wire_kind kind;
    uint32_t len;
    int wait_ms = GREETING_MS;

    agent_conn_open(&a->conn, fd);
    if (greet(a) == 0) {
        while (agent_conn_receive(&a->conn, wait_ms, WIRE_REQUEST_MAX, &kind, &len) > 0 &&
               serve_request(a, kind, a->conn.payload, len) == 0)
            wait_ms = AGENT_CONN_FOREVER; /* other agents may take long */
    }
    agent_conn_close(&a->conn);
}

/* ---- listening --------------------------------------------------------------------------- */

static void refuse(int fd)
{
    struct agent_conn conn;

    agent_conn_open(&conn, fd);
    (void)agent_conn_send(&conn, WIRE_BUSY, NULL, 0);
    agent_conn_close(&conn);
}

/* Starts the process of a coordinator. Returns its id, or 0. */
static pid_t start(int fd, int listener)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0) {
        close(listener);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            serve(fd);
        _exit(0);
    }
    close(fd);
    if (child < 0)
        fprintf(stderr, "ucload: cannot start a process: %s\n", strerror(errno));
    return child > 0 ? child : 0;
}

/* Serves for ever. */
static __attribute__((noreturn)) void listen_on(int listener)
{
    pid_t busy = 0;

    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (busy > 0 && waitpid(busy, NULL, WNOHANG) == busy)
            busy = 0;
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                sleep(1);
            continue;
        }
        if (busy > 0)
            refuse(fd);
        else
            busy = start(fd, listener);
    }
}

int agent_serve(const char *address)
{
    char error[AGENT_CONN_ERROR_MAX], name[AGENT_CONN_NAME_MAX];
    int listener = agent_conn_listen(address, name, error);

    if (listener < 0) {
        fprintf(stderr, "ucload: --agent: %s\n", error);
        return EX_UNAVAILABLE;
    }
    fprintf(stderr, "ucload: agent at %s; any host that can connect to it controls its load\n",
            name);
    listen_on(listener);
}
