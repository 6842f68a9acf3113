/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ketama: the servers of keys as libmemcached 1.1.4 computes them, by memcached_generate_hash()
 * with MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "load/ketama.h"

enum { COUNTED_KEYS = 100000 };

struct vector {
    const struct load_ketama_server *servers;
    uint32_t count;
    const char *digits;        /* servers of key-0, key-1, ... */
    const uint32_t counted[4]; /* keys of each server, of k00000000 to k00099999 */
};

static const struct load_ketama_server equal[] = {
    {"10.0.0.1", 11211, 0}, {"10.0.0.2", 11211, 0}, {"cache3.example", 11212, 0}};
static const struct load_ketama_server weighted[] = {
    {"10.0.0.1", 11211, 1}, {"10.0.0.2", 11211, 2}, {"cache3.example", 11212, 4}};
static const struct load_ketama_server ports[] = {{"127.0.0.1", 11211, 1},
                                                  {"127.0.0.1", 11212, 1},
                                                  {"127.0.0.1", 11213, 1},
                                                  {"127.0.0.1", 11214, 1}};

static const struct vector vectors[] = {
    {equal,
     3,
     "2101100012200011220112211110212211211010121022020122200222101001",
     {33575, 35386, 31039}},
    {weighted,
     3,
     "2210011212200011220122212110212212211011121022020122202222101221",
     {16147, 25123, 58730}},
    {ports,
     4,
     "0221000120111130313101300221301303020300113231220001312230110323",
     {22562, 25180, 25507, 26751}},
    {equal, 1, "0000000000000000000000000000000000000000000000000000000000000000", {COUNTED_KEYS}},
};

static struct load_ketama ring;

static uint32_t server_of(const char *format, unsigned n)
{
    char key[32];
    int len = snprintf(key, sizeof(key), format, n);

    return load_ketama_server_of(&ring, key, (size_t)len);
}

static void test_libmemcached(void **state)
{
    (void)state;
    for (unsigned v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
        const struct vector *vector = &vectors[v];
        uint32_t counted[4] = {0};

        assert_int_equal(load_ketama_open(&ring, vector->servers, vector->count), 0);
        for (unsigned i = 0; vector->digits[i] != '\0'; i++)
            assert_int_equal(server_of("key-%u", i), vector->digits[i] - '0');
        for (unsigned i = 0; i < COUNTED_KEYS; i++)
            counted[server_of("k%08u", i)]++;
        assert_memory_equal(counted, vector->counted, sizeof(counted));
    }
}

/* Keys of the servers that stay do not move. */
static void test_one_server_less(void **state)
{
    uint32_t before[1000], after;

    (void)state;
    assert_int_equal(load_ketama_open(&ring, ports, 4), 0);
    for (unsigned i = 0; i < 1000; i++)
        before[i] = server_of("%u", i);
    assert_int_equal(load_ketama_open(&ring, ports, 3), 0);
    for (unsigned i = 0; i < 1000; i++) {
        after = server_of("%u", i);
        assert_true(before[i] == 3 || after == before[i]);
        assert_in_range(after, 0, 2);
    }
}

static void test_bounds(void **state)
{
    static struct load_ketama_server many[LOAD_KETAMA_SERVERS_MAX + 1];
    char host[LOAD_KETAMA_NAME_MAX + 2];

    (void)state;
    for (unsigned i = 0; i <= LOAD_KETAMA_SERVERS_MAX; i++)
        many[i] = (struct load_ketama_server){"h", (uint16_t)(i + 1), UINT32_MAX - i};
    assert_int_equal(load_ketama_open(&ring, many, 0), -1);
    assert_int_equal(load_ketama_open(&ring, many, LOAD_KETAMA_SERVERS_MAX + 1), -1);
    assert_int_equal(load_ketama_open(&ring, many, LOAD_KETAMA_SERVERS_MAX), 0);
    assert_in_range(ring.count, 1, LOAD_KETAMA_POINTS_MAX);
    many[0].weight = 1; /* no point: it gets no keys */
    assert_int_equal(load_ketama_open(&ring, many, 2), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(server_of("%u", i), 1);
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    many[0].host = host;
    assert_int_equal(load_ketama_open(&ring, many, 1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libmemcached),
        cmocka_unit_test(test_one_server_less),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
