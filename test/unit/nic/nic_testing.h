/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of the packet back ends: replaced functions, open descriptors, counters by
 * name, free packets, numbered frames.
 */
#ifndef NIC_TESTING_H
#define NIC_TESTING_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "nic/nic.h"

#define FRAME_MIN_BYTES 18

/* Declares a function and the one that replaces it in this program (--wrap, see meson.build). */
#define REPLACES(function)                                                                         \
    extern __typeof__(function) real_##function __asm__("__real_" #function),                      \
        fake_##function __asm__("__wrap_" #function)

/* The open descriptors of this process. */
static inline unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

struct wanted_stat {
    const char *name;
    uint64_t value;
    unsigned found;
};

static inline void match_stat(void *emit_ctx, const char *name, uint64_t value)
{
    struct wanted_stat *wanted = emit_ctx;

    if (strcmp(name, wanted->name) == 0) {
        wanted->value = value;
        wanted->found++;
    }
}

/* The value of a counter, which must exist once. */
static inline uint64_t stat_of(struct nic *nic, const char *name)
{
    struct wanted_stat wanted = {.name = name};

    nic_stats(nic, match_stat, &wanted);
    assert_int_equal(wanted.found, 1);
    return wanted.value;
}

#define PKTS_MAX 16384 /* more packets than any pool of the tests */

/* Allocates all packets and releases them. Returns how many there were. One thread at a time. */
static inline unsigned pkts_of(struct nic *nic)
{
    static struct us_pkt *pkts[PKTS_MAX + NIC_BURST_MAX];
    unsigned count = 0, n;

    do {
        n = nic_alloc(nic, pkts + count, NIC_BURST_MAX);
        count += n;
    } while (n > 0 && count <= PKTS_MAX);
    nic_release(nic, pkts, count);
    return count;
}

/*
 * A byte of a numbered frame: every bit is predictable, and frames with numbers that differ in one
 * bit differ in many bytes.
 */
static inline uint8_t frame_byte(uint32_t number, uint32_t position)
{
    return (uint8_t)((number * 2654435761u >> 24) + position * 7 + 5);
}

/* Fills a packet: 14 bytes instead of a header, the number, then the pattern. */
static inline void fill_frame(struct us_pkt *pkt, uint32_t number, uint32_t bytes)
{
    uint32_t i;

    assert_true(bytes >= FRAME_MIN_BYTES && bytes <= pkt->room);
    for (i = 0; i < bytes; i++)
        pkt->data[i] = frame_byte(number, i);
    memcpy(pkt->data + 14, &number, sizeof(number));
    pkt->len = bytes;
}

static inline uint32_t frame_number(const struct us_pkt *pkt)
{
    uint32_t number;

    assert_true(pkt->len >= FRAME_MIN_BYTES);
    memcpy(&number, pkt->data + 14, sizeof(number));
    return number;
}

/* The number of bits that differ from fill_frame() with this number. */
static inline unsigned wrong_bits(const struct us_pkt *pkt, uint32_t number)
{
    uint8_t expected[4];
    unsigned wrong = 0;
    uint32_t i;

    memcpy(expected, &number, sizeof(expected));
    for (i = 0; i < pkt->len; i++) {
        uint8_t byte = i >= 14 && i < 18 ? expected[i - 14] : frame_byte(number, i);

        wrong += (unsigned)__builtin_popcount(byte ^ pkt->data[i]);
    }
    return wrong;
}

/* Sends one numbered frame. Returns the result of tx_burst(); a rejected packet is released. */
static inline unsigned send_frame(struct nic *nic, uint32_t number, uint32_t bytes)
{
    struct us_pkt *pkt;
    unsigned sent;

    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    fill_frame(pkt, number, bytes);
    sent = nic_tx_burst(nic, &pkt, 1);
    if (sent == 0)
        nic_release(nic, &pkt, 1);
    return sent;
}

#endif
