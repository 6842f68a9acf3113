/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of a session: what a client sends is offered in slices, with a transport of small rooms
 * that is soon full. The first bytes of the input choose slices, rooms and settings.
 *
 *   - a session takes all it is offered, unless it ends or waits for room, and it always continues
 *     when there is room;
 *   - nothing is written beyond a room, nothing is read beyond the offered bytes;
 *   - the engine stays sound, with nothing pinned and nothing unpublished.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/cache_worker.h"

#define MANNER_BYTES 4
#define ROOM_BYTES_MAX 4096
#define REPLY_BYTES_MAX (8u << 20) /* then the input has been answered often enough */
#define START_US 5000000u
#define SECOND_US 1000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* How an input is offered. */
struct manner {
    uint32_t slice_bytes;
    uint32_t room_bytes;
    uint32_t full_bytes;
    unsigned settings;
};

struct transport {
    struct cache_sink sink;
    struct cache_worker *worker;
    const struct manner *manner;
    uint8_t *room;
    uint64_t sum; /* of all bytes: they have to be there */
    uint64_t bytes;
    uint64_t drained;
};

static void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* ---- the transport ----------------------------------------------------------------------- */

static void take(struct transport *transport, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        transport->sum += bytes[i];
    transport->bytes += len;
    if (transport->bytes - transport->drained >= transport->manner->full_bytes)
        transport->sink.full = true;
}

static void room_take(struct transport *transport)
{
    if (transport->room != NULL)
        take(transport, transport->room, (size_t)(transport->sink.at - transport->room));
    free(transport->room);
    transport->room = NULL;
    transport->sink.at = NULL;
    transport->sink.end = NULL;
}

/* Each room is a block of its own, so that a byte beyond it is noticed. */
static int room_more(struct cache_sink *sink, uint32_t need)
{
    struct transport *transport = (struct transport *)sink;
    uint32_t bytes = transport->manner->room_bytes;

    check(need >= 1 && need <= CACHE_SINK_NEED_MAX, "bound of the room that is asked for");
    if (bytes < need)
        bytes = need;
    room_take(transport);
    transport->room = malloc(bytes);
    check(transport->room != NULL, "memory");
    sink->at = transport->room;
    sink->end = transport->room + bytes;
    return 0;
}

static int room_ref(struct cache_sink *sink, const void *bytes, uint32_t len, void *cookie)
{
    struct transport *transport = (struct transport *)sink;

    room_take(transport);
    take(transport, bytes, len);
    cache_release(transport->worker, cookie);
    return 0;
}

static const struct cache_sink_ops transport_ops = {room_more, room_ref};

/* ---- a run ------------------------------------------------------------------------------- */

static struct cache *open_cache(const struct manner *manner)
{
    struct cache_config config = {.start_us = START_US, .start_unix_s = 1700000000};
    struct cache_settings *settings = &config.settings;
    const char *error = "";
    struct cache *cache;

    cache_settings_defaults(settings);
    settings->memory_bytes = 2u << 20;
    settings->item_bytes_max = 256u << 10;
    settings->threads = 1;
    settings->evict = (manner->settings & 1) == 0;
    settings->cas_disabled = (manner->settings & 2) != 0;
    settings->flush_disabled = (manner->settings & 4) != 0;
    settings->dump_disabled = (manner->settings & 8) != 0;
    settings->detail_enabled = (manner->settings & 16) != 0;
    cache = cache_create(&config, &error);
    check(cache != NULL, error);
    return cache;
}

/* Makes room until the session is not blocked any more. */
static void unblock(struct cache_session *session, struct transport *transport)
{
    uint64_t tries = 0;

    while (cache_session_state(session) == CACHE_SESSION_BLOCKED) {
        room_take(transport);
        transport->drained = transport->bytes;
        transport->sink.full = false;
        cache_session_resume(session, &transport->sink);
        check(tries++ < REPLY_BYTES_MAX, "a session continues when there is room");
    }
}

/* The fast path. False if it is not taken. */
static bool answer(struct cache_session *session, struct transport *transport, const uint8_t *data,
                   uint32_t len)
{
    uint8_t *room;
    uint32_t n;

    if (transport->sink.full)
        return false;
    room = malloc(CACHE_SINK_NEED_MAX);
    check(room != NULL, "memory");
    n = cache_session_try_fast(session, data, len, room);
    check(n <= CACHE_SINK_NEED_MAX, "a short answer fits its room");
    if (n > 0)
        cache_count_fast_bytes(transport->worker, len, n);
    room_take(transport);
    take(transport, room, n);
    free(room);
    return n > 0;
}

/* Offers a slice as long as it takes; false if the session has ended. */
static bool offer(struct cache_session *session, struct transport *transport, const uint8_t *data,
                  uint32_t len)
{
    while (len > 0) {
        uint8_t *copy = malloc(len);
        uint32_t n = len;
        bool alone;

        check(copy != NULL, "memory");
        memcpy(copy, data, len);
        alone = cache_session_prefetch_bucket(session, copy, len);
        cache_session_prefetch_item(session);
        cache_session_prefetch_value(session);
        if (!alone || !answer(session, transport, copy, len))
            n = cache_session_input(session, copy, len, &transport->sink);
        free(copy);
        check(n <= len, "no more is taken than was offered");
        if (cache_session_state(session) == CACHE_SESSION_OPEN)
            check(n == len, "an open session has taken everything");
        unblock(session, transport);
        if (cache_session_state(session) == CACHE_SESSION_CLOSING)
            return false;
        data += n;
        len -= n;
    }
    return transport->bytes < REPLY_BYTES_MAX;
}

static void run(const struct manner *manner, const uint8_t *data, size_t len)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct cache *cache = open_cache(manner);
    struct cache_worker *worker = cache_join(cache);
    struct cache_session *session = cache_session_open(worker, &peer);
    struct transport transport = {
        .worker = worker, .manner = manner, .sink = {.ops = &transport_ops}};
    uint64_t now_us = START_US;
    struct kv_stats stats;
    const char *broken;

    check(worker != NULL && session != NULL, "memory");
    for (size_t at = 0; at < len; at += manner->slice_bytes) {
        size_t left = len - at;

        if (!offer(session, &transport, data + at,
                   (uint32_t)(left < manner->slice_bytes ? left : manner->slice_bytes)))
            break;
        now_us += SECOND_US / 4;
        cache_tick(worker, now_us);
    }
    room_take(&transport);
    cache_session_close(session);
    cache_leave(worker);
    kv_stats(cache->kv, &stats);
    check(stats.pinned == 0, "nothing is pinned any more");
    broken = kv_check(cache->kv);
    check(broken == NULL, broken);
    cache_destroy(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct manner manner;

    if (len < MANNER_BYTES)
        return 0;
    manner.slice_bytes = data[0] == 0 ? 1u << 20 : data[0];
    manner.room_bytes = data[1] * 16u + 1;
    manner.full_bytes = data[2] == 0 ? UINT32_MAX : data[2] * 8u;
    manner.settings = data[3];
    run(&manner, data + MANNER_BYTES, len - MANNER_BYTES);
    return 0;
}
