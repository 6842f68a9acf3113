/* SPDX-License-Identifier: BSD-3-Clause */
/* What routers advertise: addresses that are made of prefixes, the MTU, how long they stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft_nd.h"
#include "pair.h"
#include "ustack/core/instance.h"

static struct craft packet;

static int setup(void **state)
{
    static struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    for (i = 0; i < 8; i++) /* until no further solicitation is due */
        raw_pump(&raw, 4 * SECOND);
    nd_skip_frames(&raw);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static void give_advert(struct raw *raw, u_u32 valid_s, u_u32 mtu)
{
    const struct nd_router_advert advert = {1800, valid_s, valid_s, mtu, 0, 0, 0, 0};

    nd_give_router_advert(raw, &advert);
}

/* An answer that waits for us_output() leaves out an address that ends meanwhile. */
static void a_removed_address_is_not_reported(void **state)
{
    struct raw *raw = *state;

    give_advert(raw, 30, 0);
    raw_pump(raw, 28 * SECOND);
    assert_true(nd_auto_answers(raw));
    raw->no_pump = 1;
    nd_make_query(&packet, raw, 1000, 28);
    craft_give(raw, &packet);
    us_input(raw->stack, NULL, 0, raw->now_us += SECOND + SECOND / 2); /* the answer is due */
    us_input(raw->stack, NULL, 0, raw->now_us += SECOND);
    raw_pump(raw, 0);
    assert_int_equal(nd_expect_report(raw, 2), 1); /* the group of the link-local address */
    raw_expect_nothing(raw);
}

/* A datagram has to fit into one packet of the MTU that a router has advertised. */
static void datagrams_keep_to_the_advertised_mtu(void **state)
{
    static const char data[1500];
    struct us_addr far = nd_addr(&nd_far);
    struct raw *raw = *state;

    give_advert(raw, 1800, 1400);
    raw_pump(raw, SECOND);
    nd_skip_frames(raw);
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &far, 2, data, 1400 - 40 - 8 + 1),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &far, 2, data, 1400 - 40 - 8), US_OK);
    raw_pump(raw, 0);
    assert_int_equal(raw_frame(raw)->len, 14 + 1400);
    raw_expect_nothing(raw);
}

/* RFC 4861 6.3.4: each advertisement sets the lifetime of its router anew. */
static void a_router_that_is_advertised_again_stays(void **state)
{
    static const unsigned lifetimes_s[] = {100, 100, 20};
    struct us_addr far = nd_addr(&nd_far);
    struct nd_router_advert advert = {0, 1800, 1800, 0, 0, 0, 0, 0};
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(lifetimes_s); i++) {
        advert.lifetime_s = lifetimes_s[i];
        nd_give_router_advert(raw, &advert);
        raw_pump(raw, i == 2 ? 20 * SECOND - 1 : 60 * SECOND);
        assert_non_null(us_connect(raw->stack, &far, 80, 0, NULL, NULL));
    }
    raw_pump(raw, 1);
    assert_null(us_connect(raw->stack, &far, 80, 0, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_removed_address_is_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(datagrams_keep_to_the_advertised_mtu, setup, teardown),
        cmocka_unit_test_setup_teardown(a_router_that_is_advertised_again_stays, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
