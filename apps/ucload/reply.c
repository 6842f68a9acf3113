/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies, byte by byte against what they have to be; see session.h.
 *
 * The reply that nearly always comes, a hit that lies in one piece, is compared as a whole. All
 * else goes through the phases: a head (a line, or a binary header with extras and key), which is
 * gathered if it comes in pieces; the value; what stands behind it.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/wire.h"
#include "mcproto/mcproto.h"
#include "session.h"

#define LINE_END "\r\n"
#define LINE_END_BYTES 2
#define GET_END "\r\nEND\r\n"
#define GET_END_BYTES ((uint32_t)sizeof(GET_END) - 1)
#define STAT_CYCLES "STAT cycles_busy "
#define SHOWN_MAX 60
#define FEW_BYTES 64

/* ---- what goes wrong --------------------------------------------------------------------- */

/* Bytes of a reply as a text that can be printed. */
static void show(char text[SHOWN_MAX + 1], const uint8_t *bytes, uint32_t len)
{
    uint32_t n = 0, i;

    for (i = 0; i < len && n < SHOWN_MAX && bytes[i] != '\r' && bytes[i] != '\n'; i++)
        text[n++] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '.';
    text[n] = '\0';
}

static const char *const op_names[OP_COUNT] = {"get",   "set", "delete", "incr",
                                               "touch", "set", "stats"};

static void tell(struct session *s, const char *what, const uint8_t *head, uint32_t len)
{
    char shown[SHOWN_MAX + 1];
    char key[LOAD_KEY_MAX + 1];
    uint64_t id;
    uint32_t n;

    if (s->talk->error[0] != '\0')
        return;
    show(shown, head, len);
    id = session_oldest_ids(s)[0];
    n = load_key_write(key, id, keyspace_key_bytes(s->talk->keys, id));
    snprintf(s->talk->error, SESSION_ERROR_MAX, "%s: %s of key %.*s%s was answered by \"%s\"", what,
             op_names[session_oldest(s)->op], (int)u_min32(n, SHOWN_MAX), key,
             session_oldest(s)->keys > 1 ? " and others" : "", shown);
}

static int not_a_reply(struct session *s, const uint8_t *head, uint32_t len)
{
    s->talk->tally.wrong++;
    tell(s, "not a reply", head, len);
    return -1;
}

static int unasked(struct session *s, const uint8_t *data, uint32_t len)
{
    char shown[SHOWN_MAX + 1];

    s->talk->tally.wrong++;
    show(shown, data, len);
    if (s->talk->error[0] == '\0')
        snprintf(s->talk->error, SESSION_ERROR_MAX, "nothing was asked, but \"%s\" came", shown);
    return -1;
}

/* The server says that it could not. */
static void refuse(struct session *s, const uint8_t *text, uint32_t len)
{
    s->talk->tally.refused++;
    tell(s, "refused", text, len);
}

/* ---- phases ------------------------------------------------------------------------------ */

static void finish(struct session *s, uint32_t hits)
{
    const struct pending *p = session_oldest(s);
    struct talk *talk = s->talk;

    s->phase = REPLY_HEAD;
    s->reply_key = 0;
    s->reply_hits = 0;
    if (talk->fill && hits == 0 && p->op == OP_GET && p->keys == 1 &&
        talk->missed_count < SESSION_MISSED_MAX)
        talk->missed[talk->missed_count++] = p->id;
    session_count(s, (enum op)p->op, p->keys, hits);
}

/* One of the keys was there and its value is through. */
static void value_done(struct session *s)
{
    bool one_of_several = session_oldest(s)->keys > 1;

    s->reply_hits++;
    if (s->value_wrong) {
        s->value_wrong = false;
        s->talk->tally.wrong++;
        tell(s, "not its value", (const uint8_t *)"another value", 13);
    }
    s->phase = REPLY_HEAD;
    /* In text an END follows; the end of several keys is a reply of its own in every protocol. */
    if (!one_of_several && s->talk->forms->protocol != PROTOCOL_TEXT)
        finish(s, s->reply_hits);
}

/* The value of the oldest request's key number `key` comes: `bytes` of it. */
static void expect_value(struct session *s, uint32_t key, uint32_t bytes)
{
    uint64_t id = session_oldest_ids(s)[key];

    s->reply_key = key + 1;
    s->expect = s->talk->verify ? keyspace_value(s->talk->keys, id) : NULL;
    s->value_wrong = s->talk->verify && bytes != keyspace_value_bytes(s->talk->keys, id);
    if (s->value_wrong)
        s->expect = NULL;
    s->phase = REPLY_VALUE;
    s->left = bytes;
}

/* What follows when all bytes of a value have come. */
static void value_ended(struct session *s)
{
    if (s->talk->forms->protocol == PROTOCOL_BINARY) {
        value_done(s);
        return;
    }
    s->phase = REPLY_TAIL;
    s->left = LINE_END_BYTES;
}

static uint32_t take_value(struct session *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len);

    if (s->expect) {
        if (memcmp(data, s->expect, n) != 0)
            s->value_wrong = true;
        s->expect += n;
    }
    s->left -= n;
    if (s->left == 0)
        value_ended(s);
    return n;
}

static int take_tail(struct session *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len);

    if (memcmp(data, &LINE_END[LINE_END_BYTES - s->left], n) != 0)
        return not_a_reply(s, data, len);
    s->left -= n;
    if (s->left == 0)
        value_done(s);
    return (int)n;
}

/* The text of a binary error. */
static uint32_t take_skip(struct session *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = u_min32(s->left, len);

    (void)data;
    s->left -= n;
    if (s->left == 0)
        finish(s, 0);
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

/* Reads the number at *at, which ends before `end`. */
static bool read_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    const uint8_t *start = *at;

    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > start && *at - start <= MC_NUMBER_MAX;
}

/* Whether a line is nothing but a number. */
static bool is_number(const uint8_t *line, uint32_t len)
{
    const uint8_t *end = line + len - LINE_END_BYTES;
    uint64_t number;

    return len > LINE_END_BYTES && read_number(&line, end, &number) && line == end;
}

/*
 * Whether the line is "VALUE <key> <flags> <bytes>" for this key, with any flags and length; for
 * meta "VA <bytes>", with " k<key>" behind it where several keys were asked for.
 */
static bool is_hit(const struct session *s, uint64_t id, const uint8_t *line, uint32_t len,
                   uint32_t *bytes)
{
    bool meta = s->talk->forms->protocol == PROTOCOL_META;
    const uint8_t *end = line + len - LINE_END_BYTES;
    const uint8_t *at = line + (meta ? 3 : 6);
    uint32_t key_bytes = keyspace_key_bytes(s->talk->keys, id);
    bool keyed = !meta || session_oldest(s)->keys > 1;
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
    return at == end;
}

/* The next of the keys that are left that this is the hit of. */
static int get_line(struct session *s, const uint8_t *line, uint32_t len)
{
    const struct pending *p = session_oldest(s);
    bool meta = s->talk->forms->protocol == PROTOCOL_META;
    const char *end = !meta ? "END\r\n" : p->keys > 1 ? "MN\r\n" : "EN\r\n";
    uint32_t key, bytes;

    if (line_is(line, len, end)) {
        finish(s, s->reply_hits);
        return 0;
    }
    for (key = s->reply_key; key < p->keys; key++) {
        if (!is_hit(s, session_oldest_ids(s)[key], line, len, &bytes))
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

/* A line, with its end; its length is 0 where there is none. */
struct answer {
    uint8_t len;
    char line[15];
};

/* The line that means yes, and the one that means that the key isn't there. */
static const struct answer answers[2][OP_COUNT][2] = {
    [PROTOCOL_TEXT] = {[OP_SET] = {{8, "STORED\r\n"}, {0}},
                       [OP_DELETE] = {{9, "DELETED\r\n"}, {11, "NOT_FOUND\r\n"}},
                       [OP_INCR] = {{0}, {11, "NOT_FOUND\r\n"}},
                       [OP_TOUCH] = {{9, "TOUCHED\r\n"}, {11, "NOT_FOUND\r\n"}},
                       [OP_CREATE] = {{8, "STORED\r\n"}, {0}}},
    [PROTOCOL_META] = {[OP_SET] = {{4, "HD\r\n"}, {0}},
                       [OP_DELETE] = {{4, "HD\r\n"}, {4, "NF\r\n"}},
                       [OP_INCR] = {{0}, {4, "NF\r\n"}},
                       [OP_TOUCH] = {{4, "HD\r\n"}, {4, "EN\r\n"}},
                       [OP_CREATE] = {{4, "HD\r\n"}, {0}}},
};

/* Whether these bytes begin with this answer. */
static bool begins_with_answer(const struct answer *answer, const uint8_t *data, uint32_t len)
{
    return answer->len > 0 && len >= answer->len && memcmp(data, answer->line, answer->len) == 0;
}

/* A number: the line itself, or with meta a value. */
static bool is_count(struct session *s, const uint8_t *line, uint32_t len)
{
    const uint8_t *at = line + 3, *end = line + len - LINE_END_BYTES;
    uint64_t bytes;

    if (s->talk->forms->protocol == PROTOCOL_TEXT) {
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

/* One of the server's statistics, or their end. */
static int stats_line(struct session *s, const uint8_t *line, uint32_t len)
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
        (void)read_number(&at, line + len - LINE_END_BYTES, &s->talk->server_cycles);
    }
    return 0;
}

static int take_line(struct session *s, const uint8_t *line, uint32_t len)
{
    enum op op = (enum op)session_oldest(s)->op;
    const struct answer *answer;

    if (len < LINE_END_BYTES || line[len - 2] != '\r')
        return not_a_reply(s, line, len);
    if (op == OP_GET)
        return get_line(s, line, len);
    if (op == OP_STATS)
        return stats_line(s, line, len);
    answer = answers[s->talk->forms->protocol][op];
    if (begins_with_answer(&answer[0], line, len)) {
        finish(s, 1);
    } else if (begins_with_answer(&answer[1], line, len)) {
        finish(s, 0);
    } else if (is_refusal(line, len)) {
        refuse(s, line, len);
        finish(s, 0);
    } else if (op != OP_INCR || !is_count(s, line, len)) {
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

/* A key of several was found: which one the reply itself says. */
static int binary_multi_hit(struct session *s, const uint8_t *head, uint32_t len, uint32_t bytes)
{
    const struct pending *p = session_oldest(s);
    uint32_t key_bytes = be16_at(head + 2);
    char key[LOAD_KEY_MAX];
    uint32_t i;

    for (i = s->reply_key; i < p->keys; i++) {
        uint64_t id = session_oldest_ids(s)[i];

        if (keyspace_key_bytes(s->talk->keys, id) != key_bytes)
            continue;
        load_key_write(key, id, key_bytes);
        if (memcmp(head + len - key_bytes, key, key_bytes) == 0) {
            expect_value(s, i, bytes);
            return 0;
        }
    }
    return not_a_reply(s, head, len);
}

static int binary_success(struct session *s, const uint8_t *head, uint32_t len, uint32_t bytes)
{
    const struct pending *p = session_oldest(s);
    uint8_t opcode = head[1];
    uint32_t beyond = len - BINARY_HEADER_BYTES; /* extras and key */
    int rc = 0;

    if (p->op == OP_GET && p->keys > 1) {
        if (opcode == s->talk->forms->list[FORM_MULTI_END]->opcode) {
            if (beyond + bytes > 0)
                return not_a_reply(s, head, len);
            finish(s, s->reply_hits);
            return 0;
        }
        rc = head[4] == 4 ? binary_multi_hit(s, head, len, bytes) : not_a_reply(s, head, len);
    } else if (p->op == OP_GET) {
        if (beyond != 4 || head[4] != 4)
            return not_a_reply(s, head, len);
        expect_value(s, 0, bytes);
    } else if (p->op == OP_INCR) {
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

static int take_binary(struct session *s, const uint8_t *head, uint32_t len)
{
    const struct pending *p = session_oldest(s);
    const struct forms *forms = s->talk->forms;
    uint32_t status = be16_at(head + 6);
    uint32_t bytes = be32_at(head + 8) - (len - BINARY_HEADER_BYTES);
    uint8_t opcode = forms->list[p->keys > 1 ? FORM_MULTI_FIRST : (enum form_kind)p->op]->opcode;

    if (head[1] != opcode && !(p->keys > 1 && head[1] == forms->list[FORM_MULTI_END]->opcode))
        return not_a_reply(s, head, len);
    if (be32_at(head + 12) != s->head)
        return not_a_reply(s, head, len);
    if (status == MC_BINARY_OK)
        return binary_success(s, head, len, bytes);
    if (len != BINARY_HEADER_BYTES)
        return not_a_reply(s, head, len);
    if (status != MC_BINARY_NOT_FOUND)
        refuse(s, (const uint8_t *)"an error status", 15);
    s->phase = REPLY_SKIP;
    s->left = bytes;
    if (bytes == 0)
        finish(s, 0);
    return 0;
}

/* ---- heads ------------------------------------------------------------------------------- */

/* The length of the head that these bytes begin with, 0 if it is not complete; -1: none it is. */
static int head_bytes(const struct session *s, const uint8_t *data, uint32_t len)
{
    const uint8_t *end;
    uint32_t total;

    if (s->talk->forms->protocol != PROTOCOL_BINARY) {
        end = memchr(data, '\n', len);
        return end ? (int)(end - data) + 1 : 0;
    }
    if (data[0] != MC_BINARY_MAGIC_REPLY)
        return -1;
    if (len < BINARY_HEADER_BYTES)
        return 0;
    total = BINARY_HEADER_BYTES + data[4] + be16_at(data + 2);
    if (total > SESSION_HEAD_MAX || be32_at(data + 8) < total - BINARY_HEADER_BYTES ||
        be32_at(data + 8) > KEYSPACE_VALUE_MAX + SESSION_HEAD_MAX)
        return -1;
    return len >= total ? (int)total : 0;
}

static int take_complete(struct session *s, const uint8_t *head, uint32_t len)
{
    if (s->talk->forms->protocol == PROTOCOL_BINARY)
        return take_binary(s, head, len);
    return take_line(s, head, len);
}

/* A head that lies in pieces. Returns the bytes taken of data, or -1. */
static int gather(struct session *s, const uint8_t *data, uint32_t len)
{
    uint32_t before = s->gathered;
    uint32_t n = u_min32(len, SESSION_HEAD_MAX - before);
    int total;

    memcpy(s->gather + before, data, n);
    s->gathered += n;
    total = head_bytes(s, s->gather, s->gathered);
    if (total < 0 || (total == 0 && s->gathered == SESSION_HEAD_MAX))
        return not_a_reply(s, s->gather, s->gathered);
    if (total == 0)
        return (int)n;
    s->gathered = 0;
    if (take_complete(s, s->gather, (uint32_t)total) < 0)
        return -1;
    return total - (int)before;
}

static int take_head(struct session *s, const uint8_t *data, uint32_t len)
{
    int total;

    if (session_in_flight(s) == 0)
        return unasked(s, data, len);
    if (s->gathered > 0)
        return gather(s, data, len);
    total = head_bytes(s, data, len);
    if (total < 0)
        return not_a_reply(s, data, len);
    if (total == 0)
        return gather(s, data, len);
    return take_complete(s, data, (uint32_t)total) < 0 ? -1 : total;
}

/* ---- the usual case ---------------------------------------------------------------------- */

/* Whether n bytes are the same. Few are compared here, by words; the last one may overlap. */
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

/* What stands behind a value is here. It is compared as a word, with the byte before. */
static inline bool is_get_end(const uint8_t *data)
{
    const uint8_t end[8] = {0, '\r', '\n', 'E', 'N', 'D', '\r', '\n'};
    const uint8_t which[8] = {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    return ((form_word(data - 1) ^ form_word(end)) & form_word(which)) == 0;
}

/* Whether the rest of a hit, its value and what stands behind that, is here, behind its head. */
static inline bool is_rest(const struct talk *talk, uint64_t id, uint32_t bytes,
                           const uint8_t *data)
{
    return is_get_end(data + bytes) &&
           (!talk->verify || same_bytes(data, keyspace_value(talk->keys, id), bytes));
}

/* A hit where sizes vary. */
static uint32_t take_varied_hit(struct session *s, const uint8_t *data, uint32_t len)
{
    const struct talk *talk = s->talk;
    const struct pending *p = session_oldest(s);
    uint32_t bytes = keyspace_value_bytes(talk->keys, p->id);
    uint8_t expect[FORM_ROOM];
    uint32_t head;

    if (p->keys != 1 || talk->forms->protocol != PROTOCOL_TEXT)
        return 0;
    head =
        form_write(talk->forms, forms_of(talk->forms, FORM_HIT, p->id), p->word, bytes, 0, expect);
    if (len < head + bytes + GET_END_BYTES || memcmp(data, expect, head) != 0 ||
        !is_rest(talk, p->id, bytes, data + head))
        return 0;
    session_count(s, OP_GET, 1, 1);
    return head + bytes + GET_END_BYTES;
}

/* The usual answers to what is no get of one key of one size. */
static __attribute__((noinline)) uint32_t take_other(struct session *s, const uint8_t *data,
                                                     uint32_t len)
{
    enum op op = (enum op)session_oldest(s)->op;
    const struct answer *answer;

    if (op == OP_GET)
        return take_varied_hit(s, data, len);
    if (s->talk->forms->protocol == PROTOCOL_BINARY)
        return 0;
    answer = &answers[s->talk->forms->protocol][op][0];
    if (!begins_with_answer(answer, data, len))
        return 0;
    session_count(s, op, 1, 1);
    return answer->len;
}

/*
 * The usual reply, if it lies here in one piece: to a get of one key the whole of a hit, to others
 * the line that says yes. Returns its length, or 0 for all other cases. Only for a session that is
 * between two replies.
 */
static inline uint32_t take_usual(struct session *s, const uint8_t *data, uint32_t len)
{
    const struct talk *talk = s->talk;
    const struct pending *p = session_oldest(s);
    const struct form *form = talk->forms->only[FORM_HIT];
    uint32_t bytes = talk->keys->value_bytes_max;
    uint32_t total;

    if (s->head == s->tail)
        return 0;
    if (p->keys != 1 || p->op != OP_GET || !form)
        return take_other(s, data, len);
    total = form->len + bytes + GET_END_BYTES;
    if (len < total || !form_matches(form, p->word, data) ||
        !is_rest(talk, p->id, bytes, data + form->len))
        return 0;
    session_count(s, OP_GET, 1, 1);
    return total;
}

/* What comes next, whatever it is. Returns the bytes taken, or -1. */
static int take_any(struct session *s, const uint8_t *data, uint32_t len)
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

/* The same for all but the usual case. */
static int take_piece(struct session *s, const uint8_t *data, uint32_t len)
{
    int n = take_any(s, data, len);

    s->amid = s->phase != REPLY_HEAD || s->gathered > 0 || s->reply_key > 0;
    return n;
}

/* What is not one whole hit. */
static __attribute__((noinline)) int feed_pieces(struct session *s, const uint8_t *data,
                                                 uint32_t len)
{
    int n;

    while (len > 0) {
        n = s->amid ? 0 : (int)take_usual(s, data, len);
        if (n == 0)
            n = take_piece(s, data, len);
        if (n < 0)
            return -1;
        data += n;
        len -= (uint32_t)n;
    }
    return 0;
}

int session_feed(struct session *s, const uint8_t *data, uint32_t len)
{
    uint32_t n = s->amid ? 0 : take_usual(s, data, len);

    s->talk->tally.bytes_in += len;
    return n == len ? 0 : feed_pieces(s, data + n, len - n);
}
