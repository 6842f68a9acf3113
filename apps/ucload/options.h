/* SPDX-License-Identifier: BSD-3-Clause */
/* ucload's command line. */
#ifndef UCLOAD_OPTIONS_H
#define UCLOAD_OPTIONS_H

#include <stdio.h>

#include "client.h"
#include "common/command.h"
#include "common/cores.h"
#include "slo.h"

/* Strings point into argv. */
struct options {
    const char *server; /* null: what goes without saying for --io */
    unsigned threads, connections, idle, depth;
    uint64_t reconnect; /* requests of a connection's life; 0: it stays */
    bool server_cycles;
    double seconds, warmup_s, timeout_s;
    uint64_t requests; /* 0: seconds decide */
    bool seconds_given;
    enum protocol protocol;
    const char *mix;
    uint64_t multi;
    uint64_t keys;
    const char *key_size, *value_size;
    const char *popularity;
    uint64_t exptime_s;
    uint64_t seed;
    bool no_preload, preload_only;
    const char *replay_path;
    bool fill;
    bool verify, poll, json, progress;
    double rate; /* per second; 0: closed loop */
    enum load_arrivals_kind arrivals;
    struct slo slo;
    bool slo_given;
    const char *hdr_path;
    struct cores watch; /* none given: those that we may run on */
    struct link_options link;
    char error[LINK_ERROR_MAX];
};

/* Fills in *options, or options->error with COMMAND_BAD. */
enum command_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);

#endif
