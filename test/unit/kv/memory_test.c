/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table's memory: what pages are behind it, and on which nodes. Some of it can only be had as
 * root: huge pages are set aside for a test and given back after it.
 */
#define _GNU_SOURCE /* madvise() */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "kv/engine.h"
#include "kv_rig.h"

#define HUGE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define TABLE_BYTES (8 * MIB)
#define TABLE_HUGE_PAGES 4 /* at most: so many fill the limit */

/* ---- reports of the system ---------------------------------------------------------------- */

static long number_read(const char *path)
{
    long number = -1;
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ld", &number) != 1)
        number = -1;
    if (file)
        fclose(file);
    return number;
}

static bool number_write(const char *path, long number)
{
    FILE *file = fopen(path, "w");
    bool written = file && fprintf(file, "%ld", number) > 0;
    return file && fclose(file) == 0 && written;
}

/* Copies the line about the mapping which begins there. */
static bool find_line(const char *path, const void *at, char line[512])
{
    char name[32];
    bool found = false;
    snprintf(name, sizeof(name), "%lx", (unsigned long)(uintptr_t)at);
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, 512, file))
        found = strncmp(line, name, strlen(name)) == 0;
    if (file)
        fclose(file);
    return found;
}

/* Others may do so too: a difference, and for a moment only. False if it can't be. */
static bool huge_pages_add(long more)
{
    long before = number_read(HUGE_PAGES "nr_hugepages");
    if (before < 0 || !number_write(HUGE_PAGES "nr_hugepages", before + more))
        return false;
    if (more < 0 || number_read(HUGE_PAGES "nr_hugepages") >= before + more)
        return true;
    number_write(HUGE_PAGES "nr_hugepages", before);
    return false;
}

static struct kv *create(uint64_t memory_bytes, uint64_t memory_bytes_max, uint64_t numa_nodes)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .memory_bytes_max = memory_bytes_max,
                               .value_bytes_max = 1 << 20,
                               .worker_max = 1,
                               .evict = true,
                               .huge_pages = true,
                               .numa_nodes = numa_nodes};
    const char *error = "not set";
    struct kv *kv = kv_create(&config, &error);
    if (!kv)
        fail_msg("kv_create: %s", error);
    return kv;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_whole_huge_pages(void **state)
{
    (void)state;
    assert_int_equal(kv_memory_huge_part(0), 0);
    assert_int_equal(kv_memory_huge_part(2 * MIB - 1), 0);
    assert_int_equal(kv_memory_huge_part(2 * MIB), 2 * MIB);
    assert_int_equal(kv_memory_huge_part(4 * MIB - 4096), 2 * MIB);
    assert_int_equal(kv_memory_huge_part(UINT64_MAX), UINT64_MAX - 2 * MIB + 1);
}

static void test_map(void **state)
{
    struct kv_memory memory = {0};
    (void)state;
    assert_false(kv_memory_map(&memory, UINT64_C(1) << 60));
    assert_null(memory.base);
    kv_memory_unmap(&memory);
    assert_true(kv_memory_map(&memory, 5 * MIB));
    assert_int_equal((uintptr_t)memory.base % (2 * MIB), 0);
    assert_true(memory.base + 5 * MIB <= memory.mapping + memory.mapping_bytes);
    assert_true(kv_memory_open(&memory, memory.base + 100, 5 * MIB - 100));
    memset(memory.base, 1, 5 * MIB);
    kv_memory_close(&memory, memory.base + 4096, 4096);
    assert_int_equal(memory.base[4095], 1);
    assert_int_equal(memory.base[4096], 0);
    assert_int_equal(memory.base[8191], 0);
    assert_int_equal(memory.base[8192], 1);
    kv_memory_unmap(&memory);
    assert_null(memory.base);
}

/* Whether the kernel leaves the page out of core files: "dd" among its flags. */
static bool is_hidden(const uint8_t *page)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long long from, to;
    bool here = false, hidden = false;
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
            here = (uintptr_t)page >= from && (uintptr_t)page < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            hidden = strstr(line, " dd") != NULL;
    }
    fclose(maps);
    return hidden;
}

/* From the first whole page on, also for memory opened or released later. */
static void test_hide(void **state)
{
    struct kv_memory memory = {0};
    (void)state;
    assert_true(kv_memory_map(&memory, 4 * MIB));
    kv_memory_hide(&memory, memory.base + 4097);
    assert_true(kv_memory_open(&memory, memory.base, 2 * MIB));
    assert_false(is_hidden(memory.base + 4096));
    assert_true(is_hidden(memory.base + 8192));
    assert_true(kv_memory_open(&memory, memory.base + 2 * MIB, 2 * MIB));
    kv_memory_close(&memory, memory.base + 2 * MIB, 4096);
    assert_true(is_hidden(memory.base + 2 * MIB));
    assert_true(is_hidden(memory.base + 4 * MIB - 1));
    kv_memory_unmap(&memory);
}

/* Items are in core files only if they shall be. */
static void test_items_in_core_files(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct kv_config config = {.memory_bytes = 8 * MIB,
                                   .value_bytes_max = 1000,
                                   .worker_max = 1,
                                   .evict = true,
                                   .dump_items = i == 1};
        const char *error;
        struct kv *kv = kv_create(&config, &error);
        assert_non_null(kv);
        assert_int_equal(is_hidden(kv->memory.base + kv->memory.bytes - 1), i == 0);
        kv_destroy(kv);
    }
}

/* More than the machine has set aside: the addresses are as good as before. */
static void test_too_few_huge_pages(void **state)
{
    struct kv_memory memory = {0};
    long pages = number_read(HUGE_PAGES "nr_hugepages");
    long more = number_read(HUGE_PAGES "nr_overcommit_hugepages");
    uint64_t bytes = (uint64_t)(1000 + (pages < 0 ? 0 : pages + more)) * 2 * MIB;
    (void)state;
    assert_true(kv_memory_map(&memory, bytes));
    assert_true(kv_memory_take_huge(&memory, memory.base, bytes - 1, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_SMALL);
    assert_int_equal(memory.placement.huge_bytes, bytes - 2 * MIB);
    assert_int_not_equal(memory.placement.huge_error, 0);
    assert_int_equal(memory.huge_bytes, 0);
    assert_true(kv_memory_open(&memory, memory.base, 4 * MIB));
    memset(memory.base, 1, 4 * MIB);
    kv_memory_advise(&memory, memory.base);
    kv_memory_unmap(&memory);
}

static void test_less_than_a_huge_page(void **state)
{
    struct kv_memory memory = {0};
    (void)state;
    assert_true(kv_memory_map(&memory, 4 * MIB));
    assert_true(kv_memory_take_huge(&memory, memory.base, 2 * MIB - 1, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_SMALL);
    assert_int_equal(memory.placement.huge_error, 0);
    assert_int_equal(memory.huge_bytes, 0);
    kv_memory_unmap(&memory);
}

/* One node is no choice: nothing is asked of the system, so nothing can fail. */
static void test_one_node(void **state)
{
    struct kv_memory memory = {0};
    (void)state;
    assert_true(kv_memory_map(&memory, 4 * MIB));
    kv_memory_interleave(&memory, 0);
    assert_int_equal(memory.placement.numa_error, 0);
    kv_memory_interleave(&memory, UINT64_C(1) << 63);
    assert_int_equal(memory.placement.numa_error, 0);
    kv_memory_unmap(&memory);
}

/* Nodes that are not there are left out, unless none is left. */
static void test_several_nodes(void **state)
{
    struct kv_memory memory = {0};
    char line[512];
    (void)state;
    assert_true(kv_memory_map(&memory, 4 * MIB));
    kv_memory_interleave(&memory, UINT64_C(1) | UINT64_C(1) << 63);
    if (memory.placement.numa_error == ENOSYS || memory.placement.numa_error == EPERM) {
        print_message("this system has no NUMA policies, or forbids them\n");
        kv_memory_unmap(&memory);
        skip();
    }
    assert_int_equal(memory.placement.numa_error, 0);
    if (find_line("/proc/self/numa_maps", memory.base, line))
        assert_non_null(strstr(line, "interleave:0"));
    kv_memory_interleave(&memory, UINT64_C(3) << 62);
    assert_int_equal(memory.placement.numa_error, EINVAL);
    kv_memory_unmap(&memory);
}

/* The table works without them and reports it. */
static void test_refused_nodes(void **state)
{
    struct kv_placement placement;
    struct kv *kv = create(TABLE_BYTES, 0, UINT64_C(3) << 62);
    (void)state;
    kv_placement(kv, &placement);
    assert_int_not_equal(placement.numa_error, 0);
    rig_check(kv);
    kv_destroy(kv);
}

/* Stores new keys, checks each, and comes to rest. */
static void store(struct kv *kv, struct kv_worker *worker, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char name[32];
        struct kv_view view;
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        enum kv_error error;
        struct kv_change change = {.item = kv_item_new(worker, &key, 1000, 0, 0, &error)};
        assert_non_null(change.item);
        rig_fill(change.item, 1000, i);
        assert_int_equal(kv_update(worker, &key, rig_decide_replace, NULL, &change), KV_REPLACE);
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        assert_true(rig_is_filled(view.item, 1000, i));
        kv_quiesce(worker);
    }
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(worker);
    rig_check(kv);
    assert_true(rig_stats(kv).memory_used_bytes <= rig_stats(kv).memory_limit_bytes);
}

/* Full, with the limit lowered, raised, and raised above what there were huge pages for. */
static void test_table_on_huge_pages(void **state)
{
    (void)state;
    if (!huge_pages_add(TABLE_HUGE_PAGES)) {
        print_message("no huge pages can be set aside here\n");
        skip();
    }
    struct kv *kv = create(TABLE_BYTES, 2 * TABLE_BYTES, 3);
    struct kv_placement placement;
    char line[512];
    assert_true(huge_pages_add(-TABLE_HUGE_PAGES)); /* they go when the table gives them back */
    kv_placement(kv, &placement);
    if (find_line("/proc/self/numa_maps", kv->segments.base, line))
        assert_non_null(strstr(line, "huge"));

    struct kv_worker *worker = kv_join(kv);
    store(kv, worker, 0, 20000);
    assert_true(rig_stats(kv).evictions > 0);
    assert_true(kv_memory_limit_set(worker, TABLE_BYTES / 2));
    store(kv, worker, 20000, 10000);
    assert_true(kv_memory_limit_set(worker, TABLE_BYTES));
    store(kv, worker, 30000, 10000);
    uint64_t items = rig_stats(kv).items;
    assert_true(kv_memory_limit_set(worker, 2 * TABLE_BYTES));
    store(kv, worker, 40000, 30000);
    assert_true(rig_stats(kv).items > items + items / 2);
    kv_leave(worker);
    kv_destroy(kv);

    assert_int_equal(placement.pages, KV_PAGES_HUGE);
    assert_int_equal(placement.huge_error, 0);
    assert_true(placement.huge_bytes >= 4 * MIB && placement.huge_bytes <= TABLE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_huge_pages),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_hide),
        cmocka_unit_test(test_items_in_core_files),
        cmocka_unit_test(test_too_few_huge_pages),
        cmocka_unit_test(test_less_than_a_huge_page),
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_several_nodes),
        cmocka_unit_test(test_refused_nodes),
        cmocka_unit_test(test_table_on_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
