/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays golden dialogues (test/golden) through a session: whole, in slices of each small
 * size, and cut in two at each place, with transports of all kinds. The answers must be the same.
 *
 *   golden_test FILE...
 */
#include "rig.h"

#include <stdio.h>

#include "items.h"

#define LINE_BYTES_MAX 8192
#define CUTS_MAX 400
#define SLICES_MAX 40

/* How a run offers its requests. */
struct manner {
    size_t slice_bytes; /* in slices of so many bytes; 0: cut in two at cut_bytes */
    size_t cut_bytes;
    uint32_t room_bytes;
    uint32_t full_bytes;
};

struct exchange {
    struct golden_bytes request;
    struct golden_bytes reply;
    size_t unchecked; /* bytes of the reply that may be anything */
};

struct run {
    struct rig rig;
    const struct manner *manner;
    const char *file;
    int line;
    struct exchange now;
    bool pending;
};

static void reopen(struct rig *rig)
{
    struct cache_peer peer = {.transport = "tcp"};

    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
}

static bool is_over(const struct run *run)
{
    return cache_session_state(run->rig.session) == CACHE_SESSION_CLOSING;
}

static void offer(struct run *run)
{
    const struct golden_bytes *request = &run->now.request;
    const struct manner *manner = run->manner;
    size_t cut = manner->cut_bytes < request->len ? manner->cut_bytes : request->len;

    if (manner->slice_bytes > 0) {
        rig_feed_sliced(&run->rig, request->bytes, request->len, manner->slice_bytes);
        return;
    }
    rig_feed_sliced(&run->rig, request->bytes, cut, 0);
    if (!is_over(run))
        rig_feed_sliced(&run->rig, request->bytes + cut, request->len - cut, 0);
}

/* Holds the exchange that has been read, if there is one. */
static void hold(struct run *run)
{
    const struct exchange *now = &run->now;

    if (!run->pending)
        return;
    run->pending = false;
    rig_forget(&run->rig.out);
    offer(run);
    rig_drain(&run->rig.out);
    if (run->rig.out.taken_len != now->reply.len + now->unchecked ||
        memcmp(run->rig.out.taken, now->reply.bytes, now->reply.len) != 0)
        fail_msg("%s, before line %d (slices of %zu, cut at %zu): got %.200s", run->file, run->line,
                 run->manner->slice_bytes, run->manner->cut_bytes, (char *)run->rig.out.taken);
}

static void take_request(struct run *run, char before, const char *items)
{
    if (before != '>') {
        hold(run);
        run->now.request.len = 0;
        run->now.reply.len = 0;
        run->now.unchecked = 0;
        run->pending = true;
    }
    assert_true(golden_items_read(items, &run->now.request));
}

static void take_line(struct run *run, char before, const char *line)
{
    if (line[0] == '>')
        take_request(run, before, line + 1);
    else if (line[0] == '<' && strncmp(line, "< *", 3) == 0)
        run->now.unchecked = strtoul(line + 3, NULL, 10);
    else if (line[0] == '<')
        assert_true(golden_items_read(line + 1, &run->now.reply));
}

/* Runs the dialogue of a file; in lists of errors each paragraph has its own connection. */
static void run_file(struct run *run, const char *path)
{
    bool is_list = strstr(path, "_errors.txt") != NULL;
    FILE *file = fopen(path, "rb");
    char line[LINE_BYTES_MAX];
    char before = '\0';

    assert_non_null(file);
    run->file = path;
    for (run->line = 1; fgets(line, sizeof(line), file) != NULL; run->line++) {
        line[strcspn(line, "\n")] = '\0';
        if (is_list && line[0] == '\0') {
            hold(run);
            reopen(&run->rig);
        } else if (!is_over(run)) {
            take_line(run, before, line);
        }
        before = line[0];
    }
    if (!is_over(run))
        hold(run);
    assert_true(run->line > 1);
    fclose(file);
}

static int file_count;
static char **files;

static void run_all(const struct manner *manner)
{
    static struct run run;
    struct cache_config config = rig_config();

    config.settings.memory_bytes = 4u << 20;
    for (int i = 0; i < file_count; i++) {
        memset(&run, 0, sizeof(run));
        rig_open(&run.rig, &config);
        run.rig.out.room_bytes = manner->room_bytes;
        run.rig.out.full_bytes = manner->full_bytes;
        run.manner = manner;
        run_file(&run, files[i]);
        rig_close(&run.rig);
    }
}

static void test_in_one_piece(void **state)
{
    const struct manner manner = {.slice_bytes = GOLDEN_BYTES_MAX, .room_bytes = 65536};

    (void)state;
    run_all(&manner);
}

static void test_in_slices(void **state)
{
    (void)state;
    for (size_t slice = 1; slice <= rig_rounds(SLICES_MAX); slice++) {
        const struct manner manner = {
            .slice_bytes = slice,
            .room_bytes = slice % 3 == 0 ? 1 : 1024,
            .full_bytes = slice % 2 == 0 ? 1 : 0,
        };

        run_all(&manner);
    }
}

static void test_cut_in_two(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < rig_rounds(CUTS_MAX); cut++) {
        const struct manner manner = {
            .cut_bytes = cut,
            .room_bytes = cut % 5 == 0 ? 1 : 700,
            .full_bytes = cut % 3 == 0 ? 64 : 0,
        };

        run_all(&manner);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_one_piece),
        cmocka_unit_test(test_in_slices),
        cmocka_unit_test(test_cut_in_two),
    };

    if (argc < 2)
        return 1;
    file_count = argc - 1;
    files = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
