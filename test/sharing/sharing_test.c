/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cache lines that a request moves between workers, for 2, 4, 8 and 16 workers: none for a GET, a
 * number that does not depend on the workers for a SET. Counts, not times, so that two cores are
 * enough (coherence.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "coherence.h"
#include "planted.h"
#include "rig.h"

#define KEYS 32
#define REQUESTS 128 /* of each worker; several for each key */
#define LARGE_BYTES 16384

static const unsigned worker_counts[] = {2, 4, 8, 16};
#define WORKER_COUNTS (sizeof(worker_counts) / sizeof(worker_counts[0]))

/* ---- requests ---------------------------------------------------------------------------- */

/* All workers use the same keys, in the same order. */
static int set_common(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "set common_%02u 0 0 8\r\n12345678\r\n", number % KEYS);
}

static int get_common(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "get common_%02u\r\n", number % KEYS);
}

static int gets_two(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "gets common_%02u common_%02u\r\n", number % KEYS,
                    (number + 1) % KEYS);
}

static int meta_get(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "mg common_%02u v f c\r\nmn\r\n", number % KEYS);
}

static int get_absent(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "get absent_%02u\r\n", number % KEYS);
}

static int set_own(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "set own%02u_%02u 0 0 8\r\n12345678\r\n", worker, number % KEYS);
}

static int set_large(char *text, size_t room, unsigned worker, unsigned number)
{
    int len = snprintf(text, room, "set large_%u 0 0 %u\r\n", number % KEYS, LARGE_BYTES);

    memset(text + len, 'x', LARGE_BYTES);
    memcpy(text + len + LARGE_BYTES, "\r\n", 2);
    return len + LARGE_BYTES + 2;
}

static int get_large(char *text, size_t room, unsigned worker, unsigned number)
{
    return snprintf(text, room, "get large_%u\r\n", number % KEYS);
}

/* ---- counting ---------------------------------------------------------------------------- */

static struct coherence_counts counts_of(struct rig *rig, rig_write_request *request,
                                         unsigned count, const char *ending)
{
    coherence_count_from_here();
    rig_serve(rig, request, count, ending);
    return coherence_counts();
}

/* Each worker fetches each key often enough that no further fetch of this second changes it. */
static void saturate(struct rig *rig)
{
    rig_next_second(rig);
    rig_serve(rig, get_common, 4 * KEYS, "END\r\n");
}

static struct rig *rig_with_items(unsigned workers)
{
    struct rig *rig = rig_open(workers);

    rig_serve(rig, set_common, KEYS, "STORED\r\n");
    rig_serve(rig, set_own, KEYS, "STORED\r\n");
    rig_serve(rig, set_large, KEYS, "STORED\r\n");
    return rig;
}

/* At most so many lines for each request, in hundredths. */
static void expect(const char *what, unsigned workers, struct coherence_counts counts,
                   unsigned requests, unsigned stores_max, unsigned loads_max)
{
    print_message("%-22s %2u workers: %5.2f lines stored to, %5.2f loaded, per request\n", what,
                  workers, (double)counts.stores / requests, (double)counts.loads / requests);
    if (100 * counts.stores <= (uint64_t)stores_max * requests &&
        100 * counts.loads <= (uint64_t)loads_max * requests)
        return;
    coherence_report();
    fail_msg("%s: more than %u stores or %u loads in 100 requests", what, stores_max, loads_max);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void gets_move_no_line(void **state)
{
    static const struct {
        const char *name, *ending;
        rig_write_request *request;
    } rows[] = {
        {"get", "END\r\n", get_common},
        {"gets of two keys", "END\r\n", gets_two},
        {"mg", "MN\r\n", meta_get},
        {"get of an absent key", "END\r\n", get_absent},
    };

    for (unsigned i = 0; i < WORKER_COUNTS; i++) {
        unsigned workers = worker_counts[i];
        struct rig *rig = rig_with_items(workers);

        for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
            saturate(rig);
            rig_serve(rig, rows[row].request, KEYS, rows[row].ending);
            expect(rows[row].name, workers,
                   counts_of(rig, rows[row].request, REQUESTS, rows[row].ending),
                   workers * REQUESTS, 0, 0);
        }
        rig_close(rig);
    }
}

/*
 * The first GET of an item in a second stores when it was, for all workers. A large value is sent
 * from where it lies, so its segment is held meanwhile, which two additions to its counter do.
 */
static void other_requests_move_few_lines(void **state)
{
    for (unsigned i = 0; i < WORKER_COUNTS; i++) {
        unsigned workers = worker_counts[i];
        struct rig *rig = rig_with_items(workers);

        saturate(rig);
        rig_next_second(rig);
        expect("first get of a second", workers, counts_of(rig, get_common, KEYS, "END\r\n"),
               workers * KEYS, 100, 200);
        rig_serve(rig, get_large, 4 * KEYS, "END\r\n");
        expect("get of a large value", workers, counts_of(rig, get_large, REQUESTS, "END\r\n"),
               workers * REQUESTS, 310, 10);
        rig_serve(rig, set_common, KEYS, "STORED\r\n");
        expect("set of a common key", workers, counts_of(rig, set_common, REQUESTS, "STORED\r\n"),
               workers * REQUESTS, 500, 400);
        rig_serve(rig, set_own, KEYS, "STORED\r\n");
        expect("set of an own key", workers, counts_of(rig, set_own, REQUESTS, "STORED\r\n"),
               workers * REQUESTS, 50, 10);
        rig_close(rig);
    }
}

static void planted_faults_are_found(void **state)
{
    static void (*const faults[])(void *ctx, unsigned worker) = {
        planted_shared_counter, planted_shared_line, planted_shared_copy};
    unsigned numbers[16] = {0};

    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct rig *rig = rig_with_items(2);

        saturate(rig);
        rig_before_turn(rig, faults[i], numbers);
        rig_serve(rig, get_common, KEYS, "END\r\n");
        assert_true(counts_of(rig, get_common, REQUESTS, "END\r\n").stores >= 2 * REQUESTS);
        rig_close(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_move_no_line),
        cmocka_unit_test(other_requests_move_few_lines),
        cmocka_unit_test(planted_faults_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
