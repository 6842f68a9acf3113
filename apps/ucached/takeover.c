/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of a takeover; see takeover.h. */
#define _GNU_SOURCE /* struct ucred, accept4() */
#include "takeover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "net/log.h"

#define MAGIC 0x4f544355u /* "UCTO" */
#define PIECE_BYTES (32 * 1024)
#define PIECE_FDS 64

/* How long one side waits for a message of the other. */
#define HELLO_MS 1000
#define MESSAGE_MS 10000

enum message_type { HELLO = 1, REFUSE, MEMORY, STATE, END, COMMIT, CLOSE, CLOSED };

struct message {
    uint32_t magic;
    uint32_t type; /* enum message_type */
    union {
        struct takeover_hello hello;
        char why[TAKEOVER_ERROR_MAX];
        uint64_t end[2]; /* how many bytes and descriptors there were */
        uint8_t piece[PIECE_BYTES];
    } u;
};

#define HEAD_BYTES offsetof(struct message, u)

struct received {
    struct message message;
    size_t bytes; /* behind the head */
    int fds[PIECE_FDS];
    unsigned fd_count;
};

static int fail(const char *what, const char *why)
{
    net_log_error("ucached: --takeover: %s%s%s", what, why[0] ? ": " : "", why);
    return -1;
}

void takeover_init(struct takeover *takeover)
{
    memset(takeover, 0, sizeof(*takeover));
    takeover->listen_fd = -1;
    takeover->peer_fd = -1;
    takeover->memory_fd = -1;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void takeover_close(struct takeover *takeover)
{
    close_fd(&takeover->listen_fd);
    close_fd(&takeover->peer_fd);
    close_fd(&takeover->memory_fd);
    net_handover_free(&takeover->handover, true);
}

/* ---- messages ---------------------------------------------------------------------------- */

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * PIECE_FDS)];
};

/* Returns 0, or -1 with errno. */
static int send_message(int fd, enum message_type type, const void *body, size_t bytes,
                        const int *fds, size_t fd_count)
{
    uint32_t head[2] = {MAGIC, type};
    struct iovec parts[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)body, bytes}};
    union control control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};

    memset(&control, 0, sizeof(control));
    if (fd_count > 0) {
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * fd_count);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static bool wait_readable(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int rc;

    do {
        rc = poll(&wait, 1, timeout_ms);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0)
        errno = ETIMEDOUT;
    return rc > 0;
}

/* Takes the descriptors out of a received message. */
static void take_fds(struct msghdr *header, struct received *received)
{
    struct cmsghdr *at;

    for (at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(received->fds, CMSG_DATA(at), count * sizeof(int));
        received->fd_count = (unsigned)count;
    }
}

static void close_received(struct received *received)
{
    while (received->fd_count > 0)
        close(received->fds[--received->fd_count]);
}

/*
 * Returns the type, or -1 with errno: no message came in time, the other side has gone, or it is
 * none.
 */
static int receive(int fd, struct received *received, int timeout_ms)
{
    struct iovec part = {&received->message, sizeof(received->message)};
    union control control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof(control.room)};
    ssize_t got;

    received->fd_count = 0;
    if (!wait_readable(fd, timeout_ms))
        return -1;
    got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -1;
    take_fds(&header, received);
    if ((size_t)got >= HEAD_BYTES && received->message.magic == MAGIC &&
        !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        received->bytes = (size_t)got - HEAD_BYTES;
        return (int)received->message.type;
    }
    close_received(received);
    errno = got == 0 ? ECONNRESET : header.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
    return -1;
}

/* The text of a refusal, with an end. */
static const char *refusal(struct received *received)
{
    received->message.u.why[u_min64(received->bytes, TAKEOVER_ERROR_MAX - 1)] = '\0';
    return received->message.u.why;
}

void takeover_send_refusal(int peer_fd, const char *why)
{
    size_t len = u_min64(strlen(why), TAKEOVER_ERROR_MAX - 1);

    (void)send_message(peer_fd, REFUSE, why, len, NULL, 0);
}

/* Whether the other side is root, or the user that this process is or will be. */
static bool is_trusted(int fd, uid_t user)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid() || peer.uid == user);
}

static int make_address(const char *path, struct sockaddr_un *addr)
{
    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    if (strlen(path) > NET_UNIX_PATH_MAX)
        return fail(path, "the path is too long");
    memcpy(addr->sun_path, path, strlen(path));
    return 0;
}

/* ---- the new process --------------------------------------------------------------------- */

/* Connects. Returns 1, 0 if no server listens there, or -1 after a message. */
static int connect_to(struct takeover *takeover, const char *path, const struct daemon_user *user)
{
    struct sockaddr_un addr;

    if (make_address(path, &addr) < 0)
        return -1;
    takeover->peer_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (takeover->peer_fd < 0)
        return fail(path, strerror(errno));
    if (connect(takeover->peer_fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close_fd(&takeover->peer_fd);
        return errno == ENOENT || errno == ECONNREFUSED ? 0 : fail(path, strerror(errno));
    }
    if (!is_trusted(takeover->peer_fd, user->name ? user->uid : geteuid()))
        return fail(path, "the server there runs as another user");
    return 1;
}

static int take_memory(struct takeover *takeover, struct received *received)
{
    if (received->fd_count != 2 || takeover->memory_fd >= 0) {
        close_received(received);
        return -1;
    }
    takeover->memory_fd = received->fds[0];
    takeover->listen_fd = received->fds[1];
    return 0;
}

/* Zeroes the piece: it may hold secrets of connections. */
static void take_piece(struct takeover *takeover, struct received *received)
{
    unsigned i;

    net_handover_add(&takeover->handover, received->message.u.piece, received->bytes);
    explicit_bzero(received->message.u.piece, received->bytes);
    for (i = 0; i < received->fd_count; i++) {
        if (takeover->handover.failed)
            close(received->fds[i]);
        else
            (void)net_handover_add_fd(&takeover->handover, received->fds[i]);
    }
}

static bool is_complete(const struct takeover *takeover, const struct received *received)
{
    return received->bytes == sizeof(received->message.u.end) && takeover->memory_fd >= 0 &&
           received->message.u.end[0] == takeover->handover.len &&
           received->message.u.end[1] == takeover->handover.fd_count &&
           net_handover_is_valid(&takeover->handover);
}

static int receive_all(struct takeover *takeover)
{
    static struct received received;

    for (;;) {
        switch (receive(takeover->peer_fd, &received, MESSAGE_MS)) {
        case MEMORY:
            if (take_memory(takeover, &received) < 0)
                return fail("the running server", "its answer makes no sense");
            break;
        case STATE:
            take_piece(takeover, &received);
            break;
        case END:
            if (is_complete(takeover, &received))
                return 1;
            takeover_refuse(takeover, "the state is incomplete");
            return fail("the running server", "its state is incomplete");
        case REFUSE:
            return fail("the running server refuses", refusal(&received));
        case -1:
            return fail("the running server",
                        errno == ECONNRESET ? "it has gone; start again" : strerror(errno));
        default:
            close_received(&received);
            return fail("the running server", "its answer makes no sense");
        }
    }
}

int takeover_request(struct takeover *takeover, const char *path,
                     const struct takeover_hello *hello, const struct daemon_user *user)
{
    int rc = connect_to(takeover, path, user);

    if (rc <= 0)
        return rc;
    if (send_message(takeover->peer_fd, HELLO, hello, sizeof(*hello), NULL, 0) < 0)
        return fail("the running server", strerror(errno));
    return receive_all(takeover);
}

int takeover_free_device(struct takeover *takeover)
{
    static struct received received;

    if (send_message(takeover->peer_fd, CLOSE, NULL, 0, NULL, 0) < 0)
        return fail("the running server", strerror(errno));
    switch (receive(takeover->peer_fd, &received, MESSAGE_MS)) {
    case CLOSED:
        return 0;
    case REFUSE:
        return fail("the running server refuses", refusal(&received));
    case -1:
        return fail("the running server", strerror(errno));
    default:
        close_received(&received);
        return fail("the running server", "its answer makes no sense");
    }
}

void takeover_refuse(struct takeover *takeover, const char *why)
{
    takeover_send_refusal(takeover->peer_fd, why);
    close_fd(&takeover->peer_fd);
}

int takeover_commit(struct takeover *takeover)
{
    static struct received received;

    if (send_message(takeover->peer_fd, COMMIT, NULL, 0, NULL, 0) < 0)
        return fail("the running server", strerror(errno));
    if (receive(takeover->peer_fd, &received, MESSAGE_MS) != -1 || errno != ECONNRESET)
        return fail("the running server", "it does not end");
    close_fd(&takeover->peer_fd);
    return 0;
}

int takeover_listen(struct takeover *takeover, const char *path, const struct daemon_user *user)
{
    struct sockaddr_un addr;
    mode_t before;
    int rc;

    if (takeover->listen_fd >= 0)
        return 0;
    if (make_address(path, &addr) < 0)
        return -1;
    takeover->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (takeover->listen_fd < 0 || net_unix_remove_stale(path) < 0)
        return fail(path, strerror(errno));
    before = umask(0177);
    rc = bind(takeover->listen_fd, (const struct sockaddr *)&addr, sizeof(addr));
    umask(before);
    if (rc < 0 || (user->name && lchown(path, user->uid, user->gid) < 0) ||
        listen(takeover->listen_fd, 1) < 0)
        return fail(path, strerror(errno));
    return 0;
}

/* ---- the running server ------------------------------------------------------------------ */

/* Why the two servers do not fit, or null. */
static const char *difference(const struct takeover_hello *own, const struct takeover_hello *other)
{
    if (other->version != own->version || other->handover_version != own->handover_version ||
        other->conn_version != own->conn_version)
        return "the versions of the two servers do not fit: restart instead";
    if (other->memory_format != own->memory_format)
        return "the new server has another format of items: restart instead";
    if (other->own_stack != own->own_stack)
        return "one server has kernel sockets, the other one its own TCP/IP stack";
    return NULL;
}

/* Why the process may not take over; null: it may. */
static const char *check_hello(int fd, const struct takeover_hello *own)
{
    static struct received received;
    const char *why = NULL;

    if (!is_trusted(fd, geteuid()))
        return "its user is neither root nor that of the server";
    if (receive(fd, &received, HELLO_MS) != HELLO ||
        received.bytes < sizeof(received.message.u.hello))
        why = "it sends no request";
    else
        why = difference(own, &received.message.u.hello);
    close_received(&received);
    return why;
}

int takeover_accept(const struct takeover *takeover, const struct takeover_hello *own)
{
    int fd = accept4(takeover->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    const struct timeval timeout = {.tv_sec = MESSAGE_MS / 1000};
    const char *why;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    why = check_hello(fd, own);
    if (!why)
        return fd;
    takeover_send_refusal(fd, why);
    close(fd);
    return fail("refused a process", why);
}

/* Returns 0, or -1 with errno. */
static int send_pieces(int fd, const struct net_handover *handover)
{
    size_t at = 0;
    size_t fd_at = 0;
    int rc = 0;

    while (rc == 0 && (at < handover->len || fd_at < handover->fd_count)) {
        size_t bytes = u_min64(handover->len - at, PIECE_BYTES);
        size_t fds = u_min64(handover->fd_count - fd_at, PIECE_FDS);

        rc = send_message(fd, STATE, handover->bytes ? handover->bytes + at : NULL, bytes,
                          handover->fds ? handover->fds + fd_at : NULL, fds);
        at += bytes;
        fd_at += fds;
    }
    return rc;
}

/*
 * A process that has committed waits for the end of this one, unless it has given up since, or has
 * died. Returns 0, or -1 with the reason.
 */
static int check_commit(int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    struct pollfd peer = {.fd = peer_fd};

    if (poll(&peer, 1, 0) == 0)
        return 0;
    snprintf(error, TAKEOVER_ERROR_MAX, "the new process has ended");
    return -1;
}

/* Returns as takeover_send(). */
static int wait_decision(int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    static struct received received;

    switch (receive(peer_fd, &received, MESSAGE_MS)) {
    case COMMIT:
        return check_commit(peer_fd, error);
    case CLOSE:
        snprintf(error, TAKEOVER_ERROR_MAX, "the new process asks for the device");
        return 1;
    case REFUSE:
        snprintf(error, TAKEOVER_ERROR_MAX, "%s", refusal(&received));
        return -1;
    case -1:
        snprintf(error, TAKEOVER_ERROR_MAX, "%s",
                 errno == ECONNRESET ? "the new process has ended" : strerror(errno));
        return -1;
    default:
        close_received(&received);
        snprintf(error, TAKEOVER_ERROR_MAX, "the new process makes no sense");
        return -1;
    }
}

int takeover_send(const struct takeover *takeover, int peer_fd, int memory_fd,
                  const struct net_handover *handover, char error[TAKEOVER_ERROR_MAX])
{
    const int fds[2] = {memory_fd, takeover->listen_fd};
    const uint64_t end[2] = {handover->len, handover->fd_count};

    if (send_message(peer_fd, MEMORY, NULL, 0, fds, 2) < 0 || send_pieces(peer_fd, handover) < 0 ||
        send_message(peer_fd, END, end, sizeof(end), NULL, 0) < 0) {
        snprintf(error, TAKEOVER_ERROR_MAX, "%s", strerror(errno));
        return -1;
    }
    return wait_decision(peer_fd, error);
}

int takeover_send_closed(int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    if (send_message(peer_fd, CLOSED, NULL, 0, NULL, 0) < 0) {
        snprintf(error, TAKEOVER_ERROR_MAX, "%s", strerror(errno));
        return -1;
    }
    return wait_decision(peer_fd, error) == 0 ? 0 : -1;
}
