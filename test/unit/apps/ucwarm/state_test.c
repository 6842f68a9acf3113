/* SPDX-License-Identifier: BSD-3-Clause */
/* State files: what is saved is read, and what is not ours or damaged is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "state.h"

static char path[] = "/tmp/ucwarm_state_XXXXXX";
static struct state saved, loaded;
static char error[STATE_ERROR_MAX];

static void fill(struct state *state)
{
    memset(state, 0, sizeof(*state));
    state->path = path;
    state->sources = 2;
    snprintf(state->copy, sizeof(state->copy), "a:1=a:1 b:2=b:2 to c:3=c:3 ");
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_round_trip(void **state)
{
    (void)state;
    fill(&saved);
    saved.passed[0] = UINT64_MAX;
    saved.done[0] = true;
    saved.passed[1] = 77;
    assert_int_equal(state_save(&saved, error), 0);
    fill(&loaded);
    assert_int_equal(state_load(&loaded, error), 0);
    assert_memory_equal(loaded.passed, saved.passed, sizeof(saved.passed));
    assert_memory_equal(loaded.done, saved.done, sizeof(saved.done));
    state_remove(&saved);
    fill(&loaded);
    assert_int_equal(state_load(&loaded, error), 0); /* a fresh start */
    assert_int_equal(loaded.passed[0], 0);
}

static void test_refused(void **state)
{
    static const char *const texts[][2] = {
        {"", "not a state file"},
        {"some text\n", "not a state file"},
        {"ucwarm state 1\n", "another copy"},
        {"ucwarm state 1\na:1=a:1 to c:3=c:3 \nat 1\n", "another copy"},
        {"ucwarm state 1\na:1=a:1 b:2=b:2 to c:3=c:3 \n", "damaged"},
        {"ucwarm state 1\na:1=a:1 b:2=b:2 to c:3=c:3 \nat 1\n", "damaged"},
        {"ucwarm state 1\na:1=a:1 b:2=b:2 to c:3=c:3 \nat 1\nbeside 2\n", "damaged"},
        {"ucwarm state 1\na:1=a:1 b:2=b:2 to c:3=c:3 \nat 1\ndone x\n", "damaged"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_text(texts[i][0]);
        fill(&loaded);
        assert_int_equal(state_load(&loaded, error), -1);
        assert_non_null(strstr(error, texts[i][1]));
        assert_non_null(strstr(error, path));
    }
    fill(&saved);
    saved.path = "/nonexistent/state";
    assert_int_equal(state_save(&saved, error), -1);
    saved.path = NULL;
    assert_int_equal(state_save(&saved, error), 0);
    assert_int_equal(state_load(&saved, error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_refused)};
    int fd = mkstemp(path);
    int failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
