/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of mc_parse(): the input is what a client sends. The requests in it are cut one after
 * the other as a server would, and at each of them:
 *
 *   - the library and the slow reference parser agree in every field;
 *   - nothing points outside the line, lengths keep their bounds;
 *   - cutting the input shorter gives MC_MORE up to the line end and the same request behind it;
 *   - what has been read can be written and read again.
 */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"
#include "ref_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int is_inside(const u_u8 *at, u_u32 bytes, const u_u8 *buf, u_u32 len)
{
    return at == NULL ? bytes == 0 : at >= buf && at <= buf + len && bytes <= buf + len - at;
}

static void check_keys(const struct mc_request *req)
{
    const u_u8 *at = req->args;
    const u_u8 *end = req->args + req->args_len;
    const u_u8 *key;
    u_u32 key_len;
    u_u32 keys = 0;

    while (mc_token_next(&at, end, &key, &key_len)) {
        check(keys > 0 || (key == req->key && key_len == req->key_len), "first key");
        check(key_len >= 1 && key_len <= MC_KEY_MAX, "length of a key");
        check(key >= req->args && key + key_len == at && at <= end, "place of a key");
        check(memchr(key, ' ', key_len) == NULL, "no space in a key");
        keys++;
    }
    check(keys > 0 && at == end, "there are keys, and they were all walked");
}

static void check_request(const struct mc_request *req)
{
    switch (req->command) {
    case MC_CMD_GET:
    case MC_CMD_GETS:
    case MC_CMD_GAT:
    case MC_CMD_GATS:
        check_keys(req);
        break;
    default:
        if (req->command >= MC_CMD_MN) {
            check(req->key == NULL, "no key");
            break;
        }
        check(req->key_len >= 1 && req->key_len <= MC_KEY_MAX, "length of the key");
    }
    check(req->value_bytes <= MC_VALUE_MAX, "bound of the value");
    check(req->error == NULL && req->discard_bytes == 0 && !req->close, "no error");
}

static void check_malformed(const struct mc_request *req)
{
    check(req->key == NULL && req->args == NULL && req->value_bytes == 0, "only the error");
    if (req->error == NULL)
        check(req->error_len == 0 && (req->noreply || req->close), "a reason for silence");
    else
        check(req->error_len > 2 && req->error_len <= MC_STATUS_MAX, "length of the error");
    check(req->discard_bytes <= (u_u32)MC_VALUE_MAX + 2, "bound of what is skipped");
}

/* Parses the first `cut` bytes and compares with what is known of all of them. */
static void check_cut(const u_u8 *buf, u_u32 cut, enum mc_outcome outcome,
                      const struct mc_request *req)
{
    struct mc_request part;
    enum mc_outcome part_outcome = mc_parse(buf, cut, &part);

    if (outcome == MC_MORE) {
        check(part_outcome == MC_MORE, "less of an incomplete line is incomplete");
    } else if (memchr(buf, '\n', cut) != NULL) {
        check(part_outcome == outcome && ref_same(&part, req), "what follows does not matter");
    } else if (part_outcome == MC_MALFORMED) {
        check(cut > MC_LINE_MAX && part.close, "incomplete lines are only refused for length");
    } else {
        check(part_outcome == MC_MORE, "no request before its line end");
    }
}

static void check_cuts(const u_u8 *buf, u_u32 len, enum mc_outcome outcome,
                       const struct mc_request *req)
{
    u_u32 step = len / 64 + 1;
    u_u32 cut;

    for (cut = 0; cut < len; cut += step)
        check_cut(buf, cut, outcome, req);
    for (cut = req->line_bytes > 3 ? req->line_bytes - 3 : 0; cut < len; cut++) {
        if (cut > req->line_bytes + 3)
            break;
        check_cut(buf, cut, outcome, req);
    }
}

static void check_written(const struct mc_request *req)
{
    u_u8 out[MC_VALUE_HEADER_MAX];
    u_u64 number = 0;
    u_u32 len = mc_write_u64(out, req->delta);

    check(len <= MC_NUMBER_MAX && mc_counter_parse(out, len, &number) && number == req->delta,
          "a number written and read");
    if (req->key != NULL) {
        len = mc_write_value_header(out, req->key, req->key_len, req->flags, req->value_bytes,
                                    &req->cas);
        check(len <= sizeof out && out[len - 1] == '\n', "a value header fits");
    }
}

/* What the short way takes for a get of one key is one. */
static void check_short_way(const u_u8 *buf, u_u32 len, const struct mc_request *req)
{
    u_u32 key_len = 0;
    u_u32 line_bytes = mc_parse_get(buf, len, &key_len);

    check(line_bytes == 0 || (req->command == MC_CMD_GET && req->line_bytes == line_bytes &&
                              req->key == buf + MC_FAST_KEY_OFFSET && req->key_len == key_len &&
                              req->args_len == key_len),
          "the short way agrees");
}

/* And what it takes for a set. */
static void check_short_set(const u_u8 *buf, u_u32 len, const struct mc_request *req)
{
    struct mc_set set;
    u_u32 line_bytes = mc_parse_set(buf, len, &set);

    check(line_bytes == 0 ||
              (req->command == MC_CMD_SET && req->line_bytes == line_bytes && !req->noreply &&
               req->key == buf + MC_FAST_KEY_OFFSET && req->key_len == set.key_len &&
               req->flags == set.flags && req->exptime == (u_s32)set.exptime &&
               req->value_bytes == set.value_bytes),
          "the short way of a set agrees");
}

/* Handles the first request of buf; returns how many bytes a server would consume, 0: stop. */
static size_t check_one(const u_u8 *buf, u_u32 len)
{
    struct mc_request req;
    struct mc_request reference;
    enum mc_outcome outcome = mc_parse(buf, len, &req);

    check(ref_parse(buf, len, &reference) == outcome, "the outcome is that of the reference");
    check(ref_same(&req, &reference), "the request is that of the reference");
    check(req.line_bytes <= len, "the line is in the input");
    if (req.key != req.meta.key)
        check(is_inside(req.key, req.key_len, buf, req.line_bytes), "the key is in the line");
    check(is_inside(req.args, req.args_len, buf, req.line_bytes), "the arguments are in the line");
    check_short_way(buf, len, &req);
    check_short_set(buf, len, &req);
    check_cuts(buf, len, outcome, &req);
    if (outcome == MC_MORE) {
        check(req.line_bytes == 0, "nothing is used up");
        return 0;
    }
    if (outcome == MC_MALFORMED) {
        check_malformed(&req);
        return req.close ? 0 : (size_t)req.line_bytes + req.discard_bytes;
    }
    check_request(&req);
    check_written(&req);
    if (mc_command_has_value(req.command))
        return (size_t)req.line_bytes + req.value_bytes + 2;
    return req.line_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    u_u64 number;

    if (len < 64)
        (void)mc_counter_parse(data, (u_u32)len, &number);
    while (len > 0) {
        size_t used = check_one(data, (u_u32)len);
        if (used == 0 || used > len)
            break;
        data += used;
        len -= used;
    }
    return 0;
}
