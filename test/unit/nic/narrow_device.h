/* SPDX-License-Identifier: BSD-3-Clause */
/* A device on top of a loop end that sends no more frames than it is allowed to. */
#ifndef NARROW_DEVICE_H
#define NARROW_DEVICE_H

#include "nic_testing.h"

struct narrow {
    struct nic nic;
    struct nic *lower;
    unsigned allowance;     /* frames that tx_burst() will take */
    unsigned alloc_refused; /* packets that alloc() will not lend */
    uint64_t waited_us;     /* the last argument of wait() */
};

static inline unsigned narrow_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_rx_burst(((struct narrow *)nic)->lower, pkts, n);
}

static inline unsigned narrow_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct narrow *narrow = (struct narrow *)nic;

    if (narrow->alloc_refused > 0) {
        narrow->alloc_refused--;
        return 0;
    }
    return nic_alloc(narrow->lower, pkts, n);
}

static inline void narrow_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_release(((struct narrow *)nic)->lower, pkts, n);
}

/* A chain, which a loop does not take, is swallowed. */
static inline unsigned narrow_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct narrow *narrow = (struct narrow *)nic;

    if (n > narrow->allowance)
        n = narrow->allowance;
    narrow->allowance -= n;
    if (n == 1 && pkts[0]->next_seg != NULL) {
        nic_release(narrow->lower, &pkts[0]->next_seg, 1);
        nic_release(narrow->lower, pkts, 1);
        return 1;
    }
    return nic_tx_burst(narrow->lower, pkts, n);
}

static inline int narrow_wait(struct nic *nic, uint64_t timeout_us)
{
    ((struct narrow *)nic)->waited_us = timeout_us;
    return 0;
}

static inline void narrow_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    nic_stats(((struct narrow *)nic)->lower, emit, emit_ctx);
}

static inline void narrow_close(struct nic *nic)
{
    nic_close(((struct narrow *)nic)->lower);
}

/* Makes a link of which `narrow` is one end and *peer the other. Sets no allowance. */
static inline void narrow_open(struct narrow *narrow, struct nic **peer)
{
    static const struct nic_ops narrow_ops = {.name = "narrow",
                                              .rx_burst = narrow_rx_burst,
                                              .alloc = narrow_alloc,
                                              .release = narrow_release,
                                              .tx_burst = narrow_tx_burst,
                                              .wait = narrow_wait,
                                              .stats = narrow_stats,
                                              .close = narrow_close};
    struct nic_loop_config config = {0};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX];

    assert_int_equal(nic_loop_open(&config, ends, error), 0);
    narrow->nic = *ends[0];
    narrow->nic.ops = &narrow_ops;
    narrow->lower = ends[0];
    *peer = ends[1];
}

#endif
