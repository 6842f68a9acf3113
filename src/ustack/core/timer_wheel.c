/* SPDX-License-Identifier: BSD-3-Clause */
/* The timing wheel; see timer_wheel.h. */
#include "ustack/core/timer_wheel.h"

enum { PLACE_NONE = US_WHEEL_LEVELS * US_WHEEL_SLOTS };

static const u_u64 wheel_never = ~(u_u64)0;

void us_wheel_init(struct us_wheel *wheel, u_u64 now_us)
{
    unsigned i;

    wheel->tick = now_us >> US_WHEEL_TICK_BITS;
    wheel->next_us = wheel_never;
    for (i = 0; i < US_WHEEL_LEVELS; i++) {
        wheel->full[i][0] = 0;
        wheel->full[i][1] = 0;
    }
    for (i = 0; i < US_WHEEL_LEVELS * US_WHEEL_SLOTS; i++)
        u_list_init(&wheel->slots[i]);
    wheel->moving = PLACE_NONE;
}

void us_timer_init(struct us_timer *timer, unsigned kind)
{
    u_list_init(&timer->link);
    timer->at_us = wheel_never;
    timer->place = 0;
    timer->kind = (u_u8)kind;
}

/* The first tick of a slot. */
static u_u64 slot_tick(const struct us_wheel *wheel, unsigned level, unsigned slot)
{
    unsigned shift = level * US_WHEEL_SLOT_BITS;
    u_u64 above = wheel->tick >> (shift + US_WHEEL_SLOT_BITS) << (shift + US_WHEEL_SLOT_BITS);

    return above | (u_u64)slot << shift;
}

/* Inserts a timer that is on no list into its slot. */
static void wheel_insert(struct us_wheel *wheel, struct us_timer *timer)
{
    u_u64 tick = timer->at_us >> US_WHEEL_TICK_BITS;
    u_u64 differ;
    u_u64 due_us = timer->at_us;
    unsigned level = 0;
    unsigned slot;

    if (tick < wheel->tick)
        tick = wheel->tick;
    differ = (tick ^ wheel->tick) >> US_WHEEL_SLOT_BITS;
    while (differ != 0) {
        differ >>= US_WHEEL_SLOT_BITS;
        level++;
    }
    slot = (unsigned)(tick >> (level * US_WHEEL_SLOT_BITS)) & (US_WHEEL_SLOTS - 1);
    timer->place = (u_u16)(level * US_WHEEL_SLOTS + slot);
    u_list_push_back(&wheel->slots[timer->place], &timer->link);
    wheel->full[level][slot >> 5] |= (u_u32)1 << (slot & 31);
    if (level > 0)
        due_us = slot_tick(wheel, level, slot) << US_WHEEL_TICK_BITS;
    wheel->next_us = u_min64(wheel->next_us, due_us);
}

/* Removes a timer that is set from its slot. */
static void wheel_remove(struct us_wheel *wheel, struct us_timer *timer)
{
    unsigned place = timer->place;

    u_list_remove(&timer->link);
    if (u_list_is_empty(&wheel->slots[place])) {
        unsigned slot = place % US_WHEEL_SLOTS;
        wheel->full[place / US_WHEEL_SLOTS][slot >> 5] &= ~((u_u32)1 << (slot & 31));
    }
}

void us_timer_stop(struct us_wheel *wheel, struct us_timer *timer)
{
    if (!us_timer_is_set(timer))
        return;
    wheel_remove(wheel, timer);
    timer->at_us = wheel_never;
}

void us_timer_set(struct us_wheel *wheel, struct us_timer *timer, u_u64 at_us)
{
    U_ASSERT(at_us != wheel_never);
    us_timer_stop(wheel, timer);
    timer->at_us = at_us;
    wheel_insert(wheel, timer);
}

/* Place of the first slot that is not empty, or PLACE_NONE. */
static unsigned first_place(const struct us_wheel *wheel)
{
    unsigned level;

    for (level = 0; level < US_WHEEL_LEVELS; level++) {
        if (wheel->full[level][0] != 0)
            return level * US_WHEEL_SLOTS + u_lowest_bit(wheel->full[level][0]);
        if (wheel->full[level][1] != 0)
            return level * US_WHEEL_SLOTS + 32 + u_lowest_bit(wheel->full[level][1]);
    }
    return PLACE_NONE;
}

/* An expired timer of a slot of level 0; if there is none, null and *next_us is the earliest. */
static struct us_timer *slot_due(struct us_wheel *wheel, unsigned place, u_u64 now_us,
                                 u_u64 *next_us)
{
    struct u_list *link;

    *next_us = wheel_never;
    for (link = wheel->slots[place].next; link != &wheel->slots[place]; link = link->next) {
        struct us_timer *timer = U_CONTAINER_OF(link, struct us_timer, link);
        if (timer->at_us <= now_us)
            return timer;
        *next_us = u_min64(*next_us, timer->at_us);
    }
    return (struct us_timer *)U_NULL;
}

/*
 * Cascades the timers of slot wheel->moving, at most *budget of them. Returns 1 when the slot is
 * empty. The wheel's tick is in the slot's span, so no timer is added to it meanwhile.
 */
static int wheel_cascade(struct us_wheel *wheel, unsigned *budget)
{
    while (wheel->moving != PLACE_NONE) {
        struct u_list *slot = &wheel->slots[wheel->moving];
        struct us_timer *timer = U_CONTAINER_OF(slot->next, struct us_timer, link);

        if (u_list_is_empty(slot)) {
            wheel->moving = PLACE_NONE;
            return 1;
        }
        if (*budget == 0)
            return 0;
        (*budget)--;
        wheel_remove(wheel, timer);
        wheel_insert(wheel, timer);
    }
    return 1;
}

struct us_timer *us_wheel_take(struct us_wheel *wheel, u_u64 now_us, unsigned *budget)
{
    u_u64 now_tick = now_us >> US_WHEEL_TICK_BITS;

    for (;;) {
        struct us_timer *timer;
        unsigned place;
        u_u64 start;

        if (!wheel_cascade(wheel, budget))
            return (struct us_timer *)U_NULL;
        place = first_place(wheel);
        if (now_us < wheel->next_us || place == PLACE_NONE) {
            if (place == PLACE_NONE)
                wheel->next_us = wheel_never;
            if (now_tick > wheel->tick)
                wheel->tick = now_tick;
            return (struct us_timer *)U_NULL;
        }
        start = slot_tick(wheel, place / US_WHEEL_SLOTS, place % US_WHEEL_SLOTS);
        if (start > now_tick) {
            wheel->next_us = start << US_WHEEL_TICK_BITS;
            continue;
        }
        if (start > wheel->tick)
            wheel->tick = start;
        if (place >= US_WHEEL_SLOTS) {
            wheel->moving = place;
            continue;
        }
        timer = slot_due(wheel, place, now_us, &wheel->next_us);
        if (timer == U_NULL)
            continue;
        wheel->next_us = now_us;
        if (*budget == 0)
            return (struct us_timer *)U_NULL;
        (*budget)--;
        us_timer_stop(wheel, timer);
        return timer;
    }
}
