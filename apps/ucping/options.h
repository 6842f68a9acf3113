/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's command line. */
#ifndef UCPING_OPTIONS_H
#define UCPING_OPTIONS_H

#include <stdio.h>

#include "common/command.h"
#include "ucping.h"

/* Fills in *settings, or settings->error with COMMAND_BAD. Strings point into argv. */
enum command_outcome options_parse(int argc, char **argv, struct settings *settings);

void options_print_help(FILE *to);

#endif
