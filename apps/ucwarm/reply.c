/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading lines of servers; see reply.h. */
#include "reply.h"

#include <string.h>

/* The next word of [*at, end), separated by blanks; false at the end. */
static bool next_word(const char **at, const char *end, const char **word, size_t *len)
{
    const u_u8 *from = (const u_u8 *)*at;
    const u_u8 *token;
    u_u32 token_len;

    if (!mc_token_next(&from, (const u_u8 *)end, &token, &token_len))
        return false;
    *at = (const char *)from;
    *word = (const char *)token;
    *len = token_len;
    return true;
}

/* Digits only, at most 18; false otherwise. */
static bool read_number(const char *text, size_t len, int64_t *number)
{
    int64_t n = 0;

    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        n = n * 10 + (text[i] - '0');
    }
    *number = n;
    return true;
}

/* A number, or -1: never. */
static bool read_time(const char *text, size_t len, int64_t *number)
{
    *number = REPLY_EXPIRES_NEVER;
    return (len == 2 && memcmp(text, "-1", 2) == 0) || read_number(text, len, number);
}

/* The flags that a hit returns. */
static bool read_flags(struct reply *reply, const char *at, const char *end)
{
    const char *word;
    int64_t number;
    size_t len;

    while (next_word(&at, end, &word, &len)) {
        if (word[0] == 'f') {
            if (!read_number(word + 1, len - 1, &number) || number > UINT32_MAX)
                return false;
            reply->flags = (uint32_t)number;
        } else if (word[0] == 't') {
            if (!read_time(word + 1, len - 1, &reply->ttl_s))
                return false;
        } else if (word[0] == 'X') {
            reply->stale = true;
        }
    }
    return true;
}

static enum reply_code code_of(const char *word, size_t len)
{
    static const struct {
        char word[3];
        enum reply_code code;
    } codes[] = {
        {"VA", REPLY_VALUE}, {"HD", REPLY_DONE},       {"EN", REPLY_MISS},
        {"NF", REPLY_MISS},  {"NS", REPLY_STORED_NOT},
    };

    for (size_t i = 0; len == 2 && i < sizeof(codes) / sizeof(codes[0]); i++)
        if (memcmp(codes[i].word, word, 2) == 0)
            return codes[i].code;
    return REPLY_REFUSED;
}

void reply_read(struct reply *reply, const char *line, size_t len)
{
    const char *end = line + len;
    const char *at = line;
    const char *word = line;
    size_t word_len = 0;
    int64_t bytes;

    *reply = (struct reply){
        .code = REPLY_REFUSED, .ttl_s = REPLY_EXPIRES_NEVER, .line = line, .line_len = len};
    if (!next_word(&at, end, &word, &word_len))
        return;
    reply->code = code_of(word, word_len);
    if (reply->code == REPLY_VALUE) {
        if (!next_word(&at, end, &word, &word_len) || !read_number(word, word_len, &bytes) ||
            bytes > MC_VALUE_MAX)
            reply->code = REPLY_REFUSED;
        else
            reply->value_bytes = (uint32_t)bytes;
    }
    if (reply->code <= REPLY_DONE && !read_flags(reply, at, end))
        reply->code = REPLY_REFUSED;
}

/* ---- dumps ------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes "%20" and the like. */
static bool read_key(struct dump_item *item, const char *text, size_t len)
{
    item->key_len = 0;
    for (size_t i = 0; i < len; i++) {
        int byte = (uint8_t)text[i];

        if (item->key_len == MC_KEY_MAX)
            return false;
        if (text[i] == '%') {
            if (len - i < 3 || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
                return false;
            byte = hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]);
            i += 2;
        }
        item->key[item->key_len++] = (uint8_t)byte;
    }
    return item->key_len > 0;
}

bool reply_read_dump(struct dump_item *item, const char *line, size_t len)
{
    const char *end = line + len;
    const char *at = line;
    const char *word;
    int64_t bytes = 0;
    size_t n;

    item->expires_s = REPLY_EXPIRES_NEVER;
    if (!next_word(&at, end, &word, &n) || n < 5 || memcmp(word, "key=", 4) != 0 ||
        !read_key(item, word + 4, n - 4))
        return false;
    while (next_word(&at, end, &word, &n)) {
        if (n > 4 && memcmp(word, "exp=", 4) == 0 && !read_time(word + 4, n - 4, &item->expires_s))
            return false;
        if (n > 5 && memcmp(word, "size=", 5) == 0 && !read_number(word + 5, n - 5, &bytes))
            return false;
    }
    item->bytes = (uint64_t)bytes;
    return true;
}
