/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts EAL: captures its log, restores the caller's affinity and standard streams, and turns
 * failures into messages that say what to do.
 */
#define _GNU_SOURCE /* CPU_SET, fopencookie, program_invocation_short_name */

#include "nic/dpdk_eal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "base/base.h"
#include "nic/error.h"

#define HUGE_PATH "/sys/kernel/mm/hugepages"
#define LOG_LINE_MAX 200

/* ---- the log ----------------------------------------------------------------------------- */

/*
 * DPDK reports the reason for a failure only in its log. The first line that is not informational
 * is kept for the caller's message; later lines describe consequences. DPDK's threads log too.
 */
static struct {
    pthread_mutex_t lock;
    bool verbose;
    char line[LOG_LINE_MAX]; /* the incomplete line */
    size_t line_bytes;
    char first[LOG_LINE_MAX];
} eal_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Lines that are logged also on success, and lines that only repeat that something failed. */
static bool is_noise(const char *line)
{
    static const char *const phrases[] = {
        "Detected ",     "Selected IOVA",          "Probe PCI driver",       "VFIO support",
        "Unregistering", "Invalid 'command line'", "Physical addresses are", "socket created",
        "rt-signal",     "No Rx trigger",          "register mp action"};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(phrases); i++) {
        if (strstr(line, phrases[i]) != NULL)
            return true;
    }
    return line[0] == '\0';
}

static void log_line_end(void)
{
    eal_log.line[eal_log.line_bytes] = '\0';
    eal_log.line_bytes = 0;
    if (eal_log.first[0] == '\0' && !is_noise(eal_log.line))
        memcpy(eal_log.first, eal_log.line, sizeof(eal_log.first));
    if (eal_log.verbose)
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, eal_log.line);
}

static ssize_t log_write(void *cookie, const char *bytes, size_t n)
{
    size_t i;

    pthread_mutex_lock(&eal_log.lock);
    for (i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            log_line_end();
        else if (eal_log.line_bytes < sizeof(eal_log.line) - 1)
            eal_log.line[eal_log.line_bytes++] = bytes[i];
    }
    pthread_mutex_unlock(&eal_log.lock);
    return (ssize_t)n;
}

const char *dpdk_eal_why(char words[NIC_ERROR_MAX])
{
    pthread_mutex_lock(&eal_log.lock);
    snprintf(words, NIC_ERROR_MAX, "%s", eal_log.first);
    eal_log.first[0] = '\0';
    pthread_mutex_unlock(&eal_log.lock);
    return words;
}

/* Never closed: DPDK's threads may log until the process ends. */
static int catch_log(bool verbose)
{
    static const cookie_io_functions_t functions = {.write = log_write};
    FILE *stream;

    eal_log.verbose = verbose;
    stream = fopencookie(NULL, "w", functions);
    if (stream == NULL || setvbuf(stream, NULL, _IOLBF, 512) != 0)
        return -1;
    return rte_openlog_stream(stream);
}

/* ---- the machine ------------------------------------------------------------------------- */

static uint64_t read_number(const char *path)
{
    unsigned long long value = 0;
    FILE *file = fopen(path, "re");

    if (file != NULL) {
        if (fscanf(file, "%llu", &value) != 1)
            value = 0;
        fclose(file);
    }
    return value;
}

/* Bytes in the huge pages of all sizes that `file` counts: "free_hugepages" or "nr_hugepages". */
static uint64_t huge_bytes(const char *file)
{
    DIR *dir = opendir(HUGE_PATH);
    uint64_t bytes = 0;
    struct dirent *entry;
    char path[512];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        unsigned long long kib;

        if (sscanf(entry->d_name, "hugepages-%llukB", &kib) != 1)
            continue;
        snprintf(path, sizeof(path), HUGE_PATH "/%s/%s", entry->d_name, file);
        bytes += read_number(path) * kib * 1024;
    }
    if (dir != NULL)
        closedir(dir);
    return bytes;
}

bool dpdk_eal_waits_for_memory(uint64_t need_bytes)
{
    return huge_bytes("free_hugepages") < need_bytes && huge_bytes("nr_hugepages") >= need_bytes;
}

/* Writes a set as "0-3,8". Returns -1 if it does not fit. */
static int cpus_text(const cpu_set_t *set, char *text, size_t bytes)
{
    size_t used = 0;
    int cpu, last;

    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, set))
            continue;
        for (last = cpu; last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set); last++)
            continue;
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%d-%d", used > 0 ? "," : "", cpu, last);
        if (used >= bytes)
            return -1;
        cpu = last;
    }
    return 0;
}

/* ---- starting ---------------------------------------------------------------------------- */

/* Uses getopt()'s message about a wrong argument, unless the log has a line. */
static void keep_getopt_message(int fd)
{
    char text[4096];
    ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    const char *message;

    text[bytes > 0 ? bytes : 0] = '\0';
    message = strstr(text, "dpdk: ");
    pthread_mutex_lock(&eal_log.lock);
    if (eal_log.first[0] == '\0' && message != NULL)
        snprintf(eal_log.first, sizeof(eal_log.first), "%.*s", (int)strcspn(message, "\n"),
                 message);
    pthread_mutex_unlock(&eal_log.lock);
}

/* Redirects a standard stream to `fd`. Returns a descriptor for restore(). */
static int divert(int stream_fd, int fd)
{
    int saved_fd = fcntl(stream_fd, F_DUPFD_CLOEXEC, 3);

    if (saved_fd >= 0)
        dup2(fd, stream_fd);
    return saved_fd;
}

static void restore(int stream_fd, int saved_fd)
{
    if (saved_fd >= 0) {
        dup2(saved_fd, stream_fd);
        close(saved_fd);
    }
}

/*
 * EAL prints its usage to stdout when an argument is wrong, and repeats error lines of its log on
 * stderr.
 */
static int init_quietly(struct dpdk_eal_args *args)
{
    int aside_fd = memfd_create("dpdk", MFD_CLOEXEC);
    int rc, saved_out = -1, saved_err = -1;

    fflush(stdout);
    if (aside_fd >= 0 && !eal_log.verbose) {
        saved_err = divert(STDERR_FILENO, aside_fd);
        saved_out = divert(STDOUT_FILENO, aside_fd);
    }
    opterr = 1; /* getopt() names the wrong argument */
    rc = rte_eal_init(args->argc, args->argv);
    fflush(stdout);
    restore(STDOUT_FILENO, saved_out);
    restore(STDERR_FILENO, saved_err);
    if (aside_fd >= 0) {
        if (rc < 0)
            keep_getopt_message(aside_fd);
        close(aside_fd);
    }
    return rc;
}

static void explain(int number, char error[NIC_ERROR_MAX])
{
    char words[NIC_ERROR_MAX];
    const char *advice;

    dpdk_eal_why(words);
    if (number == ENOMEM || strstr(words, "hugepage") != NULL)
        advice = "reserve more huge pages, for instance: sysctl vm.nr_hugepages=256";
    else if (number == EINVAL)
        advice = "check --eal and --dev";
    else if (number == EACCES || number == EPERM || geteuid() != 0)
        advice = "needs root, or access to its devices and huge pages";
    else
        advice = "-v shows DPDK's log";
    nic_error_set(error, "DPDK does not start: %.140s (%s)",
                  words[0] != '\0' ? words : rte_strerror(number), advice);
}

static void print_no_huge_pages(const struct dpdk_eal_facts *facts)
{
    fprintf(stderr,
            "%s: note: %llu MB of huge pages are free, %llu MB are needed: DPDK works without, "
            "which is slower; to have them: sysctl vm.nr_hugepages=%llu\n",
            program_invocation_short_name, (unsigned long long)(facts->huge_bytes >> 20),
            (unsigned long long)(facts->need_bytes >> 20),
            (unsigned long long)(facts->need_bytes >> 20) / 2 + 16);
}

int dpdk_eal_start(const struct nic_dpdk_config *config, uint64_t need_bytes,
                   char error[NIC_ERROR_MAX])
{
    static bool running;
    static struct dpdk_eal_args args; /* EAL keeps pointers into it */
    struct dpdk_eal_facts facts = {.huge_bytes = huge_bytes("free_hugepages"),
                                   .need_bytes = need_bytes};
    char cpus[512], words[NIC_ERROR_MAX];
    cpu_set_t affinity;
    bool given_no_huge = config->eal != NULL && strstr(config->eal, "--no-huge") != NULL;

    if (running)
        return 0;
    if (sched_getaffinity(0, sizeof(affinity), &affinity) < 0 ||
        cpus_text(&affinity, cpus, sizeof(cpus)) < 0)
        return nic_error_set(error, "dpdk: cannot read the CPU affinity of this process");
    facts.cpus = cpus;
    if (dpdk_eal_args_make(config, &facts, &args, error) < 0)
        return -1;
    if (catch_log(config->verbose) < 0)
        return nic_error_set(error, "dpdk: out of memory");
    if (!given_no_huge && dpdk_eal_has(&args, "--no-huge"))
        print_no_huge_pages(&facts);
    if (init_quietly(&args) < 0) {
        explain(rte_errno, error);
        return -1;
    }
    /* EAL registers the calling thread as lcore 0 and pins it. */
    sched_setaffinity(0, sizeof(affinity), &affinity);
    running = true;
    dpdk_eal_why(words);
    return 0;
}
