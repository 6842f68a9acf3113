/* SPDX-License-Identifier: BSD-3-Clause */
/* Partial checksums: exactly those that hold the sum over the pseudo-header. */
#include "base/cksum.h"
#include "nic/l4.h"
#include "nic/partial_csum.h"
#include "nic_testing.h"

enum { PAYLOAD_BYTES = 5, TCP = 6, UDP = 17 };

static unsigned char bytes[128];

static void put16(unsigned at, unsigned value)
{
    bytes[at] = (unsigned char)(value >> 8);
    bytes[at + 1] = (unsigned char)value;
}

/* Fills in addresses and payload. Returns the start of the IP payload. */
static unsigned make_ip4(unsigned protocol, unsigned l4_bytes)
{
    unsigned i;

    for (i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    put16(12, 0x0800);
    bytes[14] = 0x45;
    put16(16, 20 + l4_bytes);
    put16(20, 0x4000);
    bytes[23] = (unsigned char)protocol;
    return 34;
}

static unsigned make_ip6(unsigned protocol, unsigned l4_bytes)
{
    make_ip4(protocol, l4_bytes);
    put16(12, 0x86dd);
    bytes[14] = 0x60;
    put16(18, l4_bytes);
    bytes[20] = (unsigned char)protocol;
    return 54;
}

static unsigned pseudo4(unsigned protocol, unsigned l4_bytes)
{
    struct u_be32 src, dst;

    memcpy(&src, bytes + 26, 4);
    memcpy(&dst, bytes + 30, 4);
    return u_cksum_partial(u_cksum_pseudo4(src, dst, protocol, l4_bytes));
}

static unsigned pseudo6(unsigned protocol, unsigned l4_bytes)
{
    return u_cksum_partial(u_cksum_pseudo6(bytes + 22, bytes + 38, protocol, l4_bytes));
}

/* Whether the first `len` bytes of the buffer are recognized as a frame with partial checksum. */
static bool passes(unsigned len)
{
    struct us_pkt pkt = {.data = bytes, .len = len};

    nic_partial_csum_mark(&pkt);
    assert_int_equal(pkt.flags & ~(unsigned)US_PKT_L4_CSUM_GOOD, 0);
    return pkt.flags != 0;
}

static void test_ip4(void **state)
{
    unsigned l4 = make_ip4(TCP, 20 + PAYLOAD_BYTES);
    unsigned len = l4 + 20 + PAYLOAD_BYTES;
    unsigned sum = pseudo4(TCP, 20 + PAYLOAD_BYTES);

    put16(l4 + 16, sum);
    assert_true(passes(len));
    assert_true(passes(len + 3)); /* padding of the frame */
    assert_false(passes(len - 1));
    assert_false(passes(l4 + 17));
    put16(l4 + 16, sum ^ 0x0100);
    assert_false(passes(len));

    l4 = make_ip4(UDP, 8 + PAYLOAD_BYTES);
    put16(l4 + 6, pseudo4(UDP, 8 + PAYLOAD_BYTES));
    assert_true(passes(l4 + 8 + PAYLOAD_BYTES));
}

/* The same frame with a VLAN tag behind its addresses (IEEE 802.1Q). */
static void test_vlan(void **state)
{
    unsigned l4 = make_ip4(TCP, 20 + PAYLOAD_BYTES);

    put16(l4 + 16, pseudo4(TCP, 20 + PAYLOAD_BYTES));
    memmove(bytes + 16, bytes + 12, sizeof(bytes) - 16);
    put16(12, 0x8100);
    put16(14, 5);
    assert_true(passes(l4 + 4 + 20 + PAYLOAD_BYTES));
    assert_false(passes(l4 + 4 + 20 + PAYLOAD_BYTES - 1));
}

static void test_ip6(void **state)
{
    unsigned l4 = make_ip6(TCP, 20 + PAYLOAD_BYTES);

    put16(l4 + 16, pseudo6(TCP, 20 + PAYLOAD_BYTES));
    assert_true(passes(l4 + 20 + PAYLOAD_BYTES));
    assert_false(passes(l4 + 20 + PAYLOAD_BYTES - 1));
    bytes[l4 + 16] ^= 1;
    assert_false(passes(l4 + 20 + PAYLOAD_BYTES));

    l4 = make_ip6(UDP, 8 + PAYLOAD_BYTES);
    put16(l4 + 6, pseudo6(UDP, 8 + PAYLOAD_BYTES));
    assert_true(passes(l4 + 8 + PAYLOAD_BYTES));
}

static void test_other_checksums(void **state)
{
    unsigned l4 = make_ip4(TCP, 20 + PAYLOAD_BYTES);
    unsigned len = l4 + 20 + PAYLOAD_BYTES;
    struct nic_l4 found;

    put16(l4 + 16, pseudo4(TCP, 20 + PAYLOAD_BYTES));
    put16(20, 0x2000); /* a fragment */
    assert_false(passes(len));
    put16(20, 0x4000);
    assert_true(passes(len));
    bytes[14] = 0x44; /* a header that is too short */
    assert_false(passes(len));
    bytes[14] = 0x45;
    put16(16, 19); /* a packet shorter than it */
    assert_false(nic_l4_find(bytes, len, &found));
    put16(16, 40 + PAYLOAD_BYTES);
    bytes[14] = 0x65;
    assert_false(passes(len));
    bytes[14] = 0x45;
    bytes[23] = 1; /* ICMP */
    put16(l4 + 16, pseudo4(1, 20 + PAYLOAD_BYTES));
    assert_false(passes(len));
    put16(12, 0x0806);
    assert_false(passes(len));
    assert_false(passes(13));
    assert_false(passes(0));
    l4 = make_ip4(TCP, 17); /* without the second byte of the checksum */
    put16(l4 + 16, pseudo4(TCP, 17));
    assert_false(passes(l4 + 17));
}

/* Headers that are the whole frame, and that miss their last byte. */
static void test_headers_without_payload(void **state)
{
    struct nic_l4 l4;

    make_ip6(TCP, 0);
    assert_true(nic_l4_find(bytes, 54, &l4));
    assert_int_equal(l4.l4_at, 54);
    assert_false(nic_l4_find(bytes, 53, &l4));
    make_ip4(TCP, 0);
    assert_true(nic_l4_find(bytes, 34, &l4));
    assert_int_equal(l4.l4_at, 34);
    assert_false(nic_l4_find(bytes, 33, &l4));
    bytes[14] = 0x4f; /* with the most options that there are */
    put16(16, 60);
    assert_true(nic_l4_find(bytes, 74, &l4));
    assert_int_equal(l4.l4_at, 74);
    assert_false(nic_l4_find(bytes, 73, &l4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ip4),
        cmocka_unit_test(test_ip6),
        cmocka_unit_test(test_vlan),
        cmocka_unit_test(test_other_checksums),
        cmocka_unit_test(test_headers_without_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
