/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops capabilities of all threads; see privileges.h.
 *
 * Capabilities belong to threads, and the engine and DPDK have started threads by then, possibly
 * inside of a shared library. Each thread is sent SIGSYS, whose handler changes the thread that it
 * runs on; /proc shows when it has.
 */
#define _GNU_SOURCE /* syscall(), SYS_tgkill */
#include "privileges.h"
#include "net/log.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CAPABILITIES_MAX 64

/* Limit of the time for handling the signal: a thread may have to wait for a CPU. */
#define PAUSE_NS 1000000
#define PAUSES_MAX 10000

/* ---- the calling thread -------------------------------------------------------------------- */

static int set_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    memset(data, 0, sizeof(data));
    data[0].effective = data[0].permitted = (uint32_t)kept;
    data[1].effective = data[1].permitted = (uint32_t)(kept >> 32);
    return (int)syscall(SYS_capset, &header, data);
}

static uint64_t permitted(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return 0;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* Prevents started programs from gaining privileges. Without CAP_SETPCAP the bounding set stays. */
static void limit(void)
{
    int number;

    for (number = 0; number < CAPABILITIES_MAX; number++) {
        if (prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1)
            (void)prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
    }
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void privileges_drop_thread(void)
{
    (void)set_capabilities(0); /* dropping is always allowed */
}

/* ---- other threads ------------------------------------------------------------------------- */

struct state {
    uint64_t inheritable;
    uint64_t permitted;
    uint64_t bounding;
    bool no_new_privs;
};

/* Returns false if the thread has ended. */
static bool read_state(const char *thread, struct state *state)
{
    char path[64], line[256];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", thread);
    file = fopen(path, "re");
    if (!file)
        return false;
    memset(state, 0, sizeof(*state));
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "CapInh:", 7) == 0)
            state->inheritable = strtoull(line + 7, NULL, 16);
        else if (strncmp(line, "CapPrm:", 7) == 0)
            state->permitted = strtoull(line + 7, NULL, 16);
        else if (strncmp(line, "CapBnd:", 7) == 0)
            state->bounding = strtoull(line + 7, NULL, 16);
        else if (strncmp(line, "NoNewPrivs:", 11) == 0)
            state->no_new_privs = strtoul(line + 11, NULL, 10) == 1;
    }
    fclose(file);
    return true;
}

struct step {
    void (*apply)(void);
    bool (*is_done)(const struct state *state, const struct state *own);
};

static bool is_limited(const struct state *state, const struct state *own)
{
    return state->no_new_privs && state->bounding == own->bounding;
}

static bool has_none(const struct state *state, const struct state *own)
{
    (void)own;
    return state->permitted == 0 && state->inheritable == 0;
}

static const struct step limit_step = {limit, is_limited};
static const struct step drop_step = {privileges_drop_thread, has_none};

static const struct step *volatile current_step;

static void on_signal(int number)
{
    int saved_errno = errno;

    (void)number;
    current_step->apply();
    errno = saved_errno;
}

/* Signals each thread that has not completed the step. Returns how many, or -1. */
static int signal_threads(const struct step *step)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    struct state own, state;
    char self[24];
    int sent = 0;

    snprintf(self, sizeof(self), "%ld", (long)syscall(SYS_gettid));
    if (!threads || !read_state(self, &own)) {
        if (threads)
            closedir(threads);
        return -1;
    }
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, self) == 0 ||
            !read_state(entry->d_name, &state) || step->is_done(&state, &own))
            continue;
        (void)syscall(SYS_tgkill, getpid(), strtol(entry->d_name, NULL, 10), SIGSYS);
        sent++;
    }
    closedir(threads);
    return sent;
}

/* Runs the step in all other threads. Returns 0 or -1. */
static int in_other_threads(const struct step *step)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    unsigned pauses = 0;
    int left;

    current_step = step;
    sigaction(SIGSYS, &action, NULL);
    while ((left = signal_threads(step)) > 0 && pauses++ < PAUSES_MAX)
        nanosleep(&pause, NULL);
    /* Ignoring SIGSYS discards pending signals, which would end the process by default. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGSYS, &action, NULL);
    action.sa_handler = SIG_DFL;
    sigaction(SIGSYS, &action, NULL);
    return left == 0 ? 0 : -1;
}

/* ---- all ----------------------------------------------------------------------------------- */

static int failed(const char *why)
{
    net_log_error("ucached: cannot drop capabilities: %s; start without root, or with "
                  "-o no_drop_privileges to keep them",
                  why);
    return -1;
}

int privileges_drop_others(void)
{
    return in_other_threads(&drop_step);
}

int privileges_drop(const struct daemon_user *user, uint64_t kept)
{
    static const char no_answer[] = "a thread does not handle the signal, or /proc is not mounted";
    uint64_t had = permitted();

    /* setuid() clears the permitted capabilities unless KEEPCAPS is set. */
    (void)prctl(PR_SET_KEEPCAPS, kept != 0, 0, 0, 0);
    limit();
    if (in_other_threads(&limit_step) < 0 && had != 0)
        return failed(no_answer);
    if (daemon_user_become(user) < 0)
        return -1;
    if (had != 0 && in_other_threads(&drop_step) < 0)
        return failed(no_answer);
    if (set_capabilities(had & kept) < 0)
        return failed(strerror(errno));
    (void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    return 0;
}
