/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines on stderr from threads that must not block, although a terminal may be stopped and a pipe
 * full. Lines go through a bounded ring; one thread writes them. A line that finds the ring full,
 * or too many lines in its second, is dropped and counted.
 */
#ifndef NET_LOG_H
#define NET_LOG_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Starts the thread; net_log() writes earlier lines itself. Returns 0 or a negative errno value. */
int net_log_start(void);

/* Writes the remaining lines, within 200 ms; further ones are lost. */
void net_log_stop(void);

/* From now on lines are JSON objects: time, level, message. Before other threads start. */
void net_log_set_json(void);

/*
 * Adds a line, given without a line feed and cut after NET_LOG_LINE_MAX bytes. Any thread. In JSON
 * the level is that of a word after "ucached: ", "warning" or "note", else "info"; of commands and
 * replies, which begin with < or >, "debug".
 */
#define NET_LOG_LINE_MAX 1000
void net_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for an error. */
void net_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * For lines that clients cause: at most NET_LOG_LIMIT_LINES per second of each kind. The first line
 * of a later second follows one that says how many were left out, which net_log_dropped() counts
 * too.
 */
#define NET_LOG_LIMIT_LINES 20

struct net_log_limit {
    pthread_mutex_t lock;
    time_t second;
    unsigned lines, left_out;
};

#define NET_LOG_LIMIT                                                                              \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

void net_log_limited(struct net_log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Lines dropped since the start. */
uint64_t net_log_dropped(void);

#endif
