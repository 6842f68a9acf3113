/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks: steps, waiting, ending, and the list of resumable sessions. */
#include "rig.h"

#include "cache/sink_reply.h"
#include "cache/task.h"

/* Writes a dot a step, and ends after so many. */
struct dots {
    struct cache_task task;
    unsigned left;
    unsigned dropped;
    bool gives_up;
};

static enum cache_progress dots_step(struct cache_task *task, struct cache_session *session,
                                     struct cache_sink *sink)
{
    struct dots *dots = (struct dots *)task;

    if (dots->gives_up)
        return CACHE_FAILED;
    if (dots->left == 0)
        return CACHE_DONE;
    dots->left--;
    return cache_reply_bytes(session->worker, sink, ".", 1) == 0 ? CACHE_INTERRUPTED : CACHE_FAILED;
}

static void dots_drop(struct cache_task *task, struct cache_session *session)
{
    ((struct dots *)task)->dropped++;
}

static const struct cache_task_ops speaks = {.step = dots_step, .drop = dots_drop};
static const struct cache_task_ops listens = {
    .step = dots_step, .drop = dots_drop, .listens = true};

static void test_goes_on_in_each_loop_until_done(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&speaks}, .left = 3};
    assert_int_equal(cache_task_start(rig->session, &dots.task, &rig->out.sink), 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    assert_int_equal(cache_resumable_count(rig->worker), 1);
    assert_int_equal(cache_sleep_us_max(rig->worker), 0);
    assert_ptr_equal(cache_session_owner(cache_resumable_next(rig->worker)), rig);
    rig_turn(rig);
    rig_turn(rig);
    assert_int_equal(dots.dropped, 0);
    rig_turn(rig);
    assert_int_equal(dots.dropped, 1);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
    assert_int_equal(cache_resumable_count(rig->worker), 0);
    assert_null(cache_resumable_next(rig->worker));
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
    assert_string_equal(rig_reply(rig), "...");
}

static void test_input_waits(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&speaks}, .left = 1};
    cache_task_start(rig->session, &dots.task, &rig->out.sink);
    assert_int_equal(
        cache_session_input(rig->session, (const uint8_t *)"version\r\n", 9, &rig->out.sink), 0);
    rig_turn(rig);
    assert_int_equal(rig_feed(rig, "version\r\n"), 9);
    assert_string_equal(rig_reply(rig), ".VERSION 1.6.45\r\n");
}

static void test_a_full_sink_is_the_transports_matter(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&speaks}, .left = 100};
    rig->out.full_bytes = 1;
    cache_task_start(rig->session, &dots.task, &rig->out.sink);
    rig_turn(rig);
    assert_true(rig->out.sink.full);
    rig_turn(rig);
    assert_int_equal(cache_resumable_count(rig->worker), 0);
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    rig->out.full_bytes = 0;
    rig_drain(&rig->out);
    cache_session_resume(rig->session, &rig->out.sink);
    assert_int_equal(cache_resumable_count(rig->worker), 1);
}

/* It has filled up since the last step, by other bytes than the task's. */
static void test_a_sink_that_has_filled_up_ends_the_turns(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&speaks}, .left = 100};
    cache_task_start(rig->session, &dots.task, &rig->out.sink);
    assert_int_equal(cache_resumable_count(rig->worker), 1);
    rig->out.sink.full = true;
    rig_turn(rig);
    assert_int_equal(cache_resumable_count(rig->worker), 0);
    assert_int_equal(dots.left, 99);
}

static void test_one_that_listens_takes_input_and_stays_eager(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&listens}, .left = 1000};
    rig->out.full_bytes = 1;
    cache_task_start(rig->session, &dots.task, &rig->out.sink);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
    assert_int_equal(
        cache_session_input(rig->session, (const uint8_t *)"version\r\n", 9, &rig->out.sink), 9);
    rig_turn(rig);
    rig_turn(rig);
    assert_int_equal(cache_resumable_count(rig->worker), 1);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
}

static void test_giving_up_ends_the_connection(void **state)
{
    struct rig *rig = *state;
    static struct dots dots;

    dots = (struct dots){.task = {&speaks}, .left = 5};
    cache_task_start(rig->session, &dots.task, &rig->out.sink);
    dots.gives_up = true;
    rig_turn(rig);
    assert_int_equal(dots.dropped, 1);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
}

static void test_closing_drops(void **state)
{
    struct cache_config config = rig_config();
    static struct dots dots;
    struct rig rig;

    dots = (struct dots){.task = {&speaks}, .left = 5};
    rig_open(&rig, &config);
    cache_task_start(rig.session, &dots.task, &rig.out.sink);
    rig_close(&rig);
    assert_int_equal(dots.dropped, 1);
}

static void test_turns_of_several(void **state)
{
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *other = cache_session_open(rig->worker, &peer);
    struct cache_session *unowned = cache_session_open(rig->worker, &peer);
    static struct dots dots[3];
    struct cache_session *first;

    for (unsigned i = 0; i < 3; i++)
        dots[i] = (struct dots){.task = {&speaks}, .left = 9};
    cache_session_set_owner(other, &dots);
    cache_task_start(rig->session, &dots[0].task, &rig->out.sink);
    cache_task_start(other, &dots[1].task, &rig->out.sink);
    cache_task_start(unowned, &dots[2].task, &rig->out.sink);
    assert_int_equal(cache_resumable_count(rig->worker), 2); /* the third has no owner */
    first = cache_resumable_next(rig->worker);
    assert_ptr_not_equal(cache_resumable_next(rig->worker), first);
    assert_ptr_equal(cache_resumable_next(rig->worker), first);
    cache_session_close(other);
    cache_session_close(unowned);
    assert_int_equal(cache_resumable_count(rig->worker), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_goes_on_in_each_loop_until_done),
        TEST(test_input_waits),
        TEST(test_a_full_sink_is_the_transports_matter),
        TEST(test_a_sink_that_has_filled_up_ends_the_turns),
        TEST(test_one_that_listens_takes_input_and_stays_eager),
        TEST(test_giving_up_ends_the_connection),
        cmocka_unit_test(test_closing_drops),
        TEST(test_turns_of_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
