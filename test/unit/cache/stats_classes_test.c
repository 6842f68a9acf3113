/* SPDX-License-Identifier: BSD-3-Clause */
/* stats items, slabs, sizes: by memcached's classes. */
#include "rig.h"

#include <stdio.h>

static const char *const item_names[] = {
    "number",
    "number_hot",
    "number_warm",
    "number_cold",
    "age_hot",
    "age_warm",
    "age",
    "mem_requested",
    "evicted",
    "evicted_nonzero",
    "evicted_time",
    "outofmemory",
    "tailrepairs",
    "reclaimed",
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
};

/* Exporters give up on a line whose value is empty, so sscanf() has to find one in each. */
static void check_names(const char *at, const char *prefix, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char expected[64];
        char name[64];
        char value[64];
        int len = 0;

        snprintf(expected, sizeof(expected), "%s%s", prefix, names[i]);
        assert_int_equal(sscanf(at, "STAT %63s %63s%n", name, value, &len), 2);
        assert_string_equal(name, expected);
        assert_memory_equal(at + len, "\r\n", 2);
        at += len + 2;
    }
    assert_string_equal(at, "END\r\n");
}

static uint64_t item_stat(struct rig *rig, unsigned id, const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "items:%u:%s", id, name);
    return rig_stat(rig, "items", full);
}

static uint64_t slab_stat(struct rig *rig, unsigned id, const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "%u:%s", id, name);
    return rig_stat(rig, "slabs", full);
}

static void test_items(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "stats items\r\n", "END\r\n");
    rig_feed(rig, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nget a\r\n");
    rig_drain(&rig->out);
    rig_feed(rig, "stats items\r\n");
    check_names(rig_reply(rig), "items:1:", item_names, sizeof(item_names) / sizeof(item_names[0]));
    assert_int_equal(item_stat(rig, 1, "number"), 2);
    assert_int_equal(item_stat(rig, 1, "number_cold"), 2);
    assert_int_equal(item_stat(rig, 1, "hits_to_cold"), 1);
    /* memcached counts 48 bytes of header, 8 of cas, the key and its end, value and CRLF. */
    assert_int_equal(item_stat(rig, 1, "mem_requested"), 2 * (48 + 8 + 2 + 3));
    assert_int_equal(rig_stat(rig, NULL, "bytes"), 2 * (48 + 8 + 2 + 3));
}

/* Without the thread that moves items between LRUs there is nothing to say about them. */
static void test_items_of_one_lru(void **state)
{
    static const char *const flat_names[] = {
        "number",
        "age",
        "mem_requested",
        "evicted",
        "evicted_nonzero",
        "evicted_time",
        "outofmemory",
        "tailrepairs",
        "reclaimed",
        "expired_unfetched",
        "evicted_unfetched",
        "crawler_reclaimed",
        "crawler_items_checked",
        "lrutail_reflocked",
    };
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.compat.lru_maintainer = false;
    rig_open(&rig, &config);
    rig_expect(&rig, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_drain(&rig.out);
    rig_feed(&rig, "stats items\r\n");
    check_names(rig_reply(&rig), "items:1:", flat_names,
                sizeof(flat_names) / sizeof(flat_names[0]));
    rig_close(&rig);
}

/* 1200 bytes belong to class 13 (1480), 1 MB to the last. */
static void test_each_size_has_its_class(void **state)
{
    struct rig *rig = *state;

    rig_expect_set(rig, "small", 10, 's', "STORED\r\n");
    rig_expect_set(rig, "middle", 1200, 'm', "STORED\r\n");
    rig_expect_set(rig, "large", 1000000, 'l', "STORED\r\n");
    assert_int_equal(item_stat(rig, 1, "number"), 1);
    assert_int_equal(item_stat(rig, 13, "number"), 1);
    assert_int_equal(item_stat(rig, 39, "number"), 1);
    assert_int_equal(slab_stat(rig, 13, "chunk_size"), 1480);
    assert_int_equal(slab_stat(rig, 13, "chunks_per_page"), 708);
    assert_int_equal(slab_stat(rig, 39, "used_chunks"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "active_slabs"), 3);
    rig_expect_set(rig, "middle", 10, 'm', "STORED\r\n");
    assert_int_equal(item_stat(rig, 1, "number"), 2);
    assert_int_equal(item_stat(rig, 13, "number"), 0); /* still there, as its pages would be */
}

/* Flags take 4 bytes of an item: here those that make it too large for class 1. */
static void test_flags_count_for_the_class(void **state)
{
    static const char *const names[] = {"cmd_set",   "get_hits",   "touch_hits", "incr_hits",
                                        "decr_hits", "cas_badval", "delete_hits"};
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\n1\r\n");
    rig_feed(rig, "set b 7 0 36\r\n1                                   \r\n");
    rig_feed(rig, "touch b 0\r\nincr b 1\r\ndecr b 1\r\nget b\r\n");
    rig_feed(rig, "cas b 7 0 36 0\r\n                                    \r\ndelete b\r\n");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(slab_stat(rig, 1, names[i]), i == 0);
        assert_int_equal(slab_stat(rig, 2, names[i]), i == 0 ? 2 : 1);
    }
}

static void test_slabs(void **state)
{
    struct rig *rig = *state;
    uint64_t total;

    rig_feed(rig, "set a 0 0 1\r\n1\r\nincr a 1\r\ndecr a 1\r\nget a\r\ntouch a 0\r\n"
                  "cas a 0 0 1 0\r\nx\r\nset b 0 0 1\r\nx\r\ndelete b\r\n");
    total = slab_stat(rig, 1, "total_chunks");
    assert_int_equal(slab_stat(rig, 1, "used_chunks"), 1);
    assert_int_equal(slab_stat(rig, 1, "free_chunks"), total - 1);
    assert_int_equal(slab_stat(rig, 1, "cmd_set"), 3);
    assert_int_equal(slab_stat(rig, 1, "incr_hits"), 1);
    assert_int_equal(slab_stat(rig, 1, "decr_hits"), 1);
    assert_int_equal(slab_stat(rig, 1, "get_hits"), 1);
    assert_int_equal(slab_stat(rig, 1, "touch_hits"), 1);
    assert_int_equal(slab_stat(rig, 1, "cas_badval"), 1);
    assert_int_equal(slab_stat(rig, 1, "cas_hits"), 0);
    assert_int_equal(slab_stat(rig, 1, "delete_hits"), 1);
    assert_true(rig_stat(rig, "slabs", "total_malloced") > 0);
    for (unsigned i = 0; i < 5; i++) {
        char key[2] = {(char)('k' + (int)i), '\0'};

        rig_expect_set(rig, key, 1000000, 'x', "STORED\r\n");
        total = slab_stat(rig, 39, "total_chunks");
        assert_int_equal(slab_stat(rig, 39, "used_chunks"), i + 1);
        assert_int_equal(slab_stat(rig, 39, "free_chunks"), total - i - 1);
        assert_int_equal(slab_stat(rig, 39, "total_pages"), i / 2 + 1); /* of two chunks */
        assert_int_equal(total, 2 * (i / 2 + 1));
    }
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    assert_int_equal(slab_stat(rig, 1, "get_hits"), 0);
    assert_int_equal(slab_stat(rig, 1, "used_chunks"), 1);
}

static void test_cas_hit_is_of_the_class_that_was_hit(void **state)
{
    struct rig *rig = *state;
    char request[64];
    const char *at;

    rig_expect_set(rig, "a", 10, 'x', "STORED\r\n");
    rig_feed(rig, "gets a\r\n");
    at = strchr(rig_reply(rig), '\r');
    while (at[-1] != ' ')
        at--;
    snprintf(request, sizeof(request), "cas a 0 0 1 %llu\r\ny\r\n", strtoull(at, NULL, 10));
    rig_expect(rig, request, "STORED\r\n");
    assert_int_equal(slab_stat(rig, 1, "cas_hits"), 1);
    assert_int_equal(rig_stat(rig, NULL, "cas_hits"), 1);
}

static void test_age_of_the_oldest(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    rig_wait(rig, 10);
    rig_feed(rig, "set b 0 0 1\r\nx\r\n");
    rig_wait(rig, 5);
    assert_int_equal(item_stat(rig, 1, "age"), 15);
    rig_feed(rig, "get a\r\n");
    assert_int_equal(item_stat(rig, 1, "age"), 5);
}

static void test_evictions_are_told_by_class(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.memory_bytes = 2 << 20;
    rig_open(&rig, &config);
    for (unsigned i = 0; i < 4000; i++) {
        char text[1200];
        size_t len = 0;

        rig_append(text, sizeof(text), &len, "set key%u 0 %u 900 noreply\r\n%0900u\r\n", i,
                   i % 2 * 100, i);
        rig_feed_sliced(&rig, text, len, 0);
    }
    assert_true(item_stat(&rig, 12, "evicted") > 1000);
    assert_int_equal(item_stat(&rig, 12, "evicted"), rig_stat(&rig, NULL, "evictions"));
    assert_int_equal(item_stat(&rig, 12, "evicted"), item_stat(&rig, 12, "evicted_unfetched"));
    assert_in_range(item_stat(&rig, 12, "evicted_nonzero"), item_stat(&rig, 12, "evicted") / 2 - 20,
                    item_stat(&rig, 12, "evicted") / 2 + 20);
    rig_close(&rig);
}

/* A class that had memory for no item is shown, since it was refused some. */
static void test_a_class_without_items(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.memory_bytes = 8 << 20;
    config.settings.evict = false;
    rig_open(&rig, &config);
    for (unsigned i = 0; rig_stat(&rig, NULL, "store_no_memory") == 0; i++) {
        char text[1200];
        size_t len = 0;

        assert_true(i < 20000);
        rig_append(text, sizeof(text), &len, "set key%u 0 0 900\r\n%0900u\r\n", i, i);
        rig_feed_sliced(&rig, text, len, 0);
        rig_forget(&rig.out);
    }
    rig_expect_set(&rig, "a", 30000, 'x', "SERVER_ERROR out of memory storing object\r\n");
    assert_int_equal(item_stat(&rig, 27, "number"), 0);
    assert_int_equal(item_stat(&rig, 27, "outofmemory"), 1);
    rig_close(&rig);
}

static void test_sizes(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.track_sizes = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "stats sizes\r\n", "END\r\n");
    rig_expect_set(&rig, "a", 1, 'x', "STORED\r\n");       /* 61 bytes */
    rig_expect_set(&rig, "b", 4, 'x', "STORED\r\n");       /* 64 */
    rig_expect_set(&rig, "c", 5, 'x', "STORED\r\n");       /* 65 */
    rig_expect_set(&rig, "d", 1000000, 'x', "STORED\r\n"); /* 1000060 */
    rig_expect(&rig, "stats sizes\r\n", "STAT 64 2\r\nSTAT 96 1\r\nSTAT 1000064 1\r\nEND\r\n");
    rig_expect(&rig, "delete d\r\nset b 0 0 5\r\nabcde\r\n", "DELETED\r\nSTORED\r\n");
    rig_expect(&rig, "stats sizes\r\n", "STAT 64 1\r\nSTAT 96 2\r\nEND\r\n");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_of_one_lru),
        cmocka_unit_test_setup_teardown(test_items, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_each_size_has_its_class, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flags_count_for_the_class, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_slabs, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas_hit_is_of_the_class_that_was_hit, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_age_of_the_oldest, rig_setup, rig_teardown),
        cmocka_unit_test(test_evictions_are_told_by_class),
        cmocka_unit_test(test_a_class_without_items),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
