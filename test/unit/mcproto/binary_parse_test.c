/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary requests: all opcodes with all lengths that could matter, compared with the reference
 * parser, against both guard pages. What the packets mean golden files say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "ref_binary.h"

static enum mc_outcome compare(const u_u8 *in, u_u32 len, struct mc_request *req)
{
    struct mc_request reference;
    enum mc_outcome outcome;

    memset(req, 0xa5, sizeof *req);
    outcome = mc_parse_binary(in, len, req);
    if (outcome != ref_parse_binary(in, len, &reference) ||
        !ref_binary_same(outcome, req, &reference))
        fail_msg("opcode %02x: differs", len > 1 ? in[1] : 0);
    return outcome;
}

/* Writes a header and what follows it; returns the length of header, extras and key. */
static u_u32 packet(u_u8 *out, int opcode, u_u32 extras_len, u_u32 key_len, u_u32 body_len)
{
    u_u32 i;

    memset(out, 0, 24);
    out[0] = 0x80;
    out[1] = (u_u8)opcode;
    out[2] = (u_u8)(key_len >> 8);
    out[3] = (u_u8)key_len;
    out[4] = (u_u8)extras_len;
    for (i = 0; i < 4; i++) {
        out[8 + i] = (u_u8)(body_len >> (24 - 8 * i));
        out[12 + i] = (u_u8)(0xa0 + i);
        out[20 + i] = (u_u8)(1 + i);
    }
    for (i = 0; i < extras_len + key_len; i++)
        out[24 + i] = (u_u8)(i * 37 + 1);
    return 24 + extras_len + key_len;
}

static void all_lengths_of_all_opcodes(void **state)
{
    static const u_u32 extras[] = {0, 1, 4, 7, 8, 9, 19, 20, 21, 255};
    static const u_u32 keys[] = {0, 1, 249, 250, 251, 256, 4096};
    static const u_u32 values[] = {0, 1, 1000, 0xfffffffeu, 0xffffffffu};
    static u_u8 in[GUARD_BYTES_MAX];
    struct mc_request req;
    size_t e, k, v;
    int opcode;

    for (opcode = 0; opcode < 256; opcode++)
        for (e = 0; e < sizeof extras / sizeof extras[0]; e++)
            for (k = 0; k < sizeof keys / sizeof keys[0]; k++)
                for (v = 0; v < sizeof values / sizeof values[0]; v++) {
                    /* The last two values make the body too short. */
                    u_u32 len =
                        packet(in, opcode, extras[e], keys[k], extras[e] + keys[k] + values[v]);
                    assert_int_not_equal(compare(guard_behind(in, len), len, &req), MC_MORE);
                    compare(guard_before(in, len), len, &req);
                    compare(guard_behind(in, len - 1), len - 1, &req);
                }
}

static void bodies_have_a_bound(void **state)
{
    u_u8 in[64];
    u_u32 len = packet(in, 0x01, 8, 1, MC_BINARY_BODY_MAX);
    struct mc_request req;

    assert_int_equal(compare(in, len, &req), MC_REQUEST);
    assert_int_equal(req.value_bytes, MC_BINARY_BODY_MAX - 9);
    packet(in, 0x01, 8, 1, MC_BINARY_BODY_MAX + 1u);
    assert_int_equal(compare(in, len, &req), MC_MALFORMED);
    assert_int_equal(req.close, 1);
    packet(in, 0xee, 0, 0, MC_BINARY_BODY_MAX);
    assert_int_equal(compare(in, 24, &req), MC_MALFORMED);
    assert_int_equal(req.close, 0);
    assert_int_equal(req.discard_bytes, MC_BINARY_BODY_MAX);
    packet(in, 0xee, 0, 0, 0xffffffffu);
    assert_int_equal(compare(in, 24, &req), MC_MALFORMED);
    assert_int_equal(req.close, 1);
}

/* MC_MORE until the request is complete; errors with the header. */
static void requests_come_in_pieces(void **state)
{
    static u_u8 in[MC_BINARY_REQUEST_MAX];
    struct mc_request req;
    u_u32 len, cut;

    len = packet(in, 0x05, 20, 250, 270);
    assert_int_equal(len, MC_BINARY_REQUEST_MAX);
    for (cut = 0; cut < len; cut++)
        assert_int_equal(compare(guard_behind(in, cut), cut, &req), MC_MORE);
    assert_int_equal(compare(guard_behind(in, len), len, &req), MC_REQUEST);
    len = packet(in, 0x00, 0, 250, 251);
    for (cut = 0; cut < len; cut++)
        assert_int_equal(compare(guard_behind(in, cut), cut, &req),
                         cut < 24 ? MC_MORE : MC_MALFORMED);
}

static void the_magic_byte_decides(void **state)
{
    struct mc_request req;
    int byte;

    for (byte = 0; byte < 256; byte++) {
        u_u8 in = (u_u8)byte;
        int binary = byte == 0x80;

        assert_int_equal(mc_protocol_detect(in), binary ? MC_PROTOCOL_BINARY : MC_PROTOCOL_TEXT);
        assert_int_equal(compare(guard_behind(&in, 1), 1, &req), binary ? MC_MORE : MC_MALFORMED);
        assert_int_equal(req.close, !binary);
        assert_null(req.error);
    }
    assert_int_equal(compare(guard_behind("", 0), 0, &req), MC_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_lengths_of_all_opcodes),
        cmocka_unit_test(bodies_have_a_bound),
        cmocka_unit_test(requests_come_in_pieces),
        cmocka_unit_test(the_magic_byte_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
