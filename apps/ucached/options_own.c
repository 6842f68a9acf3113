/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that memcached does not have: eviction policy, threads, limits of UDP replies. */
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "options_table.h"

static int set_cores(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    return cores_parse(arg, &o->cores, error) == 0 ? cores_check(&o->cores, error) : -1;
}

static const char *policy_choice(unsigned index, const char **help)
{
    if (index >= KV_POLICIES)
        return NULL;
    *help = kv_policy_summary((enum kv_policy_kind)index);
    return kv_policy_name((enum kv_policy_kind)index);
}

static const char *idle_choice(unsigned index, const char **help)
{
    static const char *const words[][2] = {
        [NET_IDLE_ADAPTIVE] = {"adaptive", "busy-poll for a while, then sleep (default)"},
        [NET_IDLE_POLL] = {"poll", "busy-poll, never sleep"},
        [NET_IDLE_INTERRUPT] = {"interrupt", "sleep whenever there is no work"},
    };

    if (index >= U_ARRAY_LEN(words))
        return NULL;
    *help = words[index][1];
    return words[index][0];
}

static const char *cc_choice(unsigned index, const char **help)
{
    static const char *const words[][2] = {
        [OPTIONS_CC_CUBIC] = {"cubic", "RFC 9438 (default)"},
        [OPTIONS_CC_RENO] = {"reno", "RFC 5681"},
        [OPTIONS_CC_DCTCP] = {"dctcp", "RFC 8257: where all hosts and switches mark and react"},
    };

    if (index >= U_ARRAY_LEN(words))
        return NULL;
    *help = words[index][1];
    return words[index][0];
}

static const char *ecn_choice(unsigned index, const char **help)
{
    static const char *const words[][2] = {
        [OPTIONS_ECN_ACCEPT] = {"accept", "agree if the client requests it (default)"},
        [OPTIONS_ECN_OFF] = {"off", "never agree"},
    };

    if (index >= U_ARRAY_LEN(words))
        return NULL;
    *help = words[index][1];
    return words[index][0];
}

static const char *log_format_choice(unsigned index, const char **help)
{
    static const char *const words[] = {[OPTIONS_LOG_TEXT] = "text", [OPTIONS_LOG_JSON] = "json"};

    *help = NULL;
    return index < U_ARRAY_LEN(words) ? words[index] : NULL;
}

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, field)

static const struct cmdline_option rows[] = {
    {0, "evict", "POLICY", NULL, "which items to evict when memory is full:", CMDLINE_CHOICE,
     AT(settings.evict_policy), .choice = policy_choice},
    {0, "cores", "LIST", set_cores,
     "cores to pin the threads to, in turn, for instance 0-3,8\n"
     "(default: no pinning)"},
    {0, "idle", "MODE", NULL, "what a thread of the own TCP/IP stack does without work:",
     CMDLINE_CHOICE, AT(idle), .choice = idle_choice, .given = AT(idle_given)},
    {0, "threading", "MODEL", NULL, "threads per worker of the own TCP/IP stack:", CMDLINE_CHOICE,
     AT(threading), .choice = value_threading_choice},
    {0, "cc", "ALGORITHM", NULL, "congestion control of the own TCP/IP stack:", CMDLINE_CHOICE,
     AT(cc), .choice = cc_choice, .given = AT(cc_given)},
    {0, "ecn", "MODE", NULL, "explicit congestion notification of the own TCP/IP stack:",
     CMDLINE_CHOICE, AT(ecn), .choice = ecn_choice, .given = AT(ecn_given)},
    {0, "udp-reply", "SIZE", NULL, "longest reply to one UDP datagram, 1k to 1088k (default: 64k)",
     CMDLINE_SIZE, AT(udp_reply_bytes), 1024, NET_UDP_REPLY_BYTES_MAX},
    {0, "udp-rate", "SIZE", NULL,
     "bytes per second of UDP replies to one source address beyond\n"
     "the bytes that it sent; 0: no limit (default: 1m)",
     CMDLINE_SIZE, AT(udp_bytes_per_s), 0, 1024u * 1024 * 1024},
    {0, "fd-store", NULL, NULL,
     "keep the items in memory that systemd holds during a restart\n"
     "(FileDescriptorStoreMax=1), without a file",
     CMDLINE_ON, AT(fd_store)},
    {0, "takeover", "PATH", NULL,
     "take over listening sockets, connections and items of the server\n"
     "that has the unix socket PATH, if there is one; and listen there",
     CMDLINE_TEXT, AT(takeover)},
    {0, "metrics", "ADDR:PORT", NULL,
     "serve /metrics (OpenMetrics) and a page with plots over HTTP on\n"
     "the kernel's network; no access control",
     CMDLINE_TEXT, AT(metrics)},
    {0, "log-format", "FORMAT", NULL,
     "lines on stderr: text (default), or json: one object each with\n"
     "time, level and message",
     CMDLINE_CHOICE, AT(log_format), .choice = log_format_choice},
    {0, "no-fast-path", NULL, NULL,
     "disable the fast paths of TCP and of GET and SET\n(debugging, comparison)", CMDLINE_ON,
     AT(settings.fast_path_off)},
};

struct cmdline_table options_own(struct options *options)
{
    return (struct cmdline_table){rows, U_ARRAY_LEN(rows), options};
}
