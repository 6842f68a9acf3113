/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options that memcached does not have: where bytes come from, which all programs here ask in the
 * same words, and what the threads of the workers do.
 */
#include <string.h>

#include "common/value.h"
#include "options_spec.h"

static int set_cores(struct options *o, const char *arg)
{
    char why[CORES_ERROR_MAX];

    if (cores_parse(arg, &o->cores, why) == 0 && cores_check(&o->cores, why) == 0)
        return 0;
    return options_fail(o, EX_USAGE, "--cores: %s", why);
}

static int set_idle(struct options *o, const char *arg)
{
    static const char *const names[] = {[NET_IDLE_ADAPTIVE] = "adaptive",
                                        [NET_IDLE_POLL] = "poll",
                                        [NET_IDLE_INTERRUPT] = "interrupt"};
    unsigned i;

    o->idle_given = true;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(arg, names[i]) == 0) {
            o->idle = (enum net_idle)i;
            return 0;
        }
    }
    return options_fail(o, EX_USAGE, "--idle: \"%s\" is not one of poll, adaptive, interrupt", arg);
}

static int set_threading(struct options *o, const char *arg)
{
    if (value_threading(arg, &o->threading) == 0)
        return 0;
    return options_fail(o, EX_USAGE, "--threading: \"%s\" is not one of unified, split, merge",
                        arg);
}

static int set_evict(struct options *o, const char *arg)
{
    unsigned i;

    for (i = 0; i < KV_POLICIES; i++) {
        if (strcmp(arg, kv_policy_name((enum kv_policy_kind)i)) == 0) {
            o->settings.evict_policy = (enum kv_policy_kind)i;
            return 0;
        }
    }
    return options_fail(o, EX_USAGE, "--evict: \"%s\" is not one of s3fifo, clock, random", arg);
}

static const struct option_spec specs[] = {
    {0, "evict", "POLICY", set_evict, 0,
     "what goes when the memory is full: s3fifo (default), what\n"
     "was not asked for soon or again; clock, what was not asked\n"
     "for lately; random"},
    {0, "cores", "LIST", set_cores, 0,
     "cores that the threads run on, one each in turn, for\n"
     "instance 0-3,8 (default: as the kernel likes)"},
    {0, "idle", "MODE", set_idle, 0,
     "what a thread of the own TCP/IP stack does without work:\n"
     "poll, look on and never sleep; interrupt, sleep at once;\n"
     "adaptive (default), look on for a moment, then sleep"},
    {0, "threading", "MODEL", set_threading, 0,
     "threads of each worker of the own TCP/IP stack: unified\n"
     "(default), one; split, one for the stack and one for the\n"
     "sessions, on cores of their own; merge, two on one core"},
};

#define SPEC_COUNT (sizeof(specs) / sizeof(specs[0]))

bool options_own(size_t index, struct option_spec *spec)
{
    struct link_option_table table = link_option_table();

    if (index < table.count) {
        const struct link_option *link = &table.options[index];

        *spec = (struct option_spec){.name = link->name, .arg = link->arg, .help = link->help};
        return true;
    }
    index -= table.count;
    if (index >= SPEC_COUNT)
        return false;
    *spec = specs[index];
    return true;
}
