/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text protocol: one request line into a struct mc_request.
 *
 * There is one function per kind of arguments. Each is called with the request zero but for
 * command and line_bytes, fills it in and returns MC_REQUEST, or refuses it. memcached checks a
 * line in two stages, and that shows on the wire: what its first stage refuses (too few
 * arguments, a bad <bytes>) is answered even if the line says noreply, and no data block is
 * skipped; what is refused later obeys noreply and skips the data block.
 */
#include "base/base.h"
#include "mcproto/command.h"
#include "mcproto/line.h"
#include "mcproto/mcproto.h"
#include "mcproto/meta.h"
#include "mcproto/num.h"
#include "mcproto/request.h"
#include "mcproto/scan.h"

/* Shorter lines, their end included, are refused without a look at them. */
#define LINE_BYTES_MIN 4

/* Tokens behind the command's name. */
#define ARGS_MAX (MC_TOKENS_MAX - 1)

/* Leaves nothing in the request but the error; none is due where noreply has been seen. */
static enum mc_outcome refuse(struct mc_request *req, enum mc_status status, u_u32 swallow_bytes)
{
    enum mc_command command = req->command;
    u_u32 line_bytes = req->line_bytes;
    int noreply = req->noreply;

    mc_request_clear(req);
    req->command = command;
    req->line_bytes = line_bytes;
    req->noreply = noreply;
    req->swallow_bytes = swallow_bytes;
    if (!noreply)
        req->error = mc_status_text(status, &req->error_len);
    return MC_MALFORMED;
}

static enum mc_outcome refuse_and_close(struct mc_request *req)
{
    req->close = 1;
    return MC_MALFORMED;
}

static int is_noreply(const struct mc_token *token)
{
    return token->end - token->at == 7 && u_equal(token->at, "noreply", 7);
}

static int take_key(struct mc_request *req, const struct mc_token *token)
{
    req->key = token->at;
    req->key_len = (u_u32)(token->end - token->at);
    return req->key_len <= MC_KEY_MAX;
}

/* One key too long spoils the whole request: a client cannot tell which value is missing. */
static enum mc_outcome parse_keys(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    const u_u8 *next = at;
    const u_u8 *key;
    u_u32 key_len;

    if (!mc_token_next(&next, end, &req->key, &req->key_len))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    key_len = req->key_len;
    do {
        if (key_len > MC_KEY_MAX)
            return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    } while (mc_token_next(&next, end, &key, &key_len));
    req->args = req->key;
    req->args_len = (u_u32)(end - req->key);
    return MC_REQUEST;
}

static enum mc_outcome parse_gat(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[2];

    if (mc_tokens_cut(at, end, arg, 2) < 2)
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (!mc_num_s32(&arg[0], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
    return parse_keys(arg[1].at, end, req);
}

static enum mc_outcome parse_storage(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_cut(at, end, arg, ARGS_MAX);
    u_s32 bytes;

    if (count < 4 || !mc_num_s32(&arg[3], &bytes) || bytes < 0 || bytes > MC_VALUE_MAX)
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    req->value_bytes = (u_u32)bytes;
    req->noreply = is_noreply(&arg[count - 1]);
    if (!take_key(req, &arg[0]) || !mc_num_flags(&arg[1], &req->flags) ||
        !mc_num_exptime(&arg[2], &req->exptime))
        return refuse(req, MC_STATUS_BAD_FORMAT, req->value_bytes + 2);
    if (req->command == MC_CMD_CAS && (count < 5 || !mc_num_u64(&arg[4], &req->cas)))
        return refuse(req, MC_STATUS_BAD_FORMAT, req->value_bytes + 2);
    return MC_REQUEST;
}

/*
 * Cuts the arguments of a command that is "<key> ... [noreply]", at least `min` of them. Returns 0
 * if there are fewer, or the key is too long: the latter obeys noreply.
 */
static int take_key_args(const u_u8 *at, const u_u8 *end, struct mc_token arg[ARGS_MAX], u_u32 min,
                         struct mc_request *req)
{
    u_u32 count = mc_tokens_cut(at, end, arg, ARGS_MAX);

    if (count < min)
        return 0;
    req->noreply = is_noreply(&arg[count - 1]);
    return take_key(req, &arg[0]);
}

static enum mc_outcome parse_delete(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];

    if (!take_key_args(at, end, arg, 1, req))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_counter(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];

    if (!take_key_args(at, end, arg, 2, req))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (!mc_num_u64(&arg[1], &req->delta))
        return refuse(req, MC_STATUS_BAD_DELTA, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_touch(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];

    if (!take_key_args(at, end, arg, 2, req))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (!mc_num_s32(&arg[1], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_flush_all(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_cut(at, end, arg, ARGS_MAX);

    req->noreply = count > 0 && is_noreply(&arg[count - 1]);
    if (count > (req->noreply ? 1u : 0u) && !mc_num_s32(&arg[0], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_verbosity(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_cut(at, end, arg, ARGS_MAX);

    req->noreply = count > 0 && is_noreply(&arg[count - 1]);
    if (count < 1 || !mc_num_u32(&arg[0], &req->level))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_words(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    while (at != end && *at == ' ')
        at++;
    while (end != at && end[-1] == ' ')
        end--;
    req->args = at;
    req->args_len = (u_u32)(end - at);
    return MC_REQUEST;
}

static enum mc_outcome parse_admin(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_cut(at, end, arg, ARGS_MAX);

    req->noreply = count > 0 && is_noreply(&arg[count - 1]);
    return parse_words(at, end, req);
}

static enum mc_outcome parse_meta(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    enum mc_status status = mc_meta_parse(at, end, req);

    return status == MC_STATUS_OK ? MC_REQUEST : refuse(req, status, req->swallow_bytes);
}

/* Web browsers, and pages made to abuse them, are hung up on before they can do harm. */
static int is_http(const struct mc_token *token)
{
    return token->end - token->at >= 5 && u_equal(token->at, "HTTP/", 5);
}

static enum mc_outcome refuse_unknown(const struct mc_line *line, struct mc_request *req)
{
    struct mc_token token[MC_TOKENS_MAX];
    u_u32 count = mc_tokens_cut(line->at, line->end, token, MC_TOKENS_MAX);

    if (count > 1 && is_http(&token[count - 1]))
        return refuse_and_close(req);
    req->noreply = count > 0 && is_noreply(&token[count - 1]);
    return refuse(req, MC_STATUS_ERROR, 0);
}

static enum mc_outcome parse_line(const struct mc_line *line, struct mc_request *req)
{
    const u_u8 *space = mc_scan_byte(line->at, line->end, ' ');
    const u_u8 *args = space != U_NULL ? space : line->end;
    const struct mc_command_entry *entry = mc_command_find(line->at, args);

    if (entry == U_NULL)
        return refuse_unknown(line, req);
    req->command = (enum mc_command)entry->command;
    switch ((enum mc_shape)entry->shape) {
    case MC_SHAPE_KEYS:
        return parse_keys(args, line->end, req);
    case MC_SHAPE_GAT:
        return parse_gat(args, line->end, req);
    case MC_SHAPE_STORAGE:
        return parse_storage(args, line->end, req);
    case MC_SHAPE_DELETE:
        return parse_delete(args, line->end, req);
    case MC_SHAPE_COUNTER:
        return parse_counter(args, line->end, req);
    case MC_SHAPE_TOUCH:
        return parse_touch(args, line->end, req);
    case MC_SHAPE_META:
        return parse_meta(args, line->end, req);
    case MC_SHAPE_FLUSH_ALL:
        return parse_flush_all(args, line->end, req);
    case MC_SHAPE_VERBOSITY:
        return parse_verbosity(args, line->end, req);
    case MC_SHAPE_WORDS:
        return parse_words(args, line->end, req);
    case MC_SHAPE_ADMIN:
        return parse_admin(args, line->end, req);
    case MC_SHAPE_PLAIN:
        break;
    }
    return MC_REQUEST;
}

/* The request at the beginning of an input that goes on, or whose line ends otherwise. */
static u_u32 parse_get_before(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    const u_u8 *key = buf + MC_GET_KEY_OFFSET;
    const u_u8 *end = buf + u_min32(len, MC_GET_KEY_OFFSET + MC_KEY_MAX + 2);
    const u_u8 *stop = mc_scan_blank(key, end);

    if (stop == U_NULL || stop == key || stop - key > MC_KEY_MAX)
        return 0;
    *key_len = (u_u32)(stop - key);
    if (*stop == '\r' && stop + 1 != end)
        stop++;
    return *stop == '\n' ? (u_u32)(stop - buf) + 1 : 0;
}

/* Mostly the input is one line, and then the key's end needs no search. */
static U_NOINLINE u_u32 parse_get_any(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    const u_u32 around = MC_GET_KEY_OFFSET + 2;

    if (len <= MC_GET_KEY_OFFSET || !u_equal(buf, "get ", MC_GET_KEY_OFFSET))
        return 0;
    if (U_LIKELY(len > around && len <= around + MC_KEY_MAX && u_equal(buf + len - 2, "\r\n", 2) &&
                 !mc_has_blank(buf + MC_GET_KEY_OFFSET, len - around))) {
        *key_len = len - around;
        return len;
    }
    return parse_get_before(buf, len, key_len);
}

/* A key of one or two words is looked at where it is asked for. */
u_u32 mc_parse_get(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    const u_u32 around = MC_GET_KEY_OFFSET + 2;

    if (U_LIKELY(len >= around + 8 && len <= around + 16 &&
                 u_equal(buf, "get ", MC_GET_KEY_OFFSET) && u_equal(buf + len - 2, "\r\n", 2) &&
                 !mc_has_blank_pair(buf + MC_GET_KEY_OFFSET, len - around))) {
        *key_len = len - around;
        return len;
    }
    return parse_get_any(buf, len, key_len);
}

/* The general way would read these lines and those of the next one just the same, but slower. */
static int parse_single_get(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    u_u32 key_len = 0;
    u_u32 line_bytes = mc_parse_get(buf, len, &key_len);

    if (line_bytes == 0)
        return 0;
    req->command = MC_CMD_GET;
    req->line_bytes = line_bytes;
    req->key = buf + MC_GET_KEY_OFFSET;
    req->key_len = key_len;
    req->args = req->key;
    req->args_len = key_len;
    return 1;
}

/*
 * One to nine digits with something behind them, which is then returned; else null. Most numbers
 * have one.
 */
U_INLINE const u_u8 *plain_number(const u_u8 *at, const u_u8 *end, u_u32 *number)
{
    u_u32 digits = 1;
    u_u32 digit;
    u_u32 n;

    if (end - at < 2)
        return (const u_u8 *)U_NULL;
    n = (u_u32)*at++ - '0';
    if (n > 9)
        return (const u_u8 *)U_NULL;
    while ((digit = (u_u32)*at - '0') <= 9) {
        if (++digits > 9 || ++at == end)
            return (const u_u8 *)U_NULL;
        n = n * 10 + digit;
    }
    *number = n;
    return at;
}

/*
 * The numbers of a set from behind its key on. Returns what stands behind them, or null. Most have
 * no flags and no time of expiry.
 */
U_INLINE const u_u8 *parse_set_numbers(const u_u8 *at, const u_u8 *end, struct mc_set *set)
{
    const u_u32 zeros_bytes = 5;

    if (U_LIKELY(end - at > (long)zeros_bytes && u_equal(at, " 0 0 ", zeros_bytes))) {
        set->flags = 0;
        set->exptime = 0;
        return plain_number(at + zeros_bytes, end, &set->value_bytes);
    }
    if (*at != ' ')
        return (const u_u8 *)U_NULL;
    at = plain_number(at + 1, end, &set->flags);
    if (at == U_NULL || *at != ' ')
        return (const u_u8 *)U_NULL;
    at = plain_number(at + 1, end, &set->exptime);
    if (at == U_NULL || *at != ' ')
        return (const u_u8 *)U_NULL;
    return plain_number(at + 1, end, &set->value_bytes);
}

u_u32 mc_parse_set(const u_u8 *buf, u_u32 len, struct mc_set *set)
{
    const u_u8 *end = buf + len;
    const u_u8 *key = buf + MC_SET_KEY_OFFSET;
    const u_u8 *at;

    if (len <= MC_SET_KEY_OFFSET || !u_equal(buf, "set ", MC_SET_KEY_OFFSET))
        return 0;
    at = mc_scan_blank(key, key + u_min32(len - MC_SET_KEY_OFFSET, MC_KEY_MAX + 1));
    if (at == U_NULL || at == key)
        return 0;
    set->key_len = (u_u32)(at - key);
    at = parse_set_numbers(at, end, set);
    if (at == U_NULL || set->value_bytes > MC_VALUE_MAX)
        return 0;
    if (*at == '\r' && at + 1 != end)
        at++;
    return *at == '\n' ? (u_u32)(at - buf) + 1 : 0;
}

/* "set" as nearly all clients send it. */
static int parse_plain_set(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    struct mc_set set;
    u_u32 line_bytes = mc_parse_set(buf, len, &set);

    if (line_bytes == 0)
        return 0;
    req->command = MC_CMD_SET;
    req->line_bytes = line_bytes;
    req->key = buf + MC_SET_KEY_OFFSET;
    req->key_len = set.key_len;
    req->flags = set.flags;
    req->exptime = (u_s32)set.exptime;
    req->value_bytes = set.value_bytes;
    return 1;
}

enum mc_outcome mc_parse(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    struct mc_line line;

    mc_request_clear(req);
    if (parse_single_get(buf, len, req) || parse_plain_set(buf, len, req))
        return MC_REQUEST;
    if (!mc_line_cut(buf, len, &line)) {
        if (mc_line_may_grow(buf, len))
            return MC_MORE;
        req->line_bytes = len;
        return refuse_and_close(req);
    }
    req->line_bytes = line.bytes;
    if (line.bytes < LINE_BYTES_MIN)
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    return parse_line(&line, req);
}
