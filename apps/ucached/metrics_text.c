/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenMetrics text; see metrics_text.h. */
#include "metrics_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "net/worker.h"

#define TEXT_BYTES_MIN (64 * 1024)
#define TEXT_BYTES_MAX (4 * 1024 * 1024) /* far more than all metrics can have */
#define NAME_MAX_BYTES 128

/* Upper limits of a histogram's buckets, as powers of two in nanoseconds: 0.25 us to 17 s. */
#define BUCKET_FIRST_BITS 8
#define BUCKET_LAST_BITS 34

static bool text_reserve(struct metrics_text *text, size_t bytes)
{
    size_t capacity = text->capacity > 0 ? text->capacity : TEXT_BYTES_MIN;
    char *grown;

    while (capacity < text->len + bytes)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    grown = capacity <= TEXT_BYTES_MAX ? realloc(text->bytes, capacity) : NULL;
    if (grown == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = grown;
    text->capacity = capacity;
    return true;
}

static __attribute__((format(printf, 2, 3))) void add(struct metrics_text *text, const char *format,
                                                      ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (text->failed || n < 0 || !text_reserve(text, (size_t)n + 1))
        return;
    va_start(args, format);
    (void)vsnprintf(text->bytes + text->len, (size_t)n + 1, format, args);
    va_end(args);
    text->len += (size_t)n;
}

/* A text between quotation marks, or of HELP. */
static void add_escaped(struct metrics_text *text, const char *from)
{
    for (; *from != '\0'; from++) {
        if (*from == '\n')
            add(text, "\\n");
        else if (*from == '"' || *from == '\\')
            add(text, "\\%c", *from);
        else
            add(text, "%c", (unsigned char)*from < ' ' ? ' ' : *from);
    }
}

void metrics_text_free(struct metrics_text *text)
{
    free(text->bytes);
    memset(text, 0, sizeof(*text));
}

/* ---- families ---------------------------------------------------------------------------- */

static void add_family(struct metrics_text *text, const char *family, const char *type,
                       const char *unit, const char *help)
{
    add(text, "# TYPE %s %s\n", family, type);
    if (unit != NULL)
        add(text, "# UNIT %s %s\n", family, unit);
    add(text, "# HELP %s ", family);
    add_escaped(text, help);
    add(text, "\n");
}

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);

    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* The name of a line's metric: what is no letter or digit becomes an underscore. */
static void family_name(char family[NAME_MAX_BYTES], const char *list, const char *name)
{
    char *at;

    snprintf(family, NAME_MAX_BYTES, "ucached_%s%s%s", list != NULL ? list : "",
             list != NULL ? "_" : "", name);
    for (at = family; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
}

/* ---- lines of statistics ----------------------------------------------------------------- */

struct list_ctx {
    struct metrics_text *text;
    const char *list;
};

static void add_word(struct metrics_text *text, const char *family, const char *label,
                     const char *help, const char *word)
{
    add_family(text, family, "info", NULL, help);
    add(text, "%s_info{%s=\"", family, label);
    add_escaped(text, word);
    add(text, "\"} 1\n");
}

/* Times are in seconds, as the unit of a metric has to be. */
static void add_number(struct metrics_text *text, char *family, const struct metrics_name *row,
                       uint64_t value)
{
    const char *type = row->is_gauge ? "gauge" : "counter";
    const char *total = row->is_gauge ? "" : "_total";

    if (ends_in(family, "_us")) {
        memcpy(family + strlen(family) - 3, "_seconds", sizeof("_seconds"));
        add_family(text, family, type, "seconds", row->help);
        add(text, "%s%s %" PRIu64 ".%06u\n", family, total, value / 1000000,
            (unsigned)(value % 1000000));
        return;
    }
    add_family(text, family, type, ends_in(family, "_bytes") ? "bytes" : NULL, row->help);
    add(text, "%s%s %" PRIu64 "\n", family, total, value);
}

/* cache_stats_emit: one line of a list. */
static void add_line(void *ctx, const char *name, const char *value)
{
    struct list_ctx *list = ctx;
    const struct metrics_name *row = metrics_name_find(list->list, name);
    char family[NAME_MAX_BYTES + sizeof("_seconds")];
    uint64_t number;
    char *end;

    family_name(family, list->list, name);
    number = strtoull(value, &end, 10);
    if (isdigit((unsigned char)value[0]) && *end == '\0')
        add_number(list->text, family, row, number);
    else
        add_word(list->text, family, "value", row->help, value);
}

/* ---- the process ------------------------------------------------------------------------- */

static void add_cpu(struct metrics_text *text, const char *mode, const struct timeval *time)
{
    add(text, "ucached_process_cpu_seconds_total{mode=\"%s\"} %lld.%06ld\n", mode,
        (long long)time->tv_sec, (long)time->tv_usec);
}

static void add_process(struct metrics_text *text)
{
    struct rusage usage;

    add_family(text, "ucached_build", "info", NULL, "The version of the server.");
    add(text, "ucached_build_info{version=\"%s\",memcached=\"%s\"} 1\n", UCACHED_VERSION,
        UCACHED_COMPAT_VERSION);
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    add_family(text, "ucached_process_cpu_seconds", "counter", "seconds",
               "Processor time of the process; rusage_user and rusage_system of stats.");
    add_cpu(text, "user", &usage.ru_utime);
    add_cpu(text, "system", &usage.ru_stime);
    add_family(text, "ucached_process_max_resident_bytes", "gauge", "bytes",
               "The most memory that the process has had resident.");
    add(text, "ucached_process_max_resident_bytes %lld\n", (long long)usage.ru_maxrss * 1024);
}

/* ---- histograms -------------------------------------------------------------------------- */

static void add_bucket(struct metrics_text *text, const char *name, uint64_t below_ns,
                       uint64_t count)
{
    add(text, "ucached_request_latency_seconds_bucket{command=\"%s\",le=\"%.9g\"} %" PRIu64 "\n",
        name, (double)below_ns / 1e9, count);
}

/* Two buckets for each power of two. */
static void add_histogram(struct metrics_text *text, const char *name,
                          const struct cache_latency *sum, uint64_t count)
{
    for (unsigned bits = BUCKET_FIRST_BITS; bits <= BUCKET_LAST_BITS; bits++) {
        uint64_t power = UINT64_C(1) << bits;

        add_bucket(text, name, power, cache_latency_below(sum, power));
        if (bits < BUCKET_LAST_BITS)
            add_bucket(text, name, power + power / 2, cache_latency_below(sum, power + power / 2));
    }
    add(text, "ucached_request_latency_seconds_bucket{command=\"%s\",le=\"+Inf\"} %" PRIu64 "\n",
        name, count);
    add(text, "ucached_request_latency_seconds_count{command=\"%s\"} %" PRIu64 "\n", name, count);
    add(text, "ucached_request_latency_seconds_sum{command=\"%s\"} %.9f\n", name,
        (double)cache_latency_sum_ns(sum) / 1e9);
}

static void add_latencies(struct metrics_text *text, struct cache *cache)
{
    struct cache_latency sum;

    add_family(text, "ucached_request_latency_seconds", "histogram", "seconds",
               "Time from reading a request to sending its reply, measured by the server.");
    for (unsigned class = 0; class < CACHE_LATENCY_CLASSES; class ++) {
        uint64_t count = cache_latency_read(cache, class, &sum);

        if (count > 0)
            add_histogram(text, cache_latency_name(class), &sum, count);
    }
}

void metrics_text_fill(struct metrics_text *text, struct cache *cache, unsigned connections)
{
    static const char *const lists[] = {NULL, "kv", "ustack", "nic", "sock", "tls"};
    uint64_t now_us = net_clock_us();

    add_process(text);
    for (unsigned i = 0; i < U_ARRAY_LEN(lists); i++) {
        struct list_ctx list = {text, lists[i]};

        (void)cache_stats_read(cache, now_us, lists[i], add_line, &list);
    }
    add_latencies(text, cache);
    add_family(text, "ucached_metrics_connections", "gauge", NULL,
               "Connections of --metrics, this one included.");
    add(text, "ucached_metrics_connections %u\n", connections);
    add(text, "# EOF\n");
}
