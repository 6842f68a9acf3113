/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of log lines and the thread that writes them. */
#define _GNU_SOURCE /* pthread_timedjoin_np() */
#include "net/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINES 256
#define LINE_BYTES (2 * NET_LOG_LINE_MAX + 128) /* with the words and escapes of JSON */
#define NAME "ucached: "
#define STOP_MS 200 /* then unwritten lines are lost */
#define LINES_PER_S_MAX 5000

struct line {
    uint32_t len;
    char text[LINE_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held for a copy, never for a write */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct line lines[LINES];
static unsigned first, count; /* of the ring; under the lock, as the next two variables */
static time_t second;         /* of the last line, and how many there were in it */
static unsigned second_count;
static bool running, stopping;
static bool json; /* does not change once there are threads */
static pthread_t writer;
static _Atomic uint64_t dropped;

static void line_copy(struct line *to, const struct line *from)
{
    to->len = from->len;
    memcpy(to->text, from->text, from->len);
}

static void write_line(const struct line *line)
{
    (void)!write(STDERR_FILENO, line->text, line->len);
}

/* Waits for the next line. Returns false if there is none and the writer has to end. */
static bool take(struct line *line)
{
    bool taken;

    pthread_mutex_lock(&lock);
    while (count == 0 && !stopping)
        pthread_cond_wait(&changed, &lock);
    taken = count > 0;
    if (taken) {
        line_copy(line, &lines[first]);
        first = (first + 1) % LINES;
        count--;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static void *write_lines(void *unused)
{
    struct line line;

    (void)unused;
    while (take(&line))
        write_line(&line);
    return NULL;
}

int net_log_start(void)
{
    int rc = pthread_create(&writer, NULL, write_lines, NULL);

    if (rc != 0)
        return -rc;
    running = true;
    return 0;
}

void net_log_stop(void)
{
    struct timespec until;

    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    if (!running)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STOP_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(writer, NULL, &until) != 0)
        pthread_detach(writer); /* it is blocked, and ends with the process */
    running = false;
}

/* Counts a line; returns whether there are too many in this second. Under the lock. */
static bool is_too_fast(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec != second) {
        second = now.tv_sec;
        second_count = 0;
    }
    return second_count++ >= LINES_PER_S_MAX;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static const char *level_of(const char *text)
{
    static const char *const words[] = {"warning", "note"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);

        if (strncmp(text, words[i], len) == 0 && text[len] == ':')
            return words[i];
    }
    return text[0] == '<' || text[0] == '>' ? "debug" : "info";
}

/* Bytes of the UTF-8 character at text; 0: it is none. */
static size_t character_bytes(const char *text)
{
    uint8_t lead = (uint8_t)text[0];
    size_t len = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : 0;

    for (size_t i = 1; i < len; i++)
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Writes text with escapes, as much as fits before `end`. Returns the end of it. */
static char *write_escaped(char *to, const char *end, const char *text)
{
    while (*text != '\0' && end - to > 6) {
        size_t len = character_bytes(text);

        if (len == 0 || (uint8_t)*text < ' ') {
            to += snprintf(to, 7, "\\u%04x", (uint8_t)*text);
            text++;
            continue;
        }
        if (*text == '"' || *text == '\\')
            *to++ = '\\';
        memcpy(to, text, len);
        to += len;
        text += len;
    }
    return to;
}

/* Makes the line of a text. */
static void line_json(struct line *line, const char *text, const char *level)
{
    char *end = line->text + sizeof(line->text) - sizeof("\"}\n");
    struct timespec now;
    struct tm utc;
    char time[32];
    char *to;

    if (strncmp(text, NAME, strlen(NAME)) == 0)
        text += strlen(NAME);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
    to = line->text + snprintf(line->text, sizeof(line->text),
                               "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\"", time,
                               now.tv_nsec / 1000000, level ? level : level_of(text));
    to = write_escaped(to, end, text);
    memcpy(to, "\"}\n", 3);
    line->len = (uint32_t)(to + 3 - line->text);
}

void net_log_set_json(void)
{
    json = true;
}

/* ---- adding lines ------------------------------------------------------------------------ */

/* level null: as the text says. */
static __attribute__((format(printf, 2, 0))) void add_line(const char *level, const char *format,
                                                           va_list args)
{
    char text[NET_LOG_LINE_MAX + 1];
    struct line line;

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        return;
    if (json)
        line_json(&line, text, level);
    else
        line.len = (uint32_t)snprintf(line.text, sizeof(line.text), "%s\n", text);
    pthread_mutex_lock(&lock);
    if (running && count < LINES && !is_too_fast()) {
        line_copy(&lines[(first + count) % LINES], &line);
        count++;
        pthread_cond_signal(&changed);
    } else if (running) {
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    } else {
        write_line(&line);
    }
    pthread_mutex_unlock(&lock);
}

void net_log(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(NULL, format, args);
    va_end(args);
}

void net_log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line("error", format, args);
    va_end(args);
}

/* Whether a line of this kind may be written; *left_out is how many were not since the last one. */
static bool limit_admits(struct net_log_limit *limit, unsigned *left_out)
{
    struct timespec now;
    bool admits;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    *left_out = 0;
    pthread_mutex_lock(&limit->lock);
    if (now.tv_sec != limit->second) {
        limit->second = now.tv_sec;
        limit->lines = 0;
    }
    admits = limit->lines < NET_LOG_LIMIT_LINES;
    if (admits) {
        limit->lines++;
        *left_out = limit->left_out;
        limit->left_out = 0;
    } else {
        limit->left_out++;
    }
    pthread_mutex_unlock(&limit->lock);
    return admits;
}

void net_log_limited(struct net_log_limit *limit, const char *format, ...)
{
    unsigned left_out;
    va_list args;

    if (!limit_admits(limit, &left_out)) {
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
        return;
    }
    if (left_out > 0)
        net_log("ucached: %u lines like the next one were left out", left_out);
    va_start(args, format);
    add_line(NULL, format, args);
    va_end(args);
}

uint64_t net_log_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed);
}
