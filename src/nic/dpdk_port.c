/* SPDX-License-Identifier: BSD-3-Clause */
/* A port of DPDK from its name to its start: which device, what it can do, and its packets. */
#include "nic/dpdk_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "nic/dpdk_eal.h"
#include "nic/error.h"
#include "nic/pool.h"

#define VLAN_BYTES 4

/* Descriptors that a device is given, if it has no wish of its own. */
#define RING_DEFAULT 512
#define RING_MAX 1024

/* Room for data in a packet: the 2 KiB class unless the MTU or the driver need more. */
#define ROOM_UNIT 2048
#define ROOM_MAX (UINT16_MAX - RTE_PKTMBUF_HEADROOM)

/* The description of a virtual device. */
#define DEV_TEXT_MAX 1024

/* What drivers of virtual devices have room for by themselves, and what a packet socket adds. */
#define SMALL_FRAME_BYTES 1900
#define RING_HEADER_BYTES 128

/* Packets beyond those in rings: bursts in the hands of our layers and of other workers. */
#define SPARE_PKTS 1024

/* And for large segments, which are chains: some of 64 KiB at a time in each direction. */
#define CHAIN_PKTS 2048

#define CACHE_PKTS 256

/*
 * Frames taken at once. The other end of a link works while we do: with all of its frames taken
 * before the first is answered, the two would only take turns. Below this, what a burst costs by
 * itself is more than what is gained.
 */
#define BURST 16

#define VIEWS 1024
#define LARGE_BYTES 65535

/* The largest frame that a NIC is asked to join. */
#define LRO_BYTES 65535

/*
 * What drivers do not tell. Others are taken to read the memory of frames after they have returned,
 * and to mean what they say about the MTU.
 */
static const struct driver {
    const char *name;
    bool copies;        /* what it sends, before it returns */
    bool mtu_unchecked; /* it refuses large MTUs and passes large frames */
    bool mac_is_peers;  /* its address is that of the other end, the kernel's */
    bool software;      /* its offloads are: no better than ours, wrong for odd segments and IPv6 */
    bool one_queue;     /* a peer with fewer queues than we have would be its end */
    bool guest_tso;     /* the other end decides whether it takes large segments */
    bool partial_csums; /* it brings frames of this machine's kernel with unfinished checksums */
    bool left_open;     /* if it connects: see is_left_open() */
} drivers[] = {
    {.name = "net_vhost", .copies = true, .guest_tso = true},
    {.name = "net_memif", .one_queue = true, .copies = true, .mtu_unchecked = true},
    {.name = "net_tap", .copies = true, .mac_is_peers = true, .software = true},
    {.name = "net_af_packet", .copies = true, .mtu_unchecked = true, .partial_csums = true},
    {.name = "net_virtio_user", .left_open = true},
};

static const struct driver *driver_of(const struct dpdk_port *port)
{
    static const struct driver other = {.name = ""};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(drivers); i++) {
        if (strcmp(port->info.driver_name, drivers[i].name) == 0)
            return &drivers[i];
    }
    return &other;
}

static const char *name_of(const struct dpdk_port *port, char name[RTE_ETH_NAME_MAX_LEN])
{
    if (rte_eth_dev_get_name_by_port(port->id, name) < 0)
        snprintf(name, RTE_ETH_NAME_MAX_LEN, "port %u", port->id);
    return name;
}

static int fail(const struct dpdk_port *port, const char *what, int number,
                char error[NIC_ERROR_MAX])
{
    char name[RTE_ETH_NAME_MAX_LEN], words[NIC_ERROR_MAX];

    dpdk_eal_why(words);
    nic_error_set(error, "dpdk %.40s: cannot %s: %s%s%.120s", name_of(port, name), what,
                  rte_strerror(abs(number)), words[0] != '\0' ? ": " : "", words);
    return -1;
}

static uint32_t mtu_of(const struct nic_dpdk_config *config)
{
    return config->mtu != 0 ? config->mtu : NIC_MTU_DEFAULT;
}

static uint32_t room_for(uint32_t mtu)
{
    uint32_t frame = NIC_ETH_HEADER_BYTES + VLAN_BYTES + mtu;

    return (frame + ROOM_UNIT - 1) / ROOM_UNIT * ROOM_UNIT;
}

/* ---- which device ------------------------------------------------------------------------ */

/* "a, b" of all ports. */
static void list_ports(char *text, size_t bytes)
{
    char name[RTE_ETH_NAME_MAX_LEN];
    size_t used = 0;
    uint16_t id;

    text[0] = '\0';
    RTE_ETH_FOREACH_DEV(id)
    {
        if (rte_eth_dev_get_name_by_port(id, name) == 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u (%s)", used > 0 ? ", " : "",
                                     id, name);
    }
}

static int find_only(struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    char text[160];

    if (rte_eth_dev_count_avail() == 1) {
        port->id = (uint16_t)rte_eth_find_next(0);
        return 0;
    }
    list_ports(text, sizeof(text));
    if (text[0] != '\0')
        nic_error_set(error, "dpdk: several devices, choose one with --dev: %s", text);
    else
        nic_error_set(error, "dpdk: no device: bind a NIC to a driver of DPDK (dpdk-devbind.py -b "
                             "vfio-pci ADDRESS), or name a virtual one, for instance "
                             "--dev=net_tap0,iface=ucached0");
    return -1;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether the device is of this driver and does not say anything of an argument itself. */
static bool lacks(const char *dev, const char *driver, const char *argument)
{
    char pattern[16];

    snprintf(pattern, sizeof(pattern), ",%s=", argument);
    return strncmp(dev, driver, strlen(driver)) == 0 && strstr(dev, pattern) == NULL;
}

/* Appends an argument to the description of a device. Returns false if there is no room. */
static bool append(char text[DEV_TEXT_MAX], const char *argument, uint32_t value)
{
    size_t used = strlen(text);

    return snprintf(text + used, DEV_TEXT_MAX - used, ",%s=%u", argument, value) <
           (int)(DEV_TEXT_MAX - used);
}

/*
 * Drivers of virtual devices want to be told beforehand how many queues there will be and how large
 * frames can become. The queues of vhost and virtio-user are the user's to say, since both ends
 * have to have as many. Returns false if the result is too long.
 */
static bool describe(const char *dev, unsigned queues, uint32_t mtu, char text[DEV_TEXT_MAX])
{
    uint32_t frame = NIC_ETH_HEADER_BYTES + VLAN_BYTES + mtu;
    uint32_t ring_frame = ROOM_UNIT;
    bool fits = snprintf(text, DEV_TEXT_MAX, "%s", dev) < DEV_TEXT_MAX;

    if (queues > 1 && fits && lacks(text, "net_af_packet", "qpairs"))
        fits = append(text, "qpairs", queues);
    if (frame <= SMALL_FRAME_BYTES)
        return fits;
    /* A frame that lies in several buffers of a memif gets mixed up by its driver. */
    if (fits && lacks(text, "net_memif", "bsize"))
        fits = append(text, "bsize", room_for(mtu));
    while (ring_frame < frame + RING_HEADER_BYTES)
        ring_frame *= 2;
    if (fits && lacks(text, "net_af_packet", "framesz"))
        fits = append(text, "blocksz", ring_frame) && append(text, "framesz", ring_frame);
    return fits;
}

/* Whether the device is the end of its link that listens. */
static bool listens(const char *dev)
{
    if (strncmp(dev, "net_vhost", 9) == 0)
        return strstr(dev, ",client=1") == NULL;
    if (strncmp(dev, "net_virtio_user", 15) == 0)
        return strstr(dev, ",server=1") != NULL;
    return strstr(dev, ",role=server") != NULL || strstr(dev, ",role=master") != NULL;
}

/*
 * A server that was killed leaves the socket of a link in the file system, and its driver refuses
 * to start where there is one. It is removed if nobody listens any more. The end that connects
 * leaves it alone: the other one would take the question for its peer.
 */
static void remove_stale_socket(const char *dev)
{
    static const char *const arguments[] = {",iface=", ",path=", ",socket="};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const char *path = NULL;
    struct stat stat;
    size_t i, length;
    int fd;

    for (i = 0; i < U_ARRAY_LEN(arguments) && path == NULL && listens(dev); i++) {
        path = strstr(dev, arguments[i]);
        path = path != NULL ? path + strlen(arguments[i]) : NULL;
    }
    length = path != NULL ? strcspn(path, ",") : 0;
    if (length == 0 || length >= sizeof(addr.sun_path) || path[0] != '/')
        return;
    memcpy(addr.sun_path, path, length);
    if (lstat(addr.sun_path, &stat) < 0 || !S_ISSOCK(stat.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 &&
        errno == ECONNREFUSED)
        (void)unlink(addr.sun_path);
    if (fd >= 0)
        close(fd);
}

/*
 * rte_dev_probe(). What the device has is pointed to by memory of DPDK's, where no sanitizer looks
 * for pointers: it would be a leak of one that is left open (is_left_open()).
 */
static int probe_text(const char *text)
{
    int rc;

#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable();
#endif
    rc = rte_dev_probe(text);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
    return rc;
}

/* Makes the device that is described as "name,argument=value,...". */
static int probe(struct dpdk_port *port, const char *dev, uint32_t mtu, char error[NIC_ERROR_MAX])
{
    char text[DEV_TEXT_MAX], words[NIC_ERROR_MAX];

    if (!describe(dev, port->queue_count, mtu, text)) {
        nic_error_set(error, "dpdk: the text of --dev is too long");
        return -1;
    }
    remove_stale_socket(text);
    if (probe_text(text) < 0) {
        int number = rte_errno;

        dpdk_eal_why(words);
        nic_error_set(error, "dpdk: cannot make or take '%.80s': %.140s", dev,
                      words[0] != '\0' ? words : rte_strerror(number));
        return -1;
    }
    dpdk_eal_why(words);
    port->connects = !listens(text);
    text[strcspn(text, ",")] = '\0';
    if (rte_eth_dev_get_port_by_name(text, &port->id) < 0) {
        nic_error_set(error, "dpdk: '%.80s' is not a network device", text);
        return -1;
    }
    port->probed = true;
    return 0;
}

int dpdk_port_find(struct dpdk_port *port, const struct nic_dpdk_config *config,
                   char error[NIC_ERROR_MAX])
{
    const char *dev = config->dev;
    char text[160];

    if (dev == NULL)
        return find_only(port, error);
    if (is_number(dev)) {
        unsigned long number = strtoul(dev, NULL, 10);

        if (number < RTE_MAX_ETHPORTS && rte_eth_dev_is_valid_port((uint16_t)number)) {
            port->id = (uint16_t)number;
            return 0;
        }
        list_ports(text, sizeof(text));
        nic_error_set(error, "dpdk: no port %.20s; there %s %.140s", dev,
                      text[0] != '\0' ? "are" : "is", text[0] != '\0' ? text : "none");
        return -1;
    }
    if (rte_eth_dev_get_port_by_name(dev, &port->id) == 0)
        return 0;
    return probe(port, dev, mtu_of(config), error);
}

/* ---- packets ----------------------------------------------------------------------------- */

static unsigned pkts_of_queue(uint16_t rx_ring, uint16_t tx_ring, bool chains)
{
    return rx_ring + tx_ring + SPARE_PKTS + CACHE_PKTS + (chains ? CHAIN_PKTS : 0u);
}

uint64_t dpdk_port_memory_bytes(uint32_t mtu, unsigned queues)
{
    uint64_t pkt_bytes = sizeof(struct rte_mbuf) + sizeof(struct us_pkt) + RTE_PKTMBUF_HEADROOM +
                         room_for(mtu != 0 ? mtu : NIC_MTU_DEFAULT);
    uint64_t view_bytes = VIEWS * sizeof(struct rte_mbuf);

    /* Twice, since pieces have to be contiguous and drivers need some for rings. */
    return (16ull << 20) +
           2 * queues * (pkts_of_queue(RING_MAX, RING_MAX, true) * pkt_bytes + view_bytes);
}

/* What stays as it is for the packet's life. */
static void init_pkt(struct rte_mempool *pool, void *ctx, void *object, unsigned number)
{
    struct rte_mbuf *mbuf = object;
    struct us_pkt *pkt = dpdk_pkt_of(mbuf);

    u_zero(pkt, sizeof(*pkt));
    pkt->room = (u_u32)mbuf->buf_len - RTE_PKTMBUF_HEADROOM;
}

static struct rte_mempool *make_pool(const struct dpdk_port *port, unsigned queue, uint32_t room,
                                     unsigned count)
{
    char name[RTE_MEMPOOL_NAMESIZE];
    struct rte_mempool *pool;

    snprintf(name, sizeof(name), "pkts-%u-%u", port->id, queue);
    pool = rte_pktmbuf_pool_create(name, count, CACHE_PKTS, sizeof(struct us_pkt),
                                   (uint16_t)(RTE_PKTMBUF_HEADROOM + room),
                                   rte_eth_dev_socket_id(port->id));
    if (pool != NULL)
        rte_mempool_obj_iter(pool, init_pkt, NULL);
    return pool;
}

static int no_memory(const struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    char name[RTE_ETH_NAME_MAX_LEN];

    nic_error_set(error,
                  "dpdk %.40s: no memory for packets: reserve more huge pages (sysctl "
                  "vm.nr_hugepages=256), or use fewer threads or a smaller MTU",
                  name_of(port, name));
    return -1;
}

static int make_views(struct dpdk_queue *queue, char error[NIC_ERROR_MAX])
{
    char name[RTE_MEMPOOL_NAMESIZE];

    snprintf(name, sizeof(name), "views-%u-%u", queue->port->id, queue->nic.queue);
    queue->views = rte_pktmbuf_pool_create(name, VIEWS, CACHE_PKTS, 0, 0,
                                           rte_eth_dev_socket_id(queue->port->id));
    return queue->views != NULL ? 0 : no_memory(queue->port, error);
}

/* ---- what the device can do -------------------------------------------------------------- */

static bool has_all(uint64_t offered, uint64_t wanted)
{
    return (offered & wanted) == wanted;
}

static void choose_rx(struct dpdk_port *port, const struct nic_dpdk_config *config)
{
    struct rte_eth_rxmode *mode = &port->conf.rxmode;
    const uint64_t csum =
        RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    uint64_t offered = driver_of(port)->software ? 0 : port->info.rx_offload_capa;

    if (!(config->without & NIC_DPDK_WITHOUT_CSUM))
        mode->offloads |= offered & csum;
    mode->offloads |= offered & RTE_ETH_RX_OFFLOAD_SCATTER;
    if (!(config->without & (NIC_DPDK_WITHOUT_TSO | NIC_DPDK_WITHOUT_CSUM)) &&
        has_all(offered, RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)) {
        mode->offloads |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
        mode->max_lro_pkt_size =
            port->info.max_lro_pkt_size != 0 ? u_min32(LRO_BYTES, port->info.max_lro_pkt_size) : 0;
    }
}

static u_u32 choose_tx(struct dpdk_port *port, const struct nic_dpdk_config *config)
{
    const uint64_t csum = RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    uint64_t offered = port->info.tx_offload_capa;
    uint64_t used = 0;
    u_u32 caps = 0;

    if (driver_of(port)->software)
        offered &= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    if (!(config->without & NIC_DPDK_WITHOUT_CSUM)) {
        if (has_all(offered, csum)) {
            used |= csum;
            caps |= US_CAP_TX_L4_CSUM;
        }
        if (offered & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) {
            used |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
            caps |= US_CAP_TX_IP_CSUM;
        }
    }
    if ((offered & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) && !(config->without & NIC_DPDK_WITHOUT_SG)) {
        used |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
        caps |= US_CAP_TX_SG;
        if ((caps & US_CAP_TX_L4_CSUM) && (offered & RTE_ETH_TX_OFFLOAD_TCP_TSO) &&
            !(config->without & NIC_DPDK_WITHOUT_TSO)) {
            used |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
            caps |= US_CAP_TX_TSO;
        }
    }
    port->conf.txmode.offloads = used;
    return caps;
}

/* Without TSO and where segments would have to be copied, the stack copies them better. */
static u_u32 choose_offloads(struct dpdk_port *port, const struct nic_dpdk_config *config)
{
    u_u32 caps;

    port->zero_copy = driver_of(port)->copies && !(config->without & NIC_DPDK_WITHOUT_ZERO_COPY);
    port->partial_csums = driver_of(port)->partial_csums;
    choose_rx(port, config);
    caps = choose_tx(port, config);
    if (!port->zero_copy && !(caps & US_CAP_TX_TSO))
        caps &= ~(u_u32)US_CAP_TX_SG;
    if (port->conf.rxmode.offloads & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM))
        caps |= US_CAP_RX_CSUM;
    port->asks_guest = driver_of(port)->guest_tso && port->zero_copy &&
                       has_all(caps, US_CAP_TX_L4_CSUM | US_CAP_TX_SG) &&
                       !(config->without & NIC_DPDK_WITHOUT_TSO);
    return caps;
}

/* ---- configuring ------------------------------------------------------------------------- */

/* Whether the driver takes frames of this MTU, whatever it says. */
static bool passes_mtu(const struct dpdk_port *port, uint32_t mtu)
{
    uint32_t overhead = NIC_ETH_HEADER_BYTES + VLAN_BYTES;

    if (port->info.max_mtu != UINT16_MAX && port->info.max_rx_pktlen > port->info.max_mtu)
        overhead = port->info.max_rx_pktlen - port->info.max_mtu;
    return mtu >= port->info.min_mtu && mtu <= port->info.max_mtu &&
           mtu + overhead <= port->info.max_rx_pktlen;
}

static int choose_mtu(struct dpdk_port *port, uint32_t mtu, char error[NIC_ERROR_MAX])
{
    char name[RTE_ETH_NAME_MAX_LEN];

    port->conf.rxmode.mtu = mtu;
    if (passes_mtu(port, mtu))
        return 0;
    if (driver_of(port)->mtu_unchecked) {
        port->conf.rxmode.mtu = RTE_ETHER_MTU;
        return 0;
    }
    nic_error_set(
        error, "dpdk %.40s: MTU %u: the driver allows up to %u", name_of(port, name), mtu,
        u_min32(port->info.max_mtu, port->info.max_rx_pktlen - NIC_ETH_HEADER_BYTES - VLAN_BYTES));
    return -1;
}

/* Asks for less and less: drivers that promise something don't always keep it. */
static int configure(struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    int rc;

    port->conf.intr_conf.rxq = 1;
    for (;;) {
        rc = rte_eth_dev_configure(port->id, port->queue_count, port->queue_count, &port->conf);
        if (rc == 0)
            break;
        if (port->conf.intr_conf.rxq != 0)
            port->conf.intr_conf.rxq = 0;
        else if (port->conf.rxmode.mq_mode == RTE_ETH_MQ_RX_RSS)
            port->conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
        else if (port->conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO)
            port->conf.rxmode.offloads &= ~(uint64_t)RTE_ETH_RX_OFFLOAD_TCP_LRO;
        else
            return fail(port, "configure it", rc, error);
    }
    port->interrupts = port->conf.intr_conf.rxq != 0;
    return 0;
}

static uint16_t ring_size(uint16_t wish)
{
    if (wish == 0)
        wish = RING_DEFAULT;
    return wish < RING_MAX ? wish : RING_MAX;
}

/* A queue and its packets. A driver may insist on larger ones than the MTU asks for. */
static int open_queue(struct dpdk_queue *queue, uint16_t rx_ring, uint16_t tx_ring,
                      char error[NIC_ERROR_MAX])
{
    struct dpdk_port *port = queue->port;
    uint32_t room = room_for(queue->nic.mtu);
    bool chains = (queue->nic.caps & US_CAP_TX_TSO) != 0 ||
                  (port->conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
    int socket = rte_eth_dev_socket_id(port->id);
    int rc;

    for (;;) {
        queue->pool =
            make_pool(port, queue->nic.queue, room, pkts_of_queue(rx_ring, tx_ring, chains));
        if (queue->pool == NULL)
            return no_memory(port, error);
        rc = rte_eth_rx_queue_setup(port->id, queue->nic.queue, rx_ring, (unsigned)socket, NULL,
                                    queue->pool);
        if (rc == 0)
            break;
        rte_mempool_free(queue->pool);
        queue->pool = NULL;
        room *= 2;
        if ((rc != -ENOMEM && rc != -EINVAL) || room > ROOM_MAX)
            return fail(port, "set up a queue to receive", rc, error);
    }
    rc = rte_eth_tx_queue_setup(port->id, queue->nic.queue, tx_ring, (unsigned)socket, NULL);
    if (rc < 0)
        return fail(port, "set up a queue to send", rc, error);
    return port->zero_copy ? make_views(queue, error) : 0;
}

static int open_queues(struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    uint16_t rx_ring = ring_size(port->info.default_rxportconf.ring_size);
    uint16_t tx_ring = ring_size(port->info.default_txportconf.ring_size);
    unsigned i;
    int rc = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx_ring, &tx_ring);

    if (rc < 0)
        return fail(port, "choose the size of its rings", rc, error);
    for (i = 0; i < port->queue_count; i++) {
        if (open_queue(port->queues[i], rx_ring, tx_ring, error) < 0)
            return -1;
    }
    return 0;
}

static int is_zero_mac(const uint8_t mac[6])
{
    static const uint8_t none[6];

    return memcmp(mac, none, 6) == 0;
}

static int choose_mac(struct dpdk_port *port, const struct nic_dpdk_config *config, uint8_t mac[6],
                      char error[NIC_ERROR_MAX])
{
    struct rte_ether_addr addr;
    int rc = rte_eth_macaddr_get(port->id, &addr);

    if (rc < 0)
        return fail(port, "read its MAC address", rc, error);
    memcpy(mac, addr.addr_bytes, 6);
    if (driver_of(port)->mac_is_peers) {
        rte_eth_random_addr(addr.addr_bytes);
        memcpy(mac, is_zero_mac(config->mac) ? addr.addr_bytes : config->mac, 6);
    } else if (!is_zero_mac(config->mac)) {
        memcpy(mac, config->mac, 6);
        memcpy(addr.addr_bytes, mac, 6);
        rc = rte_eth_dev_default_mac_addr_set(port->id, &addr);
        /* A link that can't be told an address passes frames to all of them. */
        if (rc < 0 && rc != -ENOTSUP)
            return fail(port, "set its MAC address", rc, error);
    }
    return 0;
}

static int on_removed(uint16_t id, enum rte_eth_event_type event, void *ctx, void *result)
{
    struct dpdk_port *port = ctx;
    unsigned i;

    __atomic_store_n(&port->removed, true, __ATOMIC_RELEASE);
    for (i = 0; i < port->queue_count; i++)
        dpdk_wake(&port->queues[i]->nic);
    return 0;
}

/* Another guest may be there. */
static int on_link(uint16_t id, enum rte_eth_event_type event, void *ctx, void *result)
{
    struct dpdk_port *port = ctx;

    __atomic_store_n(&port->guest_caps, dpdk_vhost_takes_large(id) ? US_CAP_TX_TSO : 0,
                     __ATOMIC_RELAXED);
    return 0;
}

/* As many queues as are wanted and there are; those beyond go. */
static int limit_queues(struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    char name[RTE_ETH_NAME_MAX_LEN];
    unsigned max = u_min32(port->info.max_rx_queues, port->info.max_tx_queues);
    unsigned i;

    if (driver_of(port)->one_queue)
        max = u_min32(max, 1);
    if (max == 0) {
        nic_error_set(error, "dpdk %.40s: it has no queues", name_of(port, name));
        return -1;
    }
    while (port->queue_count > max)
        free(port->queues[--port->queue_count]);
    for (i = 0; i < port->queue_count; i++)
        port->queues[i]->nic.queues = port->queue_count;
    port->open_count = port->queue_count;
    return 0;
}

static int prepare(struct dpdk_port *port, const struct nic_dpdk_config *config,
                   char error[NIC_ERROR_MAX])
{
    uint32_t mtu = mtu_of(config);
    uint8_t mac[6];
    unsigned i;
    int rc = rte_eth_dev_info_get(port->id, &port->info);

    if (rc < 0)
        return fail(port, "tell what it can do", rc, error);
    if (limit_queues(port, error) < 0 || choose_mtu(port, mtu, error) < 0)
        return -1;
    port->caps = choose_offloads(port, config);
    dpdk_rss_choose(port, config);
    if (configure(port, error) < 0 || choose_mac(port, config, mac, error) < 0)
        return -1;
    for (i = 0; i < port->queue_count; i++) {
        struct nic *nic = &port->queues[i]->nic;

        nic->caps = port->caps;
        nic->mtu = mtu;
        nic->burst = BURST;
        nic->numa_node = (int16_t)rte_eth_dev_socket_id(port->id);
        memcpy(nic->mac, mac, sizeof(nic->mac));
    }
    return 0;
}

int dpdk_port_start(struct dpdk_port *port, const struct nic_dpdk_config *config,
                    char error[NIC_ERROR_MAX])
{
    unsigned i;
    bool exact;
    int rc;

    if (prepare(port, config, error) < 0 || open_queues(port, error) < 0)
        return -1;
    if (port->asks_guest)
        (void)rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_LSC, on_link, port);
    rc = rte_eth_dev_start(port->id);
    if (rc < 0)
        return fail(port, "start it", rc, error);
    port->started = true;
    exact = port->queue_count == 1 || dpdk_rss_is_exact(port);
    for (i = 0; i < port->queue_count; i++)
        port->queues[i]->nic.rss_exact = exact;
    (void)rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_RMV, on_removed, port);
    dpdk_stats_choose(port);
    return 0;
}

/*
 * DPDK's thread for interrupts looks at the socket of a virtio-user device, and its driver closes
 * the socket and frees what that thread uses without taking it from there first. That thread has
 * ended programs as they closed such a device (22.11), so the socket is closed by the end of the
 * process; where the device listens it has to be closed, for the socket's name to go.
 */
static bool is_left_open(const struct dpdk_port *port)
{
    return port->started && driver_of(port)->left_open && port->connects;
}

void dpdk_port_stop(struct dpdk_port *port)
{
    struct rte_device *device = port->info.device;
    unsigned i;

    if (port->asks_guest)
        (void)rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_LSC, on_link, port);
    if (port->started) {
        (void)rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_RMV, on_removed, port);
        (void)rte_eth_dev_stop(port->id);
    }
    if (is_left_open(port))
        return;
    if (rte_eth_dev_is_valid_port(port->id))
        (void)rte_eth_dev_close(port->id);
    if (port->probed && device != NULL)
        (void)rte_dev_remove(device);
    for (i = 0; i < port->queue_count; i++) {
        rte_mempool_free(port->queues[i]->pool);
        rte_mempool_free(port->queues[i]->views);
    }
}
