/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ICMP errors for connections. Any host can send them, so an error counts only if it quotes a
 * sequence number in flight (RFC 5927 section 4.1), and none ends a synchronised connection
 * (section 5.2, RFC 5461).
 */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"

/* Whether this number is in flight: SND.UNA =< SEG.SEQ < SND.NXT. */
static int icmp_seq_in_flight(const struct us_conn *conn, u_u32 seq)
{
    return us_seq_leq(conn->snd_una, seq) && us_seq_lt(seq, conn->snd_max);
}

void us_tcp_icmp_error(struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_ip6 *remote6, u_u32 seq, enum us_icmp_error kind, u_u32 mtu)
{
    struct us_conn *conn = us_tcp_find(stack, key, remote6);

    if (conn == U_NULL) {
        us_count(stack, US_C_DROP_ICMP_NO_CONN);
        return;
    }
    if (!icmp_seq_in_flight(conn, seq)) {
        us_count(stack, US_C_DROP_ICMP_SEQUENCE);
        return;
    }
    us_conn_leave_fast_path(conn);
    switch (kind) {
    case US_ICMP_TOO_BIG:
        us_tcp_path_mtu(stack, conn, mtu);
        break;
    case US_ICMP_HARD:
        if (conn->state == US_TCP_SYN_SENT) {
            us_conn_end(stack, conn, US_CLOSE_UNREACHABLE);
            break;
        }
        conn->flags |= US_CF_UNREACHABLE;
        break;
    case US_ICMP_SOFT:
        conn->flags |= US_CF_UNREACHABLE; /* the reason of CLOSED, should the connection time out */
        break;
    }
}
