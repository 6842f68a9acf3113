/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel sockets by io_uring: one ring per worker, in place of epoll and a system call for each
 * read and write.
 *
 * Accepts and receives are multishot requests; the kernel takes receive buffers from a ring.
 * Replies become send requests, which the waiting call submits once per loop. So a loop costs one
 * or two system calls, however many connections are active.
 *
 * Order and lifetime: a connection has at most one send in flight, whose bytes stay in place until
 * its completion. A connection that ends is freed with the completion of its last request
 * (`inflight`). Input of a stopped session is kept up to KEEP_BYTES_MAX; then receiving is
 * cancelled until the session is resumed.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC, syscall() */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/sock_worker.h"

#define SQ_ENTRIES 512
#define CQ_ENTRIES 4096
#define DISPATCH_MAX 256

/* Receive buffers; each goes back to the kernel when its input was handled. */
#define BUFFERS 128
#define BUFFER_BYTES (16 * 1024)
#define BUFFER_GROUP 0

/* Input that is kept while the session is stopped; beyond it receiving is cancelled. */
#define KEEP_BYTES_MAX (128 * 1024)

/* Pieces per send request. */
#define SEND_PIECES_MAX 16

/* How long the end of the loop waits for the completions of cancelled requests. */
#define DRAIN_ROUNDS 100
#define DRAIN_MS 10

/* The low bits of a completion's user data, beside a struct net_sock_source. */
enum tag {
    TAG_INPUT = 0, /* a connection's bytes, a listener's connection, or a poll result */
    TAG_SEND = 1,
    TAG_CANCEL = 2,
    TAG_MASK = 3
};

struct uring_conn {
    struct net_sock_conn conn;
    struct u_list ending_link; /* on uring.ending once it is to be freed */
    unsigned inflight;         /* requests whose last completion has not come */
    bool receiving;
    bool cancelling; /* the receive request is being cancelled */
    bool sending;
    bool ending;
};

struct send_parts {
    struct msghdr msg;
    struct iovec parts[SEND_PIECES_MAX];
};

struct uring {
    struct io_uring ring;
    struct io_uring_buf_ring *buffer_ring;
    uint8_t *buffers;
    struct u_list ending;
    struct send_parts sends[SQ_ENTRIES]; /* of the requests not submitted yet */
    unsigned send_count;
    bool listening[NET_ENDPOINT_MAX]; /* by listener: a request is in flight */
};

static struct uring *uring_of(const struct net_sock_worker *worker)
{
    return worker->io_state;
}

static struct uring_conn *conn_of(struct net_sock_conn *conn)
{
    return U_CONTAINER_OF(conn, struct uring_conn, conn);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Submits the prepared requests without waiting. */
static void hand_over(struct uring *uring)
{
    (void)io_uring_submit(&uring->ring); /* the next call retries the remaining ones */
    if (io_uring_sq_ready(&uring->ring) == 0)
        uring->send_count = 0;
}

/* An empty request, or null if the submission queue is full. */
static struct io_uring_sqe *request(struct uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    if (sqe)
        return sqe;
    hand_over(uring);
    return io_uring_get_sqe(&uring->ring);
}

static void set_source(struct io_uring_sqe *sqe, const struct net_sock_source *source, enum tag tag)
{
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)source | tag);
}

/* Requests one event when the descriptor is readable. Returns 0 or -EBUSY. */
static int request_poll(struct uring *uring, const struct net_sock_source *source)
{
    struct io_uring_sqe *sqe = request(uring);

    if (!sqe)
        return -EBUSY;
    io_uring_prep_poll_add(sqe, source->fd, POLLIN);
    set_source(sqe, source, TAG_INPUT);
    return 0;
}

static int request_accepts(struct uring *uring, const struct net_sock_source *source)
{
    struct io_uring_sqe *sqe = request(uring);

    if (!sqe)
        return -EBUSY;
    io_uring_prep_multishot_accept(sqe, source->fd, NULL, NULL, SOCK_CLOEXEC);
    set_source(sqe, source, TAG_INPUT);
    return 0;
}

static int request_receives(struct uring *uring, struct uring_conn *conn)
{
    struct io_uring_sqe *sqe = request(uring);

    if (!sqe)
        return -EBUSY;
    io_uring_prep_recv_multishot(sqe, conn->conn.source.fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    set_source(sqe, &conn->conn.source, TAG_INPUT);
    conn->receiving = true;
    conn->cancelling = false;
    conn->inflight++;
    return 0;
}

/* Cancels requests of a source: its input, or all requests on its descriptor. */
static int request_cancel(struct uring *uring, const struct net_sock_source *source, bool all)
{
    struct io_uring_sqe *sqe = request(uring);

    if (!sqe)
        return -EBUSY;
    if (all)
        io_uring_prep_cancel_fd(sqe, source->fd, IORING_ASYNC_CANCEL_ALL);
    else
        io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)source | TAG_INPUT, 0);
    io_uring_sqe_set_data64(sqe, TAG_CANCEL);
    return 0;
}

/* ---- listening --------------------------------------------------------------------------- */

/*
 * Starts to listen. With settings.accept_waits no connection may be accepted before a session is
 * free, so the socket is polled and accept4() is called.
 */
static int listener_request(struct net_sock_worker *worker,
                            const struct net_sock_listener *listener)
{
    struct uring *uring = uring_of(worker);
    int rc;

    if (listener->kind == NET_ENDPOINT_UDP || worker->accept_waits)
        rc = request_poll(uring, &listener->source);
    else
        rc = request_accepts(uring, &listener->source);
    uring->listening[listener - worker->listeners] = rc == 0;
    return rc;
}

static void uring_accept_want(struct net_sock_worker *worker, bool on)
{
    const struct net_sock_listener *listener;

    for (listener = worker->listeners; listener < worker->listeners + worker->listener_count;
         listener++) {
        bool listening = uring_of(worker)->listening[listener - worker->listeners];

        if (listener->kind == NET_ENDPOINT_UDP || listening == on)
            continue;
        if (on)
            (void)listener_request(worker, listener);
        else
            (void)request_cancel(uring_of(worker), &listener->source, false);
    }
}

static void listener_event(struct net_sock_worker *worker, const struct net_sock_listener *listener,
                           const struct io_uring_cqe *cqe)
{
    struct uring *uring = uring_of(worker);

    if (!(cqe->flags & IORING_CQE_F_MORE))
        uring->listening[listener - worker->listeners] = false;
    if (listener->kind == NET_ENDPOINT_UDP)
        net_sock_udp_event(worker, listener);
    else if (!worker->accept_waits && cqe->res != -ECANCELED)
        net_sock_accepted(worker, listener, cqe->res);
    else if (worker->accept_waits && cqe->res > 0)
        net_sock_accept(worker, listener);
    if (!uring->listening[listener - worker->listeners] &&
        (listener->kind == NET_ENDPOINT_UDP || worker->accept == NET_SOCK_ACCEPTING))
        (void)listener_request(worker, listener);
}

static void wake_event(struct net_sock_worker *worker)
{
    eventfd_t value;

    (void)eventfd_read(worker->wake.fd, &value);
    (void)request_poll(uring_of(worker), &worker->wake);
}

/* ---- connections ------------------------------------------------------------------------- */

static int uring_conn_begin(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    u_list_init(&conn_of(conn)->ending_link);
    return request_receives(uring_of(worker), conn_of(conn));
}

/* Requests in flight continue; a new receive is requested when EPOLLIN is wanted again. */
static int uring_conn_want(struct net_sock_worker *worker, struct net_sock_conn *base,
                           uint32_t interest)
{
    struct uring_conn *conn = conn_of(base);

    base->interest = interest;
    if (!(interest & EPOLLIN) || conn->receiving)
        return 0;
    return request_receives(uring_of(worker), conn);
}

/* The list of several pieces has to stay in place until the request is submitted. */
static void prepare_send(struct uring *uring, struct uring_conn *conn, struct io_uring_sqe *sqe)
{
    struct send_parts *send = &uring->sends[uring->send_count];
    uint64_t total;
    unsigned n = net_sendq_gather(&conn->conn.out, send->parts, SEND_PIECES_MAX, &total);

    if (n == 1) {
        io_uring_prep_send(sqe, conn->conn.source.fd, send->parts[0].iov_base,
                           send->parts[0].iov_len, MSG_NOSIGNAL);
    } else {
        memset(&send->msg, 0, sizeof(send->msg));
        send->msg.msg_iov = send->parts;
        send->msg.msg_iovlen = n;
        io_uring_prep_sendmsg(sqe, conn->conn.source.fd, &send->msg, MSG_NOSIGNAL);
        uring->send_count++;
    }
    set_source(sqe, &conn->conn.source, TAG_SEND);
}

static enum net_sendq_result uring_conn_flush(struct net_sock_worker *worker,
                                              struct net_sock_conn *base)
{
    struct uring_conn *conn = conn_of(base);
    struct uring *uring = uring_of(worker);
    struct io_uring_sqe *sqe;

    if (conn->sending)
        return NET_SENDQ_PENDING;
    if (base->out.queued_bytes == 0) {
        net_sendq_advance(&base->out, &worker->out_pool, 0);
        return NET_SENDQ_EMPTY;
    }
    if (uring->send_count == SQ_ENTRIES)
        hand_over(uring);
    sqe = uring->send_count < SQ_ENTRIES ? request(uring) : NULL;
    if (!sqe)
        return NET_SENDQ_ERROR;
    prepare_send(uring, conn, sqe);
    conn->sending = true;
    conn->inflight++;
    worker->sends_queued = true;
    net_sock_count(worker, NET_SOCK_WRITES, 1);
    return NET_SENDQ_PENDING;
}

static void conn_free(struct net_sock_worker *worker, struct uring_conn *conn)
{
    u_list_remove(&conn->ending_link);
    net_sock_conn_free(worker, &conn->conn);
}

static void uring_conn_end(struct net_sock_worker *worker, struct net_sock_conn *base)
{
    struct uring_conn *conn = conn_of(base);

    conn->ending = true;
    if (conn->inflight == 0) {
        conn_free(worker, conn);
        return;
    }
    u_list_push_back(&uring_of(worker)->ending, &conn->ending_link);
    if (request_cancel(uring_of(worker), &base->source, true) < 0)
        (void)shutdown(base->source.fd, SHUT_RDWR); /* which also ends the requests in flight */
}

static bool uring_conn_rest(struct net_sock_worker *worker, struct net_sock_conn *base)
{
    struct uring_conn *conn = conn_of(base);

    if (conn->receiving && !conn->cancelling && !(base->interest & EPOLLIN))
        conn->cancelling = request_cancel(uring_of(worker), &base->source, false) == 0;
    return conn->inflight == 0;
}

static bool uring_listeners_rest(const struct net_sock_worker *worker)
{
    unsigned i;

    for (i = 0; i < worker->listener_count; i++) {
        if (worker->listeners[i].kind != NET_ENDPOINT_UDP && uring_of(worker)->listening[i])
            return false;
    }
    return true;
}

/* Handles received bytes and gives their buffer back. Returns as net_sock_conn_input(). */
static int take_buffer(struct net_sock_worker *worker, struct uring_conn *conn,
                       const struct io_uring_cqe *cqe)
{
    struct uring *uring = uring_of(worker);
    unsigned number = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    uint8_t *buffer = uring->buffers + (size_t)number * BUFFER_BYTES;
    int rc = 0;

    U_ASSERT(number < BUFFERS);
    if (!conn->ending && cqe->res > 0) {
        net_sock_count(worker, NET_SOCK_READS, 1);
        rc = net_sock_conn_input(worker, &conn->conn, buffer, (uint32_t)cqe->res);
    }
    io_uring_buf_ring_add(uring->buffer_ring, buffer, BUFFER_BYTES, (unsigned short)number,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(uring->buffer_ring, 1);
    return rc;
}

/* Cancels receiving if too much input is kept. */
static void limit_kept(struct net_sock_worker *worker, struct uring_conn *conn)
{
    const struct net_sock_conn *base = &conn->conn;

    if (!base->kept || base->kept_len - base->kept_at < KEEP_BYTES_MAX || !conn->receiving ||
        conn->cancelling)
        return;
    conn->cancelling = request_cancel(uring_of(worker), &base->source, false) == 0;
}

static void input_event(struct net_sock_worker *worker, struct uring_conn *conn,
                        const struct io_uring_cqe *cqe)
{
    struct net_sock_conn *base = &conn->conn;
    bool again =
        cqe->res == -ENOBUFS || cqe->res == -ECANCELED || cqe->res == -EINTR || cqe->res == -EAGAIN;
    bool broken = cqe->res < 0 && !again;

    if (cqe->flags & IORING_CQE_F_BUFFER)
        broken |= take_buffer(worker, conn, cqe) < 0;
    if (cqe->res == 0)
        base->eof = true;
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        conn->receiving = false;
        conn->cancelling = false;
        conn->inflight--;
    }
    if (conn->ending) {
        if (conn->inflight == 0)
            conn_free(worker, conn);
        return;
    }
    if (!broken && !conn->receiving && !base->eof && (base->interest & EPOLLIN))
        broken = request_receives(uring_of(worker), conn) < 0;
    if (broken) {
        net_sock_conn_abort(worker, base);
        return;
    }
    limit_kept(worker, conn);
    net_sock_conn_update(worker, base);
}

static void send_event(struct net_sock_worker *worker, struct uring_conn *conn, int sent)
{
    conn->sending = false;
    conn->inflight--;
    if (conn->ending) {
        if (conn->inflight == 0)
            conn_free(worker, conn);
        return;
    }
    if (sent < 0 && sent != -EINTR && sent != -EAGAIN) {
        net_sock_conn_abort(worker, &conn->conn);
        return;
    }
    if (sent > 0)
        net_sendq_advance(&conn->conn.out, &worker->out_pool, (uint64_t)sent);
    net_sock_conn_update(worker, &conn->conn);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static int uring_wait(struct net_sock_worker *worker, int timeout_ms)
{
    struct uring *uring = uring_of(worker);
    struct __kernel_timespec timeout = {.tv_sec = timeout_ms / 1000,
                                        .tv_nsec = timeout_ms % 1000 * 1000000ll};
    struct io_uring_cqe *cqe;
    int rc;

    if (timeout_ms == 0)
        rc = io_uring_submit_and_get_events(&uring->ring);
    else
        rc = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1, &timeout, NULL);
    if (rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
        return rc;
    if (io_uring_sq_ready(&uring->ring) == 0)
        uring->send_count = 0;
    return (int)u_min32(io_uring_cq_ready(&uring->ring), DISPATCH_MAX);
}

static void handle(struct net_sock_worker *worker, const struct io_uring_cqe *cqe)
{
    struct net_sock_source *source = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)TAG_MASK);

    switch ((enum tag)(cqe->user_data & TAG_MASK)) {
    case TAG_SEND:
        send_event(worker, conn_of((struct net_sock_conn *)source), cqe->res);
        return;
    case TAG_INPUT:
        break;
    default:
        return; /* the cancelled request has its own completion */
    }
    switch (source->kind) {
    case NET_SOCK_WAKE:
        wake_event(worker);
        break;
    case NET_SOCK_LISTENER:
    case NET_SOCK_UDP:
        listener_event(worker, (const struct net_sock_listener *)source, cqe);
        break;
    case NET_SOCK_CONN:
        input_event(worker, conn_of((struct net_sock_conn *)source), cqe);
        break;
    }
}

static void uring_dispatch(struct net_sock_worker *worker, int events)
{
    struct uring *uring = uring_of(worker);
    struct io_uring_cqe *cqes[DISPATCH_MAX];
    unsigned n = io_uring_peek_batch_cqe(&uring->ring, cqes, (unsigned)events);
    unsigned i;

    for (i = 0; i < n; i++)
        handle(worker, cqes[i]);
    io_uring_cq_advance(&uring->ring, n);
}

/* ---- beginning and ending ---------------------------------------------------------------- */

/*
 * Only this thread submits requests, and completions are processed when it waits. The ring is
 * created disabled, so that it can be restricted.
 */
static int make_ring(struct io_uring *ring)
{
    struct io_uring_params params = {.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = CQ_ENTRIES};

    return io_uring_queue_init_params(SQ_ENTRIES, ring, &params);
}

/* liburing 2.3 declares functions for these, but does not export them. */
static int register_ring(struct io_uring *ring, unsigned what, void *arg, unsigned count)
{
    long rc = syscall(__NR_io_uring_register, ring->ring_fd, what, arg, count);

    return rc < 0 ? -errno : 0;
}

/*
 * Restricts the ring to the operations used here: a filter on system calls cannot see those of
 * io_uring. Buffers have been registered before. Then enables the ring.
 */
static int restrict_ring(struct io_uring *ring)
{
    static const uint8_t operations[] = {IORING_OP_POLL_ADD, IORING_OP_ACCEPT,
                                         IORING_OP_RECV,     IORING_OP_SEND,
                                         IORING_OP_SENDMSG,  IORING_OP_ASYNC_CANCEL};
    struct io_uring_restriction list[U_ARRAY_LEN(operations) + 1];
    unsigned i;
    int rc;

    memset(list, 0, sizeof(list));
    for (i = 0; i < U_ARRAY_LEN(operations); i++) {
        list[i].opcode = IORING_RESTRICTION_SQE_OP;
        list[i].sqe_op = operations[i];
    }
    list[i].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    list[i].sqe_flags = IOSQE_BUFFER_SELECT;
    rc = register_ring(ring, IORING_REGISTER_RESTRICTIONS, list, U_ARRAY_LEN(list));
    return rc == 0 ? register_ring(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) : rc;
}

/* Called in the worker's thread, after the fork of -d. */
static int make_buffers(struct uring *uring)
{
    size_t ring_bytes = BUFFERS * sizeof(struct io_uring_buf);
    size_t bytes = ring_bytes + (size_t)BUFFERS * BUFFER_BYTES;
    struct io_uring_buf_reg reg = {.ring_entries = BUFFERS, .bgid = BUFFER_GROUP};
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned i;
    int rc;

    if (memory == MAP_FAILED)
        return -ENOMEM;
    uring->buffer_ring = memory;
    uring->buffers = (uint8_t *)memory + ring_bytes;
    reg.ring_addr = (uint64_t)(uintptr_t)memory;
    rc = io_uring_register_buf_ring(&uring->ring, &reg, 0);
    if (rc < 0) {
        munmap(memory, bytes);
        return rc;
    }
    io_uring_buf_ring_init(uring->buffer_ring);
    for (i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(uring->buffer_ring, uring->buffers + (size_t)i * BUFFER_BYTES,
                              BUFFER_BYTES, (unsigned short)i, io_uring_buf_ring_mask(BUFFERS),
                              (int)i);
    io_uring_buf_ring_advance(uring->buffer_ring, BUFFERS);
    return 0;
}

static void free_buffers(struct uring *uring)
{
    (void)munmap(uring->buffer_ring,
                 BUFFERS * sizeof(struct io_uring_buf) + (size_t)BUFFERS * BUFFER_BYTES);
}

/* Connections that have ended wait for the completions of requests that use their memory. */
static void uring_end(struct net_sock_worker *worker)
{
    struct uring *uring = uring_of(worker);
    unsigned rounds = DRAIN_ROUNDS;
    int n;

    while (!u_list_is_empty(&uring->ending) && rounds-- > 0) {
        n = uring_wait(worker, DRAIN_MS);
        if (n > 0)
            uring_dispatch(worker, n);
    }
    io_uring_queue_exit(&uring->ring);
    while (!u_list_is_empty(&uring->ending))
        conn_free(worker, U_CONTAINER_OF(uring->ending.next, struct uring_conn, ending_link));
    free_buffers(uring);
    free(uring);
}

static int uring_begin(struct net_sock_worker *worker)
{
    struct uring *uring = calloc(1, sizeof(*uring));
    unsigned i;
    int rc;

    if (!uring)
        return -ENOMEM;
    u_list_init(&uring->ending);
    rc = make_ring(&uring->ring);
    if (rc < 0) {
        free(uring);
        return rc;
    }
    rc = make_buffers(uring);
    if (rc == 0) {
        rc = restrict_ring(&uring->ring);
        if (rc < 0)
            free_buffers(uring);
    }
    if (rc < 0) {
        io_uring_queue_exit(&uring->ring);
        free(uring);
        return rc;
    }
    worker->io_state = uring;
    (void)request_poll(uring, &worker->wake); /* the first requests always have room */
    /* An accept request on a non-blocking socket would complete with EAGAIN. */
    rc = net_sock_accept_block(worker, !worker->accept_waits);
    for (i = 0; i < worker->listener_count && rc == 0; i++)
        rc = listener_request(worker, &worker->listeners[i]);
    if (rc < 0)
        uring_end(worker);
    return rc;
}

const struct net_sock_io net_sock_uring = {
    .conn_bytes = sizeof(struct uring_conn),
    .accept_flags = SOCK_CLOEXEC,
    .begin = uring_begin,
    .end = uring_end,
    .wait = uring_wait,
    .dispatch = uring_dispatch,
    .accept_want = uring_accept_want,
    .conn_begin = uring_conn_begin,
    .conn_want = uring_conn_want,
    .conn_flush = uring_conn_flush,
    .conn_rest = uring_conn_rest,
    .listeners_rest = uring_listeners_rest,
    .conn_end = uring_conn_end,
};

int net_sock_uring_check(char error[NET_ERROR_MAX])
{
    struct io_uring ring;
    int rc = make_ring(&ring);

    if (rc == 0) {
        io_uring_queue_exit(&ring);
        return 0;
    }
    snprintf(error, NET_ERROR_MAX, "no io_uring: %s",
             rc == -EPERM || rc == -EACCES
                 ? "forbidden here (sysctl kernel.io_uring_disabled, or seccomp in a container)"
             : rc == -EINVAL ? "this kernel's is too old, it takes Linux 6.1"
                             : strerror(-rc));
    return -1;
}
