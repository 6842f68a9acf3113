/* SPDX-License-Identifier: BSD-3-Clause */
/* A device on top of a loopback end with a limit on the frames that it sends. */
#ifndef NARROW_DEVICE_H
#define NARROW_DEVICE_H

#include "nic_testing.h"

struct narrow {
    struct nic nic;
    struct nic *lower;
    unsigned allowance;     /* frames that tx_burst() will accept */
    unsigned alloc_refused; /* packets that alloc() withholds */
    uint64_t waited_us;     /* the last argument of wait() */
    uint32_t mtu_now;       /* what mtu() answers; 0: that of nic */
    u_u32 room;             /* of the packets that alloc() hands out; 0: all that they have */
};

static inline unsigned narrow_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_rx_burst(((struct narrow *)nic)->lower, pkts, n);
}

static inline unsigned narrow_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct narrow *narrow = (struct narrow *)nic;
    unsigned i;

    assert_in_range(n, 0, NIC_BURST_MAX); /* a device need not have more at a time */
    if (narrow->alloc_refused > 0) {
        narrow->alloc_refused--;
        return 0;
    }
    n = nic_alloc(narrow->lower, pkts, n);
    for (i = 0; narrow->room != 0 && i < n; i++)
        pkts[i]->room = narrow->room;
    return n;
}

static inline void narrow_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_release(((struct narrow *)nic)->lower, pkts, n);
}

/* A frame of several segments, which a loopback end does not accept, is dropped. */
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

static inline uint32_t narrow_mtu(struct nic *nic)
{
    struct narrow *narrow = (struct narrow *)nic;

    return narrow->mtu_now != 0 ? narrow->mtu_now : nic->mtu;
}

static inline void narrow_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    nic_stats(((struct narrow *)nic)->lower, emit, emit_ctx);
}

static inline void narrow_close(struct nic *nic)
{
    nic_close(((struct narrow *)nic)->lower);
}

/* Opens a link with `narrow` as one end and *peer as the other. The limit stays unset. */
static inline void narrow_open(struct narrow *narrow, struct nic **peer)
{
    static const struct nic_ops narrow_ops = {.name = "narrow",
                                              .rx_burst = narrow_rx_burst,
                                              .alloc = narrow_alloc,
                                              .release = narrow_release,
                                              .tx_burst = narrow_tx_burst,
                                              .wait = narrow_wait,
                                              .mtu = narrow_mtu,
                                              .stats = narrow_stats,
                                              .close = narrow_close};
    struct nic_loopback_config config = {0};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX];

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    narrow->nic = *ends[0];
    narrow->nic.ops = &narrow_ops;
    narrow->lower = ends[0];
    *peer = ends[1];
}

#endif
