/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 6298; see tcp_rtt.h. */
#include "ustack/tcp/tcp_rtt.h"

enum { RTT_BACKOFF_MAX = 31 };

void us_rtt_init(struct us_tcp_rtt *rtt, u_u32 initial_us, u_u32 min_us, u_u32 max_us)
{
    rtt->srtt8_us = 0;
    rtt->rttvar4_us = 0;
    rtt->min_rtt_us = 0;
    rtt->min_us = min_us;
    rtt->max_us = max_us;
    rtt->rto_us = u_min32(initial_us, max_us);
    rtt->backoff = 0;
    rtt->settled = 0;
}

void us_rtt_restore(struct us_tcp_rtt *rtt, u_u32 srtt8_us, u_u32 rttvar4_us, u_u32 min_rtt_us)
{
    if (srtt8_us == 0)
        return;
    rtt->srtt8_us = srtt8_us;
    rtt->rttvar4_us = rttvar4_us;
    rtt->min_rtt_us = min_rtt_us;
    us_rtt_update(rtt);
}

void us_rtt_backoff(struct us_tcp_rtt *rtt)
{
    if (rtt->backoff < RTT_BACKOFF_MAX)
        rtt->backoff++;
}

void us_rtt_clear_backoff(struct us_tcp_rtt *rtt)
{
    rtt->backoff = 0;
}

u_u32 us_rtt_backoff_us(u_u32 timeout_us, unsigned doublings, u_u32 limit_us)
{
    for (; doublings > 0 && timeout_us < limit_us; doublings--)
        timeout_us = timeout_us > limit_us >> 1 ? limit_us : timeout_us << 1;
    return timeout_us;
}
