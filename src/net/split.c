/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making the two halves of a worker, and freeing them.
 */
#include "net/split.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Links beyond the connections that the stack can have: of connections that have ended, but whose
 * session has not taken notice yet.
 */
#define LINKS_SPARE 1024

/* What both halves keep; the stack half's own parts stay as they were opened. */
static void split_free(struct net_split *split)
{
    struct net_kept *kept;
    uint32_t i;

    for (i = 0; i < split->links_used; i++)
        free(split->links[i].kept);
    while ((kept = split->lent) != NULL) {
        split->lent = kept->next;
        free(kept);
    }
    if (split->wake_fd >= 0)
        close(split->wake_fd);
    if (split->sessions)
        net_stack_worker_free(split->sessions);
    free(split->events);
    free(split->commands);
    free(split->links);
    free(split);
}

void net_split_close(struct net_split *split)
{
    struct net_stack_worker *stack = split->stack;
    struct nic *nic = stack->nic;

    if (atomic_fetch_sub(&split->open, 1) > 1)
        return;
    nic_release(nic, stack->rx, split->rx_count);
    nic_release(nic, stack->empty + stack->empty_first, stack->empty_end - stack->empty_first);
    nic_release(nic, stack->unsent, stack->unsent_count);
    net_stack_worker_free(stack);
    split_free(split);
    nic_close(nic);
}

/* The links' memory is reserved, not used: pages come as connections do. */
static struct net_split *split_new(const struct net_stack_config *config, uint32_t conn_max)
{
    struct net_split *split = aligned_alloc(U_LINE_BYTES, sizeof(*split));
    size_t bytes;

    if (!split)
        return NULL;
    memset(split, 0, sizeof(*split));
    split->threading = config->threading;
    split->link_count = conn_max + LINKS_SPARE;
    bytes = split->link_count * sizeof(split->links[0]);
    split->links = aligned_alloc(U_LINE_BYTES, bytes);
    split->events = net_pipe_create(NET_SPLIT_EVENTS_BYTES);
    split->commands = net_pipe_create(NET_SPLIT_COMMANDS_BYTES);
    split->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    split->sessions = net_stack_worker_new(config);
    u_list_init(&split->free_links);
    u_list_init(&split->watched);
    u_list_init(&split->todo);
    u_list_init(&split->ready);
    if (split->links && split->events && split->commands && split->wake_fd >= 0 &&
        split->sessions &&
        net_stack_open_sessions(split->sessions, config,
                                split->link_count + NET_STACK_EVENT_BATCH) == 0)
        return split;
    split_free(split);
    return NULL;
}

int net_split_worker_open(struct nic *nic, const struct net_stack_config *config,
                          struct net_worker *halves[2], char error[NET_ERROR_MAX])
{
    struct net_worker *opened;
    struct net_split *split;

    U_ASSERT(config->threading != NET_THREADING_UNIFIED);
    opened = net_stack_worker_open(nic, config, error);
    if (!opened)
        return -1;
    split = split_new(config, ((struct net_stack_worker *)opened)->conns_max);
    if (!split) {
        snprintf(error, NET_ERROR_MAX, "no memory or descriptors for a worker of two threads");
        net_stack_worker_free((struct net_stack_worker *)opened);
        return -1;
    }
    split->stack = (struct net_stack_worker *)opened;
    split->stack->split = split;
    split->stack->worker.ops = &net_split_stack_ops;
    split->sessions->split = split;
    split->sessions->worker.ops = &net_split_sessions_ops;
    split->sessions->buffer_bytes = split->stack->buffer_bytes;
    atomic_init(&split->open, 2);
    halves[0] = &split->stack->worker;
    halves[1] = &split->sessions->worker;
    return 0;
}
