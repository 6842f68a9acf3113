/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where kernel sockets listen: the grammar of -l, name resolution, and the check that nobody else
 * listens there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/net.h"

#define ITEM_MAX 300 /* a host name has at most 255 characters */

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

    getnameinfo((const struct sockaddr *)&endpoint->addr, endpoint->addr_len, host, sizeof(host),
                port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, NET_ENDPOINT_TEXT_MAX, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return text;
}

/* ---- the grammar ------------------------------------------------------------------------- */

struct item {
    char text[ITEM_MAX + 1]; /* as given; cut in place */
    const char *host;        /* null: all addresses */
    uint16_t port;
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
static int parse_item(struct item *item, char error[NET_ERROR_MAX])
{
    char *host = item->text;
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

static bool has_endpoint(const struct net_endpoints *endpoints, const struct net_endpoint *endpoint)
{
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        if (endpoints->list[i].addr_len == endpoint->addr_len &&
            memcmp(&endpoints->list[i].addr, &endpoint->addr, endpoint->addr_len) == 0)
            return true;
    }
    return false;
}

static int resolve_item(const struct item *item, struct net_endpoints *endpoints,
                        char error[NET_ERROR_MAX])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found, *at;
    struct net_endpoint endpoint;
    char port[8];
    int rc;

    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    snprintf(port, sizeof(port), "%u", item->port);
    rc = getaddrinfo(item->host, port, &hints, &found);
    if (rc != 0)
        return fail(error, "-l: cannot find the address of \"%s\": %s",
                    item->host ? item->host : "*", gai_strerror(rc));
    for (at = found; at; at = at->ai_next) {
        memset(&endpoint, 0, sizeof(endpoint));
        memcpy(&endpoint.addr, at->ai_addr, at->ai_addrlen);
        endpoint.addr_len = at->ai_addrlen;
        endpoint.optional = item->host == NULL;
        if (has_endpoint(endpoints, &endpoint))
            continue;
        if (endpoints->count == NET_ENDPOINT_MAX) {
            freeaddrinfo(found);
            return fail(error, "-l: more than %d addresses", NET_ENDPOINT_MAX);
        }
        endpoints->list[endpoints->count++] = endpoint;
    }
    freeaddrinfo(found);
    return 0;
}

int net_endpoints_resolve(const char *spec, uint16_t port, struct net_endpoints *endpoints,
                          char error[NET_ERROR_MAX])
{
    struct item item;
    size_t len;

    endpoints->count = 0;
    for (spec = spec ? spec : "*";; spec += len + 1) {
        len = strcspn(spec, ",;");
        if (len > ITEM_MAX)
            return fail(error, "-l: an address has more than %d characters", ITEM_MAX);
        memcpy(item.text, spec, len);
        item.text[len] = '\0';
        item.port = port;
        if (parse_item(&item, error) < 0 || resolve_item(&item, endpoints, error) < 0)
            return -1;
        if (spec[len] == '\0')
            return 0;
    }
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

static uint16_t endpoint_port(const struct net_endpoint *endpoint)
{
    struct sockaddr_in6 in6;
    struct sockaddr_in in4;

    if (endpoint->addr.ss_family == AF_INET6) {
        memcpy(&in6, &endpoint->addr, sizeof(in6));
        return ntohs(in6.sin6_port);
    }
    memcpy(&in4, &endpoint->addr, sizeof(in4));
    return ntohs(in4.sin_port);
}

/* Binds once without sharing, which fails if somebody listens there. Learns the port if it is 0. */
static int endpoint_probe(struct net_endpoint *endpoint)
{
    int fd = socket(endpoint->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = endpoint->addr_len;
    int on = 1;
    int saved;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
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

int net_endpoints_claim(struct net_endpoints *endpoints, char error[NET_ERROR_MAX])
{
    char text[NET_ENDPOINT_TEXT_MAX];
    struct net_endpoint endpoint;
    uint16_t free_port = 0;
    unsigned used = 0;
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        endpoint = endpoints->list[i];
        if (endpoint_port(&endpoint) == 0)
            endpoint_set_port(&endpoint, free_port);
        if (endpoint_probe(&endpoint) < 0) {
            if (endpoint.optional && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
                continue;
            return fail(error, "cannot listen on %s: %s; choose another address with -l or -p",
                        net_endpoint_text(&endpoint, text), strerror(errno));
        }
        free_port = endpoint_port(&endpoint);
        endpoints->list[used++] = endpoint;
    }
    endpoints->count = used;
    return used > 0 ? 0 : fail(error, "this machine has neither IPv4 nor IPv6");
}
