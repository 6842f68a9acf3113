/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's command line. */
#ifndef UCPING_OPTIONS_H
#define UCPING_OPTIONS_H

#include <stdio.h>

#include "common/cmdline.h"
#include "ping.h"

/* Fills in *settings, or settings->error with CMDLINE_BAD. Strings point into argv. */
enum cmdline_outcome options_parse(int argc, char **argv, struct settings *settings);

void options_print_help(FILE *to);

#endif
