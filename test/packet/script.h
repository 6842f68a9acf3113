/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parser of packet scripts: lines cut into words, `$` expressions, numbers, addresses. The commands
 * are in run.c, segments in segment.c.
 */
#ifndef TEST_SCRIPT_H
#define TEST_SCRIPT_H

#include "rig.h"

#define SCRIPT_WORDS_MAX 80
#define SCRIPT_LINE_MAX 4000

struct script {
    const char *path;
    char **lines;
    unsigned line_count;
    unsigned line; /* number of the line being run, from 1 */
    char text[SCRIPT_LINE_MAX];
    char *words[SCRIPT_WORDS_MAX];
    unsigned word_count;
    unsigned at; /* the next word to look at */
    long vars[26];
    int started;
    int listening;
    int burst_open;
    struct rig_in burst[64];
    unsigned burst_count;
    uint64_t time_lo_us, time_hi_us; /* the line's time prefix */
    int has_time;
    struct rig rig;
    char *log_text;
    size_t log_bytes;
};

/* Ends the test program with a message that names the script and the line. */
void script_fail(struct script *s, const char *format, ...) __attribute__((format(printf, 2, 3)))
__attribute__((noreturn));

/* Reads the file into lines; fails if it cannot be read. */
void script_load(struct script *s, const char *path);

/*
 * Cuts a line into words. `$(expression)` and `$x` are replaced by their values first; a word that
 * begins with '<' (but for the first two) extends to the closing '>'; '#' begins a comment.
 */
void script_lex(struct script *s, const char *line);

/* The next word, or null at the end of the line. */
const char *script_peek(const struct script *s);
const char *script_next(struct script *s);

/* The next word, which must be there. */
const char *script_need(struct script *s, const char *what);
long script_number(struct script *s, const char *what);

/* Takes the next word if it is this one. */
int script_accept(struct script *s, const char *word);

/* Fails if the line has more words. */
void script_end(struct script *s);

long script_to_number(struct script *s, const char *word);
uint32_t script_to_ip(struct script *s, const char *word);
void script_to_mac(struct script *s, const char *word, uint8_t mac[6]);

/* `left op right` for op one of = != < <= > >=. */
int script_compare(struct script *s, double left, const char *op, double right);

/* Runs to the time of the line; whatever the stack sends on the way must have been expected. */
void script_wait(struct script *s);

#endif
