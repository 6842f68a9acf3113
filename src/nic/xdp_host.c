/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's addresses on an interface. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "nic/error.h"
#include "nic/xdp.h"

/* The order of the result: IPv4, IPv6, link-local IPv6. */
enum kind { KIND_IP4, KIND_IP6, KIND_LINK_LOCAL, KINDS, KIND_OTHER };

static enum kind kind_of(const struct ifaddrs *entry)
{
    const struct sockaddr_in6 *in6 = (const void *)entry->ifa_addr;

    if (entry->ifa_addr == NULL)
        return KIND_OTHER;
    if (entry->ifa_addr->sa_family == AF_INET)
        return KIND_IP4;
    if (entry->ifa_addr->sa_family != AF_INET6)
        return KIND_OTHER;
    return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? KIND_LINK_LOCAL : KIND_IP6;
}

static void copy_addr(const struct ifaddrs *entry, struct nic_xdp_addr *addr)
{
    const struct sockaddr_in *in = (const void *)entry->ifa_addr;
    const struct sockaddr_in6 *in6 = (const void *)entry->ifa_addr;

    memset(addr, 0, sizeof(*addr));
    addr->is_ip6 = entry->ifa_addr->sa_family == AF_INET6;
    if (addr->is_ip6) {
        memcpy(addr->bytes, &in6->sin6_addr, 16);
        return;
    }
    memcpy(addr->bytes, &in->sin_addr, 4);
}

/* The label of an IPv4 address is the interface name, or the name, a colon and more. */
static bool is_on(const struct ifaddrs *entry, const char *dev)
{
    size_t length = strlen(dev);

    return strncmp(entry->ifa_name, dev, length) == 0 &&
           (entry->ifa_name[length] == '\0' || entry->ifa_name[length] == ':');
}

unsigned nic_xdp_host_addrs(const char *dev, struct nic_xdp_addr *addrs, unsigned max,
                            char error[NIC_ERROR_MAX])
{
    struct ifaddrs *all, *entry;
    unsigned count = 0;
    unsigned kind;

    if (getifaddrs(&all) < 0) {
        nic_error_set(error, "xdp %s: cannot read its addresses: %s", dev, strerror(errno));
        return 0;
    }
    for (kind = KIND_IP4; kind < KINDS; kind++) {
        for (entry = all; entry != NULL && count < max; entry = entry->ifa_next) {
            if (kind_of(entry) == (enum kind)kind && is_on(entry, dev))
                copy_addr(entry, &addrs[count++]);
        }
    }
    freeifaddrs(all);
    if (count == 0 && if_nametoindex(dev) == 0)
        nic_error_set(error, "xdp %s: no such interface: see ip link", dev);
    else if (count == 0)
        nic_error_set(error,
                      "xdp %s: the interface has no address: add one (ip addr add), or give the "
                      "server its own (--ip)",
                      dev);
    return count;
}
