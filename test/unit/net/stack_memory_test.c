/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers of the own stack that find no memory or no descriptors: they are not opened, or do not
 * begin, and keep nothing (balance.c).
 */
#include <sys/resource.h>
#include <unistd.h>

#include "../balance.h"
#include "stack_rig.h"

static const struct shape with_udp = {.connections_max = 64, .udp_port = PORT};

/* What a worker is opened with, and its sides, of which the first is null before. */
struct unopened {
    struct fixture *f;
    struct net_stack_config config;
    struct net_worker *sides[2];
    char error[NET_ERROR_MAX];
};

static struct unopened prepare(enum net_threading threading)
{
    struct unopened u = {.f = fixture_link(&with_udp)};

    rig_threading = threading;
    u.config = make_cache(u.f, &with_udp);
    return u;
}

static bool open_sides(struct unopened *u)
{
    u->error[0] = '\0';
    if (u->config.threading == NET_THREADING_UNIFIED)
        u->sides[0] = net_stack_worker_open(u->f->ends[1], &u->config, u->error);
    else if (net_split_worker_open(u->f->ends[1], &u->config, u->sides, u->error) < 0)
        u->sides[0] = NULL;
    return u->sides[0] != NULL;
}

static void end(struct unopened *u)
{
    if (u->config.threading != NET_THREADING_UNIFIED)
        net_worker_close(u->sides[1]);
    net_worker_close(u->sides[0]);
    nic_close(u->f->ends[0]);
    net_udp_limit_destroy(u->f->udp_limit);
    cache_end(u->f->cache);
    free(u->f);
}

/* Without one of its allocations, each in turn, a worker is not opened; with all of them it is. */
static void open_without_memory(enum net_threading threading)
{
    struct unopened u = prepare(threading);
    unsigned number = 0;
    bool opened;

    for (;;) {
        (void)balance_fail(++number);
        opened = open_sides(&u);
        if (balance_fail(0) > 0)
            break;
        assert_false(opened);
        assert_true(u.error[0] != '\0');
    }
    assert_true(opened);
    assert_true(number > 5);
    end(&u);
}

static void test_open_without_memory(void **state)
{
    open_without_memory(NET_THREADING_UNIFIED);
    open_without_memory(NET_THREADING_SPLIT);
}

/* The sides of a worker wake each other by a descriptor. */
static void test_open_without_descriptors(void **state)
{
    struct unopened u = prepare(NET_THREADING_SPLIT);
    int first_free = dup(STDERR_FILENO);
    struct rlimit limit, low;
    bool opened;

    close(first_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){.rlim_cur = (rlim_t)first_free, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    opened = open_sides(&u);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_false(opened);
    assert_non_null(strstr(u.error, "descriptors"));
    assert_true(open_sides(&u));
    end(&u);
}

/* A worker that does not begin has left the cache, and may begin again. */
static void test_begin_without_memory(void **state)
{
    struct unopened u = prepare(NET_THREADING_UNIFIED);
    struct net_stack_worker *worker;
    unsigned number = 0;
    int rc;

    assert_true(open_sides(&u));
    worker = (struct net_stack_worker *)u.sides[0];
    for (;;) {
        (void)balance_fail(++number);
        rc = net_stack_begin(worker);
        if (balance_fail(0) > 0)
            break;
        assert_true(rc < 0);
        assert_null(worker->conns.cache_worker);
    }
    assert_int_equal(rc, 0);
    assert_true(number > 1);
    net_stack_end(worker, u.f->now_us);
    assert_null(worker->udp_session);
    end(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_open_without_descriptors),
        cmocka_unit_test(test_begin_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
