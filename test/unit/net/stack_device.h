/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of a stack worker for its tests: the link of stack_rig.h, of which a test replaces
 * what the device does and what happens while the worker sleeps in it. The worker's clock is the
 * test's.
 */
#ifndef STACK_DEVICE_H
#define STACK_DEVICE_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stack_rig.h"

#define FRAME_MAX 2048

/* The server's end of the link, some of whose functions are replaced. */
static struct {
    struct nic_ops ops;
    const struct nic_ops *link;
    struct fixture *f;
    unsigned takes_max; /* frames of a burst that it takes */
    bool is_empty;      /* it has no free packets */
    unsigned frames;    /* that it took */
    unsigned chains;    /* of these, those of several segments */
    uint32_t longest_bytes;
    uint32_t mtu;
    unsigned waits;
    void (*wait)(struct fixture *f, uint64_t timeout_us);
    bool (*has_in_transit)(struct fixture *f);
} device;

/* Reads of CLOCK_MONOTONIC see *clock_us, if it is not null, and move it by clock_step_us. */
static uint64_t *clock_us;
static uint64_t clock_step_us;

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (id != CLOCK_MONOTONIC || !clock_us)
        return (int)syscall(SYS_clock_gettime, id, now);
    *clock_us += clock_step_us;
    now->tv_sec = (time_t)(*clock_us / 1000000);
    now->tv_nsec = (long)(*clock_us % 1000000) * 1000;
    return 0;
}

/* ---- the device -------------------------------------------------------------------------- */

/* The link takes single segments only. */
static inline void join_segments(struct us_pkt *pkt)
{
    const struct us_pkt *seg;
    uint8_t frame[FRAME_MAX];
    uint32_t len = 0;

    for (seg = pkt; seg; seg = seg->next_seg) {
        assert_true(len + seg->len <= sizeof(frame));
        memcpy(frame + len, seg->data, seg->len);
        len += seg->len;
    }
    memcpy(pkt->data, frame, len);
    pkt->len = len;
    pkt->next_seg = NULL;
}

static inline unsigned device_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return device.is_empty ? 0 : device.link->alloc(nic, pkts, n);
}

static inline unsigned device_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    n = u_min32(n, device.takes_max);
    for (i = 0; i < n; i++) {
        if (pkts[i]->next_seg) {
            join_segments(pkts[i]);
            device.chains++;
        }
        device.longest_bytes = u_max32(device.longest_bytes, pkts[i]->len);
    }
    n = device.link->tx_burst(nic, pkts, n);
    device.frames += n;
    return n;
}

static inline int device_wait(struct nic *nic, uint64_t timeout_us)
{
    device.waits++;
    if (device.wait)
        device.wait(device.f, timeout_us);
    return 0;
}

static inline bool device_has_in_transit(struct nic *nic)
{
    return device.has_in_transit && device.has_in_transit(device.f);
}

static inline uint32_t device_mtu(struct nic *nic)
{
    return device.mtu;
}

static inline struct fixture *device_open(const struct shape *shape)
{
    struct fixture *f = fixture_open(shape);
    struct nic *nic = f->ends[1];

    memset(&device, 0, sizeof(device));
    device.link = nic->ops;
    device.ops = *nic->ops;
    device.ops.alloc = device_alloc;
    device.ops.tx_burst = device_tx_burst;
    device.ops.wait = device_wait;
    device.ops.has_in_transit = device_has_in_transit;
    device.ops.mtu = device_mtu;
    device.f = f;
    device.takes_max = NIC_BURST_MAX;
    device.mtu = nic->mtu;
    nic->ops = &device.ops;
    f->now_us = net_clock_us(); /* the clock that the server's timers have begun with */
    clock_us = &f->now_us;
    clock_step_us = 0;
    return f;
}

static inline int setup_device(void **state)
{
    *state = device_open(&plain);
    return 0;
}

static inline int teardown_device(void **state)
{
    clock_us = NULL;
    device.is_empty = false; /* or the connections could not be reset */
    return teardown(state);
}

#endif
