/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses that kernel sockets listen on: the grammar of -l, name resolution, and the check
 * that no other process listens on them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "net/handover.h"
#include "net/sock_worker.h"

#define ITEM_MAX 300 /* a host name has at most 255 characters */

/* How long a port may be in use when the server starts: a second. */
#define CLAIM_PAUSE_NS 10000000
#define CLAIM_PAUSES_MAX 100

__attribute__((format(printf, 2, 3))) static int fail(char error[NET_ERROR_MAX], const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, NET_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

const char *net_endpoint_text(const struct net_endpoint *endpoint, char text[NET_ENDPOINT_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    char port[8] = "?";
    struct sockaddr_un un;

    if (endpoint->kind == NET_ENDPOINT_UNIX) {
        memcpy(&un, &endpoint->addr, sizeof(un));
        snprintf(text, NET_ENDPOINT_TEXT_MAX, "%s", un.sun_path);
        return text;
    }
    getnameinfo((const struct sockaddr *)&endpoint->addr, endpoint->addr_len, host, sizeof(host),
                port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, NET_ENDPOINT_TEXT_MAX, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return text;
}

void net_read_address(const struct sockaddr *from, uint8_t addr[16], uint16_t *port)
{
    struct sockaddr_in6 in6;
    struct sockaddr_in in4;

    if (from->sa_family == AF_INET6) {
        memcpy(&in6, from, sizeof(in6));
        *port = ntohs(in6.sin6_port);
        memcpy(addr, &in6.sin6_addr, 16);
    } else if (from->sa_family == AF_INET) {
        memcpy(&in4, from, sizeof(in4));
        *port = ntohs(in4.sin_port);
        memcpy(addr, &in4.sin_addr, 4);
    }
}

uint16_t net_endpoint_port(const struct net_endpoint *endpoint)
{
    uint8_t addr[16];
    uint16_t port = 0;

    net_read_address((const struct sockaddr *)&endpoint->addr, addr, &port);
    return port;
}

static const char *transport_name(enum net_endpoint_kind kind, bool is_ip6)
{
    switch (kind) {
    case NET_ENDPOINT_TCP:
        return is_ip6 ? "tcp6" : "tcp";
    case NET_ENDPOINT_UDP:
        return is_ip6 ? "udp6" : "udp";
    case NET_ENDPOINT_UNIX:
        break;
    }
    return "unix";
}

void net_endpoint_peer(const struct net_endpoint *endpoint, struct cache_peer *peer)
{
    const struct sockaddr *addr = (const struct sockaddr *)&endpoint->addr;

    memset(peer, 0, sizeof(*peer));
    peer->transport = transport_name(endpoint->kind, addr->sa_family == AF_INET6);
    peer->binding = endpoint->binding;
    peer->tls = endpoint->tls;
    net_read_address(addr, peer->local_addr, &peer->local_port);
}

/* ---- the grammar ------------------------------------------------------------------------- */

struct item {
    char text[ITEM_MAX + 1]; /* as given; cut in place */
    const char *host;        /* null: all addresses */
    uint16_t port;
    enum cache_binding binding;
    enum cache_tls tls;
};

static int parse_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long value;

    if (text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (*end != '\0' || errno != 0 || value < 1 || value > 65535)
        return -1;
    *port = (uint16_t)value;
    return 0;
}

/* Splits off the port: "[host]:port", "host:port"; more colons without brackets are IPv6. */
static int parse_host(struct item *item, char *host, char error[NET_ERROR_MAX])
{
    char *port = NULL;
    char *end;

    if (host[0] == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return fail(error, "-l: \"%s\" is not [address] or [address]:port", item->text);
        if (end[1] == ':')
            port = end + 2;
        *end = '\0';
    } else if ((end = strchr(host, ':')) != NULL && end == strrchr(host, ':')) {
        port = end + 1;
        *end = '\0';
    }
    if (port && parse_port(port, &item->port) < 0)
        return fail(error, "-l: the port of \"%s\" must be 1..65535, not \"%s\"", host, port);
    if (host[0] == '\0')
        return fail(error, "-l: an address is missing");
    item->host = strcmp(host, "*") == 0 ? NULL : host;
    return 0;
}

static int parse_binding(const char *name, size_t len, enum cache_binding *binding)
{
    static const struct {
        const char *name;
        enum cache_binding binding;
    } known[] = {
        {"ascii", CACHE_BINDING_ASCII},
        {"binary", CACHE_BINDING_BINARY},
        {"negotiating", CACHE_BINDING_NEGOTIATE},
    };
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) != len || memcmp(known[i].name, name, len) != 0)
            continue;
        *binding = known[i].binding;
        return 0;
    }
    return -1;
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Takes one prefix off the front of *at. Returns 1, 0 if there is none, or -1 with a message. */
static int take_prefix(struct item *item, char **at, char error[NET_ERROR_MAX])
{
    char *end;

    if (begins(*at, "notls:")) {
        *at += strlen("notls:");
        item->tls = CACHE_TLS_OFF;
        return 1;
    }
    if (begins(*at, "btls:") || begins(*at, "mtls:")) {
        if (item->tls == CACHE_TLS_OFF)
            return fail(error, "-l: \"%s\": btls: and mtls: are for TLS; add -Z", item->text);
        item->tls = **at == 'b' ? CACHE_TLS_NO_CERT : CACHE_TLS_CERT;
        *at += strlen("btls:");
        return 1;
    }
    if (begins(*at, "proto[")) {
        end = strstr(*at, "]:");
        if (!end || parse_binding(*at + 6, (size_t)(end - *at - 6), &item->binding) < 0)
            return fail(error, "-l: \"%s\": proto[] is one of ascii, binary, negotiating",
                        item->text);
        *at = end + 2;
        return 1;
    }
    if (begins(*at, "tag[") || begins(*at, "tag_")) {
        end = strstr(*at + 4, (*at)[3] == '[' ? "]:" : "_:");
        if (!end)
            return fail(error, "-l: \"%s\": a tag is written tag[name]: or tag_name_:", item->text);
        *at = end + 2;
        return 1;
    }
    return 0;
}

static int parse_item(struct item *item, char error[NET_ERROR_MAX])
{
    char *at = item->text;
    int taken;

    while ((taken = take_prefix(item, &at, error)) > 0)
        continue;
    return taken < 0 ? -1 : parse_host(item, at, error);
}

static bool has_endpoint(const struct net_endpoints *endpoints, const struct net_endpoint *endpoint)
{
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        if (endpoints->list[i].kind == endpoint->kind &&
            endpoints->list[i].addr_len == endpoint->addr_len &&
            memcmp(&endpoints->list[i].addr, &endpoint->addr, endpoint->addr_len) == 0)
            return true;
    }
    return false;
}

void net_endpoints_add(struct net_endpoints *endpoints, enum net_endpoint_kind kind,
                       const struct us_addr *addr, uint16_t port)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct net_endpoint *endpoint = &endpoints->list[endpoints->count++];

    U_ASSERT(endpoints->count <= NET_ENDPOINT_MAX);
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->kind = kind;
    endpoint->tls = endpoints->tls && kind == NET_ENDPOINT_TCP ? CACHE_TLS_ON : CACHE_TLS_OFF;
    endpoint->fd = -1;
    memcpy(&in6.sin6_addr, addr->bytes, sizeof(in6.sin6_addr));
    memcpy(&in4.sin_addr, addr->bytes, sizeof(in4.sin_addr));
    endpoint->addr_len = addr->family == US_IP6 ? sizeof(in6) : sizeof(in4);
    memcpy(&endpoint->addr, addr->family == US_IP6 ? (void *)&in6 : (void *)&in4,
           endpoint->addr_len);
}

static int add_endpoint(struct net_endpoints *endpoints, const struct net_endpoint *endpoint,
                        char error[NET_ERROR_MAX])
{
    if (endpoints->count == NET_ENDPOINT_MAX)
        return fail(error, "-l: more than %d addresses", NET_ENDPOINT_MAX);
    endpoints->list[endpoints->count++] = *endpoint;
    return 0;
}

static int resolve_item(const struct item *item, enum net_endpoint_kind kind,
                        struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found, *at;
    struct net_endpoint endpoint;
    char port[8];
    int rc;

    if (kind == NET_ENDPOINT_UDP)
        hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    snprintf(port, sizeof(port), "%u", item->port);
    rc = getaddrinfo(item->host, port, &hints, &found);
    if (rc != 0)
        return fail(error, "-l: cannot find the address of \"%s\": %s",
                    item->host ? item->host : "*", gai_strerror(rc));
    for (at = found; at && rc == 0; at = at->ai_next) {
        memset(&endpoint, 0, sizeof(endpoint));
        endpoint.kind = kind;
        endpoint.binding = item->binding;
        endpoint.tls = kind == NET_ENDPOINT_TCP ? item->tls : CACHE_TLS_OFF;
        endpoint.fd = -1;
        memcpy(&endpoint.addr, at->ai_addr, at->ai_addrlen);
        endpoint.addr_len = at->ai_addrlen;
        endpoint.optional = item->host == NULL;
        if (!has_endpoint(endpoints, &endpoint))
            rc = add_endpoint(endpoints, &endpoint, error);
    }
    freeaddrinfo(found);
    return rc;
}

int net_endpoints_resolve(const char *spec, uint16_t port, enum net_endpoint_kind kind,
                          struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    unsigned before = endpoints->count;
    struct item item;
    size_t len;

    for (spec = spec ? spec : "*"; *spec != '\0'; spec += len + (spec[len] != '\0')) {
        len = strcspn(spec, ",;");
        if (len == 0)
            continue;
        if (len > ITEM_MAX)
            return fail(error, "-l: an address has more than %d characters", ITEM_MAX);
        memcpy(item.text, spec, len);
        item.text[len] = '\0';
        item.port = port;
        item.binding = CACHE_BINDING_NEGOTIATE;
        item.tls = endpoints->tls ? CACHE_TLS_ON : CACHE_TLS_OFF;
        if (parse_item(&item, error) < 0 || resolve_item(&item, kind, endpoints, error) < 0)
            return -1;
    }
    return endpoints->count > before ? 0 : fail(error, "-l: an address is missing");
}

/* ---- unix sockets ------------------------------------------------------------------------ */

int net_unix_remove_stale(const char *path)
{
    struct stat found;

    if (lstat(path, &found) < 0)
        return errno == ENOENT ? 0 : -1;
    if (S_ISSOCK(found.st_mode))
        return unlink(path);
    errno = EEXIST;
    return -1;
}

int net_endpoints_unix(const char *path, unsigned access, struct net_endpoints *endpoints,
                       char error[NET_ERROR_MAX])
{
    struct net_endpoint endpoint = {.kind = NET_ENDPOINT_UNIX};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    mode_t before;
    int rc;

    if (strlen(path) > NET_UNIX_PATH_MAX)
        return fail(error, "-s: the path is longer than %d characters", NET_UNIX_PATH_MAX);
    memcpy(un.sun_path, path, strlen(path));
    memcpy(&endpoint.addr, &un, sizeof(un));
    endpoint.addr_len = sizeof(un);
    if (net_unix_remove_stale(path) < 0)
        return fail(error, "-s: %s is in the way: %s", path, strerror(errno));
    endpoint.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (endpoint.fd < 0)
        return fail(error, "-s: no socket: %s", strerror(errno));
    before = umask(~access & 0777);
    rc = bind(endpoint.fd, (const struct sockaddr *)&un, sizeof(un));
    umask(before);
    if (rc < 0)
        fail(error, "-s: cannot make %s: %s", path, strerror(errno));
    if (rc == 0)
        rc = add_endpoint(endpoints, &endpoint, error);
    if (rc < 0)
        close(endpoint.fd);
    return rc;
}

static int socket_number(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

int net_endpoints_inherit(int fd, struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    struct net_endpoint endpoint = {.fd = fd, .addr_len = sizeof(endpoint.addr)};
    int on = 1;

    if (socket_number(fd, SO_TYPE) != SOCK_STREAM || socket_number(fd, SO_ACCEPTCONN) != 1 ||
        getsockname(fd, (struct sockaddr *)&endpoint.addr, &endpoint.addr_len) < 0)
        return fail(error, "descriptor %d is not a listening stream socket", fd);
    endpoint.kind = endpoint.addr.ss_family == AF_UNIX ? NET_ENDPOINT_UNIX : NET_ENDPOINT_TCP;
    if (endpoint.kind == NET_ENDPOINT_TCP && endpoint.addr.ss_family != AF_INET &&
        endpoint.addr.ss_family != AF_INET6)
        return fail(error, "descriptor %d is neither a TCP nor a unix socket", fd);
    if (endpoint.kind == NET_ENDPOINT_TCP && endpoints->tls)
        endpoint.tls = CACHE_TLS_ON;
    /* Accepted sockets inherit this; it ends connections of vanished clients. */
    if (endpoint.kind == NET_ENDPOINT_TCP)
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return fail(error, "descriptor %d: %s", fd, strerror(errno));
    return add_endpoint(endpoints, &endpoint, error);
}

/* The number of the endpoint of an inherited socket, which is added if it is new; -1: no room. */
static int endpoint_of(struct net_endpoints *endpoints, const struct net_endpoint *wanted,
                       char error[NET_ERROR_MAX])
{
    unsigned i;

    for (i = 0; i < endpoints->count && wanted->fd < 0; i++) {
        const struct net_endpoint *found = &endpoints->list[i];

        if (found->fd < 0 && found->kind == wanted->kind && found->addr_len == wanted->addr_len &&
            memcmp(&found->addr, &wanted->addr, found->addr_len) == 0)
            return (int)i;
    }
    return add_endpoint(endpoints, wanted, error) < 0 ? -1 : (int)endpoints->count - 1;
}

static int take_over_listener(struct net_handover *handover,
                              const struct net_handover_record *record,
                              struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    struct net_endpoint endpoint = {.kind = (enum net_endpoint_kind)record->transport,
                                    .binding = (enum cache_binding)record->binding,
                                    .tls = (enum cache_tls)record->tls,
                                    .addr_len = sizeof(endpoint.addr),
                                    .fd = -1};
    int fd = handover->fds[record->fd];
    int number;

    if (getsockname(fd, (struct sockaddr *)&endpoint.addr, &endpoint.addr_len) < 0)
        return fail(error, "a listening socket is missing: %s", strerror(errno));
    if (record->shared)
        endpoint.fd = fd;
    number = endpoint_of(endpoints, &endpoint, error);
    if (number < 0)
        return -1;
    if (!record->shared && endpoints->inherited_count == NET_INHERITED_MAX)
        return fail(error, "there are more than %d listening sockets", NET_INHERITED_MAX);
    if (!record->shared)
        endpoints->inherited[endpoints->inherited_count++] =
            (struct net_inherited){.fd = fd, .endpoint = (unsigned)number};
    (void)net_handover_take_fd(handover, record->fd);
    return 0;
}

int net_endpoints_take_over(struct net_handover *handover, struct net_endpoints *endpoints,
                            char error[NET_ERROR_MAX])
{
    const struct net_handover_record *record;
    size_t at = 0;

    while ((record = net_handover_next(handover, &at)) != NULL) {
        if (record->kind == NET_HANDOVER_LISTENER &&
            take_over_listener(handover, record, endpoints, error) < 0)
            return -1;
    }
    return 0;
}

void net_endpoints_close(struct net_endpoints *endpoints)
{
    unsigned i;

    for (i = 0; i < endpoints->inherited_count; i++) {
        if (endpoints->inherited[i].fd >= 0)
            close(endpoints->inherited[i].fd);
    }
    endpoints->inherited_count = 0;

    for (i = 0; i < endpoints->count; i++) {
        if (endpoints->list[i].fd >= 0)
            close(endpoints->list[i].fd);
    }
    endpoints->count = 0;
}

/* ---- the check --------------------------------------------------------------------------- */

static void endpoint_set_port(struct net_endpoint *endpoint, uint16_t port)
{
    struct sockaddr_in6 in6;
    struct sockaddr_in in4;

    if (endpoint->addr.ss_family == AF_INET6) {
        memcpy(&in6, &endpoint->addr, sizeof(in6));
        in6.sin6_port = htons(port);
        memcpy(&endpoint->addr, &in6, sizeof(in6));
    } else {
        memcpy(&in4, &endpoint->addr, sizeof(in4));
        in4.sin_port = htons(port);
        memcpy(&endpoint->addr, &in4, sizeof(in4));
    }
}

/* Binds without SO_REUSEPORT, which fails if the port is in use. Replaces port 0. */
static int endpoint_probe(struct net_endpoint *endpoint)
{
    int type = endpoint->kind == NET_ENDPOINT_UDP ? SOCK_DGRAM : SOCK_STREAM;
    int fd = socket(endpoint->addr.ss_family, type | SOCK_CLOEXEC, 0);
    socklen_t len = endpoint->addr_len;
    int on = 1;
    int saved;

    if (fd < 0)
        return -1;
    /* With datagrams SO_REUSEADDR would share the port with other processes. */
    if ((type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) ||
        (endpoint->addr.ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
        bind(fd, (const struct sockaddr *)&endpoint->addr, endpoint->addr_len) < 0 ||
        getsockname(fd, (struct sockaddr *)&endpoint->addr, &len) < 0) {
        saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    close(fd);
    return 0;
}

/*
 * Probes again while the port is in use and pauses are left: after the end of a process the kernel
 * may still be closing its sockets.
 */
static int endpoint_probe_again(struct net_endpoint *endpoint, unsigned *pauses)
{
    const struct timespec pause = {.tv_nsec = CLAIM_PAUSE_NS};
    int rc = endpoint_probe(endpoint);

    while (rc < 0 && errno == EADDRINUSE && *pauses > 0) {
        --*pauses;
        (void)nanosleep(&pause, NULL);
        rc = endpoint_probe(endpoint);
    }
    return rc;
}

int net_endpoints_claim(struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    uint16_t free_port[NET_ENDPOINT_UNIX] = {0}; /* by kind */
    char text[NET_ENDPOINT_TEXT_MAX];
    struct net_endpoint endpoint;
    unsigned pauses = CLAIM_PAUSES_MAX;
    unsigned used = 0;
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        endpoint = endpoints->list[i];
        if (endpoint.fd < 0) {
            if (net_endpoint_port(&endpoint) == 0)
                endpoint_set_port(&endpoint, free_port[endpoint.kind]);
            if (endpoint_probe_again(&endpoint, &pauses) < 0) {
                if (endpoint.optional && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
                    continue;
                return fail(error, "cannot listen on %s: %s; choose another address with -l or -p",
                            net_endpoint_text(&endpoint, text), strerror(errno));
            }
            free_port[endpoint.kind] = net_endpoint_port(&endpoint);
        }
        endpoints->list[used++] = endpoint;
    }
    endpoints->count = used;
    return used > 0 ? 0 : fail(error, "this machine has neither IPv4 nor IPv6");
}
