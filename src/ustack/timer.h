/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A timing wheel (Varghese and Lauck, 1987) with levels of 64 slots, each level 64 times coarser
 * than the one below.
 *
 * A timer lies on the level of the highest group of six bits in which its tick differs from the
 * wheel's present tick. So a slot never wraps around, everything on one level is due before
 * anything on the next, and enough levels to cover all 64 bits cost little, as empty ones are
 * never looked at.
 *
 * Setting and stopping take constant time. Each timer is moved down at most once per level.
 */
#ifndef USTACK_TIMER_H
#define USTACK_TIMER_H

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
    u_u64 at_us; /* when it is due; all bits set while it is not set */
    u_u16 place; /* level * US_WHEEL_SLOTS + slot, meaningful while armed */
    u_u8 kind;   /* the owner's: what this timer is part of */
};

struct us_wheel {
    u_u64 tick;                     /* all slots before this tick are empty */
    u_u64 next_us;                  /* nothing needs to be done before; ~0 if no timer is set */
    u_u32 full[US_WHEEL_LEVELS][2]; /* bit n: slot n is not empty */
    struct u_list slots[US_WHEEL_LEVELS * US_WHEEL_SLOTS];
    u_u32 moving; /* place of a slot whose timers are on their way to lower levels, or none */
};

void us_wheel_init(struct us_wheel *wheel, u_u64 now_us);

/* Prepares a timer that is not set. Needed once before anything else is done with it. */
void us_timer_init(struct us_timer *timer, unsigned kind);

/* Sets a timer, or sets it anew, to be taken at at_us or later. */
void us_timer_set(struct us_wheel *wheel, struct us_timer *timer, u_u64 at_us);

/* Stops a timer; nothing happens if it is not set. */
void us_timer_stop(struct us_wheel *wheel, struct us_timer *timer);

/*
 * Whether us_wheel_take() may have something to do. If not, the wheel's time goes on as there: most
 * loops come to this and no further.
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
 * Takes one timer that is due off the wheel, or returns null. Each timer taken or moved to a lower
 * level takes one off *budget; at 0 null is returned and what is due stays due.
 */
struct us_timer *us_wheel_take(struct us_wheel *wheel, u_u64 now_us, unsigned *budget);

#endif
