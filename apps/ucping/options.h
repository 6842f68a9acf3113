/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's command line. */
#ifndef UCPING_OPTIONS_H
#define UCPING_OPTIONS_H

#include <stdio.h>

#include "ucping.h"

enum options_outcome { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_BAD };

/* Fills in *settings, or settings->error with OPTIONS_BAD. Strings point into argv. */
enum options_outcome options_parse(int argc, char **argv, struct settings *settings);

void options_print_help(FILE *to);

#endif
