/* SPDX-License-Identifier: BSD-3-Clause */
/* --metrics in a build without libmicrohttpd. */
#include <stdio.h>

#include "metrics.h"
#include "net/log.h"

struct metrics *metrics_open(const char *address)
{
    net_log_error("ucached: --metrics=%s: this build has no libmicrohttpd", address);
    return NULL;
}

int metrics_start(struct metrics *metrics, struct cache *cache)
{
    return -1;
}

void metrics_close(struct metrics *metrics)
{
}
