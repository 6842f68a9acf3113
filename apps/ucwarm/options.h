/* SPDX-License-Identifier: BSD-3-Clause */
/* ucwarm's command line. */
#ifndef UCWARM_OPTIONS_H
#define UCWARM_OPTIONS_H

#include <stdio.h>

#include "common/cmdline.h"
#include "common/link.h"

#define OPTIONS_SERVERS_MAX 64 /* LOAD_KETAMA_SERVERS_MAX */
#define OPTIONS_NAME_MAX 160

enum distribution { DISTRIBUTION_KETAMA, DISTRIBUTION_PAIR };

/* "ADDRESS", or "NAME=ADDRESS" if clients know the server by another name. */
struct server_name {
    char name[OPTIONS_NAME_MAX]; /* as clients write it: HOST or HOST:PORT */
    const char *address;         /* points into argv */
};

struct options {
    struct server_name sources[OPTIONS_SERVERS_MAX];
    struct server_name targets[OPTIONS_SERVERS_MAX];
    unsigned source_count, target_count;
    enum distribution distribution;
    double items_per_s; /* 0: no limit */
    uint64_t bytes_per_s;
    uint32_t timeout_s;
    const char *state_path; /* null: none */
    bool all_keys;
    bool overwrite;
    bool verify;
    bool json;
    struct link_options link; /* resolved after options_parse() */
    char error[CMDLINE_ERROR_MAX];
};

/* Fills in *options, or options->error with CMDLINE_BAD. */
enum cmdline_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);

#endif
