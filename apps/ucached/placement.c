/* SPDX-License-Identifier: BSD-3-Clause */
/* Huge pages and NUMA nodes of the memory for items; see placement.h. */
#include "placement.h"

#include <stdio.h>
#include <string.h>

#define RESERVED "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define TRANSPARENT "/sys/kernel/mm/transparent_hugepage/enabled"
#define HUGE_PAGE_SHIFT 21
#define NODES_MAX 64

static bool read_number(const char *path, uint64_t *number)
{
    unsigned long long value = 0;
    FILE *file = fopen(path, "r");
    bool found = file && fscanf(file, "%llu", &value) == 1;

    if (file)
        fclose(file);
    *number = value;
    return found;
}

/* The active setting is in brackets. */
static bool read_transparent(void)
{
    char words[64] = "";
    FILE *file = fopen(TRANSPARENT, "r");
    bool known = file && fgets(words, sizeof(words), file);

    if (file)
        fclose(file);
    return known && !strstr(words, "[never]");
}

void placement_system_read(struct placement_system *system)
{
    uint64_t unused, claimed;

    system->reservable = read_number(RESERVED "nr_hugepages", &system->reserved) &&
                         read_number(RESERVED "free_hugepages", &unused) &&
                         read_number(RESERVED "resv_hugepages", &claimed);
    system->free = system->reservable && unused > claimed ? unused - claimed : 0;
    system->transparent = read_transparent();
}

static uint64_t node_bit(int node)
{
    return node >= 0 && node < NODES_MAX ? UINT64_C(1) << node : 0;
}

uint64_t placement_nodes(const struct cores *cores, unsigned threads, int (*node)(unsigned core))
{
    char error[CORES_ERROR_MAX];
    struct cores all;
    uint64_t nodes = 0;
    unsigned i;

    if (cores->count == 0) {
        if (cores_all(&all, error) < 0)
            return 0; /* too many cores: no placement */
        cores = &all;
        threads = all.count;
    }
    for (i = 0; i < threads && i < cores->count; i++)
        nodes |= node_bit(node(cores->list[i]));
    return nodes;
}

/* The kind of pages that is used instead of reserved ones. */
static const char *instead(const struct kv_placement *placement,
                           const struct placement_system *before)
{
    if (placement->pages == KV_PAGES_ADVISED && before->transparent)
        return "items use transparent huge pages where available";
    return "items use 4 KiB pages, transparent huge pages are disabled "
           "(" TRANSPARENT ")";
}

const char *placement_pages_text(const struct kv_placement *placement,
                                 const struct placement_system *before,
                                 char text[PLACEMENT_TEXT_MAX])
{
    unsigned long long wanted = placement->huge_bytes >> HUGE_PAGE_SHIFT;
    unsigned long long lacking = wanted > before->free ? wanted - before->free : 0;

    if (placement->pages == KV_PAGES_HUGE)
        snprintf(text, PLACEMENT_TEXT_MAX, "items in %llu reserved huge pages of 2 MiB", wanted);
    else if (wanted == 0)
        snprintf(text, PLACEMENT_TEXT_MAX, "too little memory for a huge page; raise -m");
    else if (!before->reservable)
        snprintf(text, PLACEMENT_TEXT_MAX, "the kernel has no huge pages of 2 MiB to reserve: %s",
                 instead(placement, before));
    else if (lacking > 0)
        snprintf(text, PLACEMENT_TEXT_MAX,
                 "%llu huge pages of 2 MiB wanted, %llu free: %s; to reserve enough: sysctl "
                 "vm.nr_hugepages=%llu",
                 wanted, (unsigned long long)before->free, instead(placement, before),
                 (unsigned long long)before->reserved + lacking);
    else
        snprintf(text, PLACEMENT_TEXT_MAX, "%llu huge pages of 2 MiB refused (%s): %s", wanted,
                 strerror(placement->huge_error), instead(placement, before));
    return text;
}
