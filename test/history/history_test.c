/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker of histories: correct ones pass, each kind of wrong outcome is rejected. */
#include "history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define OPS_MAX 4096

static struct history_op ops[OPS_MAX];
static unsigned count;

static struct history_op *add(enum history_action action, uint64_t from, uint64_t to)
{
    struct history_op *op = &ops[count++];
    *op = (struct history_op){.action = action, .from = from, .to = to};
    return op;
}

static void store(enum history_action action, const char *text, uint64_t cas, uint64_t from,
                  uint64_t to)
{
    struct history_op *op = add(action, from, to);
    op->value = history_text(text);
    op->cas = cas;
}

static void got(const char *text, uint64_t cas, uint64_t from, uint64_t to)
{
    struct history_op *op = add(HISTORY_GET, from, to);
    op->result = text ? HISTORY_DONE : HISTORY_ABSENT;
    op->seen = history_text(text ? text : "");
    op->cas = cas;
}

static int begin(void **unused)
{
    (void)unused;
    count = 0;
    return 0;
}

static void expect(enum history_verdict verdict)
{
    assert_int_equal(history_check(ops, count), verdict);
}

static void test_one_after_the_other(void **unused)
{
    (void)unused;
    got(NULL, 0, 1, 2);
    store(HISTORY_ADD, "a", 1, 3, 4);
    store(HISTORY_APPEND, "b", 2, 5, 6);
    store(HISTORY_PREPEND, "c", 3, 7, 8);
    got("cab", 3, 9, 10);
    add(HISTORY_DELETE, 11, 12);
    add(HISTORY_DELETE, 13, 14)->result = HISTORY_ABSENT;
    expect(HISTORY_LINEARIZABLE);
}

static void test_numbers(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "10", 1, 1, 2);
    struct history_op *incr = add(HISTORY_INCR, 3, 4);
    incr->delta = 5;
    incr->seen = history_number(15);
    struct history_op *decr = add(HISTORY_DECR, 5, 6);
    decr->delta = 100;
    decr->seen = history_number(0);
    expect(HISTORY_LINEARIZABLE);
    ops[2].seen = history_number(1);
    expect(HISTORY_WRONG);
}

/* A value that is read while it is being stored may be the old one or the new one... */
static void test_either_while_it_goes_on(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    store(HISTORY_SET, "b", 2, 3, 10);
    got("a", 1, 4, 5);
    got("b", 2, 6, 7);
    expect(HISTORY_LINEARIZABLE);
}

/* ...but not the old one again. */
static void test_no_going_back(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    store(HISTORY_SET, "b", 2, 3, 10);
    got("b", 2, 4, 5);
    got("a", 1, 6, 7);
    expect(HISTORY_WRONG);
}

static void test_stale_read(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    store(HISTORY_SET, "b", 2, 3, 4);
    got("a", 1, 5, 6);
    expect(HISTORY_WRONG);
}

static void test_lost_increment(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "1", 1, 1, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct history_op *op = add(HISTORY_INCR, 3 + i, 10 + i);
        op->delta = 1;
        op->seen = history_number(2);
        op->cas = 2 + i;
    }
    expect(HISTORY_WRONG);
    ops[2].seen = history_number(3);
    expect(HISTORY_LINEARIZABLE);
}

static void test_added_twice(void **unused)
{
    (void)unused;
    store(HISTORY_ADD, "a", 1, 1, 4);
    store(HISTORY_ADD, "b", 2, 2, 3);
    expect(HISTORY_WRONG);
    ops[0].result = HISTORY_REFUSED;
    expect(HISTORY_LINEARIZABLE);
}

/* A cas that was seen before the item was deleted must not fit to the one that came after. */
static void test_cas_that_comes_again(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    add(HISTORY_DELETE, 3, 4);
    store(HISTORY_SET, "b", 2, 5, 6);
    store(HISTORY_CAS, "c", 3, 7, 8);
    ops[3].expected = 1;
    expect(HISTORY_WRONG);
    ops[3].result = HISTORY_REFUSED;
    expect(HISTORY_LINEARIZABLE);
}

static void test_cas_does_not_change(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    store(HISTORY_SET, "b", 1, 3, 4);
    expect(HISTORY_WRONG);
}

static void test_lost_touch(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    add(HISTORY_TOUCH, 3, 4)->exptime = 7;
    got("a", 1, 5, 6);
    ops[2].seen_exptime = 7;
    expect(HISTORY_LINEARIZABLE);
    ops[2].seen_exptime = 6;
    expect(HISTORY_WRONG);
}

/* Long ones are searched without trying the same again: two clients, none waits for the other. */
static void test_long_history(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < OPS_MAX / 2; i++) {
        store(HISTORY_SET, i % 2 ? "odd" : "even", 2 * i + 1, 10 * i, 10 * i + 6);
        got(i % 2 ? "odd" : "even", 2 * i + 1, 10 * i + 3, 10 * i + 9);
    }
    expect(HISTORY_LINEARIZABLE);
    ops[OPS_MAX - 1].seen = history_text("neither");
    expect(HISTORY_WRONG);
}

static void test_too_wide(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "last", 1, 0, 100000);
    for (unsigned i = 1; i <= HISTORY_WIDTH_MAX; i++)
        got(NULL, 0, 2 * i, 2 * i + 1);
    got("last", 1, 200000, 200001);
    expect(HISTORY_TOO_WIDE);
}

static bool is_same_client(const struct history_op *a, const struct history_op *b)
{
    return a->id == b->id && a->to < b->from;
}

/* Where only what one client has done is in an order, another one may see it late. */
static void test_partial_order(void **unused)
{
    (void)unused;
    store(HISTORY_SET, "a", 1, 1, 2);
    got(NULL, 0, 3, 4);
    ops[1].id = 1;
    assert_int_equal(history_check_partial(ops, count, is_same_client), HISTORY_LINEARIZABLE);
    expect(HISTORY_WRONG);
    ops[1].id = 0;
    assert_int_equal(history_check_partial(ops, count, is_same_client), HISTORY_WRONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_after_the_other, begin),
        cmocka_unit_test_setup(test_numbers, begin),
        cmocka_unit_test_setup(test_either_while_it_goes_on, begin),
        cmocka_unit_test_setup(test_no_going_back, begin),
        cmocka_unit_test_setup(test_stale_read, begin),
        cmocka_unit_test_setup(test_lost_increment, begin),
        cmocka_unit_test_setup(test_added_twice, begin),
        cmocka_unit_test_setup(test_cas_that_comes_again, begin),
        cmocka_unit_test_setup(test_cas_does_not_change, begin),
        cmocka_unit_test_setup(test_lost_touch, begin),
        cmocka_unit_test_setup(test_long_history, begin),
        cmocka_unit_test_setup(test_too_wide, begin),
        cmocka_unit_test_setup(test_partial_order, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
