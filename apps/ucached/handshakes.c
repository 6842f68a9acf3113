/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that make the handshakes of TLS; see handshakes.h. */
#define _GNU_SOURCE /* pthread_setname_np() */
#include "handshakes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "privileges.h"

struct handshakes {
    const struct options *options;
    struct net_tls_steps *steps;
    unsigned place;
    unsigned started;     /* threads */
    atomic_uint numbered; /* of these, that have taken a number */
    pthread_t threads[NET_TLS_THREADS_MAX];
};

struct handshakes *handshakes_open(const struct options *options, unsigned place)
{
    struct handshakes *handshakes = calloc(1, sizeof(*handshakes));

    if (!handshakes)
        return NULL;
    handshakes->options = options;
    handshakes->place = place;
    handshakes->steps = net_tls_steps_open();
    if (handshakes->steps)
        return handshakes;
    free(handshakes);
    return NULL;
}

struct net_tls_steps *handshakes_steps(const struct handshakes *handshakes)
{
    return handshakes ? handshakes->steps : NULL;
}

/* A thread for which the list has no core is not pinned, so that it delays no worker. */
static void *thread_main(void *arg)
{
    struct handshakes *handshakes = arg;
    const struct options *o = handshakes->options;
    unsigned number = atomic_fetch_add(&handshakes->numbered, 1);
    char name[16];

    if (!o->keep_privileges)
        privileges_drop_thread();
    snprintf(name, sizeof(name), "handshake-%u", number);
    pthread_setname_np(pthread_self(), name);
    if (handshakes->place + number < o->cores.count)
        (void)cores_pin(cores_of_thread(&o->cores, handshakes->place + number));
    net_tls_steps_run(handshakes->steps);
    return NULL;
}

int handshakes_start(struct handshakes *handshakes)
{
    unsigned count = handshakes->options->settings.tls.handshake_threads;
    int rc = 0;

    while (rc == 0 && handshakes->started < count) {
        rc = pthread_create(&handshakes->threads[handshakes->started], NULL, thread_main,
                            handshakes);
        handshakes->started += rc == 0;
    }
    return rc;
}

void handshakes_stop(struct handshakes *handshakes)
{
    net_tls_steps_stop(handshakes->steps);
    while (handshakes->started > 0)
        pthread_join(handshakes->threads[--handshakes->started], NULL);
}

void handshakes_close(struct handshakes *handshakes)
{
    if (!handshakes)
        return;
    net_tls_steps_close(handshakes->steps);
    free(handshakes);
}
