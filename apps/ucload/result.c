/* SPDX-License-Identifier: BSD-3-Clause */
/* Results; see result.h. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void result_clear(struct result *result)
{
    memset(result, 0, sizeof(*result));
    load_histogram_clear(&result->latency);
    for (unsigned op = 0; op < OP_COUNT; op++)
        load_histogram_clear(&result->by_op[op]);
}

void result_add(struct result *to, const struct result *from)
{
    tally_add(&to->tally, &from->tally);
    to->seconds = fmax(to->seconds, from->seconds);
    to->offered += from->offered;
    to->cpu_s += from->cpu_s;
    for (unsigned op = 0; op < OP_COUNT; op++) {
        if (from->by_op[op].total > 0)
            load_histogram_add(&to->by_op[op], &from->by_op[op]);
    }
    to->hiccups.count += from->hiccups.count;
    to->hiccups.longest_ns = u_max64(to->hiccups.longest_ns, from->hiccups.longest_ns);
    to->hiccups.worst_ns = u_max64(to->hiccups.worst_ns, from->hiccups.worst_ns);
    if (to->example[0] == '\0')
        memcpy(to->example, from->example, sizeof(to->example));
}

void result_complete(struct result *result)
{
    for (unsigned op = 0; op < OP_COUNT; op++)
        load_histogram_add(&result->latency, &result->by_op[op]);
}
