/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TAP device: a virtual Ethernet link to the kernel of this machine.
 *
 * The device is not persistent: the kernel removes it when its last descriptor is closed, by
 * close() or by the end of the process. Each queue has a descriptor. One read() or write() moves
 * one frame. All offloads are turned off, so the kernel completes checksums and segments packets
 * before a frame arrives here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/nic.h"
#include "nic/pool.h"
#include "nic/wake.h"

#define TUN_PATH "/dev/net/tun"

/* Several bursts in the layers above. */
#define POOL_PKTS 512

struct tap {
    struct nic nic;
    int fd;
    int wake_fd; /* eventfd */
    struct nic_pool *pool;
    bool gone; /* the device was removed */
    uint64_t rx_frames, rx_bytes;
    uint64_t rx_cut;    /* dropped: longer than a packet's room */
    uint64_t rx_errors; /* failed reads */
    uint64_t tx_frames, tx_bytes;
    uint64_t tx_full;  /* bursts cut short because the kernel's queue was full */
    uint64_t tx_drops; /* rejected by the kernel, for instance */
};

static struct tap *tap_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct tap, nic);
}

/* ---- frames ------------------------------------------------------------------------------ */

enum rx_result { RX_FRAME, RX_DROPPED, RX_NOTHING };

static enum rx_result rx_one(struct tap *tap, struct us_pkt *pkt)
{
    ssize_t bytes;

    do
        bytes = read(tap->fd, pkt->data, pkt->room);
    while (bytes < 0 && errno == EINTR);

    if (bytes < 0) {
        if (errno == EBADFD)
            tap->gone = true;
        if (errno != EAGAIN)
            tap->rx_errors++;
        return RX_NOTHING;
    }
    if ((uint32_t)bytes == pkt->room) {
        tap->rx_cut++;
        return RX_DROPPED;
    }
    pkt->len = (u_u32)bytes;
    tap->rx_frames++;
    tap->rx_bytes += (uint64_t)bytes;
    return RX_FRAME;
}

static unsigned tap_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct tap *tap = tap_of(nic);
    unsigned attempts = n;
    unsigned received = 0;

    while (attempts-- > 0) {
        struct us_pkt *pkt;
        enum rx_result result;

        if (nic_pool_alloc(tap->pool, &pkt, 1) == 0)
            break;
        result = rx_one(tap, pkt);
        if (result == RX_FRAME)
            pkts[received++] = pkt;
        else
            nic_pool_release(tap->pool, &pkt, 1);
        if (result == RX_NOTHING)
            break;
    }
    return received;
}

static unsigned tap_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_pool_alloc(tap_of(nic)->pool, pkts, n);
}

static void tap_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_pool_release(tap_of(nic)->pool, pkts, n);
}

static unsigned tap_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct tap *tap = tap_of(nic);
    unsigned sent;

    for (sent = 0; sent < n; sent++) {
        const struct us_pkt *pkt = pkts[sent];
        ssize_t bytes;

        U_ASSERT(pkt->next_seg == NULL && pkt->len <= pkt->room);
        do
            bytes = write(tap->fd, pkt->data, pkt->len);
        while (bytes < 0 && errno == EINTR);

        if (bytes >= 0) {
            tap->tx_frames++;
            tap->tx_bytes += pkt->len;
        } else if (errno == EAGAIN) {
            tap->tx_full++;
            break;
        } else {
            if (errno == EBADFD)
                tap->gone = true;
            tap->tx_drops++;
        }
    }
    nic_pool_release(tap->pool, pkts, sent);
    return sent;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static int tap_wait(struct nic *nic, uint64_t timeout_us)
{
    struct tap *tap = tap_of(nic);
    struct pollfd fds[2] = {{.fd = tap->fd, .events = POLLIN},
                            {.fd = tap->wake_fd, .events = POLLIN}};
    int rc;

    if (tap->gone)
        return -ENODEV;
    rc = nic_wake_poll(fds, 2, nic_wake_timeout_ns(timeout_us));
    if (rc == 0 && (fds[0].revents & (POLLERR | POLLNVAL)) != 0) {
        tap->gone = true;
        rc = -ENODEV;
    }
    return rc;
}

static void tap_wake(struct nic *nic)
{
    nic_wake_signal(tap_of(nic)->wake_fd);
}

static void tap_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct tap *tap = tap_of(nic);

    emit(emit_ctx, "tap_rx_frames", tap->rx_frames);
    emit(emit_ctx, "tap_rx_bytes", tap->rx_bytes);
    emit(emit_ctx, "tap_rx_cut", tap->rx_cut);
    emit(emit_ctx, "tap_rx_errors", tap->rx_errors);
    emit(emit_ctx, "tap_tx_frames", tap->tx_frames);
    emit(emit_ctx, "tap_tx_bytes", tap->tx_bytes);
    emit(emit_ctx, "tap_tx_full", tap->tx_full);
    emit(emit_ctx, "tap_tx_drops", tap->tx_drops);
    emit(emit_ctx, "tap_pool_exhausted", nic_pool_exhausted(tap->pool));
    emit(emit_ctx, "tap_pool_in_use", nic_pool_in_use(tap->pool));
}

static int tap_adoptable_fd(struct nic *nic)
{
    return tap_of(nic)->fd;
}

static void tap_close(struct nic *nic)
{
    struct tap *tap = tap_of(nic);

    if (tap->fd >= 0)
        close(tap->fd);
    if (tap->wake_fd >= 0)
        close(tap->wake_fd);
    nic_pool_destroy(tap->pool);
    free(tap);
}

static const struct nic_ops tap_ops = {
    .name = "tap",
    .rx_burst = tap_rx_burst,
    .alloc = tap_alloc,
    .release = tap_release,
    .tx_burst = tap_tx_burst,
    .wait = tap_wait,
    .wake = tap_wake,
    .stats = tap_stats,
    .adoptable_fd = tap_adoptable_fd,
    .close = tap_close,
};

/* ---- opening ----------------------------------------------------------------------------- */

static bool has_host_address(const struct nic_tap_config *config)
{
    static const uint8_t none[4];

    return memcmp(config->host_addr, none, sizeof(none)) != 0;
}

static bool has_host_address6(const struct nic_tap_config *config)
{
    static const uint8_t none[16];

    return memcmp(config->host_addr6, none, sizeof(none)) != 0;
}

/* The kernel would treat % as a pattern for a number, and truncate a longer name. */
static int check_config(const struct nic_tap_config *config, uint32_t mtu,
                        char error[NIC_ERROR_MAX])
{
    const char *name = config->name;

    if (name == NULL || name[0] == '\0' || strlen(name) >= IFNAMSIZ)
        return nic_error_set(error, "tap: device name '%.40s': 1 to %d characters",
                             name ? name : "", IFNAMSIZ - 1);
    if (strpbrk(name, "/:% \t\n\v\f\r") != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return nic_error_set(
            error, "tap: device name '%s': no '/', ':', '%%' or white space, not . or ..", name);
    if (mtu < NIC_MTU_MIN || mtu > NIC_MTU_MAX)
        return nic_error_set(error, "tap: MTU %u: between %u and %u", mtu, NIC_MTU_MIN,
                             NIC_MTU_MAX);
    if (has_host_address(config) && (config->host_prefix_len == 0 || config->host_prefix_len > 32))
        return nic_error_set(error, "tap: prefix length %u of the host's address: between 1 and 32",
                             config->host_prefix_len);
    if (has_host_address6(config) &&
        (config->host_prefix6_len == 0 || config->host_prefix6_len > 128))
        return nic_error_set(error,
                             "tap: prefix length %u of the host's address: between 1 and 128",
                             config->host_prefix6_len);
    if ((config->mac[0] & 1) != 0)
        return nic_error_set(error,
                             "tap: the MAC address is a multicast address (first byte is odd)");
    return 0;
}

static int open_tun(const char *name, char error[NIC_ERROR_MAX])
{
    int fd = open(TUN_PATH, O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return nic_error_set(error,
                             "tap %s: " TUN_PATH
                             " is missing: load the kernel module 'tun', or pass the "
                             "device into the container",
                             name);
    if (errno == ENODEV || errno == ENXIO)
        return nic_error_set(error, "tap %s: this kernel has no TUN/TAP driver (module 'tun')",
                             name);
    if (errno == EACCES || errno == EPERM)
        return nic_error_set(error,
                             "tap %s: no permission for " TUN_PATH
                             ": needs root or CAP_NET_ADMIN, and in a container also the device",
                             name);
    return nic_error_set(error, "tap %s: cannot open " TUN_PATH ": %s", name, strerror(errno));
}

static void set_name(struct ifreq *request, const char *name)
{
    memset(request, 0, sizeof(*request));
    snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
}

/*
 * Attaches the descriptor to a new device, or as a further queue to the device of the first one.
 * IFF_TUN_EXCL fails if the device exists.
 */
static int create_queue(const struct tap *tap, const char *name, char error[NIC_ERROR_MAX])
{
    struct ifreq request;
    int flags = IFF_TAP | IFF_NO_PI;
    int fd = tap->fd;

    if (tap->nic.queue == 0)
        flags |= IFF_TUN_EXCL;
    if (tap->nic.queues > 1)
        flags |= IFF_MULTI_QUEUE;
    set_name(&request, name);
    request.ifr_flags = (short)flags;
    if (ioctl(fd, TUNSETIFF, &request) < 0) {
        if (errno == EPERM)
            return nic_error_set(error, "tap %s: creating a device needs root or CAP_NET_ADMIN",
                                 name);
        if (errno == EBUSY)
            return nic_error_set(error,
                                 "tap %s: a device of this name exists: is another server running? "
                                 "Else choose another name, or remove it: ip link del %s",
                                 name, name);
        return nic_error_set(error, "tap %s: cannot create the device: %s", name, strerror(errno));
    }
    if (ioctl(fd, TUNSETOFFLOAD, 0ul) < 0)
        return nic_error_set(error, "tap %s: cannot turn off offloads: %s", name, strerror(errno));
    return 0;
}

/* Failure is ignored: the kernel may have no IPv6, or /proc/sys may be read-only. */
static void set_ipv6(const char *name, const char *setting, const char *value)
{
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", name, setting);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t bytes = write(fd, value, strlen(value));

        (void)bytes;
        close(fd);
    }
}

/*
 * Turns IPv6 off on a link without IPv6 address, so that the kernel sends no announcements
 * (duplicate address detection, router solicitations, multicast reports). With an address, turns
 * off router discovery and duplicate address detection: there is no router on the link, and the
 * address is usable immediately.
 */
static void prepare_ipv6(const struct nic_tap_config *config)
{
    if (!has_host_address6(config)) {
        set_ipv6(config->name, "disable_ipv6", "1\n");
        return;
    }
    set_ipv6(config->name, "disable_ipv6", "0\n");
    set_ipv6(config->name, "accept_dad", "0\n");
    set_ipv6(config->name, "accept_ra", "0\n");
    set_ipv6(config->name, "router_solicitations", "0\n");
}

static int host_ioctl(int sock, unsigned long code, struct ifreq *request, const char *what,
                      char error[NIC_ERROR_MAX])
{
    if (ioctl(sock, code, request) == 0)
        return 0;
    return nic_error_set(error, "tap %s: cannot %s of the host's side: %s", request->ifr_name, what,
                         strerror(errno));
}

static void set_inet(struct sockaddr *addr, const void *bytes)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    memcpy(&in.sin_addr, bytes, 4);
    memcpy(addr, &in, sizeof(in));
}

static int set_host_address(int sock, const struct nic_tap_config *config,
                            char error[NIC_ERROR_MAX])
{
    uint32_t mask;
    struct ifreq request;

    if (!has_host_address(config))
        return 0;
    set_name(&request, config->name);
    set_inet(&request.ifr_addr, config->host_addr);
    if (host_ioctl(sock, SIOCSIFADDR, &request, "set the address", error) < 0)
        return -1;
    mask = htonl(0xffffffffu << (32 - config->host_prefix_len));
    set_inet(&request.ifr_netmask, &mask);
    return host_ioctl(sock, SIOCSIFNETMASK, &request, "set the prefix length", error);
}

/* Called after the link is up; before, the kernel would not activate the address. */
static int set_host_address6(const struct nic_tap_config *config, char error[NIC_ERROR_MAX])
{
    struct in6_ifreq request;
    int sock, result, saved;

    if (!has_host_address6(config))
        return 0;
    memset(&request, 0, sizeof(request));
    memcpy(&request.ifr6_addr, config->host_addr6, 16);
    request.ifr6_prefixlen = config->host_prefix6_len;
    request.ifr6_ifindex = (int)if_nametoindex(config->name);
    sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    result = sock < 0 ? -1 : ioctl(sock, SIOCSIFADDR, &request);
    saved = errno;
    if (sock >= 0)
        close(sock);
    if (result == 0)
        return 0;
    return nic_error_set(error, "tap %s: cannot set the IPv6 address of the host's side: %s",
                         config->name, strerror(saved));
}

/* Configures MTU and address of the host's side, brings it up, and returns its MAC address. */
static int configure_link(int sock, const struct nic_tap_config *config, uint32_t mtu,
                          uint8_t host_mac[6], char error[NIC_ERROR_MAX])
{
    struct ifreq request;

    set_name(&request, config->name);
    if (host_ioctl(sock, SIOCGIFHWADDR, &request, "read the MAC address", error) < 0)
        return -1;
    memcpy(host_mac, request.ifr_hwaddr.sa_data, 6);
    request.ifr_mtu = (int)mtu;
    if (host_ioctl(sock, SIOCSIFMTU, &request, "set the MTU", error) < 0)
        return -1;
    if (set_host_address(sock, config, error) < 0)
        return -1;
    if (host_ioctl(sock, SIOCGIFFLAGS, &request, "read the flags", error) < 0)
        return -1;
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return host_ioctl(sock, SIOCSIFFLAGS, &request, "bring up the link", error);
}

static int configure_host(const struct nic_tap_config *config, uint32_t mtu, uint8_t host_mac[6],
                          char error[NIC_ERROR_MAX])
{
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int result;

    if (sock < 0)
        return nic_error_set(error, "tap %s: no socket for configuring: %s", config->name,
                             strerror(errno));
    result = configure_link(sock, config, mtu, host_mac, error);
    close(sock);
    return result < 0 ? -1 : set_host_address6(config, error);
}

/* Two stations on a link must have different MAC addresses. */
static int choose_mac(const struct nic_tap_config *config, const uint8_t host_mac[6],
                      uint8_t mac[6], char error[NIC_ERROR_MAX])
{
    static const uint8_t none[6];

    memcpy(mac, config->mac, 6);
    if (memcmp(mac, none, 6) == 0) {
        if (getrandom(mac, 6, 0) != 6)
            return nic_error_set(error, "tap %s: no random MAC address: %s", config->name,
                                 strerror(errno));
        mac[0] = (uint8_t)((mac[0] & 0xfc) | 0x02); /* locally administered, unicast */
        if (memcmp(mac, host_mac, 6) == 0)
            mac[5] ^= 1;
    }
    if (memcmp(mac, host_mac, 6) == 0)
        return nic_error_set(error, "tap %s: the MAC address is that of the host's side",
                             config->name);
    return 0;
}

/* Opens a queue; the addresses of the device are not known yet. */
static struct tap *open_queue(const struct nic_tap_config *config, uint32_t mtu, unsigned queue,
                              unsigned queues, char error[NIC_ERROR_MAX])
{
    struct tap *tap = calloc(1, sizeof(*tap));

    if (tap == NULL) {
        nic_error_set(error, "tap %s: out of memory", config->name);
        return NULL;
    }
    tap->nic.ops = &tap_ops;
    tap->nic.mtu = mtu;
    tap->nic.queue = (uint16_t)queue;
    tap->nic.queues = (uint16_t)queues;
    tap->nic.numa_node = NIC_NUMA_ANY;
    tap->wake_fd = -1;
    tap->fd = config->adopted_fds ? config->adopted_fds[queue] : open_tun(config->name, error);
    if (tap->fd < 0 || (!config->adopted_fds && create_queue(tap, config->name, error) < 0)) {
        tap_close(&tap->nic);
        return NULL;
    }
    tap->wake_fd = nic_wake_open();
    tap->pool = nic_pool_create(POOL_PKTS, mtu);
    if (tap->wake_fd < 0 || tap->pool == NULL) {
        nic_error_set(error, "tap %s: out of memory or descriptors", config->name);
        tap_close(&tap->nic);
        return NULL;
    }
    return tap;
}

/* Brings the host's side up after all queues are open, so that no frame is missed. */
static int configure_device(const struct nic_tap_config *config, unsigned queues,
                            struct nic *queue[], char error[NIC_ERROR_MAX])
{
    uint8_t host_mac[6], mac[6];
    unsigned i;

    memcpy(mac, config->mac, sizeof(mac));
    if (!config->adopted_fds) {
        prepare_ipv6(config);
        if (configure_host(config, queue[0]->mtu, host_mac, error) < 0 ||
            choose_mac(config, host_mac, mac, error) < 0)
            return -1;
    }
    for (i = 0; i < queues; i++)
        memcpy(queue[i]->mac, mac, sizeof(mac));
    return 0;
}

int nic_tap_open(const struct nic_tap_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX])
{
    uint32_t mtu = config->mtu != 0 ? config->mtu : NIC_MTU_DEFAULT;
    unsigned n = 0;

    U_ASSERT(queues > 0 && queues <= NIC_QUEUES_MAX);
    if (check_config(config, mtu, error) < 0)
        return -1;
    while (n < queues) {
        struct tap *tap = open_queue(config, mtu, n, queues, error);

        if (tap == NULL)
            break;
        queue[n++] = &tap->nic;
    }
    if (n == queues && configure_device(config, queues, queue, error) == 0)
        return 0;
    while (n > 0)
        nic_close(queue[--n]);
    return -1;
}
