/* SPDX-License-Identifier: BSD-3-Clause */
/* The intrusive list: order, removal from every place, and the edges of empty and single. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/prng.h"

struct entry {
    int number;
    struct u_list link;
};

enum { ENTRIES = 6 };

static struct entry entries[ENTRIES];

static int number_of(struct u_list *link)
{
    return U_CONTAINER_OF(link, struct entry, link)->number;
}

/* Checks a list against `n` numbers, forwards and backwards. */
static void assert_list(struct u_list *head, const int *expected, int n)
{
    struct u_list *link = head;
    int i;

    for (i = 0; i < n; i++) {
        link = link->next;
        assert_ptr_not_equal(link, head);
        assert_ptr_equal(link->next->prev, link);
        assert_int_equal(number_of(link), expected[i]);
    }
    assert_ptr_equal(link->next, head);
    assert_ptr_equal(head->prev, link);
    assert_int_equal(u_list_is_empty(head), n == 0);
}

static int prepare(void **state)
{
    int i;

    for (i = 0; i < ENTRIES; i++) {
        entries[i].number = i;
        u_list_init(&entries[i].link);
    }
    return 0;
}

static void push_at_both_ends_keeps_order(void **state)
{
    struct u_list head;

    u_list_init(&head);
    assert_list(&head, NULL, 0);
    u_list_push_back(&head, &entries[1].link);
    assert_list(&head, (int[]){1}, 1);
    u_list_push_back(&head, &entries[2].link);
    u_list_push_front(&head, &entries[0].link);
    assert_list(&head, (int[]){0, 1, 2}, 3);
    u_list_push_front(&entries[1].link, &entries[5].link);
    assert_list(&head, (int[]){0, 1, 5, 2}, 4);
}

static void remove_works_at_every_place(void **state)
{
    struct u_list head;
    int removed;
    int left[ENTRIES];
    int i;

    for (removed = 0; removed < ENTRIES; removed++) {
        int n = 0;
        u_list_init(&head);
        for (i = 0; i < ENTRIES; i++) {
            u_list_push_back(&head, &entries[i].link);
            if (i != removed)
                left[n++] = i;
        }
        assert_false(u_list_is_empty(&entries[removed].link));
        u_list_remove(&entries[removed].link);
        assert_true(u_list_is_empty(&entries[removed].link));
        assert_list(&head, left, n);
        u_list_remove(&entries[removed].link); /* harmless when on no list */
        assert_list(&head, left, n);
    }
}

static void pop_takes_first_in_first_out(void **state)
{
    struct u_list head;
    int i;

    u_list_init(&head);
    assert_null(u_list_pop_front(&head));
    for (i = 0; i < ENTRIES; i++)
        u_list_push_back(&head, &entries[i].link);
    for (i = 0; i < ENTRIES; i++) {
        struct u_list *link = u_list_pop_front(&head);
        assert_int_equal(number_of(link), i);
        assert_true(u_list_is_empty(link));
    }
    assert_null(u_list_pop_front(&head));
}

static void append_all_moves_everything_in_order(void **state)
{
    struct u_list a;
    struct u_list b;

    u_list_init(&a);
    u_list_init(&b);
    u_list_append_all(&a, &b);
    assert_list(&a, NULL, 0);

    u_list_push_back(&b, &entries[0].link);
    u_list_push_back(&b, &entries[1].link);
    u_list_append_all(&a, &b);
    assert_list(&a, (int[]){0, 1}, 2);
    assert_list(&b, NULL, 0);

    u_list_append_all(&a, &b);
    assert_list(&a, (int[]){0, 1}, 2);

    u_list_push_back(&b, &entries[2].link);
    u_list_append_all(&a, &b);
    assert_list(&a, (int[]){0, 1, 2}, 3);
    assert_list(&b, NULL, 0);
}

/* A run that is taken off link by link, its ends tied once: none of the list, some, all. */
static void begin_with_takes_a_run_off(void **state)
{
    int taken;

    for (taken = 0; taken <= 3; taken++) {
        struct u_list *link;
        struct u_list head;
        int i;

        u_list_init(&head);
        for (i = 0; i < 3; i++)
            u_list_push_back(&head, &entries[i].link);
        link = head.next;
        for (i = 0; i < taken; i++) {
            struct u_list *next = link->next;
            u_list_init(link);
            link = next;
        }
        u_list_begin_with(&head, link);
        assert_list(&head, (int[]){0, 1, 2} + taken, 3 - taken);
        for (i = 0; i < taken; i++)
            assert_true(u_list_is_empty(&entries[i].link));
        while (u_list_pop_front(&head) != NULL)
            continue;
    }
}

/* Random operations against a plain array. */
static void random_operations_agree_with_an_array(void **state)
{
    struct u_list head;
    struct u_prng prng;
    int order[ENTRIES];
    int n = 0;
    int step;
    int i;

    u_prng_seed(&prng, 1);
    u_list_init(&head);
    for (step = 0; step < 5000; step++) {
        int pick = (int)u_prng_below(&prng, ENTRIES);
        int at = 0;
        while (at < n && order[at] != pick)
            at++;
        if (at < n) {
            u_list_remove(&entries[pick].link);
            for (n--; at < n; at++)
                order[at] = order[at + 1];
        } else if (u_prng_below(&prng, 2)) {
            u_list_push_back(&head, &entries[pick].link);
            order[n++] = pick;
        } else {
            u_list_push_front(&head, &entries[pick].link);
            for (i = n++; i > 0; i--)
                order[i] = order[i - 1];
            order[0] = pick;
        }
        assert_list(&head, order, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(push_at_both_ends_keeps_order, prepare),
        cmocka_unit_test_setup(remove_works_at_every_place, prepare),
        cmocka_unit_test_setup(pop_takes_first_in_first_out, prepare),
        cmocka_unit_test_setup(append_all_moves_everything_in_order, prepare),
        cmocka_unit_test_setup(begin_with_takes_a_run_off, prepare),
        cmocka_unit_test_setup(random_operations_agree_with_an_array, prepare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
