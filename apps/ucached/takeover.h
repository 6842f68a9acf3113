/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --takeover=PATH: a new process takes over from the running one, which listens on a unix socket.
 *
 *     new process                              running server
 *     HELLO: versions, kind of sockets  ---->  checks them, or REFUSE: why
 *                                              comes to rest, saves the items
 *     checks that it can continue      <----   MEMORY, STATE..., END: descriptors and records
 *    [CLOSE                             ---->  closes the device of the own stack
 *     opens it                         <----   CLOSED                                        ]
 *     COMMIT                            ---->  exits
 *     opens the memory, serves
 *
 * The steps in brackets are those of a device that the end of a process is not needed for
 * (link_close_frees()).
 * Until COMMIT the running server continues if anything fails: the connection ends, the new process
 * is silent for too long, or it refuses. Messages are packets of a SOCK_SEQPACKET socket.
 */
#ifndef UCACHED_TAKEOVER_H
#define UCACHED_TAKEOVER_H

#include "daemon.h"
#include "net/handover.h"

#define TAKEOVER_VERSION 1 /* of the messages */
#define TAKEOVER_ERROR_MAX 256

/* What both sides must have in common. The layout never changes. */
struct takeover_hello {
    uint32_t version;          /* TAKEOVER_VERSION */
    uint32_t handover_version; /* NET_HANDOVER_VERSION */
    uint32_t conn_version;     /* US_CONN_STATE_VERSION */
    uint32_t memory_format;    /* KV_FILE_FORMAT */
    uint32_t own_stack;        /* 0: kernel sockets, 1: the own TCP/IP stack */
};

struct takeover {
    int listen_fd; /* where the next process will connect; -1: none */
    int peer_fd;   /* the running server, until takeover_commit(); -1: none */
    int memory_fd; /* its items; -1: none, or taken */
    struct net_handover handover;
};

void takeover_init(struct takeover *takeover);
void takeover_close(struct takeover *takeover);

/* ---- the new process --------------------------------------------------------------------- */

/*
 * Asks the server at `path` for all it has. Returns 1 with everything but peer_fd the caller's to
 * use; 0: no server listens there; or -1 after a message.
 */
int takeover_request(struct takeover *takeover, const char *path,
                     const struct takeover_hello *hello, const struct daemon_user *user);

/* Lets it close the device, and waits until it has. Returns 0, or -1 after a message. */
int takeover_free_device(struct takeover *takeover);

/* Tells it that this process cannot continue, and why. */
void takeover_refuse(struct takeover *takeover, const char *why);

/* Lets it exit, and waits until it has. Returns 0, or -1 after a message. */
int takeover_commit(struct takeover *takeover);

/* Listens at `path`, for `user` only. Returns 0, or -1 after a message. */
int takeover_listen(struct takeover *takeover, const char *path, const struct daemon_user *user);

/* ---- the running server ------------------------------------------------------------------ */

/*
 * Accepts a process, checks its user and what it says. Returns its socket, or -1 after the reason
 * was sent and printed.
 */
int takeover_accept(const struct takeover *takeover, const struct takeover_hello *own);

/*
 * Sends everything. Returns 0 when the process has committed, 1 if it waits for the device to be
 * closed, which takeover_send_closed() tells it; else -1 with *error set.
 */
int takeover_send(const struct takeover *takeover, int peer_fd, int memory_fd,
                  const struct net_handover *handover, char error[TAKEOVER_ERROR_MAX]);

/* The device is closed. Returns 0 when the process has committed; else -1 with *error set. */
int takeover_send_closed(int peer_fd, char error[TAKEOVER_ERROR_MAX]);

/* Sends the reason why not. */
void takeover_send_refusal(int peer_fd, const char *why);

#endif
