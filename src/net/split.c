/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a two-thread worker (split.h), runs its sides and frees them. */
#include "net/split.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Links beyond the connections of the stack: of connections that have ended and whose CLOSED event
 * the application has not handled yet.
 */
#define LINKS_SPARE 1024

/* Frees all but the stack side. */
static void split_free(struct net_split *split)
{
    struct net_kept_input *kept;
    uint32_t i;

    for (i = 0; i < split->links_used; i++)
        free(split->links[i].kept);
    while ((kept = split->delivered) != NULL) {
        split->delivered = kept->next;
        free(kept);
    }
    if (split->app)
        net_stack_worker_free(split->app);
    if (split->wake_fd >= 0)
        close(split->wake_fd);
    free(split->events);
    free(split->commands);
    free(split->links);
    free(split);
}

/* Of one side; the second call frees both. */
static void side_close(struct net_worker *base)
{
    struct net_split *split = ((struct net_stack_worker *)base)->split;
    struct nic *nic = split->stack->nic;

    if (atomic_fetch_sub(&split->open, 1) > 1)
        return;
    net_stack_release_packets(split->stack);
    net_stack_worker_free(split->stack);
    split_free(split);
    nic_close(nic);
}

static int app_run(struct net_worker *base)
{
    struct net_split *split = ((struct net_stack_worker *)base)->split;
    int state = NET_SPLIT_NOT_STARTED;
    int rc;

    if (!atomic_compare_exchange_strong(&split->app_state, &state, NET_SPLIT_RUNNING))
        return 0; /* the stack's thread has ended already */
    rc = net_stack_run(base);
    atomic_store(&split->app_state, NET_SPLIT_ENDED);
    nic_wake(split->stack->nic);
    return rc;
}

/* Also called by signal handlers. */
static void app_stop(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    int saved_errno = errno;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    (void)eventfd_write(worker->split->wake_fd, 1);
    errno = saved_errno;
}

static const struct net_worker_ops stack_side_ops = {
    .run = net_stack_run, .stop = net_stack_stop, .close = side_close};

static const struct net_worker_ops app_side_ops = {
    .run = app_run, .stop = app_stop, .close = side_close};

/* The links' memory is reserved, not used: pages come as connections do. */
static struct net_split *split_new(const struct net_stack_config *config, uint32_t conn_max)
{
    struct net_split *split = aligned_alloc(U_CACHE_LINE_BYTES, sizeof(*split));
    size_t bytes;

    if (!split)
        return NULL;
    memset(split, 0, sizeof(*split));
    split->threading = config->threading;
    split->link_count = conn_max + LINKS_SPARE;
    bytes = split->link_count * sizeof(split->links[0]);
    split->links = aligned_alloc(U_CACHE_LINE_BYTES, bytes);
    split->events = net_ring_create(NET_SPLIT_EVENTS_BYTES);
    split->commands = net_ring_create(NET_SPLIT_COMMANDS_BYTES);
    split->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    split->app = net_stack_worker_new(config);
    u_list_init(&split->free_links);
    u_list_init(&split->watched);
    u_list_init(&split->pending);
    u_list_init(&split->ready);
    if (split->links && split->events && split->commands && split->wake_fd >= 0 && split->app &&
        (!split->app->app->open ||
         split->app->app->open(split->app, config, split->link_count + NET_STACK_EVENT_BATCH) == 0))
        return split;
    split_free(split);
    return NULL;
}

/* With merge the application never polls: the stack needs the core that both share. */
static void connect_sides(struct net_split *split, struct net_stack_worker *stack)
{
    struct net_stack_worker *app = split->app;

    split->stack = stack;
    stack->split = split;
    stack->app = &net_split_forward_ops;
    stack->worker.ops = &stack_side_ops; /* in place of net_stack_worker_new()'s */
    app->split = split;
    app->worker.ops = &app_side_ops;
    if (split->threading == NET_THREADING_MERGE)
        app->idle = NET_IDLE_INTERRUPT;
    app->buffer_bytes = stack->buffer_bytes;
    app->reserve_bytes =
        stack->reserve_bytes +
        u_min64(NET_SPLIT_UNSEEN_BYTES, (stack->buffer_bytes - stack->reserve_bytes) / 2);
    atomic_init(&split->open, 2);
}

int net_split_worker_open(struct nic *nic, const struct net_stack_config *config,
                          struct net_worker *sides[2], char error[NET_ERROR_MAX])
{
    struct net_worker *stack;
    struct net_split *split;

    U_ASSERT(config->threading != NET_THREADING_UNIFIED);
    stack = net_stack_worker_open(nic, config, error);
    if (!stack)
        return -1;
    split = split_new(config, ((struct net_stack_worker *)stack)->slot_count);
    if (!split) {
        snprintf(error, NET_ERROR_MAX, "no memory or descriptors for a worker of two threads");
        net_stack_worker_free((struct net_stack_worker *)stack);
        return -1;
    }
    connect_sides(split, (struct net_stack_worker *)stack);
    sides[0] = &split->stack->worker;
    sides[1] = &split->app->worker;
    return 0;
}
