/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines, words, numbers and addresses of packet scripts. See script.h. */
#include "script.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SHOWN_BYTES = 6000 };

void script_fail(struct script *s, const char *format, ...)
{
    va_list args;
    fflush(s->rig.log);
    if (s->log_text) {
        size_t skip = s->log_bytes > LOG_SHOWN_BYTES ? s->log_bytes - LOG_SHOWN_BYTES : 0;
        fprintf(stderr, "%s", s->log_text + skip);
    }
    fprintf(stderr, "%s:%u: ", s->path, s->line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n  at %.6f s; the line is: %s\n", (double)s->rig.now_us / 1e6,
            s->line >= 1 && s->line <= s->line_count ? s->lines[s->line - 1] : "(end)");
    exit(1);
}

void script_load(struct script *s, const char *path)
{
    char line[SCRIPT_LINE_MAX];
    const char *name = strrchr(path, '/');
    s->path = name ? name + 1 : path;
    FILE *file = fopen(path, "r");
    if (!file)
        script_fail(s, "cannot be opened");
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\r\n")] = '\0';
        s->lines = realloc(s->lines, (s->line_count + 1) * sizeof(*s->lines));
        s->lines[s->line_count++] = strdup(line);
    }
    fclose(file);
}

/* ---- $ expressions: + - * / %, parentheses, numbers, one-letter variables ------------------ */

static long expression(struct script *s, const char **p);

static void skip_blanks(const char **p)
{
    while (**p == ' ')
        (*p)++;
}

static long factor(struct script *s, const char **p)
{
    long value;
    skip_blanks(p);
    if (**p == '(') {
        (*p)++;
        value = expression(s, p);
        skip_blanks(p);
        if (**p != ')')
            script_fail(s, "closing parenthesis missing");
        (*p)++;
    } else if (islower((unsigned char)**p)) {
        value = s->vars[*(*p)++ - 'a'];
    } else {
        char *end;
        value = (long)strtoll(*p, &end, 0); /* sequence numbers wrap where a long is short */
        if (end == *p)
            script_fail(s, "number expected at \"%s\"", *p);
        *p = end;
    }
    skip_blanks(p);
    return value;
}

static long term(struct script *s, const char **p)
{
    long value = factor(s, p);
    while (**p == '*' || **p == '/' || **p == '%') {
        char op = *(*p)++;
        long right = factor(s, p);
        if (op != '*' && right == 0)
            script_fail(s, "division by zero");
        value = op == '*' ? value * right : op == '/' ? value / right : value % right;
    }
    return value;
}

static long expression(struct script *s, const char **p)
{
    long value = term(s, p);
    while (**p == '+' || **p == '-') {
        char op = *(*p)++;
        long right = term(s, p);
        value = op == '+' ? value + right : value - right;
    }
    return value;
}

/* Copies the line to s->text with comments cut off and every $... replaced by its value. */
static void substitute(struct script *s, const char *line)
{
    size_t n = 0;
    while (*line != '\0' && *line != '#') {
        if (n + 24 >= sizeof(s->text))
            script_fail(s, "line too long");
        if (*line != '$') {
            s->text[n++] = *line++;
            continue;
        }
        line++;
        long value = factor(s, &line);
        if (line[-1] == ' ')
            line--;
        n += (size_t)snprintf(s->text + n, sizeof(s->text) - n, "%ld", value);
    }
    s->text[n] = '\0';
}

void script_lex(struct script *s, const char *line)
{
    substitute(s, line);
    s->word_count = s->at = 0;
    for (char *p = s->text;;) {
        p += strspn(p, " \t");
        if (*p == '\0')
            return;
        if (s->word_count == SCRIPT_WORDS_MAX)
            script_fail(s, "too many words");
        s->words[s->word_count++] = p;
        if (*p == '<' && p[1] != ' ' && p[1] != '\0' && p[1] != '=') {
            p = strchr(p, '>');
            if (!p)
                script_fail(s, "closing > missing");
            p++;
        } else {
            p += strcspn(p, " \t");
        }
        if (*p != '\0')
            *p++ = '\0';
    }
}

const char *script_peek(const struct script *s)
{
    return s->at < s->word_count ? s->words[s->at] : NULL;
}

const char *script_next(struct script *s)
{
    return s->at < s->word_count ? s->words[s->at++] : NULL;
}

const char *script_need(struct script *s, const char *what)
{
    const char *word = script_next(s);
    if (!word)
        script_fail(s, "%s missing", what);
    return word;
}

long script_number(struct script *s, const char *what)
{
    return script_to_number(s, script_need(s, what));
}

int script_accept(struct script *s, const char *word)
{
    const char *next = script_peek(s);
    if (!next || strcmp(next, word) != 0)
        return 0;
    s->at++;
    return 1;
}

void script_end(struct script *s)
{
    if (script_peek(s))
        script_fail(s, "unknown word \"%s\"", script_peek(s));
}

long script_to_number(struct script *s, const char *word)
{
    char *end;
    long value = (long)strtoll(word, &end, 0);
    if (end == word || *end != '\0')
        script_fail(s, "\"%s\" is not a number", word);
    return value;
}

uint32_t script_to_ip(struct script *s, const char *word)
{
    unsigned a, b, c, d;
    char rest;
    if (sscanf(word, "%u.%u.%u.%u%c", &a, &b, &c, &d, &rest) != 4 || (a | b | c | d) > 255)
        script_fail(s, "\"%s\" is not an IPv4 address", word);
    return a << 24 | b << 16 | c << 8 | d;
}

void script_to_mac(struct script *s, const char *word, uint8_t mac[6])
{
    unsigned b[6];
    if (sscanf(word, "%x:%x:%x:%x:%x:%x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6)
        script_fail(s, "\"%s\" is not a MAC address", word);
    for (unsigned i = 0; i < 6; i++)
        mac[i] = (uint8_t)b[i];
}

int script_compare(struct script *s, double left, const char *op, double right)
{
    if (strcmp(op, "=") == 0)
        return left == right;
    if (strcmp(op, "!=") == 0)
        return left != right;
    if (strcmp(op, "<") == 0)
        return left < right;
    if (strcmp(op, "<=") == 0)
        return left <= right;
    if (strcmp(op, ">") == 0)
        return left > right;
    if (strcmp(op, ">=") == 0)
        return left >= right;
    script_fail(s, "\"%s\" is not a comparison", op);
}

void script_wait(struct script *s)
{
    struct rig *rig = &s->rig;
    if (s->has_time)
        rig_run(rig, rig->now_us + s->time_lo_us, 1, NULL);
    if (rig->out_head < rig->out_tail && s->has_time) {
        char text[400];
        rig_describe(&rig->out[rig->out_head], text, sizeof(text));
        script_fail(s, "not expected: the stack sent at %.6f s: %s", (double)rig->now_us / 1e6,
                    text);
    }
}
