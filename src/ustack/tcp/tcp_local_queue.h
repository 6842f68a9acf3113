/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queueing delay caused by this instance itself. Many connections that send at the same time share
 * a queue, in the device, in a switch or at the peers, and the round trip of each is suddenly
 * longer than its own samples say. Samples of other connections show the delay: the segment that
 * was sent last of all that are known to have arrived has waited that long, and segments sent after
 * it are queued behind it. A timeout of such a segment would only measure the queue, so tcp_timer.c
 * defers it.
 *
 * Segments sent before that one are overdue, as in RFC 8985, and not deferred. So a peer that
 * delays its ACKs, or has a slow path, defers timeouts of other connections only while its segment
 * is the newest that has arrived, and by at most US_QUEUEING_MAX_US.
 *
 * Before the first sample of a new queue one tail loss probe tests it for all: while nothing sent
 * since a segment is known to have arrived, and another connection has sent a probe meanwhile, the
 * segment's own probe waits for a second PTO.
 */
#ifndef USTACK_TCP_TCP_LOCAL_QUEUE_H
#define USTACK_TCP_TCP_LOCAL_QUEUE_H

#include "ustack/tcp/tcp.h"

enum { US_QUEUEING_MAX_US = 1000 * 1000 };

/* The segment that was sent (once) at sent_us was acknowledged. */
U_INLINE void us_queueing_sample(struct us_stack *stack, const struct us_conn *conn, u_u64 sent_us)
{
    struct us_queueing *queue = &stack->queueing;
    u_u64 sample_us = stack->now_us - sent_us;

    if (sent_us < queue->sent_us)
        return;
    queue->sent_us = sent_us;
    queue->seen_us = stack->now_us;
    queue->conn = conn;
    queue->delay_us =
        (u_u32)u_min64(sample_us - u_min64(sample_us, conn->rtt.min_rtt_us), US_QUEUEING_MAX_US);
}

/*
 * How long the connection's last segment may be waiting in the queue; 0: unknown. Samples of the
 * connection itself are part of its RTO already.
 */
U_INLINE u_u32 us_queueing_delay_us(const struct us_stack *stack, const struct us_conn *conn)
{
    const struct us_queueing *queue = &stack->queueing;

    if (queue->conn == conn || conn->sent_us < queue->sent_us ||
        conn->sent_us > queue->seen_us + queue->delay_us)
        return 0;
    return queue->delay_us;
}

/* Whether the probe of another connection, sent after this one's last segment, is unanswered. */
U_INLINE int us_queueing_is_probed(const struct us_stack *stack, const struct us_conn *conn)
{
    const struct us_queueing *queue = &stack->queueing;

    return queue->sent_us < conn->sent_us && conn->sent_us < queue->probed_us;
}

#endif
