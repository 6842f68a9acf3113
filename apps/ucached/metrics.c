/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HTTP server of --metrics; see metrics.h. It runs in a thread of ours, because libmicrohttpd
 * 0.9.75 may refer to a reply that is not there if it stops its own thread while requests are
 * malformed.
 */
#define _GNU_SOURCE /* pthread_setname_np() */
#include "metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <metrics_page.h> /* generated from metrics_page.html */

#include "base/base.h"
#include "metrics_text.h"
#include "net/log.h"

/* Further connections wait in the kernel. */
#define CONNECTIONS_MAX 8
#define BACKLOG 16

/* Of each: headers of a request and of its reply; seconds for both together. */
#define CONNECTION_BYTES (16 * 1024)
#define CONNECTION_TIMEOUT_S 10u

#define WAIT_MAX_MS 1000 /* between two runs of the daemon */

/* A text is sent again for as long, so that frequent requests cost little. */
#define TEXT_AGE_NS UINT64_C(200000000)

#define CONTENT_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define CONTENT_PAGE "text/html; charset=utf-8"
#define CONTENT_ERROR "text/plain; charset=utf-8"

/* The page loads nothing but /metrics. */
#define PAGE_POLICY                                                                                \
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; "          \
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#define ADDRESS_MAX 80 /* "[IPv6 address]:port" */

#define CONNECTION_TIMEOUT_NS (CONNECTION_TIMEOUT_S * UINT64_C(1000000000))

/* A connection that is served. */
struct client {
    int fd;
    uint64_t end_ns; /* when it has to be complete; 0: there is no connection */
};

struct metrics {
    int fd; /* listening; -1 once the daemon has it */
    char address[ADDRESS_MAX];
    struct cache *cache;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool started;              /* the thread */
    int stop_fd;               /* eventfd: the thread has to end */
    struct MHD_Response *text; /* the last one, or null; used by the daemon's thread only */
    uint64_t text_ns;          /* when it was made */
    struct client clients[CONNECTIONS_MAX]; /* used by the daemon's thread only */
};

/* ---- the address ------------------------------------------------------------------------- */

static int fail(const char *address, const char *why)
{
    net_log_error("ucached: --metrics=%s: %s", address, why);
    return -1;
}

/* Splits "host:port", "[host]:port" or "port". */
static int split(const char *address, char host[ADDRESS_MAX], const char **port)
{
    const char *colon = strrchr(address, ':');
    const char *from = address;
    size_t len;

    *port = colon != NULL ? colon + 1 : address;
    if (colon == NULL) {
        snprintf(host, ADDRESS_MAX, "127.0.0.1");
        return 0;
    }
    len = (size_t)(colon - address);
    if (len > 2 && from[0] == '[' && from[len - 1] == ']') {
        from++;
        len -= 2;
    } else if (memchr(from, ':', len) != NULL) {
        return -1; /* IPv6 without brackets */
    }
    if (len == 0 || len >= ADDRESS_MAX)
        return -1;
    memcpy(host, from, len);
    host[len] = '\0';
    return 0;
}

static int listen_on(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    int saved;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Writes the address of the socket, with the port that the kernel has chosen. */
static void name_socket(struct metrics *metrics)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char host[INET6_ADDRSTRLEN] = "?";
    char port[8] = "?";

    memset(&addr, 0, sizeof(addr));
    if (getsockname(metrics->fd, (struct sockaddr *)&addr, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(metrics->address, sizeof(metrics->address),
             addr.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && digits <= 5 && text[digits] == '\0' && strtoul(text, NULL, 10) <= 65535;
}

static int open_socket(struct metrics *metrics, const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char host[ADDRESS_MAX];
    struct addrinfo *info;
    const char *port;
    int rc;

    if (split(address, host, &port) < 0 || !is_port(port))
        return fail(address, "not ADDRESS:PORT, such as 127.0.0.1:9150 or [::1]:9150");
    rc = getaddrinfo(host, port, &hints, &info);
    if (rc != 0)
        return fail(address, gai_strerror(rc));
    metrics->fd = listen_on(info);
    freeaddrinfo(info);
    if (metrics->fd < 0)
        return fail(address, strerror(errno));
    name_socket(metrics);
    return 0;
}

struct metrics *metrics_open(const char *address)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    if (metrics == NULL) {
        fail(address, "no memory");
        return NULL;
    }
    metrics->fd = -1;
    metrics->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (metrics->stop_fd < 0) {
        fail(address, strerror(errno));
    } else if (open_socket(metrics, address) == 0) {
        net_log("ucached: metrics on http://%s/", metrics->address);
        return metrics;
    }
    metrics_close(metrics);
    return NULL;
}

/* ---- replies ----------------------------------------------------------------------------- */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

/* Headers of all replies. */
static void add_headers(struct MHD_Response *response, const char *content)
{
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content);
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

static struct MHD_Response *make_text(const struct metrics *metrics)
{
    const union MHD_DaemonInfo *open =
        MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    struct metrics_text text = {NULL, 0, 0, false};
    struct MHD_Response *response = NULL;

    metrics_text_fill(&text, metrics->cache, open != NULL ? open->num_connections : 0);
    if (!text.failed)
        response = MHD_create_response_from_buffer(text.len, text.bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        metrics_text_free(&text);
        return NULL;
    }
    add_headers(response, CONTENT_METRICS);
    return response;
}

static enum MHD_Result send_text(struct metrics *metrics, struct MHD_Connection *connection)
{
    uint64_t now_ns = clock_ns();

    if (metrics->text == NULL || now_ns - metrics->text_ns >= TEXT_AGE_NS) {
        if (metrics->text != NULL)
            MHD_destroy_response(metrics->text);
        metrics->text = make_text(metrics);
        metrics->text_ns = now_ns;
    }
    if (metrics->text == NULL)
        return MHD_NO; /* closes the connection */
    return MHD_queue_response(connection, MHD_HTTP_OK, metrics->text);
}

static enum MHD_Result send_bytes(struct MHD_Connection *connection, unsigned status,
                                  const char *content, const void *bytes, size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (response == NULL)
        return MHD_NO;
    add_headers(response, content);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (bytes == metrics_page)
        add_header(response, "Content-Security-Policy", PAGE_POLICY);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Replies as soon as the headers are there, so that no body is read. */
static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    static const char not_allowed[] = "only GET and HEAD\n";
    static const char not_found[] = "here are / and /metrics\n";

    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_bytes(connection, MHD_HTTP_METHOD_NOT_ALLOWED, CONTENT_ERROR, not_allowed,
                          sizeof(not_allowed) - 1);
    if (strcmp(url, "/metrics") == 0)
        return send_text(ctx, connection);
    if (strcmp(url, "/") == 0)
        return send_bytes(connection, MHD_HTTP_OK, CONTENT_PAGE, metrics_page,
                          sizeof(metrics_page));
    return send_bytes(connection, MHD_HTTP_NOT_FOUND, CONTENT_ERROR, not_found,
                      sizeof(not_found) - 1);
}

/* ---- connections ------------------------------------------------------------------------- */

static void client_begin(struct client *client, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    client->fd = info->connect_fd;
    client->end_ns = clock_ns() + CONNECTION_TIMEOUT_NS;
}

/* A connection begins, or ends while its descriptor is still open. */
static void connection_changes(void *ctx, struct MHD_Connection *connection, void **client,
                               enum MHD_ConnectionNotificationCode what)
{
    struct metrics *metrics = ctx;
    struct client *at = metrics->clients;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        ((struct client *)*client)->end_ns = 0;
        return;
    }
    while (at->end_ns != 0) {
        at++;
        U_ASSERT(at < metrics->clients + CONNECTIONS_MAX);
    }
    client_begin(at, connection);
    *client = at;
}

/*
 * Ends connections that take too long. The library ends only those without any progress: clients
 * that send a byte from time to time would keep out all others.
 */
static void end_late(struct metrics *metrics)
{
    uint64_t now_ns = clock_ns();
    struct client *client;

    for (client = metrics->clients; client < metrics->clients + CONNECTIONS_MAX; client++) {
        if (client->end_ns != 0 && now_ns >= client->end_ns)
            (void)shutdown(client->fd, SHUT_RDWR);
    }
}

/* ---- start and end ----------------------------------------------------------------------- */

/* Messages of the library are about connections that broke: not for stderr. */
static void drop_message(void *ctx, const char *format, va_list args)
{
}

/*
 * The milliseconds after which the daemon runs without an event. It does not watch the listening
 * socket while it has CONNECTIONS_MAX, and watches it again in a run that no event announces: hence
 * WAIT_MAX_MS.
 */
static int wait_ms(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    if (MHD_get_timeout(daemon, &timeout_ms) != MHD_YES)
        return WAIT_MAX_MS;
    return (int)u_min64(timeout_ms, WAIT_MAX_MS);
}

/* Serves until metrics_close() writes to stop_fd, or poll() fails. */
static void *thread_main(void *ctx)
{
    struct metrics *metrics = ctx;
    const union MHD_DaemonInfo *epoll =
        MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = metrics->stop_fd, .events = POLLIN},
                           {.fd = epoll->epoll_fd, .events = POLLIN}};

    pthread_setname_np(pthread_self(), "metrics");
    while (fds[0].revents == 0) {
        if (poll(fds, U_ARRAY_LEN(fds), wait_ms(metrics->daemon)) < 0 && errno != EINTR)
            break;
        end_late(metrics);
        (void)MHD_run(metrics->daemon);
    }
    return NULL;
}

int metrics_start(struct metrics *metrics, struct cache *cache)
{
    int rc;

    metrics->cache = cache;
    metrics->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, answer, metrics, MHD_OPTION_EXTERNAL_LOGGER, drop_message,
        NULL, MHD_OPTION_LISTEN_SOCKET, metrics->fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_TIMEOUT_S, MHD_OPTION_NOTIFY_CONNECTION,
        connection_changes, metrics, MHD_OPTION_END);
    if (metrics->daemon == NULL)
        return fail(metrics->address, "cannot start the HTTP server");
    metrics->fd = -1;
    rc = pthread_create(&metrics->thread, NULL, thread_main, metrics);
    if (rc != 0)
        return fail(metrics->address, strerror(rc));
    metrics->started = true;
    return 0;
}

void metrics_close(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    if (metrics->started) {
        (void)eventfd_write(metrics->stop_fd, 1);
        pthread_join(metrics->thread, NULL);
    }
    if (metrics->daemon != NULL)
        MHD_stop_daemon(metrics->daemon);
    if (metrics->fd >= 0)
        close(metrics->fd);
    if (metrics->stop_fd >= 0)
        close(metrics->stop_fd);
    if (metrics->text != NULL)
        MHD_destroy_response(metrics->text);
    free(metrics);
}
