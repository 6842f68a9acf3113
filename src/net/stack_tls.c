/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stage A of a batch of events with TLS: opens the records first, so that the stages work on
 * plaintext as they do without TLS. A record that has come whole, in one event, is opened here; all
 * other input stays as it is, and net_tls_input() opens it when the event is handled.
 */
#include "net/port.h"
#include "net/tls_conn.h"

/* Whether the event is the first input of a connection that can take it. */
static bool is_first_input(const struct us_event *ev, const struct us_event *first)
{
    const struct net_stack_conn *conn = ev->user;

    return ev->type == US_EV_DATA && conn->conn.session && conn->us &&
           u_list_is_empty(&conn->blocked_link) && conn->kept_bytes == 0 &&
           (ev == first || ev[-1].type != US_EV_DATA || ev[-1].user != conn);
}

void net_stack_open_records(struct net_stack_worker *worker, bool *fast_eligible, unsigned n)
{
    struct us_event *events = worker->events;
    const uint8_t *plain;
    uint32_t plain_len;
    unsigned i;

    net_tls_begin_batch(worker->conns.tls);
    for (i = 0; i < n; i++) {
        if (is_first_input(&events[i], events))
            net_tls_prefetch(&((struct net_stack_conn *)events[i].user)->conn);
    }
    for (i = 0; i < n; i++) {
        struct net_stack_conn *conn = events[i].user;

        if (!is_first_input(&events[i], events))
            continue;
        plain = net_tls_open_ahead(&conn->conn, events[i].data, events[i].len, &plain_len);
        if (!plain)
            continue;
        events[i].data = plain;
        events[i].len = plain_len;
        fast_eligible[i] = cache_session_prefetch_opened(conn->conn.session, plain, plain_len);
    }
}
