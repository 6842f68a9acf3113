/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables that ucached's command line and its help are made of; see common/cmdline.h. */
#ifndef UCACHED_OPTIONS_TABLE_H
#define UCACHED_OPTIONS_TABLE_H

#include "options.h"

/* The help of an option of TLS; builds without it do not list the option. */
#if TLS_IS_BUILT
#define OPTIONS_TLS_HELP(text) text
#else
#define OPTIONS_TLS_HELP(text) NULL
#endif

/* memcached's options. Their settings are a struct options. */
struct cmdline_table options_memcached(struct options *options);

/* Options that memcached does not have, but for those of the link. */
struct cmdline_table options_own(struct options *options);

/*
 * cmdline_option.set of -o: applies a list of words. On an error exit_status is what memcached
 * would end with, and illegal_suboption the word if there is none of that name.
 */
int options_set_extended(void *options, const char *list, char error[OPTIONS_ERROR_MAX]);

void options_print_extended(FILE *to);

#endif
