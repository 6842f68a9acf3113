/* SPDX-License-Identifier: BSD-3-Clause */
/* The session, for the files that execute requests and those that show sessions. */
#ifndef CACHE_SESSION_H
#define CACHE_SESSION_H

#include <string.h>

#include "cache/op.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"

/* Whether the name of the transport begins with this word: "udp" for udp6, too. */
static inline bool cache_peer_is(const struct cache_peer *peer, const char *word)
{
    return strncmp(peer->transport, word, strlen(word)) == 0;
}

enum cache_phase {
    CACHE_PHASE_LINE = 0, /* waits for a request; `line` is its beginning, if any has come */
    CACHE_PHASE_VALUE,    /* fills u.upload; `line` is the request without its value */
    CACHE_PHASE_DISCARD,  /* skips a data block, then sends u.discard.error */
    CACHE_PHASE_REPLYING, /* stopped between two keys; u.remaining are offsets in `line` */
    CACHE_PHASE_TOKEN,    /* -Y, -S: fills `line` with user and password */
    CACHE_PHASE_TASK,     /* does work that takes longer than a request may (task.h) */
    CACHE_PHASE_CLOSING
};

enum cache_protocol {
    CACHE_PROTOCOL_UNKNOWN = 0, /* no byte has come */
    CACHE_PROTOCOL_TEXT,        /* classic and meta commands */
    CACHE_PROTOCOL_BINARY,
    CACHE_PROTOCOL_AUTH /* text, of which only the set that authenticates is allowed */
};

struct cache_discard {
    const char *error; /* null: none is due */
    uint32_t error_len;
    uint32_t left;
};

/* The keys of a get that have no answer yet. */
struct cache_remaining_keys {
    uint32_t at; /* offsets in `line` */
    uint32_t end;
    int32_t exptime; /* gat, gats */
    uint8_t command; /* enum mc_command */
};

/*
 * What stage A has found at the start of an input (fast_path.c): the key of the first request, and
 * if that is a get of one key or a set, the parsed line. Valid for this input in this loop.
 */
struct cache_hint {
    struct kv_key key;          /* the probable key, hashed; bytes null: no hint */
    const struct kv_item *item; /* the probable item, or null */
    uint32_t loop;              /* worker->loop at the time */
    uint32_t line_bytes;        /* of a parsed get or set; 0: not parsed */
    struct mc_set set;          /* the numbers of a set */
};

/* Why a session has stopped before a request. */
enum cache_stop {
    CACHE_STOP_NONE = 0,
    CACHE_STOP_FULL, /* the sink was full */
    CACHE_STOP_TURN  /* its share of the loop (-R) was used up */
};

/* The fields that decide whether an input may take the fast path, compared as one word. */
struct cache_session_state_word {
    uint8_t protocol;      /* enum cache_protocol */
    uint8_t stop;          /* enum cache_stop */
    bool encrypted;        /* the transport's input is not the session's */
    _Atomic uint8_t phase; /* enum cache_phase; `stats conns` of another thread reads it */
};

U_STATIC_ASSERT(sizeof(struct cache_session_state_word) == 4, session_state_is_one_word);

struct cache_session {
    struct cache_worker *worker;
    struct cache_linebuf *line;
    union {
        struct cache_upload upload;
        struct cache_discard discard;
        struct cache_remaining_keys remaining;
        uint32_t token_bytes; /* of all that `line` will hold */
        struct cache_task *task;
        struct cache_session *next_free; /* while the struct is not in use */
    } u;
    struct cache_hint hint;
    struct cache_session_state_word state;

    bool counted;         /* as a connection: not the session of a datagram socket */
    bool open;            /* in use; under the worker's session_lock */
    uint8_t close_reason; /* enum cache_close_reason, for watchers */
    uint8_t sasl;         /* bits of enum cache_sasl_state (sasl.h) */

    struct u_list resumable_link; /* on the worker's list (task.h), or on none */
    void *owner;                  /* the transport's */

    _Atomic uint32_t last_request_s; /* `stats conns` of another thread reads it */
    uint32_t id;                     /* unique in the process */
    struct cache_access *access;     /* its rights (acl.h), or null */
    struct cache_peer peer;
};

/* Session structs are allocated this many at a time and never move. */
#define CACHE_SESSIONS_PER_SLAB 64

struct cache_session_slab {
    struct cache_session_slab *next;
    struct cache_session sessions[CACHE_SESSIONS_PER_SLAB];
};

static inline enum cache_phase cache_session_phase(const struct cache_session *session)
{
    return (enum cache_phase)atomic_load_explicit(&session->state.phase, memory_order_relaxed);
}

static inline void cache_session_set_phase(struct cache_session *session, enum cache_phase phase)
{
    atomic_store_explicit(&session->state.phase, (uint8_t)phase, memory_order_relaxed);
}

/* Whether it waits for a request, or for more of the one that begins in `line`. */
static inline bool cache_session_is_waiting(const struct cache_session *session)
{
    const struct cache_session_state_word *state = &session->state;

    return ((unsigned)cache_session_phase(session) | state->stop) == 0;
}

/*
 * Whether it waits for a text request of which no byte has come. One comparison of the word is five
 * instructions shorter than four of its bytes; only the session's thread writes them.
 */
static inline bool cache_session_is_fast_eligible(const struct cache_session *session)
{
    static const struct cache_session_state_word eligible = {.protocol = CACHE_PROTOCOL_TEXT};

    return u_equal(&session->state, &eligible, sizeof(eligible)) && session->line == NULL;
}

/* Whether an earlier request of the same input has been answered. */
static inline bool cache_session_has_replied(const struct cache_session *session)
{
    const struct cache_worker *worker = session->worker;

    return cache_counter(worker, CACHE_BYTES_WRITTEN) != worker->written_before;
}

/* Whether the hint is about the request whose key is at `bytes`. */
static inline bool cache_hint_is_for(const struct cache_session *session, const uint8_t *bytes)
{
    const struct cache_hint *hint = &session->hint;

    return hint->key.bytes == bytes && hint->loop == session->worker->loop;
}

/* A key of the current request with its hash, which the hint may have already. */
static inline struct kv_key cache_session_key(const struct cache_session *session,
                                              const uint8_t *bytes, uint32_t len)
{
    if (cache_hint_is_for(session, bytes) && session->hint.key.len == len)
        return session->hint.key;
    return kv_key(session->worker->kv, bytes, len);
}

/* ---- transitions (session_input.c) ------------------------------------------------------- */

/* The request has been answered (result 0), or the session has to close (-1). */
void cache_session_done(struct cache_session *session, int result);

/* Skips `bytes` of input and then sends the error; null: none. */
void cache_session_discard(struct cache_session *session, uint32_t bytes, const char *error,
                           uint32_t error_len);

/*
 * Keeps the bytes of a request, without its value, beyond this input. False if there is no memory:
 * the session closes.
 */
bool cache_session_keep_request(struct cache_session *session, const uint8_t *bytes, uint32_t len,
                                struct cache_sink *sink);

/* mc_parse() or mc_parse_binary(), as the session's protocol says. */
enum mc_outcome cache_session_parse(const struct cache_session *session, const uint8_t *bytes,
                                    uint32_t len, struct mc_request *request);

/* ---- users, and ASCII authentication (auth.c) -------------------------------------------- */

/*
 * With -Y the first command of a text session has to be a set whose value is "user password", as in
 * the file of users.
 */
#define CACHE_AUTH_TOKEN_MAX 16384 /* of what a client may send */

/* The kind of a line before authentication. */
enum cache_auth_verdict {
    CACHE_AUTH_TOKEN,    /* the token follows */
    CACHE_AUTH_REFUSED,  /* another command */
    CACHE_AUTH_TOO_LONG, /* the token is too long */
    CACHE_AUTH_CLOSE     /* too short for a command */
};

/* Reads a line with its line feed; *token_bytes is the length of the token without its CRLF. */
enum cache_auth_verdict cache_auth_line(const uint8_t *line, uint32_t len, uint32_t *token_bytes);

/*
 * Checks a token with its CRLF; returns the status to reply: MC_STATUS_STORED if it is right.
 * Counted. Its time depends on lengths only, not on how much of a password is right.
 */
enum mc_status cache_auth_token(struct cache_session *session, const uint8_t *token, uint32_t len);

/* Whether there is such a user with this password. */
bool cache_auth_check(struct cache *cache, const uint8_t *name, uint32_t name_len,
                      const uint8_t *password, uint32_t password_len);

/* ---- the pool (session.c) ---------------------------------------------------------------- */

/* Frees the pool; all sessions of the worker are closed. */
void cache_session_pool_free(struct cache_worker *worker);

#endif
