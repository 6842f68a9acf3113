/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scoreboard (RFC 2018, RFC 6675): the state of the bytes in flight, from the peer's SACK
 * blocks and our retransmissions.
 *
 * It is a list of adjacent ranges from SND.UNA to the highest byte of which anything is known;
 * bytes behind are in flight for the first time. It is one block of the buffer pool and exists only
 * while data is missing. Pure functions of sequence numbers and times.
 *
 * It is bounded: when it is full it forgets the highest SACKED range. The peer reports that again,
 * and the worst consequence is a needless retransmission.
 */
#ifndef USTACK_TCP_TCP_SACK_H
#define USTACK_TCP_TCP_SACK_H

#include "base/base.h"
#include "ustack/tcp/seq.h"
#include "ustack/tcp/tcp_prr.h"

enum { US_SACK_RANGES = 120 };

enum us_sack_state {
    US_SACK_HOLE,   /* a hole: late, or lost */
    US_SACK_LOST,   /* no longer in the network, to be retransmitted */
    US_SACK_RESENT, /* sent again */
    US_SACK_SACKED  /* reported by the peer */
};

struct us_sack_range {
    u_u32 start; /* it ends where the next one starts */
    u_u32 at_us; /* low bits of the time: WAIT: when it became a hole; RESENT: when it was sent */
    u_u32 mark;  /* RESENT: SND.MAX at that time */
    u_u8 state;  /* enum us_sack_state */
};

struct us_sack {
    u_u32 n;            /* ranges */
    u_u32 end;          /* of the last one; SND.UNA or more if there is none */
    u_u32 sacked_bytes; /* these four follow from the ranges */
    u_u32 lost_bytes;
    u_u32 lost_first; /* index of the first LOST range; n if there is none */
    u_u32 high;       /* the end of the highest SACKED range, if any */
    u_u32 newest_us;  /* when the newest retransmission that has arrived was sent */
    u_u32 reorder_us; /* low bits of the time when holes are to be checked again */
    struct us_prr prr;
    u_u8 has_newest;  /* newest_us is valid */
    u_u8 has_reorder; /* reorder_us is valid */
    struct us_sack_range ranges[US_SACK_RANGES];
};

/* Bits that a change returns. */
enum {
    US_SACK_NEW_DATA = 1 << 0,  /* bytes that are newly known to have arrived */
    US_SACK_REORDERED = 1 << 1, /* bytes that were sent once arrived after later ones */
    US_SACK_OVERFLOW = 1 << 2,  /* the scoreboard was full, something was forgotten */
    US_SACK_LOSS = 1 << 3,      /* a hole was marked LOST */
    US_SACK_LOST_AGAIN = 1 << 4 /* a retransmission was lost */
};

/* Parameters of us_sack_detect(). */
struct us_sack_rules {
    u_u32 now_us;     /* low bits */
    u_u32 mss;        /* bytes */
    u_u32 reorder_us; /* how much later than its successors a segment may come */
    u_u32 rtt_us;     /* the smallest round-trip time: no ACK comes earlier */
    u_u32 dup_acks;   /* duplicate ACKs in a row */
    int by_time_only; /* reordering was seen: three segments behind a hole mean nothing */
};

/* An empty scoreboard. */
void us_sack_init(struct us_sack *sack, u_u32 una);

/*
 * The peer has reported start..end, which lies behind una, is not empty and was sent. rtt_us as in
 * struct us_sack_rules. Returns bits of US_SACK_NEW_DATA, US_SACK_REORDERED and US_SACK_OVERFLOW.
 */
unsigned us_sack_add(struct us_sack *sack, u_u32 una, u_u32 start, u_u32 end, u_u32 now_us,
                     u_u32 rtt_us);

/* Everything before `ack` has arrived. Returns 0 or US_SACK_REORDERED. */
unsigned us_sack_advance(struct us_sack *sack, u_u32 ack, u_u32 now_us, u_u32 rtt_us);

/*
 * Marks lost holes: a hole is lost if three segments behind it have arrived (RFC 6675 IsLost), or
 * reorder_us after the first of them did (RFC 8985, 6.2 step 5, in terms of arrival). A
 * retransmission is lost if a segment sent later has arrived and a round trip has passed. Sets
 * has_reorder and reorder_us. Returns bits of US_SACK_LOSS and US_SACK_LOST_AGAIN.
 */
unsigned us_sack_detect(struct us_sack *sack, const struct us_sack_rules *rules);

/* A timeout: all of una..max that is not SACKED is lost. Returns 0 or US_SACK_OVERFLOW. */
unsigned us_sack_lose_all(struct us_sack *sack, u_u32 una, u_u32 max);

/* An undo: LOST ranges become holes again, which wait from now on. */
void us_sack_restore(struct us_sack *sack, u_u32 now_us);

/* The first LOST range. Returns 0 if there is none. */
int us_sack_first_lost(const struct us_sack *sack, u_u32 *start, u_u32 *end);

/*
 * start..end, at the beginning of the first LOST range or within a range that is not SACKED, was
 * retransmitted; max is SND.MAX. Returns 0 or US_SACK_OVERFLOW.
 */
unsigned us_sack_resent(struct us_sack *sack, u_u32 start, u_u32 end, u_u32 max, u_u32 now_us);

/*
 * The highest range below max that is not SACKED; una..max without any ranges. Returns 0 if all is
 * SACKED.
 */
int us_sack_highest_missing(const struct us_sack *sack, u_u32 max, u_u32 *start, u_u32 *end);

/* Whether the peer has reneged: it acknowledges less than it has SACKed (RFC 2018 section 8). */
U_INLINE int us_sack_reneged(const struct us_sack *sack)
{
    return sack->n > 0 && sack->ranges[0].state == US_SACK_SACKED;
}

/* Null, or a phrase that says which invariant is broken. */
const char *us_sack_check(const struct us_sack *sack, u_u32 una, u_u32 max);

#endif
