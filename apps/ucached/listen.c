/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses that the server listens on; see listen.h. */
#include "listen.h"
#include "net/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORT_LINE_MAX 24 /* "TCP INET6: 65535", its end, and a terminator */

static int print_error(const char *what, const char *why)
{
    net_log_error("ucached: %s: %s", what, why);
    return -1;
}

/* The first port of a kind, for the statistics with -p -1. */
static uint16_t port_found(const struct net_endpoints *endpoints, enum net_endpoint_kind kind)
{
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        if (endpoints->list[i].kind == kind)
            return net_endpoint_port(&endpoints->list[i]);
    }
    return 0;
}

static int resolve_endpoints(const struct options *o, struct net_endpoints *endpoints,
                             char error[NET_ERROR_MAX])
{
    const struct cache_settings *s = &o->settings;

    if (s->unix_path)
        return net_endpoints_unix(s->unix_path, s->unix_access, endpoints, error);
    if ((s->tcp_port > 0 || o->tcp_port_any) &&
        net_endpoints_resolve(s->listen_addr, s->tcp_port, NET_ENDPOINT_TCP, endpoints, error) < 0)
        return -1;
    if ((s->udp_port > 0 || o->udp_port_any) &&
        net_endpoints_resolve(s->listen_addr, s->udp_port, NET_ENDPOINT_UDP, endpoints, error) < 0)
        return -1;
    return 0;
}

/* Changes the owner of the unix socket to the user that the server runs as. */
static int chown_unix_socket(const struct options *o, const struct daemon_user *user)
{
    if (!o->settings.unix_path || !user->name ||
        lchown(o->settings.unix_path, user->uid, user->gid) == 0)
        return 0;
    return print_error("-s: cannot change the owner of the socket", strerror(errno));
}

/* Lists the addresses and ports that the own stack serves. */
static void stack_endpoints(struct net_endpoints *endpoints, const struct options *o)
{
    const struct cache_settings *s = &o->settings;
    unsigned i;

    for (i = 0; i < o->link.ip_count; i++) {
        const struct us_addr *addr = &o->link.ip[i].addr;

        if (s->tcp_port > 0)
            net_endpoints_add(endpoints, NET_ENDPOINT_TCP, addr, s->tcp_port);
        if (s->udp_port > 0)
            net_endpoints_add(endpoints, NET_ENDPOINT_UDP, addr, s->udp_port);
    }
}

void listen_set_ports(const struct net_endpoints *endpoints, struct cache_settings *settings)
{
    settings->tcp_port = port_found(endpoints, NET_ENDPOINT_TCP);
    settings->udp_port = port_found(endpoints, NET_ENDPOINT_UDP);
}

/* Sockets of socket activation replace -l, -p, -s and -U. */
static int inherit_endpoints(struct net_endpoints *endpoints, struct activation *activation,
                             struct cache_settings *s)
{
    char error[NET_ERROR_MAX];

    while (activation->socket_count > 0) {
        int fd = activation->sockets[activation->socket_count - 1];

        if (net_endpoints_inherit(fd, endpoints, error) < 0)
            return print_error("LISTEN_FDS", error);
        activation->socket_count--;
    }
    listen_set_ports(endpoints, s);
    return 0;
}

int listen_open(struct net_endpoints *endpoints, struct options *o, struct activation *activation,
                const struct daemon_user *user)
{
    char error[NET_ERROR_MAX];

    if (link_carries_frames(&o->link)) {
        stack_endpoints(endpoints, o);
        return 0;
    }
    if (activation->socket_count > 0)
        return inherit_endpoints(endpoints, activation, &o->settings);
    if (resolve_endpoints(o, endpoints, error) < 0)
        return print_error("kernel sockets", error);
    if (endpoints->count == 0) {
        net_log("ucached: note: -p 0 without -U and -s: no client can connect");
        return 0;
    }
    if (net_endpoints_claim(endpoints, error) < 0)
        return print_error("kernel sockets", error);
    if (o->tcp_port_any)
        o->settings.tcp_port = port_found(endpoints, NET_ENDPOINT_TCP);
    if (o->udp_port_any)
        o->settings.udp_port = port_found(endpoints, NET_ENDPOINT_UDP);
    return chown_unix_socket(o, user);
}

int listen_write_ports(const struct net_endpoints *endpoints, const char *path,
                       const struct daemon_user *user)
{
    static const char *const kinds[] = {"TCP", "UDP"};
    char text[NET_ENDPOINT_MAX * PORT_LINE_MAX] = "";
    const struct net_endpoint *endpoint;
    size_t used = 0;

    for (endpoint = endpoints->list; endpoint < endpoints->list + endpoints->count; endpoint++) {
        if (endpoint->kind != NET_ENDPOINT_UNIX)
            used +=
                (size_t)snprintf(text + used, PORT_LINE_MAX, "%s %s: %u\n", kinds[endpoint->kind],
                                 endpoint->addr.ss_family == AF_INET6 ? "INET6" : "INET",
                                 net_endpoint_port(endpoint));
    }
    if (daemon_file_replace(path, text, used, user) < 0)
        return print_error("MEMCACHED_PORT_FILENAME", strerror(errno));
    return 0;
}
