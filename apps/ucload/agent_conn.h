/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection between a coordinator and an agent: frames of agent_wire.h. */
#ifndef UCLOAD_AGENT_CONN_H
#define UCLOAD_AGENT_CONN_H

#include "agent_wire.h"

#define AGENT_CONN_ERROR_MAX 300
#define AGENT_CONN_NAME_MAX 100

/* No limit; the kernel's keepalive finds peers that have vanished. */
#define AGENT_CONN_FOREVER (-1)

struct agent_conn {
    int fd; /* -1: closed */
    uint8_t head[WIRE_HEAD_BYTES];
    uint8_t *payload; /* of the frame that was received last, or is being received */
    uint32_t len;     /* of this payload */
    uint32_t have;    /* bytes of head and payload that were received */
};

/* Takes over a connected socket. */
void agent_conn_open(struct agent_conn *conn, int fd);

void agent_conn_close(struct agent_conn *conn);

/*
 * Sends a frame, within 10 seconds. Returns 0, or -1.
 */
int agent_conn_send(struct agent_conn *conn, enum wire_kind kind, const uint8_t *payload,
                    uint32_t len);

/*
 * Receives a frame with at most `max` bytes of payload, which stays in conn->payload until the next
 * call. Returns 1; 0 if none is complete after wait_ms; -1 if the peer has closed the connection or
 * sent something else. What was received of a frame is kept.
 */
int agent_conn_receive(struct agent_conn *conn, int wait_ms, uint32_t max, enum wire_kind *kind,
                       uint32_t *len);

/* Listens at HOST:PORT; the port may be 0. Returns a socket, or -1 with a message. */
int agent_conn_listen(const char *address, char name[AGENT_CONN_NAME_MAX],
                      char error[AGENT_CONN_ERROR_MAX]);

/* Connects to HOST:PORT, within 10 seconds. Returns a socket, or -1 with a message. */
int agent_conn_connect(const char *address, char error[AGENT_CONN_ERROR_MAX]);

#endif
