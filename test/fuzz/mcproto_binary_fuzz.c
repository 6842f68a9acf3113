/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of mc_parse_binary(): the input is what a client sends. At each packet of it
 *
 *   - the library and the reference parser agree in every field;
 *   - nothing points outside of the packet, lengths keep their bounds;
 *   - cut short, it asks for more or is refused in the same way;
 *   - the packets of the reply have the lengths that their headers tell.
 */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "mcproto/mcproto.h"
#include "ref_binary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static u_u32 number(const u_u8 *at, int bytes)
{
    u_u32 n = 0;

    while (bytes-- > 0)
        n = n << 8 | *at++;
    return n;
}

/* A reply without its value: the header has its length, and repeats what the request had. */
static void check_packet(const u_u8 *out, u_u32 len, u_u32 value_bytes, const u_u8 *request)
{
    check(len >= MC_BINARY_HEADER_BYTES && out[0] == MC_BINARY_MAGIC_REPLY, "it is a reply");
    check(number(out + 8, 4) == len - MC_BINARY_HEADER_BYTES + value_bytes, "length of the body");
    check(out[4] + number(out + 2, 2) <= len - MC_BINARY_HEADER_BYTES, "extras and key are there");
    check(out[1] == request[1], "the opcode comes back");
    check(memcmp(out + 12, request + 12, 4) == 0, "the opaque comes back");
}

static void check_replies(const struct mc_request *req, const u_u8 *buf)
{
    u_u8 out[MC_BINARY_REQUEST_MAX];
    const struct mc_binary *binary = &req->binary;

    check_packet(out, mc_write_binary_done(out, binary, binary->cas), 0, buf);
    check_packet(out, mc_write_binary_number(out, binary, req->delta, binary->cas), 0, buf);
    check_packet(out, mc_write_binary_error(out, binary, MC_BINARY_TOO_LARGE), 0, buf);
    if (req->key == NULL)
        return;
    check_packet(out, mc_write_binary_miss(out, binary, req->key, req->key_len), 0, buf);
    check_packet(out,
                 mc_write_binary_value_header(out, binary, req->key, req->key_len, req->flags,
                                              req->value_bytes, binary->cas),
                 req->value_bytes, buf);
}

static void check_request(const struct mc_request *req, const u_u8 *buf, u_u32 len)
{
    const u_u8 *end = buf + req->line_bytes;

    check(req->line_bytes <= len && req->line_bytes <= MC_BINARY_REQUEST_MAX, "its length");
    check(req->key_len <= MC_KEY_MAX && req->args_len <= MC_KEY_MAX, "length of the key");
    check(req->key == NULL || req->key + req->key_len == end, "place of the key");
    check(req->args == NULL || req->args + req->args_len == end, "place of the arguments");
    check(req->value_bytes <= MC_BINARY_BODY_MAX, "bound of the value");
    check(req->error == NULL && req->discard_bytes == 0 && !req->close, "no error");
    check_replies(req, buf);
}

static void check_cuts(const u_u8 *buf, u_u32 bytes, enum mc_outcome outcome,
                       const struct mc_request *req)
{
    u_u32 cut;

    for (cut = 0; cut < bytes; cut++) {
        struct mc_request part;
        enum mc_outcome part_outcome = mc_parse_binary(buf, cut, &part);
        if (part_outcome == MC_MORE)
            continue;
        check(outcome == MC_MALFORMED && part_outcome == outcome, "no request before its end");
        check(ref_binary_same(outcome, &part, req), "the same error as of the whole");
    }
}

/* Handles the first packet of buf; returns how many bytes a server would consume, 0: stop. */
static size_t check_one(const u_u8 *buf, u_u32 len)
{
    struct mc_request req, reference;
    enum mc_outcome outcome = mc_parse_binary(buf, len, &req);

    check(ref_parse_binary(buf, len, &reference) == outcome, "the outcome is the reference's");
    check(ref_binary_same(outcome, &req, &reference), "the request is the reference's");
    check_cuts(buf, outcome == MC_MORE ? len : req.line_bytes, outcome, &req);
    if (outcome == MC_MORE) {
        check(req.line_bytes == 0 && len < MC_BINARY_REQUEST_MAX, "more is bounded");
        return 0;
    }
    if (outcome == MC_REQUEST) {
        check_request(&req, buf, len);
        return (size_t)req.line_bytes + req.value_bytes;
    }
    check(req.key == NULL && req.args == NULL && req.value_bytes == 0, "only the error");
    if (req.error != NULL)
        check_packet(req.binary.error, req.error_len, 0, buf);
    check(req.discard_bytes <= MC_BINARY_BODY_MAX, "bound of what is skipped");
    return req.close ? 0 : (size_t)req.line_bytes + req.discard_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t used = check_one(data, (u_u32)len);
        if (used == 0 || used > len)
            break;
        data += used;
        len -= used;
    }
    return 0;
}
