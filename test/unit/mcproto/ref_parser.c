/* SPDX-License-Identifier: BSD-3-Clause */
/* A second parser of the text protocol, plain and slow. */
#include "ref_parser.h"
#include "ref_meta.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void split(const u_u8 *line, u_u32 len, struct words *words)
{
    u_u32 i;

    words->count = 0;
    for (i = 0; i < len; i++) {
        int starts = line[i] != ' ' && (i == 0 || line[i - 1] == ' ');
        if (starts && words->count == TOKENS)
            return;
        if (starts) {
            words->at[words->count] = line + i;
            words->len[words->count] = 0;
            words->count++;
        }
        if (line[i] != ' ')
            words->len[words->count - 1]++;
    }
}

static int word_is(const struct words *words, int i, const char *text)
{
    return words->len[i] == strlen(text) && memcmp(words->at[i], text, words->len[i]) == 0;
}

static char *word_copy(const struct words *words, int i)
{
    char *copy = calloc(words->len[i] + 1, 1);

    if (copy == NULL)
        abort();
    memcpy(copy, words->at[i], words->len[i]);
    return copy;
}

/* Only digits, perhaps a minus; not more than `chars` characters; between min and max. */
static int strict(const struct words *words, int i, u_u32 chars, long long min,
                  unsigned long long max, unsigned long long *number)
{
    char *text = word_copy(words, i);
    const char *digits = text + (min < 0 && text[0] == '-');
    int fits = words->len[i] <= chars && strlen(text) == words->len[i] && digits[0] != '\0' &&
               strspn(digits, "0123456789") == strlen(digits);

    errno = 0;
    if (fits && text[0] == '-') {
        long long n = strtoll(text, NULL, 10);
        fits = errno == 0 && n >= min;
        *number = (unsigned long long)n;
    } else if (fits) {
        *number = strtoull(text, NULL, 10);
        fits = errno == 0 && *number <= max;
    }
    free(text);
    return fits;
}

static int loose_end(const char *text, const char *end)
{
    return end != text && (*end == '\0' || isspace((unsigned char)*end)) && errno == 0;
}

static int loose_flags(const struct words *words, int i, u_u32 *flags)
{
    char *text = word_copy(words, i);
    char *end;
    unsigned long long n;
    int fits;

    errno = 0;
    n = strtoull(text, &end, 10);
    fits = loose_end(text, end);
    if (memchr(text, '-', (size_t)(end - text)) != NULL && n != 0)
        fits = 0;
    *flags = (u_u32)n;
    free(text);
    return fits;
}

static int loose_exptime(const struct words *words, int i, u_s32 *exptime)
{
    char *text = word_copy(words, i);
    char *end;
    long long n;
    int fits;

    errno = 0;
    n = strtoll(text, &end, 10);
    fits = loose_end(text, end);
    *exptime = (u_s32)n;
    free(text);
    return fits;
}

static enum mc_outcome bad(struct mc_request *req, const char *error, u_u32 discard_bytes)
{
    struct mc_request answer;

    memset(&answer, 0, sizeof answer);
    answer.command = req->command;
    answer.line_bytes = req->line_bytes;
    answer.noreply = req->noreply;
    answer.discard_bytes = discard_bytes;
    if (!answer.noreply) {
        answer.error = error;
        answer.error_len = (u_u32)strlen(error);
    }
    *req = answer;
    return MC_MALFORMED;
}

static const char *const BAD_FORMAT = "CLIENT_ERROR bad command line format\r\n";
static const char *const BAD_EXPTIME = "CLIENT_ERROR invalid exptime argument\r\n";
static const char *const BAD_DELTA = "CLIENT_ERROR invalid numeric delta argument\r\n";

static const struct {
    const char *name;
    enum mc_command command;
    int args_min;
} names[] = {
    {"get", MC_CMD_GET, 1},
    {"gets", MC_CMD_GETS, 1},
    {"gat", MC_CMD_GAT, 2},
    {"gats", MC_CMD_GATS, 2},
    {"set", MC_CMD_SET, 4},
    {"add", MC_CMD_ADD, 4},
    {"replace", MC_CMD_REPLACE, 4},
    {"append", MC_CMD_APPEND, 4},
    {"prepend", MC_CMD_PREPEND, 4},
    {"cas", MC_CMD_CAS, 4},
    {"delete", MC_CMD_DELETE, 1},
    {"incr", MC_CMD_INCR, 2},
    {"decr", MC_CMD_DECR, 2},
    {"touch", MC_CMD_TOUCH, 2},
    {"flush_all", MC_CMD_FLUSH_ALL, 0},
    {"version", MC_CMD_VERSION, 0},
    {"verbosity", MC_CMD_VERBOSITY, 0},
    {"stats", MC_CMD_STATS, 0},
    {"quit", MC_CMD_QUIT, 0},
    {"mg", MC_CMD_MG, 1},
    {"ms", MC_CMD_MS, 2},
    {"md", MC_CMD_MD, 1},
    {"ma", MC_CMD_MA, 1},
    {"me", MC_CMD_ME, 1},
    {"mn", MC_CMD_MN, 0},
    {"cache_memlimit", MC_CMD_CACHE_MEMLIMIT, 0},
    {"slabs", MC_CMD_SLABS, 0},
    {"lru", MC_CMD_LRU, 0},
    {"lru_crawler", MC_CMD_LRU_CRAWLER, 0},
    {"watch", MC_CMD_WATCH, 0},
    {"shutdown", MC_CMD_SHUTDOWN, 0},
    {"refresh_certs", MC_CMD_REFRESH_CERTS, 0},
    {"extstore", MC_CMD_EXTSTORE, 0},
    {"misbehave", MC_CMD_MISBEHAVE, 0},
    {"debugtime", MC_CMD_DEBUGTIME, 0},
    {"debugitem", MC_CMD_DEBUGITEM, 0},
    {"config", MC_CMD_CONFIG, 0},
};

static enum mc_outcome keys(const u_u8 *first, const u_u8 *end, struct mc_request *req)
{
    const u_u8 *at = first;

    req->key = first;
    req->args = first;
    req->args_len = (u_u32)(end - first);
    while (at < end) {
        u_u32 len = 0;
        while (at + len < end && at[len] != ' ')
            len++;
        if (len > 250)
            return bad(req, BAD_FORMAT, 0);
        if (at == first)
            req->key_len = len;
        at += len;
        while (at < end && *at == ' ')
            at++;
    }
    return MC_REQUEST;
}

static enum mc_outcome storage(const struct words *words, struct mc_request *req)
{
    unsigned long long n;
    int fits;

    if (!strict(words, 4, 11, INT_MIN, 2147483645, &n) || (long long)n < 0)
        return bad(req, BAD_FORMAT, 0);
    req->value_bytes = (u_u32)n;
    req->noreply = word_is(words, words->count - 1, "noreply");
    req->key = words->at[1];
    req->key_len = words->len[1];
    fits = req->key_len <= 250 && loose_flags(words, 2, &req->flags) &&
           loose_exptime(words, 3, &req->exptime);
    if (fits && req->command == MC_CMD_CAS) {
        fits = words->count > 5 && strict(words, 5, 22, 0, ULLONG_MAX, &n);
        req->cas = n;
    }
    return fits ? MC_REQUEST : bad(req, BAD_FORMAT, req->value_bytes + 2);
}

static enum mc_outcome with_key(const struct words *words, struct mc_request *req)
{
    unsigned long long n;

    req->noreply = word_is(words, words->count - 1, "noreply");
    req->key = words->at[1];
    req->key_len = words->len[1];
    if (req->key_len > 250)
        return bad(req, BAD_FORMAT, 0);
    if (req->command == MC_CMD_TOUCH) {
        if (!strict(words, 2, 11, INT_MIN, INT_MAX, &n))
            return bad(req, BAD_EXPTIME, 0);
        req->exptime = (u_s32)n;
    } else if (req->command != MC_CMD_DELETE) {
        if (!strict(words, 2, 22, 0, ULLONG_MAX, &n))
            return bad(req, BAD_DELTA, 0);
        req->delta = n;
    }
    return MC_REQUEST;
}

static enum mc_outcome without_key(const struct words *words, const u_u8 *end,
                                   struct mc_request *req)
{
    int last = words->count - 1;
    unsigned long long n;

    if (req->command == MC_CMD_FLUSH_ALL) {
        req->noreply = word_is(words, last, "noreply");
        if (last == (req->noreply ? 1 : 0))
            return MC_REQUEST;
        if (!strict(words, 1, 11, INT_MIN, INT_MAX, &n))
            return bad(req, BAD_EXPTIME, 0);
        req->exptime = (u_s32)n;
    } else if (req->command == MC_CMD_VERBOSITY) {
        req->noreply = word_is(words, last, "noreply");
        if (last == 0 || !strict(words, 1, 11, 0, UINT_MAX, &n))
            return bad(req, BAD_FORMAT, 0);
        req->level = (u_u32)n;
    } else if (req->command == MC_CMD_STATS || req->command >= MC_CMD_CACHE_MEMLIMIT) {
        if (req->command != MC_CMD_STATS && req->command != MC_CMD_WATCH)
            req->noreply = last > 0 && word_is(words, last, "noreply");
        while (end[-1] == ' ')
            end--;
        req->args = last > 0 ? words->at[1] : NULL;
        req->args_len = last > 0 ? (u_u32)(end - words->at[1]) : 0;
    }
    return MC_REQUEST;
}

static enum mc_outcome known(const struct words *words, const u_u8 *end, struct mc_request *req)
{
    const char *error;
    unsigned long long n;

    if (mc_command_is_meta(req->command)) {
        error = ref_meta(words, req);
        return error == NULL ? MC_REQUEST : bad(req, error, req->discard_bytes);
    }
    switch (req->command) {
    case MC_CMD_GET:
    case MC_CMD_GETS:
        return keys(words->at[1], end, req);
    case MC_CMD_GAT:
    case MC_CMD_GATS:
        if (!strict(words, 1, 11, INT_MIN, INT_MAX, &n))
            return bad(req, BAD_EXPTIME, 0);
        req->exptime = (u_s32)n;
        return keys(words->at[2], end, req);
    case MC_CMD_DELETE:
    case MC_CMD_INCR:
    case MC_CMD_DECR:
    case MC_CMD_TOUCH:
        return with_key(words, req);
    default:
        return mc_command_has_value(req->command) ? storage(words, req)
                                                  : without_key(words, end, req);
    }
}

static enum mc_outcome unknown(const struct words *words, struct mc_request *req)
{
    int last = words->count - 1;

    if (last > 0 && words->len[last] >= 5 && memcmp(words->at[last], "HTTP/", 5) == 0) {
        req->close = 1;
        return MC_MALFORMED;
    }
    req->noreply = last >= 0 && word_is(words, last, "noreply");
    return bad(req, "ERROR\r\n", 0);
}

static enum mc_outcome no_line(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    u_u32 spaces = 0;

    if (len <= 2048)
        return MC_MORE;
    while (buf[spaces] == ' ' && spaces < 100)
        spaces++;
    if (len <= MC_KEYS_LINE_MAX &&
        (memcmp(buf + spaces, "get ", 4) == 0 || memcmp(buf + spaces, "gets ", 5) == 0 ||
         memcmp(buf + spaces, "gat ", 4) == 0 || memcmp(buf + spaces, "gats ", 5) == 0))
        return MC_MORE;
    req->line_bytes = len;
    req->close = 1;
    return MC_MALFORMED;
}

enum mc_outcome ref_parse(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    const u_u8 *end = len != 0 ? memchr(buf, '\n', len) : NULL;
    struct words words;
    size_t i;

    memset(req, 0, sizeof *req);
    if (end == NULL)
        return no_line(buf, len, req);
    req->line_bytes = (u_u32)(end + 1 - buf);
    if (req->line_bytes < 4)
        return bad(req, BAD_FORMAT, 0);
    if (end[-1] == '\r')
        end--;
    split(buf, (u_u32)(end - buf), &words);
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (buf[0] != ' ' && words.count > 0 && word_is(&words, 0, names[i].name)) {
            req->command = names[i].command;
            if (words.count - 1 < names[i].args_min)
                return bad(req, BAD_FORMAT, 0);
            return known(&words, end, req);
        }
    return unknown(&words, req);
}

int ref_same(const struct mc_request *a, const struct mc_request *b)
{
    int errors =
        a->error == NULL || b->error == NULL
            ? a->error == b->error
            : a->error_len == b->error_len && memcmp(a->error, b->error, a->error_len) == 0;

    /* Where there are no arguments, where they would stand does not matter. */
    int args = a->args_len == b->args_len && (a->args_len == 0 || a->args == b->args);

    /* A decoded key stands in the request itself. */
    int keys = a->key == b->key;

    if (mc_command_is_meta(a->command) && a->key != NULL && b->key != NULL)
        keys = ref_meta_same(a, b);
    return errors && args && keys && a->command == b->command && a->line_bytes == b->line_bytes &&
           a->noreply == b->noreply && a->key_len == b->key_len && a->flags == b->flags &&
           a->exptime == b->exptime && a->value_bytes == b->value_bytes && a->cas == b->cas &&
           a->delta == b->delta && a->level == b->level && a->error_len == b->error_len &&
           a->discard_bytes == b->discard_bytes && a->close == b->close;
}
