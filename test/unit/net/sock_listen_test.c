/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where kernel sockets listen: the grammar of -l and the check for a port that is taken.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/net.h"

static void must_resolve(const char *spec, const char *const *texts)
{
    struct net_endpoints endpoints;
    char text[NET_ENDPOINT_TEXT_MAX];
    char error[NET_ERROR_MAX];
    unsigned i;

    if (net_endpoints_resolve(spec, 11211, &endpoints, error) < 0)
        fail_msg("%s: %s", spec, error);
    for (i = 0; texts[i]; i++) {
        assert_true(i < endpoints.count);
        assert_string_equal(net_endpoint_text(&endpoints.list[i], text), texts[i]);
    }
    assert_int_equal(endpoints.count, i);
}

static void test_grammar(void **state)
{
    static const char *const one[] = {"127.0.0.1:11211", NULL};
    static const char *const ports[] = {"127.0.0.1:1", "[::1]:65535", "[fe80::1:2]:11211", NULL};
    static const char *const mixed[] = {"127.0.0.1:11211", "[::1]:11211", "127.0.0.2:7", NULL};

    must_resolve("127.0.0.1", one);
    must_resolve("127.0.0.1,127.0.0.1", one); /* each once */
    must_resolve("127.0.0.1:1,[::1]:65535,fe80::1:2", ports);
    must_resolve("127.0.0.1;[::1],127.0.0.2:7", mixed);
}

static void test_wildcard(void **state)
{
    struct net_endpoints all, star;
    char error[NET_ERROR_MAX];
    unsigned i;

    assert_int_equal(net_endpoints_resolve(NULL, 11211, &all, error), 0);
    assert_int_equal(net_endpoints_resolve("*:11211", 1, &star, error), 0);
    assert_true(all.count >= 1 && all.count <= 2);
    assert_int_equal(all.count, star.count);
    for (i = 0; i < all.count; i++) {
        assert_true(all.list[i].optional);
        assert_memory_equal(&all.list[i].addr, &star.list[i].addr, all.list[i].addr_len);
    }
}

static void test_mistakes(void **state)
{
    static const char *const wrong[] = {
        "",          ",",          "127.0.0.1,",    "127.0.0.1:",     "127.0.0.1:0",
        "1.1.1.1:x", "1.1.1.1:+5", "1.1.1.1:65536", "[::1",           "[::1]x",
        "[::1]:",    "[]:1",       ":11211",        "127.0.0.1,,::1", "256.256.256.256",
    };
    struct net_endpoints endpoints;
    char error[NET_ERROR_MAX];
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (net_endpoints_resolve(wrong[i], 11211, &endpoints, error) == 0)
            fail_msg("\"%s\" was accepted", wrong[i]);
        assert_non_null(strstr(error, "-l"));
    }
}

static void test_too_many(void **state)
{
    struct net_endpoints endpoints;
    char error[NET_ERROR_MAX];
    char spec[NET_ENDPOINT_MAX * 16 + 16] = "";
    size_t len = 0;
    int i;

    for (i = 0; i <= NET_ENDPOINT_MAX; i++)
        len += (size_t)snprintf(spec + len, sizeof(spec) - len, "%s127.0.0.%d", i > 0 ? "," : "",
                                i + 1);
    assert_int_equal(net_endpoints_resolve(spec, 11211, &endpoints, error), -1);
    memset(spec, 'a', 400);
    spec[400] = '\0';
    assert_int_equal(net_endpoints_resolve(spec, 11211, &endpoints, error), -1);
}

static void test_claim(void **state)
{
    struct net_endpoints endpoints, again;
    char error[NET_ERROR_MAX];
    struct sockaddr_in addr;
    int on = 1;
    int fd;

    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, &endpoints, error), 0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    memcpy(&addr, &endpoints.list[0].addr, sizeof(addr));
    assert_int_not_equal(addr.sin_port, 0);

    /* Somebody who would share the port with us: still taken. */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 1), 0);
    again = endpoints;
    assert_int_equal(net_endpoints_claim(&again, error), -1);
    assert_non_null(strstr(error, "127.0.0.1:"));
    close(fd);
    again = endpoints;
    assert_int_equal(net_endpoints_claim(&again, error), 0);

    /* An address that is not ours. */
    assert_int_equal(net_endpoints_resolve("192.0.2.1", 11211, &endpoints, error), 0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),  cmocka_unit_test(test_wildcard),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_claim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
