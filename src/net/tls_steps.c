/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of TLS handshakes on threads of their own; see tls_steps.h. */
#define _GNU_SOURCE /* SCHED_BATCH */
#include "net/tls_steps.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_FIRST 4096

struct net_tls_steps {
    pthread_mutex_t lock;
    pthread_cond_t due;   /* a step waits, or the threads are to end */
    pthread_cond_t ended; /* a thread has pushed a result */
    struct u_list queue;  /* net_tls_step.link: the one that has waited longest is the first */
    unsigned count;       /* of these */
    unsigned idle;        /* threads that wait for a step */
    bool stopping;
};

/* ---- steps ------------------------------------------------------------------------------- */

/* Returns false if there is no memory, or it would be too much. */
static bool append(struct net_tls_bytes *bytes, const void *data, uint32_t len)
{
    uint32_t capacity = bytes->capacity > 0 ? bytes->capacity : BYTES_FIRST;
    uint8_t *at;

    if (len > NET_TLS_STEP_BYTES_MAX - bytes->len)
        return false;
    while (capacity < bytes->len + len)
        capacity *= 2;
    if (capacity > bytes->capacity) {
        at = realloc(bytes->at, capacity);
        if (!at)
            return false;
        bytes->at = at;
        bytes->capacity = capacity;
    }
    memcpy(bytes->at + bytes->len, data, len);
    bytes->len += len;
    return true;
}

/* A tls_emit. */
static bool collect(void *ctx, const uint8_t *data, uint32_t len)
{
    struct net_tls_step *step = ctx;

    return append(&step->emitted, data, len);
}

/* A tls_name. Without memory the name is left out: it gives its client no rights then. */
static void collect_name(void *ctx, const char *name, uint32_t len)
{
    struct net_tls_step *step = ctx;
    uint32_t before = step->names.len;

    if (append(&step->names, &len, sizeof(len)) && !append(&step->names, name, len))
        step->names.len = before;
}

struct net_tls_step *net_tls_step_new(struct tls_session *session, const uint8_t *data,
                                      uint32_t len, bool with_names)
{
    uint32_t input_len = u_min32(len, NET_TLS_STEP_INPUT_MAX);
    struct net_tls_step *step = calloc(1, sizeof(*step) + input_len);

    if (!step)
        return NULL;
    u_list_init(&step->link);
    u_list_init(&step->own_link);
    step->session = session;
    step->input_len = input_len;
    memcpy(step->input, data, input_len);
    tls_session_set_emit(session, collect, step);
    if (with_names)
        tls_session_on_peer_names(session, collect_name, step);
    return step;
}

void net_tls_step_free(struct net_tls_step *step)
{
    free(step->emitted.at);
    free(step->names.at);
    free(step);
}

void net_tls_step_give_names(const struct net_tls_step *step, tls_name *take, void *ctx)
{
    uint32_t at, len;

    for (at = 0; at < step->names.len; at += len) {
        memcpy(&len, step->names.at + at, sizeof(len));
        at += (uint32_t)sizeof(len);
        take(ctx, (const char *)step->names.at + at, len);
    }
}

/* ---- results ----------------------------------------------------------------------------- */

void net_tls_results_init(struct net_tls_results *results, void (*wake)(void *ctx), void *ctx)
{
    memset(results, 0, sizeof(*results));
    results->wake = wake;
    results->wake_ctx = ctx;
}

/* The step may be freed as soon as it is pushed. */
static void publish(struct net_tls_step *step)
{
    struct net_tls_results *results = step->results;
    struct net_tls_step *before = atomic_load_explicit(&results->pushed, memory_order_relaxed);

    do {
        step->next = before;
    } while (!atomic_compare_exchange_weak_explicit(&results->pushed, &before, step,
                                                    memory_order_release, memory_order_relaxed));
    if (!before)
        results->wake(results->wake_ctx);
}

struct net_tls_step *net_tls_results_take(struct net_tls_results *results)
{
    struct net_tls_step *step, *next;

    if (!results->taken && net_tls_results_wait(results)) {
        step = atomic_exchange_explicit(&results->pushed, NULL, memory_order_acquire);
        for (; step; step = next) {
            next = step->next;
            step->next = results->taken;
            results->taken = step;
        }
    }
    step = results->taken;
    if (step)
        results->taken = step->next;
    return step;
}

void net_tls_results_close(struct net_tls_steps *steps, struct net_tls_results *results)
{
    pthread_mutex_lock(&steps->lock);
    while (results->running > 0)
        pthread_cond_wait(&steps->ended, &steps->lock);
    pthread_mutex_unlock(&steps->lock);
}

/* ---- the queue --------------------------------------------------------------------------- */

/* With the lock. */
static void unqueue(struct net_tls_steps *steps, struct net_tls_step *step)
{
    u_list_remove(&step->link);
    step->queued = false;
    steps->count--;
}

/* With the lock, so that results_close() of the step's worker waits for this. */
static void refuse_oldest(struct net_tls_steps *steps)
{
    struct net_tls_step *step = U_CONTAINER_OF(steps->queue.next, struct net_tls_step, link);

    unqueue(steps, step);
    step->refused = true;
    publish(step);
}

void net_tls_steps_submit(struct net_tls_steps *steps, struct net_tls_results *results,
                          struct net_tls_step *step)
{
    bool wakes;

    step->results = results;
    pthread_mutex_lock(&steps->lock);
    if (steps->count == NET_TLS_STEPS_MAX)
        refuse_oldest(steps);
    step->queued = true;
    u_list_push_back(&steps->queue, &step->link);
    steps->count++;
    wakes = steps->idle > 0;
    pthread_mutex_unlock(&steps->lock);
    if (wakes)
        pthread_cond_signal(&steps->due);
}

bool net_tls_steps_cancel(struct net_tls_steps *steps, struct net_tls_step *step)
{
    bool queued;

    pthread_mutex_lock(&steps->lock);
    queued = step->queued;
    if (queued)
        unqueue(steps, step);
    pthread_mutex_unlock(&steps->lock);
    return queued;
}

/* With the lock, while a step waits. */
static struct net_tls_step *dequeue(struct net_tls_steps *steps)
{
    bool newest = steps->count > NET_TLS_WAITING_IN_ORDER;
    struct u_list *link = newest ? steps->queue.prev : steps->queue.next;
    struct net_tls_step *step = U_CONTAINER_OF(link, struct net_tls_step, link);

    unqueue(steps, step);
    step->newest = newest;
    step->results->running++;
    return step;
}

/* Waits for a step; null: the threads are to end. With the lock. */
static struct net_tls_step *next_step(struct net_tls_steps *steps)
{
    while (steps->count == 0 && !steps->stopping) {
        steps->idle++;
        pthread_cond_wait(&steps->due, &steps->lock);
        steps->idle--;
    }
    return steps->stopping ? NULL : dequeue(steps);
}

/* ---- threads ----------------------------------------------------------------------------- */

void net_tls_steps_run(struct net_tls_steps *steps)
{
    const struct sched_param param = {0};
    struct net_tls_results *results;
    struct net_tls_step *step;

    /* So that it interrupts no worker when it wakes up on the same core. */
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
    pthread_mutex_lock(&steps->lock);
    while ((step = next_step(steps)) != NULL) {
        pthread_mutex_unlock(&steps->lock);
        results = step->results;
        step->result =
            tls_session_handshake(step->session, step->input, step->input_len, &step->used);
        publish(step);
        pthread_mutex_lock(&steps->lock);
        results->running--;
        pthread_cond_broadcast(&steps->ended);
    }
    pthread_mutex_unlock(&steps->lock);
}

struct net_tls_steps *net_tls_steps_open(void)
{
    struct net_tls_steps *steps = calloc(1, sizeof(*steps));

    if (!steps)
        return NULL;
    pthread_mutex_init(&steps->lock, NULL);
    pthread_cond_init(&steps->due, NULL);
    pthread_cond_init(&steps->ended, NULL);
    u_list_init(&steps->queue);
    return steps;
}

void net_tls_steps_stop(struct net_tls_steps *steps)
{
    pthread_mutex_lock(&steps->lock);
    steps->stopping = true;
    pthread_cond_broadcast(&steps->due);
    pthread_mutex_unlock(&steps->lock);
}

void net_tls_steps_close(struct net_tls_steps *steps)
{
    if (!steps)
        return;
    U_ASSERT(steps->count == 0);
    pthread_cond_destroy(&steps->ended);
    pthread_cond_destroy(&steps->due);
    pthread_mutex_destroy(&steps->lock);
    free(steps);
}
