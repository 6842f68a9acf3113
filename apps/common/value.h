/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses values of the command line strictly: the whole text must be the value. Functions return 0,
 * or -1 without a message.
 */
#ifndef COMMON_VALUE_H
#define COMMON_VALUE_H

#include <stdint.h>

#include "net/net.h"

/* A decimal number from min to max: digits only. */
int value_number(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* A size in bytes, with optional suffix k (1024) or m (1024 * 1024) in either case. */
int value_size(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* An octal number up to max: digits from 0 to 7 only. */
int value_octal(const char *text, unsigned max, unsigned *value);

/* A finite decimal number without a sign: "1.25", "2". */
int value_ratio(const char *text, double *value);

/* Parses "10.100.0.20" or "fd00::20". */
int value_addr(const char *text, struct us_addr *addr);

/* "10.100.0.20/24": an address of a host and its network's prefix length, at least 1. */
int value_network(const char *text, struct net_stack_addr *addr);

/* "02:00:00:12:34:56": a unicast address, not all zero. */
int value_mac(const char *text, uint8_t mac[6]);

#define VALUE_HOST_MAX 64
#define VALUE_PORT_MAX 8

/*
 * Splits "host:port", "[fd00::20]:port", "host" or "fd00::20"; without a port, port[] keeps its
 * content.
 */
int value_endpoint(const char *text, char host[VALUE_HOST_MAX], char port[VALUE_PORT_MAX]);

/* The words of --threading with their help, by enum net_threading: a cmdline_choice. */
const char *value_threading_choice(unsigned index, const char **help);

#endif
