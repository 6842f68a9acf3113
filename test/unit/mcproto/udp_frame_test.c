/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame header of UDP datagrams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"

static int parse(const char *datagram, size_t len, struct mc_udp_frame *frame)
{
    return mc_udp_parse(guard_behind(datagram, len), (u_u32)len, frame);
}

static void requests_of_one_datagram_are_taken(void **state)
{
    struct mc_udp_frame frame;

    assert_int_equal(parse("\x12\x34\0\0\0\1\0\0x", 9, &frame), 1);
    assert_int_equal(frame.request_id, 0x1234);
    assert_int_equal(frame.sequence, 0);
    assert_int_equal(frame.datagrams, 1);
    /* Sequence and the reserved field are not looked at. */
    assert_int_equal(parse("\xff\xff\x56\x78\0\1\x9a\xbcxyz", 11, &frame), 1);
    assert_int_equal(frame.request_id, 0xffff);
    assert_int_equal(frame.sequence, 0x5678);
}

static void others_are_dropped(void **state)
{
    struct mc_udp_frame frame;
    u_u32 len;

    for (len = 0; len <= MC_UDP_HEADER_BYTES; len++)
        assert_int_equal(parse("\0\0\0\0\0\1\0\0", len, &frame), 0);
    assert_int_equal(parse("\0\0\0\0\0\0\0\0x", 9, &frame), 0);
    assert_int_equal(parse("\0\0\0\0\0\2\0\0x", 9, &frame), 0);
    assert_int_equal(parse("\0\0\0\0\1\1\0\0x", 9, &frame), 0);
}

static void replies_are_cut(void **state)
{
    assert_int_equal(mc_udp_datagrams(0), 0);
    assert_int_equal(mc_udp_datagrams(1), 1);
    assert_int_equal(mc_udp_datagrams(1392), 1);
    assert_int_equal(mc_udp_datagrams(1393), 2);
    assert_int_equal(mc_udp_datagrams(1392u * 65535), 65535);
    assert_int_equal(mc_udp_datagrams(1392u * 65535 + 1), 65535);
    assert_int_equal(mc_udp_datagrams(0xffffffffu), 65535);
}

static void headers_come_back(void **state)
{
    struct mc_udp_frame frame = {0xabcd, 0x0102, 1};
    struct mc_udp_frame back;
    u_u8 out[MC_UDP_HEADER_BYTES + 1];

    memset(out, 0xee, sizeof out);
    assert_int_equal(mc_udp_write(out, &frame), MC_UDP_HEADER_BYTES);
    assert_memory_equal(out, "\xab\xcd\x01\x02\0\1\0\0\xee", 9);
    assert_int_equal(mc_udp_parse(out, sizeof out, &back), 1);
    assert_memory_equal(&back, &frame, sizeof frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_one_datagram_are_taken),
        cmocka_unit_test(others_are_dropped),
        cmocka_unit_test(replies_are_cut),
        cmocka_unit_test(headers_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
