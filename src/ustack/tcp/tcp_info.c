/* SPDX-License-Identifier: BSD-3-Clause */
/* Information on connections for the application; contracts are in ustack/ustack.h. */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_recovery.h"

/* Objects of the pool that one call of us_conn_next() examines. */
enum { NEXT_LOOKS_MAX = 64 };

/* Acknowledged bytes, less the sequence numbers of our SYN and FIN. */
static u_u64 info_bytes_out(const struct us_conn *conn)
{
    u_u64 bytes = conn->bytes_out;

    if (bytes > 0)
        bytes--;
    return us_conn_fin_acked(conn) ? bytes - 1 : bytes;
}

void us_conn_get_info(const struct us_stack *stack, const struct us_conn *conn,
                      struct us_conn_info *info)
{
    u_u32 edge;

    us_addr_from_local(stack, &info->local, conn->key.local_ip);
    us_addr_from_ip(&info->remote, us_conn_remote(conn));
    info->local_port = conn->key.local_port;
    info->remote_port = conn->key.remote_port;
    info->state = (enum us_tcp_state)conn->state;
    info->mss = conn->cc.mss;
    info->path_mtu = conn->pmtu.mtu;
    info->srtt_us = conn->rtt.srtt8_us >> 3;
    info->rttvar_us = conn->rtt.rttvar4_us >> 2;
    info->rto_us = us_recovery_rto_us(stack, conn);
    info->cc = (enum us_cc_kind)conn->cc.kind;
    info->ecn = (conn->opts & US_OPT_ECN) != 0;
    info->sack = (conn->opts & US_OPT_SACK) != 0;
    info->timestamps = (conn->opts & US_OPT_TS) != 0;
    info->window_scaling = (conn->opts & US_OPT_SCALE) != 0;
    info->send_scale = conn->snd_scale;
    info->recv_scale = conn->rcv_scale;
    info->in_recovery = (conn->flags & US_CF_RECOVERY) != 0;
    info->retries = conn->retries;
    info->cwnd_bytes = conn->cc.cwnd;
    info->ssthresh_bytes = conn->cc.ssthresh;
    info->send_window_bytes = conn->snd_wnd;
    us_tcp_window(stack, conn, &edge);
    info->recv_window_bytes = edge - conn->rcv_nxt;
    info->queued_bytes = us_send_queued(conn);
    info->retransmits = conn->retransmits;
    info->bytes_in = conn->bytes_in;
    info->bytes_out = info_bytes_out(conn);
    info->silent_us = stack->now_us - conn->last_rx_us;
}

struct us_conn *us_conn_next(struct us_stack *stack, u_u32 *cursor)
{
    const struct us_pool *pool = &stack->conn_pool;
    unsigned looked;

    for (looked = 0; looked < NEXT_LOOKS_MAX && *cursor < pool->touched; looked++) {
        struct us_conn *conn = us_conn_at(stack, *cursor);
        (*cursor)++;
        if (conn->state != US_TCP_CLOSED) /* neither closed nor free */
            return conn;
    }
    if (*cursor >= pool->touched)
        *cursor = 0;
    return (struct us_conn *)U_NULL;
}

static const char *const reason_names[] = {"none",      "normal",      "reset",       "refused",
                                           "timeout",   "aborted",     "unreachable", "no_memory",
                                           "keepalive", "zero_window", "exported"};

static const char *const state_names[] = {"CLOSED",     "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED",
                                          "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT",   "CLOSING",
                                          "LAST-ACK",   "TIME-WAIT"};

U_STATIC_ASSERT(U_ARRAY_LEN(reason_names) == US_CLOSE_EXPORTED + 1, a_name_for_each_reason);
U_STATIC_ASSERT(U_ARRAY_LEN(state_names) == US_TCP_TIME_WAIT + 1, a_name_for_each_state);

const char *us_close_reason_name(enum us_close_reason reason)
{
    return (unsigned)reason < U_ARRAY_LEN(reason_names) ? reason_names[reason] : "unknown";
}

const char *us_tcp_state_name(enum us_tcp_state state)
{
    return (unsigned)state < U_ARRAY_LEN(state_names) ? state_names[state] : "UNKNOWN";
}
