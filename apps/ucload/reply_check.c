/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks every byte of the replies; see pipeline.h.
 *
 * A hit or a one-line reply that is received in one piece is compared as a whole. Everything else
 * goes through phases: the head (a line, or a binary header with extras and key), which is
 * collected if it arrives in parts; the value; the end.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/wire.h"
#include "mcproto/mcproto.h"
#include "pipeline.h"

#define LINE_END "\r\n"
#define LINE_END_BYTES 2
#define GET_END "\r\nEND\r\n"
#define GET_END_BYTES ((uint32_t)sizeof(GET_END) - 1)
#define STAT_CYCLES "STAT cycles_busy "
#define SHOWN_MAX 60
#define FEW_BYTES 64

/* ---- errors ---------------------------------------------------------------------------- */

/* Converts bytes of a reply to printable text. */
static void show(char text[SHOWN_MAX + 1], const uint8_t *bytes, uint32_t len)
{
    uint32_t n = 0, i;

    for (i = 0; i < len && n < SHOWN_MAX && bytes[i] != '\r' && bytes[i] != '\n'; i++)
        text[n++] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '.';
    text[n] = '\0';
}

static void report(struct pipeline *s, const char *what, const uint8_t *head, uint32_t len)
{
    char shown[SHOWN_MAX + 1];
    char key[LOAD_KEY_MAX + 1];
    uint64_t id;
    uint32_t n;

    if (s->ctx->error[0] != '\0')
        return;
    show(shown, head, len);
    id = pipeline_oldest_ids(s)[0];
    n = load_key_write(key, id, keyspace_key_bytes(s->ctx->keys, id));
    snprintf(s->ctx->error, PIPELINE_ERROR_MAX, "%s: %s of key %.*s%s was answered by \"%s\"", what,
             op_names[pipeline_oldest(s)->op], (int)u_min32(n, SHOWN_MAX), key,
             pipeline_oldest(s)->keys > 1 ? " and others" : "", shown);
}

static int not_a_reply(struct pipeline *s, const uint8_t *head, uint32_t len)
{
    s->ctx->tally.wrong++;
    report(s, "not a reply", head, len);
    return -1;
}

static int unexpected(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    char shown[SHOWN_MAX + 1];

    s->ctx->tally.wrong++;
    show(shown, data, len);
    if (s->ctx->error[0] == '\0')
        snprintf(s->ctx->error, PIPELINE_ERROR_MAX, "reply without a request: \"%s\"", shown);
    return -1;
}

/* Counts an error reply. */
static void refuse(struct pipeline *s, const uint8_t *text, uint32_t len)
{
    s->ctx->tally.refused++;
    report(s, "refused", text, len);
}

/* ---- phases ------------------------------------------------------------------------------ */

/* Lets a request follow: a set after a miss, a cas after the hit of its gets. */
static void follow(struct pipeline *s, const struct pending *p, uint32_t hits)
{
    struct thread_ctx *ctx = s->ctx;
    bool fills = ctx->fill && hits == 0 && op_reads_value((enum op)p->op);

    if (p->keys != 1 || (!fills && (p->op != OP_GETS || hits == 0)) ||
        ctx->followup_count == PIPELINE_FOLLOWUPS_MAX)
        return;
    ctx->followups[ctx->followup_count++] =
        (struct followup){.id = p->id, .unique = s->reply_unique, .op = fills ? OP_SET : OP_CAS};
}

static void finish(struct pipeline *s, uint32_t hits)
{
    const struct pending *p = pipeline_oldest(s);

    s->phase = REPLY_HEAD;
    s->reply_key = 0;
    s->reply_hits = 0;
    follow(s, p, hits);
    pipeline_complete(s, (enum op)p->op, p->keys, hits);
}

/* Counts a hit after its value was received completely. */
static void value_done(struct pipeline *s)
{
    bool one_of_several = pipeline_oldest(s)->keys > 1;

    s->reply_hits++;
    if (s->value_wrong) {
        s->value_wrong = false;
        s->ctx->tally.wrong++;
        report(s, "not its value", (const uint8_t *)"another value", 13);
    }
    s->phase = REPLY_HEAD;
    /* In text protocols END follows; a get of several keys has a separate end in every protocol. */
    if (!one_of_several && s->ctx->templates->protocol != PROTOCOL_TEXT)
        finish(s, s->reply_hits);
}

/* A cas whose value had changed is answered: the key was found. */
static void finish_exists(struct pipeline *s)
{
    if (pipeline_oldest(s)->at_ns >= s->ctx->record_from_ns)
        s->ctx->tally.exists++;
    finish(s, 1);
}

/* Whether a value of `once` bytes may have `bytes` bytes: append and prepend repeat it. */
static inline bool is_size(const struct pipeline *s, uint32_t once, uint32_t bytes)
{
    return bytes == once || (s->ctx->grown && bytes > 0 && once > 0 && bytes % once == 0);
}

/* Expects the value of key number `key` of the oldest request, with `bytes` bytes. */
static void expect_value(struct pipeline *s, uint32_t key, uint32_t bytes)
{
    s->reply_key = key + 1;
    s->expect = NULL;
    s->value_wrong = false;
    if (s->ctx->verify) {
        uint64_t id = pipeline_oldest_ids(s)[key];

        s->expect_bytes = keyspace_value_bytes(s->ctx->keys, id);
        s->expect_at = 0;
        s->value_wrong = !is_size(s, s->expect_bytes, bytes);
        if (!s->value_wrong)
            s->expect = keyspace_value(s->ctx->keys, id);
    }
    s->phase = REPLY_VALUE;
    s->left = bytes;
}

/* Moves on after the last byte of a value. */
static void value_ended(struct pipeline *s)
{
    if (s->ctx->templates->protocol == PROTOCOL_BINARY) {
        value_done(s);
        return;
    }
    s->phase = REPLY_TAIL;
    s->left = LINE_END_BYTES;
}

static uint32_t take_value(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len), done, part;

    for (done = 0; s->expect && done < n; done += part) {
        part = u_min32(n - done, s->expect_bytes - s->expect_at);
        if (memcmp(data + done, s->expect + s->expect_at, part) != 0)
            s->value_wrong = true;
        s->expect_at = s->expect_at + part < s->expect_bytes ? s->expect_at + part : 0;
    }
    s->left -= n;
    if (s->left == 0)
        value_ended(s);
    return n;
}

static int take_tail(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len);

    if (memcmp(data, &LINE_END[LINE_END_BYTES - s->left], n) != 0)
        return not_a_reply(s, data, len);
    s->left -= n;
    if (s->left == 0)
        value_done(s);
    return (int)n;
}

/* The text of a binary error is complete. */
static void skip_done(struct pipeline *s)
{
    bool changed = s->changed;

    s->changed = false;
    if (changed)
        finish_exists(s);
    else
        finish(s, 0);
}

/* Skips the text of a binary error. */
static uint32_t take_skip(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len);

    s->left -= n;
    if (s->left == 0)
        skip_done(s);
    return n;
}

/* ---- lines ------------------------------------------------------------------------------- */

static bool line_is(const uint8_t *line, uint32_t len, const char *text)
{
    return len == strlen(text) && memcmp(line, text, len) == 0;
}

static bool line_begins(const uint8_t *line, uint32_t len, const char *text)
{
    return len >= strlen(text) && memcmp(line, text, strlen(text)) == 0;
}

static bool is_refusal(const uint8_t *line, uint32_t len)
{
    return line_begins(line, len, "SERVER_ERROR ") || line_begins(line, len, "CLIENT_ERROR ") ||
           line_is(line, len, "ERROR\r\n") || line_is(line, len, "NOT_STORED\r\n") ||
           line_is(line, len, "NS\r\n");
}

/* Parses the number at *at, before `end`. */
static bool read_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    const uint8_t *start = *at;

    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > start && *at - start <= MC_NUMBER_MAX;
}

/* Whether the line is a number. */
static bool is_number(const uint8_t *line, uint32_t len)
{
    const uint8_t *end = line + len - LINE_END_BYTES;
    uint64_t number;

    return len > LINE_END_BYTES && read_number(&line, end, &number) && line == end;
}

/* Whether the line ends with the unique number, if one was requested, which is stored. */
static bool ends_with_unique(struct pipeline *s, const uint8_t *at, const uint8_t *end)
{
    bool meta = s->ctx->templates->protocol == PROTOCOL_META;

    if (pipeline_oldest(s)->op != OP_GETS)
        return at == end;
    if (at == end || *at++ != ' ' || (meta && (at == end || *at++ != 'c')))
        return false;
    return read_number(&at, end, &s->reply_unique) && at == end;
}

/*
 * Whether the line is "VALUE <key> <flags> <bytes>" for this key, with any flags and length, and
 * the unique number of a gets; for meta "VA <bytes>", followed by " c<number>", or by " k<key>" in
 * a reply of several keys.
 */
static bool is_hit(struct pipeline *s, uint64_t id, const uint8_t *line, uint32_t len,
                   uint32_t *bytes)
{
    bool meta = s->ctx->templates->protocol == PROTOCOL_META;
    const uint8_t *end = line + len - LINE_END_BYTES;
    const uint8_t *at = line + (meta ? 3 : 6);
    uint32_t key_bytes = keyspace_key_bytes(s->ctx->keys, id);
    bool keyed = !meta || pipeline_oldest(s)->keys > 1;
    uint64_t number;
    char key[LOAD_KEY_MAX];

    if (!line_begins(line, len, meta ? "VA " : "VALUE "))
        return false;
    load_key_write(key, id, key_bytes);
    if (!meta) {
        if (end - at < (long)key_bytes + 1 || memcmp(at, key, key_bytes) != 0)
            return false;
        at += key_bytes;
        if (*at++ != ' ' || !read_number(&at, end, &number) || at == end || *at++ != ' ')
            return false;
    }
    if (!read_number(&at, end, &number) || number > KEYSPACE_VALUE_MAX)
        return false;
    *bytes = (uint32_t)number;
    if (meta && keyed)
        return end - at == (long)key_bytes + 2 && at[0] == ' ' && at[1] == 'k' &&
               memcmp(at + 2, key, key_bytes) == 0;
    return ends_with_unique(s, at, end);
}

/*
 * Handles a line of the reply to a get: the hit of one of the remaining keys, the end, or an error.
 */
static int get_line(struct pipeline *s, const uint8_t *line, uint32_t len)
{
    const struct pending *p = pipeline_oldest(s);
    bool meta = s->ctx->templates->protocol == PROTOCOL_META;
    const char *end = !meta ? "END\r\n" : p->keys > 1 ? "MN\r\n" : "EN\r\n";
    uint32_t key, bytes;

    if (line_is(line, len, end)) {
        finish(s, s->reply_hits);
        return 0;
    }
    for (key = s->reply_key; key < p->keys; key++) {
        if (!is_hit(s, pipeline_oldest_ids(s)[key], line, len, &bytes))
            continue;
        expect_value(s, key, bytes);
        if (s->left == 0)
            value_ended(s);
        return 0;
    }
    if (!is_refusal(line, len))
        return not_a_reply(s, line, len);
    refuse(s, line, len);
    finish(s, s->reply_hits);
    return 0;
}

/* A line with its end; length 0: none. */
struct answer {
    uint8_t len;
    char line[15];
};

/* The replies for success and for a missing key. */
static const struct answer answers[2][OP_COUNT][2] = {
    [PROTOCOL_TEXT] = {[OP_SET] = {{8, "STORED\r\n"}, {0}},
                       [OP_DELETE] = {{9, "DELETED\r\n"}, {11, "NOT_FOUND\r\n"}},
                       [OP_INCR] = {{0}, {11, "NOT_FOUND\r\n"}},
                       [OP_TOUCH] = {{9, "TOUCHED\r\n"}, {11, "NOT_FOUND\r\n"}},
                       [OP_DECR] = {{0}, {11, "NOT_FOUND\r\n"}},
                       [OP_APPEND] = {{8, "STORED\r\n"}, {12, "NOT_STORED\r\n"}},
                       [OP_PREPEND] = {{8, "STORED\r\n"}, {12, "NOT_STORED\r\n"}},
                       [OP_CAS] = {{8, "STORED\r\n"}, {11, "NOT_FOUND\r\n"}},
                       [OP_CREATE] = {{8, "STORED\r\n"}, {0}}},
    [PROTOCOL_META] = {[OP_SET] = {{4, "HD\r\n"}, {0}},
                       [OP_DELETE] = {{4, "HD\r\n"}, {4, "NF\r\n"}},
                       [OP_INCR] = {{0}, {4, "NF\r\n"}},
                       [OP_TOUCH] = {{4, "HD\r\n"}, {4, "EN\r\n"}},
                       [OP_DECR] = {{0}, {4, "NF\r\n"}},
                       [OP_APPEND] = {{4, "HD\r\n"}, {4, "NS\r\n"}},
                       [OP_PREPEND] = {{4, "HD\r\n"}, {4, "NS\r\n"}},
                       [OP_CAS] = {{4, "HD\r\n"}, {4, "NF\r\n"}},
                       [OP_CREATE] = {{4, "HD\r\n"}, {0}}},
};

/* The reply to a cas of a value that has changed. */
static const struct answer exists_answers[2] = {
    [PROTOCOL_TEXT] = {8, "EXISTS\r\n"}, [PROTOCOL_META] = {4, "EX\r\n"}};

/* Whether the bytes start with this line. */
static bool begins_with_answer(const struct answer *answer, const uint8_t *data, uint32_t len)
{
    return answer->len > 0 && len >= answer->len && memcmp(data, answer->line, answer->len) == 0;
}

/* Handles the result of incr and decr: a line, or a value in meta. */
static bool is_count(struct pipeline *s, const uint8_t *line, uint32_t len)
{
    const uint8_t *at = line + 3, *end = line + len - LINE_END_BYTES;
    uint64_t bytes;

    if (s->ctx->templates->protocol == PROTOCOL_TEXT) {
        if (!is_number(line, len))
            return false;
        finish(s, 1);
        return true;
    }
    if (!line_begins(line, len, "VA ") || !read_number(&at, end, &bytes) || at != end ||
        bytes == 0 || bytes > MC_NUMBER_MAX)
        return false;
    s->expect = NULL;
    s->phase = REPLY_VALUE;
    s->left = (uint32_t)bytes;
    return true;
}

/* Handles a line of the server's statistics. */
static int stats_line(struct pipeline *s, const uint8_t *line, uint32_t len)
{
    const uint8_t *at = line + sizeof(STAT_CYCLES) - 1;

    if (line_is(line, len, "END\r\n")) {
        finish(s, 0);
    } else if (is_refusal(line, len)) {
        refuse(s, line, len);
        finish(s, 0);
    } else if (!line_begins(line, len, "STAT ")) {
        return not_a_reply(s, line, len);
    } else if (line_begins(line, len, STAT_CYCLES)) {
        (void)read_number(&at, line + len - LINE_END_BYTES, &s->ctx->server_cycles);
    }
    return 0;
}

static int take_line(struct pipeline *s, const uint8_t *line, uint32_t len)
{
    enum op op = (enum op)pipeline_oldest(s)->op;
    const struct answer *answer;

    if (len < LINE_END_BYTES || line[len - 2] != '\r')
        return not_a_reply(s, line, len);
    if (op_reads_value(op))
        return get_line(s, line, len);
    if (op == OP_STATS)
        return stats_line(s, line, len);
    answer = answers[s->ctx->templates->protocol][op];
    if (begins_with_answer(&answer[0], line, len)) {
        finish(s, 1);
    } else if (begins_with_answer(&answer[1], line, len)) {
        finish(s, 0);
    } else if (op == OP_CAS &&
               begins_with_answer(&exists_answers[s->ctx->templates->protocol], line, len)) {
        finish_exists(s);
    } else if (is_refusal(line, len)) {
        refuse(s, line, len);
        finish(s, 0);
    } else if (!op_counts(op) || !is_count(s, line, len)) {
        return not_a_reply(s, line, len);
    }
    return 0;
}

/* ---- binary ------------------------------------------------------------------------------ */

static uint32_t be32_at(const uint8_t *at)
{
    struct u_be32 be;

    memcpy(&be, at, sizeof(be));
    return u_get_be32(be);
}

static uint32_t be16_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

/* Handles a hit of one of several keys; the reply contains the key. */
static int binary_multi_hit(struct pipeline *s, const uint8_t *head, uint32_t len, uint32_t bytes)
{
    const struct pending *p = pipeline_oldest(s);
    uint32_t key_bytes = be16_at(head + 2);
    char key[LOAD_KEY_MAX];
    uint32_t i;

    for (i = s->reply_key; i < p->keys; i++) {
        uint64_t id = pipeline_oldest_ids(s)[i];

        if (keyspace_key_bytes(s->ctx->keys, id) != key_bytes)
            continue;
        load_key_write(key, id, key_bytes);
        if (memcmp(head + len - key_bytes, key, key_bytes) == 0) {
            expect_value(s, i, bytes);
            return 0;
        }
    }
    return not_a_reply(s, head, len);
}

static int binary_success(struct pipeline *s, const uint8_t *head, uint32_t len, uint32_t bytes)
{
    const struct pending *p = pipeline_oldest(s);
    uint8_t opcode = head[1];
    uint32_t beyond = len - BINARY_HEADER_BYTES; /* extras and key */
    int rc = 0;

    if (p->op == OP_GET && p->keys > 1) {
        if (opcode == s->ctx->templates->list[TEMPLATE_MULTI_END]->opcode) {
            if (beyond + bytes > 0)
                return not_a_reply(s, head, len);
            finish(s, s->reply_hits);
            return 0;
        }
        rc = head[4] == 4 ? binary_multi_hit(s, head, len, bytes) : not_a_reply(s, head, len);
    } else if (op_reads_value((enum op)p->op)) {
        if (beyond != 4 || head[4] != 4)
            return not_a_reply(s, head, len);
        s->reply_unique = (uint64_t)be32_at(head + 16) << 32 | be32_at(head + 20);
        expect_value(s, 0, bytes);
    } else if (op_counts((enum op)p->op)) {
        if (beyond != 0 || bytes != 8)
            return not_a_reply(s, head, len);
        s->expect = NULL;
        s->phase = REPLY_VALUE;
        s->left = bytes;
    } else {
        if (beyond + bytes > 0 && !(p->op == OP_TOUCH && beyond + bytes == 4))
            return not_a_reply(s, head, len);
        s->left = bytes;
        finish(s, 1);
    }
    if (rc == 0 && s->phase == REPLY_VALUE && s->left == 0)
        value_ended(s);
    return rc;
}

/* Handles an error status; some only say that a key is missing, or has changed. */
static int binary_failure(struct pipeline *s, const uint8_t *head, uint32_t len, uint32_t bytes)
{
    enum op op = (enum op)pipeline_oldest(s)->op;
    uint32_t status = be16_at(head + 6);
    bool missing = status == MC_BINARY_NOT_FOUND ||
                   (status == MC_BINARY_NOT_STORED && (op == OP_APPEND || op == OP_PREPEND));

    if (len != BINARY_HEADER_BYTES)
        return not_a_reply(s, head, len);
    s->changed = status == MC_BINARY_EXISTS && op == OP_CAS;
    if (!missing && !s->changed)
        refuse(s, (const uint8_t *)"an error status", 15);
    s->phase = REPLY_SKIP;
    s->left = bytes;
    if (bytes == 0)
        skip_done(s);
    return 0;
}

static int take_binary(struct pipeline *s, const uint8_t *head, uint32_t len)
{
    const struct pending *p = pipeline_oldest(s);
    const struct templates *templates = s->ctx->templates;
    uint32_t status = be16_at(head + 6);
    uint32_t bytes = be32_at(head + 8) - (len - BINARY_HEADER_BYTES);
    uint8_t opcode =
        templates->list[p->keys > 1 ? TEMPLATE_MULTI_FIRST : (enum template_kind)p->op]->opcode;

    if (head[1] != opcode &&
        !(p->keys > 1 && head[1] == templates->list[TEMPLATE_MULTI_END]->opcode))
        return not_a_reply(s, head, len);
    if (be32_at(head + 12) != s->head)
        return not_a_reply(s, head, len);
    if (status == MC_BINARY_OK)
        return binary_success(s, head, len, bytes);
    return binary_failure(s, head, len, bytes);
}

/* ---- heads ------------------------------------------------------------------------------- */

/* The length of the head at the start of the bytes; 0: incomplete; -1: not a reply. */
static int head_bytes(const struct pipeline *s, const uint8_t *data, uint32_t len)
{
    const uint8_t *end;
    uint32_t total;

    if (s->ctx->templates->protocol != PROTOCOL_BINARY) {
        end = memchr(data, '\n', len);
        return end ? (int)(end - data) + 1 : 0;
    }
    if (data[0] != MC_BINARY_MAGIC_REPLY)
        return -1;
    if (len < BINARY_HEADER_BYTES)
        return 0;
    total = BINARY_HEADER_BYTES + data[4] + be16_at(data + 2);
    if (total > PIPELINE_HEAD_MAX || be32_at(data + 8) < total - BINARY_HEADER_BYTES ||
        be32_at(data + 8) > KEYSPACE_VALUE_MAX + PIPELINE_HEAD_MAX)
        return -1;
    return len >= total ? (int)total : 0;
}

static int take_complete(struct pipeline *s, const uint8_t *head, uint32_t len)
{
    if (s->ctx->templates->protocol == PROTOCOL_BINARY)
        return take_binary(s, head, len);
    return take_line(s, head, len);
}

/* Collects a head that arrives in parts. Returns the bytes taken of data, or -1. */
static int gather(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    uint32_t before = s->gathered;
    uint32_t n = u_min32(len, PIPELINE_HEAD_MAX - before);
    int total;

    memcpy(s->gather + before, data, n);
    s->gathered += n;
    total = head_bytes(s, s->gather, s->gathered);
    if (total < 0 || (total == 0 && s->gathered == PIPELINE_HEAD_MAX))
        return not_a_reply(s, s->gather, s->gathered);
    if (total == 0)
        return (int)n;
    s->gathered = 0;
    if (take_complete(s, s->gather, (uint32_t)total) < 0)
        return -1;
    return total - (int)before;
}

static int take_head(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    int total;

    if (pipeline_in_flight(s) == 0)
        return unexpected(s, data, len);
    if (s->gathered > 0)
        return gather(s, data, len);
    total = head_bytes(s, data, len);
    if (total < 0)
        return not_a_reply(s, data, len);
    if (total == 0)
        return gather(s, data, len);
    return take_complete(s, data, (uint32_t)total) < 0 ? -1 : total;
}

/* ---- complete replies ---------------------------------------------------------------------- */

/* Compares n bytes; short values by words, of which the last may overlap. */
static inline bool same_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    uint64_t x, y;
    uint32_t i;

    if (n < sizeof(x) || n > FEW_BYTES)
        return memcmp(a, b, n) == 0;
    for (i = 0; i < n - sizeof(x); i += sizeof(x)) {
        memcpy(&x, a + i, sizeof(x));
        memcpy(&y, b + i, sizeof(y));
        if (x != y)
            return false;
    }
    memcpy(&x, a + n - sizeof(x), sizeof(x));
    memcpy(&y, b + n - sizeof(y), sizeof(y));
    return x == y;
}

/* Whether the end of a get reply is here; compared as one word together with the byte before. */
static inline bool is_get_end(const uint8_t *data)
{
    const uint8_t end[8] = {0, '\r', '\n', 'E', 'N', 'D', '\r', '\n'};
    const uint8_t which[8] = {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    return ((template_word(data - 1) ^ template_word(end)) & template_word(which)) == 0;
}

/* Whether the value and the end of a hit follow, behind its head. */
static inline bool is_value_and_end(const struct thread_ctx *ctx, uint64_t id, uint32_t bytes,
                                    const uint8_t *data)
{
    return is_get_end(data + bytes) &&
           (!ctx->verify || same_bytes(data, keyspace_value(ctx->keys, id), bytes));
}

/* Takes a complete hit when sizes vary. Returns its length, or 0. */
static uint32_t take_hit_of_any_size(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    const struct thread_ctx *ctx = s->ctx;
    const struct pending *p = pipeline_oldest(s);
    uint32_t bytes = keyspace_value_bytes(ctx->keys, p->id);
    uint8_t expect[TEMPLATE_ROOM];
    uint32_t head;

    if (p->keys != 1 || ctx->templates->protocol != PROTOCOL_TEXT)
        return 0;
    head = template_write(ctx->templates, templates_get(ctx->templates, TEMPLATE_HIT, p->id),
                          p->word, bytes, 0, expect);
    if (len < head + bytes + GET_END_BYTES || memcmp(data, expect, head) != 0 ||
        !is_value_and_end(ctx, p->id, bytes, data + head))
        return 0;
    pipeline_complete(s, (enum op)p->op, 1, 1);
    return head + bytes + GET_END_BYTES;
}

/* Takes a complete reply other than a hit of fixed size. Returns its length, or 0. */
static __attribute__((noinline)) uint32_t take_other_reply(struct pipeline *s, const uint8_t *data,
                                                           uint32_t len)
{
    enum op op = (enum op)pipeline_oldest(s)->op;
    const struct answer *answer;

    if (op == OP_GET || op == OP_GAT)
        return take_hit_of_any_size(s, data, len);
    if (s->ctx->templates->protocol == PROTOCOL_BINARY)
        return 0;
    answer = &answers[s->ctx->templates->protocol][op][0];
    if (!begins_with_answer(answer, data, len))
        return 0;
    pipeline_complete(s, op, 1, 1);
    return answer->len;
}

/*
 * Takes a complete reply: a hit of one key, or the line for success. Returns its length, or 0 if
 * the general code must handle it. Only between two replies.
 */
static inline uint32_t take_whole_reply(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    const struct thread_ctx *ctx = s->ctx;
    const struct pending *p = pipeline_oldest(s);
    const struct template *template = ctx->templates->whole[TEMPLATE_HIT];
    uint32_t bytes = ctx->keys->value_bytes_max;
    uint32_t total;

    if (s->head == s->tail)
        return 0;
    if (p->keys != 1 || p->op != OP_GET || !template)
        return take_other_reply(s, data, len);
    total = template->len + bytes + GET_END_BYTES;
    if (len < total || !template_matches(template, p->word, data) ||
        !is_value_and_end(ctx, p->id, bytes, data + template->len))
        return 0;
    pipeline_complete(s, OP_GET, 1, 1);
    return total;
}

/* Takes bytes in the present phase. Returns the bytes taken, or -1. */
static int take_by_phase(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    switch (s->phase) {
    case REPLY_HEAD:
        return take_head(s, data, len);
    case REPLY_VALUE:
        return (int)take_value(s, data, len);
    case REPLY_SKIP:
        return (int)take_skip(s, data, len);
    case REPLY_TAIL:
        break;
    }
    return take_tail(s, data, len);
}

/* The same, and updates in_reply. */
static int take_piece(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    int n = take_by_phase(s, data, len);

    s->in_reply = s->phase != REPLY_HEAD || s->gathered > 0 || s->reply_key > 0;
    return n;
}

/* Handles everything except one complete hit. */
static __attribute__((noinline)) int receive_parts(struct pipeline *s, const uint8_t *data,
                                                   uint32_t len)
{
    int n;

    while (len > 0) {
        n = s->in_reply ? 0 : (int)take_whole_reply(s, data, len);
        if (n == 0)
            n = take_piece(s, data, len);
        if (n < 0)
            return -1;
        data += n;
        len -= (uint32_t)n;
    }
    return 0;
}

int pipeline_receive(struct pipeline *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = s->in_reply ? 0 : take_whole_reply(s, data, len);

    s->ctx->tally.bytes_in += len;
    return n == len ? 0 : receive_parts(s, data + n, len - n);
}
