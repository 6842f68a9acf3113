/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pointer that outlives its grace period is caught where the program is built with
 * AddressSanitizer: the memory is poisoned when it becomes free, and not before.
 */
#include "kv/poison.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_rig.h"

#define ITEMS 4000
#define VALUE_BYTES 200

static struct kv_rig rig;
static const uint8_t *value; /* of an item that was there */

static struct kv_key numbered(unsigned number)
{
    static char name[16];
    snprintf(name, sizeof(name), "key%u", number);
    return rig_key(rig.kv, name);
}

/* Stores more than a segment holds, and keeps a pointer to the first value. */
static void store_all(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct kv_key key = numbered(i);
        rig_set(rig.worker, &key, VALUE_BYTES, i);
    }
    struct kv_view view;
    struct kv_key key = numbered(0);
    uint32_t len;
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    value = kv_value(view.item, 0, &len);
}

/* Whatever can be reclaimed is. */
static void reclaim_all(void)
{
    for (unsigned i = 0; i < 100; i++)
        kv_quiesce(rig.worker);
}

static void delete_all(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct kv_key key = numbered(i);
        assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
    }
    reclaim_all();
}

static int open_rig(void **unused)
{
    (void)unused;
    return rig_open(&rig, 8 * MIB, 2, true, 1);
}

static int close_rig(void **unused)
{
    (void)unused;
    return rig_close(&rig);
}

#ifdef KV_POISON

/* Standard error of a child process that reads the value; *status is its exit status. */
static void read_in_child(char *said, size_t bytes, int *status)
{
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        _exit(*(const volatile uint8_t *)value == 0 ? 0 : 17);
    }
    close(pipe_ends[1]);
    size_t have = 0;
    ssize_t got;
    while (have + 1 < bytes && (got = read(pipe_ends[0], said + have, bytes - 1 - have)) > 0)
        have += (size_t)got;
    said[have] = '\0';
    close(pipe_ends[0]); /* more than there is room for ends with the pipe */
    assert_int_equal(waitpid(child, status, 0), child);
}

static void test_use_after_grace_is_caught(void **unused)
{
    (void)unused;
    static char said[16384];
    int status;
    store_all();
    read_in_child(said, sizeof(said), &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    delete_all();
    assert_true(__asan_address_is_poisoned(value));
    read_in_child(said, sizeof(said), &status);
    assert_false(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 17));
    assert_non_null(strstr(said, "use-after-poison"));
}

/* Another worker might still read it. */
static void test_grace_is_not_poisoned(void **unused)
{
    (void)unused;
    struct kv_worker *other = kv_join(rig.kv);
    kv_tick(other, 1);
    store_all();
    struct kv_view view;
    struct kv_key key = numbered(0);
    assert_int_equal(kv_get(other, &key, &view), KV_HIT);
    delete_all();
    assert_false(__asan_address_is_poisoned(value));
    assert_true(rig_is_filled(view.item, VALUE_BYTES, 0));
    kv_quiesce(other);
    reclaim_all();
    assert_true(__asan_address_is_poisoned(value));
    kv_leave(other);
}

static void test_pinned_is_not_poisoned(void **unused)
{
    (void)unused;
    store_all();
    struct kv_view view;
    struct kv_key key = numbered(0);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    kv_pin(rig.worker, view.item);
    delete_all();
    assert_false(__asan_address_is_poisoned(value));
    assert_true(rig_is_filled(view.item, VALUE_BYTES, 0));
    kv_unpin(rig.worker, view.item);
    reclaim_all();
    assert_true(__asan_address_is_poisoned(value));
}

#else

/* Without AddressSanitizer the calls do nothing: memory stays unchanged. */
static void test_nothing_without_sanitizer(void **unused)
{
    (void)unused;
    store_all();
    uint8_t first = *value;
    delete_all();
    assert_int_equal(*value, first);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef KV_POISON
        cmocka_unit_test_setup_teardown(test_use_after_grace_is_caught, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_grace_is_not_poisoned, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_pinned_is_not_poisoned, open_rig, close_rig),
#else
        cmocka_unit_test_setup_teardown(test_nothing_without_sanitizer, open_rig, close_rig),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
