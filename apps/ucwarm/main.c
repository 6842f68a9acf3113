/* SPDX-License-Identifier: BSD-3-Clause */
/* ucwarm: copies the items of running memcached or ucached servers to others. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "copy.h"

#define EXIT_DIFFERENCES 1
#define EXIT_INTERRUPTED 130

static atomic_bool stop;

/* SA_RESETHAND: a second signal terminates the program. */
static void on_signal(int number)
{
    atomic_store(&stop, true);
}

static void print_count(const char *what, uint64_t count)
{
    if (count > 0)
        printf(", %llu %s", (unsigned long long)count, what);
}

static void print_text(const struct copy *copy, double seconds)
{
    const struct tally *t = &copy->tally;

    printf("%llu of %llu items copied, %.1f MB in %.1f s", (unsigned long long)t->copied,
           (unsigned long long)t->scanned, (double)t->bytes / 1e6, seconds);
    print_count("there already", t->present);
    print_count("on the same server", t->staying);
    print_count("of another server of SRC", t->misplaced);
    print_count("expired or gone", t->gone);
    print_count("too large", t->too_large);
    print_count("refused", t->refused);
    printf("\n");
    if (copy->options->verify && !atomic_load(&stop))
        printf("verified: %llu equal, %llu missing, %llu different\n", (unsigned long long)t->equal,
               (unsigned long long)t->missing, (unsigned long long)t->different);
}

static void print_json(const struct copy *copy, double seconds)
{
    const struct tally *t = &copy->tally;
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {
        {"scanned", t->scanned}, {"copied", t->copied},       {"bytes", t->bytes},
        {"present", t->present}, {"staying", t->staying},     {"misplaced", t->misplaced},
        {"gone", t->gone},       {"too_large", t->too_large}, {"refused", t->refused},
        {"equal", t->equal},     {"missing", t->missing},     {"different", t->different},
    };

    printf("{");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        printf("\"%s\": %llu, ", counts[i].name, (unsigned long long)counts[i].count);
    printf("\"seconds\": %.3f, \"interrupted\": %s}\n", seconds,
           atomic_load(&stop) ? "true" : "false");
}

static int status_of(const struct copy *copy, int rc)
{
    const struct tally *t = &copy->tally;

    if (rc < 0)
        return copy->state_failed ? EX_CANTCREAT : EX_UNAVAILABLE;
    if (atomic_load(&stop))
        return EXIT_INTERRUPTED;
    return t->refused + t->missing + t->different > 0 ? EXIT_DIFFERENCES : 0;
}

static int run(const struct options *options)
{
    static struct copy copy;
    uint64_t begun_ns = pace_clock_ns();
    int rc = copy_open(&copy, options, &stop);

    if (rc == 0) {
        rc = copy_run(&copy);
        if (rc == 0 && options->verify && !atomic_load(&stop))
            rc = copy_verify(&copy);
        (options->json ? print_json : print_text)(&copy,
                                                  (double)(pace_clock_ns() - begun_ns) / 1e9);
    }
    if (copy.refusal[0])
        fprintf(stderr, "ucwarm: refused, first by %s\n", copy.refusal);
    if (rc < 0)
        fprintf(stderr, "ucwarm: %s\n", copy.error);
    copy_close(&copy);
    return status_of(&copy, rc);
}

int main(int argc, char **argv)
{
    static struct options options;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    switch (options_parse(argc, argv, &options)) {
    case CMDLINE_HELP:
        options_print_help(stdout);
        return 0;
    case CMDLINE_VERSION:
        printf("ucwarm %s\n", UCACHED_VERSION);
        return 0;
    case CMDLINE_BAD:
        fprintf(stderr, "ucwarm: %s\nucwarm --help lists what there is\n", options.error);
        return EX_USAGE;
    case CMDLINE_RUN:
        break;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&options);
}
