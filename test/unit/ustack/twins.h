/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two stacks that live the same life, for tests of the fast path: instances with the same secret,
 * one of them with the fast path switched off, get the same frames and calls at the same times and
 * must not differ in anything. They have the addresses and the port of raw.h and craft.h; the test
 * plays their peers. An application belongs to them, which answers what comes at random.
 */
#ifndef TEST_USTACK_TWINS_H
#define TEST_USTACK_TWINS_H

#include "base/prng.h"
#include "ustack/ustack.h"

enum { TWINS_FAST, TWINS_SLOW, TWINS_WORLDS };
enum { TWINS_PEERS = 4, TWINS_BURST = 8 };

struct frame;

/* What all frames of a test have. */
struct shape {
    int ip6;
    int timestamps;
    unsigned vlan_id;
    u_u32 caps;
    u_u32 nagle;
    u_u32 cc;
};

/* The other end of one connection, as the test plays it. */
struct peer {
    struct us_conn *conn[TWINS_WORLDS]; /* null: there is none now */
    u_u16 port;
    u_u32 ts_val;
};

struct twins {
    struct us_stack *stack[TWINS_WORLDS];
    void *memory[TWINS_WORLDS];
    struct shape shape;
    struct peer peers[TWINS_PEERS];
    struct u_prng prng;
    u_u64 now_us;
    u_u16 next_port;
    unsigned replies;
    unsigned long steady; /* how often a connection was found to be it altogether */
    unsigned long usual;  /* and to be one of those that nearly all are */
};

/*
 * Makes both and tells them where the peers are. The seed says what is drawn, and for some of the
 * seeds memory or the window is short.
 */
void twins_open(struct twins *t, const struct shape *shape, u_u32 seed);
void twins_close(struct twins *t);

/*
 * Gives the frames to both, at most TWINS_BURST, and lets both do what follows from them. Fails
 * unless every event, every frame they send, every counter, the state of their connections and the
 * time of what comes next are the same, and all invariants hold.
 */
void twins_input(struct twins *t, const struct frame *frames, unsigned n);

/* Draws: a number in [0, n); whether it is this one of n. */
U_INLINE u_u32 twins_below(struct twins *t, u_u32 n)
{
    return u_prng_below(&t->prng, n);
}

U_INLINE int twins_one_in(struct twins *t, u_u32 n)
{
    return twins_below(t, n) == 0;
}

#endif
