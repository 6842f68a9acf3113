/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be done ahead of a session's turn: its next key is hashed, and what will be looked at is
 * fetched into the cache. Where a get of one key, or a plain set, is all that has come, as it
 * mostly is, that is remembered, and its turn is then this file's as well: the conversation
 * (converse.c) has nothing to add to it.
 */
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/reply.h"
#include "cache/session.h"

/*
 * The key of most text requests is what follows the command's name. Where it is not (gat), or what
 * follows is no key, a bucket is fetched in vain.
 */
static uint32_t text_key(const uint8_t *data, uint32_t len, const uint8_t **key)
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

/* The key of a packet stands behind its extras. */
static uint32_t packet_key(const uint8_t *data, uint32_t len, const uint8_t **key)
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

static inline void hint_set(struct cache_session *session, const uint8_t *bytes, uint32_t len)
{
    struct kv_key key = kv_key(session->worker->kv, bytes, len);

    kv_prefetch_bucket(session->worker->kv_worker, &key);
    session->hint.key = key;
    session->hint.loop = session->worker->loop;
}

/* Neither a get of one key nor a plain set, or it comes when none could be answered at once. */
static __attribute__((noinline)) bool prefetch_other(struct cache_session *session,
                                                     const uint8_t *data, uint32_t len)
{
    const uint8_t *bytes = NULL;
    uint32_t key_len;

    session->hint.key.bytes = NULL;
    if (session->line != NULL || cache_session_phase(session) != CACHE_PHASE_LINE || len == 0)
        return false;
    key_len = data[0] == MC_BINARY_MAGIC_REQUEST ? packet_key(data, len, &bytes)
                                                 : text_key(data, len, &bytes);
    if (key_len > 0)
        hint_set(session, bytes, key_len);
    return false;
}

/*
 * A set as nearly all are: whether it is all of the input, and its value is short. All else that is
 * no get of one key.
 */
static __attribute__((noinline, flatten)) bool prefetch_set(struct cache_session *session,
                                                            const uint8_t *data, uint32_t len)
{
    struct cache_hint *hint = &session->hint;
    uint32_t line_bytes = 0;
    struct mc_set set;

    if (U_LIKELY(cache_session_is_plain(session)))
        line_bytes = mc_parse_set(data, len, &set);
    if (U_UNLIKELY(line_bytes == 0))
        return prefetch_other(session, data, len);
    hint_set(session, data + MC_SET_KEY_OFFSET, set.key_len);
    kv_prefetch_log(session->worker->kv_worker);
    hint->line_bytes = line_bytes;
    hint->exptime = set.exptime;
    return set.flags == 0 && set.value_bytes <= KV_SHORT_MAX - CACHE_CRLF_BYTES &&
           len == line_bytes + set.value_bytes + CACHE_CRLF_BYTES &&
           memcmp(data + len - CACHE_CRLF_BYTES, "\r\n", CACHE_CRLF_BYTES) == 0;
}

__attribute__((flatten)) bool cache_session_prefetch_bucket(struct cache_session *session,
                                                            const uint8_t *data, uint32_t len)
{
    uint32_t key_len;
    uint32_t get_bytes = 0;

    if (U_LIKELY(cache_session_is_plain(session)))
        get_bytes = mc_parse_get(data, len, &key_len);
    if (U_UNLIKELY(get_bytes == 0))
        return prefetch_set(session, data, len);
    hint_set(session, data + MC_GET_KEY_OFFSET, key_len);
    return get_bytes == len;
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

/* A request has been answered at once. */
static inline void answered(struct cache_session *session)
{
    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
    session->hint.key.bytes = NULL;
}

void cache_answered(struct cache_worker *worker, uint64_t read_bytes, uint64_t written_bytes)
{
    cache_count(worker, CACHE_BYTES_READ, read_bytes);
    cache_count(worker, CACHE_BYTES_WRITTEN, written_bytes);
}

/* The same for a set. */
static __attribute__((noinline)) uint32_t answer_set(struct cache_session *session,
                                                     const uint8_t *data, uint32_t len,
                                                     uint8_t *room)
{
    static const char stored[] = "STORED\r\n";
    struct cache_worker *worker = session->worker;
    const struct kv_sizes *sizes = &worker->cache->sizes;
    const struct cache_hint *hint = &session->hint;
    const struct kv_key *key = &hint->key;
    struct kv_short value = {data + hint->line_bytes, len - hint->line_bytes};
    uint64_t item_bytes = kv_sizes_of(sizes, key->len, 0, value.value_len);
    uint32_t exptime;

    if (U_UNLIKELY(key->bytes != data + MC_SET_KEY_OFFSET || worker->noting != 0 ||
                   item_bytes > worker->cache->settings.item_bytes_max))
        return 0;
    exptime = cache_clock_expiry_of_new(worker, (int32_t)hint->exptime);
    if (U_UNLIKELY(kv_replace_short(worker->kv_worker, key, &value, exptime) == 0))
        return 0;
    cache_count(worker, CACHE_CMD_SET, 1);
    cache_add(&worker->classes[kv_sizes_class(sizes, item_bytes)][CACHE_CLASS_CMD_SET], 1);
    memcpy(room, stored, sizeof(stored) - 1);
    answered(session);
    return sizeof(stored) - 1;
}

/*
 * The hint is for this input still: whatever else a session is asked to do forgets it. As no other
 * request is in this input, it need not be noted that the item is shown.
 */
uint32_t cache_session_answer(struct cache_session *session, const uint8_t *data, uint32_t len,
                              uint8_t *room)
{
    struct cache_worker *worker = session->worker;
    const struct kv_key *key = &session->hint.key;
    struct kv_short found;
    uint32_t n;

    if (U_UNLIKELY(data[0] != 'g'))
        return answer_set(session, data, len, room);
    if (U_UNLIKELY(key->bytes != data + MC_GET_KEY_OFFSET || worker->noting != 0 ||
                   !kv_get_short(worker->kv_worker, key, &found)))
        return 0;
    cache_count_near_hit(worker, key->len + found.value_len);
    n = cache_reply_short(worker, room, key, found.value, found.value_len);
    answered(session);
    return n;
}
