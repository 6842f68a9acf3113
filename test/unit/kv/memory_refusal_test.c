/* SPDX-License-Identifier: BSD-3-Clause */
/* The table's memory where the system interrupts, refuses, or has huge pages. */
#define _GNU_SOURCE /* MAP_HUGETLB, mincore() */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "kv/engine.h"
#include "kv_rig.h"

#define PAGE 4096

/* ---- the system ---------------------------------------------------------------------------- */

extern void *mmap_real(void *at, size_t bytes, int access, int kind, int fd,
                       off_t offset) __asm__("__real_mmap64");
extern void *mmap_answered(void *at, size_t bytes, int access, int kind, int fd,
                           off_t offset) __asm__("__wrap_mmap64");
extern int madvise_real(void *at, size_t bytes, int advice) __asm__("__real_madvise");
extern int madvise_answered(void *at, size_t bytes, int advice) __asm__("__wrap_madvise");
extern int fallocate_answered(int fd, int mode, off_t offset,
                              off_t bytes) __asm__("__wrap_fallocate64");
extern int fstatfs_real(int fd, struct statfs *about) __asm__("__real_fstatfs64");
extern int fstatfs_answered(int fd, struct statfs *about) __asm__("__wrap_fstatfs64");

/* Results of the wrapped system calls; a field of zero leaves the result as it is. */
static struct {
    bool has_huge_pages; /* ordinary ones in their place */
    bool is_hugetlbfs;
    bool loses_addresses; /* of a shared mapping that it refuses */
    unsigned huge_advices;
    int populate_errno;
    int space_errno[4]; /* of the next requests for space in a file, which it does not get */
    unsigned space_calls;
    off_t space_from;
    off_t space_bytes;
} answer;

void *mmap_answered(void *at, size_t bytes, int access, int kind, int fd, off_t offset)
{
    if (answer.loses_addresses && (kind & MAP_SHARED) != 0) {
        assert_int_equal(munmap(at, bytes), 0);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (answer.has_huge_pages && (kind & MAP_HUGETLB) != 0) {
        assert_int_equal(bytes % KV_HUGE_PAGE_BYTES, 0);
        kind &= ~(MAP_HUGETLB | (int)((unsigned)MAP_HUGE_MASK << MAP_HUGE_SHIFT));
    }
    return mmap_real(at, bytes, access, kind, fd, offset);
}

int madvise_answered(void *at, size_t bytes, int advice)
{
    answer.huge_advices += advice == MADV_HUGEPAGE;
    if (answer.populate_errno == 0 || advice != MADV_POPULATE_WRITE)
        return madvise_real(at, bytes, advice);
    errno = answer.populate_errno;
    return -1;
}

int fallocate_answered(int fd, int mode, off_t offset, off_t bytes)
{
    (void)fd;
    (void)mode;
    answer.space_from = offset;
    answer.space_bytes = bytes;
    unsigned call = answer.space_calls++;
    errno = call < U_ARRAY_LEN(answer.space_errno) ? answer.space_errno[call] : 0;
    return errno == 0 ? 0 : -1;
}

int fstatfs_answered(int fd, struct statfs *about)
{
    int rc = fstatfs_real(fd, about);
    if (rc == 0 && answer.is_hugetlbfs) {
        about->f_type = HUGETLBFS_MAGIC;
        about->f_bsize = KV_HUGE_PAGE_BYTES;
    }
    return rc;
}

/* ---- state of mappings ----------------------------------------------------------------------- */

struct page {
    bool is_mapped;
    bool is_accessible;
    bool is_advised; /* for transparent huge pages: "hg" among its flags */
};

static struct page look(const uint8_t *at)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    struct page page = {false, false, false};
    unsigned long long from, to;
    char line[512], access[8];
    bool here = false;
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%llx-%llx %7s", &from, &to, access) == 3) {
            here = (uintptr_t)at >= from && (uintptr_t)at < to;
            page.is_mapped |= here;
            page.is_accessible |= here && access[0] == 'r' && access[1] == 'w';
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            page.is_advised = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return page;
}

static struct kv_memory memory;

static int set_up(void **unused)
{
    memset(&answer, 0, sizeof(answer));
    memset(&memory, 0, sizeof(memory));
    assert_true(kv_memory_map(&memory, 8 * MIB));
    return 0;
}

static int tear_down(void **unused)
{
    kv_memory_unmap(&memory);
    return 0;
}

/* ---- anonymous memory ---------------------------------------------------------------------- */

static void test_all_addresses_go(void **unused)
{
    uint8_t *first = memory.mapping, *last = memory.mapping + memory.mapping_bytes - PAGE;
    assert_true(look(first).is_mapped && look(last).is_mapped);
    kv_memory_unmap(&memory);
    assert_false(look(first).is_mapped);
    assert_false(look(last).is_mapped);
}

/* Bytes in two pages, of which neither is whole. */
static void test_parts_of_pages(void **unused)
{
    uint8_t residency[3] = {0};
    bool populated;
    assert_true(kv_memory_open(&memory, memory.base + PAGE + 100, PAGE));
    populated = kv_memory_populate(memory.base + PAGE + 100, PAGE);
    assert_int_equal(mincore(memory.base + PAGE, 3 * PAGE, residency), 0);
    assert_false(look(memory.base).is_accessible);
    assert_true(look(memory.base + PAGE).is_accessible);
    assert_true(look(memory.base + 2 * PAGE).is_accessible);
    assert_false(look(memory.base + 3 * PAGE).is_accessible);
    if (!populated)
        skip(); /* before Linux 5.14 */
    assert_true(residency[0] & 1);
    assert_true(residency[1] & 1);
    assert_false(residency[2] & 1);
}

/* ---- reserved huge pages --------------------------------------------------------------------- */

/* They are whole, stay until the end, and need no advice. */
static void test_huge_pages(void **unused)
{
    uint8_t *from = memory.base + 2 * MIB;
    uint8_t *after = from + 4 * MIB;
    answer.has_huge_pages = true;
    assert_true(kv_memory_take_huge(&memory, from, 4 * MIB + PAGE, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_HUGE);
    assert_int_equal(memory.placement.huge_bytes, 4 * MIB);
    assert_int_equal(memory.placement.huge_error, 0);
    assert_ptr_equal(memory.huge_from, from);
    assert_int_equal(memory.huge_bytes, 4 * MIB);
    assert_false(look(after).is_accessible);
    assert_true(kv_memory_open(&memory, memory.base, 2 * MIB));
    assert_true(kv_memory_open(&memory, after, 2 * MIB));
    memset(memory.base, 1, 8 * MIB);
    assert_false(kv_memory_close(&memory, from, PAGE));
    assert_false(kv_memory_close(&memory, after - PAGE, PAGE));
    assert_int_equal(from[0], 1);
    assert_int_equal(after[-1], 1);
    assert_true(kv_memory_close(&memory, from - PAGE, PAGE));
    assert_true(kv_memory_close(&memory, after, PAGE));
    assert_int_equal(from[-1], 0);
    assert_int_equal(after[0], 0);
    kv_memory_advise(&memory, from);
    assert_int_equal(memory.placement.pages, KV_PAGES_HUGE);
    assert_false(look(from).is_advised);
}

/* The kernel has counted them, but a limit of a control group or node forbids their use. */
static void test_huge_pages_that_cannot_be_had(void **unused)
{
    uint8_t *from = memory.base + 2 * MIB;
    answer.has_huge_pages = true;
    answer.populate_errno = ENOMEM;
    assert_true(kv_memory_take_huge(&memory, from, 4 * MIB, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_SMALL);
    assert_int_equal(memory.placement.huge_bytes, 4 * MIB);
    assert_int_equal(memory.placement.huge_error, ENOMEM);
    assert_int_equal(memory.huge_bytes, 0);
    assert_true(look(from).is_mapped);
    assert_false(look(from).is_accessible);
    assert_true(kv_memory_open(&memory, from, 4 * MIB));
    memset(from, 1, 4 * MIB);
    assert_true(kv_memory_close(&memory, from, PAGE));
}

/* Linux before 5.14 does not know how to populate: that is no refusal. */
static void test_huge_pages_of_an_older_kernel(void **unused)
{
    answer.has_huge_pages = true;
    answer.populate_errno = EINVAL;
    assert_true(kv_memory_take_huge(&memory, memory.base, 4 * MIB, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_HUGE);
    assert_int_equal(memory.placement.huge_error, 0);
    assert_false(kv_memory_populate(memory.base, PAGE));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct kv *create(uint64_t memory_bytes, bool huge_pages)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .value_bytes_max = 1000,
                               .worker_max = 1,
                               .evict = true,
                               .huge_pages = huge_pages};
    const char *error;
    struct kv *kv = kv_create(&config, &error);
    assert_non_null(kv);
    return kv;
}

/* Transparent huge pages are advised for a large table only. */
static void test_advice_by_size(void **unused)
{
    kv_destroy(create(32 * MIB - 1, false));
    assert_int_equal(answer.huge_advices, 0);
    kv_destroy(create(32 * MIB, false));
    assert_int_equal(answer.huge_advices, 1);
}

/* Segments of reserved pages need no prefaulting, not even when the limit falls and rises. */
static void test_segments_of_huge_pages(void **unused)
{
    answer.has_huge_pages = true;
    struct kv *kv = create(8 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_placement placement;
    kv_placement(kv, &placement);
    assert_int_equal(placement.pages, KV_PAGES_HUGE);
    assert_in_range(placement.huge_bytes, 4 * MIB, 8 * MIB);
    assert_int_equal(rig_stats(kv).touched_bytes, placement.huge_bytes);
    for (unsigned round = 0; round < 2; round++) {
        assert_true(kv_memory_limit_set(worker, (round == 0 ? 4 : 8) * MIB));
        for (unsigned i = 0; i < 1000; i++)
            kv_quiesce(worker);
    }
    assert_int_equal(rig_stats(kv).touched_bytes, placement.huge_bytes);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* ---- files --------------------------------------------------------------------------------- */

static void expect_space(const int answers[4], bool granted, unsigned calls)
{
    memcpy(answer.space_errno, answers, sizeof(answer.space_errno));
    answer.space_calls = 0;
    assert_int_equal(kv_memory_open(&memory, memory.base + 3 * PAGE, 2 * PAGE), granted);
    assert_int_equal(answer.space_calls, calls);
    assert_int_equal(answer.space_from, 2 * MIB + 3 * PAGE);
    assert_int_equal(answer.space_bytes, 2 * PAGE);
}

/* A signal is no refusal, nor is a file system that cannot allocate in advance. */
static void test_space_in_a_file(void **unused)
{
    int fd = rig_memfd();
    assert_int_equal(ftruncate(fd, 10 * MIB), 0);
    assert_true(kv_memory_share(&memory, fd, 2 * MIB));
    expect_space((int[4]){0}, true, 1);
    expect_space((int[4]){EINTR, EINTR, 0}, true, 3);
    expect_space((int[4]){EINTR, EOPNOTSUPP}, true, 2);
    expect_space((int[4]){ENOSPC}, false, 1);
    expect_space((int[4]){EINTR, ENOSPC}, false, 2);
    assert_true(kv_memory_open(&memory, memory.base, 0));
    assert_int_equal(answer.space_calls, 2);
    close(fd);
}

/* The addresses are as good as before. */
static void test_file_that_is_not_mapped(void **unused)
{
    int fd = rig_memfd();
    assert_int_equal(ftruncate(fd, 8 * MIB), 0);
    answer.loses_addresses = true;
    assert_false(kv_memory_share(&memory, fd, 0));
    assert_false(memory.shared);
    assert_true(look(memory.base).is_mapped);
    assert_true(look(memory.base + memory.bytes - PAGE).is_mapped);
    assert_true(kv_memory_open(&memory, memory.base, 8 * MIB));
    memset(memory.base, 1, 8 * MIB);
    answer.loses_addresses = false;
    assert_true(kv_memory_share(&memory, fd, 0));
    assert_int_equal(memory.base[8 * MIB - 1], 0);
    close(fd);
}

/* Its space is in huge pages: parts of one stay. */
static void test_file_of_huge_pages(void **unused)
{
    int fd = rig_memfd();
    assert_int_equal(ftruncate(fd, 8 * MIB), 0);
    answer.is_hugetlbfs = true;
    assert_true(kv_memory_share(&memory, fd, 0));
    assert_int_equal(memory.placement.pages, KV_PAGES_HUGE);
    memset(memory.base, 1, 8 * MIB);
    assert_false(kv_memory_close(&memory, memory.base + PAGE, 2 * MIB));
    assert_false(kv_memory_close(&memory, memory.base, 2 * MIB - PAGE));
    assert_int_equal(memory.base[0], 1);
    assert_int_equal(memory.base[2 * MIB], 1);
    assert_true(kv_memory_close(&memory, memory.base + 2 * MIB, 2 * MIB));
    assert_int_equal(memory.base[2 * MIB - 1], 1);
    assert_int_equal(memory.base[2 * MIB], 0);
    assert_int_equal(memory.base[4 * MIB - 1], 0);
    assert_int_equal(memory.base[4 * MIB], 1);
    kv_memory_advise(&memory, memory.base);
    assert_int_equal(memory.placement.pages, KV_PAGES_HUGE);
    close(fd);
}

/* kv_create() fails before it writes to the header. */
static void test_no_space_for_the_header_of_a_file(void **unused)
{
    const struct kv_file file = {.fd = rig_memfd()};
    struct kv_config config = {
        .memory_bytes = 4 * MIB, .value_bytes_max = 1000, .worker_max = 1, .file = &file};
    const char *error = "not set";
    for (unsigned i = 0; i < U_ARRAY_LEN(answer.space_errno); i++)
        answer.space_errno[i] = ENOSPC;
    assert_null(kv_create(&config, &error));
    assert_non_null(strstr(error, "cannot map the file"));
    close(file.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_addresses_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts_of_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge_pages_that_cannot_be_had, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge_pages_of_an_older_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_advice_by_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_segments_of_huge_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_space_in_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_that_is_not_mapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_of_huge_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_space_for_the_header_of_a_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
