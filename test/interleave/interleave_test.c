/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explores the scenarios.
 *
 *   interleave_test [--seconds=N] [NAME...]   all, or those whose name begins so; N of each
 *   interleave_test --replay=NAME:CHOICES     one run again, as a failure prints it
 *   interleave_test --list
 *
 * Ends with 0 if nothing was found, with 3 if something was, which is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios.h"

#define SECONDS 0.7

static bool is_asked_for(const char *name, int count, char **names)
{
    bool any = false;
    for (int i = 1; i < count; i++) {
        if (names[i][0] == '-')
            continue;
        any = true;
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    }
    return !any;
}

/* How many scenarios were asked for. */
static unsigned explore_all(const struct il_scenario *scenarios, unsigned count, int argc,
                            char **argv, const struct il_options *options)
{
    unsigned explored = 0;
    for (unsigned i = 0; i < count; i++) {
        if (is_asked_for(scenarios[i].name, argc, argv)) {
            il_explore(&scenarios[i], options);
            explored++;
        }
    }
    return explored;
}

/* The run of --replay=NAME:CHOICES, if the scenario is among these. */
static void replay(const struct il_scenario *scenarios, unsigned count, const char *text)
{
    size_t len = strcspn(text, ":");
    struct il_options options = {.replay = text[len] ? text + len + 1 : ""};
    for (unsigned i = 0; i < count; i++)
        if (strlen(scenarios[i].name) == len && strncmp(scenarios[i].name, text, len) == 0)
            il_explore(&scenarios[i], &options);
}

static void list(const struct il_scenario *scenarios, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        printf("%-24s %s\n", scenarios[i].name, scenarios[i].what);
}

int main(int argc, char **argv)
{
    struct il_options options = {.seconds = SECONDS};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--replay=", 9) == 0) {
            replay(grace_scenarios, grace_scenario_count, argv[i] + 9);
            replay(segment_scenarios, segment_scenario_count, argv[i] + 9);
            replay(index_scenarios, index_scenario_count, argv[i] + 9);
            replay(grow_scenarios, grow_scenario_count, argv[i] + 9);
            replay(flush_scenarios, flush_scenario_count, argv[i] + 9);
            replay(key_scenarios, key_scenario_count, argv[i] + 9);
            fprintf(stderr, "no such scenario\n");
            return 1;
        } else if (strncmp(argv[i], "--seconds=", 10) == 0) {
            options.seconds = strtod(argv[i] + 10, NULL);
        } else if (strcmp(argv[i], "--list") == 0) {
            list(grace_scenarios, grace_scenario_count);
            list(segment_scenarios, segment_scenario_count);
            list(index_scenarios, index_scenario_count);
            list(grow_scenarios, grow_scenario_count);
            list(flush_scenarios, flush_scenario_count);
            list(key_scenarios, key_scenario_count);
            return 0;
        }
    }
    unsigned explored = explore_all(grace_scenarios, grace_scenario_count, argc, argv, &options);
    explored += explore_all(segment_scenarios, segment_scenario_count, argc, argv, &options);
    explored += explore_all(index_scenarios, index_scenario_count, argc, argv, &options);
    explored += explore_all(grow_scenarios, grow_scenario_count, argc, argv, &options);
    explored += explore_all(flush_scenarios, flush_scenario_count, argc, argv, &options);
    explored += explore_all(key_scenarios, key_scenario_count, argc, argv, &options);
    if (explored == 0)
        fprintf(stderr, "no such scenario: see --list\n");
    return explored == 0;
}
