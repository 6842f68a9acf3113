/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that uses a queue.
 *
 * DPDK numbers threads (lcores), and a mempool keeps a cache of free packets per lcore. Packets in
 * the cache of a thread that has ended, or no longer uses the queue, are unavailable to other
 * threads: after a few threads the pool would be permanently empty. A driver may then find no
 * packet to receive into, and some (virtio's vectorised one) do not retry once their ring is empty.
 *
 * So a thread unregisters its lcore when it ends, and a queue that changes threads flushes the
 * former thread's cache into its pools.
 */
#include <pthread.h>

#include "nic/dpdk_port.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t registered; /* not null in threads registered here */
static bool has_key;

static void thread_ends(void *value)
{
    (void)value;
    rte_thread_unregister();
}

static void make_key(void)
{
    has_key = pthread_key_create(&registered, thread_ends) == 0;
}

/* Without an lcore id the mempool works without cache, more slowly. */
static void number_thread(void)
{
    (void)pthread_once(&once, make_key);
    if (has_key && rte_thread_register() == 0 && pthread_setspecific(registered, &registered) != 0)
        rte_thread_unregister();
}

static void empty_cache(struct rte_mempool *pool, unsigned lcore)
{
    struct rte_mempool_cache *cache =
        pool != NULL ? rte_mempool_default_cache(pool, lcore) : (struct rte_mempool_cache *)NULL;

    if (cache != NULL)
        rte_mempool_cache_flush(cache, pool);
}

void dpdk_thread_change(struct dpdk_queue *queue)
{
    unsigned before = queue->lcore;

    if (rte_lcore_id() == LCORE_ID_ANY)
        number_thread();
    queue->lcore = rte_lcore_id();
    if (before == queue->lcore)
        return;
    empty_cache(queue->pool, before);
    empty_cache(queue->views, before);
}
