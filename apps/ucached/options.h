/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of ucached: memcached's options with memcached's meaning, and its own for the
 * way that bytes come in. Nothing here has an effect outside of struct options.
 */
#ifndef UCACHED_OPTIONS_H
#define UCACHED_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "cache/cache.h"
#include "common/cores.h"
#include "common/link.h"

#define OPTIONS_ERROR_MAX 400
#define OPTIONS_LISTEN_MAX 1024
#define OPTIONS_THREADS_MAX 256

/* Strings point into argv. */
struct options {
    struct cache_settings settings;  /* listen_addr is null or points to `listen` */
    char listen[OPTIONS_LISTEN_MAX]; /* all -l, joined by commas */
    bool tcp_port_given;
    bool tcp_port_any; /* -p -1: settings.tcp_port is 0 until one has been found */
    bool udp_port_given;
    bool udp_port_any;        /* -U -1 */
    struct link_options link; /* settled after options_parse() */
    struct cores cores;
    enum net_idle idle;
    bool idle_given;
    enum net_threading threading;
    bool item_size_given;
    bool threads_given;
    bool binding_given;
    bool temporary_ttl_given;

    bool daemonize;
    bool core_dumps;     /* -r */
    bool lock_memory;    /* -k */
    bool huge_pages;     /* -L */
    const char *user;    /* null: stay who we are */
    const char *pidfile; /* null: none */
    const char *surplus; /* the first word that is no option, or null */

    char error[OPTIONS_ERROR_MAX]; /* OPTIONS_BAD: names the option, says what is allowed */
    char illegal_suboption[80];    /* OPTIONS_BAD because of -o: the word, else empty */
    int exit_status;               /* OPTIONS_BAD: what memcached would exit with */
};

enum options_outcome { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_LICENSE, OPTIONS_VERSION, OPTIONS_BAD };

/*
 * Reads a command line. The error has no line end. Not for two threads at a time (getopt).
 */
enum options_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);
void options_print_license(FILE *to);
void options_print_version(FILE *to);

#endif
