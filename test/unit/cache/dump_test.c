/* SPDX-License-Identifier: BSD-3-Clause */
/* metadump, mgdump, cachedump. */
#include "rig.h"

#include <stdio.h>

#include "cache/cache_worker.h"
#include "cache/exec.h"

#define KEYS 2000

static struct cache_config default_config(void)
{
    struct cache_config config = rig_config();

    cache_settings_defaults(&config.settings);
    config.settings.threads = 2;
    return config;
}

static int setup(void **state)
{
    struct cache_config config = default_config();
    struct rig *rig = malloc(sizeof(*rig));

    rig_open(rig, &config);
    *state = rig;
    return 0;
}

static void fill(struct rig *rig, unsigned keys)
{
    char text[64];

    for (unsigned i = 0; i < keys; i++) {
        snprintf(text, sizeof(text), "set key%u %u 0 4 noreply\r\ndata\r\n", i, i % 2);
        rig_feed(rig, text);
    }
}

/* Runs a dump to its end; returns the number of loops. */
static unsigned finish(struct rig *rig)
{
    unsigned loops = 0;

    while (cache_session_state(rig->session) == CACHE_SESSION_BLOCKED) {
        if (rig->out.sink.full) {
            rig_drain(&rig->out);
            cache_session_resume(rig->session, &rig->out.sink);
        } else {
            rig_turn(rig);
        }
        assert_in_range(++loops, 0, 100000);
    }
    rig_drain(&rig->out);
    return loops;
}

static const char *all_of(struct rig *rig, const char *command)
{
    rig_forget(&rig->out);
    rig_feed(rig, command);
    finish(rig);
    return (const char *)rig->out.taken;
}

static void test_empty(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(all_of(rig, "lru_crawler metadump all\r\n"), "OK\r\nEND\r\n");
    assert_string_equal(all_of(rig, "lru_crawler metadump hash\r\n"), "OK\r\nEND\r\n");
    assert_string_equal(all_of(rig, "lru_crawler mgdump all\r\n"), "OK\r\nEN\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 1 0\r\n"), "END\r\n");
}

static void test_lines(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a/b 5 100 3\r\nabc\r\n");
    assert_string_equal(all_of(rig, "lru_crawler metadump all\r\n"),
                        "OK\r\nkey=a%2Fb exp=1700000100 la=1700000000 cas=1 fetch=no cls=1 "
                        "size=69 flags=5 \nEND\r\n");
    rig_feed(rig, "get a/b\r\n");
    rig_wait(rig, 7);
    rig_feed(rig, "gat 0 a/b\r\n");
    assert_string_equal(all_of(rig, "lru_crawler metadump 1\r\n"),
                        "OK\r\nkey=a%2Fb exp=-1 la=1700000007 cas=1 fetch=yes cls=1 size=69 "
                        "flags=5 \nEND\r\n");
    assert_string_equal(all_of(rig, "lru_crawler mgdump all\r\n"), "OK\r\nmg a/b\r\nEN\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 1 0\r\n"), "ITEM a/b [3 b; 0 s]\r\nEND\r\n");
    rig_feed(rig, "touch a/b 50\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 1 0\r\n"),
                        "ITEM a/b [3 b; 1700000057 s]\r\nEND\r\n");
}

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;

    for (; (text = strstr(text, word)) != NULL; text++)
        found++;
    return found;
}

static void test_binary_keys(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "ms AAEC 1 b\r\nx\r\n"); /* the bytes 0, 1, 2 */
    assert_non_null(strstr(all_of(rig, "lru_crawler metadump all\r\n"), "key=%00%01%02 exp=-1"));
    assert_string_equal(all_of(rig, "lru_crawler mgdump all\r\n"), "OK\r\nmg AAEC b\r\nEN\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 1 0\r\n"), "END\r\n");
}

/* cachedump leaves them out, and does not count them. */
static void test_binary_keys_are_not_counted(void **state)
{
    struct rig *rig = *state;
    char text[64];

    fill(rig, 5);
    for (char letter = 'A'; letter <= 'Z'; letter++) {
        snprintf(text, sizeof(text), "ms AAE%c 1 b q\r\nx\r\n", letter);
        rig_feed(rig, text);
    }
    assert_int_equal(count(all_of(rig, "stats cachedump 1 5\r\n"), "ITEM key"), 5);
}

static void test_each_item_once(void **state)
{
    struct rig *rig = *state;
    const char *dump;
    char line[32];

    fill(rig, KEYS);
    dump = all_of(rig, "lru_crawler metadump all\r\n");
    assert_int_equal(count(dump, "key="), KEYS);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "key=key%u exp=", i);
        assert_int_equal(count(dump, line), 1);
    }
    assert_int_equal(count(all_of(rig, "lru_crawler mgdump hash\r\n"), "\r\nmg key"), KEYS);
    assert_string_equal(dump + strlen(dump) - 4, "EN\r\n");
}

/* A client that reads slowly gets the whole dump and does not block other sessions. */
static void test_back_pressure(void **state)
{
    struct rig *rig = *state;

    fill(rig, KEYS);
    rig_forget(&rig->out);
    rig->out.full_bytes = 2000;
    cache_session_input(rig->session, (const uint8_t *)"lru_crawler metadump all\r\n", 26,
                        &rig->out.sink);
    assert_true(rig->out.taken_len < 2000 + 64 * 100);
    assert_true(finish(rig) > 20);
    assert_int_equal(count((const char *)rig->out.taken, "key="), KEYS);
    assert_non_null(strstr((const char *)rig->out.taken, "END\r\n"));
    rig_expect(rig, "version\r\n", "VERSION 1.6.45\r\n");
}

/* One step does no more than its share, though nothing is full. */
static void test_bounded_steps(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;
    size_t before;

    rig_open(&rig, &config);
    fill(&rig, 20000);
    rig_forget(&rig.out);
    cache_session_input(rig.session, (const uint8_t *)"lru_crawler mgdump all\r\n", 24,
                        &rig.out.sink);
    while (cache_session_state(rig.session) == CACHE_SESSION_BLOCKED) {
        before = rig.out.taken_len;
        assert_int_equal(cache_resumable_count(rig.worker), 1);
        rig_turn(&rig);
        assert_in_range(rig.out.taken_len - before, 0, 600 * 20);
    }
    assert_int_equal(count((const char *)rig.out.taken, "mg key"), 20000);
    rig_close(&rig);
}

static void test_connection_ends_meanwhile(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;

    rig_open(&rig, &config);
    fill(&rig, KEYS);
    rig.out.full_bytes = 1000;
    cache_session_input(rig.session, (const uint8_t *)"lru_crawler metadump all\r\n", 26,
                        &rig.out.sink);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_BLOCKED);
    rig_close(&rig);
}

static void test_transport_without_memory(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;

    rig_open(&rig, &config);
    fill(&rig, KEYS);
    rig.out.fail_after = 5;
    rig_feed_sliced(&rig, "lru_crawler metadump all\r\n", 26, 0);
    while (cache_session_state(rig.session) == CACHE_SESSION_BLOCKED)
        rig_turn(&rig);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    rig_close(&rig);
}

static void test_classes(void **state)
{
    static const struct {
        const char *word;
        bool valid;
        uint64_t classes;
    } cases[] = {
        {"all", true, UINT64_MAX},
        {"hash", true, UINT64_MAX},
        {"1", true, 1},
        {"1,2,63", true, UINT64_C(1) << 62 | 3},
        {"2,,3,", true, 6},
        {"0", false, 0},
        {"64", false, 0},
        {"x", false, 0},
        {"1,x", false, 0},
        {",", false, 0},
        {"-1", false, 0},
        {"1 ", false, 0},
    };
    struct rig *rig = *state;
    uint64_t classes;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool valid = cache_dump_classes((const uint8_t *)cases[i].word,
                                        (uint32_t)strlen(cases[i].word), &classes);

        assert_int_equal(valid, cases[i].valid);
        if (valid)
            assert_true(classes == cases[i].classes);
    }
    rig_expect_set(rig, "large", 1000, 'x', "STORED\r\n");
    rig_feed(rig, "set small 0 0 1\r\nx\r\n");
    assert_string_equal(all_of(rig, "lru_crawler mgdump 1\r\n"), "OK\r\nmg small\r\nEN\r\n");
    assert_string_equal(all_of(rig, "lru_crawler mgdump 12\r\n"), "OK\r\nmg large\r\nEN\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 12 5\r\n"),
                        "ITEM large [1000 b; 0 s]\r\nEND\r\n");
    assert_string_equal(all_of(rig, "stats cachedump 0 5\r\n"), "END\r\n");
}

static void test_cachedump_is_bounded(void **state)
{
    struct rig *rig = *state;

    fill(rig, KEYS);
    assert_int_equal(count(all_of(rig, "stats cachedump 1 7\r\n"), "ITEM key"), 7);
    assert_int_equal(count(all_of(rig, "stats cachedump 1 0\r\n"), "ITEM key"), KEYS);
    fill(rig, 100000);
    all_of(rig, "stats cachedump 1 0\r\n");
    assert_in_range(rig->out.taken_len, (2 << 20) - 100, (2 << 20) + 5);
    assert_string_equal((const char *)rig->out.taken + rig->out.taken_len - 5, "END\r\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_lines),
        TEST(test_binary_keys),
        TEST(test_binary_keys_are_not_counted),
        TEST(test_each_item_once),
        TEST(test_back_pressure),
        cmocka_unit_test(test_bounded_steps),
        cmocka_unit_test(test_connection_ends_meanwhile),
        cmocka_unit_test(test_transport_without_memory),
        TEST(test_classes),
        TEST(test_cachedump_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
