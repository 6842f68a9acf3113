/* SPDX-License-Identifier: BSD-3-Clause */
/* Line buffers. */
#include "cache/linebuf.h"

#include "mcproto/mcproto.h"
#include "rig.h"

static void test_append_grows(void **state)
{
    struct cache_worker *worker = ((struct rig *)*state)->worker;
    struct cache_linebuf *line = NULL;
    uint32_t len = 0;

    while (len + 1000 <= MC_KEYS_LINE_MAX + 1) {
        uint8_t piece[1000];

        memset(piece, (int)(len / 1000), sizeof(piece));
        assert_int_equal(cache_linebuf_append(worker, &line, piece, sizeof(piece)), 0);
        len += 1000;
        assert_int_equal(line->len, len);
    }
    for (uint32_t i = 0; i < len; i++)
        assert_true(line->bytes[i] == (uint8_t)(i / 1000));
    cache_linebuf_drop(worker, &line);
    assert_null(line);
    cache_linebuf_drop(worker, &line);
}

static void test_small_ones_are_used_again(void **state)
{
    struct cache_worker *worker = ((struct rig *)*state)->worker;
    struct cache_linebuf *lines[1000] = {NULL};
    struct cache_linebuf *first;

    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(cache_linebuf_append(worker, &lines[i], (const uint8_t *)"get", 3), 0);
    for (unsigned i = 0; i < 1000; i++)
        cache_linebuf_drop(worker, &lines[i]);
    assert_in_range(worker->free_linebuf_count, 1, 256);
    first = worker->free_linebufs;
    assert_int_equal(cache_linebuf_append(worker, &lines[0], (const uint8_t *)"get", 3), 0);
    assert_ptr_equal(lines[0], first);
    assert_int_equal(lines[0]->len, 3);
    cache_linebuf_drop(worker, &lines[0]);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(cache_linebuf_append(worker, &lines[0], (const uint8_t *)"get", 3), 0);
        assert_ptr_equal(lines[0], first);
        cache_linebuf_drop(worker, &lines[0]);
    }
}

static void test_all_together_are_bounded(void **state)
{
    static const uint8_t piece[1 << 20];
    struct cache_worker *worker = ((struct rig *)*state)->worker;
    struct cache_linebuf *lines[600] = {NULL};
    unsigned made = 0;

    while (made < 600 && cache_linebuf_append(worker, &lines[made], piece, sizeof(piece)) == 0)
        made++;
    assert_int_equal(made, CACHE_LINEBUF_BYTES_MAX / sizeof(piece));
    assert_null(lines[made]);
    assert_int_equal(cache_counter(worker, CACHE_READ_BUF_OOM), 1);
    cache_linebuf_drop(worker, &lines[0]);
    assert_int_equal(cache_linebuf_append(worker, &lines[0], piece, sizeof(piece)), 0);
    for (unsigned i = 0; i < made; i++)
        cache_linebuf_drop(worker, &lines[i]);
    assert_int_equal(worker->line_bytes, 0);

    worker->cache->settings.read_buf_mem_limit_bytes = 4096 * worker->cache->settings.threads;
    assert_int_equal(cache_linebuf_append(worker, &lines[0], piece, 4097), -1);
    assert_int_equal(cache_linebuf_append(worker, &lines[0], piece, 2048), 0);
    cache_linebuf_drop(worker, &lines[0]);
}

/* There is no room to keep the line of a value that has not come yet: nothing of it is left. */
static void test_no_room_for_the_line_of_a_value(void **state)
{
    struct rig *rig = *state;

    rig->worker->cache->settings.read_buf_mem_limit_bytes = 1;
    rig_expect(rig, "set a 0 0 1000\r\nx", "SERVER_ERROR out of memory reading request\r\n");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    assert_true(u_list_is_empty(&rig->worker->uploads));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_append_grows, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_small_ones_are_used_again, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_all_together_are_bounded, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_no_room_for_the_line_of_a_value, rig_setup,
                                        rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
