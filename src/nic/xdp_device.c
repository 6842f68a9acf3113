/* SPDX-License-Identifier: BSD-3-Clause */
/* A network interface of the kernel; see xdp_device.h. */
#include "nic/xdp_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"

/* ---- questions --------------------------------------------------------------------------- */

static void set_name(const struct nic_xdp_device *device, struct ifreq *request)
{
    memset(request, 0, sizeof(*request));
    memcpy(request->ifr_name, device->name, sizeof(request->ifr_name));
}

/* Runs an ethtool command; the struct begins with its number. Returns 0 or -1. */
static int ethtool(const struct nic_xdp_device *device, void *command)
{
    struct ifreq request;

    set_name(device, &request);
    request.ifr_data = command;
    return ioctl(device->control_fd, SIOCETHTOOL, &request);
}

static bool is_veth(const struct nic_xdp_device *device)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

    return ethtool(device, &info) == 0 && strcmp(info.driver, "veth") == 0;
}

unsigned nic_xdp_device_queues(const struct nic_xdp_device *device)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};

    if (ethtool(device, &channels) < 0)
        return 1;
    return u_max32(channels.combined_count + channels.rx_count, 1);
}

uint32_t nic_xdp_device_mtu(const struct nic_xdp_device *device)
{
    struct ifreq request;

    set_name(device, &request);
    return ioctl(device->control_fd, SIOCGIFMTU, &request) == 0 ? (uint32_t)request.ifr_mtu : 0;
}

static int read_properties(struct nic_xdp_device *device, char error[NIC_ERROR_MAX])
{
    struct ifreq request;

    set_name(device, &request);
    if (ioctl(device->control_fd, SIOCGIFINDEX, &request) < 0)
        return nic_error_set(error, "xdp %s: no such interface: see ip link", device->name);
    device->ifindex = request.ifr_ifindex;
    if (ioctl(device->control_fd, SIOCGIFFLAGS, &request) < 0 || (request.ifr_flags & IFF_UP) == 0)
        return nic_error_set(error, "xdp %s: the interface is down: ip link set dev %s up",
                             device->name, device->name);
    set_name(device, &request);
    if (ioctl(device->control_fd, SIOCGIFHWADDR, &request) < 0 ||
        request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
        return nic_error_set(error, "xdp %s: not an Ethernet interface", device->name);
    memcpy(device->mac, request.ifr_hwaddr.sa_data, 6);
    device->mtu = nic_xdp_device_mtu(device);
    if (device->mtu == 0)
        return nic_error_set(error, "xdp %s: no MTU: %s", device->name, strerror(errno));
    device->is_veth = is_veth(device);
    return 0;
}

int nic_xdp_device_open(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX])
{
    unsigned i;

    memset(device, 0, sizeof(*device));
    device->control_fd = -1;
    device->member_fd = -1;
    for (i = 0; i < sizeof(device->port_fds) / sizeof(device->port_fds[0]); i++)
        device->port_fds[i] = -1;
    if (config->dev == NULL || config->dev[0] == '\0' || strlen(config->dev) >= IFNAMSIZ)
        return nic_error_set(error, "xdp: interface name '%.40s': 1 to %d characters",
                             config->dev ? config->dev : "", IFNAMSIZ - 1);
    memcpy(device->name, config->dev, strlen(config->dev));
    device->control_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (device->control_fd < 0)
        return nic_error_set(error, "xdp %s: no socket: %s", device->name, strerror(errno));
    return read_properties(device, error);
}

bool nic_xdp_device_exists(const struct nic_xdp_device *device)
{
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    request.ifr_ifindex = device->ifindex;
    return ioctl(device->control_fd, SIOCGIFNAME, &request) == 0 || errno != ENODEV;
}

/* ---- frames to other MAC addresses ------------------------------------------------------- */

static int join(const struct nic_xdp_device *device, unsigned short type, const uint8_t mac[6])
{
    struct packet_mreq request = {.mr_ifindex = device->ifindex, .mr_type = type, .mr_alen = 6};

    memcpy(request.mr_address, mac, 6);
    return setsockopt(device->member_fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request,
                      sizeof(request));
}

/* Joins the solicited-node multicast group of an address (RFC 4291 2.7.1, RFC 2464 section 7). */
static int join_solicited(const struct nic_xdp_device *device, const struct nic_xdp_addr *addr)
{
    uint8_t mac[6] = {0x33, 0x33, 0xff};

    memcpy(mac + 3, addr->bytes + 13, 3);
    return join(device, PACKET_MR_MULTICAST, mac);
}

int nic_xdp_device_join(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX])
{
    static const uint8_t none[6];
    unsigned i;
    int rc = 0;

    /* Protocol 0: the socket receives no frames. */
    device->member_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (device->member_fd < 0)
        return nic_error_set(error, "xdp %s: a packet socket needs root or CAP_NET_RAW: %s",
                             device->name, strerror(errno));
    if (memcmp(config->mac, none, 6) != 0 && memcmp(config->mac, device->mac, 6) != 0)
        rc = join(device, PACKET_MR_UNICAST, config->mac);
    for (i = 0; i < config->addr_count && rc == 0; i++) {
        if (config->addrs[i].is_ip6)
            rc = join_solicited(device, &config->addrs[i]);
    }
    if (rc == 0)
        return 0;
    return nic_error_set(error, "xdp %s: the interface takes no further MAC address: %s",
                         device->name, strerror(errno));
}

/* ---- ports of the host ------------------------------------------------------------------- */

/* Opens a socket bound to a port on all addresses of a family. Returns -1 with errno. */
static int bind_port(int family, int type, uint16_t port, int reuse)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const void *addr = family == AF_INET ? (const void *)&in : (const void *)&in6;
    socklen_t addr_len = family == AF_INET ? sizeof(in) : sizeof(in6);
    const int on = 1;
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return -1;
    if ((family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0 &&
        bind(fd, addr, addr_len) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/*
 * Binds a port. SO_REUSEADDR is needed only while connections of a previous process are in
 * TIME-WAIT; it would allow other processes to bind the port too, so it is tried second.
 */
static int claim(int family, int type, uint16_t port)
{
    int fd = bind_port(family, type, port, 0);

    if (fd < 0 && errno == EADDRINUSE && type == SOCK_STREAM)
        fd = bind_port(family, type, port, 1);
    return fd;
}

int nic_xdp_device_claim(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX])
{
    const int types[4] = {SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM, SOCK_DGRAM};
    const int families[4] = {AF_INET, AF_INET6, AF_INET, AF_INET6};
    unsigned i;

    for (i = 0; i < 4; i++) {
        uint16_t port = types[i] == SOCK_STREAM ? config->tcp_port : config->udp_port;

        if (port == 0)
            continue;
        device->port_fds[i] = claim(families[i], types[i], port);
        if (device->port_fds[i] >= 0 || (families[i] == AF_INET6 && errno == EAFNOSUPPORT))
            continue;
        if (errno == EADDRINUSE)
            return nic_error_set(
                error,
                "xdp %s: %s port %u of this host is in use by another server: see "
                "ss -lntup; choose another one, or give the server its own address (--ip)",
                device->name, types[i] == SOCK_STREAM ? "TCP" : "UDP", port);
        return nic_error_set(error, "xdp %s: cannot take port %u: %s", device->name, port,
                             strerror(errno));
    }
    return 0;
}

/* ---- generic receive offload ------------------------------------------------------------- */

void nic_xdp_device_gro_off(struct nic_xdp_device *device)
{
    struct ethtool_value value = {.cmd = ETHTOOL_GGRO};

    if (ethtool(device, &value) < 0 || value.data == 0)
        return;
    value.cmd = ETHTOOL_SGRO;
    value.data = 0;
    device->gro_off = ethtool(device, &value) == 0;
}

/* Without CAP_NET_ADMIN it stays off. */
static void gro_on(struct nic_xdp_device *device)
{
    struct ethtool_value value = {.cmd = ETHTOOL_SGRO, .data = 1};

    (void)ethtool(device, &value);
}

void nic_xdp_device_close(struct nic_xdp_device *device)
{
    unsigned i;

    if (device->gro_off)
        gro_on(device);
    for (i = 0; i < sizeof(device->port_fds) / sizeof(device->port_fds[0]); i++) {
        if (device->port_fds[i] >= 0)
            close(device->port_fds[i]);
    }
    if (device->member_fd >= 0)
        close(device->member_fd);
    if (device->control_fd >= 0)
        close(device->control_fd);
}
