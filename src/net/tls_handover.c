/* SPDX-License-Identifier: BSD-3-Clause */
/* The TLS of connections that move to another process; see tls_handover.h. */
#include "net/tls_handover.h"

#include <stdlib.h>
#include <string.h>

#include "net/log.h"

/* ---- handing over ------------------------------------------------------------------------ */

/* Whether the records can be continued elsewhere. */
static bool can_move(const struct net_tls_conn *tc)
{
    return !tc->handshake && tls_session_seals(tc->session) && !tc->ended && !tc->eof &&
           !tc->conn->failed;
}

enum cache_rest net_conn_rest(const struct net_conn *conn, struct cache_session_saved *saved)
{
    enum cache_rest rest = cache_session_rest(conn->session, saved);

    if (!conn->tls || rest != CACHE_REST_MOVES)
        return rest;
    if (conn->tls->out->queued_bytes > 0 || conn->tls->skip > 1)
        return CACHE_REST_BUSY; /* skip: the transport has yet to release a handshake's input */
    return can_move(conn->tls) ? CACHE_REST_MOVES : CACHE_REST_ENDS;
}

void net_tls_count_left_out(const struct net_conn *conn)
{
    if (conn->tls)
        net_tls_count(conn->tls->tls, NET_TLS_TAKEOVER_CLOSED, 1);
}

void net_tls_export(const struct net_conn *conn, struct cache_session_saved *saved,
                    struct net_tls_moving *moving, struct net_handover_record *record)
{
    const struct net_tls_conn *tc = conn->tls;

    memset(moving, 0, sizeof(*moving));
    if (!tc)
        return;
    moving->line = saved->line;
    moving->line_bytes = saved->line_bytes;
    if (!tls_session_export(tc->session, &moving->state.session, &saved->line, &saved->line_bytes))
        U_ASSERT(!"a session that moves");
    moving->state.skip = tc->skip;
    moving->kept = tc->kept ? tc->kept->bytes + tc->kept->at : NULL;
    moving->kept_bytes = tc->kept ? tc->kept->len - tc->kept->at : 0;
    record->tls = cache_session_peer(conn->session)->tls;
    record->tls_bytes = (uint32_t)sizeof(moving->state) + moving->line_bytes + moving->kept_bytes;
}

void net_tls_hand_over(struct net_tls_moving *moving, const struct net_handover_record *record,
                       struct net_handover *handover)
{
    if (record->tls_bytes == 0)
        return;
    net_handover_add(handover, &moving->state, sizeof(moving->state));
    net_handover_add(handover, moving->line, moving->line_bytes);
    net_handover_add(handover, moving->kept, moving->kept_bytes);
    explicit_bzero(moving, sizeof(*moving));
}

/* ---- taking over ------------------------------------------------------------------------- */

/* Keeps the plaintext of the record. Returns false without memory. */
static bool take_plaintext(struct net_tls_conn *tc, const uint8_t *plain, uint32_t len)
{
    if (len == 0)
        return true;
    tc->kept = malloc(sizeof(*tc->kept) + len);
    if (!tc->kept)
        return false;
    tc->kept->at = 0;
    tc->kept->len = len;
    memcpy(tc->kept->bytes, plain, len);
    return true;
}

/* Makes the connection's TLS. Null with *error set. */
static struct net_tls_conn *import(struct net_tls *tls, const struct net_handover_record *record,
                                   const char **error)
{
    const uint8_t *bytes = net_handover_tls(record);
    struct net_tls_conn *tc = calloc(1, sizeof(*tc));
    struct net_tls_state state;

    *error = "no memory";
    if (tc) {
        memcpy(&state, bytes, sizeof(state));
        tc->skip = state.skip != 0;
        *error = "the state of TLS makes no sense";
        if (state.skip <= 1)
            tc->session = tls_session_import(&state.session, tls->keys, net_tls_emit, tc, error);
        explicit_bzero(&state, sizeof(state));
    }
    if (tc && tc->session &&
        take_plaintext(tc, bytes + sizeof(state), record->tls_bytes - (uint32_t)sizeof(state)))
        return tc;
    if (tc && tc->session)
        tls_session_close(tc->session);
    free(tc);
    return NULL;
}

int net_tls_take_over(struct net_conns *conns, struct net_conn *conn,
                      const struct net_handover_record *record)
{
    struct net_tls_conn *tc = NULL;
    const char *error = "the state of TLS is cut";

    U_ASSERT(conns->tls && record->tls_bytes > 0);
    if (record->tls_bytes >= sizeof(struct net_tls_state))
        tc = import(conns->tls, record, &error);
    if (!tc) {
        static struct net_log_limit limit = NET_LOG_LIMIT;

        net_log_limited(&limit, "ucached: a connection cannot be taken over: %s", error);
        net_tls_count(conns->tls, NET_TLS_TAKEOVER_CLOSED, 1);
        return -1;
    }
    tc->tls = conns->tls;
    tc->conn = conn;
    tc->out = &conns->tls->no_output;
    net_tls_count(conns->tls, NET_TLS_TAKEN_OVER, 1);
    conn->tls = tc;
    return 0;
}

/* The session has had the line before: gives it to it again. Returns whether it takes all of it. */
static bool continue_line(struct net_conn *conn)
{
    struct net_tls_conn *tc = conn->tls;
    struct net_tls_kept *line = tc->kept;
    bool taken;

    if (!line || tc->skip)
        return true; /* what is kept is due when the transport offers input */
    tc->kept = NULL;
    tc->opened = true;
    taken = net_tls_input(conn, line->bytes, line->len) == line->len &&
            net_conn_state(conn) == CACHE_SESSION_OPEN && !conn->failed;
    free(line);
    return taken;
}

bool net_conn_continue(struct net_conn *conn, const struct cache_session_saved *saved)
{
    return cache_session_continue(conn->session, saved) && (!conn->tls || continue_line(conn));
}
