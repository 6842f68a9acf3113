/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive queue; see tcp_rxq.h. */
#include "ustack/tcp/tcp_rxq.h"

/* Links `chunk` behind `place` in the list first..last; place null: at its beginning. */
static void list_insert(struct us_rxq *queue, struct us_chunk **first, struct us_chunk **last,
                        struct us_chunk *place, struct us_chunk *chunk)
{
    struct us_chunk **at = place == U_NULL ? first : &place->next;

    chunk->next = *at;
    *at = chunk;
    if (chunk->next == U_NULL)
        *last = chunk;
    queue->blocks++;
}

static void inorder_insert(struct us_rxq *queue, struct us_chunk *place, struct us_chunk *chunk)
{
    list_insert(queue, &queue->head, &queue->tail, place, chunk);
}

/* The class of the next block of the in-order list. */
static enum us_block_use inorder_use(const struct us_rxq *queue)
{
    return queue->blocks < US_RXQ_MIN_BLOCKS ? US_BLOCK_MINIMUM : US_BLOCK_SHARED;
}

int us_rxq_keep(struct us_stack *stack, struct us_rxq *queue, enum us_rxq_position place,
                const u_u8 *data, u_u32 len)
{
    struct us_chunk *last = place == US_RXQ_HELD ? queue->held : queue->kept;

    if (last != U_NULL) {
        u_u32 n = us_chunk_append(last, data, len);
        data += n;
        len -= n;
    } else {
        last = queue->kept; /* in a new block, as more may be inserted before it */
    }
    while (len > 0) {
        struct us_chunk *chunk = us_block_get(stack, 0, inorder_use(queue));
        u_u32 n;
        if (chunk == U_NULL)
            return 0;
        n = us_chunk_append(chunk, data, len);
        inorder_insert(queue, last, chunk);
        last = chunk;
        data += n;
        len -= n;
    }
    if (place == US_RXQ_HELD)
        queue->held = last;
    else
        queue->kept = last;
    return 1;
}

u_u32 us_rxq_append(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                    u_u32 len, u_u32 block_max)
{
    u_u32 taken = 0;

    /* Kept bytes stay in blocks of their own, since more may be inserted behind them. */
    if (queue->tail != U_NULL && queue->tail != queue->kept && queue->tail != queue->held)
        taken = us_chunk_append(queue->tail, data, len);
    while (taken < len) {
        struct us_chunk *chunk;
        if (queue->blocks >= block_max)
            break;
        chunk = us_block_get(stack, seq + taken, inorder_use(queue));
        if (chunk == U_NULL)
            break;
        inorder_insert(queue, queue->tail, chunk);
        taken += us_chunk_append(chunk, data + taken, len - taken);
    }
    return taken;
}

/* Whether the out-of-order list may have one more block. */
static int ooo_may_grow(const struct us_rxq *queue)
{
    const struct us_chunk *chunk;
    u_u32 blocks = 0;
    u_u32 bytes = 0;

    if (queue->blocks < US_RXQ_OOO_BLOCKS_MIN)
        return 1;
    for (chunk = queue->ooo; chunk != U_NULL; chunk = chunk->next) {
        blocks++;
        bytes += chunk->len;
    }
    return blocks < us_rxq_ooo_blocks_max(bytes);
}

/* Merges the chunk behind `chunk` into it if they are contiguous and fit. */
static void ooo_merge(struct us_stack *stack, struct us_rxq *queue, struct us_chunk *chunk)
{
    struct us_chunk *next = chunk->next;

    if (next == U_NULL || next->seq != us_chunk_end(chunk) || next->len > chunk->room)
        return;
    us_chunk_append(chunk, next->data, next->len);
    chunk->next = next->next;
    if (next == queue->ooo_tail)
        queue->ooo_tail = chunk;
    queue->blocks--;
    us_block_put(stack, next);
}

/*
 * Stores bytes that fit into the gap behind `place`. Returns the chunk with the last of them; null
 * if memory ran out.
 */
static struct us_chunk *ooo_fill(struct us_stack *stack, struct us_rxq *queue,
                                 struct us_chunk *place, u_u32 seq, const u_u8 *data, u_u32 len,
                                 u_u32 block_max)
{
    if (place != U_NULL && us_chunk_end(place) == seq) {
        u_u32 n = us_chunk_append(place, data, len);
        seq += n;
        data += n;
        len -= n;
    }
    while (len > 0) {
        struct us_chunk *chunk;
        u_u32 n;
        if (queue->blocks >= block_max || !ooo_may_grow(queue))
            return (struct us_chunk *)U_NULL;
        chunk = us_block_get(stack, seq, US_BLOCK_OUT_OF_ORDER);
        if (chunk == U_NULL)
            return (struct us_chunk *)U_NULL;
        n = us_chunk_append(chunk, data, len);
        list_insert(queue, &queue->ooo, &queue->ooo_tail, place, chunk);
        place = chunk;
        seq += n;
        data += n;
        len -= n;
    }
    ooo_merge(stack, queue, place);
    return place;
}

/* Records an out-of-order segment for SACK; one that extends the last replaces it. */
static void recent_note(struct us_rxq *queue, u_u32 seq, u_u32 len)
{
    if (queue->recents == 0 || seq != queue->recent_end) {
        unsigned i;
        for (i = U_ARRAY_LEN(queue->recent) - 1; i > 0; i--)
            queue->recent[i] = queue->recent[i - 1];
        if (queue->recents < U_ARRAY_LEN(queue->recent))
            queue->recents++;
    }
    queue->recent[0] = seq;
    queue->recent_end = seq + len;
}

void us_rxq_note_duplicate(struct us_rxq *queue, u_u32 start, u_u32 end)
{
    queue->dup_start = start;
    queue->dup_end = end;
}

void us_rxq_forget_duplicate(struct us_rxq *queue)
{
    queue->dup_end = queue->dup_start;
}

/* Records a duplicate part of a segment, which may extend the one before. */
static void duplicate_extend(struct us_rxq *queue, u_u32 start, u_u32 end)
{
    if (queue->dup_start != queue->dup_end && queue->dup_end == start)
        queue->dup_end = end;
    else if (queue->dup_start == queue->dup_end)
        us_rxq_note_duplicate(queue, start, end);
}

int us_rxq_store(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                 u_u32 len, u_u32 block_max)
{
    struct us_chunk *place = (struct us_chunk *)U_NULL;
    u_u32 end = seq + len;

    recent_note(queue, seq, len);
    us_rxq_forget_duplicate(queue);
    if (queue->ooo_tail != U_NULL && us_seq_leq(queue->ooo_tail->seq, seq))
        place = queue->ooo_tail;
    while (us_seq_lt(seq, end)) {
        struct us_chunk *next = place != U_NULL ? place->next : queue->ooo;
        u_u32 stop;

        if (next != U_NULL && us_seq_leq(next->seq, seq)) {
            place = next;
            continue;
        }
        if (place != U_NULL && us_seq_gt(us_chunk_end(place), seq)) {
            u_u32 skip = u_min32(us_chunk_end(place) - seq, end - seq);
            duplicate_extend(queue, seq, seq + skip);
            seq += skip;
            data += skip;
            continue;
        }
        stop = next != U_NULL ? us_seq_min(end, next->seq) : end;
        place = ooo_fill(stack, queue, place, seq, data, stop - seq, block_max);
        if (place == U_NULL)
            return 0;
        data += stop - seq;
        seq = stop;
    }
    return 1;
}

/* Frees the out-of-order chunks behind `place`, or all if it is null. */
static void ooo_cut(struct us_stack *stack, struct us_rxq *queue, struct us_chunk *place)
{
    struct us_chunk *chunk = place != U_NULL ? place->next : queue->ooo;

    queue->ooo_tail = place;
    if (place != U_NULL)
        place->next = (struct us_chunk *)U_NULL;
    else
        queue->ooo = place;
    while (chunk != U_NULL) {
        struct us_chunk *next = chunk->next;
        queue->blocks--;
        us_block_put(stack, chunk);
        chunk = next;
    }
}

/*
 * Full blocks may have left the list: frees those with the highest sequence numbers until the list
 * is within its bound again.
 */
static void ooo_trim(struct us_stack *stack, struct us_rxq *queue)
{
    struct us_chunk *last = (struct us_chunk *)U_NULL;
    struct us_chunk *chunk;
    u_u32 blocks = 0;
    u_u32 bytes = 0;

    if (queue->blocks <= US_RXQ_OOO_BLOCKS_MIN)
        return;
    for (chunk = queue->ooo; chunk != U_NULL; chunk = chunk->next) {
        bytes += chunk->len;
        if (++blocks <= us_rxq_ooo_blocks_max(bytes))
            last = chunk;
    }
    if (last != queue->ooo_tail)
        ooo_cut(stack, queue, last);
}

u_u32 us_rxq_advance(struct us_stack *stack, struct us_rxq *queue, u_u32 rcv_nxt)
{
    while (queue->ooo != U_NULL && us_seq_leq(queue->ooo->seq, rcv_nxt)) {
        struct us_chunk *chunk = queue->ooo;
        u_u32 known = rcv_nxt - chunk->seq;

        queue->ooo = chunk->next;
        if (queue->ooo == U_NULL)
            queue->ooo_tail = (struct us_chunk *)U_NULL;
        queue->blocks--;
        if (known >= chunk->len) {
            us_block_put(stack, chunk);
            continue;
        }
        chunk->data += known;
        chunk->seq += known;
        chunk->len -= known;
        rcv_nxt = us_chunk_end(chunk);
        inorder_insert(queue, queue->tail, chunk);
    }
    ooo_trim(stack, queue);
    if (queue->ooo == U_NULL)
        queue->recents = 0;
    return rcv_nxt;
}

struct us_chunk *us_rxq_take(struct us_rxq *queue)
{
    struct us_chunk *chunk = queue->head;

    if (chunk == U_NULL)
        return chunk;
    queue->head = chunk->next;
    if (queue->head == U_NULL)
        queue->tail = (struct us_chunk *)U_NULL;
    if (queue->kept == chunk)
        queue->kept = (struct us_chunk *)U_NULL;
    if (queue->held == chunk)
        queue->held = (struct us_chunk *)U_NULL;
    queue->blocks--;
    return chunk;
}

void us_rxq_clear_ooo(struct us_stack *stack, struct us_rxq *queue)
{
    ooo_cut(stack, queue, (struct us_chunk *)U_NULL);
    queue->recents = 0;
}

void us_rxq_clear(struct us_stack *stack, struct us_rxq *queue)
{
    struct us_chunk *chunk;

    us_rxq_clear_ooo(stack, queue);
    while ((chunk = us_rxq_take(queue)) != U_NULL)
        us_block_put(stack, chunk);
}

/* The contiguous stored range around `seq`. Returns 0 if nothing is stored there. */
static int ooo_range(const struct us_rxq *queue, u_u32 seq, struct us_tcp_sack *range)
{
    const struct us_chunk *chunk = queue->ooo;

    while (chunk != U_NULL && us_seq_leq(chunk->seq, seq)) {
        range->start = chunk->seq;
        range->end = us_chunk_end(chunk);
        while (chunk->next != U_NULL && chunk->next->seq == range->end) {
            chunk = chunk->next;
            range->end = us_chunk_end(chunk);
        }
        if (us_seq_lt(seq, range->end))
            return 1;
        chunk = chunk->next;
    }
    return 0;
}

unsigned us_rxq_sack(const struct us_rxq *queue, struct us_tcp_sack *blocks, unsigned max)
{
    unsigned n = 0;
    unsigned first = 0;
    u_u32 i;
    unsigned j;

    if (queue->dup_start != queue->dup_end && max > 0) {
        blocks[0].start = queue->dup_start;
        blocks[0].end = queue->dup_end;
        first = n = 1;
    }
    for (i = 0; i < queue->recents && n < max; i++) {
        if (!ooo_range(queue, queue->recent[i], &blocks[n]))
            continue;
        j = first;
        while (j < n && blocks[j].start != blocks[n].start)
            j++;
        if (j == n)
            n++;
    }
    return n;
}
