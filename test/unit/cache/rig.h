/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cache with one worker and one session, and a transport that keeps what the session writes.
 *
 * The transport can be made as awkward as the seam allows: rooms of any size, each its own heap
 * block so that writing beyond it is noticed, full after any number of bytes, out of memory at any
 * call, and slow to release what it was given by reference.
 */
#ifndef TEST_CACHE_RIG_H
#define TEST_CACHE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache.h"

#define RIG_UNIX_S 1700000000u /* Unix time at which the cache is started */
#define RIG_START_US 5000000u  /* the same moment on the monotonic clock */

#define RIG_REFS_MAX 64

struct rig_sink {
    struct cache_sink sink;
    struct cache_worker *worker;

    uint32_t room_bytes; /* size of each room, if not more is needed; 0: as much as is needed */
    uint32_t full_bytes; /* full when this much has been taken since rig_drain(); 0: never */
    int fail_after;      /* calls of more() and ref() that succeed; -1: all */
    bool hold_refs;      /* keep references until rig_release() */

    uint8_t *room;  /* the open room */
    uint8_t *taken; /* all that has been written, in order */
    size_t taken_len;
    size_t taken_capacity;
    size_t drained_len;

    struct {
        const uint8_t *data;
        uint32_t len;
        size_t at; /* in taken */
        void *cookie;
    } refs[RIG_REFS_MAX];
    unsigned ref_count;
    unsigned ref_calls;
};

struct rig {
    struct cache_config config;
    struct cache *cache;
    struct cache_worker *worker;
    struct cache_session *session;
    uint64_t now_us;
    struct rig_sink out;
};

/* How often a test tries what it tries `count` times: valgrind is slow, and gets a tenth. */
size_t rig_rounds(size_t count);

/* The default settings: 64 MiB, items of up to 1 MiB, two workers. */
struct cache_config rig_config(void);

void rig_open(struct rig *rig, const struct cache_config *config);

/* Also checks that the engine is sound and that no item is pinned or unpublished any more. */
void rig_close(struct rig *rig);

/* For cmocka's setup and teardown: *state is a struct rig with the default settings. */
int rig_setup(void **state);
int rig_teardown(void **state);

void rig_sink_init(struct rig_sink *out, struct cache_worker *worker);
void rig_sink_free(struct rig_sink *out);

/* Takes the written bytes, so that the sink is not full any more. */
void rig_drain(struct rig_sink *out);

/* The same, and begins again at the start of `taken`. No reference is held. */
void rig_forget(struct rig_sink *out);

/* Releases held references, after checking that the bytes are unchanged. */
void rig_release(struct rig_sink *out);

/*
 * Offers bytes once, from a heap block of their size and as the stack's connections do: after a
 * prefetch that has seen ahead_len of them (0: none), and by the fast path if it is eligible.
 * Returns how many were consumed.
 */
uint32_t rig_offer(struct rig *rig, const void *bytes, uint32_t len, uint32_t ahead_len);

/*
 * Offers bytes in slices of slice_bytes (0: in one) and resumes as long as the session is blocked.
 * Returns how many were consumed.
 */
size_t rig_feed_sliced(struct rig *rig, const void *bytes, size_t len, size_t slice_bytes);
size_t rig_feed(struct rig *rig, const char *text);

/* Feeds a request; the reply must be exactly this. */
void rig_expect(struct rig *rig, const char *request, const char *reply);

/* "set <key> <flags> <exptime> <len>", then len times `fill`; the reply must be this. */
void rig_expect_set(struct rig *rig, const char *key, uint32_t len, char fill, const char *reply);

/* One more loop: a tick, and the session is resumed if it is resumable. */
void rig_turn(struct rig *rig);

/* Adds to the string of *len bytes in text, which has size bytes of room. */
void rig_append(char *text, size_t size, size_t *len, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Lets time pass. */
void rig_wait(struct rig *rig, unsigned seconds);

/* The bytes taken since the last call or drain, as a string that is valid until the next one. */
const char *rig_reply(struct rig *rig);

/* The value of a line of `stats <list>`, which must be there; null list: the general one. */
uint64_t rig_stat(struct rig *rig, const char *list, const char *name);

#endif
