/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping: what a TCP connection can do between two programs, and so the bound for any server:
 * ping-pong of n bytes, or bulk in one direction, over kernel sockets or over our own stack.
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
    (void)number;
    atomic_store(&ucping_stop, true);
}

static double us_at(const struct game *game, double percent)
{
    return (double)load_histogram_percentile(&game->latency, percent) / 1e3;
}

static void print_text(const struct settings *s, const struct game *game, double seconds)
{
    if (game->mode != MODE_PING) {
        printf("%s %.3f GB in %.2f s: %.2f Gbit/s\n", game->mode == MODE_SEND ? "sent" : "received",
               (double)game->moved / 1e9, seconds, (double)game->moved * 8 / 1e9 / seconds);
        return;
    }
    printf("%.0f rounds/s of %u bytes (%llu in %.2f s, %u connection%s)\n",
           (double)game->rounds / seconds, s->bytes, (unsigned long long)game->rounds, seconds,
           s->connections, s->connections == 1 ? "" : "s");
    printf("round trip: mean %.1f us  p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n",
           load_histogram_mean(&game->latency) / 1e3, us_at(game, 50), us_at(game, 90),
           us_at(game, 99), us_at(game, 99.9), us_at(game, 100));
}

/* The members of an object that tell of a client. */
static void print_game(const struct settings *s, const struct game *game, double seconds)
{
    printf("\"mode\": \"%s\", \"connections\": %u, \"seconds\": %.6f, ",
           game->mode == MODE_PING   ? "ping"
           : game->mode == MODE_SEND ? "send"
                                     : "receive",
           s->connections, seconds);
    printf("\"bytes\": %u, \"rounds\": %llu, \"rounds_per_second\": %.1f, ", s->bytes,
           (unsigned long long)game->rounds, (double)game->rounds / seconds);
    printf("\"moved_bytes\": %llu, \"gbit_per_second\": %.4f, ", (unsigned long long)game->moved,
           (double)game->moved * 8 / 1e9 / seconds);
    printf("\"round_trip_us\": {\"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, "
           "\"p99.9\": %.3f, \"p100\": %.3f}, ",
           load_histogram_mean(&game->latency) / 1e3, us_at(game, 50), us_at(game, 90),
           us_at(game, 99), us_at(game, 99.9), us_at(game, 100));
}

static void print_passed(const char *name, const struct ucping_passed *passed)
{
    printf("\"%s\": {\"records\": %llu, \"full\": %llu, \"wakes\": %llu}, ", name,
           (unsigned long long)passed->records, (unsigned long long)passed->full,
           (unsigned long long)passed->wakes);
}

static void print_threading(const struct settings *s)
{
    bool parted = s->threading != NET_THREADING_UNIFIED;

    printf("\"threading\": \"%s\", \"threads\": %d, ", net_threading_name(s->threading),
           parted ? 2 : 1);
    if (!parted)
        return;
    print_passed("events", &s->events);
    print_passed("commands", &s->commands);
}

/* A server has nothing but this to tell. */
static void print_json(const struct settings *s, const struct game *game, double seconds)
{
    printf("{\"io\": \"%s\", ", link_io_name(s->link.io));
    print_threading(s);
    if (!s->listen)
        print_game(s, game, seconds);
    printf("\"link\": {%s}}\n", s->counted ? s->counted : "");
}

static int play(struct settings *s)
{
    static struct game game;
    double seconds;
    int rc;

    game.mode = s->mode;
    game.bytes = s->bytes;
    game.count = s->count;
    load_histogram_clear(&game.latency);
    rc = (link_is_stack(s->link.io) ? ucping_stack : ucping_sock)(s, s->listen ? NULL : &game);
    seconds = game.begun_ns > 0 ? (double)(game.over_ns - game.begun_ns) / 1e9 : 0;
    if (s->json && (s->listen ? rc == 0 : seconds > 0))
        print_json(s, &game, seconds);
    else if (!s->listen && seconds > 0)
        print_text(s, &game, seconds);
    free(s->counted);
    if (rc == 0)
        return 0;
    fprintf(stderr, "ucping: %s\n", s->error);
    return game.wrong ? 1 : EX_UNAVAILABLE;
}

int main(int argc, char **argv)
{
    static struct settings settings;
    struct sigaction action = {.sa_handler = on_signal};

    switch (options_parse(argc, argv, &settings)) {
    case COMMAND_HELP:
        options_print_help(stdout);
        return 0;
    case COMMAND_VERSION:
        printf("ucping %s\n", UCACHED_VERSION);
        return 0;
    case COMMAND_BAD:
        fprintf(stderr, "ucping: %s\nucping --help lists what there is\n", settings.error);
        return EX_USAGE;
    case COMMAND_RUN:
        break;
    }
    if (conv_start() < 0) {
        fprintf(stderr, "ucping: no memory\n");
        return EX_OSERR;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return play(&settings);
}
