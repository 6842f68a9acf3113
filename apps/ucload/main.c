/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucload: a load generator for memcached's protocols, through kernel sockets or the own TCP/IP
 * stack.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "agent.h"
#include "report.h"

#define EXIT_WRONG 1

/* Retries of a rate that missed the goal while the machine had hiccups. */
#define SECOND_TRIES 2

/* Duration of the closed loop that determines the first rate of --slo. */
#define PROBE_SECONDS 0.3

static struct run run;
static struct result stored, result;

static void on_signal(int number)
{
    atomic_store(&run.group.stop, true);
}

/* Whether a rate meets the goal: 1 or 0, or -1. */
static int try_rate(const struct options *o, double rate, unsigned number, struct result *tried)
{
    unsigned again;
    bool kept = false;

    for (again = 0; again <= SECOND_TRIES && !kept && !atomic_load(&run.group.stop); again++) {
        if (run_measure(&run, o, rate, number + again * SLO_TRIES_MAX, NULL, tried) < 0)
            return -1;
        kept = tried->tally.requests > 0 && slo_value(&o->slo, &tried->latency) <= o->slo.limit_ns;
        if (tried->hiccups.count == 0)
            break;
    }
    return kept;
}

/* Searches for the highest rate; the result is that of the last rate that met the goal. */
static int search(const struct options *o, struct report *report)
{
    static struct result tried;
    struct options probe = *o;
    struct slo_search s;
    double rate;
    int kept;

    probe.seconds = PROBE_SECONDS;
    probe.warmup_s = 0;
    if (run_measure(&run, &probe, 0, 0, NULL, &result) < 0)
        return -1;
    slo_start(&s, (double)result.tally.requests / result.seconds / 4);
    while ((rate = slo_next(&s)) > 0 && !atomic_load(&run.group.stop)) {
        kept = try_rate(o, rate, s.tries + 1, &tried);
        if (kept < 0)
            return -1;
        if (atomic_load(&run.group.stop))
            break; /* an interrupted measurement has no meaning */
        if (o->progress)
            fprintf(stderr, "%12.0f requests/s: %.1f us, %s\n", rate,
                    (double)slo_value(&o->slo, &tried.latency) / 1e3, kept ? "kept" : "missed");
        slo_learn(&s, rate, kept == 1);
        if (kept || s.kept <= 0)
            result = tried;
    }
    report->searched = true;
    report->slo_rate = s.kept;
    report->slo_tries = s.tries;
    return 0;
}

/* Measures the rates of --scan; the result is that of the last one. */
static int scan(const struct options *o, struct report *report)
{
    double peak;

    if (run_measure(&run, o, 0, 0, NULL, &result) < 0)
        return -1;
    peak = (double)result.tally.requests / result.seconds;
    for (unsigned i = 1; i <= SCAN_POINTS && peak > 0 && !atomic_load(&run.group.stop); i++) {
        if (run_measure(&run, o, peak * i / SCAN_STEPS_TO_PEAK, i, NULL, &result) < 0)
            return -1;
        if (!atomic_load(&run.group.stop))
            scan_add(&report->scan, &result);
    }
    return 0;
}

static double epoch_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Of several measurements the log has one interval, that of the result. */
static void log_whole(struct series *series, const struct result *whole)
{
    series->progress = false;
    series_begin(series, epoch_seconds() - whole->seconds);
    series_add(series, 0, whole->seconds, &whole->latency);
}

/* Runs one measurement and reads the CPU cycles of the server and of this process. */
static int measure_once(const struct options *o, struct report *report)
{
    uint64_t before = 0, after = 0, answered, own;
    int rc;

    if (o->server_cycles && run_server_cycles(&run, &before) < 0)
        return -1;
    answered = run_answered(&run);
    own = run_cycles(&run);
    series_begin(&report->series, epoch_seconds() + o->warmup_s);
    rc = run_measure(&run, o, o->rate, 0, &report->series, &result);
    answered = run_answered(&run) - answered;
    if (answered > 0)
        report->own_cycles = (double)(run_cycles(&run) - own) / (double)answered;
    if (rc == 0 && o->server_cycles && !atomic_load(&run.group.stop) && answered > 0) {
        rc = run_server_cycles(&run, &after);
        report->server_cycles = (double)(after - before) / (double)answered;
    }
    return rc;
}

static int measure(const struct options *o, struct report *report)
{
    int rc = 0;

    if (!o->no_preload && run_store(&run, 0, 1, &stored) < 0)
        return -1;
    if (o->preload_only) {
        report->result = &stored;
        log_whole(&report->series, &stored);
        return 0;
    }
    if (o->slo_given)
        rc = search(o, report);
    else if (o->scan_path)
        rc = scan(o, report);
    else
        rc = measure_once(o, report);
    if (o->slo_given || o->scan_path)
        log_whole(&report->series, &result);
    return rc;
}

/* Prints error messages. Returns the exit status. */
static int report_errors(int rc, const struct options *o, struct series *series)
{
    const struct tally *t = &result.tally;
    uint64_t bad = t->wrong + t->refused + stored.tally.wrong + stored.tally.refused;
    const char *example = stored.example[0] ? stored.example : result.example;
    int status = 0;

    if (rc < 0) {
        fprintf(stderr, "ucload: %s\n", run.error);
        status = EXIT_WRONG;
    }
    if (bad > 0) {
        fprintf(stderr, "ucload: %llu replies were wrong, %llu were errors\n",
                (unsigned long long)(t->wrong + stored.tally.wrong),
                (unsigned long long)(t->refused + stored.tally.refused));
        status = EXIT_WRONG;
    }
    if (o->udp && stored.tally.unanswered > 0) {
        fprintf(stderr, "ucload: %llu keys may not be stored: their sets had no reply\n",
                (unsigned long long)stored.tally.unanswered);
        status = EXIT_WRONG;
    }
    if (rc == 0 && o->warmup_s > 0 && !o->preload_only && t->requests == 0) {
        fprintf(stderr, "ucload: the load has ended within the warm-up: nothing was measured\n");
        status = EXIT_WRONG;
    }
    if (rc == 0 && example[0])
        fprintf(stderr, "ucload: for instance: %s\n", example);
    if (rc == 0 && !o->slo_given && !o->scan_path && report_is_behind(&result)) {
        fprintf(stderr,
                "ucload: the rate was not reached: %.0f of %.0f requests/s; latencies count from "
                "the scheduled times\n",
                (double)t->requests / result.seconds, result.offered);
        status = status ? status : EX_TEMPFAIL;
    }
    if (series_close(series) < 0) {
        fprintf(stderr, "ucload: cannot write %s: %s\n", o->hdr_path, strerror(errno));
        status = status ? status : EX_CANTCREAT;
    }
    return status;
}

/* Opens a file that is written at the end; path null: none. Returns 0, or -1 after a message. */
static int open_output(const char *path, FILE **file)
{
    if (!path)
        return 0;
    *file = fopen(path, "we");
    if (*file)
        return 0;
    fprintf(stderr, "ucload: cannot write %s: %s\n", path, strerror(errno));
    return -1;
}

static int load(const struct options *o)
{
    struct report report = {.options = o, .run = &run, .result = &result, .start = time(NULL)};
    FILE *hdr = NULL, *svg = NULL;
    int status, rc;

    if (open_output(o->hdr_path, &hdr) < 0 || open_output(o->scan_path, &svg) < 0) {
        if (hdr)
            fclose(hdr);
        return EX_CANTCREAT;
    }
    series_open(&report.series, hdr, o->progress);
    load_histogram_clear(&result.latency);
    load_histogram_clear(&stored.latency);
    if (run_open(&run, o) < 0) {
        fprintf(stderr, "ucload: %s\n", run.error);
        run_close(&run);
        (void)series_close(&report.series);
        if (svg)
            fclose(svg);
        return run.misused ? EX_USAGE : EX_UNAVAILABLE;
    }
    rc = measure(o, &report);
    if (o->json)
        report_json(stdout, &report);
    else if (report.result->seconds > 0)
        report_text(stdout, &report);
    status = report_errors(rc, o, &report.series);
    if (svg && scan_svg(svg, &report.scan, run.plan.server_text) < 0) {
        fprintf(stderr, "ucload: cannot write %s: %s\n", o->scan_path, strerror(errno));
        status = status ? status : EX_CANTCREAT;
    }
    run_close(&run);
    return status;
}

int main(int argc, char **argv)
{
    static struct options options;
    struct sigaction action = {.sa_handler = on_signal};

    switch (options_parse(argc, argv, &options)) {
    case CMDLINE_HELP:
        options_print_help(stdout);
        return 0;
    case CMDLINE_VERSION:
        printf("ucload %s\n", UCACHED_VERSION);
        return 0;
    case CMDLINE_BAD:
        fprintf(stderr, "ucload: %s\nucload --help lists what there is\n", options.error);
        return EX_USAGE;
    case CMDLINE_RUN:
        break;
    }
    signal(SIGPIPE, SIG_IGN);
    if (options.agent)
        return agent_serve(options.agent);
    if (!options.json && isatty(STDERR_FILENO))
        options.progress = true;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return load(&options);
}
