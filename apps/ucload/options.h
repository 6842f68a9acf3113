/* SPDX-License-Identifier: BSD-3-Clause */
/* ucload's command line. */
#ifndef UCLOAD_OPTIONS_H
#define UCLOAD_OPTIONS_H

#include <stdio.h>

#include "client.h"
#include "common/cmdline.h"
#include "common/cores.h"
#include "slo.h"

/* Strings point into argv. */
struct options {
    bool udp;
    bool tls, tls_resume;
    const char *ca, *cert, *key; /* files, or null */
    const char *auth;            /* likewise */
    const char *server;          /* never null after options_parse() */
    unsigned threads, connections, idle, depth;
    uint64_t reconnect; /* requests per connection before it is reopened; 0: unlimited */
    bool server_cycles;
    double seconds, warmup_s, timeout_s;
    uint64_t requests; /* 0: no limit */
    bool seconds_given;
    enum protocol protocol;
    const char *mix;
    uint32_t multi; /* keys per get */
    uint64_t keys;
    const char *key_size, *value_size;
    const char *popularity;
    uint32_t exptime_s;
    uint64_t seed;
    bool no_preload, preload_only;
    const char *replay_path;
    bool fill;
    bool verify, poll, json, progress;
    double rate; /* requests per second; 0: closed loop */
    enum load_arrivals_kind arrivals;
    struct slo slo;
    bool slo_given;
    const char *hdr_path;
    const char *scan_path; /* --scan, or null */
    const char *agents;    /* HOST:PORT,..., or null */
    const char *agent;     /* HOST:PORT to listen at, or null */
    int argc;              /* the command line, for agents */
    char **argv;
    struct cores watch; /* empty: the first cores that this process may use */
    struct link_options link;
    char error[LINK_ERROR_MAX];
};

/* Fills in *options, or options->error with CMDLINE_BAD. */
enum cmdline_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);

#endif
