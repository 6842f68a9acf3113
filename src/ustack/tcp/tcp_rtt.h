/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round-trip times and the timeouts computed from them: RTO (RFC 6298) and PTO (RFC 8985), in
 * microseconds. All formulas are in this file.
 *
 * Round trips count as at least US_RTT_MIN_US, the tick of the timer wheel: no timer can tell
 * shorter ones apart, and processing delays vary by as much. So on a faster network samples soon
 * change nothing, and the fast path skips them.
 */
#ifndef USTACK_TCP_TCP_RTT_H
#define USTACK_TCP_TCP_RTT_H

#include "base/base.h"
#include "ustack/ustack.h"

struct us_tcp_rtt {
    u_u32 srtt8_us;   /* smoothed round-trip time times 8; 0 before the first sample */
    u_u32 rttvar4_us; /* its variation times 4 */
    u_u32 rto_us;     /* without backoff */
    u_u32 min_rtt_us; /* the smallest sample, aging slowly; 0 before the first */
    u_u32 min_us;     /* bounds of rto_us, from the configuration */
    u_u32 max_us;
    u_u8 backoff; /* doublings of the RTO since the last sample */
    u_u8 settled; /* a sample of US_RTT_MIN_US would change nothing */
};

/* No sample yet: the timeout is initial_us. */
void us_rtt_init(struct us_tcp_rtt *rtt, u_u32 initial_us, u_u32 min_us, u_u32 max_us);

/* Continues with the results of earlier samples, if srtt8_us is not 0. */
void us_rtt_restore(struct us_tcp_rtt *rtt, u_u32 srtt8_us, u_u32 rttvar4_us, u_u32 min_rtt_us);

enum {
    US_RTT_CLOCK_US = 1,
    US_RTT_MIN_AGING_SHIFT = 6,
    /* Longer samples would overflow the scaled arithmetic. */
    US_RTT_SAMPLE_MAX_US = 100 * 1000 * 1000
};

/* Sets the RTO (2.3), and whether samples would still change something. */
U_INLINE void us_rtt_update(struct us_tcp_rtt *rtt)
{
    rtt->rto_us = (rtt->srtt8_us >> 3) + u_max32(US_RTT_CLOCK_US, rtt->rttvar4_us);
    rtt->rto_us = u_min32(u_max32(rtt->rto_us, rtt->min_us), rtt->max_us);
    /* A shift takes off what (2.3) would add, and nothing of a variation below 4. */
    rtt->settled = rtt->srtt8_us >> 3 == US_RTT_MIN_US && rtt->rttvar4_us < 4 &&
                   rtt->min_rtt_us == US_RTT_MIN_US;
}

/* Adds a sample, of a segment that was sent once (Karn); ends the backoff. */
U_INLINE void us_rtt_sample(struct us_tcp_rtt *rtt, u_u64 sample_us)
{
    u_u32 r = u_max32((u_u32)u_min64(sample_us, US_RTT_SAMPLE_MAX_US), US_RTT_MIN_US);

    /* Follows a path that has become longer within some dozens of samples. */
    if (rtt->min_rtt_us == 0 || r < rtt->min_rtt_us)
        rtt->min_rtt_us = r;
    else
        rtt->min_rtt_us += (r - rtt->min_rtt_us) >> US_RTT_MIN_AGING_SHIFT;
    if (U_UNLIKELY(rtt->srtt8_us == 0)) { /* (2.2) */
        rtt->srtt8_us = r << 3;
        rtt->rttvar4_us = r << 1;
    } else { /* (2.3), with alpha = 1/8 and beta = 1/4 */
        u_u32 srtt_us = rtt->srtt8_us >> 3;
        u_u32 error_us = srtt_us > r ? srtt_us - r : r - srtt_us;

        rtt->rttvar4_us = rtt->rttvar4_us - (rtt->rttvar4_us >> 2) + error_us;
        rtt->srtt8_us = u_max32(rtt->srtt8_us - srtt_us + r, 8);
    }
    rtt->backoff = 0;
    us_rtt_update(rtt);
}

/* Whether us_rtt_sample() would change nothing. */
U_INLINE int us_rtt_is_converged(const struct us_tcp_rtt *rtt, u_u64 sample_us)
{
    return rtt->settled && sample_us <= US_RTT_MIN_US;
}

/* The RTO has expired: doubles it (RFC 6298 5.5). */
void us_rtt_backoff(struct us_tcp_rtt *rtt);

/* New data was acknowledged by an ACK that gives no sample: ends the backoff. */
void us_rtt_clear_backoff(struct us_tcp_rtt *rtt);

/* RFC 6298 (5.5): a timeout that was doubled so many times, up to limit_us. */
u_u32 us_rtt_backoff_us(u_u32 timeout_us, unsigned doublings, u_u32 limit_us);

/*
 * The retransmission timeout (RTO), with its backoff up to limit_us. ack_delay_us: how long the
 * peer may delay its ACK of what is in flight, in addition to a round trip.
 */
U_INLINE u_u32 us_rtt_rto_us(const struct us_tcp_rtt *rtt, u_u32 ack_delay_us, u_u32 limit_us)
{
    u_u32 rto_us = rtt->rto_us; /* is never less than a round trip */

    if (ack_delay_us != 0 && rtt->srtt8_us != 0)
        rto_us = u_max32(rto_us, (rtt->srtt8_us >> 3) + ack_delay_us);
    rto_us = u_min32(rto_us, rtt->max_us);
    return U_LIKELY(rtt->backoff == 0) ? rto_us : us_rtt_backoff_us(rto_us, rtt->backoff, limit_us);
}

enum { US_PTO_MIN_US = 1000 }; /* longer than hosts take to process a segment */

/*
 * The probe timeout (PTO) of RFC 8985 7.2, before the RTO: twice the round trip, or more where it
 * varies by more than half of itself, as with hosts whose processors are busy.
 */
U_INLINE u_u32 us_rtt_pto_us(const struct us_tcp_rtt *rtt, u_u32 ack_delay_us, u_u32 rto_us)
{
    u_u32 srtt_us = rtt->srtt8_us >> 3;
    u_u32 pto_us = srtt_us + u_max32(srtt_us, rtt->rttvar4_us >> 1);

    return u_min32(u_max32(pto_us, US_PTO_MIN_US) + ack_delay_us, rto_us);
}

#endif
