/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC (RFC 9438): after a reduction cwnd follows a cubic function of the time back to the window
 * before it (the plateau), and beyond. Where Reno would grow faster it grows like Reno. Times are
 * in ticks of us_ts_clock(), windows in bytes. Integers only, no 64-bit division.
 */
#ifndef USTACK_TCP_TCP_CUBIC_H
#define USTACK_TCP_TCP_CUBIC_H

#include "base/base.h"

struct us_cubic {
    u_u32 prior;      /* the window before the last reduction, where the plateau is; 0: none */
    u_u32 from_ticks; /* while `running`: when this stage of congestion avoidance began */
    u_u32 est;        /* W_est: the window that Reno would have by now */
    u_u32 est_credit; /* bytes acknowledged towards its next step */
    u_u16 k_ticks;    /* how long after from_ticks the curve has its plateau */
    u_u8 fell_short;  /* the plateau lies lower: fast convergence (4.7) */
    u_u8 running;
};

/*
 * Congestion: returns beta_cubic * flight (4.6) and records cwnd as the plateau, or less if the
 * last plateau was not reached (fast convergence, 4.7).
 */
u_u32 us_cubic_decrease(struct us_cubic *cubic, u_u32 cwnd, u_u32 flight);

/* After a timeout congestion avoidance begins with the plateau (4.8). */
void us_cubic_timeout(struct us_cubic *cubic);

/* An undo: the curve begins at the restored window (4.9). */
void us_cubic_undo(struct us_cubic *cubic, u_u32 cwnd);

/*
 * `acked` bytes were acknowledged in congestion avoidance. Returns by how much the window grows
 * (4.2 to 4.5); *credit counts bytes towards the next segment.
 */
u_u32 us_cubic_growth(struct us_cubic *cubic, u_u32 cwnd, u_u32 mss, u_u32 *credit, u_u32 acked,
                      u_u32 now_ticks, u_u32 rtt_ticks);

/* W_max: the plateau of the curve. */
u_u32 us_cubic_plateau(const struct us_cubic *cubic);

/* W_cubic (figure 1) at t_ticks after the stage began. */
u_u32 us_cubic_window(const struct us_cubic *cubic, u_u32 mss, u_u32 t_ticks);

#endif
