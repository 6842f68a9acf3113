/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grace periods by quiescent states (QSBR): when unlinked memory can no longer be read.
 *
 * A clock counts retirements. After unlinking memory a worker calls kv_epoch_retire() and keeps the
 * number that it returns; the memory may be reused once every online member has announced that
 * number or a later one. Readers pay nothing: a member announces once per loop, when it holds no
 * pointer.
 *
 * Proof:
 *   1. announce: the member loads the clock (acquire), then stores it into `announced` (release).
 *      If that is >= a retirement's number, the load has synchronised with the retirement, so the
 *      member's later loads see the unlink; and a thread that loads `announced` (acquire) happens
 *      after all of the member's earlier reads, so reuse cannot disturb them.
 *   2. online: the member stores `announced`, then does a read-modify-write on the clock. All
 *      read-modify-writes of the clock are in one order. If the member's comes before a
 *      retirement's, the retiring worker sees the member online. If it comes after, the member sees
 *      the unlink. So a member cannot come online unseen with a stale pointer, without a fence.
 *      The store is a release: a thread that loads it may have missed the store of going offline,
 *      and needs the reads before that one ordered (C11 does not require this, C++20 does).
 */
#ifndef KV_EPOCH_H
#define KV_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "kv/atomic.h"

#define KV_EPOCH_OFFLINE 0

struct kv_epoch_member {
    /* KV_EPOCH_OFFLINE, or the clock at the last quiesce */
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 announced;
};

struct kv_epoch {
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 clock; /* starts at 1 */
    struct kv_epoch_member *members;
    unsigned member_count;
};

/* The caller owns the array of members and keeps it as long as the epoch. */
void kv_epoch_init(struct kv_epoch *epoch, struct kv_epoch_member *members, unsigned count);

/* From here on the member may read shared memory and delays reclamation. */
void kv_epoch_online(struct kv_epoch *epoch, struct kv_epoch_member *member);

/* The member holds no pointer and takes none before kv_epoch_online(). */
void kv_epoch_offline(struct kv_epoch_member *member);

/* The member, online, holds no pointer at this moment. */
void kv_epoch_announce(const struct kv_epoch *epoch, struct kv_epoch_member *member);

/* To be called after the last unlink. Returns the number that all members have to announce. */
uint64_t kv_epoch_retire(struct kv_epoch *epoch);

/*
 * The lowest number announced by the online members other than `except` (may be null). UINT64_MAX
 * if there are none. Those members cannot read memory that was retired with a number up to it.
 */
uint64_t kv_epoch_oldest(const struct kv_epoch *epoch, const struct kv_epoch_member *except);

/*
 * Retirements that the slowest online member has not announced. A value that keeps rising means
 * that a member does not announce quiescent states.
 */
uint64_t kv_epoch_lag(const struct kv_epoch *epoch);

#endif
