/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the result of a measurement; see report.h. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const double percents[] = {50, 90, 99, 99.9, 99.99, 100};

#define PERCENTS (sizeof(percents) / sizeof(percents[0]))

static double per_second(const struct result *result)
{
    return result->seconds > 0 ? (double)result->tally.requests / result->seconds : 0;
}

bool report_is_behind(const struct result *result)
{
    return result->offered > 0 && per_second(result) < 0.9 * result->offered;
}

/*
 * The latencies corrected for coordinated omission: those of a loop that had continued to send at
 * its average rate while it waited.
 */
static struct load_histogram *corrected(const struct report *r)
{
    struct load_histogram *h = malloc(sizeof(*h));
    double pace_ns = 0;

    if (!h)
        return NULL;
    load_histogram_clear(h);
    if (r->result->tally.requests > 0)
        pace_ns = r->result->seconds * 1e9 / (double)r->result->tally.requests *
                  r->options->connections * r->options->depth;
    if (r->result->offered > 0 || pace_ns < 1)
        load_histogram_add(h, &r->result->latency);
    else
        load_histogram_add_corrected(h, &r->result->latency, (uint64_t)pace_ns);
    return h;
}

/* ---- text -------------------------------------------------------------------------- */

static const char *duration(char text[32], double ns)
{
    if (ns < 1e3)
        snprintf(text, 32, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(text, 32, "%.1f us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(text, 32, "%.2f ms", ns / 1e6);
    else
        snprintf(text, 32, "%.2f s", ns / 1e9);
    return text;
}

static void print_latency(FILE *to, const char *name, const struct load_histogram *h)
{
    char text[32];
    unsigned i;

    fprintf(to, "%-12s mean %s", name, duration(text, load_histogram_mean(h)));
    for (i = 0; i < PERCENTS - 1; i++)
        fprintf(to, "  p%g %s", percents[i],
                duration(text, (double)load_histogram_percentile(h, percents[i])));
    fprintf(to, "  max %s\n", duration(text, (double)h->max));
}

/* Those of each operation, if there are several. */
static void print_by_op(FILE *to, const struct result *result)
{
    char name[16];

    for (unsigned op = 0; op < OP_MIXED; op++) {
        const struct load_histogram *h = &result->by_op[op];

        if (h->total == 0 || h->total == result->latency.total)
            continue;
        snprintf(name, sizeof(name), "  %s", op_names[op]);
        print_latency(to, name, h);
    }
}

static void print_ops(FILE *to, const struct tally *t)
{
    const char *between = "";

    fprintf(to, "%-12s ", "operations");
    for (unsigned op = 0; op < OP_MIXED; op++) {
        if (t->ops[op] == 0)
            continue;
        fprintf(to, "%s%llu %s", between, (unsigned long long)t->ops[op], op_names[op]);
        between = ", ";
    }
    fprintf(to, "%s\n%-12s %llu hits, %llu misses", *between ? "" : "none", "keys",
            (unsigned long long)t->hits, (unsigned long long)t->misses);
    if (t->ops[OP_CAS] > 0)
        fprintf(to, ", %llu changed before their cas", (unsigned long long)t->exists);
    fprintf(to, "\n");
}

static void print_hiccups(FILE *to, const struct hiccups *h)
{
    char longest[32], worst[32];

    if (h->count == 0)
        fprintf(to, "%-12s none\n", "hiccups");
    else
        fprintf(to, "%-12s %llu, %s at the longest, %s on the core that had most\n", "hiccups",
                (unsigned long long)h->count, duration(longest, (double)h->longest_ns),
                duration(worst, (double)h->worst_ns));
}

static const char *loop_text(const struct report *r, char text[80])
{
    if (r->options->scan_path)
        snprintf(text, 80, "open loop, one rate after the other");
    else if (r->result->offered > 0)
        snprintf(text, 80, "open loop, %.0f requests/s %s", r->result->offered,
                 r->options->arrivals == LOAD_ARRIVALS_POISSON ? "(Poisson)" : "(constant)");
    else
        snprintf(text, 80, "closed loop, %u in flight each", r->options->depth);
    return text;
}

/* The client's own side: --io of the server may be another one. */
static const char *link_text(const struct options *o)
{
    if (link_carries_frames(&o->link))
        return link_backend_name(&o->link);
    return o->udp ? "kernel sockets (epoll), UDP" : "kernel sockets (epoll)";
}

void report_text(FILE *to, const struct report *r)
{
    const struct options *o = r->options;
    const struct tally *t = &r->result->tally;
    struct load_histogram *h = r->result->offered > 0 ? NULL : corrected(r);
    char loop[80];

    fprintf(to, "%-12s %s over %s, %u thread%s, %u connection%s, %s\n", "load",
            r->run->plan.server_text, link_text(o), o->threads, o->threads == 1 ? "" : "s",
            o->connections, o->connections == 1 ? "" : "s", loop_text(r, loop));
    if (o->agents)
        fprintf(to, "%-12s %s, each with its share of connections, rate and requests\n", "agents",
                o->agents);
    if (r->searched && r->slo_rate > 0)
        fprintf(to, "%-12s %s is kept up to %.0f requests/s (%u tries)\n", "goal", o->slo.text,
                r->slo_rate, r->slo_tries);
    else if (r->searched)
        fprintf(to, "%-12s %s is not kept at any rate\n", "goal", o->slo.text);
    if (o->scan_path) {
        scan_print(to, &r->scan);
        free(h);
        return;
    }
    fprintf(to, "%-12s %.0f requests/s (%llu in %.2f s), %.1f MB/s in, %.1f MB/s out\n",
            "throughput", per_second(r->result), (unsigned long long)t->requests,
            r->result->seconds, (double)t->bytes_in / 1e6 / r->result->seconds,
            (double)t->bytes_out / 1e6 / r->result->seconds);
    print_ops(to, t);
    if (o->reconnect > 0)
        fprintf(to, "%-12s %.0f connects/s (%llu)\n", "connections",
                (double)t->connects / r->result->seconds, (unsigned long long)t->connects);
    if (r->server_cycles > 0)
        fprintf(to, "%-12s %.0f cycles per request\n", "server", r->server_cycles);
    if (r->own_cycles > 0)
        fprintf(to, "%-12s %.0f cycles per request\n", "ucload", r->own_cycles);
    print_latency(to, "latency", &r->result->latency);
    print_by_op(to, r->result);
    if (h)
        print_latency(to, "corrected", h);
    print_hiccups(to, &r->result->hiccups);
    if (o->verify || t->wrong > 0)
        fprintf(to, "%-12s %llu\n", "wrong", (unsigned long long)t->wrong);
    if (t->refused > 0)
        fprintf(to, "%-12s %llu\n", "refused", (unsigned long long)t->refused);
    if (t->unanswered > 0)
        fprintf(to, "%-12s %llu, with their waiting times among the latencies\n", "unanswered",
                (unsigned long long)t->unanswered);
    free(h);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void json_text(FILE *to, const char *name, const char *text)
{
    fprintf(to, "  \"%s\": \"", name);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        if ((unsigned char)*text >= 0x20)
            fputc(*text, to);
    }
    fprintf(to, "\",\n");
}

static void json_number(FILE *to, const char *name, double value)
{
    fprintf(to, "  \"%s\": %.15g,\n", name, value);
}

static void json_count(FILE *to, const char *name, uint64_t value)
{
    fprintf(to, "  \"%s\": %llu,\n", name, (unsigned long long)value);
}

static void json_latency(FILE *to, const char *name, const struct load_histogram *h)
{
    unsigned i;

    fprintf(to, "  \"%s\": {\"count\": %llu, \"mean\": %.3f, \"min\": %.3f", name,
            (unsigned long long)h->total, load_histogram_mean(h) / 1e3,
            h->total ? (double)h->min / 1e3 : 0);
    for (i = 0; i < PERCENTS; i++)
        fprintf(to, ", \"p%g\": %.3f", percents[i],
                (double)load_histogram_percentile(h, percents[i]) / 1e3);
    fprintf(to, "}");
}

static void json_hiccups(FILE *to, const struct hiccups *h)
{
    fprintf(to,
            "  \"hiccups\": {\"count\": %llu, \"longest_us\": %.1f, \"worst_core_us\": %.1f},\n",
            (unsigned long long)h->count, (double)h->longest_ns / 1e3, (double)h->worst_ns / 1e3);
}

static void json_tally(FILE *to, const struct tally *t)
{
    for (unsigned op = 0; op < OP_MIXED; op++)
        json_count(to, op_names[op], t->ops[op]);
    json_count(to, "hits", t->hits);
    json_count(to, "misses", t->misses);
    json_count(to, "exists", t->exists);
    json_count(to, "refused", t->refused);
    json_count(to, "wrong", t->wrong);
    json_count(to, "unanswered", t->unanswered);
    json_count(to, "bytes_in", t->bytes_in);
    json_count(to, "bytes_out", t->bytes_out);
}

/* Latencies of each operation that was requested. */
static void json_by_op(FILE *to, const struct result *result)
{
    char name[32];

    for (unsigned op = 0; op < OP_MIXED; op++) {
        if (result->by_op[op].total == 0)
            continue;
        snprintf(name, sizeof(name), "%s_latency_us", op_names[op]);
        json_latency(to, name, &result->by_op[op]);
        fprintf(to, ",\n");
    }
}

/* The words of --protocol. */
static const char *protocol_name(enum protocol protocol)
{
    static const char *const names[PROTOCOL_COUNT] = {"text", "meta", "binary"};

    return names[protocol];
}

/* The program's version, the time and the workload. */
static void json_workload(FILE *to, const struct report *r)
{
    const struct options *o = r->options;
    char when[32];
    struct tm utc;

    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&r->start, &utc));
    json_text(to, "ucload", UCACHED_VERSION);
    json_text(to, "time", when);
    json_text(to, "server", r->run->plan.server_text);
    json_text(to, "io", link_backend_name(&o->link));
    if (o->agents)
        json_text(to, "agents", o->agents);
    json_text(to, "protocol", protocol_name(o->protocol));
    json_count(to, "threads", o->threads);
    json_count(to, "connections", o->connections);
    json_count(to, "idle", o->idle);
    json_count(to, "depth", o->depth);
    json_count(to, "seed", o->seed);
    if (o->replay_path) {
        json_text(to, "replay", o->replay_path);
        return;
    }
    json_text(to, "mix", o->mix);
    json_count(to, "keys_per_get", o->multi);
    json_count(to, "keys", o->keys);
    json_text(to, "key_size", o->key_size);
    json_text(to, "value_size", o->value_size);
    json_text(to, "popularity", o->popularity);
}

void report_json(FILE *to, const struct report *r)
{
    const struct options *o = r->options;
    struct load_histogram *h = corrected(r);

    fprintf(to, "{\n");
    json_workload(to, r);
    json_text(to, "error", r->run->error[0] ? r->run->error : "");
    if (r->searched) {
        json_text(to, "slo", o->slo.text);
        json_number(to, "slo_rate", r->slo_rate);
    }
    json_number(to, "offered_per_second", r->result->offered);
    json_number(to, "requests_per_second", per_second(r->result));
    json_number(to, "seconds", r->result->seconds);
    json_number(to, "cpu_seconds", r->result->cpu_s);
    if (o->reconnect > 0) {
        json_count(to, "connects", r->result->tally.connects);
        json_number(to, "connects_per_second",
                    r->result->seconds > 0 ? (double)r->result->tally.connects / r->result->seconds
                                           : 0);
    }
    if (r->server_cycles > 0)
        json_number(to, "server_cycles_per_request", r->server_cycles);
    if (r->own_cycles > 0)
        json_number(to, "own_cycles_per_request", r->own_cycles);
    json_count(to, "requests", r->result->tally.requests);
    json_tally(to, &r->result->tally);
    json_hiccups(to, &r->result->hiccups);
    json_latency(to, "latency_us", &r->result->latency);
    fprintf(to, ",\n");
    json_by_op(to, r->result);
    json_latency(to, "corrected_us", h ? h : &r->result->latency);
    fprintf(to, ",\n  \"series_left_out\": %llu,\n  \"series\": ",
            (unsigned long long)r->series.left_out);
    series_json(to, &r->series);
    if (o->scan_path) {
        fprintf(to, ",\n  \"scan\": ");
        scan_json(to, &r->scan);
    }
    fprintf(to, "\n}\n");
    free(h);
}
