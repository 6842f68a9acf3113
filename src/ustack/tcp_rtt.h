/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The retransmission timeout of RFC 6298, in microseconds.
 *
 * Round trips count as US_RTT_SHORT_US at least, the tick of the wheel (timer.h): no timer can tell
 * them apart, and how long a request waits for its turn varies by as much. So in a network that is
 * faster than that samples soon change nothing any more, and need not be taken in.
 */
#ifndef USTACK_TCP_RTT_H
#define USTACK_TCP_RTT_H

#include "base/base.h"

struct us_tcp_rtt {
    u_u32 srtt8_us;   /* smoothed round-trip time times 8; 0 before the first sample */
    u_u32 rttvar4_us; /* its variation times 4 */
    u_u32 rto_us;     /* without backoff */
    u_u32 best_us;    /* the smallest of the samples, slowly forgotten; 0 before the first */
    u_u32 min_us;     /* bounds of rto_us, from the configuration */
    u_u32 max_us;
    u_u8 backoff; /* times that the timeout has been doubled since the last sample */
    u_u8 settled; /* the shortest sample would change nothing */
};

/* No sample yet: the timeout is initial_us. */
void us_rtt_init(struct us_tcp_rtt *rtt, u_u32 initial_us, u_u32 min_us, u_u32 max_us);

enum {
    US_RTT_CLOCK_US = 1,
    US_RTT_SHORT_US = 64,
    US_RTT_BEST_SHIFT = 6,
    /* Longer samples say nothing more and would overflow the scaled arithmetic. */
    US_RTT_SAMPLE_MAX_US = 100 * 1000 * 1000
};

/* Takes in one round-trip time of a segment that was sent once (Karn); ends the backoff. */
U_INLINE void us_rtt_sample(struct us_tcp_rtt *rtt, u_u64 sample_us)
{
    u_u32 r = u_max32((u_u32)u_min64(sample_us, US_RTT_SAMPLE_MAX_US), US_RTT_SHORT_US);

    /* The best one follows a path that has become longer within some dozens of samples. */
    if (rtt->best_us == 0 || r < rtt->best_us)
        rtt->best_us = r;
    else
        rtt->best_us += (r - rtt->best_us) >> US_RTT_BEST_SHIFT;
    if (U_UNLIKELY(rtt->srtt8_us == 0)) { /* (2.2) */
        rtt->srtt8_us = r << 3;
        rtt->rttvar4_us = r << 1;
    } else { /* (2.3), with alpha = 1/8 and beta = 1/4 */
        u_u32 srtt_us = rtt->srtt8_us >> 3;
        u_u32 error_us = srtt_us > r ? srtt_us - r : r - srtt_us;

        rtt->rttvar4_us = rtt->rttvar4_us - (rtt->rttvar4_us >> 2) + error_us;
        rtt->srtt8_us = u_max32(rtt->srtt8_us - srtt_us + r, 8);
    }
    rtt->rto_us = (rtt->srtt8_us >> 3) + u_max32(US_RTT_CLOCK_US, rtt->rttvar4_us);
    rtt->rto_us = u_min32(u_max32(rtt->rto_us, rtt->min_us), rtt->max_us);
    rtt->backoff = 0;
    /* A shift takes off what (2.3) would add, and nothing of a variation below 4. */
    rtt->settled = rtt->srtt8_us >> 3 == US_RTT_SHORT_US && rtt->rttvar4_us < 4 &&
                   rtt->best_us == US_RTT_SHORT_US;
}

/* Whether us_rtt_sample() would change nothing. */
U_INLINE int us_rtt_is_settled(const struct us_tcp_rtt *rtt, u_u64 sample_us)
{
    return rtt->settled && sample_us <= US_RTT_SHORT_US;
}

/* The timer has expired: doubles the timeout, up to the maximum (RFC 6298 5.5). */
void us_rtt_backoff(struct us_tcp_rtt *rtt);

/* New data was acknowledged, but by an ACK that tells no round-trip time: ends the backoff. */
void us_rtt_alive(struct us_tcp_rtt *rtt);

/* A timeout with the backoff that there is. */
u_u32 us_rtt_back_off_us(const struct us_tcp_rtt *rtt, u_u32 timeout_us);

/* The timeout, or floor_us if that is longer, with its backoff. */
U_INLINE u_u32 us_rtt_timeout_us(const struct us_tcp_rtt *rtt, u_u32 floor_us)
{
    u_u32 timeout_us = u_min32(u_max32(rtt->rto_us, floor_us), rtt->max_us);

    return U_LIKELY(rtt->backoff == 0) ? timeout_us : us_rtt_back_off_us(rtt, timeout_us);
}

#endif
