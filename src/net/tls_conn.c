/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between a transport and its sessions; see tls_conn.h. */
#include "net/tls_offload.h"

#include <stdlib.h>
#include <string.h>

/* Records of one connection before others are served. */
#define RECORDS_PER_TURN 32

/* Handshakes that are ended for their age in one turn. */
#define TIMEOUT_BATCH 16

/* ---- plaintext that waits ---------------------------------------------------------------- */

/* The queue, to write to it; null: no memory. Most connections have none most of the time. */
static struct net_sendq *queue_open(struct net_tls_conn *tc)
{
    struct net_sendq *queue;

    if (tc->out != &tc->tls->no_output)
        return tc->out;
    queue = calloc(1, sizeof(*queue));
    if (queue)
        tc->out = queue;
    return queue;
}

static void queue_free(struct net_tls_conn *tc)
{
    if (tc->out == &tc->tls->no_output)
        return;
    net_sendq_clear(tc->out, &tc->tls->pool);
    free(tc->out);
    tc->out = &tc->tls->no_output;
}

static void queue_free_if_empty(struct net_tls_conn *tc)
{
    if (tc->out->queued_bytes == 0)
        queue_free(tc);
}

/* ---- ciphertext to the transport --------------------------------------------------------- */

bool net_tls_emit(void *ctx, const uint8_t *data, uint32_t len)
{
    struct net_tls_conn *tc = ctx;
    struct net_conns *conns = tc->tls->conns;
    uint32_t room, n;
    uint8_t *to;

    for (; len > 0; data += n, len -= n) {
        to = conns->transport->reserve(conns, tc->conn, u_min32(len, CACHE_SINK_NEED_MAX), &room);
        if (!to) {
            tc->conn->failed = true;
            return false;
        }
        n = u_min32(len, room);
        memcpy(to, data, n);
        conns->transport->commit(conns, tc->conn, n);
    }
    return true;
}

static bool transport_is_full(const struct net_tls_conn *tc)
{
    return tc->tls->conns->transport->is_full(tc->tls->conns, tc->conn);
}

void net_tls_fail(struct net_tls_conn *tc, const char *reason)
{
    tc->ended = true;
    if (!tc->conn->failed) /* that is the transport's failure, not TLS's */
        cache_session_tls_failed(tc->conn->session, tc->handshake != NULL, reason);
}

/* Plaintext from the front of the queue, at most a record: in place if it is in one piece. */
static const uint8_t *record_plaintext(struct net_tls_conn *tc, uint32_t *len)
{
    const struct net_sendq_piece *piece = tc->out->head;
    uint32_t want = (uint32_t)u_min64(tc->out->queued_bytes, TLS_RECORD_MAX);
    uint32_t n;

    *len = want;
    while (piece->len == 0)
        piece = piece->next;
    if (piece->len >= want)
        return piece->at;
    for (*len = 0; *len < want; *len += n, piece = piece->next) {
        n = u_min32(piece->len, want - *len);
        memcpy(tc->tls->gather + *len, piece->at, n);
    }
    return tc->tls->gather;
}

/*
 * Room in the transport for a record with `need` bytes of plaintext at least, with *max at most.
 * Null: there is none, or TLS has failed.
 */
static uint8_t *reserve_record(struct net_tls_conn *tc, uint32_t need, uint32_t *max)
{
    struct net_conns *conns = tc->tls->conns;
    uint8_t *record;
    uint32_t room;

    if (tls_session_prepare(tc->session) < 0) {
        net_tls_fail(tc, tls_session_error(tc->session));
        return NULL;
    }
    record = conns->transport->reserve(
        conns, tc->conn, u_min32(need + TLS_RECORD_OVERHEAD, CACHE_SINK_NEED_MAX), &room);
    if (!record)
        return NULL;
    if (room < need + TLS_RECORD_OVERHEAD) {
        conns->transport->commit(conns, tc->conn, 0);
        return NULL;
    }
    *max = u_min32(room - TLS_RECORD_OVERHEAD, TLS_RECORD_MAX);
    return record;
}

/* Makes a record of the plaintext in that room, unless there is none. Returns whether it could. */
static bool seal_reserved(struct net_tls_conn *tc, uint8_t *record, uint32_t len)
{
    struct net_conns *conns = tc->tls->conns;
    uint32_t sealed = len > 0 ? tls_session_seal(tc->session, record, len) : 0;

    conns->transport->commit(conns, tc->conn, sealed);
    if (len == 0)
        return true;
    if (sealed == 0) {
        net_tls_fail(tc, tls_session_error(tc->session));
        return false;
    }
    net_tls_count(tc->tls, NET_TLS_RECORDS_OUT, 1);
    return true;
}

/* Copies plaintext from the front of the queue. */
static void copy_plaintext(const struct net_tls_conn *tc, uint8_t *to, uint32_t len)
{
    const struct net_sendq_piece *piece = tc->out->head;
    uint32_t n;

    for (; len > 0; piece = piece->next, to += n, len -= n) {
        n = u_min32(piece->len, len);
        memcpy(to, piece->at, n);
    }
}

/*
 * Makes one record of plaintext that waits, in the transport's memory. Returns how much that was;
 * 0: the connection has failed.
 */
static uint32_t seal_in_place(struct net_tls_conn *tc)
{
    uint32_t len = (uint32_t)u_min64(tc->out->queued_bytes, TLS_RECORD_MAX), max;
    uint8_t *record =
        reserve_record(tc, u_min32(len, CACHE_SINK_NEED_MAX - TLS_RECORD_OVERHEAD), &max);

    if (!record) {
        tc->conn->failed = true;
        return 0;
    }
    len = u_min32(len, max);
    copy_plaintext(tc, record + TLS_RECORD_HEADER, len);
    return seal_reserved(tc, record, len) ? len : 0;
}

/* The same by OpenSSL. */
static uint32_t seal_by_copy(struct net_tls_conn *tc)
{
    uint32_t len;
    const uint8_t *plain = record_plaintext(tc, &len);

    if (tls_session_write(tc->session, plain, len) < 0) {
        net_tls_fail(tc, tls_session_error(tc->session));
        return 0;
    }
    net_tls_count(tc->tls, NET_TLS_RECORDS_OUT, 1);
    return len;
}

/* Makes records of the plaintext that waits, as long as the transport has room. */
static void seal(struct net_tls_conn *tc)
{
    uint32_t len;

    while (tc->out->queued_bytes > 0 && !tc->ended && !transport_is_full(tc)) {
        len = tls_session_seals(tc->session) ? seal_in_place(tc) : seal_by_copy(tc);
        if (len == 0)
            return;
        net_sendq_advance(tc->out, &tc->tls->pool, len);
    }
    queue_free_if_empty(tc);
}

/* Ends our stream if nothing follows any more. */
static bool notify(struct net_tls_conn *tc)
{
    if (tc->ended || tc->handshake || tc->out->queued_bytes > 0)
        return false;
    tc->ended = true;
    tls_session_shutdown(tc->session);
    return true;
}

bool net_tls_finish(struct net_conn *conn)
{
    return notify(conn->tls);
}

/* ---- the sink of a session --------------------------------------------------------------- */

struct tls_sink {
    struct cache_sink sink; /* first: the session sees only this */
    struct net_tls_conn *tc;
    uint8_t *start;  /* of the reserved room, if sink.at is not null */
    uint8_t *record; /* that room is the transport's, for this record; null: the queue's */
};

static void sink_commit(struct tls_sink *s)
{
    uint32_t len = (uint32_t)(s->sink.at - s->start);

    if (!s->sink.at)
        return;
    if (s->record)
        (void)seal_reserved(s->tc, s->record, len);
    else
        net_sendq_commit(s->tc->out, len);
    s->record = NULL;
    s->sink.at = NULL;
    s->sink.end = NULL;
}

static bool output_is_full(const struct net_tls_conn *tc)
{
    return tc->out->queued_bytes > 0 || transport_is_full(tc);
}

/* Replies are written where they are encrypted and sent from, unless others wait before them. */
static bool sink_reserve_record(struct tls_sink *s, uint32_t need)
{
    struct net_tls_conn *tc = s->tc;
    uint32_t max;

    if (!tls_session_seals(tc->session) || tc->out->queued_bytes > 0 || tc->ended ||
        tc->conn->failed)
        return false;
    s->record = reserve_record(tc, need, &max);
    if (!s->record)
        return false;
    s->start = s->record + TLS_RECORD_HEADER;
    s->sink.at = s->start;
    s->sink.end = s->start + max;
    return true;
}

static int sink_more(struct cache_sink *sink, uint32_t need)
{
    struct tls_sink *s = (struct tls_sink *)sink;
    struct net_tls_conn *tc = s->tc;
    struct net_sendq *queue;

    if (sink->at) {
        sink_commit(s);
        seal(tc);
        sink->full = output_is_full(tc);
    }
    if (sink_reserve_record(s, need))
        return 0;
    queue = queue_open(tc);
    s->start = queue ? net_sendq_reserve(queue, &tc->tls->pool, need, &sink->end) : NULL;
    sink->at = s->start;
    if (s->start)
        return 0;
    sink->end = NULL;
    tc->conn->failed = true;
    return -1;
}

static int sink_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct tls_sink *s = (struct tls_sink *)sink;
    struct net_tls_conn *tc = s->tc;
    struct net_sendq *queue;

    sink_commit(s);
    queue = queue_open(tc);
    if (!queue || net_sendq_add_ref(queue, &tc->tls->pool, data, len, cookie) < 0) {
        tc->conn->failed = true;
        return -1;
    }
    seal(tc);
    sink->full = output_is_full(tc);
    return 0;
}

static const struct cache_sink_ops sink_ops = {.more = sink_more, .ref = sink_ref};

static struct tls_sink sink_make(struct net_tls_conn *tc)
{
    return (struct tls_sink){.sink = {.full = output_is_full(tc), .ops = &sink_ops}, .tc = tc};
}

/* ---- plaintext to the session ------------------------------------------------------------ */

/* Gives plaintext to the session. Returns how much it consumed. */
static uint32_t feed(struct net_tls_conn *tc, const uint8_t *plain, uint32_t len)
{
    struct tls_sink s = sink_make(tc);
    uint32_t used = cache_session_input(tc->conn->session, plain, len, &s.sink);

    sink_commit(&s);
    seal(tc);
    return used;
}

static bool is_closing(const struct net_tls_conn *tc)
{
    return tc->ended || tc->conn->failed ||
           cache_session_state(tc->conn->session) == CACHE_SESSION_CLOSING;
}

/* Keeps plaintext that the session has not consumed. Returns false without memory. */
static bool keep(struct net_tls_conn *tc, const uint8_t *plain, uint32_t len)
{
    U_ASSERT(!tc->kept);
    tc->kept = malloc(sizeof(*tc->kept) + len);
    if (!tc->kept) {
        net_tls_count(tc->tls, NET_TLS_NO_MEMORY, 1);
        tc->conn->failed = true;
        return false;
    }
    net_tls_count(tc->tls, NET_TLS_INPUT_KEPT, 1);
    memcpy(tc->kept->bytes, plain, len);
    tc->kept->at = 0;
    tc->kept->len = len;
    return true;
}

/*
 * Gives the plaintext of a record to the session and keeps what it leaves. Returns whether the
 * transport has to offer input again for that.
 */
static bool feed_record(struct net_tls_conn *tc, const uint8_t *plain, uint32_t len)
{
    uint32_t used = feed(tc, plain, len);

    if (used == len || is_closing(tc) || !keep(tc, plain + used, len - used))
        return false;
    tc->skip = 1;
    return true;
}

/* The same for plaintext that was kept. */
static bool feed_kept(struct net_tls_conn *tc)
{
    struct net_tls_kept *kept = tc->kept;

    if (!kept)
        return true;
    kept->at += feed(tc, kept->bytes + kept->at, kept->len - kept->at);
    if (kept->at < kept->len && !is_closing(tc))
        return false;
    free(kept);
    tc->kept = NULL;
    return true;
}

/* ---- input ------------------------------------------------------------------------------- */

/* Whether a step of the handshake waits for its turn. */
static bool is_waiting(const struct net_tls_conn *tc)
{
    return tc->handshake && !u_list_is_empty(&tc->handshake->waiting_link);
}

static void stop_waiting(struct net_tls_conn *tc)
{
    if (!is_waiting(tc))
        return;
    u_list_remove(&tc->handshake->waiting_link);
    tc->tls->waiting_count--;
}

/* Whether this step of the handshake may be made in this turn; if not, it waits for a later one. */
static bool may_step(struct net_tls_conn *tc)
{
    struct net_tls *tls = tc->tls;

    if (tls->steps)
        return !tc->handshake->step;
    if (tc->granted) {
        tc->granted = false;
        return true;
    }
    if (is_waiting(tc))
        return false;
    if (tls->steps_left > 0 && u_list_is_empty(&tls->waiting)) {
        tls->steps_left--;
        return true;
    }
    u_list_push_back(&tls->waiting, &tc->handshake->waiting_link);
    tls->waiting_count++;
    net_tls_count(tls, NET_TLS_HANDSHAKE_WAITS, 1);
    return false;
}

void net_tls_add_name(void *ctx, const char *name, uint32_t len)
{
    const struct net_tls_conn *tc = ctx;

    cache_session_add_cert_name(tc->conn->session, name, len);
}

void net_tls_handshake_done(struct net_tls_conn *tc)
{
    bool resumed = tls_session_is_resumed(tc->session);

    u_list_remove(&tc->handshake->link);
    free(tc->handshake); /* it does not wait */
    tc->handshake = NULL;
    net_tls_count(tc->tls, NET_TLS_HANDSHAKES, 1);
    net_tls_count(tc->tls, NET_TLS_RESUMED, resumed);
    net_tls_count(tc->tls, NET_TLS_OWN_RECORDS, tls_session_seals(tc->session));
    cache_count_tls_handshake(tc->tls->conns->cache_worker, resumed);
}

/*
 * Reads up to the end of one record with plaintext and gives that to the session. Returns how much
 * input it took: without the last byte if the session has left plaintext.
 */
static uint32_t take_record(struct net_tls_conn *tc, const uint8_t *data, uint32_t len)
{
    enum tls_result result;
    uint32_t used, plain_len;

    result = tls_session_read(tc->session, data, len, &used, tc->tls->plain, &plain_len);
    if (tc->handshake && result != TLS_FAILED && tls_session_is_established(tc->session))
        net_tls_handshake_done(tc);
    switch (result) {
    case TLS_MORE:
        break;
    case TLS_DATA:
        net_tls_count(tc->tls, NET_TLS_RECORDS_IN, 1);
        if (feed_record(tc, tc->tls->plain, plain_len))
            used--;
        break;
    case TLS_CLOSED:
        tc->eof = true;
        break;
    case TLS_FAILED:
        net_tls_fail(tc, tls_session_error(tc->session));
        break;
    }
    return used;
}

/*
 * Takes input. That of a handshake which threads make is copied for them and not consumed: the
 * connection is blocked then. Returns how much was consumed.
 */
static uint32_t take_input(struct net_tls_conn *tc, const uint8_t *data, uint32_t len)
{
    if (!tc->handshake || !tc->tls->steps)
        return take_record(tc, data, len);
    net_tls_offload(tc, data, len);
    return 0;
}

/* Whether more input may be read; if not, the state says why. */
static bool wants_input(struct net_tls_conn *tc, unsigned records)
{
    if (tc->skip || tc->conn->failed ||
        cache_session_state(tc->conn->session) != CACHE_SESSION_OPEN)
        return false;
    tc->stalled = output_is_full(tc);
    tc->yielded = !tc->stalled && records == RECORDS_PER_TURN;
    return !tc->stalled && !tc->yielded && (!tc->handshake || may_step(tc));
}

static uint32_t take_records(struct net_tls_conn *tc, const uint8_t *data, uint32_t len)
{
    unsigned records;
    uint32_t at;

    if (!feed_kept(tc))
        return 0;
    at = u_min32(tc->skip, len);
    tc->skip -= at;
    for (records = 0; at < len && !tc->ended && !tc->eof && wants_input(tc, records); records++)
        at += take_input(tc, data + at, len - at);
    return tc->ended || tc->eof ? len : at;
}

uint32_t net_tls_input(struct net_conn *conn, const uint8_t *data, uint32_t len)
{
    struct net_tls_conn *tc = conn->tls;
    uint32_t used;

    tc->yielded = false;
    if (tc->opened) {
        tc->opened = false;
        used = len - feed_record(tc, data, len);
    } else {
        used = take_records(tc, data, len);
    }
    if (net_tls_state(conn) == CACHE_SESSION_CLOSING)
        (void)notify(tc);
    return used;
}

/* ---- input that is opened ahead ---------------------------------------------------------- */

void net_tls_prefetch(const struct net_conn *conn)
{
    tls_session_prefetch(conn->tls->session);
}

const uint8_t *net_tls_open_ahead(struct net_conn *conn, const uint8_t *data, uint32_t len,
                                  uint32_t *plain_len)
{
    struct net_tls_conn *tc = conn->tls;
    struct net_tls *tls = tc->tls;
    uint8_t *plain = tls->opened + tls->opened_bytes;

    U_ASSERT(!tc->opened);
    if (len > sizeof(tls->opened) - tls->opened_bytes || tc->kept || tc->skip || tc->ended ||
        tc->handshake || conn->failed || net_tls_state(conn) != CACHE_SESSION_OPEN ||
        output_is_full(tc))
        return NULL;
    *plain_len = tls_session_open_one(tc->session, data, len, plain);
    if (*plain_len == 0)
        return NULL;
    net_tls_count(tls, NET_TLS_RECORDS_IN, 1);
    tls->opened_bytes += *plain_len;
    tc->opened = true;
    return plain;
}

uint32_t net_tls_answer_fast(struct net_conn *conn, const uint8_t *data, uint32_t len)
{
    struct net_tls_conn *tc = conn->tls;
    uint8_t *record;
    uint32_t max, used;

    if (!tc->opened || output_is_full(tc))
        return 0;
    record = reserve_record(tc, CACHE_SINK_NEED_MAX, &max);
    if (!record)
        return 0;
    used = cache_session_try_fast(conn->session, data, len, record + TLS_RECORD_HEADER);
    (void)seal_reserved(tc, record, used);
    tc->opened = used == 0;
    return used;
}

uint32_t net_tls_set_aside(struct net_conn *conn, const uint8_t *data, uint32_t len)
{
    struct net_tls_conn *tc = conn->tls;

    if (!tc->opened || !keep(tc, data, len))
        return 0;
    tc->opened = false;
    tc->skip = 1;
    return len - 1;
}

void net_tls_resume(struct net_conn *conn)
{
    struct net_tls_conn *tc = conn->tls;
    struct tls_sink s;

    seal(tc);
    tc->stalled = tc->stalled && output_is_full(tc);
    if (tc->ended)
        return;
    s = sink_make(tc);
    cache_session_resume(conn->session, &s.sink);
    sink_commit(&s);
    seal(tc);
    if (net_tls_state(conn) == CACHE_SESSION_CLOSING)
        (void)notify(tc);
}

enum cache_session_state net_tls_state(const struct net_conn *conn)
{
    const struct net_tls_conn *tc = conn->tls;
    enum cache_session_state state;

    if (tc->ended)
        return CACHE_SESSION_CLOSING;
    if (tc->out->queued_bytes > 0 || tc->stalled || is_waiting(tc) || net_tls_awaits_step(conn))
        return CACHE_SESSION_BLOCKED;
    state = cache_session_state(conn->session);
    if (state == CACHE_SESSION_OPEN && tc->eof)
        return CACHE_SESSION_CLOSING;
    return state == CACHE_SESSION_OPEN && tc->yielded ? CACHE_SESSION_YIELDED : state;
}

/* ---- time -------------------------------------------------------------------------------- */

void net_tls_continue(struct net_tls *tls)
{
    struct net_tls_conn *tc;
    struct u_list *link;
    bool newest;

    while (tls->steps_left > 0 && tls->waiting_count > 0) {
        newest = tls->waiting_count > NET_TLS_WAITING_IN_ORDER;
        net_tls_count(tls, NET_TLS_HANDSHAKES_NEWEST, newest);
        link = newest ? tls->waiting.prev : tls->waiting.next;
        tc = U_CONTAINER_OF(link, struct net_tls_handshake, waiting_link)->conn;
        stop_waiting(tc);
        tls->steps_left--;
        tc->granted = true;
        tls->conns->transport->resume(tls->conns, tc->conn);
    }
}

/* Of handshakes that have begun since the last turn: they are the last ones. */
static void set_deadlines(struct net_tls *tls, uint64_t now_us)
{
    struct net_tls_handshake *handshake;
    struct u_list *link;

    for (link = tls->handshakes.prev; link != &tls->handshakes; link = link->prev) {
        handshake = U_CONTAINER_OF(link, struct net_tls_handshake, link);
        if (handshake->deadline_us != 0)
            return;
        handshake->deadline_us = now_us + NET_TLS_HANDSHAKE_US;
    }
}

static void end_overdue(struct net_tls *tls, uint64_t now_us)
{
    struct net_tls_handshake *handshake;
    unsigned n;

    for (n = 0; n < TIMEOUT_BATCH && !u_list_is_empty(&tls->handshakes); n++) {
        handshake = U_CONTAINER_OF(tls->handshakes.next, struct net_tls_handshake, link);
        if (now_us < handshake->deadline_us)
            return;
        u_list_remove(&handshake->link);
        stop_waiting(handshake->conn);
        net_tls_count(tls, NET_TLS_HANDSHAKE_TIMEOUTS, 1);
        net_tls_fail(handshake->conn, "the handshake took too long");
        tls->conns->transport->resume(tls->conns, handshake->conn->conn);
    }
}

void net_tls_tick(struct net_tls *tls, uint64_t now_us)
{
    tls->steps_left = NET_TLS_HANDSHAKES_PER_TURN;
    net_tls_take_results(tls);
    set_deadlines(tls, now_us);
    end_overdue(tls, now_us);
    net_tls_count(tls, NET_TLS_TICKET_KEYS, tls_context_tick(tls->server, now_us));
}

/* ---- opening and closing ----------------------------------------------------------------- */

/* The references of the plaintext queues are the cache's. */
static void release(void *ctx, void *cookie)
{
    struct net_tls *tls = ctx;

    cache_release(tls->conns->cache_worker, cookie);
}

struct net_tls *net_tls_open(struct net_conns *conns, struct tls_context *server,
                             struct net_tls_steps *steps, void (*wake)(void *ctx), void *wake_ctx)
{
    struct net_tls *tls = calloc(1, sizeof(*tls));

    if (!tls)
        return NULL;
    tls->keys = tls_key_cache_open();
    if (!tls->keys) {
        free(tls);
        return NULL;
    }
    tls->server = server;
    tls->conns = conns;
    tls->steps_left = NET_TLS_HANDSHAKES_PER_TURN;
    u_list_init(&tls->handshakes);
    u_list_init(&tls->waiting);
    u_list_init(&tls->steps_out);
    tls->steps = steps;
    net_tls_results_init(&tls->results, wake, wake_ctx);
    net_sendq_pool_init(&tls->pool, release, tls);
    return tls;
}

void net_tls_close(struct net_tls *tls)
{
    if (!tls)
        return;
    net_tls_end_offloading(tls);
    net_sendq_pool_free(&tls->pool);
    tls_key_cache_close(tls->keys);
    free(tls);
}

static void conn_free(struct net_tls_conn *tc)
{
    if (tc->session)
        tls_session_close(tc->session);
    free(tc->handshake);
    free(tc->kept);
    free(tc);
}

int net_tls_conn_begin(struct net_conns *conns, struct net_conn *conn, enum cache_tls mode)
{
    static const enum tls_peer_check checks[] = {[CACHE_TLS_ON] = TLS_PEER_AS_CONFIGURED,
                                                 [CACHE_TLS_NO_CERT] = TLS_PEER_NONE,
                                                 [CACHE_TLS_CERT] = TLS_PEER_REQUIRED};
    struct net_tls_conn *tc = calloc(1, sizeof(*tc));

    U_ASSERT(conns->tls && mode != CACHE_TLS_OFF);
    if (tc) {
        tc->handshake = calloc(1, sizeof(*tc->handshake));
        tc->session =
            tls_session_open(conns->tls->server, conns->tls->keys, checks[mode], net_tls_emit, tc);
    }
    if (!tc || !tc->handshake || !tc->session) {
        if (tc)
            conn_free(tc);
        net_tls_count(conns->tls, NET_TLS_NO_MEMORY, 1);
        return -1;
    }
    tc->tls = conns->tls;
    tc->conn = conn;
    tc->out = &conns->tls->no_output;
    tc->handshake->conn = tc;
    if (cache_acl_file(conns->cache))
        tls_session_on_peer_names(tc->session, net_tls_add_name, tc);
    u_list_init(&tc->handshake->waiting_link);
    u_list_push_back(&conns->tls->handshakes, &tc->handshake->link);
    net_tls_count(conns->tls, NET_TLS_CONNECTIONS, 1);
    conn->tls = tc;
    return 0;
}

void net_tls_conn_end(struct net_conn *conn)
{
    struct net_tls_conn *tc = conn->tls;

    conn->tls = NULL;
    stop_waiting(tc);
    if (tc->handshake)
        u_list_remove(&tc->handshake->link);
    net_tls_abandon_step(tc);
    queue_free(tc);
    conn_free(tc);
}
