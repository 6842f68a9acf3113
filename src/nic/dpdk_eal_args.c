/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arguments of EAL.
 *
 * The defaults: no files shared with other processes, and none left behind, so that a killed server
 * can be restarted and several can run side by side; no telemetry socket; no thread per core, since
 * workers are threads of the program; and no PCI scan for a virtual device, since DPDK would take
 * over any NIC that its drivers know.
 */
#include "nic/dpdk_eal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nic/dpdk_pci.h"
#include "nic/error.h"

/* Arguments with which EAL ends the process. */
static const char *const refused[] = {"-h", "--help"};

/* Memory without huge pages is allocated at the start, so it is limited. */
#define NO_HUGE_EXTRA_BYTES (32ull << 20)

static int add_word(struct dpdk_eal_args *args, const char *word, size_t length,
                    char error[NIC_ERROR_MAX])
{
    if (args->argc == DPDK_EAL_ARGS_MAX || length >= sizeof(args->text) - args->used)
        return nic_error_set(error, "--eal: more than %d words or %d characters", DPDK_EAL_ARGS_MAX,
                             DPDK_EAL_TEXT_MAX);
    args->argv[args->argc] = args->text + args->used;
    memcpy(args->argv[args->argc], word, length);
    args->argv[args->argc][length] = '\0';
    args->argc++;
    args->argv[args->argc] = NULL;
    args->used += length + 1;
    return 0;
}

__attribute__((format(printf, 3, 4))) static int add(struct dpdk_eal_args *args,
                                                     char error[NIC_ERROR_MAX], const char *format,
                                                     ...)
{
    char word[1024];
    va_list list;
    int length;

    va_start(list, format);
    length = vsnprintf(word, sizeof(word), format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= sizeof(word))
        return nic_error_set(error, "dpdk: a device name or a list of processors is too long");
    return add_word(args, word, (size_t)length, error);
}

/*
 * Splits at white space, except inside of quotes of both kinds; a backslash escapes one character.
 */
static int split(struct dpdk_eal_args *args, const char *text, char error[NIC_ERROR_MAX])
{
    char word[DPDK_EAL_TEXT_MAX];

    for (;;) {
        size_t length = 0;
        char quote = '\0';

        while (isspace((unsigned char)*text))
            text++;
        if (*text == '\0')
            return 0;
        for (; *text != '\0' && (quote != '\0' || !isspace((unsigned char)*text)); text++) {
            char c = *text;

            if (quote != '\0' ? c == quote : c == '\'' || c == '"') {
                quote = quote != '\0' ? '\0' : c;
                continue;
            }
            if (c == '\\' && quote != '\'' && text[1] != '\0')
                c = *++text;
            if (length < sizeof(word) - 1)
                word[length++] = c;
        }
        if (quote != '\0')
            return nic_error_set(error, "--eal: a quote (%c) is not closed", quote);
        if (add_word(args, word, length, error) < 0)
            return -1;
    }
}

bool dpdk_eal_has(const struct dpdk_eal_args *args, const char *name)
{
    bool is_long = name[1] == '-';
    size_t length = strlen(name);
    int i;

    for (i = 1; i < args->argc; i++) {
        const char *arg = args->argv[i];

        if (strncmp(arg, name, length) == 0 &&
            (!is_long || arg[length] == '\0' || arg[length] == '='))
            return true;
    }
    return false;
}

static bool has_any(const struct dpdk_eal_args *args, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (dpdk_eal_has(args, *names))
            return true;
    }
    return false;
}

static bool wants_virtual(const struct nic_dpdk_config *config, const struct dpdk_eal_args *args)
{
    char address[DPDK_PCI_ADDRESS_MAX];

    if (dpdk_eal_has(args, "--vdev"))
        return true;
    return config->dev != NULL && config->dev[strspn(config->dev, "0123456789")] != '\0' &&
           !dpdk_pci_address(config->dev, address);
}

/* Adds the arguments for memory. Returns 0 or -1. */
static int add_memory(const struct dpdk_eal_facts *facts, bool is_virtual,
                      struct dpdk_eal_args *args, char error[NIC_ERROR_MAX])
{
    static const char *const own_memory[] = {"--no-huge", "--legacy-mem", "--huge-dir",
                                             "-m",        "--socket-mem", NULL};
    static const char *const own_sharing[] = {"--in-memory", "--no-shconf",   "--file-prefix",
                                              "--proc-type", "--huge-unlink", NULL};
    bool no_huge = dpdk_eal_has(args, "--no-huge");

    if (!has_any(args, own_memory) && facts->huge_bytes < facts->need_bytes) {
        no_huge = true;
        if (add(args, error, "--no-huge") < 0 || add(args, error, "-m") < 0 ||
            add(args, error, "%llu",
                (unsigned long long)((facts->need_bytes + NO_HUGE_EXTRA_BYTES) >> 20)) < 0)
            return -1;
    }
    if (has_any(args, own_sharing))
        return 0;
    /* EAL has no --in-memory for memory without huge pages (legacy mode). */
    if (no_huge || dpdk_eal_has(args, "--legacy-mem"))
        return add(args, error, "--no-shconf");
    if (add(args, error, "--in-memory") < 0)
        return -1;
    /* net_virtio_user shares at most eight memory regions, not one per page. */
    return is_virtual && !dpdk_eal_has(args, "--single-file-segments")
               ? add(args, error, "--single-file-segments")
               : 0;
}

static int add_defaults(const struct nic_dpdk_config *config, const struct dpdk_eal_facts *facts,
                        struct dpdk_eal_args *args, char error[NIC_ERROR_MAX])
{
    static const char *const own_cores[] = {"-l", "-c", "--lcores", "-s", "-S", NULL};
    static const char *const own_devices[] = {"-a", "--allow", "-b", "--block", "--no-pci", NULL};
    static const char *const own_telemetry[] = {"--telemetry", "--no-telemetry", NULL};
    bool is_virtual = wants_virtual(config, args);
    char address[DPDK_PCI_ADDRESS_MAX];

    if (!has_any(args, own_cores) && add(args, error, "--lcores=0@(%s)", facts->cpus) < 0)
        return -1;
    if (!has_any(args, own_telemetry) && add(args, error, "--no-telemetry") < 0)
        return -1;
    if (!has_any(args, own_devices)) {
        if (is_virtual && add(args, error, "--no-pci") < 0)
            return -1;
        if (config->dev != NULL && dpdk_pci_address(config->dev, address) &&
            (add(args, error, "-a") < 0 || add(args, error, "%s", config->dev) < 0))
            return -1;
    }
    if (is_virtual && !dpdk_eal_has(args, "--iova-mode") && add(args, error, "--iova-mode=va") < 0)
        return -1;
    return add_memory(facts, is_virtual, args, error);
}

int dpdk_eal_args_make(const struct nic_dpdk_config *config, const struct dpdk_eal_facts *facts,
                       struct dpdk_eal_args *args, char error[NIC_ERROR_MAX])
{
    size_t i;

    args->argc = 0;
    args->used = 0;
    if (add(args, error, "dpdk") < 0)
        return -1;
    if (config->eal != NULL && split(args, config->eal, error) < 0)
        return -1;
    for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (dpdk_eal_has(args, refused[i]))
            return nic_error_set(error,
                                 "--eal: %s is no argument for a server; 'dpdk-testpmd -h' lists "
                                 "what there is",
                                 refused[i]);
    }
    return add_defaults(config, facts, args, error);
}
