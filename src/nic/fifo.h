/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded FIFO of packets in memory of the caller. */
#ifndef NIC_FIFO_H
#define NIC_FIFO_H

#include "base/base.h"
#include "ubase/pkt.h"

struct nic_fifo {
    struct us_pkt **slots; /* capacity of them, owned by the caller */
    unsigned capacity;
    unsigned head; /* the oldest */
    unsigned count;
};

/* The slot `steps` after slot `from`, steps <= capacity. Avoids a division. */
static inline unsigned nic_fifo_slot(const struct nic_fifo *fifo, unsigned from, unsigned steps)
{
    unsigned slot = from + steps;

    return slot < fifo->capacity ? slot : slot - fifo->capacity;
}

/* The slot after slot `from`. */
static inline unsigned nic_fifo_next(const struct nic_fifo *fifo, unsigned from)
{
    return U_UNLIKELY(from + 1 == fifo->capacity) ? 0 : from + 1;
}

/* Appends a packet. The queue must not be full. */
static inline void nic_fifo_push(struct nic_fifo *fifo, struct us_pkt *pkt)
{
    U_ASSERT(fifo->count < fifo->capacity);
    fifo->slots[nic_fifo_slot(fifo, fifo->head, fifo->count)] = pkt;
    fifo->count++;
}

/* The packet at `index` from the oldest, which stays in the queue. index < count. */
static inline struct us_pkt *nic_fifo_at(const struct nic_fifo *fifo, unsigned index)
{
    U_ASSERT(index < fifo->count);
    return fifo->slots[nic_fifo_slot(fifo, fifo->head, index)];
}

/* Removes the oldest packet. The queue must not be empty. */
static inline struct us_pkt *nic_fifo_pop(struct nic_fifo *fifo)
{
    struct us_pkt *pkt = nic_fifo_at(fifo, 0);

    fifo->head = nic_fifo_slot(fifo, fifo->head, 1);
    fifo->count--;
    return pkt;
}

#endif
