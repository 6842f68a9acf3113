/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual devices by their description, "name,argument=value,...". */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nic/dpdk_port.h"

/*
 * The largest frame for the default buffers of virtual drivers, and the overhead of a packet
 * socket's ring.
 */
#define SMALL_FRAME_BYTES 1900
#define RING_HEADER_BYTES 128

/* Whether the device has this driver and its description does not set the argument. */
static bool lacks(const char *dev, const char *driver, const char *argument)
{
    char pattern[24];

    snprintf(pattern, sizeof(pattern), ",%s=", argument);
    return strncmp(dev, driver, strlen(driver)) == 0 && strstr(dev, pattern) == NULL;
}

/* Appends an argument to a device description. Returns false if there is no room. */
static bool append(char text[DPDK_DEV_TEXT_MAX], const char *argument, uint32_t value)
{
    size_t used = strlen(text);

    return snprintf(text + used, DPDK_DEV_TEXT_MAX - used, ",%s=%u", argument, value) <
           (int)(DPDK_DEV_TEXT_MAX - used);
}

bool dpdk_vdev_describe(const char *dev, unsigned queues, uint32_t mtu,
                        char text[DPDK_DEV_TEXT_MAX])
{
    uint32_t frame = NIC_ETH_HEADER_BYTES + DPDK_VLAN_BYTES + mtu;
    uint32_t ring_frame = DPDK_ROOM_UNIT;
    bool fits = snprintf(text, DPDK_DEV_TEXT_MAX, "%s", dev) < DPDK_DEV_TEXT_MAX;

    if (queues > 1 && fits && lacks(text, "net_af_packet", "qpairs"))
        fits = append(text, "qpairs", queues);
    if (frame <= SMALL_FRAME_BYTES)
        return fits;
    /* net_memif corrupts frames that span several of its buffers. */
    if (fits && lacks(text, "net_memif", "bsize"))
        fits = append(text, "bsize", dpdk_room_for(mtu));
    while (ring_frame < frame + RING_HEADER_BYTES)
        ring_frame *= 2;
    if (fits && lacks(text, "net_af_packet", "framesz"))
        fits = append(text, "blocksz", ring_frame) && append(text, "framesz", ring_frame);
    return fits;
}

bool dpdk_vdev_listens(const char *dev)
{
    if (strncmp(dev, "net_vhost", 9) == 0)
        return strstr(dev, ",client=1") == NULL;
    if (strncmp(dev, "net_virtio_user", 15) == 0)
        return strstr(dev, ",server=1") != NULL;
    return strstr(dev, ",role=server") != NULL || strstr(dev, ",role=master") != NULL;
}

/*
 * The address at which a device that listens has its socket. Returns the length, or 0 if it has
 * none that is known.
 */
static socklen_t socket_address(const char *dev, struct sockaddr_un *addr)
{
    static const char *const arguments[] = {",iface=", ",path=", ",socket="};
    bool abstract =
        lacks(dev, "net_memif", "socket-abstract") || strstr(dev, ",socket-abstract=yes") != NULL;
    const char *path = NULL;
    size_t i, length;

    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    for (i = 0; i < U_ARRAY_LEN(arguments) && path == NULL; i++) {
        path = strstr(dev, arguments[i]);
        path = path != NULL ? path + strlen(arguments[i]) : NULL;
    }
    length = path != NULL ? strcspn(path, ",") : 0;
    if (length == 0 || length + 1 >= sizeof(addr->sun_path))
        return 0;
    memcpy(addr->sun_path + abstract, path, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + length);
}

/*
 * Whether no process uses an abstract socket address. The addresses of each socket type are
 * separate; net_memif's sockets are SOCK_SEQPACKET.
 */
static bool name_is_free(const struct sockaddr_un *addr, socklen_t length)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool taken;

    if (fd < 0)
        return true;
    taken = bind(fd, (const struct sockaddr *)addr, length) < 0 && errno == EADDRINUSE;
    close(fd);
    return !taken;
}

bool dpdk_vdev_is_free(const char *dev)
{
    struct sockaddr_un addr;
    socklen_t length = dpdk_vdev_listens(dev) ? socket_address(dev, &addr) : 0;
    struct stat stat;
    bool taken;
    int fd;

    if (length == 0)
        return true;
    if (addr.sun_path[0] == '\0')
        return name_is_free(&addr, length);
    if (lstat(addr.sun_path, &stat) < 0 || !S_ISSOCK(stat.st_mode))
        return true;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    taken = connect(fd, (const struct sockaddr *)&addr, length) == 0 || errno == EPROTOTYPE ||
            errno == EAGAIN;
    if (!taken && errno == ECONNREFUSED)
        (void)unlink(addr.sun_path);
    close(fd);
    return !taken;
}

bool dpdk_vdev_is_ours(const struct nic_dpdk_config *config)
{
    return config->dev != NULL && strncmp(config->dev, "net_", 4) == 0 &&
           (config->eal == NULL || strstr(config->eal, "--vdev") == NULL);
}

bool nic_dpdk_close_frees(const struct nic_dpdk_config *config)
{
    /* Others are closed by the end of the process, or wait for the other end when opened. */
    static const char *const drivers[] = {"net_memif", "net_vhost", "net_af_packet"};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(drivers) && dpdk_vdev_is_ours(config); i++) {
        if (strncmp(config->dev, drivers[i], strlen(drivers[i])) == 0)
            return true;
    }
    return false;
}
