/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two stacks in lockstep, for tests of the fast path: instances with the same secret, one of them
 * with us_config.no_fast_path, get the same frames and calls at the same times and must not differ
 * in anything. They have the addresses and the port of raw.h and craft.h; the test plays their
 * peers. Their application responds to data at random.
 */
#ifndef USTACK_LOCKSTEP_H
#define USTACK_LOCKSTEP_H

#include "base/prng.h"
#include "ustack/ustack.h"

enum { LOCKSTEP_FAST, LOCKSTEP_GENERAL, LOCKSTEP_STACKS };
enum { LOCKSTEP_PEERS = 4, LOCKSTEP_BURST = 8 };

struct frame;

/* Properties of all frames of a test. */
struct shape {
    int ip6;
    int timestamps;
    unsigned vlan_id;
    u_u32 caps;
    u_u32 nagle;
    u_u32 cc;
};

/* The other end of a connection, played by the test. */
struct peer {
    struct us_conn *conn[LOCKSTEP_STACKS]; /* null: no connection now */
    u_u16 port;
    u_u32 ts_val;
};

struct lockstep {
    struct us_stack *stack[LOCKSTEP_STACKS];
    void *memory[LOCKSTEP_STACKS];
    struct shape shape;
    struct peer peers[LOCKSTEP_PEERS];
    struct u_prng prng;
    u_u64 now_us;
    u_u16 next_port;
    unsigned replies;
    unsigned long rxtx; /* how often a connection was found to be US_FAST_RXTX */
};

/*
 * Creates both and announces the peers. The seed determines all random choices; with some seeds
 * memory or the window is small.
 */
void lockstep_open(struct lockstep *t, const struct shape *shape, u_u32 seed);
void lockstep_close(struct lockstep *t);

/*
 * Gives the frames, at most LOCKSTEP_BURST, to both stacks, and takes their events and frames.
 * Fails unless all events, frames sent, counters, connections and deadlines are equal and all
 * invariants hold.
 */
void lockstep_input(struct lockstep *t, const struct frame *frames, unsigned n);

/* Random: a number in [0, n); 1 with a probability of 1 / n. */
U_INLINE u_u32 lockstep_below(struct lockstep *t, u_u32 n)
{
    return u_prng_below(&t->prng, n);
}

U_INLINE int lockstep_one_in(struct lockstep *t, u_u32 n)
{
    return lockstep_below(t, n) == 0;
}

#endif
