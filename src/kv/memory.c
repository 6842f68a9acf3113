/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped memory, its pages and NUMA nodes (memory.h). */
#define _GNU_SOURCE /* MAP_HUGETLB, MADV_HUGEPAGE, syscall() */
#include "kv/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/base.h"

#define PAGE_BYTES UINT64_C(4096)
#define HUGE_PAGE_SHIFT 21

#define ADDRESSES_ONLY (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

bool kv_memory_map(struct kv_memory *memory, uint64_t bytes)
{
    memory->mapping_bytes = bytes + KV_HUGE_PAGE_BYTES; /* room to align */
    void *mapping = mmap(NULL, memory->mapping_bytes, PROT_NONE, ADDRESSES_ONLY, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    uint64_t beyond = (uintptr_t)mapping & (KV_HUGE_PAGE_BYTES - 1);
    memory->mapping = (uint8_t *)mapping;
    memory->base = memory->mapping + (beyond ? KV_HUGE_PAGE_BYTES - beyond : 0);
    memory->bytes = bytes;
    return true;
}

/* The page size if the file is on hugetlbfs, else 0. */
static uint64_t huge_file_page(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
}

bool kv_memory_share(struct kv_memory *memory, int fd, uint64_t offset)
{
    /* MAP_NORESERVE: hugetlbfs would reserve the pages of all addresses. */
    if (mmap(memory->base, memory->bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset) == MAP_FAILED) {
        /* A refusal may leave the addresses unmapped. */
        (void)mmap(memory->base, memory->bytes, PROT_NONE, ADDRESSES_ONLY | MAP_FIXED, -1, 0);
        return false;
    }
    uint64_t huge_page = huge_file_page(fd);
    memory->shared = true;
    memory->fd = fd;
    memory->fd_offset = offset;
    memory->close_bytes = huge_page > 0 ? huge_page : PAGE_BYTES;
    if (huge_page > 0)
        memory->placement.pages = KV_PAGES_HUGE;
    return true;
}

void kv_memory_unmap(struct kv_memory *memory)
{
    if (memory->base)
        munmap(memory->mapping, memory->mapping_bytes);
    memory->base = U_NULL;
}

/* Where the file system can't allocate in advance, a lack of space shows as SIGBUS. */
static bool allocate(const struct kv_memory *memory, const uint8_t *from, uint64_t bytes)
{
    uint64_t offset = memory->fd_offset + (uint64_t)(from - memory->base);
    int rc;
    do
        rc = fallocate(memory->fd, 0, (off_t)offset, (off_t)bytes);
    while (rc < 0 && errno == EINTR);
    return rc == 0 || errno == EOPNOTSUPP;
}

bool kv_memory_open(const struct kv_memory *memory, uint8_t *from, uint64_t bytes)
{
    uint8_t *page = from - (uintptr_t)from % PAGE_BYTES;
    if (bytes == 0)
        return true;
    if (memory->shared)
        return allocate(memory, from, bytes);
    return mprotect(page, bytes + (uint64_t)(from - page), PROT_READ | PROT_WRITE) == 0;
}

static bool is_huge(const struct kv_memory *memory, const uint8_t *at)
{
    return memory->huge_bytes > 0 && at >= memory->huge_from &&
           at < memory->huge_from + memory->huge_bytes;
}

bool kv_memory_close(const struct kv_memory *memory, uint8_t *from, uint64_t bytes)
{
    /* MADV_DONTNEED would leave the bytes in the file. */
    if (memory->shared)
        return ((uintptr_t)from | bytes) % memory->close_bytes == 0 &&
               madvise(from, bytes, MADV_REMOVE) == 0;
    /* Kernels before 6.1 would release the whole huge page. */
    return !is_huge(memory, from) && madvise(from, bytes, MADV_DONTNEED) == 0;
}

bool kv_memory_populate(uint8_t *from, uint64_t bytes)
{
    uint64_t before = (uintptr_t)from % PAGE_BYTES;
    return madvise(from - before, bytes + before, MADV_POPULATE_WRITE) == 0;
}

uint64_t kv_memory_huge_part(uint64_t bytes)
{
    return bytes & ~(KV_HUGE_PAGE_BYTES - 1);
}

/* Returns 0 or an errno value. One node needs no memory policy. */
static int interleave(uint8_t *from, uint64_t bytes, uint64_t nodes)
{
    if ((nodes & (nodes - 1)) == 0)
        return 0;
    unsigned long mask[64 / (8 * sizeof(unsigned long))];
    for (unsigned i = 0; i < sizeof(mask) / sizeof(mask[0]); i++)
        mask[i] = (unsigned long)(nodes >> (i * 8 * sizeof(mask[0])));
    /* The kernel ignores the last bit of maxnode. */
    long rc = syscall(SYS_mbind, from, bytes, MPOL_INTERLEAVE, mask, 64 + 1, 0);
    return rc < 0 ? errno : 0;
}

void kv_memory_interleave(struct kv_memory *memory, uint64_t nodes)
{
    memory->placement.numa_error = interleave(memory->base, memory->bytes, nodes);
}

/*
 * Allocates the pages now: the kernel's count of reserved pages ignores limits of control groups
 * and nodes. Returns 0 or an errno value.
 */
static int populate(uint8_t *from, uint64_t bytes)
{
    int rc = madvise(from, bytes, MADV_POPULATE_WRITE);
    return rc < 0 && errno != EINVAL ? errno : 0; /* EINVAL: Linux before 5.14 */
}

bool kv_memory_take_huge(struct kv_memory *memory, uint8_t *from, uint64_t bytes, uint64_t nodes)
{
    const int kind =
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | HUGE_PAGE_SHIFT << MAP_HUGE_SHIFT;
    bytes = kv_memory_huge_part(bytes);
    memory->placement.huge_bytes = bytes;
    if (bytes == 0)
        return true;
    int error = 0;
    if (mmap(from, bytes, PROT_READ | PROT_WRITE, kind, -1, 0) == MAP_FAILED) {
        error = errno;
    } else {
        (void)interleave(from, bytes, nodes); /* an error shows in kv_memory_interleave() */
        error = populate(from, bytes);
    }
    if (error == 0) {
        memory->huge_from = from;
        memory->huge_bytes = bytes;
        memory->placement.pages = KV_PAGES_HUGE;
        return true;
    }
    memory->placement.huge_error = error;
    /* A refusal may leave the addresses unmapped. */
    return mmap(from, bytes, PROT_NONE, ADDRESSES_ONLY | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void kv_memory_hide(const struct kv_memory *memory, uint8_t *from)
{
    uint8_t *end = memory->base + memory->bytes;
    uint8_t *page = from + (PAGE_BYTES - (uintptr_t)from % PAGE_BYTES) % PAGE_BYTES;
    if (page < end)
        (void)madvise(page, (uint64_t)(end - page), MADV_DONTDUMP); /* since Linux 3.4 */
}

void kv_memory_advise(struct kv_memory *memory, uint8_t *from)
{
    uint8_t *end = memory->base + memory->bytes;
    if (memory->huge_bytes > 0)
        from = memory->huge_from + memory->huge_bytes;
    /* A hint; the kernel may refuse it. */
    if (from < end && madvise(from, (uint64_t)(end - from), MADV_HUGEPAGE) == 0 &&
        memory->placement.pages == KV_PAGES_SMALL)
        memory->placement.pages = KV_PAGES_ADVISED;
}
