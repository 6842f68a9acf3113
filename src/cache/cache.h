/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's semantics: bytes of a connection in, bytes of its replies out.
 *
 * A session is one client's conversation. It is the seam between protocol and transport: it knows
 * no packet and no socket, and serves the own TCP/IP stack, kernel sockets and tests alike.
 *
 *   cache          one per process: the key-value table, the settings, the sum of statistics
 *   cache_worker   one per thread: the session pool, counters, the cached time
 *   cache_session  one per connection; belongs to the worker that opened it
 *   cache_sink     where a session writes replies; made by the transport for each call
 */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/settings.h"
#include "kv/kv.h"

struct cache;
struct cache_worker;
struct cache_session;

#define UCACHED_COMPAT_VERSION "1.6.45" /* the memcached whose behaviour is copied */

struct cache_config {
    struct cache_settings settings;
    uint8_t secret[KV_SECRET_BYTES];
    uint64_t start_us;      /* monotonic time at the start; cache_tick() goes on from here */
    uint64_t start_unix_s;  /* the same moment as Unix time, for absolute expiry times */
    uint32_t start_unix_us; /* and the microseconds of that second */
    bool huge_pages;        /* as in struct kv_config, */
    uint64_t numa_nodes;    /* and these two */
    uint64_t touch_ahead_bytes;

    /* The command shutdown: to end the process, after its clients if graceful. May be null. */
    void (*shutdown)(void *ctx, bool graceful);
    void *shutdown_ctx;
};

/* Returns null with *error set to a phrase that says what failed and what to do; see kv_create().
 */
struct cache *cache_create(const struct cache_config *config, const char **error);

/*
 * Reads settings.auth_file (-Y): at the start, and again when it has changed. Returns 0, or -1 with
 * *error set to a phrase; the users are then those of before. Any thread may call it.
 */
int cache_auth_load(struct cache *cache, const char **error);

/* All workers have left. */
void cache_destroy(struct cache *cache);

/* Where the memory of the items has come from. Does not change. */
void cache_placement(const struct cache *cache, struct kv_placement *placement);

/* ---- workers ----------------------------------------------------------------------------- */

/*
 * One per thread, at most settings.threads. Null if that many have joined or memory is short. The
 * worker's time is that of the start until the first cache_tick().
 */
struct cache_worker *cache_join(struct cache *cache);
void cache_leave(struct cache_worker *worker); /* its sessions have been closed */

/*
 * Once per loop, when no session call is running: the time (monotonic, microseconds), delayed
 * flushes, a bounded quantum of housekeeping in the engine.
 */
void cache_tick(struct cache_worker *worker, uint64_t now_us);

/* Around a blocking wait of the worker's thread. */
void cache_offline(struct cache_worker *worker);
void cache_online(struct cache_worker *worker);

/* Ends a reference that a session has put into a sink (cookie of cache_sink_ops.ref). */
void cache_release(struct cache_worker *worker, void *cookie);

/* ---- the byte-stream seam ---------------------------------------------------------------- */

struct cache_sink;

struct cache_sink_ops {
    /*
     * Takes the bytes written so far (from where `at` was last set up to at) and opens at least
     * `need` bytes (1..CACHE_SINK_NEED_MAX) of new contiguous room: sets at and end. Returns 0, or
     * -1 if there is no memory: the session then gives up the connection.
     */
    int (*more)(struct cache_sink *sink, uint32_t need);

    /*
     * Takes the bytes written so far, then queues data..data+len without copying (it may copy if
     * it likes). Calls cache_release(worker, cookie) when the bytes are no longer needed, at once
     * if they were copied. Sets at and end like more(). Returns 0, or -1 as above, the cookie
     * then being released by the session.
     */
    int (*ref)(struct cache_sink *sink, const void *data, uint32_t len, void *cookie);
};

#define CACHE_SINK_NEED_MAX 1024

/*
 * Room for replies: [at, end) may be written by the session, which moves `at`. The transport sets
 * `full` when so much is queued that the session should stop; it stops before the next value.
 * After the session call the transport takes what stands before `at`. at == end == null is a valid
 * start: the session calls more() with its first byte.
 */
struct cache_sink {
    uint8_t *at;
    uint8_t *end;
    bool full;
    const struct cache_sink_ops *ops;
};

/* Who is at the other end, and which of our addresses it has reached. */
struct cache_peer {
    const char *transport; /* "tcp", "tcp6", "udp", "udp6", "unix": as `stats conns` names them */
    uint8_t addr[16];      /* network byte order; IPv4 uses the first four, unix none */
    uint16_t port;
    uint8_t local_addr[16];
    uint16_t local_port;
    enum cache_binding binding; /* of the listener; NEGOTIATE: settings.binding holds */
};

enum cache_session_state {
    CACHE_SESSION_OPEN = 0, /* waits for more input */
    CACHE_SESSION_BLOCKED,  /* stopped because the sink was full; call cache_session_resume() */
    CACHE_SESSION_YIELDED,  /* has had its turn (-R); offer the rest when others have had theirs */
    CACHE_SESSION_CLOSING   /* send what is in the sink, then close the connection */
};

/*
 * A new connection. Null if settings.connections_max are open (the caller then sends the text of
 * MC_STATUS_TOO_MANY_CONNECTIONS and closes; counted as rejected) or memory is short. The session
 * of a datagram socket is no connection: it is not counted.
 */
struct cache_session *cache_session_open(struct cache_worker *worker,
                                         const struct cache_peer *peer);

/* The connection is gone: frees the session and whatever it was about to do. */
void cache_session_close(struct cache_session *session);

/* The same for one that has been idle for longer than settings.idle_timeout_s; counted. */
void cache_session_kick(struct cache_session *session);

/*
 * Forgets what has begun, also the end of the conversation: the next input stands for itself, as
 * each datagram does.
 */
void cache_session_restart(struct cache_session *session);

/*
 * Seconds since the last request if the session waits for one, else 0: whoever is in the middle of
 * a request is not idle.
 */
uint32_t cache_session_idle_s(const struct cache_session *session);

/*
 * Handles input bytes and writes replies. Returns how many bytes were consumed: all of them unless
 * the state afterwards is BLOCKED, YIELDED or CLOSING. What was not consumed is to be offered
 * again: after cache_session_resume() has brought the state back to OPEN, or after YIELDED just so.
 */
uint32_t cache_session_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink);

/* The sink has room again, or the session is eager: goes on with what was interrupted. */
void cache_session_resume(struct cache_session *session, struct cache_sink *sink);

enum cache_session_state cache_session_state(const struct cache_session *session);

/*
 * What comes before the input of a burst (hints, no effect): the first function looks at the first
 * request in data and prefetches its bucket, the second prefetches the beginning of its item, the
 * third the rest of a long one. Call each for all connections of a burst before the next one, then
 * input, which uses the hash that the first has computed: the same data, unchanged, within one
 * loop. The first returns whether cache_session_answer() may be asked.
 */
bool cache_session_prefetch_bucket(struct cache_session *session, const uint8_t *data,
                                   uint32_t len);
void cache_session_prefetch_item(struct cache_session *session);
void cache_session_prefetch_value(struct cache_session *session);

/* Whether the third is worth it: among the values answered lately were some that are not short. */
bool cache_values_are_long(const struct cache_worker *worker);

/*
 * Does what cache_session_input() would do with input that a prefetch in this loop has found to be
 * no more than a get of one key, or a set, if that has found a short value and nobody wants to be
 * told of it. Writes the reply into `room`, which has at least CACHE_SINK_NEED_MAX bytes, and
 * returns its length; 0: nothing was done, and the input is to be offered. The caller sums up the
 * bytes of inputs and replies, and tells them before a session of the worker is asked for anything
 * else.
 */
uint32_t cache_session_answer(struct cache_session *session, const uint8_t *data, uint32_t len,
                              uint8_t *room);
void cache_answered(struct cache_worker *worker, uint64_t read_bytes, uint64_t written_bytes);

/* ---- sessions that act of themselves ----------------------------------------------------- */

/*
 * Some sessions have something to write although nothing has come for them: they stream what other
 * connections do (watch), or are in the middle of a long answer (dumps). Once per loop the
 * transport calls cache_session_resume() for each that cache_eager_next() gives, as often as
 * cache_eager_count() says. It finds the connection by what it has told the session with
 * cache_session_own().
 */
uint32_t cache_eager_count(const struct cache_worker *worker);
struct cache_session *cache_eager_next(struct cache_worker *worker); /* in turns; null: none */

void cache_session_own(struct cache_session *session, void *owner);
void *cache_session_owner(const struct cache_session *session);

/* Longest time that the worker's loop may sleep, whatever the transport waits for. */
uint32_t cache_sleep_us_max(const struct cache_worker *worker);

/* ---- the limit of connections ------------------------------------------------------------ */

/* Whether settings.connections_max sessions are open. */
bool cache_is_full(const struct cache *cache);

/*
 * A transport accepts no more until a connection ends (settings.accept_waits), or goes on after so
 * long. Each worker says so for itself; the statistics show it as one.
 */
void cache_accept_stopped(struct cache_worker *worker);
void cache_accept_resumed(struct cache_worker *worker, uint64_t stopped_us);

/* ---- statistics -------------------------------------------------------------------------- */

/* Emits one line of a `stats` list. */
typedef void cache_stats_emit(void *emit_ctx, const char *name, const char *value);

/* Fills a list, possibly from a thread other than the one that counts. */
typedef void cache_stats_fill(void *ctx, cache_stats_emit *emit, void *emit_ctx);

#define CACHE_STATS_PROVIDER_MAX 8

/*
 * Adds `stats <name>`, for lists that others keep (the stack, the NIC). Before the workers start.
 * The name stays the caller's and must outlive the cache. Returns -1 if there is no place left.
 */
int cache_stats_provider(struct cache *cache, const char *name, cache_stats_fill *fill, void *ctx);

/*
 * Shows a listening socket in `stats conns`: its transport and local address. Before the workers
 * start. Returns -1 if there is no place left.
 */
#define CACHE_LISTENERS_MAX 64
int cache_listener_add(struct cache *cache, const struct cache_peer *listener);

/* Current verbosity: -v, changed by the command `verbosity`. */
unsigned cache_verbosity(const struct cache *cache);

#endif
