/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces sock_uring.c in a build without liburing. */
#include <stdio.h>

#include "net/sock_worker.h"

const struct net_sock_io net_sock_uring;

int net_sock_uring_check(char error[NET_ERROR_MAX])
{
    snprintf(error, NET_ERROR_MAX,
             "no io_uring in this build: install liburing-dev and build again (Linux, meson option "
             "'uring')");
    return -1;
}
