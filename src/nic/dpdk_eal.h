/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's environment (EAL): started once, with arguments that suit most machines. */
#ifndef NIC_DPDK_EAL_H
#define NIC_DPDK_EAL_H

#include "nic/dpdk.h"

#define DPDK_EAL_ARGS_MAX 64
#define DPDK_EAL_TEXT_MAX 4096

/* Words of a command line for EAL; the strings lie in `text`. */
struct dpdk_eal_args {
    char *argv[DPDK_EAL_ARGS_MAX + 1]; /* ends with a null */
    int argc;
    size_t used; /* of text */
    char text[DPDK_EAL_TEXT_MAX];
};

/* What the defaults depend on. */
struct dpdk_eal_facts {
    uint64_t huge_bytes; /* free huge pages of all sizes together */
    uint64_t need_bytes; /* of memory for packets */
    const char *cpus;    /* that this process may use, for instance "0-3,8" */
};

/* Whether a device is named by its place on the PCI bus: "17:00.0", "0000:17:00.0" and so on. */
bool dpdk_eal_is_pci(const char *dev);

/* Whether the arguments have this one, as "--name", "--name=..." or "-x...". */
bool dpdk_eal_has(const struct dpdk_eal_args *args, const char *name);

/*
 * Puts the command line together: what the user says (split like a shell would, with quotes), and
 * behind it defaults for what the user leaves open. Returns 0, or -1 with a message.
 */
int dpdk_eal_args_make(const struct nic_dpdk_config *config, const struct dpdk_eal_facts *facts,
                       struct dpdk_eal_args *args, char error[NIC_ERROR_MAX]);

/*
 * Starts EAL unless it runs; `need_bytes` of memory will be asked of it. Returns 0, or -1 with a
 * message. Must be called with all signals blocked, which its threads inherit.
 */
int dpdk_eal_start(const struct nic_dpdk_config *config, uint64_t need_bytes,
                   char error[NIC_ERROR_MAX]);

/* What DPDK's log said first of a failure since the last call, or an empty string. */
const char *dpdk_eal_why(char words[NIC_ERROR_MAX]);

#endif
