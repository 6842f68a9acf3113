/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text protocol: one request line into a struct mc_request.
 *
 * One function parses each shape of arguments. It gets a request that is zero except for command
 * and line_bytes, fills it in and returns MC_REQUEST, or refuses it. memcached checks a line in two
 * stages, which shows on the wire: an error of the first stage (too few arguments, a bad <bytes>)
 * is sent even if the line says noreply, and no data block is skipped; a later error respects
 * noreply and skips the data block.
 */
#include "base/base.h"
#include "mcproto/commands.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"
#include "mcproto/meta_parse.h"
#include "mcproto/num.h"
#include "mcproto/request.h"
#include "mcproto/scan.h"
#include "mcproto/tokenize.h"

/* Shorter lines, their end included, are refused without parsing. */
#define LINE_BYTES_MIN 4

/* Tokens behind the command's name. */
#define ARGS_MAX (MC_TOKENS_MAX - 1)

/* Clears the request except for the error; no error is due after noreply. */
static enum mc_outcome refuse(struct mc_request *req, enum mc_status status, u_u32 discard_bytes)
{
    enum mc_command command = req->command;
    u_u32 line_bytes = req->line_bytes;
    int noreply = req->noreply;

    mc_request_clear(req);
    req->command = command;
    req->line_bytes = line_bytes;
    req->noreply = noreply;
    req->discard_bytes = discard_bytes;
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

/*
 * One key that is too long makes the request malformed: the reply could not show which is missing.
 */
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

    if (mc_tokens_split(at, end, arg, 2) < 2)
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (!mc_num_s32(&arg[0], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
    return parse_keys(arg[1].at, end, req);
}

static enum mc_outcome parse_storage(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_split(at, end, arg, ARGS_MAX);
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

/* "<key> [<number>] [noreply]". */
static enum mc_outcome parse_key(const u_u8 *at, const u_u8 *end, enum mc_shape shape,
                                 struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_split(at, end, arg, ARGS_MAX);

    if (count < (shape == MC_SHAPE_DELETE ? 1u : 2u))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    req->noreply = is_noreply(&arg[count - 1]);
    if (!take_key(req, &arg[0]))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (shape == MC_SHAPE_COUNTER && !mc_num_u64(&arg[1], &req->delta))
        return refuse(req, MC_STATUS_BAD_DELTA, 0);
    if (shape == MC_SHAPE_TOUCH && !mc_num_s32(&arg[1], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
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

/* "[<number>] [noreply]", or words. */
static enum mc_outcome parse_keyless(const u_u8 *at, const u_u8 *end, enum mc_shape shape,
                                     struct mc_request *req)
{
    struct mc_token arg[ARGS_MAX];
    u_u32 count = mc_tokens_split(at, end, arg, ARGS_MAX);

    req->noreply = count > 0 && is_noreply(&arg[count - 1]);
    if (shape == MC_SHAPE_ADMIN)
        return parse_words(at, end, req);
    if (shape == MC_SHAPE_VERBOSITY && (count < 1 || !mc_num_u32(&arg[0], &req->level)))
        return refuse(req, MC_STATUS_BAD_FORMAT, 0);
    if (shape == MC_SHAPE_FLUSH_ALL && count > (req->noreply ? 1u : 0u) &&
        !mc_num_s32(&arg[0], &req->exptime))
        return refuse(req, MC_STATUS_BAD_EXPTIME, 0);
    return MC_REQUEST;
}

static enum mc_outcome parse_meta(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    enum mc_status status = mc_meta_parse(at, end, req);

    return status == MC_STATUS_OK ? MC_REQUEST : refuse(req, status, req->discard_bytes);
}

/* HTTP requests close the connection, against attacks through web browsers. */
static int is_http(const struct mc_token *token)
{
    return token->end - token->at >= 5 && u_equal(token->at, "HTTP/", 5);
}

static enum mc_outcome refuse_unknown(const struct mc_line *line, struct mc_request *req)
{
    struct mc_token token[MC_TOKENS_MAX];
    u_u32 count = mc_tokens_split(line->at, line->end, token, MC_TOKENS_MAX);

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
    case MC_SHAPE_META:
        return parse_meta(args, line->end, req);
    case MC_SHAPE_DELETE:
    case MC_SHAPE_COUNTER:
    case MC_SHAPE_TOUCH:
        return parse_key(args, line->end, (enum mc_shape)entry->shape, req);
    case MC_SHAPE_FLUSH_ALL:
    case MC_SHAPE_VERBOSITY:
    case MC_SHAPE_ADMIN:
        return parse_keyless(args, line->end, (enum mc_shape)entry->shape, req);
    case MC_SHAPE_WORDS:
        return parse_words(args, line->end, req);
    case MC_SHAPE_NONE:
        break;
    }
    return MC_REQUEST;
}

enum mc_outcome mc_parse_except_get(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    struct mc_line line;
    struct mc_set set;
    u_u32 set_bytes = mc_parse_set(buf, len, &set);

    if (set_bytes > 0) {
        mc_request_from_set(req, buf, set_bytes, &set);
        return MC_REQUEST;
    }
    mc_request_clear(req);
    if (!mc_line_split(buf, len, &line)) {
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

enum mc_outcome mc_parse(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    u_u32 key_len;
    u_u32 line_bytes = mc_parse_get(buf, len, &key_len);

    if (line_bytes == 0)
        return mc_parse_except_get(buf, len, req);
    mc_request_clear(req);
    req->command = MC_CMD_GET;
    req->line_bytes = line_bytes;
    req->key = buf + MC_FAST_KEY_OFFSET;
    req->key_len = key_len;
    req->args = req->key;
    req->args_len = key_len;
    return MC_REQUEST;
}
