/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end --io=dpdk: a port of DPDK (nic/dpdk.c). */
#include <string.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"
#include "nic/dpdk.h"

/* A list of words, separated by commas; each is a bit of enum nic_dpdk_without. */
static int set_without(void *settings, const char *arg, char error[LINK_ERROR_MAX])
{
    static const struct {
        const char *word;
        unsigned bit;
    } words[] = {{"csum", NIC_DPDK_WITHOUT_CSUM},
                 {"tso", NIC_DPDK_WITHOUT_TSO},
                 {"sg", NIC_DPDK_WITHOUT_SG},
                 {"zerocopy", NIC_DPDK_WITHOUT_ZERO_COPY},
                 {"rss", NIC_DPDK_WITHOUT_RSS}};
    struct link_options *link = settings;
    char copy[64], *rest = copy, *word;
    size_t i;

    snprintf(copy, sizeof(copy), "%s", arg);
    while ((word = strsep(&rest, ",")) != NULL) {
        for (i = 0; i < U_ARRAY_LEN(words) && strcmp(word, words[i].word) != 0; i++)
            continue;
        if (i == U_ARRAY_LEN(words))
            return cmdline_fail(error, "\"%s\" is not a list of csum, tso, sg, zerocopy, rss", arg);
        link->without |= words[i].bit;
    }
    return 0;
}

static const struct cmdline_option options[] = {
    {.name = "eal",
     .arg = "ARGS",
     .help = "dpdk: arguments for the environment abstraction layer, for\n"
             "instance '--no-huge -m 256 --vdev=net_memif0'",
     .kind = CMDLINE_TEXT,
     .offset = offsetof(struct link_options, eal)},
    {.name = "without",
     .arg = "LIST",
     .set = set_without,
     .help = "dpdk: features of the device that are not used: csum, tso,\n"
             "sg (scatter-gather), zerocopy, rss"},
};

static bool is_virtual(const char *dev)
{
    return strncmp(dev, "net_", 4) == 0;
}

static bool is_implied(const struct link_options *link)
{
    uint64_t port;

    return link->eal || (link->dev && (is_virtual(link->dev) ||
                                       value_number(link->dev, 0, UINT16_MAX, &port) == 0));
}

static int resolve(struct link_options *link, const struct link_defaults *defaults,
                   char error[LINK_ERROR_MAX])
{
    link_default_ip(link, defaults);
    return 0;
}

static struct nic_dpdk_config config_of(const struct link_options *link,
                                        const struct link_params *params)
{
    static const uint8_t none[6];
    bool given = memcmp(link->mac, none, sizeof(none)) != 0;
    struct nic_dpdk_config dpdk = {.dev = link->dev,
                                   .eal = link->eal,
                                   .mtu = link->mtu,
                                   .without = link->without,
                                   .verbose = params->verbose};

    memcpy(dpdk.mac, given || !params->mac ? link->mac : params->mac, sizeof(dpdk.mac));
    return dpdk;
}

static int prepare(const struct link_options *link, const struct link_params *params,
                   char error[LINK_ERROR_MAX])
{
    struct nic_dpdk_config dpdk = config_of(link, params);

    return nic_dpdk_prepare(&dpdk, params->queues, error);
}

static bool close_frees(const struct link_options *link)
{
    struct nic_dpdk_config dpdk = {.dev = link->dev, .eal = link->eal};

    return nic_dpdk_close_frees(&dpdk);
}

static int open_queues(const struct link_options *link, const struct link_params *params,
                       struct nic *queue[], char error[LINK_ERROR_MAX])
{
    struct nic_dpdk_config dpdk = config_of(link, params);

    return nic_dpdk_open(&dpdk, params->queues, queue, error);
}

static void describe(const struct link_options *link, char text[LINK_DESCRIPTION_MAX])
{
    snprintf(text, LINK_DESCRIPTION_MAX, "DPDK %.120s", link->dev ? link->dev : "port");
}

/* Drivers of physical NICs read counters and the link state from /sys. */
static bool reads_files(const struct link_options *link)
{
    return !link->dev || !is_virtual(link->dev);
}

const struct link_backend link_backend_dpdk = {
    .name = "dpdk",
    .help = "own TCP/IP stack on a DPDK port",
    .carries_frames = true,
    .syscalls = LINK_SYSCALLS_DPDK,
    .options = options,
    .option_count = U_ARRAY_LEN(options),
    .is_implied = is_implied,
    .resolve = resolve,
    .prepare = prepare,
    .close_frees = close_frees,
    .open = open_queues,
    .describe = describe,
    .reads_files = reads_files,
};
