/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hierarchical timing wheel (Varghese and Lauck, 1987): levels of 64 slots, each level 64 times
 * coarser than the one below.
 *
 * The level of a timer is the highest group of six bits in which its tick differs from the wheel's
 * current tick. So slots never wrap around, every timer of a level expires before any of the next
 * level, and the levels cover all 64 bits.
 *
 * Setting and stopping take constant time. A timer cascades at most once per level.
 */
#ifndef USTACK_CORE_TIMER_WHEEL_H
#define USTACK_CORE_TIMER_WHEEL_H

#include "base/base.h"
#include "base/list.h"

enum {
    US_WHEEL_TICK_BITS = 6, /* a tick is 64 us */
    US_WHEEL_SLOT_BITS = 6,
    US_WHEEL_SLOTS = 1 << US_WHEEL_SLOT_BITS,
    US_WHEEL_LEVELS = 10 /* 10 * 6 + 6 bits: all of a u_u64 */
};

struct us_timer {
    struct u_list link;
    u_u64 at_us; /* expiry; all bits set while it is not set */
    u_u16 place; /* level * US_WHEEL_SLOTS + slot, valid while it is set */
    u_u8 kind;   /* enum us_timer_kind: the struct that contains this timer */
};

struct us_wheel {
    u_u64 tick;                     /* current tick: all slots before it are empty */
    u_u64 next_us;                  /* no timer expires or cascades before; ~0 if none is set */
    u_u32 full[US_WHEEL_LEVELS][2]; /* bit n: slot n is not empty */
    struct u_list slots[US_WHEEL_LEVELS * US_WHEEL_SLOTS];
    u_u32 moving; /* place of the slot being cascaded, or none */
};

void us_wheel_init(struct us_wheel *wheel, u_u64 now_us);

/* Initialises a timer as not set. Required once before any other call. */
void us_timer_init(struct us_timer *timer, unsigned kind);

/* Sets or changes a timer to expire at at_us. */
void us_timer_set(struct us_wheel *wheel, struct us_timer *timer, u_u64 at_us);

/* Stops a timer; no effect if it is not set. */
void us_timer_stop(struct us_wheel *wheel, struct us_timer *timer);

/*
 * Whether us_wheel_take() is to be called: a timer has expired or must cascade. If not, advances
 * the wheel to now_us, so that most loops need only this call.
 */
U_INLINE int us_wheel_is_due(struct us_wheel *wheel, u_u64 now_us)
{
    u_u64 now_tick = now_us >> US_WHEEL_TICK_BITS;

    if (U_UNLIKELY(now_us >= wheel->next_us))
        return 1;
    if (now_tick > wheel->tick)
        wheel->tick = now_tick;
    return 0;
}

U_INLINE int us_timer_is_set(const struct us_timer *timer)
{
    return !u_list_is_empty(&timer->link);
}

/*
 * Stops and returns one expired timer, or returns null. Each timer that expires or cascades reduces
 * *budget by one; at 0 null is returned, and the other expired timers stay for the next call.
 */
struct us_timer *us_wheel_take(struct us_wheel *wheel, u_u64 now_us, unsigned *budget);

#endif
