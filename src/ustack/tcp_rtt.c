/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 6298; see tcp_rtt.h. */
#include "ustack/tcp_rtt.h"

enum { RTT_BACKOFF_MAX = 31, RTT_CLOCK_US = 1, RTT_BEST_SHIFT = 6 };

/* Longer samples say nothing more and would overflow the scaled arithmetic. */
static const u_u32 rtt_sample_max_us = 100u * 1000 * 1000;

static u_u32 rto_clamp(const struct us_tcp_rtt *rtt, u_u32 rto_us)
{
    return u_min32(u_max32(rto_us, rtt->min_us), rtt->max_us);
}

void us_rtt_init(struct us_tcp_rtt *rtt, u_u32 initial_us, u_u32 min_us, u_u32 max_us)
{
    rtt->srtt8_us = 0;
    rtt->rttvar4_us = 0;
    rtt->best_us = 0;
    rtt->min_us = min_us;
    rtt->max_us = max_us;
    rtt->rto_us = u_min32(initial_us, max_us);
    rtt->backoff = 0;
}

/* Follows a path that has become longer within some dozens of samples. */
static void rtt_take_best(struct us_tcp_rtt *rtt, u_u32 r)
{
    if (rtt->best_us == 0 || r < rtt->best_us)
        rtt->best_us = r;
    else
        rtt->best_us += (r - rtt->best_us) >> RTT_BEST_SHIFT;
}

void us_rtt_sample(struct us_tcp_rtt *rtt, u_u32 sample_us)
{
    u_u32 r = u_min32(u_max32(sample_us, 1), rtt_sample_max_us);

    rtt_take_best(rtt, r);
    if (rtt->srtt8_us == 0) { /* (2.2) */
        rtt->srtt8_us = r << 3;
        rtt->rttvar4_us = r << 1;
    } else { /* (2.3), with alpha = 1/8 and beta = 1/4 */
        u_u32 srtt_us = rtt->srtt8_us >> 3;
        u_u32 error_us = srtt_us > r ? srtt_us - r : r - srtt_us;

        rtt->rttvar4_us = rtt->rttvar4_us - (rtt->rttvar4_us >> 2) + error_us;
        rtt->srtt8_us = u_max32(rtt->srtt8_us - srtt_us + r, 8);
    }
    rtt->rto_us = rto_clamp(rtt, (rtt->srtt8_us >> 3) + u_max32(RTT_CLOCK_US, rtt->rttvar4_us));
    rtt->backoff = 0;
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
