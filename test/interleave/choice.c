/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choices of a run. A run is repeated by making the same choices; the runs are gone through
 * depth-first: the last choice that has an alternative left takes it, those before stay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "il.h"

#define CHOICES_MAX 100000
#define GIVEN_MAX 64
#define RANDOM_SHARE 12 /* one choice of so many is not the ordinary one */

struct choice {
    uint32_t place; /* how many occasions for a choice came before it in its run */
    uint16_t taken;
    uint16_t count;
};

static struct choice choices[CHOICES_MAX];
static unsigned depth;  /* made in this run */
static unsigned length; /* that the next run repeats */
static uint32_t place;
static enum il_choosing choosing;
static struct choice given[GIVEN_MAX];
static unsigned given_count;
static struct u_prng prng;

static void read_given(const char *text)
{
    given_count = 0;
    while (text && *text) {
        char *end;
        struct choice *choice = &given[given_count];
        choice->place = (uint32_t)strtoul(text, &end, 10);
        if (*end != '=' || given_count == GIVEN_MAX - 1)
            il_fail("--replay wants PLACE=ALTERNATIVE,...");
        choice->taken = (uint16_t)strtoul(end + 1, &end, 10);
        given_count++;
        text = *end == ',' ? end + 1 : end;
    }
}

void il_choices_reset(enum il_choosing how, const char *text)
{
    choosing = how;
    length = 0;
    depth = 0;
    u_prng_seed(&prng, 1);
    read_given(text);
}

void il_choices_begin(void)
{
    depth = 0;
    place = 0;
}

static unsigned taken_as_given(unsigned count)
{
    for (unsigned i = 0; i < given_count; i++)
        if (given[i].place == place)
            return given[i].taken < count ? given[i].taken : 0;
    return 0;
}

static unsigned taken_at_random(unsigned count)
{
    return u_prng_below(&prng, RANDOM_SHARE) == 0 ? u_prng_below(&prng, count) : 0;
}

bool il_choices_are_given(void)
{
    return choosing == IL_CHOOSE_GIVEN;
}

unsigned il_choose(unsigned count)
{
    place++;
    if (count <= 1)
        return 0;
    if (depth == CHOICES_MAX)
        il_fail("the run is too long");
    struct choice *choice = &choices[depth];
    if (choosing == IL_CHOOSE_GIVEN)
        choice->taken = (uint16_t)taken_as_given(count);
    else if (choosing == IL_CHOOSE_RANDOM)
        choice->taken = (uint16_t)taken_at_random(count);
    else if (depth >= length)
        choice->taken = 0;
    choice->place = place;
    choice->count = (uint16_t)count;
    depth++;
    return choice->taken;
}

bool il_choices_advance(void)
{
    length = depth;
    while (length > 0) {
        struct choice *last = &choices[length - 1];
        if (++last->taken < last->count)
            return true;
        length--;
    }
    return false;
}

void il_choices_print(char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < depth && at < bytes; i++)
        if (choices[i].taken != 0)
            at += (size_t)snprintf(text + at, bytes - at, "%s%u=%u", at > 0 ? "," : "",
                                   choices[i].place, choices[i].taken);
}
