/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of ucached: memcached's options with memcached's meaning, options of the network
 * link (common/link.h) and a few more. Parsing changes nothing outside of struct options.
 */
#ifndef UCACHED_OPTIONS_H
#define UCACHED_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "cache/cache.h"
#include "common/cmdline.h"
#include "common/cores.h"
#include "common/link.h"

/*
 * memcached ends with 1 for a number out of its range or a file of -Y that cannot be read, and with
 * EX_USAGE for most other mistakes. Scripts depend on it.
 */
#define OPTIONS_EXIT_RANGE 1

#define OPTIONS_ERROR_MAX CMDLINE_ERROR_MAX
#define OPTIONS_LISTEN_MAX 1024
#define OPTIONS_TEXTS_MAX 8192 /* of the texts in all -o together */
#define OPTIONS_THREADS_MAX 256

/*
 * Defaults of --udp-reply and --udp-rate. A reply of 64 KiB is 48 datagrams, which fit into the
 * receive buffer that Linux gives a socket by default (208 KiB with its overhead per packet).
 */
#define OPTIONS_UDP_REPLY_BYTES (64 * 1024)
#define OPTIONS_UDP_BYTES_PER_S (1024 * 1024)

/* Words of --cc and --ecn; the first are the defaults. */
enum options_cc { OPTIONS_CC_CUBIC = 0, OPTIONS_CC_RENO, OPTIONS_CC_DCTCP };
enum options_ecn { OPTIONS_ECN_ACCEPT = 0, OPTIONS_ECN_OFF };
enum options_log_format { OPTIONS_LOG_TEXT = 0, OPTIONS_LOG_JSON };

/* Strings point into argv or into the struct itself, which stays where it is. */
struct options {
    struct cache_settings settings;  /* listen_addr is null or points to `listen` */
    char listen[OPTIONS_LISTEN_MAX]; /* all -l, joined by commas */
    char texts[OPTIONS_TEXTS_MAX];   /* values of words of -o, each with its end */
    size_t texts_len;
    bool tcp_port_given;
    bool tcp_port_any;        /* -p -1: settings.tcp_port is 0 until the kernel chooses one */
    bool udp_port_any;        /* -U -1 */
    uint32_t udp_reply_bytes; /* longest reply to one datagram */
    uint32_t udp_bytes_per_s; /* to one source, beyond what it sent; 0: no limit */
    const char *takeover;     /* the unix socket of --takeover, or null */
    const char *metrics;      /* the address of --metrics, or null */
    struct link_options link; /* resolved after options_parse() */
    struct cores cores;
    enum net_idle idle;
    bool idle_given;
    enum net_threading threading;
    enum options_cc cc;
    bool cc_given;
    enum options_ecn ecn;
    bool ecn_given;
    bool item_size_given;
    bool threads_given;
    bool binding_given;  /* -B */
    unsigned log_format; /* of the choices of --log-format */
    bool license_given;  /* -i, with CMDLINE_VERSION */

    bool daemonize;
    bool keep_privileges; /* -o no_drop_privileges: keeps capabilities and all system calls */
    bool core_dumps;      /* -r */
    bool lock_memory;     /* -k */
    bool huge_pages;      /* -L */
    bool fd_store;        /* --fd-store: items in a memory that systemd keeps */
    const char *user;     /* null: keep the current user */
    const char *pidfile;  /* null: none */
    const char *surplus;  /* the first word after the options, or null */

    char error[OPTIONS_ERROR_MAX]; /* CMDLINE_BAD: names the option and the allowed values */
    char illegal_suboption[80];    /* CMDLINE_BAD: an unknown word of -o, else empty */
    int exit_status;               /* CMDLINE_BAD: what memcached would exit with */
};

/* Parses a command line. Not thread-safe (getopt). The error has no line end. */
enum cmdline_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);
void options_print_license(FILE *to);
void options_print_version(FILE *to);

#endif
