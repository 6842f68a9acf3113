/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Back ends: the values of --io. A new one is a file that defines a struct link_backend and a row
 * in link_backends[].
 */
#ifndef COMMON_BACKEND_H
#define COMMON_BACKEND_H

#include "common/link.h"

/* The system calls that a running server makes on this back end (apps/ucached/sandbox.c). */
enum link_syscalls {
    LINK_SYSCALLS_SOCKETS = 0, /* kernel sockets, epoll, io_uring */
    LINK_SYSCALLS_FRAMES,      /* read() and write() of frames */
    LINK_SYSCALLS_XDP,
    LINK_SYSCALLS_DPDK
};

struct link_backend {
    const char *name; /* value of --io */
    const char *help;
    bool carries_frames; /* for the own TCP/IP stack; false: kernel sockets, all below is null */
    bool io_uring;       /* kernel sockets by io_uring */
    enum link_syscalls syscalls;

    /* Options that only this back end has, with offsets in struct link_options. */
    const struct cmdline_option *options;
    size_t option_count;

    /* Whether --io=auto chooses this back end for these options. */
    bool (*is_implied)(const struct link_options *link);

    /* Fills in defaults and checks the options. Returns 0, or -1 with a message. */
    int (*resolve)(struct link_options *link, const struct link_defaults *defaults,
                   char error[LINK_ERROR_MAX]);

    /* As link_prepare(). Null: nothing to do. */
    int (*prepare)(const struct link_options *link, const struct link_params *params,
                   char error[LINK_ERROR_MAX]);

    /* As link_close_frees(). Null: no. */
    bool (*close_frees)(const struct link_options *link);

    /* As link_open(), without --fault and --trace. */
    int (*open)(const struct link_options *link, const struct link_params *params,
                struct nic *queue[], char error[LINK_ERROR_MAX]);

    /* As link_describe(). */
    void (*describe)(const struct link_options *link, char text[LINK_DESCRIPTION_MAX]);

    /* Whether the driver reads files while it runs (counters in /sys). Null: no. */
    bool (*reads_files)(const struct link_options *link);
};

extern const struct link_backend link_backend_tap, link_backend_xdp, link_backend_dpdk;

/*
 * In the order of --io's help. --io=auto takes the last one that is_implied(), else the first.
 */
#define LINK_BACKENDS 5
extern const struct link_backend *const link_backends[LINK_BACKENDS];

/* ---- for back ends ----------------------------------------------------------------------- */

/* Uses the default address if no --ip was given. */
void link_default_ip(struct link_options *link, const struct link_defaults *defaults);

/* Returns 0 if each --gw is in the network of an --ip, else -1 with a message. */
int link_check_gateways(const struct link_options *link, char error[LINK_ERROR_MAX]);

/* Whether an address is in the network of an --ip. */
bool link_is_neighbour(const struct link_options *link, const struct us_addr *addr);

#endif
