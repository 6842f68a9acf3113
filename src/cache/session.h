/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session, for the files that execute requests and those that show sessions.
 */
#ifndef CACHE_SESSION_H
#define CACHE_SESSION_H

#include "cache/op.h"
#include "mcproto/mcproto.h"

enum cache_phase {
    CACHE_PHASE_LINE = 0, /* waits for a request; `line` is its beginning, if any has come */
    CACHE_PHASE_VALUE,    /* fills upload.item; `line` is the request without its value */
    CACHE_PHASE_SWALLOW,  /* skips a data block that nobody wants, then sends swallow.error */
    CACHE_PHASE_REPLYING, /* stopped between two keys; `line` holds the keys that remain */
    CACHE_PHASE_TOKEN,    /* -Y: fills `line` with user and password */
    CACHE_PHASE_TASK,     /* does something for longer than a request takes (task.h) */
    CACHE_PHASE_CLOSING
};

enum cache_language {
    CACHE_LANGUAGE_UNKNOWN = 0, /* nothing has come yet */
    CACHE_LANGUAGE_TEXT,        /* classic and meta commands */
    CACHE_LANGUAGE_BINARY,
    CACHE_LANGUAGE_AUTH /* text, but nothing except the set that authenticates */
};

struct cache_swallow {
    const char *error; /* null: none is due */
    uint32_t error_len;
    uint32_t left;
};

struct cache_reply_rest {
    uint32_t at; /* offset of the next key in `line`, and where the keys end */
    uint32_t end;
    int32_t exptime; /* gat, gats */
    uint8_t command; /* enum mc_command */
};

/* What a prefetch has found out about the next request (ahead.c). */
struct cache_hint {
    struct kv_key key;          /* its key, or what is thought to be; bytes null: no hint */
    const struct kv_item *item; /* of the key, most likely; or null */
    uint32_t loop;              /* of the worker, when it was made */
    uint32_t line_bytes;        /* of a set that cache_session_answer() may be asked for, */
    uint32_t exptime;           /* and its time of expiry as the client has said it */
};

struct cache_session {
    struct cache_worker *worker;
    struct cache_line *line;
    union {
        struct cache_upload upload;
        struct cache_swallow swallow;
        struct cache_reply_rest rest;
        uint32_t token_bytes; /* CRLF included */
        struct cache_task *task;
        struct cache_session *next_free; /* while it is not open */
    } u;
    struct cache_hint hint;

    /* These four are looked at together (cache_session_is_plain()). */
    uint8_t language;      /* enum cache_language */
    bool blocked;          /* stopped before a request because the sink was full */
    bool yielded;          /* stopped before a request because its turn was over */
    _Atomic uint8_t phase; /* enum cache_phase; `stats conns` of another thread may read it */

    bool counted; /* among the connections: not that of a datagram socket */
    bool open;    /* under the worker's session_lock */

    uint8_t close_reason; /* enum cache_close_reason, for those who watch */

    struct u_list eager_link; /* on the worker's list, or on none (task.h) */
    void *owner;              /* the transport's */

    _Atomic uint32_t last_request_s; /* `stats conns` of another thread may read it */
    uint32_t id;                     /* unique in the process */
    struct cache_peer peer;
};

/* Session structs are made this many at a time and never move. */
#define CACHE_SLAB_SESSIONS 64

struct cache_slab {
    struct cache_slab *next;
    struct cache_session sessions[CACHE_SLAB_SESSIONS];
};

static inline enum cache_phase cache_session_phase(const struct cache_session *session)
{
    return (enum cache_phase)atomic_load_explicit(&session->phase, memory_order_relaxed);
}

static inline void cache_session_set_phase(struct cache_session *session, enum cache_phase phase)
{
    atomic_store_explicit(&session->phase, (uint8_t)phase, memory_order_relaxed);
}

/* Whether it waits for a request, or for more of the one of which `line` is the beginning. */
static inline bool cache_session_is_waiting(const struct cache_session *session)
{
    return ((unsigned)cache_session_phase(session) | session->blocked | session->yielded) == 0;
}

U_STATIC_ASSERT(sizeof(_Atomic uint8_t) == 1 && sizeof(bool) == 1 &&
                    offsetof(struct cache_session, phase) ==
                        offsetof(struct cache_session, language) + 3,
                what_is_looked_at_together_is_one_word);

/*
 * Whether it waits for a request in text of which nothing has come. Asked once for each request:
 * one comparison takes five instructions less than four. Only the session's own thread writes what
 * is read here.
 */
static inline bool cache_session_is_plain(const struct cache_session *session)
{
    static const uint8_t plain[4] = {CACHE_LANGUAGE_TEXT, false, false, CACHE_PHASE_LINE};
    const uint8_t *four = (const uint8_t *)session + offsetof(struct cache_session, language);

    return u_equal(four, plain, sizeof(plain)) && session->line == NULL;
}

/* Whether a request before this one of the same input has been answered. */
static inline bool cache_session_has_replied(const struct cache_session *session)
{
    const struct cache_worker *worker = session->worker;

    return cache_counter(worker, CACHE_BYTES_WRITTEN) != worker->written_before;
}

/* A key of the current request, hashed; the hash of a prefetch is used if it is of this key. */
static inline struct kv_key cache_session_key(const struct cache_session *session,
                                              const uint8_t *bytes, uint32_t len)
{
    const struct cache_hint *hint = &session->hint;

    if (hint->key.bytes == bytes && hint->key.len == len && hint->loop == session->worker->loop)
        return hint->key;
    return kv_key(session->worker->kv, bytes, len);
}

/* Frees the pool; all sessions of the worker have been closed. */
void cache_session_pool_free(struct cache_worker *worker);

#endif
