/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that are opened without memory: an error says so, and nothing is left of them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../balance.h"
#include "nic/steer.h"
#include "nic_testing.h"

#define QUEUES 2
#define LANES 4

static char path[] = "/tmp/nic_memory_test.XXXXXX";

/* Opens a device on top of the queues. Returns how many queues it has then, or -1. */
typedef int opener(struct nic *queue[LANES], char error[NIC_ERROR_MAX]);

static int open_loopback(struct nic *queue[LANES], char error[NIC_ERROR_MAX])
{
    struct nic_loopback_config config = {0};

    return nic_loopback_open(&config, queue, error) == 0 ? QUEUES : -1;
}

static int open_trace(struct nic *queue[LANES], char error[NIC_ERROR_MAX])
{
    return nic_trace_open(queue, QUEUES, path, error) == 0 ? QUEUES : -1;
}

static int open_fault(struct nic *queue[LANES], char error[NIC_ERROR_MAX])
{
    struct nic_fault_config config = {0};

    return nic_fault_open(queue, QUEUES, &config, error) == 0 ? QUEUES : -1;
}

static int open_steer(struct nic *queue[LANES], char error[NIC_ERROR_MAX])
{
    struct nic *lower[QUEUES];

    memcpy(lower, queue, sizeof(lower));
    return nic_steer_open(lower, QUEUES, LANES, queue, error) == 0 ? LANES : -1;
}

static void close_all(struct nic *queue[], unsigned count)
{
    while (count > 0)
        nic_close(queue[--count]);
}

/* Each allocation fails in turn, until there is none that could. */
static void check(opener *open, bool is_wrapper)
{
    unsigned before = descriptors(), number, left;

    for (number = 1;; number++) {
        struct nic *queue[LANES] = {NULL}, *lower[LANES];
        char error[NIC_ERROR_MAX] = "";
        int count;

        if (is_wrapper)
            assert_int_equal(open_loopback(queue, error), QUEUES);
        memcpy(lower, queue, sizeof(lower));
        (void)balance_fail(number);
        count = open(queue, error);
        left = balance_fail(0);
        if (count >= 0) {
            assert_int_not_equal(left, 0);
            close_all(queue, (unsigned)count);
            break;
        }
        assert_non_null(strstr(error, "memory"));
        assert_memory_equal(queue, lower, sizeof(queue)); /* still the caller's */
        if (is_wrapper)
            close_all(queue, QUEUES);
        assert_int_equal(descriptors(), before);
    }
    assert_true(number > 2);
    assert_int_equal(descriptors(), before);
}

static void a_link_in_memory(void **state)
{
    check(open_loopback, false);
}

static void a_trace(void **state)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    check(open_trace, true);
    assert_int_equal(unlink(path), 0);
}

static void faults(void **state)
{
    check(open_fault, true);
}

static void lanes(void **state)
{
    check(open_steer, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_in_memory),
        cmocka_unit_test(a_trace),
        cmocka_unit_test(faults),
        cmocka_unit_test(lanes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
