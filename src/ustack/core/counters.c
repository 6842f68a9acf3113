/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and values of counters and gauges; see counters.h. */
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"

#define COUNTER_NAME(constant, name) name,

/* The counters, then the gauges in the order of enum gauge. */
static const char *const counter_names[] = {US_COUNTER_LIST(COUNTER_NAME) "conns_open",
                                            "half_open",
                                            "orphans",
                                            "time_wait",
                                            "neighbours",
                                            "buffer_bytes_used",
                                            "refs_used",
                                            "datagrams_waiting",
                                            "reassemblies"};

/* Current values, not counted since us_create(). */
enum gauge {
    GAUGE_CONNS_OPEN,
    GAUGE_HALF_OPEN,
    GAUGE_ORPHANS,
    GAUGE_TIME_WAIT,
    GAUGE_NEIGHBOURS,
    GAUGE_BUFFER_BYTES_USED,
    GAUGE_REFS_USED,
    GAUGE_DATAGRAMS_WAITING,
    GAUGE_REASSEMBLIES,
    GAUGES
};

U_STATIC_ASSERT(U_ARRAY_LEN(counter_names) == (unsigned)US_COUNTERS + (unsigned)GAUGES,
                counter_names_complete);

unsigned us_counter_count(void)
{
    return U_ARRAY_LEN(counter_names);
}

const char *us_counter_name(unsigned index)
{
    return index < U_ARRAY_LEN(counter_names) ? counter_names[index] : "";
}

u_u64 us_counter(const struct us_stack *stack, unsigned index)
{
    if (index < US_COUNTERS)
        return stack->counters[index];
    switch (index - US_COUNTERS) {
    case GAUGE_CONNS_OPEN:
        return stack->conn_pool.used;
    case GAUGE_HALF_OPEN:
        return stack->synq.pool.used;
    case GAUGE_ORPHANS:
        return stack->orphan_count;
    case GAUGE_TIME_WAIT:
        return stack->tw_pool.used;
    case GAUGE_NEIGHBOURS:
        return stack->neighbours.pool.used;
    case GAUGE_BUFFER_BYTES_USED:
        return (u_u64)stack->block_pool.used * US_BLOCK_BYTES;
    case GAUGE_REFS_USED:
        return stack->ref_pool.used;
    case GAUGE_DATAGRAMS_WAITING:
        return stack->dgrams.pool.used;
    case GAUGE_REASSEMBLIES:
        return stack->frags.pool.used;
    default:
        return 0;
    }
}
