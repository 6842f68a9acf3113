/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end --io=xdp: AF_XDP on a network interface of the kernel (nic/xdp.c). */
#include <net/if.h>
#include <string.h>

#include "base/base.h"
#include "common/backend.h"

/* A list of words, separated by commas. */
static int set_xdp(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    struct link_options *link = settings;
    char copy[64], *rest = copy, *word;

    snprintf(copy, sizeof(copy), "%s", arg);
    while ((word = strsep(&rest, ",")) != NULL) {
        if (strcmp(word, "native") == 0)
            link->xdp.mode = NIC_XDP_MODE_NATIVE;
        else if (strcmp(word, "generic") == 0)
            link->xdp.mode = NIC_XDP_MODE_GENERIC;
        else if (strcmp(word, "copy") == 0)
            link->xdp.copy = true;
        else if (strcmp(word, "busy-poll") == 0)
            link->xdp.busy_poll = true;
        else
            return cmdline_fail(error, "\"%s\" is not one of native, generic, copy, busy-poll",
                                word);
    }
    return 0;
}

static const struct cmdline_option options[] = {
    {.name = "xdp",
     .arg = "WORDS",
     .set = set_xdp,
     .help = "xdp: a list of native or generic (default: native if the\n"
             "driver supports it), copy (no zero-copy), busy-poll"},
};

static bool is_implied(const struct link_options *link)
{
    return link->dev && if_nametoindex(link->dev) != 0;
}

/* Without --ip the stack serves ports of the addresses that the interface has now. */
static int use_host_addrs(struct link_options *link, char error[LINK_ERROR_MAX])
{
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    unsigned i;

    link->ip_count = nic_xdp_host_addrs(link->dev, addrs, NET_STACK_ADDR_MAX, error);
    if (link->ip_count == 0)
        return -1;
    for (i = 0; i < link->ip_count; i++) {
        memset(&link->ip[i], 0, sizeof(link->ip[i]));
        link->ip[i].addr.family = addrs[i].is_ip6 ? US_IP6 : US_IP4;
        memcpy(link->ip[i].addr.bytes, addrs[i].bytes, sizeof(addrs[i].bytes));
    }
    link->host_addrs = true;
    return 0;
}

static int resolve(struct link_options *link, const struct link_defaults *defaults,
                   char error[LINK_ERROR_MAX])
{
    static const uint8_t none[6];
    bool has_mac = memcmp(link->mac, none, sizeof(none)) != 0;

    if (!link->dev)
        return cmdline_fail(error, "--io=xdp needs --dev=INTERFACE; ip link lists the interfaces");
    if (link->ip_count > 0)
        return 0;
    if (link->gateway_count > 0 || has_mac)
        return cmdline_fail(error,
                            "%s needs an --ip: the host's addresses have the host's routes and "
                            "MAC address",
                            has_mac ? "--mac" : "--gw");
    return use_host_addrs(link, error);
}

static int open_queues(const struct link_options *link, const struct link_params *params,
                       struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct nic_xdp_config xdp = {
        .dev = link->dev,
        .mtu = link->mtu,
        .addr_count = link->ip_count,
        .host_addrs = link->host_addrs,
        .tcp_port = params->tcp_port,
        .udp_port = params->udp_port,
        .mode = link->xdp.mode,
        .copy = link->xdp.copy,
        .busy_poll = link->xdp.busy_poll,
    };
    unsigned i;

    memcpy(xdp.mac, link->mac, sizeof(xdp.mac));
    for (i = 0; i < link->ip_count; i++) {
        xdp.addrs[i].is_ip6 = link->ip[i].addr.family == US_IP6;
        memcpy(xdp.addrs[i].bytes, link->ip[i].addr.bytes, sizeof(xdp.addrs[i].bytes));
    }
    return nic_xdp_open(&xdp, params->queues, queue, error);
}

static void describe(const struct link_options *link, char text[LINK_DESCRIPTION_MAX])
{
    snprintf(text, LINK_DESCRIPTION_MAX, "AF_XDP on %s%s", link->dev,
             link->host_addrs ? ", ports of the host's addresses" : "");
}

const struct link_backend link_backend_xdp = {
    .name = "xdp",
    .help = "own TCP/IP stack through AF_XDP, on an interface that the\n"
            "kernel keeps using",
    .carries_frames = true,
    .syscalls = LINK_SYSCALLS_XDP,
    .options = options,
    .option_count = U_ARRAY_LEN(options),
    .is_implied = is_implied,
    .resolve = resolve,
    .open = open_queues,
    .describe = describe,
};
