/* SPDX-License-Identifier: BSD-3-Clause */
/* ucwarm's command line; see options.h. */
#include "options.h"

#include <string.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"
#include "load/ketama.h"

U_STATIC_ASSERT(OPTIONS_SERVERS_MAX <= LOAD_KETAMA_SERVERS_MAX, servers_fit_on_a_ring);

#define TIMEOUT_S 10

static const char *distribution_choice(unsigned index, const char **help)
{
    static const char *const words[] = {
        [DISTRIBUTION_KETAMA] = "ketama", [DISTRIBUTION_PAIR] = "pair"};
    static const char *const helps[] = {
        [DISTRIBUTION_KETAMA] = "by ketama, as libmemcached's weighted ketama and\n"
                                "twemproxy have it (default)",
        [DISTRIBUTION_PAIR] = "from the first SRC to the first DST, and so on",
    };

    if (index >= U_ARRAY_LEN(words))
        return NULL;
    *help = helps[index];
    return words[index];
}

static int set_bandwidth(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    if (value_size(arg, 1, UINT64_MAX / 2, &o->bytes_per_s) == 0)
        return 0;
    return cmdline_fail(error, "\"%s\" is not a number of bytes", arg);
}

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, field)

static const struct cmdline_option specs[] = {
    {'d', "distribution", "WORD", NULL, "which DST gets a key:", CMDLINE_CHOICE, AT(distribution),
     .choice = distribution_choice},
    {'a', "all-keys", NULL, NULL,
     "ketama: also copy keys that clients of SRC look for on another\nSRC: outdated items, or "
     "items distributed in another way",
     CMDLINE_ON, AT(all_keys)},
    {'r', "rate", "N", NULL, "at most N items per second (default: no limit)", CMDLINE_RATIO,
     AT(items_per_s), 0, 0, 1},
    {'b', "bandwidth", "N", set_bandwidth, "at most N bytes of values per second (with k or m)"},
    {'o', "overwrite", NULL, NULL,
     "replace items of DST; default: items that are there stay, as\nthey may be newer", CMDLINE_ON,
     AT(overwrite)},
    {'s', "state", "FILE", NULL,
     "note the progress in FILE; with a FILE of an interrupted copy,\ncontinue it", CMDLINE_TEXT,
     AT(state_path)},
    {'V', "verify", NULL, NULL,
     "after the copy, compare values, flags and times to live; exit\nstatus 1 if one is missing or "
     "differs",
     CMDLINE_ON, AT(verify)},
    {'t', "timeout", "SECONDS", NULL, "give up a server that does not answer (default: 10)",
     CMDLINE_U32, AT(timeout_s), 1, 3600},
    {0, "json", NULL, NULL, "print the result as JSON", CMDLINE_ON, AT(json)},
    {'h', "help", NULL, NULL, "print this", CMDLINE_END, .min = CMDLINE_HELP},
    {0, "version", NULL, NULL, "print the version", CMDLINE_END, .min = CMDLINE_VERSION},
};

void options_print_help(FILE *to)
{
    struct link_options link;
    struct cmdline_table table = link_table(&link);

    fprintf(to,
            "ucwarm: copies the items of running memcached or ucached servers to others\n\n"
            "usage: ucwarm [options] SRC... to DST...\n"
            "       ucwarm [options] SRC DST\n\n"
            "A server is HOST[:PORT], or NAME=HOST[:PORT] if clients know it by another name:\n"
            "ketama places keys by names. Ports are 11211 unless given. Flags and times to live\n"
            "are copied. A server that is a SRC and a DST keeps its items.\n\n");
    cmdline_print_options(to, specs, U_ARRAY_LEN(specs));
    fprintf(to, "\nThe link (kernel sockets, or the own TCP/IP stack):\n");
    cmdline_print_options(to, table.options, table.count);
    fprintf(
        to,
        "\nExit status: 0; 1 if items were refused or --verify found differences; 64 for a wrong\n"
        "command line; 69 if a server does not answer; 73 for the state file; 130 after SIGINT\n"
        "or SIGTERM, which end a copy between two batches and keep its state.\n"
        "\nExamples:\n"
        "  ucwarm old new                       one server to another\n"
        "  ucwarm -r 20000 -s state a b c to d e f   three servers to three, continuable\n"
        "  ucwarm a b c to a b c d              warm d, which has joined a pool\n"
        "  ucwarm --io=tap 10.100.0.10 10.100.0.20   over the own stack\n");
}

/* ---- parsing ----------------------------------------------------------------------------- */

static int add_server(struct options *o, struct server_name *list, unsigned *count,
                      const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    char host[VALUE_HOST_MAX], port[VALUE_PORT_MAX] = "";

    if (*count == OPTIONS_SERVERS_MAX)
        return cmdline_fail(o->error, "more than %d servers", OPTIONS_SERVERS_MAX);
    if (len >= OPTIONS_NAME_MAX)
        return cmdline_fail(o->error, "\"%s\" is too long", word);
    memcpy(list[*count].name, word, len);
    list[*count].name[len] = '\0';
    list[*count].address = equals ? equals + 1 : word;
    if (value_endpoint(list[*count].name, host, port) < 0 ||
        value_endpoint(list[*count].address, host, port) < 0)
        return cmdline_fail(o->error, "\"%s\" is not HOST:PORT or NAME=HOST:PORT", word);
    ++*count;
    return 0;
}

static int take_servers(struct options *o, char **words)
{
    bool to_targets = false;
    unsigned count = 0;

    while (words[count])
        count++;
    if (count == 2 && strcmp(words[0], "to") != 0 && strcmp(words[1], "to") != 0)
        return add_server(o, o->sources, &o->source_count, words[0]) < 0 ||
                       add_server(o, o->targets, &o->target_count, words[1]) < 0
                   ? -1
                   : 0;
    for (; *words; words++) {
        if (strcmp(*words, "to") == 0 && !to_targets)
            to_targets = true;
        else if ((to_targets ? add_server(o, o->targets, &o->target_count, *words)
                             : add_server(o, o->sources, &o->source_count, *words)) < 0)
            return -1;
    }
    if (o->source_count == 0 || o->target_count == 0)
        return cmdline_fail(o->error, "give the servers as SRC... to DST...");
    return 0;
}

static int check(struct options *o)
{
    static const struct link_defaults defaults = {"ucwarm0", "10.100.0.40/24", "10.100.0.10/24"};

    if (link_resolve(&o->link, &defaults, o->error) < 0)
        return -1;
    if (o->link.backend->io_uring)
        return cmdline_fail(o->error, "--io=uring is not for ucwarm; use sock");
    if (o->distribution == DISTRIBUTION_PAIR && o->source_count != o->target_count)
        return cmdline_fail(o->error, "--distribution=pair needs as many DST as SRC, not %u and %u",
                            o->target_count, o->source_count);
    return 0;
}

enum cmdline_outcome options_parse(int argc, char **argv, struct options *o)
{
    struct cmdline cmdline = {.tables = {{specs, U_ARRAY_LEN(specs), o}, link_table(&o->link)},
                              .error = o->error};
    enum cmdline_outcome outcome;
    char **rest;

    memset(o, 0, sizeof(*o));
    o->timeout_s = TIMEOUT_S;
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_RUN && (take_servers(o, rest) < 0 || check(o) < 0))
        return CMDLINE_BAD;
    return outcome;
}
