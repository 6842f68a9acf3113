/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers, the event queue, the trace. See sim.h. */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t sim_random(struct sim_random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t sim_between(struct sim_random *r, uint64_t low, uint64_t high)
{
    return low + sim_random(r) % (high - low + 1);
}

int sim_chance(struct sim_random *r, unsigned millionths)
{
    return millionths > 0 && sim_random(r) % 1000000u < millionths;
}

void sim_start(struct sim *sim, uint64_t seed)
{
    sim->seed = seed;
    sim->random.state = seed * 0x2545f4914f6cdd1du + 1;
    sim->trace_hash = 14695981039346656037u;
    sim->now_us = 1000000;
}

void sim_free(struct sim *sim)
{
    free(sim->heap);
    if (sim->pcap)
        fclose(sim->pcap);
}

static int earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->time_us < b->time_us || (a->time_us == b->time_us && a->number < b->number);
}

void sim_at(struct sim *sim, uint64_t time_us,
            void (*run)(struct sim *sim, void *target, void *detail), void *target, void *detail)
{
    if (sim->count == sim->room) {
        sim->room = sim->room ? sim->room * 2 : 256;
        sim->heap = realloc(sim->heap, sim->room * sizeof(*sim->heap));
    }
    struct sim_event event = {time_us, sim->numbers++, run, target, detail};
    if (event.time_us < sim->now_us)
        event.time_us = sim->now_us;
    size_t i = sim->count++;
    while (i > 0 && earlier(&event, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = event;
}

int sim_step(struct sim *sim)
{
    if (sim->count == 0)
        return 0;
    struct sim_event first = sim->heap[0];
    struct sim_event last = sim->heap[--sim->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->count)
            break;
        if (child + 1 < sim->count && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &last))
            break;
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    if (sim->count > 0)
        sim->heap[i] = last;
    sim->now_us = first.time_us;
    first.run(sim, first.target, first.detail);
    return 1;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    if (sim->pcap)
        fflush(sim->pcap);
    printf("%s seed %llu at %.6f s, frame %llu: ",
           sim->canary == CANARY_NONE ? "FAILED:" : "the canary was noticed:",
           (unsigned long long)sim->seed, (double)sim->now_us / 1e6,
           (unsigned long long)sim->frames);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (sim->canary == CANARY_NONE)
        printf("\n  again, with a packet trace: sim_test %s --pcap sim.pcap\n", sim->replay);
    else
        printf("\n");
    exit(sim->canary == CANARY_NONE);
}

static void hash_bytes(struct sim *sim, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint64_t h = sim->trace_hash;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word = 0; /* the same on machines of either byte order */
        for (unsigned i = 0; i < 8; i++)
            word |= (uint64_t)p[i] << 8 * i;
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    while (len-- > 0)
        h = (h ^ *p++) * 1099511628211u;
    sim->trace_hash = h;
}

void sim_trace(struct sim *sim, int direction, const uint8_t *bytes, size_t len)
{
    uint8_t head[16];
    for (unsigned i = 0; i < 8; i++) {
        head[i] = (uint8_t)(sim->now_us >> 8 * i);
        head[8 + i] = (uint8_t)((uint64_t)len << 1 >> 8 * i);
    }
    head[8] |= (uint8_t)direction;
    sim->frames++;
    hash_bytes(sim, head, sizeof(head));
    hash_bytes(sim, bytes, len);
    if (!sim->pcap)
        return;
    uint32_t record[4] = {(uint32_t)(sim->now_us / 1000000), (uint32_t)(sim->now_us % 1000000),
                          (uint32_t)len, (uint32_t)len};
    fwrite(record, sizeof(record), 1, sim->pcap);
    fwrite(bytes, len, 1, sim->pcap);
}
