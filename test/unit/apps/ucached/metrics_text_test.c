/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the lists as metrics. */
#include "metrics_text.h"

#include "rig.h"

static void fill(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    (void)ctx;
    emit(emit_ctx, "idle_us", "12000345");
    emit(emit_ctx, "short_us", "7");
    emit(emit_ctx, "some_bytes", "1024");
    emit(emit_ctx, "api", "io \"uring\"");
}

static void contains(const struct metrics_text *text, const char *line)
{
    const char *at = strstr(text->bytes, line);

    if (at == NULL)
        fail_msg("no line %s", line);
    assert_true(at == text->bytes || at[-1] == '\n');
}

/* Times become seconds, words become labels. */
static void test_lines_of_a_list(void **state)
{
    struct rig *rig = *state;
    struct metrics_text text = {0};

    assert_int_equal(cache_stats_provider(rig->cache, "sock", fill, NULL), 0);
    metrics_text_fill(&text, rig->cache, 3);
    assert_false(text.failed);
    contains(&text, "# TYPE ucached_sock_idle_seconds counter\n");
    contains(&text, "# UNIT ucached_sock_idle_seconds seconds\n");
    contains(&text, "ucached_sock_idle_seconds_total 12.000345\n");
    contains(&text, "ucached_sock_short_seconds_total 0.000007\n");
    contains(&text, "# UNIT ucached_sock_some_bytes bytes\n");
    contains(&text, "ucached_sock_some_bytes_total 1024\n");
    contains(&text, "ucached_sock_api_info{value=\"io \\\"uring\\\"\"} 1\n");
    contains(&text, "ucached_threads 2\n");
    contains(&text, "ucached_metrics_connections 3\n# EOF\n");
    metrics_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_of_a_list, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
