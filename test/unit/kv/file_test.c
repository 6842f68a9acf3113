/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables that live in a file: saved, taken over, and refused if anything is wrong with the file. */
#define _GNU_SOURCE /* futimens() */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/prng.h"
#include "kv/engine.h"
#include "kv_rig.h"

#define ITEMS 200
#define NOW_S 50
#define UNIX_S 1000000
#define TAG 7

static struct kv_file file;
static struct kv_config config;

static int set_up(void **unused)
{
    file = (struct kv_file){rig_memfd(), TAG};
    config = (struct kv_config){.memory_bytes = MIB,
                                .memory_bytes_max = 4 * MIB,
                                .value_bytes_max = 1 << 20,
                                .worker_max = 2,
                                .evict = true,
                                .file = &file,
                                .sizes = {.fixed_bytes = 8,
                                          .class_count = 2,
                                          .class_bytes_max = {64, 1024},
                                          .bucket_bytes = 32,
                                          .bucket_count = 100}};
    memcpy(config.secret, "fedcba9876543210", sizeof(config.secret));
    return 0;
}

static int tear_down(void **unused)
{
    close(file.fd);
    return 0;
}

static struct kv *create(void)
{
    const char *error = "not set";
    struct kv *kv = kv_create(&config, &error);
    if (!kv)
        fail_msg("kv_create: %s", error);
    return kv;
}

static uint32_t length_of(unsigned i)
{
    return i % 20 == 19 ? 3000 * i : i;
}

static void store_all(struct kv_worker *worker)
{
    char name[24];
    enum kv_error error;
    kv_tick(worker, NOW_S);
    for (unsigned i = 0; i < ITEMS; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(worker->kv, name);
        uint32_t len = length_of(i) % 20000;
        rig_store(worker, &key, len, i, i % 3, i % 2 ? NOW_S + i : 0, &error);
        assert_int_equal(error, KV_OK);
    }
}

static void expect_all(struct kv *kv)
{
    char name[24];
    struct kv_worker *worker = kv_join(kv);
    kv_tick(worker, NOW_S);
    rig_check(kv);
    for (unsigned i = 0; i < ITEMS; i++) {
        struct kv_view view;
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        assert_int_equal(kv_peek(worker, &key, &view), KV_HIT);
        assert_int_equal(view.value_len, length_of(i) % 20000);
        assert_int_equal(view.flags, i % 3);
        assert_int_equal(view.exptime, i % 2 ? NOW_S + i : 0);
        assert_true(view.cas > 0 && view.cas <= ITEMS * 1000);
        assert_true(rig_is_filled(view.item, view.value_len, i));
    }
    kv_leave(worker);
}

static const char *save(struct kv *kv)
{
    struct kv_moment moment = {UNIX_S, NOW_S, 42};
    return kv_save(kv, &moment);
}

/* A file with all items, as a server leaves it. */
static void make_saved(void)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    assert_false(kv_restored(kv)->restored);
    store_all(worker);
    kv_leave(worker);
    assert_null(save(kv));
    kv_destroy(kv);
}

static void expect_restored(void)
{
    struct kv *kv = create();
    assert_null(kv_restored(kv)->why_not);
    assert_true(kv_restored(kv)->restored);
    expect_all(kv);
    kv_destroy(kv);
}

/* A new table, empty and usable, and the reason that begins so. */
static void expect_cold(const char *reason)
{
    struct kv *kv = create();
    const struct kv_restored *restored = kv_restored(kv);
    assert_false(restored->restored);
    if (!restored->why_not || strstr(restored->why_not, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", restored->why_not, reason);
    assert_int_equal(rig_stats(kv).items, 0);
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    kv_leave(worker);
    expect_all(kv);
    kv_destroy(kv);
}

/* ---- restoring --------------------------------------------------------------------------- */

/* Without a higher limit, the first one is the highest. */
static void test_only_limit_is_the_highest(void **unused)
{
    config.memory_bytes = 4 * MIB;
    config.memory_bytes_max = 0;
    make_saved();
    expect_restored();
}

/* Nothing is saved while a worker uses items, or an item is being sent. */
static void test_saved_at_rest_only(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    struct kv_view view;
    kv_tick(worker, NOW_S);
    store_all(worker);
    struct kv_key key = rig_key(kv, "key0");
    assert_int_equal(kv_peek(worker, &key, &view), KV_HIT);
    kv_pin(worker, view.item);
    assert_string_equal(save(kv), "a worker has not left");
    kv_leave(worker);
    assert_string_equal(save(kv), "an item is still being sent");
    worker = kv_join(kv);
    kv_unpin(worker, view.item);
    kv_leave(worker);
    assert_null(save(kv));
    kv_destroy(kv);
    expect_restored();
}

/* Saving reclaims retired segments first, and ends the prefault thread. */
static void test_saved_after_deletes(void **unused)
{
    char name[24];
    config.touch_ahead_bytes = MIB;
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    for (unsigned i = 0; i < ITEMS; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        assert_int_equal(rig_delete(worker, &key), KV_DELETE);
    }
    kv_leave(worker);
    assert_null(save(kv));
    assert_false(rig_stats(kv).touch_thread);
    kv_destroy(kv);
    kv = create();
    assert_true(kv_restored(kv)->restored);
    assert_int_equal(rig_stats(kv).items, 0);
    rig_check(kv);
    kv_destroy(kv);
}

/* All overflow buckets that the index can have now; they are free again afterwards. */
static unsigned free_buckets(struct kv_worker *worker)
{
    static uint32_t links[1 << 16];
    unsigned power = kv_index_power(&worker->kv->index);
    unsigned count = 0;
    while ((links[count] = kv_overflow_take(worker, power)) != 0)
        assert_true(++count < U_ARRAY_LEN(links));
    for (unsigned i = 0; i < count; i++)
        kv_overflow_give(worker, power, links[i]);
    return count;
}

/* What a worker had in reserve is free again. */
static void test_reserves_are_saved(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    unsigned count = free_buckets(worker);
    assert_true(worker->spares[0].count + worker->spares[1].count > 0);
    kv_leave(worker);
    assert_null(save(kv));
    kv_destroy(kv);
    kv = create();
    assert_true(kv_restored(kv)->restored);
    worker = kv_join(kv);
    assert_int_equal(free_buckets(worker), count);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_restored(void **unused)
{
    make_saved();
    struct kv *kv = create();
    const struct kv_restored *restored = kv_restored(kv);
    assert_true(restored->restored);
    assert_int_equal(restored->items, ITEMS);
    assert_int_equal(restored->saved.unix_s, UNIX_S);
    assert_int_equal(restored->saved.now_s, NOW_S);
    assert_int_equal(restored->saved.note, 42);
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.items, ITEMS);
    assert_int_equal(stats.items_total, ITEMS);
    assert_int_equal(stats.item_bytes, restored->bytes);
    uint64_t in_buckets = 0;
    for (uint32_t i = 0; i < config.sizes.bucket_count; i++)
        in_buckets += kv_bucket_items(kv, i);
    assert_int_equal(in_buckets, ITEMS);
    expect_all(kv);
    kv_destroy(kv);
}

/* Numbers of cas stay unique, and a table may be saved again and again. */
static void test_cas_rises(void **unused)
{
    uint64_t cas = 0;
    make_saved();
    for (int i = 0; i < 3; i++) {
        struct kv *kv = create();
        struct kv_worker *worker = kv_join(kv);
        assert_true(kv_restored(kv)->restored);
        struct kv_key key = rig_key(kv, "another");
        uint64_t next = rig_set(worker, &key, 10, 0);
        assert_true(next > cas && next > ITEMS);
        cas = next;
        kv_leave(worker);
        assert_null(save(kv));
        kv_destroy(kv);
    }
}

static void test_flushed_items_stay_flushed(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    for (int i = 0; i < 300; i++)
        kv_flush(worker);
    struct kv_key key = rig_key(kv, "key7");
    rig_set(worker, &key, 5, 5);
    kv_leave(worker);
    assert_null(save(kv));
    kv_destroy(kv);

    kv = create();
    worker = kv_join(kv);
    struct kv_view view;
    key = rig_key(kv, "key7");
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 5, 5));
    key = rig_key(kv, "key8");
    assert_true(kv_get(worker, &key, &view) != KV_HIT);
    kv_leave(worker);
    rig_check(kv);
    kv_destroy(kv);
}

static uint64_t segments_bytes(const struct kv *kv)
{
    return (uint64_t)kv_u32_load_relaxed(&kv->segments.in_service) << kv->segments.shift;
}

static void test_another_limit(void **unused)
{
    static const uint64_t limits[] = {4 * MIB, MIB + MIB / 2, MIB};
    make_saved();
    for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        config.memory_bytes = limits[i];
        struct kv *kv = create();
        struct kv_worker *worker = kv_join(kv);
        assert_true(kv_restored(kv)->restored);
        while (kv_is_resizing(kv))
            kv_quiesce(worker);
        assert_true(rig_stats(kv).memory_used_bytes <= limits[i]);
        assert_int_equal(kv_memory_limit(kv), limits[i]);
        assert_true(kv_memory_used_max(kv) <= limits[i]); /* all segments, used or not */
        assert_true(segments_bytes(kv) > limits[i] * 3 / 4);
        kv_leave(worker);
        expect_all(kv);
        assert_null(save(kv));
        kv_destroy(kv);
    }
}

/* In each phase of a growth: the next table continues where this one stopped. */
static void test_growth_continues(void **unused)
{
    char name[24];
    bool phases[KV_GROW_RELEASE + 1] = {false};
    unsigned stored = 0;
    config.memory_bytes = config.memory_bytes_max = 32 * MIB;
    for (unsigned round = 0; round < 400 && stored < 60000; round++) {
        struct kv *kv = create();
        struct kv_worker *worker = kv_join(kv);
        assert_true(round == 0 || kv_restored(kv)->restored);
        kv_tick(worker, 1);
        assert_int_equal(rig_stats(kv).items, stored);
        for (unsigned i = 0; i < 20 + round * 2; i++, stored++) {
            snprintf(name, sizeof(name), "key%u", stored);
            struct kv_key key = rig_key(kv, name);
            rig_set(worker, &key, 8, stored);
            if (i % 16 == 0)
                kv_quiesce(worker);
        }
        phases[kv_u32_load_relaxed(&kv->index.phase)] = true;
        kv_leave(worker);
        assert_null(save(kv));
        kv_destroy(kv);
    }
    assert_true(phases[KV_GROW_MOVE]);
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    kv_tick(worker, 1);
    for (unsigned i = 0; i < stored; i++) {
        struct kv_view view;
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        assert_true(rig_is_filled(view.item, 8, i));
    }
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* ---- what is not saved ------------------------------------------------------------------- */

static void test_nothing_is_saved_in_use(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    enum kv_error error;
    struct kv_view view;
    store_all(worker);
    assert_non_null(save(kv)); /* a worker is there */
    struct kv_key key = rig_key(kv, "key5");
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    kv_pin(worker, view.item);
    kv_leave(worker);
    assert_non_null(save(kv));

    worker = kv_join(kv);
    kv_unpin(worker, view.item);
    struct kv_item *item = kv_item_new(worker, &key, 10, 0, 0, &error);
    kv_leave(worker);
    assert_non_null(save(kv));
    worker = kv_join(kv);
    kv_item_drop(worker, item);
    kv_leave(worker);
    kv_destroy(kv);
    expect_cold("not saved");
}

static void test_without_a_file(void **unused)
{
    config.file = NULL;
    struct kv *kv = create();
    assert_false(kv_restored(kv)->restored);
    assert_null(kv_restored(kv)->why_not);
    assert_non_null(save(kv));
    kv_destroy(kv);
}

static void test_file_may_not_grow(void **unused)
{
    struct rlimit before, small = {MIB, MIB};
    const char *error = NULL;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_null(kv_create(&config, &error));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(error, "file"));
}

/* ---- damaged files ----------------------------------------------------------------------- */

/* Of the saved file; the tests begin with it again, as a table that is not restored empties it. */
static uint8_t *image;
static size_t image_bytes;
static struct stat image_stat;

static void image_take(void)
{
    assert_int_equal(fstat(file.fd, &image_stat), 0);
    image_bytes = (size_t)image_stat.st_size;
    image = malloc(image_bytes);
    assert_int_equal(pread(file.fd, image, image_bytes, 0), image_bytes);
}

static void set_time(void)
{
    struct timespec times[2] = {image_stat.st_atim, image_stat.st_mtim};
    assert_int_equal(futimens(file.fd, times), 0);
}

static void image_put(void)
{
    static const uint8_t zero[4096];
    assert_int_equal(ftruncate(file.fd, 0), 0);
    assert_int_equal(ftruncate(file.fd, (off_t)image_bytes), 0);
    for (size_t at = 0; at + sizeof(zero) <= image_bytes; at += sizeof(zero))
        if (memcmp(image + at, zero, sizeof(zero)) != 0)
            assert_int_equal(pwrite(file.fd, image + at, sizeof(zero), (off_t)at), sizeof(zero));
    set_time();
}

/* Changes bits of a byte, without a trace in the file's times. */
static void alter(off_t at, uint8_t bits)
{
    uint8_t byte = image[at] ^ bits;
    assert_int_equal(pwrite(file.fd, &byte, 1, at), 1);
    set_time();
}

static void test_copy_is_restored(void **unused)
{
    make_saved();
    image_take();
    close(file.fd);
    file.fd = rig_memfd();
    image_put();
    expect_restored();
    free(image);
}

static void test_altered_header(void **unused)
{
    struct u_prng prng;
    size_t covered = sizeof(struct kv_file_header) + 100 * sizeof(uint64_t);
    make_saved();
    image_take();
    u_prng_seed(&prng, 1);
    for (unsigned i = 0; i < 400; i++) {
        /* Each byte of the first part, and samples of the remainder. */
        size_t at = i < 80 ? i : u_prng_below(&prng, (uint32_t)covered);
        image_put();
        alter((off_t)at, (uint8_t)(1u << u_prng_below(&prng, 8)));
        struct kv *kv = create();
        assert_false(kv_restored(kv)->restored);
        assert_non_null(kv_restored(kv)->why_not);
        assert_int_equal(rig_stats(kv).items, 0);
        rig_check(kv);
        kv_destroy(kv);
    }
    image_put();
    alter((off_t)covered, 0xff); /* means nothing */
    expect_restored();
    free(image);
}

/* A header that claims to be longer than the file is not read to that end. */
static void test_header_beyond_the_file(void **unused)
{
    const uint32_t buckets = 1 << 30;
    const uint64_t bytes =
        (sizeof(struct kv_file_header) + sizeof(uint64_t) * (uint64_t)buckets + 2 * MIB - 1) &
        ~(2 * MIB - 1);
    make_saved();
    image_take();
    assert_int_equal(
        pwrite(file.fd, &buckets, sizeof(buckets), offsetof(struct kv_file_header, bucket_count)),
        sizeof(buckets));
    assert_int_equal(
        pwrite(file.fd, &bytes, sizeof(bytes), offsetof(struct kv_file_header, header_bytes)),
        sizeof(bytes));
    set_time();
    expect_cold("its header is damaged");
    free(image);
}

/* How many mappings the process has of files like this one. */
static unsigned mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "memfd:kv") != NULL;
    fclose(maps);
    return count;
}

/* A look at the file leaves no mapping, whatever it finds. */
static void test_examined(void **unused)
{
    make_saved();
    unsigned before = mappings();
    assert_null(kv_file_examine(&config));
    assert_int_equal(mappings(), before);
    file.tag = TAG + 1;
    assert_non_null(kv_file_examine(&config));
    assert_int_equal(mappings(), before);
    file.tag = TAG;
    expect_restored();
}

static void test_altered_segment_header(void **unused)
{
    make_saved();
    struct kv *kv = create();
    off_t at =
        (off_t)(kv->memory.fd_offset + (uint64_t)((uint8_t *)kv->segments.array - kv->memory.base));
    uint32_t count = kv_segments_count(&kv->segments);
    expect_all(kv);
    assert_null(save(kv));
    kv_destroy(kv);
    image_take();
    for (uint32_t i = 0; i < count; i += 5) {
        image_put();
        alter(at + (off_t)(i * sizeof(struct kv_segment) + i % sizeof(struct kv_segment)), 1);
        expect_cold("headers of its segments");
    }
    free(image);
}

static void test_written_to(void **unused)
{
    make_saved();
    image_take();
    uint8_t byte = image[image_bytes / 2] ^ 1;
    assert_int_equal(pwrite(file.fd, &byte, 1, (off_t)image_bytes / 2), 1);
    expect_cold("changed");
    free(image);
}

static void test_another_size(void **unused)
{
    make_saved();
    image_take();
    const off_t sizes[] = {1,
                           4096,
                           KV_HUGE_PAGE_BYTES - 1,
                           KV_HUGE_PAGE_BYTES,
                           (off_t)image_bytes - 1,
                           (off_t)image_bytes + 4096};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        image_put();
        assert_int_equal(ftruncate(file.fd, sizes[i]), 0);
        set_time();
        expect_cold(i < 3 ? "truncated" : "size");
    }
    free(image);
}

static void test_another_kind_of_file(void **unused)
{
    static const uint8_t text[] = "#!/bin/sh\n";
    assert_int_equal(ftruncate(file.fd, 3 * MIB), 0);
    assert_int_equal(pwrite(file.fd, text, sizeof(text), 0), sizeof(text));
    expect_cold("no memory file");
}

static void test_killed(void **unused)
{
    make_saved();
    expect_restored(); /* and is not saved again */
    expect_cold("not saved");
}

/* After kv_save_undo() the table is in use again, so the saved file is not restored. */
static void test_save_undone(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    kv_leave(worker);
    assert_null(save(kv));
    kv_save_undo(kv);
    kv_destroy(kv);
    expect_cold("not saved");
}

/* The time of the last change counts to the nanosecond. */
static void test_changed_within_the_second(void **unused)
{
    make_saved();
    assert_int_equal(fstat(file.fd, &image_stat), 0);
    assert_int_equal(image_stat.st_mtim.tv_nsec, 0);
    image_stat.st_mtim.tv_nsec = 1;
    set_time();
    expect_cold("it was changed");
}

/* Purging that has ended before is not begun again. */
static void test_purged_stays_purged(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    kv_flush(worker);
    for (int i = 0; i < 100000 && rig_stats(kv).flushes_behind > 0; i++)
        kv_quiesce(worker);
    assert_int_equal(rig_stats(kv).flushes_behind, 0);
    kv_leave(worker);
    assert_null(save(kv));
    kv_destroy(kv);
    kv = create();
    assert_true(kv_restored(kv)->restored);
    assert_int_equal(rig_stats(kv).flushes_behind, 0);
    kv_destroy(kv);
}

static void test_sizes_are_restored(void **unused)
{
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    store_all(worker);
    uint64_t sizes = rig_stats(kv).item_sizes;
    kv_leave(worker);
    assert_true(sizes > 0);
    assert_null(save(kv));
    kv_destroy(kv);
    kv = create();
    assert_int_equal(rig_stats(kv).item_sizes, sizes);
    kv_destroy(kv);
}

/* The header of the file needs more than one huge page. */
static void test_many_size_buckets_are_restored(void **unused)
{
    config.sizes.bucket_count = 300000;
    make_saved();
    expect_restored();
}

/* A clock may run for 2^27 seconds, about four years. */
static void test_longest_run(void **unused)
{
    const uint32_t longest_s = UINT32_C(1) << 27;
    for (uint32_t over_s = 0; over_s <= 1; over_s++) {
        struct kv_moment moment = {UNIX_S, longest_s + over_s, 42};
        struct kv *kv = create();
        assert_null(kv_save(kv, &moment));
        kv_destroy(kv);
        kv = create();
        assert_int_equal(kv_restored(kv)->restored, over_s == 0);
        kv_destroy(kv);
    }
}

static void test_other_settings(void **unused)
{
    make_saved();
    image_take();
    const struct kv_config saved = config;
#define EXPECT_COLD(change, reason)                                                                \
    do {                                                                                           \
        image_put();                                                                               \
        change;                                                                                    \
        expect_cold(reason);                                                                       \
        config = saved;                                                                            \
    } while (0)
    EXPECT_COLD(config.policy = KV_POLICY_CLOCK, "policy");
    EXPECT_COLD(config.sizes.class_bytes_max[1] = 2048, "size classes");
    EXPECT_COLD(config.sizes.bucket_count = config.sizes.bucket_bytes = 0, "statistics of sizes");
    EXPECT_COLD(config.sizes.bucket_bytes = 64, "statistics of sizes");
    EXPECT_COLD(config.memory_bytes = config.memory_bytes_max = 5 * MIB, "limit");
    EXPECT_COLD(config.memory_bytes = 4 * MIB; config.worker_max = 32, "workers");
    EXPECT_COLD(file.tag = TAG + 1, "cas");
    file.tag = TAG;
    image_put();
    config.evict = false;
    expect_restored();
    free(image);
}

static uint64_t bytes_on_disk(void)
{
    struct stat about;
    assert_int_equal(fstat(file.fd, &about), 0);
    return (uint64_t)about.st_blocks * 512;
}

/* New segments get space in the file before their use: a full file system is noticed. */
static void test_space_of_a_higher_limit(void **unused)
{
    config.memory_bytes_max = 32 * MIB;
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    uint64_t segments = segments_bytes(kv);
    uint64_t space = bytes_on_disk();
    assert_true(kv_memory_limit_set(worker, 32 * MIB));
    while (kv_is_resizing(kv))
        kv_quiesce(worker);
    uint64_t more = segments_bytes(kv) - segments;
    assert_true(more > 16 * MIB);
    assert_true(bytes_on_disk() - space > more / 2); /* huge pages may have had a part before */
    kv_leave(worker);
    kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_limit_is_the_highest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_saved_at_rest_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_saved_after_deletes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reserves_are_saved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cas_rises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flushed_items_stay_flushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growth_continues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_saved_in_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_may_not_grow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copy_is_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_altered_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_header_beyond_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_examined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_altered_segment_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_written_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_kind_of_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_save_undone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_within_the_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_purged_stays_purged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes_are_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_size_buckets_are_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_longest_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_space_of_a_higher_limit, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
