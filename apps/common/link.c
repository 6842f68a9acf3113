/* SPDX-License-Identifier: BSD-3-Clause */
/* The network link: options that all back ends share, and opening the device. See link.h. */
#include "common/link.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"
#include "nic/pool.h"
#include "nic/rss.h"

static const struct link_backend backend_sock = {
    .name = "sock", .help = "kernel sockets through epoll", .syscalls = LINK_SYSCALLS_SOCKETS};

static const struct link_backend backend_uring = {.name = "uring",
                                                  .help = "kernel sockets through io_uring",
                                                  .io_uring = true,
                                                  .syscalls = LINK_SYSCALLS_SOCKETS};

const struct link_backend *const link_backends[LINK_BACKENDS] = {
    &backend_sock, &backend_uring, &link_backend_tap, &link_backend_xdp, &link_backend_dpdk};

/* ---- options ----------------------------------------------------------------------------- */

/* The words of --io: auto, then the back ends. */
static const char *io_choice(unsigned index, const char **help)
{
    *help = "the back end that --dev, --eal or --ip imply, else\n"
            "kernel sockets, by io_uring if possible (default)";
    if (index == 0)
        return "auto";
    if (index > LINK_BACKENDS)
        return NULL;
    *help = link_backends[index - 1]->help;
    return link_backends[index - 1]->name;
}

static int add_ip(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;

    if (link->ip_count == NET_STACK_ADDR_MAX)
        return cmdline_fail(error, "more than %d addresses", NET_STACK_ADDR_MAX);
    if (value_network(arg, &link->ip[link->ip_count]) < 0)
        return cmdline_fail(error, "\"%s\" is not ADDRESS/PREFIX, for instance 10.100.0.20/24",
                            arg);
    link->ip_count++;
    return 0;
}

static int add_gateway(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;
    struct us_addr gateway;

    if (value_addr(arg, &gateway) < 0)
        return cmdline_fail(error, "\"%s\" is not an address, for instance 10.100.0.1", arg);
    if (link->gateway_count == NET_STACK_GATEWAY_MAX ||
        (link->gateway_count > 0 && gateway.family == link->gateways[0].family))
        return cmdline_fail(error, "more than one of each family");
    link->gateways[link->gateway_count++] = gateway;
    return 0;
}

static int set_mac(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;

    if (value_mac(arg, link->mac) == 0)
        return 0;
    return cmdline_fail(error,
                        "\"%s\" is not a unicast MAC address, for instance "
                        "02:00:00:12:34:56",
                        arg);
}

static int set_fault(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;

    link->fault_given = true;
    return nic_fault_parse(arg, &link->fault, error);
}

static const struct cmdline_option common_options[] = {
    {.name = "io",
     .arg = "MODE",
     .help = "how the program reaches the network:",
     .kind = CMDLINE_CHOICE,
     .offset = offsetof(struct link_options, io),
     .choice = io_choice},
    {.name = "dev",
     .arg = "NAME",
     .help = "tap: device to create (default: ucached0); xdp: interface;\n"
             "dpdk: port number, PCI address or virtual device, for\n"
             "instance net_af_packet0,iface=eth1 (default: the only port)",
     .kind = CMDLINE_TEXT,
     .offset = offsetof(struct link_options, dev)},
    {.name = "ip",
     .arg = "ADDR/PREFIX",
     .set = add_ip,
     .help = "address of the own TCP/IP stack, IPv4 or IPv6; may be\n"
             "repeated (default: 10.100.0.20/24; xdp: the ports of -p and\n"
             "-U on the host's addresses)"},
    {.name = "gw",
     .arg = "ADDR",
     .set = add_gateway,
     .help = "gateway, one of each family (default: none)"},
    {.name = "mac",
     .arg = "MAC",
     .set = set_mac,
     .help = "MAC address of the own TCP/IP stack (default: the device's;\n"
             "tap: random)"},
    {.name = "mtu",
     .arg = "BYTES",
     .help = "largest IP packet, 576 to 9216 (default: 1500)",
     .kind = CMDLINE_U32,
     .offset = offsetof(struct link_options, mtu),
     .min = NIC_MTU_MIN,
     .max = NIC_MTU_MAX},
    {.name = "queues",
     .arg = "N",
     .help = "queues of the device to use, at most one per thread\n"
             "(default: one per thread, as far as the device has them)",
     .kind = CMDLINE_U32,
     .offset = offsetof(struct link_options, queues),
     .min = 1,
     .max = NIC_QUEUES_MAX},
    {.name = "trace",
     .arg = "FILE",
     .help = "write every frame to FILE in pcap format",
     .kind = CMDLINE_TEXT,
     .offset = offsetof(struct link_options, trace_path)},
    {.name = "fault",
     .arg = "SPEC",
     .set = set_fault,
     .help = "inject faults into received and sent frames (testing), for\n"
             "instance loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7"},
};

/* All options: the common ones, then those of each back end, which `owners` names. */
static struct cmdline_option all_options[LINK_OPTIONS_MAX];
static const struct link_backend *owners[LINK_OPTIONS_MAX];
static size_t option_count;

static void add_options(const struct cmdline_option *options, size_t count,
                        const struct link_backend *owner)
{
    size_t i;

    for (i = 0; i < count; i++) {
        U_ASSERT(option_count < LINK_OPTIONS_MAX);
        all_options[option_count] = options[i];
        all_options[option_count].given = offsetof(struct link_options, given) + option_count;
        owners[option_count++] = owner;
    }
}

struct cmdline_table link_table(struct link_options *link)
{
    size_t i;

    if (option_count == 0) {
        add_options(common_options, U_ARRAY_LEN(common_options), NULL);
        for (i = 0; i < LINK_BACKENDS; i++)
            add_options(link_backends[i]->options, link_backends[i]->option_count,
                        link_backends[i]);
    }
    return (struct cmdline_table){all_options, option_count, link};
}

/* ---- resolving --------------------------------------------------------------------------- */

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

bool link_is_neighbour(const struct link_options *link, const struct us_addr *addr)
{
    unsigned i;

    for (i = 0; i < link->ip_count; i++) {
        if (link_same_network(&link->ip[i], addr))
            return true;
    }
    return false;
}

void link_default_ip(struct link_options *link, const struct link_defaults *defaults)
{
    if (link->ip_count == 0 && value_network(defaults->ip, &link->ip[0]) == 0)
        link->ip_count = 1;
}

int link_check_gateways(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    unsigned i;

    for (i = 0; i < link->gateway_count; i++) {
        if (!link_is_neighbour(link, &link->gateways[i]))
            return cmdline_fail(error, "--gw: no --ip is in the network of the gateway");
    }
    return 0;
}

static const struct link_backend *implied_backend(const struct link_options *link)
{
    unsigned i;

    for (i = LINK_BACKENDS; i-- > 0;) {
        if (link_backends[i]->is_implied && link_backends[i]->is_implied(link))
            return link_backends[i];
    }
    return link_backends[0];
}

/* Refuses options that this back end does not have. */
static int check_given(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    size_t i;

    for (i = 1; i < option_count; i++) { /* 0 is --io */
        if (!link->given[i])
            continue;
        if (!link->backend->carries_frames)
            return cmdline_fail(error, "--%s is for the own TCP/IP stack; add --io=tap",
                                all_options[i].name);
        if (owners[i] && owners[i] != link->backend)
            return cmdline_fail(error, "--%s is for --io=%s", all_options[i].name, owners[i]->name);
    }
    return 0;
}

int link_resolve(struct link_options *link, const struct link_defaults *defaults,
                 char error[LINK_ERROR_MAX])
{
    link->backend = link->io != LINK_IO_AUTO ? link_backends[link->io - 1] : implied_backend(link);
    if (check_given(link, error) < 0)
        return -1;
    if (link->backend->resolve && link->backend->resolve(link, defaults, error) < 0)
        return -1;
    return link->host_addrs ? 0 : link_check_gateways(link, error);
}

bool link_carries_frames(const struct link_options *link)
{
    U_ASSERT(link->backend);
    return link->backend->carries_frames;
}

const char *link_backend_name(const struct link_options *link)
{
    U_ASSERT(link->backend);
    return link->backend->name;
}

/* ---- the device -------------------------------------------------------------------------- */

static int wrap_queues(const struct link_options *link, unsigned queues, struct nic *queue[],
                       char error[LINK_ERROR_MAX])
{
    if (link->fault_given && nic_fault_open(queue, queues, &link->fault, error) < 0)
        return -1;
    return link->trace_path ? nic_trace_open(queue, queues, link->trace_path, error) : 0;
}

int link_prepare(const struct link_options *link, const struct link_params *params,
                 char error[LINK_ERROR_MAX])
{
    return link->backend->prepare ? link->backend->prepare(link, params, error) : 0;
}

bool link_close_frees(const struct link_options *link)
{
    return link->backend->close_frees && link->backend->close_frees(link);
}

int link_open(const struct link_options *link, const struct link_params *params,
              struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct link_params limited = *params;
    uint8_t secret[NIC_RSS_SECRET_BYTES];
    int queues;

    U_ASSERT(link_carries_frames(link));
    U_ASSERT(params->queues > 0 && params->queues <= NIC_QUEUES_MAX);
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return cmdline_fail(error, "getrandom: %s", strerror(errno));
    if (!params->keep_rss_key)
        nic_rss_key_choose(secret);
    if (link->queues > 0)
        limited.queues = u_min32(limited.queues, link->queues);
    queues = link->backend->open(link, &limited, queue, error);
    if (queues > 0 && wrap_queues(link, (unsigned)queues, queue, error) < 0) {
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
    config->reply_to_source_mac = link->host_addrs;
}

const char *link_describe(const struct link_options *link, char text[LINK_DESCRIPTION_MAX])
{
    U_ASSERT(link_carries_frames(link));
    link->backend->describe(link, text);
    return text;
}
