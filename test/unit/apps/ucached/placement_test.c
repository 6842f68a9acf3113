/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of NUMA nodes, and the messages about huge pages. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "placement.h"

#define PAGE (UINT64_C(2) << 20)

/* Cores 0 to 3 on node 0, 4 to 7 on node 1, and so on. */
static int four_each(unsigned core)
{
    return (int)core / 4;
}

static int unknown(unsigned core)
{
    (void)core;
    return CORES_NODE_UNKNOWN;
}

static void test_nodes_of_the_threads(void **state)
{
    struct cores cores = {.count = 5, .list = {0, 9, 1, 255, 256}};
    (void)state;
    assert_int_equal(placement_nodes(&cores, 0, four_each), 0);
    assert_int_equal(placement_nodes(&cores, 1, four_each), 1);
    assert_int_equal(placement_nodes(&cores, 2, four_each), 1 | 1 << 2);
    assert_int_equal(placement_nodes(&cores, 3, four_each), 1 | 1 << 2);
    assert_int_equal(placement_nodes(&cores, 4, four_each), 1 | 1 << 2 | UINT64_C(1) << 63);
    /* Node 64 is omitted; with more threads than cores, cores are shared. */
    assert_int_equal(placement_nodes(&cores, 50, four_each), 1 | 1 << 2 | UINT64_C(1) << 63);
    assert_int_equal(placement_nodes(&cores, 5, unknown), 0);
}

static unsigned asked;

static int count_asked(unsigned core)
{
    (void)core;
    asked++;
    return 3;
}

/* Without a list the threads may run on all allowed cores. */
static void test_nodes_without_a_list(void **state)
{
    struct cores none = {.count = 0}, all;
    char error[CORES_ERROR_MAX];
    (void)state;
    assert_int_equal(cores_all(&all, error), 0);
    assert_int_equal(placement_nodes(&none, 1, count_asked), 1 << 3);
    assert_int_equal(asked, all.count);
}

static void must_say(const struct kv_placement *placement, const struct placement_system *before,
                     const char *wanted)
{
    char text[PLACEMENT_TEXT_MAX];
    assert_string_equal(placement_pages_text(placement, before, text), wanted);
}

static void test_reserved(void **state)
{
    struct placement_system before = {.reservable = true, .reserved = 40, .free = 31};
    struct kv_placement placement = {.pages = KV_PAGES_HUGE, .huge_bytes = 31 * PAGE};
    (void)state;
    must_say(&placement, &before, "items in 31 reserved huge pages of 2 MiB");
    placement = (struct kv_placement){.pages = KV_PAGES_ADVISED};
    must_say(&placement, &before, "too little memory for a huge page; raise -m");
}

static void test_too_few(void **state)
{
    struct placement_system before = {
        .reservable = true, .reserved = 40, .free = 30, .transparent = true};
    struct kv_placement placement = {
        .pages = KV_PAGES_ADVISED, .huge_bytes = 31 * PAGE, .huge_error = ENOMEM};
    (void)state;
    must_say(&placement, &before,
             "31 huge pages of 2 MiB wanted, 30 free: items use transparent huge pages where "
             "available; to reserve enough: sysctl vm.nr_hugepages=41");
    before = (struct placement_system){.reservable = true};
    must_say(&placement, &before,
             "31 huge pages of 2 MiB wanted, 0 free: items use 4 KiB pages, transparent huge pages "
             "are disabled (/sys/kernel/mm/transparent_hugepage/enabled); to reserve enough: "
             "sysctl vm.nr_hugepages=31");
}

static void test_refused(void **state)
{
    struct placement_system before = {.reservable = true, .free = 31, .transparent = true};
    struct kv_placement placement = {
        .pages = KV_PAGES_ADVISED, .huge_bytes = 31 * PAGE, .huge_error = EFAULT};
    (void)state;
    must_say(&placement, &before,
             "31 huge pages of 2 MiB refused (Bad address): items use transparent huge pages where "
             "available");
    before = (struct placement_system){.transparent = true};
    must_say(&placement, &before,
             "the kernel has no huge pages of 2 MiB to reserve: items use transparent huge pages "
             "where available");
    placement.pages = KV_PAGES_SMALL;
    must_say(&placement, &before,
             "the kernel has no huge pages of 2 MiB to reserve: items use 4 KiB pages, transparent "
             "huge pages are disabled (/sys/kernel/mm/transparent_hugepage/enabled)");
}

/* The figures of this machine are consistent. */
static void test_this_system(void **state)
{
    struct placement_system system;
    (void)state;
    memset(&system, 0xff, sizeof(system));
    placement_system_read(&system);
    assert_true(system.free <= system.reserved);
    if (!system.reservable)
        assert_int_equal(system.free, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_of_the_threads),
        cmocka_unit_test(test_nodes_without_a_list),
        cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_this_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
