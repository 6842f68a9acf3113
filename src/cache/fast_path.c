/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of GET and SET, and the prefetches before it.
 *
 * A transport handles the inputs of a burst in three stages, each for all inputs before the next:
 *
 *   A  cache_session_prefetch_bucket(): parses a get of one key or a set, hashes the
 *      key and prefetches its bucket
 *   B  cache_session_prefetch_item(): compares the tags of the bucket and prefetches the item
 *   C  cache_session_try_fast() or cache_session_input(): executes the request
 *
 * A and B have no effect but the session's hint. Stage C uses the parsed line, the hash and the
 * place of the item from there, so no request is parsed twice.
 *
 * The fast path executes an input that is one complete get of a short value, or one set that
 * replaces a short value; it is a shortcut of the general code in session_input.c and is taken only
 * where the result is the same. settings.fast_path_off turns it off.
 */
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/latency.h"
#include "cache/session.h"
#include "cache/sink_reply.h"

/* ---- stages A and B ---------------------------------------------------------------------- */

/* The word after the command, which is the key of most text requests; returns its length or 0. */
static uint32_t find_text_key(const uint8_t *data, uint32_t len, const uint8_t **key)
{
    enum { NAME_MAX_BYTES = 8 };
    const uint8_t *name_end = memchr(data, ' ', u_min32(len, NAME_MAX_BYTES));
    const uint8_t *at;
    const uint8_t *end;

    if (name_end == NULL)
        return 0;
    at = name_end + 1;
    end = data + u_min32(len, (uint32_t)(at - data) + KV_KEY_MAX);
    *key = at;
    while (at < end && *at != ' ' && *at != '\r' && *at != '\n')
        at++;
    return at == end ? 0 : (uint32_t)(at - *key);
}

/* The key of a binary request, behind its extras; returns its length or 0. */
static uint32_t find_binary_key(const uint8_t *data, uint32_t len, const uint8_t **key)
{
    uint32_t key_len;
    uint32_t extras_len;

    if (len < MC_BINARY_HEADER_BYTES)
        return 0;
    key_len = (uint32_t)data[2] << 8 | data[3];
    extras_len = data[4];
    if (key_len > KV_KEY_MAX || len < MC_BINARY_HEADER_BYTES + extras_len + key_len)
        return 0;
    *key = data + MC_BINARY_HEADER_BYTES + extras_len;
    return key_len;
}

/* Hashes the key and prefetches its bucket. */
static inline void hint_set(struct cache_session *session, const uint8_t *bytes, uint32_t len)
{
    struct kv_key key = kv_key(session->worker->kv, bytes, len);

    kv_prefetch_bucket(session->worker->kv_worker, &key);
    session->hint.key = key;
    session->hint.loop = session->worker->loop;
}

/* Stage A of all other inputs: guesses the key. */
static __attribute__((noinline)) bool prefetch_other(struct cache_session *session,
                                                     const uint8_t *data, uint32_t len)
{
    const uint8_t *bytes = NULL;
    uint32_t key_len;

    session->hint.key.bytes = NULL;
    session->hint.line_bytes = 0;
    if (session->state.encrypted || session->line != NULL ||
        cache_session_phase(session) != CACHE_PHASE_LINE || len == 0)
        return false;
    key_len = data[0] == MC_BINARY_MAGIC_REQUEST ? find_binary_key(data, len, &bytes)
                                                 : find_text_key(data, len, &bytes);
    if (key_len > 0)
        hint_set(session, bytes, key_len);
    return false;
}

/* Stage A of an input that is no get of one key. */
static __attribute__((noinline, flatten)) bool prefetch_set(struct cache_session *session,
                                                            const uint8_t *data, uint32_t len)
{
    uint32_t line_bytes = 0;
    struct mc_set set;

    if (U_LIKELY(cache_session_is_fast_eligible(session)))
        line_bytes = mc_parse_set(data, len, &set);
    if (U_UNLIKELY(line_bytes == 0))
        return prefetch_other(session, data, len);
    hint_set(session, data + MC_FAST_KEY_OFFSET, set.key_len);
    kv_prefetch_log(session->worker->kv_worker);
    session->hint.line_bytes = line_bytes;
    session->hint.set = set;
    return set.flags == 0 && set.value_bytes <= KV_SHORT_MAX - CACHE_CRLF_BYTES &&
           len == line_bytes + set.value_bytes + CACHE_CRLF_BYTES &&
           memcmp(data + len - CACHE_CRLF_BYTES, "\r\n", CACHE_CRLF_BYTES) == 0;
}

/* Stage A; each caller has its own copy. */
static inline __attribute__((always_inline)) bool prefetch_bucket(struct cache_session *session,
                                                                  const uint8_t *data, uint32_t len)
{
    uint32_t key_len;
    uint32_t line_bytes = 0;

    if (U_LIKELY(cache_session_is_fast_eligible(session)))
        line_bytes = mc_parse_get(data, len, &key_len);
    if (U_UNLIKELY(line_bytes == 0))
        return prefetch_set(session, data, len);
    hint_set(session, data + MC_FAST_KEY_OFFSET, key_len);
    session->hint.line_bytes = line_bytes;
    return line_bytes == len;
}

__attribute__((flatten)) bool cache_session_prefetch_bucket(struct cache_session *session,
                                                            const uint8_t *data, uint32_t len)
{
    return prefetch_bucket(session, data, len);
}

bool cache_session_prefetch_opened(struct cache_session *session, const uint8_t *data, uint32_t len)
{
    bool fast_eligible;

    session->state.encrypted = false;
    fast_eligible = prefetch_bucket(session, data, len);
    session->state.encrypted = true;
    return fast_eligible;
}

__attribute__((flatten)) void cache_session_prefetch_item(struct cache_session *session)
{
    struct cache_hint *hint = &session->hint;

    if (hint->key.bytes != NULL)
        hint->item = kv_prefetch_item(session->worker->kv_worker, &hint->key);
}

void cache_session_prefetch_value(struct cache_session *session)
{
    struct cache_hint *hint = &session->hint;

    if (hint->key.bytes != NULL && hint->item != NULL)
        kv_prefetch_value(hint->item);
}

bool cache_values_are_long(const struct cache_worker *worker)
{
    return worker->loop - worker->long_value_loop < CACHE_LONG_VALUE_LOOPS;
}

/* ---- stage C ----------------------------------------------------------------------------- */

static inline void request_done(struct cache_session *session)
{
    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
    session->hint.key.bytes = NULL;
}

void cache_count_fast_bytes(struct cache_worker *worker, uint64_t read_bytes,
                            uint64_t written_bytes)
{
    cache_count(worker, CACHE_BYTES_READ, read_bytes);
    cache_count(worker, CACHE_BYTES_WRITTEN, written_bytes);
}

static __attribute__((noinline)) uint32_t try_set(struct cache_session *session,
                                                  const uint8_t *data, uint32_t len, uint8_t *room)
{
    static const char stored[] = "STORED\r\n";
    struct cache_worker *worker = session->worker;
    const struct kv_sizes *sizes = &worker->cache->sizes;
    const struct cache_hint *hint = &session->hint;
    const struct kv_key *key = &hint->key;
    struct kv_short value = {data + hint->line_bytes, len - hint->line_bytes};
    uint64_t item_bytes = kv_sizes_of(sizes, key->len, 0, value.value_len);
    uint32_t exptime;

    if (U_UNLIKELY(key->bytes != data + MC_FAST_KEY_OFFSET || worker->event_mask != 0 ||
                   item_bytes > worker->cache->settings.item_bytes_max))
        return 0;
    exptime = cache_clock_expiry_of_new(worker, (int32_t)hint->set.exptime);
    if (U_UNLIKELY(kv_replace_short(worker->kv_worker, key, &value, exptime) == 0))
        return 0;
    cache_latency_add(worker, MC_CMD_SET);
    cache_count(worker, CACHE_CMD_SET, 1);
    cache_add(&worker->classes[kv_sizes_class(sizes, item_bytes)][CACHE_CLASS_CMD_SET], 1);
    memcpy(room, stored, sizeof(stored) - 1);
    request_done(session);
    return sizeof(stored) - 1;
}

/*
 * The hint is about this input: any other call of the session clears it. Nothing else is in this
 * input, so the item need not be added to those of pending_items.h.
 */
uint32_t cache_session_try_fast(struct cache_session *session, const uint8_t *data, uint32_t len,
                                uint8_t *room)
{
    struct cache_worker *worker = session->worker;
    const struct kv_key *key = &session->hint.key;
    struct kv_short found;
    uint32_t n;

    if (U_UNLIKELY(data[0] != 'g'))
        return try_set(session, data, len, room);
    if (U_UNLIKELY(key->bytes != data + MC_FAST_KEY_OFFSET || worker->event_mask != 0 ||
                   !kv_get_short(worker->kv_worker, key, &found)))
        return 0;
    cache_latency_add(worker, MC_CMD_GET);
    cache_count_inline_hit(worker, key->len + found.value_len);
    n = cache_reply_short(worker, room, key, found.value, found.value_len);
    request_done(session);
    return n;
}
