/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where kernel sockets listen: the grammar of -l and the check for a port that is taken.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/handover.h"
#include "net/net.h"

/* As in sock_endpoints.c: how often a claim pauses while its port is in use. */
#define CLAIM_PAUSES_MAX 100

/* The pauses of a claim, in the last of which `holder` is closed. */
static struct {
    int holder;
    unsigned count, last;
} pauses;

extern int nanosleep_counted(const struct timespec *request,
                             struct timespec *left) __asm__("__wrap_nanosleep");

int nanosleep_counted(const struct timespec *request, struct timespec *left)
{
    (void)request, (void)left;
    if (++pauses.count == pauses.last)
        close(pauses.holder);
    return 0;
}

/* What notls:, btls: and mtls: choose, with -Z. */
static void test_tls(void **state)
{
    static const struct {
        const char *spec;
        enum cache_tls tls;
    } table[] = {
        {"127.0.0.1", CACHE_TLS_ON},
        {"notls:127.0.0.1", CACHE_TLS_OFF},
        {"btls:127.0.0.1:5", CACHE_TLS_NO_CERT},
        {"mtls:proto[ascii]:[::1]:5", CACHE_TLS_CERT},
    };
    char error[NET_ERROR_MAX];
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct net_endpoints endpoints = {.tls = true};

        assert_int_equal(
            net_endpoints_resolve(table[i].spec, 11211, NET_ENDPOINT_TCP, &endpoints, error), 0);
        assert_int_equal(
            net_endpoints_resolve(table[i].spec, 11212, NET_ENDPOINT_UDP, &endpoints, error), 0);
        assert_int_equal(endpoints.list[0].tls, table[i].tls);
        assert_int_equal(endpoints.list[1].tls, CACHE_TLS_OFF);
    }
}

static void must_resolve(const char *spec, const char *const *texts)
{
    struct net_endpoints endpoints = {0};
    char text[NET_ENDPOINT_TEXT_MAX];
    char error[NET_ERROR_MAX];
    unsigned i;

    if (net_endpoints_resolve(spec, 11211, NET_ENDPOINT_TCP, &endpoints, error) < 0)
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
    must_resolve(",127.0.0.1;[::1],,127.0.0.2:7,", mixed);
}

static void test_prefixes(void **state)
{
    static const struct {
        const char *spec;
        enum cache_binding binding;
        const char *text;
    } table[] = {
        {"proto[ascii]:127.0.0.1:5", CACHE_BINDING_ASCII, "127.0.0.1:5"},
        {"proto[binary]:[::1]:5", CACHE_BINDING_BINARY, "[::1]:5"},
        {"proto[negotiating]:127.0.0.1", CACHE_BINDING_NEGOTIATE, "127.0.0.1:11211"},
        {"notls:127.0.0.1:5", CACHE_BINDING_NEGOTIATE, "127.0.0.1:5"},
        {"tag[abc]:127.0.0.1", CACHE_BINDING_NEGOTIATE, "127.0.0.1:11211"},
        {"tag_abc_:127.0.0.1:7", CACHE_BINDING_NEGOTIATE, "127.0.0.1:7"},
        {"notls:proto[ascii]:tag[a]:127.0.0.1:7", CACHE_BINDING_ASCII, "127.0.0.1:7"},
    };
    char text[NET_ENDPOINT_TEXT_MAX];
    char error[NET_ERROR_MAX];
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct net_endpoints endpoints = {0};

        if (net_endpoints_resolve(table[i].spec, 11211, NET_ENDPOINT_TCP, &endpoints, error) < 0)
            fail_msg("%s: %s", table[i].spec, error);
        assert_int_equal(endpoints.count, 1);
        assert_int_equal(endpoints.list[0].binding, table[i].binding);
        assert_string_equal(net_endpoint_text(&endpoints.list[0], text), table[i].text);
    }
}

/* TCP and UDP on one port are two things, and a free port is looked for once for each. */
static void test_kinds(void **state)
{
    struct net_endpoints endpoints = {0};
    char error[NET_ERROR_MAX];

    assert_int_equal(
        net_endpoints_resolve("127.0.0.1,127.0.0.2", 0, NET_ENDPOINT_TCP, &endpoints, error), 0);
    assert_int_equal(
        net_endpoints_resolve("127.0.0.1,127.0.0.2", 0, NET_ENDPOINT_UDP, &endpoints, error), 0);
    assert_int_equal(endpoints.count, 4);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    assert_int_equal(endpoints.count, 4);
    assert_int_not_equal(net_endpoint_port(&endpoints.list[0]), 0);
    assert_int_equal(net_endpoint_port(&endpoints.list[0]), net_endpoint_port(&endpoints.list[1]));
    assert_int_not_equal(net_endpoint_port(&endpoints.list[2]), 0);
    assert_int_equal(net_endpoint_port(&endpoints.list[2]), net_endpoint_port(&endpoints.list[3]));
}

/* Addresses of the own stack in the same list. */
static void test_addresses(void **state)
{
    struct us_addr ip4 = {.family = US_IP4, .bytes = {10, 0, 0, 1}};
    struct us_addr ip6 = {.family = US_IP6, .bytes = {0xfd}};
    struct net_endpoints endpoints = {0};
    char text[NET_ENDPOINT_TEXT_MAX];
    struct cache_peer peer;

    net_endpoints_add(&endpoints, NET_ENDPOINT_TCP, &ip4, 11211);
    net_endpoints_add(&endpoints, NET_ENDPOINT_UDP, &ip6, 7);
    assert_int_equal(endpoints.count, 2);
    assert_string_equal(net_endpoint_text(&endpoints.list[0], text), "10.0.0.1:11211");
    assert_string_equal(net_endpoint_text(&endpoints.list[1], text), "[fd00::]:7");
    net_endpoint_peer(&endpoints.list[0], &peer);
    assert_string_equal(peer.transport, "tcp");
    assert_memory_equal(peer.local_addr, ip4.bytes, 4);
    assert_int_equal(peer.local_port, 11211);
    net_endpoint_peer(&endpoints.list[1], &peer);
    assert_string_equal(peer.transport, "udp6");
    assert_memory_equal(peer.local_addr, ip6.bytes, 16);
    assert_int_equal(net_endpoint_port(&endpoints.list[1]), 7);
}

static void test_unix(void **state)
{
    char directory[] = "/tmp/ucached-listen-test-XXXXXX";
    struct net_endpoints endpoints = {0};
    char text[NET_ENDPOINT_TEXT_MAX];
    char error[NET_ERROR_MAX];
    char path[64];
    char long_path[NET_UNIX_PATH_MAX + 2];
    struct stat found;
    mode_t before;
    int fd;

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/u", directory);
    before = umask(022);
    assert_int_equal(net_endpoints_unix(path, 0750, &endpoints, error), 0);
    assert_int_equal(umask(before), 022); /* that of other files stays */
    assert_int_equal(stat(path, &found), 0);
    assert_true(S_ISSOCK(found.st_mode));
    assert_int_equal(found.st_mode & 0777, 0750);
    assert_string_equal(net_endpoint_text(&endpoints.list[0], text), path);
    assert_int_equal(net_endpoint_port(&endpoints.list[0]), 0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    net_endpoints_close(&endpoints);

    /* A socket that was left behind is replaced, anything else is not. */
    assert_int_equal(net_endpoints_unix(path, 0700, &endpoints, error), 0);
    net_endpoints_close(&endpoints);
    assert_int_equal(unlink(path), 0);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(net_endpoints_unix(path, 0700, &endpoints, error), -1);
    assert_non_null(strstr(error, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(net_endpoints_unix(path, 0700, &endpoints, error), -1);
    fd = open("/dev/null", O_RDONLY); /* the lowest free number: no socket is left open */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(net_endpoints_unix("/nonexistent/u", 0700, &endpoints, error), -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    memset(long_path, 'x', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(net_endpoints_unix(long_path, 0700, &endpoints, error), -1);
    assert_int_equal(endpoints.count, 0);
}

static void test_wildcard(void **state)
{
    struct net_endpoints all = {0}, star = {0};
    char error[NET_ERROR_MAX];
    unsigned i;

    assert_int_equal(net_endpoints_resolve(NULL, 11211, NET_ENDPOINT_TCP, &all, error), 0);
    assert_int_equal(net_endpoints_resolve("*:11211", 1, NET_ENDPOINT_TCP, &star, error), 0);
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
        "",
        ",",
        "127.0.0.1:",
        "127.0.0.1:0",
        "1.1.1.1:x",
        "1.1.1.1:+5",
        "1.1.1.1:65536",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[]:1",
        ":11211",
        "127.0.0.1,:1",
        "256.256.256.256",
        "btls:127.0.0.1",
        "mtls:127.0.0.1:5",
        "proto[http]:127.0.0.1",
        "proto[ascii:127.0.0.1",
        "proto[]:127.0.0.1",
        "tag[abc:127.0.0.1",
        "tag_abc:127.0.0.1",
        "proto[ascii]:",
    };
    struct net_endpoints endpoints = {0};
    char error[NET_ERROR_MAX];
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (net_endpoints_resolve(wrong[i], 11211, NET_ENDPOINT_TCP, &endpoints, error) == 0)
            fail_msg("\"%s\" was accepted", wrong[i]);
        assert_non_null(strstr(error, "-l"));
    }
}

static void test_too_many(void **state)
{
    struct net_endpoints endpoints = {0};
    char error[NET_ERROR_MAX];
    char spec[NET_ENDPOINT_MAX * 16 + 16] = "";
    size_t len = 0;
    int i;

    for (i = 0; i <= NET_ENDPOINT_MAX; i++)
        len += (size_t)snprintf(spec + len, sizeof(spec) - len, "%s127.0.0.%d", i > 0 ? "," : "",
                                i + 1);
    assert_int_equal(net_endpoints_resolve(spec, 11211, NET_ENDPOINT_TCP, &endpoints, error), -1);
    memset(spec, 'a', 400);
    spec[400] = '\0';
    assert_int_equal(net_endpoints_resolve(spec, 11211, NET_ENDPOINT_TCP, &endpoints, error), -1);
}

/* A socket that listens with SO_REUSEPORT. */
static int listener(const struct sockaddr_storage *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)addr, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void test_claim(void **state)
{
    struct net_endpoints endpoints = {0}, again;
    char error[NET_ERROR_MAX];

    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_TCP, &endpoints, error), 0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    assert_int_not_equal(net_endpoint_port(&endpoints.list[0]), 0);

    /* A port with a listener is in use, but its listener may be closing. */
    pauses.count = 0;
    pauses.last = CLAIM_PAUSES_MAX + 1;
    pauses.holder = listener(&endpoints.list[0].addr);
    again = endpoints;
    assert_int_equal(net_endpoints_claim(&again, error), -1);
    assert_non_null(strstr(error, "127.0.0.1:"));
    assert_int_equal(pauses.count, CLAIM_PAUSES_MAX);
    pauses.count = 0;
    pauses.last = CLAIM_PAUSES_MAX;
    again = endpoints;
    assert_int_equal(net_endpoints_claim(&again, error), 0);
    assert_int_equal(pauses.count, CLAIM_PAUSES_MAX);

    /* An address that is not ours. */
    assert_int_equal(net_endpoints_resolve("192.0.2.1", 11211, NET_ENDPOINT_TCP, &endpoints, error),
                     0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), -1);
}

/* A machine may be without IPv6, or have it switched off: then the wildcard is of IPv4 alone. */
static void test_claim_with_one_kind_of_address(void **state)
{
    struct net_endpoints endpoints = {0};
    char text[NET_ENDPOINT_TEXT_MAX];
    char error[NET_ERROR_MAX];

    assert_int_equal(
        net_endpoints_resolve("192.0.2.1,127.0.0.1", 0, NET_ENDPOINT_TCP, &endpoints, error), 0);
    endpoints.list[0].optional = true; /* as that of a wildcard */
    endpoints.list[2] = endpoints.list[0];
    endpoints.list[2].addr.ss_family = AF_UNSPEC; /* none that the kernel knows */
    endpoints.count = 3;
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    assert_int_equal(endpoints.count, 1);
    net_endpoint_text(&endpoints.list[0], text);
    assert_int_equal(strncmp(text, "127.0.0.1:", 10), 0);
    endpoints.list[0] = endpoints.list[2];
    assert_int_equal(net_endpoints_claim(&endpoints, error), -1);
    assert_non_null(strstr(error, "neither IPv4 nor IPv6"));
}

/*
 * Two TCP sockets bound to one address and port, one per worker, form one endpoint. A UDP
 * socket bound to the same address and port forms a second endpoint. net_endpoints_close() closes
 * all three.
 */
static void test_sockets_of_an_earlier_process(void **state)
{
    enum { TCP_SOCKETS = 2, SOCKETS = 3 };
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct net_handover_record record = {.kind = NET_HANDOVER_LISTENER,
                                         .binding = CACHE_BINDING_ASCII};
    struct net_endpoints endpoints = {0};
    struct net_handover handover = {0};
    socklen_t len = sizeof(any);
    char error[NET_ERROR_MAX];
    int fds[SOCKETS], on = 1;
    unsigned i;

    for (i = 0; i < SOCKETS; i++) {
        fds[i] = socket(AF_INET, i < TCP_SOCKETS ? SOCK_STREAM : SOCK_DGRAM, 0);
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
        assert_int_equal(bind(fds[i], (const struct sockaddr *)&any, sizeof(any)), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&any, &len), 0);
        record.transport = i < TCP_SOCKETS ? NET_ENDPOINT_TCP : NET_ENDPOINT_UDP;
        record.fd = net_handover_add_fd(&handover, fds[i]);
        net_handover_begin(&handover, &record);
        net_handover_end(&handover, &record);
    }
    assert_int_equal(net_endpoints_take_over(&handover, &endpoints, error), 0);
    assert_int_equal(endpoints.count, 2);
    assert_int_equal(endpoints.inherited_count, SOCKETS);
    for (i = 0; i < 2; i++) {
        assert_int_equal(endpoints.list[i].kind, i == 0 ? NET_ENDPOINT_TCP : NET_ENDPOINT_UDP);
        assert_int_equal(endpoints.list[i].binding, CACHE_BINDING_ASCII);
        assert_int_equal(net_endpoint_port(&endpoints.list[i]), ntohs(any.sin_port));
    }
    for (i = 0; i < SOCKETS; i++) {
        assert_int_equal(endpoints.inherited[i].fd, fds[i]);
        assert_int_equal(endpoints.inherited[i].endpoint, i < TCP_SOCKETS ? 0 : 1);
        assert_int_equal(handover.fds[i], -1);
    }
    net_handover_free(&handover, true);
    net_endpoints_close(&endpoints);
    for (i = 0; i < SOCKETS; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

/* A socket of the service manager: clients of it that have vanished are noticed, too. */
static void test_inherited_socket(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct net_endpoints endpoints = {0};
    socklen_t len = sizeof(int);
    char error[NET_ERROR_MAX];
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 0;

    assert_int_equal(net_endpoints_inherit(fd, &endpoints, error), -1); /* it does not listen */
    assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(net_endpoints_inherit(fd, &endpoints, error), 0);
    assert_int_equal(endpoints.count, 1);
    assert_int_equal(endpoints.list[0].fd, fd);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    assert_true(on);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    net_endpoints_close(&endpoints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_wildcard),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_claim),
        cmocka_unit_test(test_claim_with_one_kind_of_address),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_sockets_of_an_earlier_process),
        cmocka_unit_test(test_inherited_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
