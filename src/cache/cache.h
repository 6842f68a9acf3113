/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's semantics: bytes of a connection in, bytes of its replies out.
 *
 * A session is the protocol state of one connection. It is the interface between protocol and
 * transport: it knows no packet and no socket, and serves the own TCP/IP stack, kernel sockets and
 * tests alike.
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

#define CACHE_ERROR_MAX 768

struct cache_config {
    struct cache_settings settings;
    uint8_t secret[KV_SECRET_BYTES];
    uint64_t start_us;      /* monotonic time at the start; cache_tick() continues from it */
    uint64_t start_unix_s;  /* the same moment as Unix time, for absolute expiry times */
    uint32_t start_unix_us; /* and the microseconds of that second */
    bool huge_pages;        /* as in struct kv_config, */
    bool dump_items;        /* and these three */
    uint64_t numa_nodes;
    uint64_t touch_ahead_bytes;
    int memory_fd; /* of settings.memory_file, if that is not null */

    /*
     * Called for the command shutdown: ends the process, after its clients if graceful. May be
     * null.
     */
    void (*shutdown)(void *ctx, bool graceful);
    void *shutdown_ctx;

    /*
     * Reads the certificates again, for the command refresh_certs; called by any thread. Returns 0,
     * or -1 with a message in error[]. Null: there are none.
     */
    int (*refresh_certs)(void *ctx, char error[CACHE_ERROR_MAX]);
    void *refresh_certs_ctx;

    /*
     * Take a line of the log of commands and replies (-vv), and one about a refused request (-v),
     * from any worker. May be null.
     */
    void (*log)(const char *line);
    void (*log_refusal)(const char *line);
};

/* Returns null with *error set to a phrase that says what failed and what to do. */
struct cache *cache_create(const struct cache_config *config, const char **error);

/* The file of users: settings.auth_file, else settings.sasl_file, which may be null. */
const char *cache_auth_file(const struct cache *cache);

/*
 * Reads the file of users, which is not null, at the start and whenever it has changed. Returns 0,
 * or -1 with *error set to a phrase, and the users stay as they were. Any thread may call it.
 */
int cache_auth_load(struct cache *cache, const char **error);

/* settings.acl_file and settings.cluster_file, or null. */
const char *cache_acl_file(const struct cache *cache);
const char *cache_cluster_file(const struct cache *cache);

/*
 * Reads settings.acl_file, which is not null, at the start and whenever it has changed. Returns 0,
 * or -1 with a message that names file and line, and the rules stay as they were. Any thread.
 */
int cache_acl_load(struct cache *cache, char error[CACHE_ERROR_MAX]);

/*
 * Reads settings.cluster_file, which is not null: at the start, before there are workers, and
 * whenever it has changed. Returns 0, or -1 with a message in error[], and the list stays as it
 * was. Any thread may call it.
 */
int cache_cluster_load(struct cache *cache, char error[CACHE_ERROR_MAX]);

/*
 * What the file of settings.memory_file had at the start. The clock that items expire by continues
 * from then by Unix time; it stands still if that has gone back.
 */
const struct kv_restored *cache_restored(const struct cache *cache);

/*
 * Saves the items in the file for the next start, at a monotonic time and a Unix time. All workers
 * have left; only cache_destroy() may follow. Returns null, or a phrase that says why nothing was
 * saved.
 */
const char *cache_save(struct cache *cache, uint64_t now_us, uint64_t unix_s);

/*
 * After cache_save(): the cache continues after all; its workers may return. No other cache has
 * used the file since.
 */
void cache_save_undo(struct cache *cache);

/*
 * Whether a cache of this configuration would take over the items that cache_save() left in
 * config->memory_fd: returns null, or a phrase that says why not. Changes nothing.
 */
const char *cache_examine_memory(const struct cache_config *config);

/*
 * Calls config.refresh_certs, which is not null, and remembers the time (monotonic, microseconds)
 * if it succeeds. Returns 0, or -1 with a message in error[]. Any thread may call it.
 */
int cache_refresh_certs(struct cache *cache, uint64_t now_us, char error[CACHE_ERROR_MAX]);

/* Frees the cache. All workers have left. */
void cache_destroy(struct cache *cache);

/* Where the memory of the items comes from. Does not change. */
void cache_placement(const struct cache *cache, struct kv_placement *placement);

/* ---- workers ----------------------------------------------------------------------------- */

/*
 * Registers the calling thread. Returns null if settings.threads have joined or there is no memory.
 * The worker's time is that of the start until the first cache_tick().
 */
struct cache_worker *cache_join(struct cache *cache);
void cache_leave(struct cache_worker *worker); /* its sessions have been closed */

/*
 * The worker stays, with its sessions, but leaves the engine, so that cache_save() is possible
 * although it has not left the cache; and returns. Sessions must not be called meanwhile; none is
 * in the middle of a request. Returning fails, with false, if there is no memory.
 */
void cache_suspend(struct cache_worker *worker);
bool cache_continue(struct cache_worker *worker);

/*
 * Called once per loop, outside of session calls: sets the time (monotonic, microseconds), runs
 * delayed flushes and a bounded quantum of the engine's housekeeping.
 */
void cache_tick(struct cache_worker *worker, uint64_t now_us);

/* Around a blocking wait of the worker's thread. */
void cache_offline(struct cache_worker *worker);
void cache_online(struct cache_worker *worker);

/* Ends a reference that a session has put into a sink (cookie of cache_sink_ops.ref). */
void cache_release(struct cache_worker *worker, void *cookie);

/* ---- sessions and sinks ------------------------------------------------------------------ */

struct cache_sink;

struct cache_sink_ops {
    /*
     * Takes the bytes written so far (from where `at` was last set up to at) and opens at least
     * `need` bytes (1..CACHE_SINK_NEED_MAX) of new contiguous room: sets at and end. Returns 0, or
     * -1 if there is no memory: the session then closes.
     */
    int (*more)(struct cache_sink *sink, uint32_t need);

    /*
     * Takes the bytes written so far, then queues data..data+len by reference or as a copy. Calls
     * cache_release(worker, cookie) when the bytes are no longer needed, immediately if they were
     * copied. Sets at and end like more(). Returns 0, or -1 as above; the session then releases
     * the cookie.
     */
    int (*ref)(struct cache_sink *sink, const void *data, uint32_t len, void *cookie);
};

#define CACHE_SINK_NEED_MAX 1024

/*
 * Room for replies: the session writes to [at, end) and advances `at`. The transport sets `full`
 * when so much is queued that the session should stop; it stops before the next value. After the
 * session call the transport takes the bytes before `at`. at == end == null is a valid start.
 */
struct cache_sink {
    uint8_t *at;
    uint8_t *end;
    bool full;
    const struct cache_sink_ops *ops;
};

/* The addresses of a connection. */
struct cache_peer {
    const char *transport; /* "tcp", "tcp6", "udp", "udp6", "unix": as `stats conns` names them */
    uint8_t addr[16];      /* network byte order; IPv4 uses the first four, unix none */
    uint16_t port;
    uint8_t local_addr[16];
    uint16_t local_port;
    uint8_t binding; /* enum cache_binding of the listener; NEGOTIATE: settings.binding holds */
    uint8_t tls;     /* enum cache_tls, likewise */
};

enum cache_session_state {
    CACHE_SESSION_OPEN = 0, /* waits for more input */
    CACHE_SESSION_BLOCKED,  /* stopped: the sink was full; call cache_session_resume() */
    CACHE_SESSION_YIELDED,  /* its share of the loop (-R) is used up */
    CACHE_SESSION_CLOSING   /* send what is in the sink, then close the connection */
};

/*
 * Opens the session of a new connection. Returns null if there is no memory, or if
 * settings.connections_max are open (counted as rejected): the caller then sends the text of
 * MC_STATUS_TOO_MANY_CONNECTIONS and closes. The session of a datagram socket is not counted as a
 * connection.
 */
struct cache_session *cache_session_open(struct cache_worker *worker,
                                         const struct cache_peer *peer);

/* The connection has ended: frees the session and its unfinished work. */
void cache_session_close(struct cache_session *session);

/* The same, counted, for one that has been idle for longer than settings.idle_timeout_s. */
void cache_session_close_idle(struct cache_session *session);

/*
 * Returns to the initial state, also from CLOSING: the next input is independent of earlier ones,
 * as each datagram is.
 */
void cache_session_restart(struct cache_session *session);

/*
 * TLS has failed on the connection: counts it, by whether this was in the handshake, and tells
 * watchers the reason. The session is closed soon.
 */
void cache_session_tls_failed(struct cache_session *session, bool in_handshake, const char *reason);

/* A handshake has made a TLS session, or resumed one: counted. */
void cache_count_tls_handshake(struct cache_worker *worker, bool resumed);

/* The addresses that it was opened with; valid as long as the session. */
const struct cache_peer *cache_session_peer(const struct cache_session *session);

/* What a session is doing when its process is to be replaced. */
enum cache_rest {
    CACHE_REST_BUSY = 0, /* in the middle of a request: it needs input, or room for a reply */
    CACHE_REST_ENDS,     /* it cannot move, and its client waits for no reply: a watcher, or a
                          * session with an identity of SASL or the rights of one */
    CACHE_REST_MOVES     /* it can be continued elsewhere */
};

/* What continues a session in another process. */
struct cache_session_saved {
    uint8_t protocol;    /* as the session has detected it */
    uint32_t idle_s;     /* since its last request */
    const uint8_t *line; /* the beginning of a request; the session's */
    uint32_t line_bytes;
};

/* Fills in *saved if the result is CACHE_REST_MOVES. */
enum cache_rest cache_session_rest(const struct cache_session *session,
                                   struct cache_session_saved *saved);

/*
 * Makes a new session, which has had no input, one that was saved; the caller gives it the line as
 * input. False: the values are not possible.
 */
bool cache_session_continue(struct cache_session *session, const struct cache_session_saved *saved);

/*
 * The peer has shown a certificate that was verified, with this name; once for each of its names,
 * before the first input. Without settings.acl_file it has no effect.
 */
void cache_session_add_cert_name(struct cache_session *session, const char *name, uint32_t len);

/* Seconds since the last request if the session waits for one; 0 in the middle of a request. */
uint32_t cache_session_idle_s(const struct cache_session *session);

/*
 * Handles input bytes and writes replies. Returns how many bytes it consumed: all of them unless
 * the state afterwards is BLOCKED, YIELDED or CLOSING. The caller offers the remaining bytes again:
 * after BLOCKED once cache_session_resume() has set the state to OPEN, after YIELDED in its next
 * pass.
 */
uint32_t cache_session_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink);

/* The sink has room again, or the session is resumable: continues interrupted work. */
void cache_session_resume(struct cache_session *session, struct cache_sink *sink);

enum cache_session_state cache_session_state(const struct cache_session *session);

/*
 * Prefetching for a burst of inputs (fast_path.c). Call the first function for the first input of
 * each connection, then the second for each, then the third if cache_values_are_long(), then
 * execute the inputs in order: the same bytes, unchanged, in the same loop. None has an effect but
 * the session's hint. The first returns whether cache_session_try_fast() may be called.
 */
bool cache_session_prefetch_bucket(struct cache_session *session, const uint8_t *data,
                                   uint32_t len);

/*
 * The first function for a session with TLS, whose input in this loop is the plaintext `data`. For
 * other sessions' ciphertext the first function does nothing.
 */
bool cache_session_prefetch_opened(struct cache_session *session, const uint8_t *data,
                                   uint32_t len);

void cache_session_prefetch_item(struct cache_session *session);
void cache_session_prefetch_value(struct cache_session *session);

/* Whether a long value was answered recently, so that prefetching beyond the first lines pays. */
bool cache_values_are_long(const struct cache_worker *worker);

/*
 * Executes an input for which cache_session_prefetch_bucket() has returned true in this loop, if it
 * is a get that hits a short value, or a set that replaces one, and no watcher or prefix statistics
 * are on. Writes the reply into `room` of CACHE_SINK_NEED_MAX bytes and returns its length. Returns
 * 0 if it did nothing; call cache_session_input() then. The caller adds up the bytes of inputs and
 * replies and passes them to cache_count_fast_bytes() before any other call of a session.
 */
uint32_t cache_session_try_fast(struct cache_session *session, const uint8_t *data, uint32_t len,
                                uint8_t *room);
void cache_count_fast_bytes(struct cache_worker *worker, uint64_t read_bytes,
                            uint64_t written_bytes);

/* ---- resumable sessions ------------------------------------------------------------------ */

/*
 * Some sessions write without input: watchers and long dumps. In each loop the transport calls
 * cache_session_resume() for sessions that cache_resumable_next() returns, in turns, at most
 * cache_resumable_count() times. The owner, set with cache_session_set_owner(), leads to the
 * connection.
 */
uint32_t cache_resumable_count(const struct cache_worker *worker);
struct cache_session *cache_resumable_next(struct cache_worker *worker); /* null: none */

void cache_session_set_owner(struct cache_session *session, void *owner);
void *cache_session_owner(const struct cache_session *session);

/* The longest time that the worker's loop may sleep, whatever the transport waits for. */
uint32_t cache_sleep_us_max(const struct cache_worker *worker);

/* ---- the limit of connections ------------------------------------------------------------ */

/* Whether settings.connections_max sessions are open. */
bool cache_is_full(const struct cache *cache);

/*
 * A worker's transport has stopped accepting until a connection ends (settings.accept_waits), or
 * accepts again after stopped_us.
 */
void cache_accept_stopped(struct cache_worker *worker);
void cache_accept_resumed(struct cache_worker *worker, uint64_t stopped_us);

/* ---- latency ----------------------------------------------------------------------------- */

#define CACHE_LATENCY_CLASSES 21 /* commands with a histogram of their own, and all others */
#define CACHE_LATENCY_SUB_BITS 5
#define CACHE_LATENCY_MAX_BITS 36 /* times are below 2^36 ns, 68 s */
#define CACHE_LATENCY_SLOTS                                                                        \
    ((CACHE_LATENCY_MAX_BITS - CACHE_LATENCY_SUB_BITS + 1) << CACHE_LATENCY_SUB_BITS)

struct cache_latency {
    uint64_t slots[CACHE_LATENCY_SLOTS]; /* requests, by time */
};

/* The histogram of a class since the last `stats reset`, all workers; returns its requests. */
uint64_t cache_latency_read(struct cache *cache, unsigned class, struct cache_latency *sum);

/* The sum of the times, each the middle of its slot. */
uint64_t cache_latency_sum_ns(const struct cache_latency *sum);

/* "get", "set", ...; "other" for class 0. */
const char *cache_latency_name(unsigned class);

/*
 * How many of the requests took less than this; exact where a slot begins, as at each power of two.
 */
uint64_t cache_latency_below(const struct cache_latency *sum, uint64_t ns);

/* ---- statistics -------------------------------------------------------------------------- */

/* Emits one line of a `stats` list. */
typedef void cache_stats_emit(void *emit_ctx, const char *name, const char *value);

/* Fills a list, possibly from a thread other than the one that counts. */
typedef void cache_stats_fill(void *ctx, cache_stats_emit *emit, void *emit_ctx);

/*
 * Fills a list for a thread that is not a worker: the lines of `stats` about the cache (null name),
 * `kv`, or a list of cache_stats_provider(). Takes locks that workers hold for statistics only.
 * now_us: on the clock of cache_tick(). Returns false if there is no such list.
 */
bool cache_stats_read(struct cache *cache, uint64_t now_us, const char *name,
                      cache_stats_emit *emit, void *ctx);

#define CACHE_STATS_PROVIDER_MAX 8

/*
 * Adds `stats <name>` for a list of another component (the stack, the NIC). Before the workers
 * start. The name must outlive the cache. Returns 0, or -1 if CACHE_STATS_PROVIDER_MAX are there.
 */
int cache_stats_provider(struct cache *cache, const char *name, cache_stats_fill *fill, void *ctx);

/*
 * Shows a listening socket in `stats conns`: its transport and local address. Before the workers
 * start. Returns 0, or -1 if CACHE_LISTENERS_MAX are there.
 */
#define CACHE_LISTENERS_MAX 64
int cache_listener_add(struct cache *cache, const struct cache_peer *listener);

/* Current verbosity: -v, changed by the command `verbosity`. */
unsigned cache_verbosity(const struct cache *cache);

#endif
