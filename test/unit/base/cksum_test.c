/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum against the plainest way to compute it: every length, every alignment,
 * every way to cut the bytes in three.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/cksum.h"
#include "base/cksum_raw.h"
#include "base/prng.h"

enum { LENGTH_MAX = 200, ALIGNMENTS = 8, AREA_BYTES = LENGTH_MAX + 2 * ALIGNMENTS };

static u_u16 naive(const u_u8 *p, u_u32 bytes)
{
    u_u32 sum = 0;
    u_u32 i;

    for (i = 0; i < bytes; i++)
        sum += i % 2 == 0 ? (u_u32)p[i] << 8 : p[i];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (u_u16)~sum;
}

static void fill_random(u_u8 *p, u_u32 bytes, u_u64 seed)
{
    struct u_prng prng;
    u_u32 i;

    u_prng_seed(&prng, seed);
    for (i = 0; i < bytes; i++)
        p[i] = (u_u8)u_prng_next(&prng);
}

static u_u16 cksum(const void *data, u_u32 bytes)
{
    return u_cksum_finish(u_cksum_add(0, data, bytes));
}

/* The worked example of RFC 1071 section 3. */
static void rfc1071_example_gives_its_sum(void **state)
{
    static const u_u8 bytes[8] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

    assert_int_equal(u_cksum_partial(u_cksum_add(0, bytes, 8)), 0xddf2);
    assert_int_equal(cksum(bytes, 8), 0x220d);
}

static void nothing_sums_to_zero(void **state)
{
    assert_int_equal(u_cksum_partial(u_cksum_add(0, "", 0)), 0);
    assert_int_equal(cksum("", 0), 0xffff);
}

static void every_length_and_alignment_agrees(void **state)
{
    u_u8 area[AREA_BYTES];
    u_u32 at;
    u_u32 bytes;

    fill_random(area, AREA_BYTES, 1);
    for (at = 0; at < ALIGNMENTS; at++)
        for (bytes = 0; bytes <= LENGTH_MAX; bytes++)
            assert_int_equal(cksum(area + at, bytes), naive(area + at, bytes));
}

static void every_cut_in_three_agrees(void **state)
{
    enum { BYTES = 71 };
    u_u8 area[BYTES];
    u_u32 first;
    u_u32 second;
    u_u32 sum;

    fill_random(area, BYTES, 2);
    for (first = 0; first <= BYTES; first++) {
        for (second = first; second <= BYTES; second++) {
            sum = u_cksum_add(0, area, first);
            sum = u_cksum_add(sum, area + first, second - first);
            sum = u_cksum_add(sum, area + second, BYTES - second);
            assert_int_equal(u_cksum_finish(sum), naive(area, BYTES));
        }
    }
}

static void byte_by_byte_agrees(void **state)
{
    u_u8 area[LENGTH_MAX];
    u_u32 sum = 0;
    u_u32 i;

    fill_random(area, LENGTH_MAX, 3);
    for (i = 0; i < LENGTH_MAX; i++) {
        assert_int_equal(u_cksum_finish(sum), naive(area, i));
        sum = u_cksum_add(sum, area + i, 1);
    }
}

static void copy_copies_exactly_and_sums_the_same(void **state)
{
    u_u8 from[AREA_BYTES];
    u_u8 to[AREA_BYTES];
    u_u32 at;
    u_u32 bytes;
    u_u32 start;

    fill_random(from, AREA_BYTES, 4);
    for (start = 0; start < 2; start++) {
        u_u32 sum = u_cksum_add(0, "\x7f", start);
        for (at = 0; at < ALIGNMENTS; at++) {
            for (bytes = 0; bytes <= LENGTH_MAX; bytes++) {
                memset(to, 0xee, sizeof(to));
                assert_int_equal(u_cksum_copy(sum, to + 8, from + at, bytes),
                                 u_cksum_add(sum, from + at, bytes));
                assert_memory_equal(to + 8, from + at, bytes);
                assert_int_equal(to[7], 0xee);
                assert_int_equal(to[8 + bytes], 0xee);
            }
        }
    }
}

/* The carries are the hard part of a sum: nothing has more of them than bytes of ones. */
static void all_ones_and_all_zeros_agree(void **state)
{
    static u_u8 area[65536 + 1];
    static const u_u32 lengths[] = {1, 2, 3, 31, 32, 33, 1460, 1461, 65534, 65535, 65536, 65537};
    u_u32 i;

    for (i = 0; i < U_ARRAY_LEN(lengths); i++) {
        memset(area, 0xff, sizeof(area));
        assert_int_equal(cksum(area, lengths[i]), naive(area, lengths[i]));
        memset(area, 0, sizeof(area));
        assert_int_equal(cksum(area, lengths[i]), 0xffff);
    }
}

static void many_pieces_never_overflow(void **state)
{
    static const u_u8 ones[3] = {0xff, 0xff, 0xff};
    u_u32 sum = 0;
    u_u32 i;

    for (i = 0; i < 200000; i++)
        sum = u_cksum_add(sum, ones, 2);
    assert_int_equal(u_cksum_partial(sum), 0xffff);
    for (i = 0; i < 200000; i++)
        sum = u_cksum_add(sum, ones, 3);
    assert_int_equal(u_cksum_partial(sum), 0xffff);
}

static void bytes_with_their_checksum_sum_to_zero(void **state)
{
    u_u8 area[64];
    struct u_be16 stored;

    fill_random(area, sizeof(area), 5);
    memset(area + 16, 0, 2);
    stored = u_be16(cksum(area, sizeof(area)));
    memcpy(area + 16, &stored, 2);
    assert_int_equal(cksum(area, sizeof(area)), 0);
    area[40] ^= 4;
    assert_int_not_equal(cksum(area, sizeof(area)), 0);
}

static void pseudo_header_of_ipv4_is_its_twelve_bytes(void **state)
{
    /* 192.168.0.1 to 10.255.254.253, protocol 6, a length above 255 */
    static const u_u8 header[12] = {192, 168, 0, 1, 10, 255, 254, 253, 0, 6, 0xfe, 0xdc};
    u_u32 sum = u_cksum_pseudo4(u_be32(0xc0a80001), u_be32(0x0afffefd), 6, 0xfedc);

    assert_int_equal(u_cksum_finish(sum), naive(header, sizeof(header)));
}

/* Inline sums: every short length, alone and behind others, with and without a copy. */
static void inline_sums_agree(void **state)
{
    u_u8 area[80];
    u_u8 copy[81];
    u_u32 bytes;

    for (bytes = 0; bytes <= sizeof(area); bytes++) {
        fill_random(area, sizeof(area), bytes);
        assert_int_equal((u_u16)~naive(area, bytes),
                         u_cksum_partial(u_cksum_raw_fold(u_cksum_raw_add(0, area, bytes))));
        copy[bytes] = 0x5a;
        assert_true(u_cksum_raw_piece(7, copy, area, bytes) == u_cksum_raw_add(7, area, bytes));
        assert_memory_equal(copy, area, bytes);
        assert_int_equal(copy[bytes], 0x5a);
        assert_int_equal(u_cksum_finish(u_cksum_raw_fold(
                             u_cksum_raw_add(u_cksum_raw_be32(0, 0x12345678), area, bytes))),
                         u_cksum_finish(u_cksum_add(
                             u_cksum_pseudo4(u_be32(0x12345678), u_be32(0), 0, 0), area, bytes)));
    }
    memset(area, 0xff, sizeof(area));
    assert_int_equal(u_cksum_raw_fold(u_cksum_raw_add(0, area, sizeof(area))), 0xffff);
    assert_int_equal(u_cksum_raw_fold(0), 0);
}

/* All lengths up to beyond the longest inline one. */
static void sums_of_short_pieces_agree(void **state)
{
    u_u8 area[U_CKSUM_SHORT_MAX + 40];
    u_u8 copy[sizeof(area) + 1];
    u_u32 bytes;

    for (bytes = 0; bytes <= sizeof(area); bytes++) {
        u_u64 sum;

        fill_random(area, sizeof(area), bytes);
        sum = u_cksum_raw_short((u_u64)bytes << 60, NULL, area, bytes);
        assert_int_equal(u_cksum_raw_fold(sum),
                         u_cksum_raw_fold(u_cksum_raw_add((u_u64)bytes << 60, area, bytes)));
        copy[bytes] = 0x5a;
        assert_true(u_cksum_raw_short((u_u64)bytes << 60, copy, area, bytes) == sum);
        assert_memory_equal(copy, area, bytes);
        assert_int_equal(copy[bytes], 0x5a);
    }
}

/* A header template adds the length last. */
static void subtraction_from_a_complement_adds(void **state)
{
    u_u32 a;
    u_u32 b;

    for (a = 0; a <= 0xffff; a += a < 300 || a > 0xff00 ? 1 : 251)
        for (b = 1; b <= 0xffff; b += b < 300 || b > 0xff00 ? 1 : 257)
            if (u_cksum16_sub(~a & 0xffff, b) != (~u_cksum16_add(a, b) & 0xffff))
                fail_msg("%x and %x", a, b);
}

/* A single bit error at any place makes the checksum invalid (RFC 1071). */
static void valid_sums_differ_from_invalid_ones(void **state)
{
    u_u8 area[40];
    struct u_be16 stored;
    unsigned bit;

    fill_random(area, sizeof(area), 6);
    memset(area + 16, 0, 2);
    stored = u_be16(cksum(area, sizeof(area)));
    memcpy(area + 16, &stored, 2);
    assert_true(u_cksum_raw_is_valid(u_cksum_raw_add(0, area, sizeof(area))));
    for (bit = 0; bit < 8 * sizeof(area); bit++) {
        area[bit / 8] ^= (u_u8)(1u << bit % 8);
        assert_false(u_cksum_raw_is_valid(u_cksum_raw_add(0, area, sizeof(area))));
        area[bit / 8] ^= (u_u8)(1u << bit % 8);
    }
    assert_true(u_cksum_raw_is_valid(~(u_u64)0));
    assert_true(u_cksum_raw_is_valid(0xffff));
    assert_false(u_cksum_raw_is_valid(1));
}

/* Random sums, multiples of 0xffff and their neighbours, the largest included. */
static void valid_sums_are_the_multiples_of_0xffff(void **state)
{
    struct u_prng prng;
    unsigned i;

    u_prng_seed(&prng, 8);
    for (i = 0; i < 20000; i++) {
        u_u64 sum = u_prng_next(&prng);
        u_u64 multiple = (i % 4 == 0 ? ~(u_u64)0 / 0xffff - i / 4 : sum / 0xffff) * 0xffff;

        assert_int_equal(u_cksum_raw_is_valid(sum), sum % 0xffff == 0 && sum != 0);
        assert_true(u_cksum_raw_is_valid(multiple));
        assert_false(u_cksum_raw_is_valid(multiple - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc1071_example_gives_its_sum),
        cmocka_unit_test(nothing_sums_to_zero),
        cmocka_unit_test(every_length_and_alignment_agrees),
        cmocka_unit_test(every_cut_in_three_agrees),
        cmocka_unit_test(byte_by_byte_agrees),
        cmocka_unit_test(copy_copies_exactly_and_sums_the_same),
        cmocka_unit_test(all_ones_and_all_zeros_agree),
        cmocka_unit_test(many_pieces_never_overflow),
        cmocka_unit_test(bytes_with_their_checksum_sum_to_zero),
        cmocka_unit_test(pseudo_header_of_ipv4_is_its_twelve_bytes),
        cmocka_unit_test(inline_sums_agree),
        cmocka_unit_test(sums_of_short_pieces_agree),
        cmocka_unit_test(subtraction_from_a_complement_adds),
        cmocka_unit_test(valid_sums_differ_from_invalid_ones),
        cmocka_unit_test(valid_sums_are_the_multiples_of_0xffff),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
