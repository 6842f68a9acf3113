/* SPDX-License-Identifier: BSD-3-Clause */
/* DCTCP: the estimate of RFC 8257 3.3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ustack/tcp/tcp_dctcp.h"

enum { SEGMENT = 1000, WINDOW = 20 };

/* `rounds` windows of which `marked` segments of each twenty carry marks. Returns alpha. */
static unsigned observe(struct us_dctcp *dctcp, u_u32 *seq, unsigned rounds, unsigned marked)
{
    unsigned i;

    for (i = 0; i < rounds * WINDOW; i++) {
        *seq += SEGMENT;
        us_dctcp_acked(dctcp, SEGMENT, i % WINDOW < marked, *seq, *seq + WINDOW * SEGMENT);
    }
    return dctcp->alpha;
}

static void begins_cautiously(void **state)
{
    struct us_dctcp dctcp;

    us_dctcp_init(&dctcp);
    assert_int_equal(us_dctcp_decrease(&dctcp, 100000), 50000);
}

static void estimate_comes_near_the_share(void **state)
{
    struct us_dctcp dctcp;
    u_u32 seq = 0xffff0000u; /* wraps on the way */

    us_dctcp_init(&dctcp);
    assert_int_equal(observe(&dctcp, &seq, 200, WINDOW), 1024);
    assert_in_range(observe(&dctcp, &seq, 200, WINDOW / 2), 480, 560);
    assert_in_range(observe(&dctcp, &seq, 200, WINDOW / 4), 230, 310);
    assert_int_equal(observe(&dctcp, &seq, 300, 0), 0);
    assert_int_equal(us_dctcp_decrease(&dctcp, 100000), 100000);
}

static void one_step_a_window(void **state)
{
    struct us_dctcp dctcp;
    u_u32 seq = 0;

    us_dctcp_init(&dctcp);
    observe(&dctcp, &seq, 1, 0);
    assert_int_equal(dctcp.alpha, 1024); /* the first observation window has not ended */
    observe(&dctcp, &seq, 1, 0);
    assert_in_range(dctcp.alpha, 955, 965); /* 15/16 */
}

/* RFC 8257 3.3 step 3: an ACK of the window's last byte is still within it. */
static void the_last_byte_is_of_its_window(void **state)
{
    struct us_dctcp dctcp;

    us_dctcp_init(&dctcp);
    us_dctcp_acked(&dctcp, SEGMENT, 0, 1000, 5000);
    us_dctcp_acked(&dctcp, 4 * SEGMENT, 0, 5000, 9000);
    assert_int_equal(dctcp.alpha, 1024);
    us_dctcp_acked(&dctcp, SEGMENT, 0, 6000, 9000);
    assert_int_equal(dctcp.alpha, 960);
}

static void largest_windows(void **state)
{
    struct us_dctcp dctcp;

    us_dctcp_init(&dctcp);
    us_dctcp_acked(&dctcp, 1u << 30, 1, 1u << 30, 1u << 29);
    assert_int_equal(dctcp.alpha, 1024);
    assert_int_equal(us_dctcp_decrease(&dctcp, 1u << 30), 1 << 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_cautiously), cmocka_unit_test(estimate_comes_near_the_share),
        cmocka_unit_test(one_step_a_window), cmocka_unit_test(the_last_byte_is_of_its_window),
        cmocka_unit_test(largest_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
