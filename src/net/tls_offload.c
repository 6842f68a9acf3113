/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's part of handshakes on threads beside it; see tls_offload.h. */
#include "net/tls_offload.h"

bool net_tls_awaits_step(const struct net_conn *conn)
{
    return conn->tls->handshake && conn->tls->handshake->step;
}

void net_tls_offload(struct net_tls_conn *tc, const uint8_t *data, uint32_t len)
{
    struct net_tls *tls = tc->tls;
    bool with_names = cache_acl_file(tls->conns->cache) != NULL;
    struct net_tls_step *step = net_tls_step_new(tc->session, data, len, with_names);

    if (!step) {
        net_tls_count(tls, NET_TLS_NO_MEMORY, 1);
        tc->conn->failed = true;
        return;
    }
    step->owner = tc;
    tc->handshake->step = step;
    u_list_push_back(&tls->steps_out, &step->own_link);
    net_tls_steps_submit(tls->steps, &tls->results, step);
}

/* The session is the connection's again. */
static void apply(struct net_tls_conn *tc, const struct net_tls_step *step)
{
    tc->skip = step->used;
    if (!net_tls_emit(tc, step->emitted.at, step->emitted.len))
        return;
    if (step->refused) {
        net_tls_count(tc->tls, NET_TLS_STEPS_REFUSED, 1);
        net_tls_fail(tc, "too many handshakes wait");
        return;
    }
    if (step->result == TLS_FAILED) {
        net_tls_fail(tc, tls_session_error(tc->session));
        return;
    }
    tc->eof = step->result == TLS_CLOSED;
    if (!tls_session_is_established(tc->session))
        return;
    net_tls_step_give_names(step, net_tls_add_name, tc);
    net_tls_handshake_done(tc);
}

/* A connection whose handshake was given up meanwhile only waits for its end. */
static void take_result(struct net_tls *tls, struct net_tls_step *step)
{
    struct net_tls_conn *tc = step->owner;

    u_list_remove(&step->own_link);
    net_tls_count(tls, NET_TLS_STEPS, !step->refused);
    net_tls_count(tls, NET_TLS_HANDSHAKES_NEWEST, step->newest);
    if (!tc) {
        net_tls_count(tls, NET_TLS_STEPS_LATE, 1);
        tls_session_close(step->session);
    } else {
        tls_session_set_emit(tc->session, net_tls_emit, tc);
        tc->handshake->step = NULL;
        if (!tc->ended)
            apply(tc, step);
        tls->conns->transport->resume(tls->conns, tc->conn);
    }
    net_tls_step_free(step);
}

void net_tls_take_results(struct net_tls *tls)
{
    struct net_tls_step *step;
    unsigned n;

    for (n = 0; n < NET_TLS_RESULTS_PER_TURN; n++) {
        step = net_tls_results_take(&tls->results);
        if (!step)
            return;
        take_result(tls, step);
    }
}

void net_tls_abandon_step(struct net_tls_conn *tc)
{
    struct net_tls_step *step = tc->handshake ? tc->handshake->step : NULL;

    if (!step)
        return;
    if (net_tls_steps_cancel(tc->tls->steps, step)) {
        u_list_remove(&step->own_link);
        net_tls_step_free(step);
        return;
    }
    step->owner = NULL;
    tc->session = NULL;
}

void net_tls_end_offloading(struct net_tls *tls)
{
    struct u_list *link;
    struct net_tls_step *step;

    if (!tls->steps)
        return;
    net_tls_results_close(tls->steps, &tls->results);
    while ((link = u_list_pop_front(&tls->steps_out)) != NULL) {
        step = U_CONTAINER_OF(link, struct net_tls_step, own_link);
        tls_session_close(step->session);
        net_tls_step_free(step);
    }
}
