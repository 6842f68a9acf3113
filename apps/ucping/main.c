/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping measures a TCP connection between two minimal programs, which bounds any server: round
 * trips of n bytes, or bulk in one direction, over kernel sockets or the own TCP/IP stack.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "options.h"

atomic_bool ucping_stop;

static void on_signal(int number)
{
    atomic_store(&ucping_stop, true);
}

static double us_at(const struct load_histogram *latency, double percent)
{
    return (double)load_histogram_percentile(latency, percent) / 1e3;
}

static void print_tls_text(const struct security *security)
{
    printf("TLS: %llu handshakes (%llu resumed), mean %.1f us  p50 %.1f  p99 %.1f  max %.1f\n",
           (unsigned long long)security->handshakes, (unsigned long long)security->resumed,
           load_histogram_mean(&security->latency) / 1e3, us_at(&security->latency, 50),
           us_at(&security->latency, 99), us_at(&security->latency, 100));
}

static void print_text(const struct settings *s, const struct ping_run *run, double seconds)
{
    if (s->security)
        print_tls_text(s->security);
    if (run->mode != MODE_PING) {
        printf("%s %.3f GB in %.2f s: %.2f Gbit/s\n", run->mode == MODE_SEND ? "sent" : "received",
               (double)run->moved / 1e9, seconds, (double)run->moved * 8 / 1e9 / seconds);
        return;
    }
    printf("%.0f rounds/s of %u bytes (%llu in %.2f s, %u connection%s)\n",
           (double)run->rounds / seconds, s->bytes, (unsigned long long)run->rounds, seconds,
           s->connections, s->connections == 1 ? "" : "s");
    printf("round trip: mean %.1f us  p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n",
           load_histogram_mean(&run->latency) / 1e3, us_at(&run->latency, 50),
           us_at(&run->latency, 90), us_at(&run->latency, 99), us_at(&run->latency, 99.9),
           us_at(&run->latency, 100));
}

static void print_latency(const char *name, const struct load_histogram *latency)
{
    printf("\"%s\": {\"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, "
           "\"p99.9\": %.3f, \"p100\": %.3f}, ",
           name, load_histogram_mean(latency) / 1e3, us_at(latency, 50), us_at(latency, 90),
           us_at(latency, 99), us_at(latency, 99.9), us_at(latency, 100));
}

/* The JSON members of a client. */
static void print_run(const struct settings *s, const struct ping_run *run, double seconds)
{
    printf("\"mode\": \"%s\", \"connections\": %u, \"seconds\": %.6f, ",
           exchange_mode_names[run->mode], s->connections, seconds);
    printf("\"bytes\": %u, \"rounds\": %llu, \"rounds_per_second\": %.1f, ", s->bytes,
           (unsigned long long)run->rounds, (double)run->rounds / seconds);
    printf("\"moved_bytes\": %llu, \"gbit_per_second\": %.4f, ", (unsigned long long)run->moved,
           (double)run->moved * 8 / 1e9 / seconds);
    print_latency("round_trip_us", &run->latency);
}

static void print_tls(const struct security *security)
{
    printf("\"tls_handshakes\": %llu, \"tls_resumed\": %llu, \"tls_failures\": %llu, "
           "\"tls_own_records\": %llu, ",
           (unsigned long long)security->handshakes, (unsigned long long)security->resumed,
           (unsigned long long)security->failures, (unsigned long long)security->own_records);
    print_latency("tls_handshake_us", &security->latency);
}

static void print_ring(const char *name, const struct ring_counters *ring)
{
    printf("\"%s\": {\"records\": %llu, \"full\": %llu, \"wakes\": %llu}, ", name,
           (unsigned long long)ring->records, (unsigned long long)ring->full,
           (unsigned long long)ring->wakes);
}

static void print_threading(const struct settings *s)
{
    bool parted = s->threading != NET_THREADING_UNIFIED;

    printf("\"threading\": \"%s\", \"threads\": %d, ", net_threading_name(s->threading),
           parted ? 2 : 1);
    if (!parted)
        return;
    print_ring("events", &s->events);
    print_ring("commands", &s->commands);
}

/* A server prints the link, the threads and TLS only. */
static void print_json(const struct settings *s, const struct ping_run *run, double seconds)
{
    printf("{\"io\": \"%s\", ", link_backend_name(&s->link));
    print_threading(s);
    if (s->security)
        print_tls(s->security);
    if (!s->listen)
        print_run(s, run, seconds);
    printf("\"link\": {%s}}\n", s->link_counters ? s->link_counters : "");
}

static int play(struct settings *s)
{
    static struct ping_run run;
    double seconds;
    int rc;

    run.mode = s->mode;
    run.bytes = s->bytes;
    run.count = s->count;
    load_histogram_clear(&run.latency);
    rc = (link_carries_frames(&s->link) ? ucping_stack : ucping_sock)(s, s->listen ? NULL : &run);
    seconds = run.begun_ns > 0 ? (double)(run.ended_ns - run.begun_ns) / 1e9 : 0;
    if (rc == 0 && s->json && (s->listen || seconds > 0))
        print_json(s, &run, seconds);
    else if (rc == 0 && !s->listen && seconds > 0)
        print_text(s, &run, seconds);
    free(s->link_counters);
    if (s->security)
        security_close(s->security);
    if (rc == 0)
        return 0;
    fprintf(stderr, "ucping: %s\n", s->error);
    return run.mismatch ? 1 : EX_UNAVAILABLE;
}

int main(int argc, char **argv)
{
    static struct settings settings;
    struct sigaction action = {.sa_handler = on_signal};

    switch (options_parse(argc, argv, &settings)) {
    case CMDLINE_HELP:
        options_print_help(stdout);
        return 0;
    case CMDLINE_VERSION:
        printf("ucping %s\n", UCACHED_VERSION);
        return 0;
    case CMDLINE_BAD:
        fprintf(stderr, "ucping: %s\nucping --help lists what there is\n", settings.error);
        return EX_USAGE;
    case CMDLINE_RUN:
        break;
    }
    if (exchange_init() < 0) {
        fprintf(stderr, "ucping: no memory\n");
        return EX_OSERR;
    }
    if (settings.tls && security_open(&settings) < 0) {
        fprintf(stderr, "ucping: %s\n", settings.error);
        return EX_USAGE;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return play(&settings);
}
