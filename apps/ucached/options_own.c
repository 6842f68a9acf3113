/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucached's own options: where bytes come from.
 */
#include <string.h>

#include "options_spec.h"
#include "options_value.h"

static int set_io(struct options *o, const char *arg)
{
    static const char *const absent[] = {"uring", "xdp", "dpdk"};
    size_t i;

    for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        if (strcmp(arg, absent[i]) == 0)
            return options_fail(o, EX_USAGE,
                                "--io=%s is not in this build; it has auto, sock and tap", arg);
    }
    if (strcmp(arg, "auto") == 0)
        o->io = OPTIONS_IO_AUTO;
    else if (strcmp(arg, "sock") == 0)
        o->io = OPTIONS_IO_SOCK;
    else if (strcmp(arg, "tap") == 0)
        o->io = OPTIONS_IO_TAP;
    else
        return options_fail(o, EX_USAGE, "--io: \"%s\" is not one of auto, sock, tap", arg);
    return 0;
}

static int set_dev(struct options *o, const char *arg)
{
    o->tap_name = arg;
    if (arg[0] != '\0' && strlen(arg) <= 15 && !strchr(arg, '/'))
        return 0;
    return options_fail(o, EX_USAGE, "--dev: \"%s\" is not a device name of 1 to 15 characters",
                        arg);
}

static int set_ip(struct options *o, const char *arg)
{
    if (o->ip_count == NET_STACK_ADDR_MAX)
        return options_fail(o, EX_USAGE, "--ip: more than %d addresses", NET_STACK_ADDR_MAX);
    if (value_network(arg, &o->ip[o->ip_count]) < 0)
        return options_fail(o, EX_USAGE,
                            "--ip: \"%s\" is not ADDRESS/PREFIX, for instance 10.100.0.20/24", arg);
    o->ip_count++;
    return 0;
}

/* One of each family, or none at all. */
static int set_host_ip(struct options *o, const char *arg)
{
    struct net_stack_addr addr;

    o->host_ip_given = true;
    if (strcmp(arg, "none") == 0)
        return 0;
    if (value_network(arg, &addr) < 0)
        return options_fail(o, EX_USAGE,
                            "--host-ip: \"%s\" is neither ADDRESS/PREFIX, for instance "
                            "10.100.0.10/24, nor none",
                            arg);
    *(addr.addr.family == US_IP6 ? &o->host_ip6 : &o->host_ip) = addr;
    return 0;
}

static int set_gateway(struct options *o, const char *arg)
{
    struct us_addr *gateway = &o->gateways[o->gateway_count];

    if (o->gateway_count == NET_STACK_GATEWAY_MAX)
        return options_fail(o, EX_USAGE, "--gw: more than one of each family");
    if (value_addr(arg, gateway) < 0)
        return options_fail(o, EX_USAGE, "--gw: \"%s\" is not an address, for instance 10.100.0.1",
                            arg);
    if (o->gateway_count > 0 && gateway->family == o->gateways[0].family)
        return options_fail(o, EX_USAGE, "--gw: more than one of each family");
    o->gateway_count++;
    return 0;
}

static int set_mac(struct options *o, const char *arg)
{
    o->mac_given = true;
    if (value_mac(arg, o->mac) == 0)
        return 0;
    return options_fail(
        o, EX_USAGE,
        "--mac: \"%s\" is not the address of one station, for instance 02:00:00:12:34:56", arg);
}

static int set_trace(struct options *o, const char *arg)
{
    o->trace_path = arg;
    return arg[0] != '\0' ? 0 : options_fail(o, EX_USAGE, "--trace: a file name is missing");
}

static int set_fault(struct options *o, const char *arg)
{
    char why[NIC_ERROR_MAX];

    o->fault_given = true;
    if (nic_fault_parse(arg, &o->fault, why) == 0)
        return 0;
    return options_fail(o, EX_USAGE, "--fault: %s", why);
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct option_spec specs[] = {
    {0, "io", "MODE", set_io, 0,
     "where bytes come from: sock, the kernel's sockets; tap, the\n"
     "own TCP/IP stack on a TAP device; auto (default), tap if\n"
     "--dev or --ip is given, else sock"},
    {0, "dev", "NAME", set_dev, 0, "TAP device to create (default: ucached0)"},
    {0, "ip", "ADDR/PREFIX", set_ip, 0,
     "address of the server, IPv4 or IPv6; may be repeated\n"
     "(default: 10.100.0.20/24)"},
    {0, "host-ip", "ADDR/PREFIX", set_host_ip, 0,
     "address of the host's side of the TAP, one of each family,\n"
     "or none\n"
     "(default: 10.100.0.10/24)"},
    {0, "gw", "ADDR", set_gateway, 0,
     "gateway to other networks, one of each family\n(default: none)"},
    {0, "mac", "MAC", set_mac, 0, "hardware address of the server (default: random)"},
    {0, "trace", "FILE", set_trace, 0, "write every frame to FILE in pcap format"},
    {0, "fault", "SPEC", set_fault, 0,
     "do harm to the frames, for tests, for instance\n"
     "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7"},
};

struct option_table options_own(void)
{
    struct option_table table = {specs, sizeof(specs) / sizeof(specs[0])};

    return table;
}
