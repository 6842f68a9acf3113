/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 6298; see tcp_rtt.h. */
#include "ustack/tcp_rtt.h"

enum { RTT_BACKOFF_MAX = 31 };

void us_rtt_init(struct us_tcp_rtt *rtt, u_u32 initial_us, u_u32 min_us, u_u32 max_us)
{
    rtt->srtt8_us = 0;
    rtt->rttvar4_us = 0;
    rtt->best_us = 0;
    rtt->min_us = min_us;
    rtt->max_us = max_us;
    rtt->rto_us = u_min32(initial_us, max_us);
    rtt->backoff = 0;
    rtt->settled = 0;
}

void us_rtt_backoff(struct us_tcp_rtt *rtt)
{
    if (rtt->backoff < RTT_BACKOFF_MAX)
        rtt->backoff++;
}

void us_rtt_alive(struct us_tcp_rtt *rtt)
{
    rtt->backoff = 0;
}

u_u32 us_rtt_back_off_us(const struct us_tcp_rtt *rtt, u_u32 timeout_us)
{
    unsigned i;

    for (i = 0; i < rtt->backoff && timeout_us < rtt->max_us; i++)
        timeout_us = timeout_us > rtt->max_us >> 1 ? rtt->max_us : timeout_us << 1;
    return timeout_us;
}
