/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the reassembly of a TCP stream against a map of its bytes. The input is a list of pieces
 * (offset, length, and which of two senders' data they are), within a window over the wrap of
 * sequence numbers. The oracle: delivered data is contiguous, each byte was sent at that offset,
 * the first one that was acknowledged wins, blocks are bounded and come back, and SACK blocks name
 * only bytes that are stored, the newest first.
 */
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp_rxq.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SPACE = 16384, PIECE_MAX = 2000, BLOCK_LIMIT = 24 };

static const u_u32 start_seq = 0xffffe000u;

struct world {
    struct us_stack *stack;
    struct us_rxq queue;
    u_u32 nxt;            /* offset of the next byte in order */
    uint8_t liars[SPACE]; /* bit n: liar n has sent this byte */
};

static void check(int holds)
{
    if (!holds)
        abort();
}

static u_u8 byte_of(unsigned liar, u_u32 offset)
{
    return (u_u8)((offset * 7 + (offset >> 8)) << 1 | liar);
}

static struct us_stack *make_stack(void)
{
    static void *memory;
    static unsigned long bytes;
    struct us_config config;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    config.mac[0] = 2;
    config.secret[0] = 1;
    config.conn_max = 2;
    config.half_open_max = 2;
    config.buffer_bytes = 64 * 1024;
    if (memory == NULL) {
        bytes = us_memory_bytes(&config);
        memory = malloc(bytes);
    }
    memset(memory, 0, bytes);
    return us_create(&config, memory, bytes, 0);
}

static void take_all(struct world *w, u_u32 from)
{
    struct us_chunk *chunk;

    while ((chunk = us_rxq_take(&w->queue)) != NULL) {
        for (u_u32 i = 0; i < chunk->len; i++, from++) {
            unsigned liar = chunk->data[i] & 1;
            check(from < SPACE && chunk->data[i] == byte_of(liar, from));
            check(w->liars[from] >> liar & 1);
        }
        us_block_put(w->stack, chunk);
    }
    check(from == w->nxt);
}

static void check_sack(const struct world *w)
{
    struct us_tcp_sack blocks[4];
    unsigned n = us_rxq_sack(&w->queue, blocks, 4);

    check(n <= 4);
    for (unsigned i = 0; i < n; i++) {
        u_u32 first = blocks[i].start - start_seq;
        u_u32 last = blocks[i].end - start_seq;
        check(first < last && last <= SPACE);
        for (u_u32 at = first; at < last; at++)
            check(w->liars[at] != 0);
        /* Only the first block may report duplicates, and so overlap others. */
        for (unsigned k = 1; k < i; k++)
            check(last <= blocks[k].start - start_seq || blocks[k].end - start_seq <= first);
    }
}

static void piece(struct world *w, u_u32 at, u_u32 len, unsigned liar)
{
    u_u8 *data;
    u_u32 before = w->nxt;

    if (at >= SPACE || len == 0)
        return;
    len = len < SPACE - at ? len : SPACE - at;
    if (at < w->nxt) {
        u_u32 known = w->nxt - at < len ? w->nxt - at : len;
        at += known;
        len -= known;
    }
    if (len == 0)
        return;
    data = malloc(len);
    for (u_u32 i = 0; i < len; i++)
        data[i] = byte_of(liar, at + i);
    for (u_u32 i = 0; i < len; i++)
        w->liars[at + i] |= (uint8_t)(1u << liar);
    if (at == w->nxt) {
        w->nxt += us_rxq_append(w->stack, &w->queue, start_seq + at, data, len, BLOCK_LIMIT);
        w->nxt = us_rxq_advance(w->stack, &w->queue, start_seq + w->nxt) - start_seq;
    } else {
        (void)us_rxq_store(w->stack, &w->queue, start_seq + at, data, len, BLOCK_LIMIT);
    }
    free(data);
    check(w->queue.blocks <= BLOCK_LIMIT);
    check_sack(w);
    us_rxq_forget_duplicate(&w->queue);
    take_all(w, before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w;

    memset(&w, 0, sizeof(w));
    w.stack = make_stack();
    for (; size >= 4; data += 4, size -= 4) {
        u_u32 at = ((u_u32)data[0] << 8 | data[1]) % SPACE;
        u_u32 len = ((u_u32)data[2] << 8 | data[3]) % PIECE_MAX;
        if (data[2] & 0x80)
            at = w.nxt + at % 512; /* near to what is missing */
        piece(&w, at, len, data[0] >> 7);
    }
    us_rxq_clear(w.stack, &w.queue);
    check(w.queue.blocks == 0 && us_check(w.stack) == NULL);
    return 0;
}
