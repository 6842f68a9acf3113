/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving the TLS of a connection to another process: one implementation for the own stack and for
 * kernel sockets, which move their own part in the same record (handover.h):
 *
 *   input_bytes    ciphertext that TLS has taken of a record that came in part, then what the
 *                  transport of kernel sockets keeps
 *   tls_bytes      struct net_tls_state, then plaintext: the beginning of a request that the
 *                  session has, and what it has left of a record
 *
 * Connections whose records are OpenSSL's, or whose handshake is not done, do not move.
 */
#ifndef NET_TLS_HANDOVER_H
#define NET_TLS_HANDOVER_H

#include "net/handover.h"
#include "net/tls_conn.h"

struct net_tls_state {
    struct tls_session_state session;
    uint32_t skip; /* 1: as net_tls_conn.skip */
};

/* What of a connection's TLS goes into its record. */
struct net_tls_moving {
    struct net_tls_state state;
    const uint8_t *line; /* plaintext in two pieces; of the session */
    uint32_t line_bytes;
    const uint8_t *kept;
    uint32_t kept_bytes;
};

/* A connection does not move: counted, if it has TLS. */
void net_tls_count_left_out(const struct net_conn *conn);

/* cache_session_rest() of a connection, whatever encrypts it. */
enum cache_rest net_conn_rest(const struct net_conn *conn, struct cache_session_saved *saved);

/*
 * For a connection with CACHE_REST_MOVES. With TLS: takes the line out of *saved, replaces it by
 * the ciphertext that precedes the transport's, and sets record->tls and tls_bytes. Without TLS
 * nothing of it is to be moved. net_tls_hand_over() has to follow.
 */
void net_tls_export(const struct net_conn *conn, struct cache_session_saved *saved,
                    struct net_tls_moving *moving, struct net_handover_record *record);

/* Appends the record's last bytes, and zeroes *moving. */
void net_tls_hand_over(struct net_tls_moving *moving, const struct net_handover_record *record,
                       struct net_handover *handover);

/*
 * In place of net_tls_conn_begin(): continues the TLS of a record, whose tls_bytes are not 0.
 * Returns 0, or -1 if they are not well-formed or there is no memory; counted.
 */
int net_tls_take_over(struct net_conns *conns, struct net_conn *conn,
                      const struct net_handover_record *record);

/*
 * The session of a new connection continues one that was saved: cache_session_continue(), and with
 * TLS the line of the record, too. False: the values are not possible.
 */
bool net_conn_continue(struct net_conn *conn, const struct cache_session_saved *saved);

#endif
