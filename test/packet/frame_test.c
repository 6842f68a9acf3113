/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests' own frame code, tested: what it lets through nothing else would notice. */
#include "frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct frame sample(void)
{
    static const uint8_t payload[] = "some bytes, odd in number.";
    struct frame f;
    memset(&f, 0, sizeof(f));
    f.kind = FRAME_TCP;
    f.src_mac[5] = 1;
    f.dst_mac[5] = 2;
    f.src_ip = 0x0a000001;
    f.dst_ip = 0xc0a80102;
    f.ttl = 64;
    f.src_port = 11211;
    f.dst_port = 40000;
    f.seq = 0xfffffff0;
    f.ack = 77;
    f.flags = TCP_ACK | TCP_PSH;
    f.window = 4711;
    f.opts.has_ts = 1;
    f.opts.ts_val = 1;
    f.opts.ts_ecr = 0xfffffffe;
    f.opts.sack_count = 2;
    f.opts.sack[0][0] = 5, f.opts.sack[0][1] = 6;
    f.opts.sack[1][0] = 8, f.opts.sack[1][1] = 9;
    f.payload = payload;
    f.len = sizeof(payload);
    return f;
}

static size_t build(const struct frame *f, uint8_t *bytes)
{
    struct frame_faults none;
    memset(&none, 0, sizeof(none));
    return frame_build(f, &none, bytes);
}

/* The example of RFC 1071 section 3, and odd lengths. */
static void checksum_of_known_bytes(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0x80};
    (void)state;
    assert_int_equal(frame_checksum(bytes, 8, 0), 0x220d);
    assert_int_equal(frame_checksum(bytes, 9, 0), (uint16_t) ~(0xddf2 + 0x8000 - 0xffff));
    assert_int_equal(frame_checksum(bytes, 0, 0), 0xffff);
}

static void tcp_comes_back_as_it_was(void **state)
{
    uint8_t bytes[FRAME_BYTES_MAX];
    struct frame f = sample();
    struct frame g;
    (void)state;
    size_t len = build(&f, bytes);
    assert_int_equal(len, 14 + 20 + 20 + 12 + 20 + f.len);
    assert_null(frame_parse(bytes, len, &g));
    assert_int_equal(g.kind, FRAME_TCP);
    assert_memory_equal(&g.opts, &f.opts, sizeof(g.opts));
    assert_int_equal(g.seq, f.seq);
    assert_int_equal(g.ack, f.ack);
    assert_int_equal(g.flags, f.flags);
    assert_int_equal(g.window, f.window);
    assert_int_equal(g.len, f.len);
    assert_memory_equal(g.payload, f.payload, f.len);
}

/* Whatever single bit behind the Ethernet header is wrong: it is noticed. */
static void every_flipped_bit_is_noticed(void **state)
{
    uint8_t bytes[FRAME_BYTES_MAX];
    struct frame f = sample();
    struct frame g;
    (void)state;
    size_t len = build(&f, bytes);
    for (size_t bit = 14 * 8; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_non_null(frame_parse(bytes, len, &g));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void every_cut_is_noticed(void **state)
{
    uint8_t bytes[FRAME_BYTES_MAX];
    struct frame f = sample();
    struct frame g;
    (void)state;
    size_t len = build(&f, bytes);
    for (size_t n = 0; n < len; n++)
        assert_non_null(frame_parse(bytes, n, &g));
}

static void repaired_checksums_are_right(void **state)
{
    uint8_t bytes[FRAME_BYTES_MAX];
    struct frame f = sample();
    struct frame g;
    (void)state;
    size_t len = build(&f, bytes);
    bytes[len - 1] ^= 0x10;
    assert_non_null(frame_parse(bytes, len, &g));
    frame_fix_checksums(bytes, len);
    assert_null(frame_parse(bytes, len, &g));
}

static void a_segment_is_described(void **state)
{
    char text[300];
    struct frame f = sample();
    (void)state;
    frame_describe(&f, 0xfffffff0, 70, text, sizeof(text));
    assert_string_equal(text, "PA 0:27(27) ack 7 win 4711 <ts 1 4294967294,sack -65:-64,sack "
                              "-62:-61,> [10.0.0.1:11211 > 192.168.1.2:40000]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksum_of_known_bytes),      cmocka_unit_test(tcp_comes_back_as_it_was),
        cmocka_unit_test(every_flipped_bit_is_noticed), cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(repaired_checksums_are_right), cmocka_unit_test(a_segment_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
