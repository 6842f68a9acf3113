/* SPDX-License-Identifier: BSD-3-Clause */
/* The application of the simulated hosts, and the oracle. See app.h. */
#include "app.h"

#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS_MAX = 1000, RETRY_US = 300000, KILL_US = 40000000, DRAIN_US = 300000000 };

struct ref {
    struct side *side;
    uint8_t *bytes;
};

/* ---- content ----------------------------------------------------------------------------- */

static uint64_t content_word(uint64_t key, uint64_t index)
{
    uint64_t z = key + index * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static uint64_t content_key(const struct job *job, unsigned sender)
{
    return (uint64_t)job->number * 2654435761u + sender * 97u + job->work->sim->seed * 31u;
}

static void content_fill(uint64_t key, uint64_t offset, uint8_t *to, size_t len)
{
    uint64_t word = content_word(key, offset / 8);
    for (size_t i = 0; i < len; i++, offset++) {
        if (offset % 8 == 0)
            word = content_word(key, offset / 8);
        to[i] = (uint8_t)(word >> offset % 8 * 8);
    }
}

static void check_content(struct side *side, const uint8_t *data, size_t len)
{
    struct job *job = side->job;
    struct sim *sim = side->host->sim;
    uint64_t key = content_key(job, !side->index);
    uint64_t offset = side->received;
    uint64_t word = content_word(key, offset / 8);
    if (offset + len > job->plan.bytes[!side->index])
        sim_fail(sim, "job %u, host %s: %llu bytes received, only %llu are sent", job->number,
                 side->host->name, (unsigned long long)(offset + len),
                 (unsigned long long)job->plan.bytes[!side->index]);
    for (size_t i = 0; i < len; i++, offset++) {
        if (offset % 8 == 0)
            word = content_word(key, offset / 8);
        if (data[i] != (uint8_t)(word >> offset % 8 * 8))
            sim_fail(sim, "job %u, host %s: byte %llu of the stream is wrong", job->number,
                     side->host->name, (unsigned long long)offset);
    }
}

/* ---- sending ----------------------------------------------------------------------------- */

/* How much this side may have queued by now. */
static uint64_t allowed(const struct side *side)
{
    const struct job_plan *plan = &side->job->plan;
    uint64_t all = plan->bytes[side->index];
    uint64_t n = all;
    if (plan->kind == JOB_RPC && side->index == plan->client)
        n = (side->received / plan->response + 1) * plan->request;
    else if (plan->kind == JOB_RPC)
        n = side->received / plan->request * plan->response;
    else if (plan->kind == JOB_HALF && side->index != plan->client)
        n = side->peer_closed ? all : 0;
    return n < all ? n : all;
}

/* Each returns the number of bytes queued; 0 means to wait for SENDABLE. */
static uint32_t send_copy(struct side *side, uint32_t n)
{
    static uint8_t bytes[1 << 16];
    struct host *host = side->host;
    content_fill(content_key(side->job, side->index), side->queued, bytes, n);
    uint32_t room = us_send_room(host->stack, side->conn);
    long taken = us_send(host->stack, side->conn, bytes, n);
    memset(bytes, 0xdd, n);
    if (taken == US_ERR_STATE) /* its end is among the events to come */
        return 0;
    if (taken == US_ERR_NO_MEMORY || taken == US_ERR_FULL)
        taken = 0;
    if (taken < 0 || taken > (long)n)
        sim_fail(host->sim, "job %u, host %s: us_send() says %ld", side->job->number, host->name,
                 taken);
    if ((uint32_t)taken > room)
        sim_fail(host->sim, "job %u, host %s: us_send() took %ld, us_send_room() says %u",
                 side->job->number, host->name, taken, room);
    return (uint32_t)taken;
}

static uint32_t send_reserved(struct side *side, uint32_t n)
{
    uint32_t room = 0;
    u_u8 *p = us_reserve(side->host->stack, side->conn, n, 0, &room);
    if (!p)
        return 0;
    if (room < n)
        sim_fail(side->host->sim, "us_reserve() gives %u bytes, not %u", room, n);
    content_fill(content_key(side->job, side->index), side->queued, p, n);
    us_commit(side->host->stack, side->conn, n);
    return n;
}

static uint32_t send_ref(struct side *side, uint32_t n)
{
    struct host *host = side->host;
    struct ref *ref = malloc(sizeof(*ref));
    ref->side = side;
    ref->bytes = malloc(n);
    content_fill(content_key(side->job, side->index), side->queued, ref->bytes, n);
    int result = us_send_ref(host->stack, side->conn, ref->bytes, n, ref);
    if (result == US_OK) {
        side->job->work->refs_given++;
        return n;
    }
    free(ref->bytes);
    free(ref);
    if (result != US_ERR_FULL && result != US_ERR_NO_MEMORY && result != US_ERR_STATE)
        sim_fail(host->sim, "us_send_ref() says %d", result);
    return 0;
}

static void close_if_done(struct side *side)
{
    const struct job_plan *plan = &side->job->plan;
    int late = plan->close_late && side->index != plan->client && plan->kind != JOB_TOGETHER;
    if (side->closing || side->queued < plan->bytes[side->index] || (late && !side->peer_closed))
        return;
    side->closing = 1;
    int result = us_close(side->host->stack, side->conn);
    if (result != US_OK && result != US_ERR_STATE)
        sim_fail(side->host->sim, "job %u, host %s: us_close() says %d", side->job->number,
                 side->host->name, result);
}

static void pump(struct side *side)
{
    struct sim *sim = side->host->sim;
    const struct job_plan *plan = &side->job->plan;
    uint64_t until = allowed(side);
    if (!side->conn || !side->established || side->aborted)
        return;
    while (!side->waiting && side->queued < until) {
        uint64_t n = sim_between(&sim->random, 1, plan->chunk_max);
        uint32_t sent;
        n = n < until - side->queued ? n : until - side->queued;
        if (sim_chance(&sim->random, plan->ref_chance))
            sent = send_ref(side, (uint32_t)n);
        else if (n <= US_RESERVE_MAX && sim_chance(&sim->random, plan->reserve_chance))
            sent = send_reserved(side, (uint32_t)n);
        else
            sent = send_copy(side, (uint32_t)n);
        side->queued += sent;
        side->waiting = sent == 0;
        if (sent < n) {
            side->wanting = 1;
            side->short_input = side->host->inputs;
        }
    }
    close_if_done(side);
}

/* ---- jobs begin and end ------------------------------------------------------------------ */

static void start_job(struct sim *sim, void *target, void *detail);

static void start_next(struct work *work)
{
    while (work->running < work->concurrent && work->next_job < work->job_count) {
        struct job *job = &work->jobs[work->next_job++];
        uint64_t wait = sim_between(&work->sim->random, 0, 20000);
        work->running++;
        job->running = 1;
        sim_at(work->sim, work->sim->now_us + wait, start_job, job, NULL);
    }
}

static struct us_conn *connect_side(struct side *side, uint16_t remote_port, uint16_t local_port)
{
    struct work *work = side->job->work;
    int error = 0;
    side->conn = us_connect(side->host->stack, &work->host[!side->index].addr, remote_port,
                            local_port, side, &error);
    if (!side->conn && error != US_ERR_NO_MEMORY && error != US_ERR_IN_USE)
        sim_fail(work->sim, "us_connect() says %d", error);
    return side->conn;
}

static void retry(struct job *job)
{
    struct sim *sim = job->work->sim;
    if (job->attempts > ATTEMPTS_MAX)
        sim_fail(sim, "job %u: no connection after %u attempts", job->number, job->attempts);
    sim_at(sim, sim->now_us + RETRY_US, start_job, job, NULL);
}

static void start_job(struct sim *sim, void *target, void *detail)
{
    struct job *job = target;
    struct work *work = job->work;
    struct side *client = &job->side[job->plan.client];
    struct side *server = &job->side[!job->plan.client];
    if (client->conn || server->conn) { /* connections of the last attempt must end first */
        sim_at(sim, sim->now_us + RETRY_US, start_job, job, NULL);
        return;
    }
    job->attempts++;
    job->spoiled = job->aborted = 0;
    for (unsigned i = 0; i < 2; i++) {
        memset(&job->side[i], 0, sizeof(job->side[i]));
        job->side[i].job = job;
        job->side[i].host = &work->host[i];
        job->side[i].index = i;
    }
    int together = job->plan.kind == JOB_TOGETHER;
    uint16_t local = 0;
    if (!job->plan.any_port || together)
        local = (uint16_t)(20000 + (job->number * 331 + job->attempts) % 20000);
    uint16_t remote = together ? (uint16_t)(local + 20000) : APP_PORT;
    if (!connect_side(client, remote, local)) {
        retry(job);
    } else {
        struct us_conn_info info;
        us_conn_get_info(client->host->stack, client->conn, &info);
        job->port = info.local_port;
        work->by_port[client->index][job->port] = job;
        if (together && !connect_side(server, local, remote))
            us_abort(client->host->stack, client->conn);
    }
    host_settle(client->host);
    host_settle(server->host);
}

static void finish_job(struct job *job)
{
    struct work *work = job->work;
    if (job->done)
        return;
    job->done = 1;
    job->running = 0;
    work->running--;
    work->finished++;
    work->finished_us = work->sim->now_us;
    start_next(work);
}

/* The other side may never learn of an end whose RST was lost: its application gives up. */
static void kill_other(struct sim *sim, void *target, void *detail)
{
    struct side *side = target;
    if (side->conn && side->conn == detail && side->job->spoiled) {
        side->aborted = 1;
        us_abort(side->host->stack, side->conn);
        host_settle(side->host);
    }
}

static void spoil(struct side *side)
{
    struct side *other = &side->job->side[!side->index];
    struct sim *sim = side->host->sim;
    side->job->spoiled = 1;
    if (other->conn)
        sim_at(sim, sim->now_us + KILL_US, kill_other, other, other->conn);
}

static void check_reason(struct side *side)
{
    struct job *job = side->job;
    struct sim *sim = side->host->sim;
    const struct job_plan *plan = &job->plan;
    int complete =
        side->peer_closed && side->closing && side->received == plan->bytes[!side->index];
    if (side->reason == US_CLOSE_NORMAL && complete)
        return;
    if (side->aborted || (job->spoiled && side->reason != US_CLOSE_NORMAL))
        return;
    if (job->work->resets_allowed && side->reason == US_CLOSE_RESET && complete)
        return;
    sim_fail(sim,
             "job %u, host %s: closed for reason %d after %llu of %llu bytes in, %llu of "
             "%llu queued, end of stream seen: %d, own end: %d",
             job->number, side->host->name, side->reason, (unsigned long long)side->received,
             (unsigned long long)plan->bytes[!side->index], (unsigned long long)side->queued,
             (unsigned long long)plan->bytes[side->index], side->peer_closed, side->closing);
}

/* Whether a connection that was closed had to make room for a new one. */
static int was_dropped(struct side *side)
{
    uint64_t *seen = &side->job->work->dropped[side->index];
    if (side->reason != US_CLOSE_TIMEOUT || !side->closing ||
        host_counter(side->host, "orphans_dropped") == *seen)
        return 0;
    ++*seen;
    return 1;
}

static void on_closed(struct side *side, enum us_close_reason reason)
{
    struct job *job = side->job;
    struct side *other = &job->side[!side->index];
    int connecting =
        !side->established && !job->done && !job->aborted &&
        (reason == US_CLOSE_TIMEOUT || reason == US_CLOSE_REFUSED ||
         reason == US_CLOSE_UNREACHABLE || reason == US_CLOSE_ABORTED || reason == US_CLOSE_RESET);
    side->ended = 1;
    side->conn = NULL;
    side->reason = reason;
    if (connecting) {
        int first = !job->spoiled;
        spoil(side);
        if (first)
            retry(job);
        return;
    }
    if (was_dropped(side)) { /* like an abort: the other side may end for any reason */
        job->aborted = side->aborted = 1;
        spoil(side);
    }
    check_reason(side);
    if (job->aborted ? !other->conn : other->ended && !job->spoiled)
        finish_job(job);
}

/* ---- events ------------------------------------------------------------------------------ */

static void resume(struct sim *sim, void *target, void *detail)
{
    struct side *side = target;
    if (!side->conn || side->conn != detail || !side->held)
        return;
    side->held = 0;
    us_recv_resume(side->host->stack, side->conn);
    host_settle(side->host);
}

static void keep(struct side *side, const struct us_event *event, u_u32 used)
{
    struct sim *sim = side->host->sim;
    u_u32 n = event->len - used;
    int result = us_recv_keep(side->host->stack, side->conn, event->data + used, n);
    if (result != US_OK && !side->job->spoiled)
        sim_fail(sim, "job %u, host %s: us_recv_keep() of %u bytes fails", side->job->number,
                 side->host->name, n);
    if (!side->held) {
        uint64_t wait = sim_between(&sim->random, 0, side->job->plan.resume_us_max);
        side->held_input = side->host->inputs;
        sim_at(sim, sim->now_us + wait, resume, side, side->conn);
    }
    side->held = 1;
}

static void maybe_abort(struct side *side)
{
    const struct job_plan *plan = &side->job->plan;
    if (plan->abort_by != (int)side->index || side->received < plan->abort_after ||
        side->job->spoiled)
        return;
    spoil(side);
    side->aborted = side->job->aborted = 1;
    us_abort(side->host->stack, side->conn);
}

static void on_data(struct side *side, const struct us_event *event)
{
    struct sim *sim = side->host->sim;
    u_u32 used = event->len;
    if (event->len == 0 || side->peer_closed)
        sim_fail(sim, "job %u: DATA of %u bytes%s", side->job->number, event->len,
                 side->peer_closed ? " after the end of the stream" : "");
    if (side->held && side->held_input != side->host->inputs)
        sim_fail(sim, "job %u: DATA although bytes were kept and not asked for again",
                 side->job->number);
    if (side->held)
        used = 0;
    else if (sim_chance(&sim->random, side->job->plan.keep_chance))
        used = (u_u32)sim_between(&sim->random, 0, event->len - 1);
    check_content(side, event->data, used);
    side->received += used;
    side->job->work->bytes_received += used;
    if (used < event->len)
        keep(side, event, used);
    maybe_abort(side);
    pump(side);
}

static void on_released(struct host *host, struct ref *ref)
{
    struct side *side = ref->side;
    if (side->host != host)
        sim_fail(host->sim, "RELEASED on the wrong host");
    side->job->work->refs_released++;
    free(ref->bytes);
    free(ref); /* a second release of it is found by the address sanitizer or the counts */
}

static void on_accepted(struct host *host, const struct us_event *event)
{
    struct work *work = host->app;
    unsigned index = host == &work->host[1];
    struct us_conn_info info;
    us_conn_get_info(host->stack, event->conn, &info);
    struct job *job = work->by_port[!index][info.remote_port];
    if (!job)
        sim_fail(host->sim, "ACCEPTED from a port without a client");
    struct side *side = &job->side[index];
    if (side->conn || side->ended) {
        sim_fail(host->sim, "job %u: accepted twice", job->number);
    }
    side->conn = event->conn;
    side->established = 1;
    us_conn_set_user(event->conn, side);
    if (job->spoiled)
        sim_at(host->sim, host->sim->now_us + KILL_US, kill_other, side, side->conn);
    maybe_abort(side);
    pump(side);
}

static void on_event(struct host *host, const struct us_event *event)
{
    struct side *side = event->user;
    if (event->type == US_EV_ACCEPTED) {
        on_accepted(host, event);
        return;
    }
    if (event->type == US_EV_RELEASED) {
        on_released(host, event->cookie);
        return;
    }
    if (!side || side->conn != event->conn || side->host != host)
        sim_fail(host->sim, "event %d for a connection that is not known", event->type);
    if (event->type == US_EV_CLOSED) {
        on_closed(side, event->reason);
        return;
    }
    if (side->aborted) /* in flight when us_abort() was called */
        return;
    if (event->type == US_EV_DATA) {
        on_data(side, event);
        return;
    }
    if (event->type == US_EV_CONNECTED) {
        if (side->established)
            sim_fail(host->sim, "job %u: connected twice", side->job->number);
        side->established = 1;
        maybe_abort(side);
    } else if (event->type == US_EV_PEER_CLOSED) {
        if (side->peer_closed || side->received != side->job->plan.bytes[!side->index])
            sim_fail(host->sim, "job %u, host %s: end of stream after %llu of %llu bytes",
                     side->job->number, host->name, (unsigned long long)side->received,
                     (unsigned long long)side->job->plan.bytes[!side->index]);
        side->peer_closed = 1;
    } else if (event->type == US_EV_SENDABLE) {
        if (!side->wanting)
            sim_fail(host->sim, "job %u: unexpected SENDABLE", side->job->number);
        side->waiting = 0;
        /* If more was refused while this event was on its way, another one will come. */
        side->wanting = side->short_input == host->inputs;
    } else {
        sim_fail(host->sim, "event of the unknown type %d", event->type);
    }
    pump(side);
}

/* ---- a whole run ------------------------------------------------------------------------- */

static int all_quiet(struct work *work)
{
    static const char *const gauges[] = {"conns_open", "half_open", "time_wait",
                                         "buffer_bytes_used"};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 4; k++)
            if (host_counter(&work->host[i], gauges[k]) != 0)
                return 0;
    return 1;
}

static void check_rest(struct work *work)
{
    struct sim *sim = work->sim;
    for (unsigned i = 0; i < 2; i++) {
        struct host *host = &work->host[i];
        us_input(host->stack, NULL, 0, sim->now_us); /* what the last events pointed to is free */
        const char *broken = us_check(host->stack);
        if (broken)
            sim_fail(sim, "host %s: at the end us_check(): %s", host->name, broken);
        static const char *const gauges[] = {"conns_open", "half_open", "time_wait",
                                             "buffer_bytes_used"};
        for (unsigned k = 0; k < 4; k++)
            if (host_counter(host, gauges[k]) != 0)
                sim_fail(sim, "host %s: at the end %s is %llu", host->name, gauges[k],
                         (unsigned long long)host_counter(host, gauges[k]));
    }
    if (work->refs_given != work->refs_released)
        sim_fail(sim, "%llu references given, %llu released", (unsigned long long)work->refs_given,
                 (unsigned long long)work->refs_released);
}

void work_run(struct work *work)
{
    struct sim *sim = work->sim;
    for (unsigned i = 0; i < 2; i++) {
        work->host[i].on_event = on_event;
        work->host[i].app = work;
        work->link[i].to = &work->host[!i];
        work->link[i].direction = (int)i;
        work->host[i].out = &work->link[i];
        host_start(&work->host[i]);
        if (us_listen(work->host[i].stack, APP_PORT, NULL) != US_OK)
            sim_fail(sim, "us_listen() fails");
    }
    for (unsigned i = 0; i < work->job_count; i++) {
        work->jobs[i].work = work;
        work->jobs[i].number = i;
    }
    start_next(work);
    while (work->finished < work->job_count) {
        if (!sim_step(sim))
            sim_fail(sim, "both hosts sleep, %u of %u jobs are done", work->finished,
                     work->job_count);
        if (sim->now_us > work->deadline_us)
            sim_fail(sim, "too slow: %u of %u jobs are done", work->finished, work->job_count);
    }
    uint64_t until = sim->now_us + DRAIN_US;
    while (!all_quiet(work) && sim->now_us < until && sim_step(sim))
        ;
    check_rest(work);
}

static void drop_frame(struct sim *sim)
{
    for (size_t i = 0; i < sim->count; i++)
        if (sim->heap[i].detail && sim->heap[i].run != resume && sim->heap[i].run != kill_other)
            free(sim->heap[i].detail);
    sim->count = 0;
}

void work_free(struct work *work)
{
    drop_frame(work->sim);
    for (unsigned i = 0; i < 2; i++)
        host_free(&work->host[i]);
    free(work->jobs);
    free(work);
}
