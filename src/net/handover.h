/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one process hands to the next one that takes over: listening sockets and connections, as
 * records in an array of bytes and descriptors beside it. Both processes run on one machine;
 * NET_HANDOVER_VERSION changes with each change of a record. Records of connections with TLS hold
 * secrets, so all memory that has held records is zeroed.
 */
#ifndef NET_HANDOVER_H
#define NET_HANDOVER_H

#include "net/net.h"

#define NET_HANDOVER_VERSION 3

/* Bounds of all records of a handover, and of its descriptors. */
#define NET_HANDOVER_BYTES_MAX ((size_t)1 << 30)
#define NET_HANDOVER_FDS_MAX (1 << 20)

enum net_handover_kind {
    NET_HANDOVER_LISTENER = 1, /* a socket of a worker: a descriptor */
    NET_HANDOVER_SOCKET,       /* a connection of the kernel's: a descriptor, input */
    NET_HANDOVER_DEVICE, /* a queue of the own stack: a descriptor, its MAC address as input */
    NET_HANDOVER_STACK,  /* one of the own stack: its state, input, bytes of the state */
    NET_HANDOVER_MAC     /* the MAC address of the own stack as input */
};

struct net_handover_record {
    uint32_t bytes;    /* of the record and what follows it; a multiple of 8 */
    uint8_t kind;      /* enum net_handover_kind */
    uint8_t transport; /* enum net_endpoint_kind */
    uint8_t binding;   /* enum cache_binding, of the listener */
    uint8_t tls;       /* enum cache_tls, of the listener; STACK: of the connection */
    uint32_t fd;       /* index of the descriptor */
    uint8_t shared;    /* LISTENER: all workers accept from it */
    uint8_t protocol;  /* of the session, as cache_session_rest() has set it */
    uint8_t reserved[2];
    uint32_t idle_s;
    uint32_t input_bytes;  /* behind the record: for the session, or for its TLS */
    uint32_t queued_bytes; /* behind them: state.queued_bytes and state.unread_bytes */
    uint32_t tls_bytes;    /* behind them: see tls_handover.h; 0: TLS is off, or has not begun */
    struct us_conn_state state;
};

struct net_handover {
    uint8_t *bytes; /* records */
    size_t len;
    size_t capacity;
    int *fds; /* -1: taken by net_handover_take_fd() */
    size_t fd_count;
    size_t fd_capacity;
    bool failed;       /* no memory, or a bound was reached: something is missing */
    uint32_t left_out; /* connections that could not move; of the sender only */
};

/*
 * Appends bytes or a descriptor, which stays the caller's; on failure sets `failed`. add_fd returns
 * its index.
 */
void net_handover_add(struct net_handover *handover, const void *bytes, size_t len);
uint32_t net_handover_add_fd(struct net_handover *handover, int fd);

/* Begins a record, sets its length and pads it at the end: bytes are appended in between. */
void net_handover_begin(struct net_handover *handover, const struct net_handover_record *record);
void net_handover_end(struct net_handover *handover, const struct net_handover_record *record);

/* Whether what another process has sent is well-formed. */
bool net_handover_is_valid(const struct net_handover *handover);

/*
 * Why a process that has TLS, or has none, cannot continue the connections; null: it can. On the
 * own stack all connections have TLS, or none has.
 */
const char *net_handover_tls_obstacle(const struct net_handover *handover, bool has_tls);

/* The record at *at, of a valid handover, which moves behind it; null at the end. Begins at 0. */
const struct net_handover_record *net_handover_next(const struct net_handover *handover,
                                                    size_t *at);

/* The bytes behind a record. */
static inline const uint8_t *net_handover_input(const struct net_handover_record *record)
{
    return (const uint8_t *)(record + 1);
}

/* The bytes of its TLS, behind all others. */
static inline const uint8_t *net_handover_tls(const struct net_handover_record *record)
{
    return net_handover_input(record) + record->input_bytes + record->queued_bytes;
}

/* Zeroes these bytes, which are not read any more. */
void net_handover_wipe_tls(struct net_handover *handover, const struct net_handover_record *record);

/* The first record of a kind, or null. */
const struct net_handover_record *net_handover_find(const struct net_handover *handover,
                                                    enum net_handover_kind kind);

/* Takes a descriptor out; -1: another one has taken it. */
int net_handover_take_fd(struct net_handover *handover, uint32_t index);

/* Zeroes and frees the memory; closes the descriptors that were not taken, if it owns them. */
void net_handover_free(struct net_handover *handover, bool owns_fds);

#endif
