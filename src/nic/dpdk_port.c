/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a DPDK port: finds or creates the device, chooses features, creates packet pools, starts
 * it.
 */
#include "nic/dpdk_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "nic/dpdk_eal.h"
#include "nic/dpdk_pci.h"
#include "nic/error.h"
#include "nic/pool.h"

/* Descriptors per ring, unless the driver recommends a number. */
#define RING_DEFAULT 512
#define RING_MAX 1024

/* Room for data in a packet: the MTU's, or a multiple if the driver needs more. */
#define ROOM_MAX (UINT16_MAX - RTE_PKTMBUF_HEADROOM)

/* Packets beyond those in rings: bursts held by the stack and by other workers. */
#define SPARE_PKTS 1024

/* Additional packets for large segments, which are chains: some of 64 KiB in each direction. */
#define CHAIN_PKTS 2048

#define CACHE_PKTS 256

/*
 * Frames per burst. A larger burst costs less per frame, but both ends of a link work in parallel
 * only if replies are sent before all frames of the peer were received.
 */
#define BURST 16

#define VIEWS 1024
#define LARGE_BYTES 65535

/* The largest segment that LRO may build. */
#define LRO_BYTES 65535

/*
 * Properties that drivers do not report. Drivers without a row are assumed to read frames after
 * tx_burst returned, and to report a correct MTU.
 */
static const struct driver {
    const char *name;
    bool copies;        /* copies frames before tx_burst returns */
    bool mtu_unchecked; /* rejects large MTUs although it passes large frames */
    bool mac_is_peers;  /* reports the MAC address of the kernel's end */
    bool software;      /* its offloads are software, and wrong for odd segments and IPv6 */
    bool one_queue;     /* reports more queues than work */
    bool guest_tso;     /* the guest decides whether it accepts large segments */
    bool partial_csums; /* delivers frames with partial checksums from this machine's kernel */
    bool left_open;     /* if it connects: cannot be closed, see is_left_open() */
    bool maps_any_time; /* maps memory in DPDK's interrupt thread, see dpdk_intr.c */
} drivers[] = {
    {.name = "net_vhost", .copies = true, .guest_tso = true},
    /* A peer may have fewer queues. */
    {.name = "net_memif",
     .one_queue = true,
     .copies = true,
     .mtu_unchecked = true,
     .maps_any_time = true},
    {.name = "net_tap", .copies = true, .mac_is_peers = true, .software = true},
    {.name = "net_af_packet", .copies = true, .mtu_unchecked = true, .partial_csums = true},
    {.name = "net_virtio_user", .left_open = true},
    /* 8254x have one transmit queue; later ones share one checksum context among their queues. */
    {.name = "net_e1000_em", .one_queue = true},
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
    /* The vhost library's advice about a socket in the way fits no other reason. */
    if (strstr(words, strerror(ENOENT)) != NULL)
        words[strcspn(words, ";")] = '\0';
    return nic_error_set(error, "dpdk %.40s: cannot %s: %s%s%.120s", name_of(port, name), what,
                         rte_strerror(abs(number)), words[0] != '\0' ? ": " : "", words);
}

static uint32_t mtu_of(const struct nic_dpdk_config *config)
{
    return config->mtu != 0 ? config->mtu : NIC_MTU_DEFAULT;
}

/* ---- which device ------------------------------------------------------------------------ */

/* Lists all ports: "0 (NAME), 1 (NAME)". */
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
        return nic_error_set(error, "dpdk: several devices, choose one with --dev: %s", text);
    return nic_error_set(error,
                         "dpdk: no device: bind a NIC to a driver of DPDK (dpdk-devbind.py -b "
                         "vfio-pci ADDRESS), or name a virtual one, for instance "
                         "--dev=net_tap0,iface=ucached0");
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/*
 * Calls rte_dev_probe() without leak detection: DPDK keeps pointers to the device's memory where
 * the sanitizer does not look. See is_left_open().
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

/* Creates the device that is described as "name,argument=value,...". */
static int probe(struct dpdk_port *port, const char *dev, uint32_t mtu, char error[NIC_ERROR_MAX])
{
    char text[DPDK_DEV_TEXT_MAX], words[NIC_ERROR_MAX];

    if (!dpdk_vdev_describe(dev, port->queue_count, mtu, text))
        return nic_error_set(error, "dpdk: the text of --dev is too long");
    if (!dpdk_vdev_is_free(text))
        return nic_error_set(error, "dpdk: another process listens at the socket of '%.160s'", dev);
    dpdk_eal_why(words); /* only what follows is of interest */
    if (probe_text(text) < 0) {
        int number = rte_errno;

        dpdk_eal_why(words);
        if (dpdk_pci_explain(dev, DPDK_PCI_SYSFS, error))
            return -1;
        return nic_error_set(error, "dpdk: cannot make or take '%.80s': %.140s", dev,
                             words[0] != '\0' ? words : rte_strerror(number));
    }
    dpdk_eal_why(words);
    port->connects = !dpdk_vdev_listens(text);
    text[strcspn(text, ",")] = '\0';
    if (rte_eth_dev_get_port_by_name(text, &port->id) < 0)
        return dpdk_pci_explain(dev, DPDK_PCI_SYSFS, error)
                   ? -1
                   : nic_error_set(error, "dpdk: '%.80s' is not a network device", text);
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
        return nic_error_set(error, "dpdk: no port %.20s; there %s %.140s", dev,
                             text[0] != '\0' ? "are" : "is", text[0] != '\0' ? text : "none");
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
                         dpdk_room_for(mtu != 0 ? mtu : NIC_MTU_DEFAULT);
    uint64_t view_bytes = VIEWS * sizeof(struct rte_mbuf);

    /* Twice the sum: allocations are contiguous, and drivers need memory for rings. */
    return (16ull << 20) +
           2 * queues * (pkts_of_queue(RING_MAX, RING_MAX, true) * pkt_bytes + view_bytes);
}

/* Sets the fields that never change. */
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

    return nic_error_set(error,
                         "dpdk %.40s: no memory for packets: reserve more huge pages (sysctl "
                         "vm.nr_hugepages=256), or use fewer threads or a smaller MTU",
                         name_of(port, name));
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

/*
 * Scatter-gather without TSO and without zero-copy is not offered: the stack copies data more
 * cheaply.
 */
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
    port->guest_decides_tso = driver_of(port)->guest_tso && port->zero_copy &&
                              has_all(caps, US_CAP_TX_L4_CSUM | US_CAP_TX_SG) &&
                              !(config->without & NIC_DPDK_WITHOUT_TSO);
    return caps;
}

/* ---- configuring ------------------------------------------------------------------------- */

/* Whether the driver's limits allow this MTU. */
static bool passes_mtu(const struct dpdk_port *port, uint32_t mtu)
{
    uint32_t overhead = NIC_ETH_HEADER_BYTES + DPDK_VLAN_BYTES;

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
    return nic_error_set(error, "dpdk %.40s: MTU %u: the driver allows up to %u",
                         name_of(port, name), mtu,
                         u_min32(port->info.max_mtu, port->info.max_rx_pktlen -
                                                         NIC_ETH_HEADER_BYTES - DPDK_VLAN_BYTES));
}

/*
 * Configures the device, with fewer features after each failure: drivers reject features that they
 * report.
 */
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

static uint16_t ring_size(uint16_t preferred)
{
    if (preferred == 0)
        preferred = RING_DEFAULT;
    return preferred < RING_MAX ? preferred : RING_MAX;
}

/* Opens a queue and its pool. Some drivers need larger buffers than the MTU requires. */
static int open_queue(struct dpdk_queue *queue, uint16_t rx_ring, uint16_t tx_ring,
                      char error[NIC_ERROR_MAX])
{
    struct dpdk_port *port = queue->port;
    uint32_t room = dpdk_room_for(queue->nic.mtu);
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
        /* A link without a settable address accepts frames to any address. */
        if (rc < 0 && rc != -ENOTSUP)
            return fail(port, "set its MAC address", rc, error);
    }
    return 0;
}

/* Called when a guest connects or disconnects. */
static int on_link(uint16_t id, enum rte_eth_event_type event, void *ctx, void *result)
{
    struct dpdk_port *port = ctx;

    __atomic_store_n(&port->guest_caps, dpdk_vhost_takes_large(id) ? US_CAP_TX_TSO : 0,
                     __ATOMIC_RELAXED);
    return 0;
}

/* Reduces the queues to the number that the device has. */
static int limit_queues(struct dpdk_port *port, char error[NIC_ERROR_MAX])
{
    char name[RTE_ETH_NAME_MAX_LEN];
    unsigned max = u_min32(port->info.max_rx_queues, port->info.max_tx_queues);
    unsigned i;

    if (driver_of(port)->one_queue)
        max = u_min32(max, 1);
    if (max == 0)
        return nic_error_set(error, "dpdk %.40s: it has no queues", name_of(port, name));
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
        return fail(port, "read its capabilities", rc, error);
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
    if (port->guest_decides_tso)
        (void)rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_LSC, on_link, port);
    rc = rte_eth_dev_start(port->id);
    if (rc < 0)
        return fail(port, "start it", rc, error);
    port->started = true;
    /* Neighbour solicitations go to multicast addresses (RFC 4861); virtual links filter none. */
    (void)rte_eth_allmulticast_enable(port->id);
    exact = port->queue_count == 1 || dpdk_rss_is_exact(port);
    for (i = 0; i < port->queue_count; i++)
        port->queues[i]->nic.rss_exact = exact;
    dpdk_unplug_watch(port);
    dpdk_stats_choose(port);
    return driver_of(port)->maps_any_time
               ? dpdk_intr_hold(&port->intr, port->id, port->connects, error)
               : 0;
}

/*
 * A virtio-user device that connects is not closed. Its driver (22.11) closes the socket and frees
 * memory that DPDK's interrupt thread still uses, which has crashed programs on close. The end of
 * the process closes the socket. A listening device must be closed, so that the socket file is
 * removed.
 */
static bool is_left_open(const struct dpdk_port *port)
{
    return port->started && driver_of(port)->left_open && port->connects;
}

void dpdk_port_stop(struct dpdk_port *port)
{
    struct rte_device *device = port->info.device;
    unsigned i;

    if (port->guest_decides_tso)
        (void)rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_LSC, on_link, port);
    if (port->started) {
        dpdk_unplug_ignore(port);
        (void)rte_eth_dev_stop(port->id);
    }
    if (is_left_open(port))
        return;
    if (rte_eth_dev_is_valid_port(port->id))
        (void)rte_eth_dev_close(port->id);
    if (port->probed && device != NULL)
        (void)rte_dev_remove(device);
    dpdk_intr_release(&port->intr);
    for (i = 0; i < port->queue_count; i++) {
        rte_mempool_free(port->queues[i]->pool);
        rte_mempool_free(port->queues[i]->views);
    }
}
