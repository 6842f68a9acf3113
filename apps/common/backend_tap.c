/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end --io=tap: a TAP device to the kernel of this machine (nic/tap.c). */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"

/* One address of each family, or "none". */
static int set_host_ip(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;
    struct net_stack_addr addr;

    link->host_ip_given = true;
    if (strcmp(arg, "none") == 0)
        return 0;
    if (value_network(arg, &addr) < 0)
        return cmdline_fail(error,
                            "\"%s\" is neither ADDRESS/PREFIX, for instance 10.100.0.10/24, nor "
                            "none",
                            arg);
    *(addr.addr.family == US_IP6 ? &link->host_ip6 : &link->host_ip) = addr;
    return 0;
}

static const struct cmdline_option options[] = {
    {.name = "host-ip",
     .arg = "ADDR/PREFIX",
     .set = set_host_ip,
     .help = "tap: address of the host's side, one of each family, or\n"
             "none (default: 10.100.0.10/24)"},
};

static bool is_implied(const struct link_options *link)
{
    return link->dev != NULL || link->ip_count > 0;
}

static const char *addr_text(const struct us_addr *addr, char text[INET6_ADDRSTRLEN])
{
    return inet_ntop(addr->family == US_IP6 ? AF_INET6 : AF_INET, addr->bytes, text,
                     INET6_ADDRSTRLEN);
}

/* The host's address must be in a network of the stack and must differ from its addresses. */
static int check_host_ip(const struct link_options *link, const struct net_stack_addr *host,
                         char error[LINK_ERROR_MAX])
{
    char text[INET6_ADDRSTRLEN];
    unsigned i;

    if (host->prefix_len == 0)
        return 0;
    for (i = 0; i < link->ip_count; i++) {
        if (memcmp(&link->ip[i].addr, &host->addr, sizeof(host->addr)) == 0)
            return cmdline_fail(error, "--ip and --host-ip are the same address");
    }
    if (link_is_neighbour(link, &host->addr))
        return 0;
    return cmdline_fail(error,
                        "no --ip is in the network of the host's side, %s; give "
                        "--host-ip=ADDRESS/PREFIX in the same network, or --host-ip=none",
                        addr_text(&host->addr, text));
}

static bool has_ip4(const struct link_options *link)
{
    unsigned i;

    for (i = 0; i < link->ip_count; i++) {
        if (link->ip[i].addr.family == US_IP4)
            return true;
    }
    return false;
}

static int resolve(struct link_options *link, const struct link_defaults *defaults,
                   char error[LINK_ERROR_MAX])
{
    int rc;

    link_default_ip(link, defaults);
    if (!link->dev)
        link->dev = defaults->dev;
    if (strlen(link->dev) >= IFNAMSIZ || strchr(link->dev, '/'))
        return cmdline_fail(error, "--dev: \"%s\" is not a device name of 1 to %d characters",
                            link->dev, IFNAMSIZ - 1);
    if (!link->host_ip_given && has_ip4(link)) {
        rc = value_network(defaults->host_ip, &link->host_ip);
        U_ASSERT(rc == 0);
    }
    if (check_host_ip(link, &link->host_ip, error) < 0)
        return -1;
    return check_host_ip(link, &link->host_ip6, error);
}

/* Whether an interface of this machine has an address. */
static bool is_local(const struct us_addr *addr)
{
    int family = addr->family == US_IP6 ? AF_INET6 : AF_INET;
    struct ifaddrs *all, *one;
    struct sockaddr_in6 in6;
    struct sockaddr_in in4;
    bool found = false;

    if (getifaddrs(&all) < 0)
        return false;
    for (one = all; one && !found; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != family)
            continue;
        memcpy(&in4, one->ifa_addr, sizeof(in4));
        if (family == AF_INET6)
            memcpy(&in6, one->ifa_addr, sizeof(in6));
        found = family == AF_INET6 ? memcmp(&in6.sin6_addr, addr->bytes, 16) == 0
                                   : memcmp(&in4.sin_addr, addr->bytes, 4) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* Two links with one network would take each other's frames. */
static int check_unused(const struct net_stack_addr *host, const struct link_options *link,
                        char error[LINK_ERROR_MAX])
{
    char text[INET6_ADDRSTRLEN];

    if (host->prefix_len == 0 || !is_local(&host->addr))
        return 0;
    return cmdline_fail(error,
                        "tap %s: %s, the address of the host's side, is in use on this machine, "
                        "probably by another server; give --ip and --host-ip of another network",
                        link->dev, addr_text(&host->addr, text));
}

static int open_queues(const struct link_options *link, const struct link_params *params,
                       struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct nic_tap_config tap = {.name = link->dev,
                                 .mtu = link->mtu,
                                 .host_prefix_len = link->host_ip.prefix_len,
                                 .host_prefix6_len = link->host_ip6.prefix_len};
    const struct link_adopted *adopted = params->adopted;
    unsigned queues = params->queues;
    unsigned i;

    if (!adopted && (check_unused(&link->host_ip, link, error) < 0 ||
                     check_unused(&link->host_ip6, link, error) < 0))
        return -1;
    memcpy(tap.mac, link->mac, sizeof(tap.mac));
    if (adopted) {
        queues = u_min32(queues, adopted->count);
        for (i = queues; i < adopted->count; i++)
            close(adopted->fds[i]); /* their frames are lost, and sent again */
        tap.adopted_fds = adopted->fds;
        memcpy(tap.mac, adopted->mac, sizeof(tap.mac));
    }
    memcpy(tap.host_addr, link->host_ip.addr.bytes, sizeof(tap.host_addr));
    memcpy(tap.host_addr6, link->host_ip6.addr.bytes, sizeof(tap.host_addr6));
    return nic_tap_open(&tap, queues, queue, error) < 0 ? -1 : (int)queues;
}

static void describe(const struct link_options *link, char text[LINK_DESCRIPTION_MAX])
{
    const struct net_stack_addr *host =
        link->host_ip.prefix_len > 0 ? &link->host_ip : &link->host_ip6;
    char host_ip[INET6_ADDRSTRLEN] = "none";

    if (host->prefix_len > 0)
        addr_text(&host->addr, host_ip);
    snprintf(text, LINK_DESCRIPTION_MAX, "TAP device %s, host side %s", link->dev, host_ip);
}

const struct link_backend link_backend_tap = {
    .name = "tap",
    .help = "own TCP/IP stack on a TAP device of this machine",
    .carries_frames = true,
    .syscalls = LINK_SYSCALLS_FRAMES,
    .options = options,
    .option_count = U_ARRAY_LEN(options),
    .is_implied = is_implied,
    .resolve = resolve,
    .open = open_queues,
    .describe = describe,
};
