/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link of a program's own TCP/IP stack: its options, and the device that is opened as they say.
 */
#include "common/link.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "nic/dpdk.h"
#include "nic/pool.h"
#include "nic/xdp.h"

__attribute__((format(printf, 2, 3))) static int fail(char error[LINK_ERROR_MAX],
                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, LINK_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

/* ---- where bytes come from --------------------------------------------------------------- */

static const char *const io_names[] = {
    [LINK_IO_AUTO] = "auto", [LINK_IO_SOCK] = "sock", [LINK_IO_URING] = "uring",
    [LINK_IO_TAP] = "tap",   [LINK_IO_XDP] = "xdp",   [LINK_IO_DPDK] = "dpdk",
};

#define IO_COUNT (sizeof(io_names) / sizeof(io_names[0]))

bool link_is_stack(enum link_io io)
{
    U_ASSERT(io != LINK_IO_AUTO);
    return io != LINK_IO_SOCK && io != LINK_IO_URING;
}

const char *link_io_name(enum link_io io)
{
    return io_names[io];
}

/* "auto, sock, uring" and so on. */
static const char *all_names(char text[LINK_TEXT_MAX])
{
    size_t used = 0;
    unsigned i;

    for (i = 0; i < IO_COUNT; i++) {
        used += (size_t)snprintf(text + used, LINK_TEXT_MAX - used, "%s%s", used > 0 ? ", " : "",
                                 io_names[i]);
    }
    return text;
}

static int set_io(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    char names[LINK_TEXT_MAX];
    unsigned i;

    for (i = 0; i < IO_COUNT && strcmp(arg, io_names[i]) != 0; i++)
        continue;
    if (i == IO_COUNT)
        return fail(error, "--io: \"%s\" is not one of %s", arg, all_names(names));
    link->io = (enum link_io)i;
    return 0;
}

/* ---- the other options ------------------------------------------------------------------- */

static int set_dev(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    link->dev = arg;
    return arg[0] != '\0' ? 0 : fail(error, "--dev: the name is missing");
}

/* The name of a device of the kernel; DPDK's are described at length. */
static int check_dev(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    if (strlen(link->dev) < IFNAMSIZ && !strchr(link->dev, '/'))
        return 0;
    return fail(error, "--dev: \"%s\" is not a device name of 1 to %d characters", link->dev,
                IFNAMSIZ - 1);
}

static int set_ip(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    if (link->ip_count == NET_STACK_ADDR_MAX)
        return fail(error, "--ip: more than %d addresses", NET_STACK_ADDR_MAX);
    if (value_network(arg, &link->ip[link->ip_count]) < 0)
        return fail(error, "--ip: \"%s\" is not ADDRESS/PREFIX, for instance 10.100.0.20/24", arg);
    link->ip_count++;
    return 0;
}

/* One of each family, or none at all. */
static int set_host_ip(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    struct net_stack_addr addr;

    link->host_ip_given = true;
    if (strcmp(arg, "none") == 0)
        return 0;
    if (value_network(arg, &addr) < 0)
        return fail(error,
                    "--host-ip: \"%s\" is neither ADDRESS/PREFIX, for instance 10.100.0.10/24, nor "
                    "none",
                    arg);
    *(addr.addr.family == US_IP6 ? &link->host_ip6 : &link->host_ip) = addr;
    return 0;
}

static int set_gateway(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    struct us_addr *gateway = &link->gateways[link->gateway_count];

    if (link->gateway_count == NET_STACK_GATEWAY_MAX)
        return fail(error, "--gw: more than one of each family");
    if (value_addr(arg, gateway) < 0)
        return fail(error, "--gw: \"%s\" is not an address, for instance 10.100.0.1", arg);
    if (link->gateway_count > 0 && gateway->family == link->gateways[0].family)
        return fail(error, "--gw: more than one of each family");
    link->gateway_count++;
    return 0;
}

static int set_mac(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    link->mac_given = true;
    if (value_mac(arg, link->mac) == 0)
        return 0;
    return fail(error,
                "--mac: \"%s\" is not the address of one station, for instance 02:00:00:12:34:56",
                arg);
}

static int set_mtu(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    uint64_t mtu;

    if (value_number(arg, NIC_MTU_MIN, NIC_MTU_MAX, &mtu) < 0)
        return fail(error, "--mtu: \"%s\" is not a number from %d to %d", arg, NIC_MTU_MIN,
                    NIC_MTU_MAX);
    link->mtu = (uint32_t)mtu;
    return 0;
}

static int set_queues(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    uint64_t queues;

    if (value_number(arg, 1, NIC_QUEUES_MAX, &queues) < 0)
        return fail(error, "--queues: \"%s\" is not a number from 1 to %d", arg, NIC_QUEUES_MAX);
    link->queues = (unsigned)queues;
    return 0;
}

static int set_eal(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    (void)error; /* any text is for DPDK to judge */
    link->eal = arg;
    return 0;
}

/* Words by commas. */
static int set_xdp(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    const char *at = arg;

    link->xdp_given = true;
    for (;;) {
        size_t length = strcspn(at, ",");

        if (length == 6 && memcmp(at, "native", length) == 0)
            link->xdp.mode = NIC_XDP_MODE_NATIVE;
        else if (length == 7 && memcmp(at, "generic", length) == 0)
            link->xdp.mode = NIC_XDP_MODE_GENERIC;
        else if (length == 4 && memcmp(at, "copy", length) == 0)
            link->xdp.copy = true;
        else if (length == 9 && memcmp(at, "busy-poll", length) == 0)
            link->xdp.busy_poll = true;
        else
            return fail(error, "--xdp: \"%.*s\" is not one of native, generic, copy, busy-poll",
                        (int)length, at);
        if (at[length] == '\0')
            return 0;
        at += length + 1;
    }
}

/* A list of words, each a bit of enum nic_dpdk_without. */
static int set_without(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    static const struct {
        const char *word;
        unsigned bit;
    } words[] = {{"csum", NIC_DPDK_WITHOUT_CSUM},
                 {"tso", NIC_DPDK_WITHOUT_TSO},
                 {"sg", NIC_DPDK_WITHOUT_SG},
                 {"zerocopy", NIC_DPDK_WITHOUT_ZERO_COPY},
                 {"rss", NIC_DPDK_WITHOUT_RSS}};
    const char *at = arg;
    size_t length, i;

    do {
        length = strcspn(at, ",");
        for (i = 0; i < U_ARRAY_LEN(words); i++) {
            if (strlen(words[i].word) == length && strncmp(at, words[i].word, length) == 0)
                break;
        }
        if (i == U_ARRAY_LEN(words))
            return fail(error, "--without: \"%s\" is not a list of csum, tso, sg, zerocopy, rss",
                        arg);
        link->without |= words[i].bit;
        at += length;
    } while (*at++ == ',');
    return 0;
}

static int set_trace(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    link->trace_path = arg;
    return arg[0] != '\0' ? 0 : fail(error, "--trace: a file name is missing");
}

static int set_fault(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX])
{
    char why[NIC_ERROR_MAX];

    link->fault_given = true;
    if (nic_fault_parse(arg, &link->fault, why) == 0)
        return 0;
    return fail(error, "--fault: %s", why);
}

static const struct link_option options[] = {
    {"io", "MODE", set_io,
     "where bytes come from: the kernel's sockets by epoll (sock) or\n"
     "by io_uring (uring); the own TCP/IP stack on a TAP device\n"
     "(tap), on an interface that stays the kernel's (xdp), or by\n"
     "DPDK (dpdk); auto (default), what --dev, --eal or --ip ask\n"
     "for, else kernel sockets, by io_uring if the kernel lets us"},
    {"dev", "NAME", set_dev,
     "TAP device to create (default: ucached0); the interface that\n"
     "xdp takes frames from; for dpdk a port number, PCI address or\n"
     "virtual device, for instance net_af_packet0,iface=eth1\n"
     "(default: the only one there is)"},
    {"ip", "ADDR/PREFIX", set_ip,
     "address of the own stack, IPv4 or IPv6; may be repeated\n"
     "(default: 10.100.0.20/24; xdp: the ports -p and -U of the\n"
     "host's own addresses)"},
    {"host-ip", "ADDR/PREFIX", set_host_ip,
     "address of the host's side of the TAP, one of each family,\n"
     "or none\n"
     "(default: 10.100.0.10/24)"},
    {"gw", "ADDR", set_gateway, "gateway to other networks, one of each family\n(default: none)"},
    {"mac", "MAC", set_mac, "hardware address of the own stack (default: random)"},
    {"mtu", "BYTES", set_mtu, "largest IP packet, 576 to 9216 (default: 1500)"},
    {"queues", "N", set_queues,
     "queues of the device, at most as many as threads\n"
     "(default: one for each thread, as far as there are)"},
    {"eal", "ARGS", set_eal,
     "arguments for DPDK's environment, for instance\n"
     "'--no-huge -m 256 --vdev=net_memif0'"},
    {"xdp", "WORDS", set_xdp,
     "how AF_XDP works, by commas: native or generic (default:\n"
     "native if the driver can), copy, busy-poll"},
    {"without", "LIST", set_without,
     "what of a DPDK device not to use: csum, tso, sg, zerocopy,\nrss"},
    {"trace", "FILE", set_trace, "write every frame to FILE in pcap format"},
    {"fault", "SPEC", set_fault,
     "do harm to the frames, for tests, for instance\n"
     "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7"},
};

struct link_option_table link_option_table(void)
{
    struct link_option_table table = {options, sizeof(options) / sizeof(options[0])};

    return table;
}

int link_set(struct link_options *link, const char *name, const char *arg,
             char error[LINK_ERROR_MAX])
{
    const struct link_option *option = options;

    while (strcmp(option->name, name) != 0) {
        option++;
        U_ASSERT(option < options + sizeof(options) / sizeof(options[0]));
    }
    return option->set(link, arg, error);
}

/* ---- what fits together ------------------------------------------------------------------ */

static bool is_number(const char *text)
{
    uint64_t number;

    return value_number(text, 0, UINT16_MAX, &number) == 0;
}

/* A port of DPDK, or one of its virtual devices. */
static bool is_dpdk_name(const char *dev)
{
    return is_number(dev) || strncmp(dev, "net_", 4) == 0;
}

static enum link_io choose_io(const struct link_options *link)
{
    if (link->eal || (link->dev && is_dpdk_name(link->dev)))
        return LINK_IO_DPDK;
    if (link->dev && if_nametoindex(link->dev) != 0)
        return LINK_IO_XDP;
    return link->dev || link->ip_count > 0 ? LINK_IO_TAP : LINK_IO_SOCK;
}

bool link_same_network(const struct net_stack_addr *network, const struct us_addr *addr)
{
    unsigned bit;

    if (network->addr.family != addr->family)
        return false;
    for (bit = 0; bit < network->prefix_len; bit++) {
        if ((network->addr.bytes[bit / 8] ^ addr->bytes[bit / 8]) & (0x80u >> bit % 8))
            return false;
    }
    return true;
}

/* The first option that kernel sockets have no use for, or null. */
static const char *option_of_stack(const struct link_options *link)
{
    return link->dev                 ? "--dev"
           : link->ip_count > 0      ? "--ip"
           : link->host_ip_given     ? "--host-ip"
           : link->gateway_count > 0 ? "--gw"
           : link->mac_given         ? "--mac"
           : link->mtu > 0           ? "--mtu"
           : link->queues > 0        ? "--queues"
           : link->eal               ? "--eal"
           : link->xdp_given         ? "--xdp"
           : link->without != 0      ? "--without"
           : link->trace_path        ? "--trace"
           : link->fault_given       ? "--fault"
                                     : NULL;
}

static int check_sock(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    const char *wrong = option_of_stack(link);

    if (wrong)
        return fail(error, "%s is for the own TCP/IP stack; add --io=tap", wrong);
    return 0;
}

/* Whether an address is in a network of ours. */
static bool is_neighbour(const struct link_options *link, const struct us_addr *addr)
{
    unsigned i;

    for (i = 0; i < link->ip_count; i++) {
        if (link_same_network(&link->ip[i], addr))
            return true;
    }
    return false;
}

static int check_gateways(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    unsigned i;

    for (i = 0; i < link->gateway_count; i++) {
        if (!is_neighbour(link, &link->gateways[i]))
            return fail(error, "--gw: no --ip is in the network of the gateway");
    }
    return 0;
}

static const char *addr_text(const struct us_addr *addr, char text[INET6_ADDRSTRLEN])
{
    return inet_ntop(addr->family == US_IP6 ? AF_INET6 : AF_INET, addr->bytes, text,
                     INET6_ADDRSTRLEN);
}

/* An address of the host's side has to be in a network of ours, and another one than ours. */
static int check_host_ip(const struct link_options *link, const struct net_stack_addr *host,
                         char error[LINK_ERROR_MAX])
{
    char text[INET6_ADDRSTRLEN];
    unsigned i;

    if (host->prefix_len == 0)
        return 0;
    for (i = 0; i < link->ip_count; i++) {
        if (memcmp(&link->ip[i].addr, &host->addr, sizeof(host->addr)) == 0)
            return fail(error, "--ip and --host-ip are the same address");
    }
    if (is_neighbour(link, &host->addr))
        return 0;
    return fail(error,
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

static int settle_tap(struct link_options *link, const struct link_defaults *defaults,
                      char error[LINK_ERROR_MAX])
{
    if (link->eal)
        return fail(error, "--eal is for --io=dpdk");
    if (link->xdp_given)
        return fail(error, "--xdp is for --io=xdp");
    if (link->without != 0)
        return fail(error, "--without is for --io=dpdk");
    if (link->ip_count == 0 && value_network(defaults->ip, &link->ip[0]) == 0)
        link->ip_count = 1;
    if (check_gateways(link, error) < 0)
        return -1;
    if (!link->dev)
        link->dev = defaults->dev;
    if (check_dev(link, error) < 0)
        return -1;
    if (!link->host_ip_given && has_ip4(link)) {
        int rc = value_network(defaults->host_ip, &link->host_ip);

        U_ASSERT(rc == 0);
    }
    if (check_host_ip(link, &link->host_ip, error) < 0)
        return -1;
    return check_host_ip(link, &link->host_ip6, error);
}

static void copy_xdp_addr(const struct net_stack_addr *from, struct nic_xdp_addr *to)
{
    to->is_ip6 = from->addr.family == US_IP6;
    memcpy(to->bytes, from->addr.bytes, sizeof(to->bytes));
}

/* The ports are taken on the addresses that the host has now. */
static int take_host_addrs(struct link_options *link, char error[LINK_ERROR_MAX])
{
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    char why[NIC_ERROR_MAX];
    unsigned i;

    link->ip_count = nic_xdp_host_addrs(link->dev, addrs, NET_STACK_ADDR_MAX, why);
    if (link->ip_count == 0)
        return fail(error, "%s", why);
    for (i = 0; i < link->ip_count; i++) {
        memset(&link->ip[i], 0, sizeof(link->ip[i]));
        link->ip[i].addr.family = addrs[i].is_ip6 ? US_IP6 : US_IP4;
        memcpy(link->ip[i].addr.bytes, addrs[i].bytes, sizeof(addrs[i].bytes));
    }
    link->host_addrs = true;
    return 0;
}

static int settle_xdp(struct link_options *link, char error[LINK_ERROR_MAX])
{
    if (!link->dev)
        return fail(error, "--io=xdp needs --dev=INTERFACE; ip link shows what there is");
    if (link->eal)
        return fail(error, "--eal is for --io=dpdk");
    if (link->without != 0)
        return fail(error, "--without is for --io=dpdk");
    if (link->host_ip_given)
        return fail(error, "--host-ip is for --io=tap");
    if (link->ip_count > 0)
        return check_gateways(link, error);
    if (link->gateway_count > 0 || link->mac_given)
        return fail(error,
                    "%s needs an --ip: the host's own addresses have the host's routes and "
                    "hardware address",
                    link->mac_given ? "--mac" : "--gw");
    return take_host_addrs(link, error);
}

static int settle_dpdk(struct link_options *link, const struct link_defaults *defaults,
                       char error[LINK_ERROR_MAX])
{
    if (link->host_ip_given)
        return fail(error, "--host-ip is for --io=tap");
    if (link->xdp_given)
        return fail(error, "--xdp is for --io=xdp");
    if (link->ip_count == 0 && value_network(defaults->ip, &link->ip[0]) == 0)
        link->ip_count = 1;
    return check_gateways(link, error);
}

int link_settle(struct link_options *link, const struct link_defaults *defaults,
                char error[LINK_ERROR_MAX])
{
    link->io_chosen = link->io == LINK_IO_AUTO;
    if (link->io_chosen)
        link->io = choose_io(link);
    if (!link_is_stack(link->io))
        return check_sock(link, error);
    if (link->io == LINK_IO_XDP)
        return settle_xdp(link, error);
    if (link->io == LINK_IO_DPDK)
        return settle_dpdk(link, defaults, error);
    return settle_tap(link, defaults, error);
}

/* ---- the device -------------------------------------------------------------------------- */

static int open_tap(const struct link_options *link, unsigned queues, struct nic *queue[],
                    char error[LINK_ERROR_MAX])
{
    struct nic_tap_config tap = {.name = link->dev, .mtu = link->mtu};
    char why[NIC_ERROR_MAX];

    memcpy(tap.mac, link->mac, sizeof(tap.mac));
    memcpy(tap.host_addr, link->host_ip.addr.bytes, sizeof(tap.host_addr));
    tap.host_prefix_len = link->host_ip.prefix_len;
    memcpy(tap.host_addr6, link->host_ip6.addr.bytes, sizeof(tap.host_addr6));
    tap.host_prefix6_len = link->host_ip6.prefix_len;
    if (nic_tap_open(&tap, queues, queue, why) < 0)
        return fail(error, "%s", why);
    return (int)queues;
}

static int open_xdp(const struct link_options *link, const struct link_use *use,
                    struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct nic_xdp_config xdp = {
        .dev = link->dev,
        .mtu = link->mtu,
        .addr_count = link->ip_count,
        .host_addrs = link->host_addrs,
        .tcp_port = use->tcp_port,
        .udp_port = use->udp_port,
        .mode = link->xdp.mode,
        .copy = link->xdp.copy,
        .busy_poll = link->xdp.busy_poll,
    };
    char why[NIC_ERROR_MAX];
    unsigned i;
    int queues;

    memcpy(xdp.mac, link->mac, sizeof(xdp.mac));
    for (i = 0; i < link->ip_count; i++)
        copy_xdp_addr(&link->ip[i], &xdp.addrs[i]);
    queues = nic_xdp_open(&xdp, use->queues, queue, why);
    return queues > 0 ? queues : fail(error, "%s", why);
}

static int open_dpdk(const struct link_options *link, const struct link_use *use,
                     struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct nic_dpdk_config dpdk = {.dev = link->dev,
                                   .eal = link->eal,
                                   .mtu = link->mtu,
                                   .without = link->without,
                                   .verbose = use->verbose};
    char why[NIC_ERROR_MAX];
    int queues;

    memcpy(dpdk.mac, link->mac, sizeof(dpdk.mac));
    queues = nic_dpdk_open(&dpdk, use->queues, queue, why);
    return queues < 0 ? fail(error, "%s", why) : queues;
}

/* What was asked for is wrapped around the queues. */
static int wrap(const struct link_options *link, unsigned queues, struct nic *queue[],
                char error[LINK_ERROR_MAX])
{
    char why[NIC_ERROR_MAX];

    if (link->fault_given && nic_fault_open(queue, queues, &link->fault, why) < 0)
        return fail(error, "%s", why);
    if (link->trace_path && nic_trace_open(queue, queues, link->trace_path, why) < 0)
        return fail(error, "%s", why);
    return 0;
}

int link_open(struct link_options *link, const struct link_use *use, struct nic *queue[],
              char error[LINK_ERROR_MAX])
{
    struct link_use own = *use;
    int queues;

    U_ASSERT(link_is_stack(link->io));
    U_ASSERT(use->queues > 0 && use->queues <= NIC_QUEUES_MAX);
    if (link->queues > 0)
        own.queues = u_min32(own.queues, link->queues);
    if (link->io == LINK_IO_XDP)
        queues = open_xdp(link, &own, queue, error);
    else if (link->io == LINK_IO_DPDK)
        queues = open_dpdk(link, &own, queue, error);
    else
        queues = open_tap(link, own.queues, queue, error);
    if (queues > 0 && wrap(link, (unsigned)queues, queue, error) < 0) {
        while (queues > 0)
            nic_close(queue[--queues]);
        return -1;
    }
    return queues;
}

void link_configure_stack(const struct link_options *link, struct net_stack_config *config)
{
    memcpy(config->addrs, link->ip, sizeof(config->addrs));
    config->addr_count = link->ip_count;
    memcpy(config->gateways, link->gateways, sizeof(config->gateways));
    config->gateway_count = link->gateway_count;
    config->reply_to_sender = link->host_addrs;
}

const char *link_text(const struct link_options *link, char text[LINK_TEXT_MAX])
{
    const struct net_stack_addr *host =
        link->host_ip.prefix_len > 0 ? &link->host_ip : &link->host_ip6;
    char host_ip[INET6_ADDRSTRLEN] = "none";

    if (link->io == LINK_IO_XDP) {
        snprintf(text, LINK_TEXT_MAX, "AF_XDP on %s%s", link->dev,
                 link->host_addrs ? ", the rest of its traffic is the host's" : "");
        return text;
    }
    if (link->io == LINK_IO_DPDK) {
        snprintf(text, LINK_TEXT_MAX, "DPDK %.120s", link->dev ? link->dev : "port");
        return text;
    }
    if (host->prefix_len > 0)
        addr_text(&host->addr, host_ip);
    snprintf(text, LINK_TEXT_MAX, "TAP device %s, host side %s", link->dev, host_ip);
    return text;
}
