/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to servers. The requests of a batch are queued, and sent while replies are read;
 * replies come in the order of the requests. Every wait is bounded by the peer's timeout.
 */
#ifndef UCWARM_PEER_H
#define UCWARM_PEER_H

#include <stdint.h>
#include <sys/socket.h>

#include "buffer.h"
#include "reply.h"

struct peer_stack;
struct us_conn;

#define PEER_ERROR_MAX 300
#define PEER_BATCH_MAX 256                 /* requests without a reply on a connection */
#define PEER_VALUE_MAX (64u * 1024 * 1024) /* longest value that is accepted */

struct peer {
    const char *name; /* for messages */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    unsigned timeout_s;
    int fd; /* kernel sockets; -1: closed */

    /* The own stack (peer_stack.h); null: kernel sockets. */
    struct peer_stack *stack;
    struct us_conn *us; /* null: closed */
    bool connected;
    bool kept;        /* the stack holds received bytes back */
    const char *lost; /* why the connection has ended; null: it has not */

    struct buffer out, in;
    uint16_t tags[PEER_BATCH_MAX]; /* of the requests that are due, in their order */
    unsigned asked, answered;
    char error[PEER_ERROR_MAX];
};

/*
 * Resolves HOST[:PORT]; nothing is opened. `stack` is null for kernel sockets. Returns 0, or -1
 * with a message in peer->error.
 */
int peer_init(struct peer *peer, const char *name, unsigned timeout_s, struct peer_stack *stack);

/* Connects. Returns 0, or -1 with a message. */
int peer_connect(struct peer *peer);
void peer_close(struct peer *peer);

/* Whether two peers have the same address. */
bool peer_is_same(const struct peer *a, const struct peer *b);

/* Notes that the bytes added to peer->out are a request with a tag (at most PEER_BATCH_MAX). */
void peer_ask(struct peer *peer, uint16_t tag);

/* Receives a reply; the value is valid during the call. Returns 0, or -1 to stop. */
typedef int peer_on_reply(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                          const uint8_t *value);

/*
 * Sends what is queued on `count` peers and reads all replies that are due. Returns 0, or -1 with
 * *failed set to the peer that has the message.
 */
int peer_exchange(struct peer *peers, unsigned count, peer_on_reply *on_reply, void *ctx,
                  struct peer **failed);

/*
 * Reads the next line, for replies that are no replies of mg or ms. It ends in LF; *line is without
 * its end and valid until the next call. Returns 0, or -1 with a message.
 */
int peer_line(struct peer *peer, const char **line, size_t *len);

/* Sends a command line without its end. Returns 0, or -1 with a message. */
int peer_command(struct peer *peer, const char *command);

/* A number of `stats`; 0 if there is none. Returns 0, or -1 with a message. */
int peer_stat(struct peer *peer, const char *name, uint64_t *value);

#endif
