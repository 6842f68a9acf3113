/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads, each a worker of one table, that begin together. */
#ifndef TEST_STRESS_TEAM_H
#define TEST_STRESS_TEAM_H

#include <pthread.h>

#include "../unit/kv/kv_rig.h"
#include "base/base.h"
#include "base/prng.h"
#include "kv/engine.h"
#include "loud.h"

#define THREADS 4

static unsigned seed = 1;

struct team;

struct thread {
    struct team *team;
    struct kv_worker *worker;
    struct u_prng prng;
    unsigned number;
    unsigned changes; /* counted by the tests that limit them */
    pthread_t handle;
};

struct team {
    struct kv *kv;
    unsigned count;
    void (*run)(struct thread *thread);
    void *shared;
    pthread_barrier_t barrier;
    struct thread threads[THREADS];
};

static inline void *thread_main(void *arg)
{
    struct thread *thread = (struct thread *)arg;
    thread->worker = kv_join(thread->team->kv);
    EXPECT(thread->worker != NULL);
    kv_tick(thread->worker, 1);
    thread->team->run(thread);
    kv_leave(thread->worker);
    return NULL;
}

static inline void team_run(struct team *team, struct kv *kv, unsigned count, void *shared,
                            void (*run)(struct thread *thread))
{
    team->kv = kv;
    team->count = count;
    team->run = run;
    team->shared = shared;
    pthread_barrier_init(&team->barrier, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        struct thread *thread = &team->threads[i];
        thread->team = team;
        thread->number = i;
        thread->changes = 0;
        u_prng_seed(&thread->prng, (uint64_t)seed * 100 + i);
        assert_int_equal(pthread_create(&thread->handle, NULL, thread_main, thread), 0);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(team->threads[i].handle, NULL);
    pthread_barrier_destroy(&team->barrier);
}

static inline struct kv_key number_key(const struct kv *kv, char name[16], unsigned number)
{
    snprintf(name, 16, "key%u", number);
    return kv_key(kv, name, (uint32_t)strlen(name));
}

/*
 * All threads meet; a thread that waits is offline, as one that sleeps in the kernel is. Threads
 * can't be checked with cmocka's assertions: they end the process by EXPECT instead.
 */
static inline void meet(struct thread *thread)
{
    kv_offline(thread->worker);
    pthread_barrier_wait(&thread->team->barrier);
    kv_online(thread->worker);
}

#endif
