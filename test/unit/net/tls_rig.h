/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of TLS between a transport and sessions: a transport that is a queue in memory and full
 * after any number of bytes, and peers that are OpenSSL's clients. Handshakes are made by the
 * worker, or by threads beside it.
 */
#ifndef NET_TLS_RIG_H
#define NET_TLS_RIG_H

#include <sched.h>

#include "../balance.h"
#include "../tls/tls_client.h"
#include "cache_end.h"
#include "net/tls_offload.h"

#define PEERS_MAX 44
#define QUEUE_MAX (1 << 20)
#define INPUT_MAX (1 << 20)
#define THREADS 2

static bool with_threads;

static struct cert server_cert;

/* One connection as its transport has it, and the client on the other end. */
struct peer {
    struct net_conn conn; /* first */
    uint8_t *queued;      /* to the client */
    uint32_t queued_len;
    uint32_t full_bytes; /* from which on the queue is full */
    bool no_memory;
    bool exact;     /* no more room is reserved than is asked for */
    uint8_t *input; /* from the client, not consumed yet */
    uint32_t input_len;
    unsigned resumed; /* calls of the transport's function, in the order of the fixture */
    struct tls_client client;
};

struct fixture {
    struct net_conns conns;
    struct cache *cache;
    struct tls_context *server;
    struct net_tls_steps *steps; /* null: the worker makes handshakes */
    pthread_t threads[THREADS];
    unsigned thread_count; /* that run */
    struct peer peers[PEERS_MAX];
    unsigned peer_count;
    unsigned resumes;
    unsigned opened;        /* records that were opened ahead */
    unsigned answered_fast; /* of these */
    unsigned to_fail;       /* the server's allocation of this number fails; 0: none */
};

/* Around what the server does. */
static inline void server_begins(const struct fixture *f)
{
    (void)balance_fail(f->to_fail);
}

static inline void server_ends(struct fixture *f)
{
    f->to_fail = balance_fail(0);
}

/* ---- the transport ----------------------------------------------------------------------- */

static inline struct peer *peer_of(struct net_conn *conn)
{
    return (struct peer *)conn;
}

static inline uint8_t *queue_reserve(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                                     uint32_t *room)
{
    struct peer *peer = peer_of(conn);

    if (peer->no_memory)
        return NULL;
    assert_true(peer->queued_len + need <= QUEUE_MAX);
    *room = peer->exact ? need : need + need / 2;
    return peer->queued + peer->queued_len;
}

static inline void queue_commit(struct net_conns *conns, struct net_conn *conn, uint32_t used)
{
    peer_of(conn)->queued_len += used;
}

static inline int no_refs(struct net_conns *conns, struct net_conn *conn, const void *data,
                          uint32_t len, void *cookie)
{
    fail_msg("plaintext of an item reaches the transport");
    return -1;
}

static inline bool queue_is_full(struct net_conns *conns, struct net_conn *conn)
{
    return peer_of(conn)->queued_len >= peer_of(conn)->full_bytes;
}

static inline void transport_resume(struct net_conns *conns, struct net_conn *conn)
{
    struct fixture *f = (struct fixture *)conns;

    peer_of(conn)->resumed = ++f->resumes;
    net_conn_resume(conns, conn);
}

static inline void close_idle(struct net_conns *conns, struct net_conn *conn)
{
    net_conn_close_session(conn);
}

static const struct net_transport transport = {
    .reserve = queue_reserve,
    .commit = queue_commit,
    .send_ref = no_refs,
    .is_full = queue_is_full,
    .resume = transport_resume,
    .close_idle = close_idle,
};

/* ---- the fixture ------------------------------------------------------------------------- */

static inline void *thread_main(void *steps)
{
    net_tls_steps_run(steps);
    return NULL;
}

static inline void start_threads(struct fixture *f)
{
    while (f->thread_count < THREADS)
        assert_int_equal(
            pthread_create(&f->threads[f->thread_count++], NULL, thread_main, f->steps), 0);
}

static inline void stop_threads(struct fixture *f)
{
    net_tls_steps_stop(f->steps);
    while (f->thread_count > 0)
        pthread_join(f->threads[--f->thread_count], NULL);
}

/* This worker looks for results without being woken. */
static inline void wake(void *ctx)
{
}

/* With `steps`, but their threads do not run yet. */
static inline struct fixture *open_idle(uint32_t requests_per_event, bool with_steps)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct cache_config config = {.start_us = 1000, .start_unix_s = 1700000000};
    const struct tls_server_config tls = {.chain_cert = server_cert.cert_path,
                                          .key = server_cert.key_path,
                                          .key_format = TLS_KEY_PEM,
                                          .min_version = TLS_VERSION_1_2};
    const char *why = NULL;
    char error[TLS_ERROR_MAX];

    cache_settings_defaults(&config.settings);
    config.settings.threads = 1;
    config.settings.requests_per_event = requests_per_event;
    f->cache = cache_create(&config, &why);
    assert_non_null(f->cache);
    f->server = tls_server_open(&tls, error);
    assert_non_null(f->server);
    net_conns_init(&f->conns, &transport, f->cache, 0);
    f->conns.cache_worker = cache_join(f->cache);
    assert_non_null(f->conns.cache_worker);
    f->steps = with_steps ? net_tls_steps_open() : NULL;
    f->conns.tls = net_tls_open(&f->conns, f->server, f->steps, wake, f);
    assert_non_null(f->conns.tls);
    return f;
}

static inline struct fixture *open_fixture(uint32_t requests_per_event)
{
    struct fixture *f = open_idle(requests_per_event, with_threads);

    if (f->steps)
        start_threads(f);
    return f;
}

/* Without a session if the server has no memory for one. */
static inline struct peer *open_peer_if(struct fixture *f, int version)
{
    struct peer *peer = &f->peers[f->peer_count++];
    struct cache_peer from = {.transport = "tcp", .tls = CACHE_TLS_ON};

    peer->queued = malloc(QUEUE_MAX + QUEUE_MAX / 2);
    peer->input = malloc(INPUT_MAX);
    peer->full_bytes = 64 * 1024;
    u_list_init(&peer->conn.link);
    server_begins(f);
    (void)net_conn_open_session(&f->conns, &peer->conn, &from);
    server_ends(f);
    ssl_client_open(&peer->client, version, NULL, NULL);
    return peer;
}

static inline struct peer *open_peer(struct fixture *f, int version)
{
    struct peer *peer = open_peer_if(f, version);

    assert_non_null(peer->conn.session);
    return peer;
}

static inline void close_fixture(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < f->peer_count; i++) {
        net_conn_close_session(&f->peers[i].conn);
        ssl_client_close(&f->peers[i].client);
        free(f->peers[i].queued);
        free(f->peers[i].input);
    }
    net_conns_free(&f->conns);
    if (f->steps)
        stop_threads(f);
    net_tls_steps_close(f->steps);
    cache_leave(f->conns.cache_worker);
    cache_end(f->cache);
    tls_context_close(f->server);
    free(f);
}

static inline uint64_t counted(const struct fixture *f, enum net_tls_counter counter)
{
    return net_counter_read(&f->conns.tls->counters[counter]);
}

/* What the client has to send comes in. */
static inline void receive(struct peer *peer)
{
    int n = BIO_read(peer->client.out, peer->input + peer->input_len,
                     (int)(INPUT_MAX - peer->input_len));

    if (n > 0)
        peer->input_len += (uint32_t)n;
}

/* Offers at most `step` bytes of the input, as a transport does. Returns whether it could. */
static inline bool offer(struct fixture *f, struct peer *peer, uint32_t step)
{
    enum cache_session_state before = net_conn_state(&peer->conn);
    uint32_t len = u_min32(step, peer->input_len);
    uint8_t *bytes;
    uint32_t used;

    if (len == 0 || (before != CACHE_SESSION_OPEN && before != CACHE_SESSION_YIELDED))
        return false;
    bytes = malloc(len); /* so that reading beyond it is noticed */
    memcpy(bytes, peer->input, len);
    server_begins(f);
    used = net_conn_input(&f->conns, &peer->conn, bytes, len);
    server_ends(f);
    free(bytes);
    assert_true(used <= len);
    if (net_conn_state(&peer->conn) == CACHE_SESSION_OPEN && !peer->conn.failed)
        assert_int_equal(used, len);
    if (net_conn_state(&peer->conn) == CACHE_SESSION_YIELDED)
        assert_true(used < len);
    memmove(peer->input, peer->input + used, peer->input_len - used);
    peer->input_len -= used;
    return true;
}

/* At most `step` bytes of the queue reach the client; a blocked connection is resumed. */
static inline bool deliver(struct fixture *f, struct peer *peer, uint32_t step)
{
    uint32_t n = u_min32(step, peer->queued_len);

    if (n > 0) {
        BIO_write(peer->client.in, peer->queued, (int)n);
        memmove(peer->queued, peer->queued + n, peer->queued_len - n);
        peer->queued_len -= n;
    }
    if (net_conn_state(&peer->conn) == CACHE_SESSION_BLOCKED &&
        peer->queued_len <= peer->full_bytes / 2) {
        server_begins(f);
        net_conn_resume(&f->conns, &peer->conn);
        server_ends(f);
    }
    return n > 0;
}

/* Also waits for the results of threads. */
static inline void turn(struct fixture *f, uint64_t now_us)
{
    server_begins(f);
    net_conns_flush_pending(&f->conns);
    net_conns_tick_tls(&f->conns, now_us);
    server_ends(f);
    while (f->thread_count > 0 && !u_list_is_empty(&f->conns.tls->steps_out)) {
        sched_yield();
        net_conns_tick_tls(&f->conns, now_us);
    }
}

static inline void shake(struct fixture *f, struct peer *peer)
{
    unsigned round;

    for (round = 0; round < 20 && !SSL_is_init_finished(peer->client.ssl); round++) {
        ssl_client_step(&peer->client);
        receive(peer);
        while (offer(f, peer, 65536))
            continue;
        while (deliver(f, peer, 65536))
            continue;
        turn(f, 2000);
    }
    assert_false(peer->client.failed);
    receive(peer); /* the last message */
    while (offer(f, peer, 65536))
        turn(f, 2000);
}

/* Sends, and returns all that is answered; the connection may be closing afterwards. */
static const char *ask(struct fixture *f, struct peer *peer, const char *request)
{
    static char got[65536];
    int len = 0, n;

    if (request[0] != '\0')
        assert_int_equal(SSL_write(peer->client.ssl, request, (int)strlen(request)),
                         (int)strlen(request));
    receive(peer);
    while (offer(f, peer, 65536))
        continue;
    do {
        while (deliver(f, peer, 65536))
            continue;
        n = ssl_client_read(&peer->client, got + len, (int)sizeof(got) - 1 - len);
        len += n;
    } while (n > 0);
    got[len] = '\0';
    return got;
}

static inline int make_cert(void **state)
{
    cert_make(&server_cert, "server", NULL);
    return 0;
}

static inline int free_cert(void **state)
{
    cert_free(&server_cert);
    return 0;
}

#endif
