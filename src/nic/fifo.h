/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of packets on memory of the caller. */
#ifndef NIC_FIFO_H
#define NIC_FIFO_H

#include "base/base.h"
#include "ubase/pkt.h"

struct nic_fifo {
    struct us_pkt **slots; /* capacity of them, the user's memory */
    unsigned capacity;
    unsigned head; /* the oldest */
    unsigned count;
};

/* Appends a packet. The queue must not be full. */
static inline void nic_fifo_push(struct nic_fifo *fifo, struct us_pkt *pkt)
{
    U_ASSERT(fifo->count < fifo->capacity);
    fifo->slots[(fifo->head + fifo->count) % fifo->capacity] = pkt;
    fifo->count++;
}

/* The packet that is `index` behind the oldest; it stays in the queue. index < count. */
static inline struct us_pkt *nic_fifo_at(const struct nic_fifo *fifo, unsigned index)
{
    U_ASSERT(index < fifo->count);
    return fifo->slots[(fifo->head + index) % fifo->capacity];
}

/* Takes the oldest packet out. The queue must not be empty. */
static inline struct us_pkt *nic_fifo_pop(struct nic_fifo *fifo)
{
    struct us_pkt *pkt = nic_fifo_at(fifo, 0);

    fifo->head = (fifo->head + 1) % fifo->capacity;
    fifo->count--;
    return pkt;
}

#endif
