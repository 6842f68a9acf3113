/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's environment abstraction layer (EAL): builds its arguments and starts it once. */
#ifndef NIC_DPDK_EAL_H
#define NIC_DPDK_EAL_H

#include "nic/dpdk.h"

#define DPDK_EAL_ARGS_MAX 64
#define DPDK_EAL_TEXT_MAX 4096

/* The arguments of EAL; the strings are in `text`. */
struct dpdk_eal_args {
    char *argv[DPDK_EAL_ARGS_MAX + 1]; /* ends with a null */
    int argc;
    size_t used; /* of text */
    char text[DPDK_EAL_TEXT_MAX];
};

/* Facts about the machine that the defaults depend on. */
struct dpdk_eal_facts {
    uint64_t huge_bytes; /* in free huge pages of all sizes */
    uint64_t need_bytes; /* for packets */
    const char *cpus;    /* allowed for this process, for instance "0-3,8" */
};

/* Whether the arguments contain this one, as "--name", "--name=..." or "-x...". */
bool dpdk_eal_has(const struct dpdk_eal_args *args, const char *name);

/*
 * Builds the arguments: the user's (split like a shell does, with quotes), then defaults for what
 * the user did not set. Returns 0, or -1 with a message.
 */
int dpdk_eal_args_make(const struct nic_dpdk_config *config, const struct dpdk_eal_facts *facts,
                       struct dpdk_eal_args *args, char error[NIC_ERROR_MAX]);

/*
 * Starts EAL unless it is running; `need_bytes` of memory will be allocated. Returns 0, or -1 with
 * a message. All signals must be blocked: EAL's threads inherit the mask.
 */
int dpdk_eal_start(const struct nic_dpdk_config *config, uint64_t need_bytes,
                   char error[NIC_ERROR_MAX]);

/* Whether enough huge pages for so many bytes are reserved, but too few of them are free. */
bool dpdk_eal_waits_for_memory(uint64_t need_bytes);

/*
 * Copies the first error line of DPDK's log since the last call, or an empty string, and clears it.
 * Returns words.
 */
const char *dpdk_eal_why(char words[NIC_ERROR_MAX]);

#endif
