/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatches net_worker_*() to the kind of worker. */
#include "net/worker.h"

int net_worker_run(struct net_worker *worker)
{
    return worker->ops->run(worker);
}

void net_worker_on_ready(struct net_worker *worker, void (*ready)(void *ctx), void *ctx)
{
    worker->ready = ready;
    worker->ready_ctx = ctx;
}

void net_worker_stop(struct net_worker *worker)
{
    worker->ops->stop(worker);
}

void net_worker_close(struct net_worker *worker)
{
    worker->ops->close(worker);
}

const char *net_threading_name(enum net_threading threading)
{
    static const char *const names[NET_THREADINGS] = {
        [NET_THREADING_UNIFIED] = "unified",
        [NET_THREADING_SPLIT] = "split",
        [NET_THREADING_MERGE] = "merge",
    };

    return names[threading];
}
