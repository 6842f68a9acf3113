/* SPDX-License-Identifier: BSD-3-Clause */
/* DCTCP; see tcp_dctcp.h. */
#include "ustack/tcp/tcp_dctcp.h"

#include "base/arith.h"
#include "ustack/tcp/seq.h"

enum { DCTCP_ONE = 1024, DCTCP_G_SHIFT = 4 }; /* g = 1/16, as 4.2 recommends */

void us_dctcp_init(struct us_dctcp *dctcp)
{
    u_zero(dctcp, sizeof(*dctcp));
    dctcp->alpha = DCTCP_ONE;
}

/*
 * alpha = (1 - g) * alpha + g * M; a remainder below one step of g is dropped, so that alpha
 * reaches 0.
 */
static void dctcp_estimate(struct us_dctcp *dctcp)
{
    u_u32 share = u_muldiv32(dctcp->marked, DCTCP_ONE, dctcp->acked);
    u_u32 alpha = dctcp->alpha;

    alpha -= u_min32(u_max32(alpha >> DCTCP_G_SHIFT, 1), alpha);
    alpha += share >> DCTCP_G_SHIFT;
    dctcp->alpha = (u_u16)u_min32(alpha, DCTCP_ONE);
}

void us_dctcp_acked(struct us_dctcp *dctcp, u_u32 acked, int ece, u_u32 ack, u_u32 snd_nxt)
{
    if (!dctcp->observing) {
        dctcp->observing = 1;
        dctcp->window_end = snd_nxt;
    }
    dctcp->acked += acked;
    if (ece)
        dctcp->marked += acked;
    if (us_seq_leq(ack, dctcp->window_end) || dctcp->acked == 0)
        return;
    dctcp_estimate(dctcp);
    dctcp->acked = 0;
    dctcp->marked = 0;
    dctcp->window_end = snd_nxt;
}

u_u32 us_dctcp_decrease(const struct us_dctcp *dctcp, u_u32 cwnd)
{
    return cwnd - (u_u32)((u_u64)cwnd * dctcp->alpha >> 11);
}
