/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue; see tcp_sendq.h. */
#include "ustack/tcp/tcp_sendq.h"

#include "base/cksum.h"
#include "ubase/pkt.h"

/* A shorter remainder of a reference is copied: a segment of memory costs the device as much. */
enum { VIEW_BYTES_MIN = 512 };

static void sendq_link(struct us_sendq *queue, struct us_chunk *chunk)
{
    if (queue->tail == U_NULL)
        queue->head = chunk;
    else
        queue->tail->next = chunk;
    queue->tail = chunk;
}

/* Removes the first chunk and frees it, or reports its release. */
static void sendq_pop(struct us_stack *stack, struct us_sendq *queue)
{
    struct us_chunk *chunk = queue->head;

    queue->head = chunk->next;
    if (queue->head == U_NULL)
        queue->tail = (struct us_chunk *)U_NULL;
    if (queue->cursor == chunk)
        queue->cursor = (struct us_chunk *)U_NULL;
    if (chunk->is_ref) {
        queue->refs--;
        us_event_release(stack, (struct us_ref *)chunk);
    } else {
        queue->copied -= chunk->len;
        us_block_put(stack, chunk);
    }
}

struct us_chunk *us_sendq_reserve(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                                  u_u32 want)
{
    struct us_chunk *chunk = queue->tail;

    U_ASSERT(want <= US_BLOCK_ROOM);
    if (chunk != U_NULL && chunk->room >= want)
        return chunk;
    chunk = us_block_get(stack, end_seq, us_sendq_block_use(queue));
    if (chunk != U_NULL)
        sendq_link(queue, chunk);
    return chunk;
}

void us_sendq_commit(struct us_stack *stack, struct us_sendq *queue, u_u32 used)
{
    U_ASSERT(queue->tail != U_NULL && used <= queue->tail->room);
    if (used == 0 && queue->head->len == 0 && queue->head == queue->tail) {
        sendq_pop(stack, queue); /* an idle connection holds no memory */
        return;
    }
    queue->tail->len += used;
    queue->tail->room -= used;
    queue->copied += used;
}

u_u32 us_sendq_append(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                      const u_u8 *data, u_u32 len)
{
    u_u32 taken = 0;

    while (taken < len) {
        struct us_chunk *chunk = us_sendq_reserve(stack, queue, end_seq + taken, 1);
        u_u32 n;
        if (chunk == U_NULL)
            break;
        n = us_chunk_append(chunk, data + taken, len - taken);
        queue->copied += n;
        taken += n;
    }
    return taken;
}

void us_sendq_append_ref(struct us_sendq *queue, struct us_ref *ref)
{
    ref->chunk.next = (struct us_chunk *)U_NULL;
    ref->chunk.room = 0;
    ref->chunk.is_ref = 1;
    sendq_link(queue, &ref->chunk);
    queue->refs++;
}

void us_sendq_drop(struct us_stack *stack, struct us_sendq *queue, u_u32 ack)
{
    while (queue->head != U_NULL && us_seq_leq(us_chunk_end(queue->head), ack))
        sendq_pop(stack, queue);
    if (queue->head != U_NULL && us_seq_lt(queue->head->seq, ack)) {
        struct us_chunk *chunk = queue->head;
        u_u32 n = ack - chunk->seq;
        chunk->seq = ack;
        chunk->data += n;
        chunk->len -= n;
        if (!chunk->is_ref)
            queue->copied -= n;
    }
}

void us_sendq_unpark_block(struct us_stack *stack, struct us_sendq *queue)
{
    if (queue->head != U_NULL && queue->head->len == 0)
        sendq_pop(stack, queue);
}

void us_sendq_clear(struct us_stack *stack, struct us_sendq *queue)
{
    while (queue->head != U_NULL)
        sendq_pop(stack, queue);
}

/* The chunk that holds byte `seq`. The cursor makes sending in order O(1). */
static struct us_chunk *sendq_find(const struct us_sendq *queue, u_u32 seq)
{
    struct us_chunk *chunk = queue->cursor;

    if (chunk == U_NULL || us_seq_gt(chunk->seq, seq))
        chunk = queue->head;
    while (us_seq_leq(us_chunk_end(chunk), seq))
        chunk = chunk->next;
    return chunk;
}

u_u32 us_sendq_copy(struct us_sendq *queue, u_u32 seq, u_u8 *to, u_u32 len, u_u32 sum, int with_sum)
{
    struct us_chunk *chunk = sendq_find(queue, seq);
    u_u32 skip = seq - chunk->seq;

    for (;;) {
        u_u32 n = u_min32(len, chunk->len - skip);
        if (with_sum)
            sum = u_cksum_copy(sum, to, chunk->data + skip, n);
        else
            u_copy(to, chunk->data + skip, n);
        to += n;
        len -= n;
        if (len == 0)
            break;
        skip = 0;
        chunk = chunk->next;
    }
    queue->cursor = chunk;
    return sum;
}

/* Independent of how much is wanted, so that a shortened frame has the same pieces. */
static int piece_is_view(const struct us_chunk *chunk, u_u32 skip)
{
    return chunk->is_ref && chunk->len - skip >= VIEW_BYTES_MIN;
}

u_u32 us_sendq_fit(const struct us_sendq *queue, u_u32 seq, u_u32 want, u_u32 room, u_u32 segs)
{
    const struct us_chunk *chunk = sendq_find(queue, seq);
    u_u32 skip = seq - chunk->seq;
    int copying = 1; /* the last segment holds copied bytes, as the first does */
    u_u32 done = 0;

    for (;;) {
        u_u32 n = u_min32(want - done, chunk->len - skip);
        int is_view = piece_is_view(chunk, skip);

        if (is_view || !copying) {
            if (segs == 0)
                return done;
            segs--;
        }
        if (!is_view) {
            if (n > room)
                return done + room;
            room -= n;
        }
        copying = !is_view;
        done += n;
        if (done == want)
            return done;
        skip = 0;
        chunk = chunk->next;
    }
}

/* Links one more segment to the frame. */
static struct us_pkt *gather_link(struct us_gather *gather, struct us_pkt *last)
{
    struct us_pkt *seg = gather->segs++;

    u_zero(seg, sizeof(*seg));
    last->next_seg = seg;
    return seg;
}

u_u32 us_sendq_gather(struct us_sendq *queue, u_u32 seq, u_u32 len, struct us_gather *gather,
                      u_u32 sum, int with_sum)
{
    struct us_chunk *chunk = sendq_find(queue, seq);
    struct us_pkt *last = gather->pkt;
    u_u32 skip = seq - chunk->seq;
    int copying = 1;

    for (;;) {
        const u_u8 *from = chunk->data + skip;
        u_u32 n = u_min32(len, chunk->len - skip);
        int is_view = piece_is_view(chunk, skip);

        if (is_view || !copying) {
            last = gather_link(gather, last);
            last->data = gather->to;
        }
        if (is_view) {
            u_copy(&last->data, &from, sizeof(from)); /* the device only reads there */
            sum = with_sum ? u_cksum_add(sum, from, n) : sum;
        } else if (with_sum) {
            sum = u_cksum_copy(sum, gather->to, from, n);
        } else {
            u_copy(gather->to, from, n);
        }
        gather->to += is_view ? 0 : n;
        if (last != gather->pkt) {
            last->len += n;
            gather->outside += n;
        }
        copying = !is_view;
        len -= n;
        if (len == 0)
            break;
        skip = 0;
        chunk = chunk->next;
    }
    queue->cursor = chunk;
    return sum;
}
