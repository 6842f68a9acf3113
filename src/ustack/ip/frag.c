/* SPDX-License-Identifier: BSD-3-Clause */
/* Reassembly; see frag.h. */
#include "ustack/ip/frag.h"

#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

/* RFC 3168 section 5: the ECN field and its CE codepoint. */
enum { ECN_MASK = 3, ECN_CONGESTED = 3 };

void us_frag_init(struct us_stack *stack)
{
    u_list_init(&stack->frags.open);
    u_list_init(&stack->frags.done);
    us_timer_init(&stack->frags.timer, US_TIMER_FRAG);
}

/* The data of the datagram, behind its headers. */
static u_u8 *frag_data(struct us_frag *frag)
{
    return (u_u8 *)(frag + 1) + US_FRAG_HEAD_MAX;
}

/* ---- datagrams in reassembly ---- */

static void frag_reschedule(struct us_stack *stack)
{
    struct us_frags *frags = &stack->frags;

    if (u_list_is_empty(&frags->open))
        us_timer_stop(&stack->wheel, &frags->timer);
    else
        us_timer_set(&stack->wheel, &frags->timer,
                     U_CONTAINER_OF(frags->open.next, struct us_frag, link)->until_us);
}

static void frag_forget(struct us_stack *stack, struct us_frag *frag)
{
    u_list_remove(&frag->link);
    us_pool_put(&stack->frags.pool, frag);
}

static int frag_is(const struct us_frag *frag, const struct us_rx *rx, u_u32 ident)
{
    if (frag->ident != ident || frag->src_ip != rx->src_ip || frag->dst_ip != rx->dst_ip ||
        frag->is_ip6 != (rx->src6 != U_NULL))
        return 0;
    if (rx->src6 == U_NULL)
        return frag->protocol == rx->protocol;
    return us_ip6_equal(&frag->src6, rx->src6) && us_ip6_equal(&frag->dst6, rx->dst6);
}

static struct us_frag *frag_find(const struct us_stack *stack, const struct us_rx *rx, u_u32 ident)
{
    const struct us_frags *frags = &stack->frags;
    struct u_list *link;

    for (link = frags->open.next; link != &frags->open; link = link->next) {
        struct us_frag *frag = U_CONTAINER_OF(link, struct us_frag, link);
        if (frag_is(frag, rx, ident))
            return frag;
    }
    return (struct us_frag *)U_NULL;
}

/* A new datagram; replaces the oldest if all are in use. */
static struct us_frag *frag_new(struct us_stack *stack, const struct us_rx *rx, u_u32 ident)
{
    struct us_frags *frags = &stack->frags;
    struct us_frag *frag;

    if (us_pool_free(&frags->pool) == 0) {
        us_count(stack, US_C_FRAG_EVICTIONS);
        if (u_list_is_empty(&frags->open))
            return (struct us_frag *)U_NULL;
        frag_forget(stack, U_CONTAINER_OF(frags->open.next, struct us_frag, link));
    }
    frag = (struct us_frag *)us_pool_get(&frags->pool);
    u_zero(frag, sizeof(*frag));
    frag->until_us = stack->now_us + stack->config.reassembly_us;
    frag->src_ip = rx->src_ip;
    frag->dst_ip = rx->dst_ip;
    frag->ident = ident;
    frag->protocol = rx->protocol;
    frag->cast = rx->cast;
    frag->tos = rx->tos;
    if (rx->src6 != U_NULL) {
        frag->is_ip6 = 1;
        frag->src6 = *rx->src6;
        frag->dst6 = *rx->dst6;
    }
    u_list_init(&frag->link);
    u_list_push_back(&frags->open, &frag->link);
    frag_reschedule(stack);
    return frag;
}

/* ---- one fragment ---- */

/* Discards the datagram with its later fragments: RFC 5722 section 4. */
static void frag_kill(struct us_stack *stack, struct us_frag *frag, enum us_counter_index why)
{
    us_count(stack, why);
    frag->is_dead = 1;
}

/*
 * Finds the index *at of a fragment among the ranges. *is_copy: it is an exact duplicate. Returns 0
 * if it overlaps another fragment.
 */
static int frag_place(struct us_frag *frag, const struct us_rx *rx, u_u32 start, u_u32 end,
                      unsigned *at, int *is_copy)
{
    unsigned i = 0;

    while (i < frag->ranges_used && frag->ranges[i].end <= start)
        i++;
    *at = i;
    *is_copy = 0;
    if (i == frag->ranges_used || frag->ranges[i].start >= end)
        return 1;
    *is_copy = frag->ranges[i].start == start && frag->ranges[i].end == end &&
               u_equal(frag_data(frag) + start, rx->l4, end - start);
    return *is_copy;
}

static void frag_insert(struct us_frag *frag, unsigned at, u_u32 start, u_u32 end)
{
    unsigned i;

    for (i = frag->ranges_used; i > at; i--)
        frag->ranges[i] = frag->ranges[i - 1];
    frag->ranges[at].start = (u_u16)start;
    frag->ranges[at].end = (u_u16)end;
    frag->ranges_used++;
    frag->received += end - start;
}

/* Whether the fragment contradicts the known length of the datagram. */
static int frag_length_is_wrong(const struct us_frag *frag, const struct us_fragment *fragment,
                                u_u32 end)
{
    u_u32 known = frag->ranges_used > 0 ? frag->ranges[frag->ranges_used - 1].end : 0;

    if (frag->total != 0)
        return fragment->more ? end >= frag->total : end != frag->total;
    return !fragment->more && end < known;
}

/* Keeps the headers of the first fragment. */
static void frag_take_head(struct us_frag *frag, const struct us_rx *rx,
                           const struct us_fragment *fragment)
{
    frag->head_bytes = fragment->head_bytes;
    frag->next_at = fragment->next_at;
    frag->protocol = rx->protocol;
    u_copy(frag->mac, rx->mac, sizeof(frag->mac));
    u_copy(frag_data(frag) - fragment->head_bytes, rx->l4 - fragment->head_bytes,
           fragment->head_bytes);
}

/* Adds the bytes of a fragment. Returns 0 if they were dropped. */
static int frag_add(struct us_stack *stack, struct us_frag *frag, const struct us_rx *rx,
                    const struct us_fragment *fragment)
{
    u_u32 start = fragment->offset;
    u_u32 end = start + rx->l4_bytes;
    unsigned at;
    int is_copy;

    if (frag_length_is_wrong(frag, fragment, end) ||
        !frag_place(frag, rx, start, end, &at, &is_copy)) {
        frag_kill(stack, frag, US_C_DROP_FRAG_OVERLAP);
        return 0;
    }
    if (is_copy) {
        us_count(stack, US_C_DROP_FRAG_COPY);
        return 0;
    }
    if (frag->ranges_used == US_FRAGS_MAX) {
        frag_kill(stack, frag, US_C_DROP_FRAG_BOUND);
        return 0;
    }
    frag_insert(frag, at, start, end);
    u_copy(frag_data(frag) + start, rx->l4, rx->l4_bytes);
    if (start == 0)
        frag_take_head(frag, rx, fragment);
    if (!fragment->more)
        frag->total = end;
    if ((rx->tos & ECN_MASK) == ECN_CONGESTED) /* RFC 3168 5.3 */
        frag->tos |= ECN_CONGESTED;
    return 1;
}

/* ---- complete datagrams ---- */

/* Makes *rx the packet with l4_bytes bytes behind the headers. */
static void frag_describe(struct us_frag *frag, struct us_rx *rx, u_u32 l4_bytes)
{
    rx->mac = frag->mac;
    rx->l4 = frag_data(frag);
    rx->l4_bytes = l4_bytes;
    rx->l3 = rx->l4 - frag->head_bytes;
    rx->l3_bytes = frag->head_bytes + l4_bytes;
    rx->src_ip = frag->src_ip;
    rx->dst_ip = frag->dst_ip;
    rx->src6 = frag->is_ip6 ? &frag->src6 : (const struct us_ip6 *)U_NULL;
    rx->dst6 = frag->is_ip6 ? &frag->dst6 : (const struct us_ip6 *)U_NULL;
    rx->flags = 0; /* checksum verdicts of the NIC are about fragments */
    rx->tos = frag->tos;
    rx->cast = frag->cast;
    rx->protocol = frag->protocol;
    rx->is_reassembled = 1;
    rx->hop_limit = 0; /* makes neighbour discovery refuse it: RFC 6980 section 5 */
}

/* Makes the header that of an unfragmented packet. */
static void frag_mend4(struct us_frag *frag)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)(frag_data(frag) - frag->head_bytes);

    hdr->total_bytes = u_be16(frag->head_bytes + frag->total);
    hdr->fragment = u_be16(0);
}

/* The same for IPv6: moves the headers up over the fragment header. */
static void frag_mend6(struct us_frag *frag)
{
    u_u8 *data = frag_data(frag);
    u_u8 *head = data - frag->head_bytes;
    u_u8 next = data[-US_IP6_FRAGMENT_HDR_BYTES];
    unsigned i;

    for (i = frag->head_bytes - (unsigned)US_IP6_FRAGMENT_HDR_BYTES; i > 0; i--)
        head[i - 1 + US_IP6_FRAGMENT_HDR_BYTES] = head[i - 1];
    frag->head_bytes = (u_u16)(frag->head_bytes - US_IP6_FRAGMENT_HDR_BYTES);
    head += US_IP6_FRAGMENT_HDR_BYTES;
    head[frag->next_at] = next;
    frag->protocol = next;
    ((struct us_ip6_hdr *)head)->payload_bytes =
        u_be16(frag->head_bytes - US_IP6_HDR_BYTES + frag->total);
}

int us_frag_input(struct us_stack *stack, struct us_rx *rx, const struct us_fragment *fragment)
{
    struct us_frag *frag = frag_find(stack, rx, fragment->ident);
    u_u32 end = fragment->offset + rx->l4_bytes;

    U_ASSERT(rx->l4_bytes > 0);
    us_count(stack, US_C_FRAG_RX);
    if (end > stack->config.reassembly_bytes || fragment->head_bytes > US_FRAG_HEAD_MAX ||
        end + fragment->head_bytes > 0xffff) {
        us_count(stack, US_C_DROP_FRAG_BOUND);
        return 0;
    }
    if (frag == U_NULL)
        frag = frag_new(stack, rx, fragment->ident);
    if (frag == U_NULL)
        return 0;
    if (frag->is_dead) {
        us_count(stack, US_C_DROP_FRAG_OVERLAP);
        return 0;
    }
    if (!frag_add(stack, frag, rx, fragment) || frag->total == 0 || frag->received != frag->total)
        return 0;
    us_count(stack, US_C_FRAG_WHOLE);
    u_list_remove(&frag->link);
    u_list_push_back(&stack->frags.done, &frag->link);
    frag_reschedule(stack);
    if (frag->is_ip6)
        frag_mend6(frag);
    else
        frag_mend4(frag);
    frag_describe(frag, rx, frag->total);
    return 1;
}

void us_frag_retire(struct us_stack *stack)
{
    struct us_frags *frags = &stack->frags;

    if (U_LIKELY(u_list_is_empty(&frags->done)) || stack->events.slices_used > 0)
        return;
    while (!u_list_is_empty(&frags->done))
        frag_forget(stack, U_CONTAINER_OF(frags->done.next, struct us_frag, link));
}

/* RFC 792, RFC 8200 4.5: reports the timeout if the first fragment has arrived. */
static void frag_expire(struct us_stack *stack, struct us_frag *frag)
{
    struct us_rx rx;

    us_count(stack, US_C_FRAG_TIMEOUTS);
    if (!frag->is_dead && frag->head_bytes > 0) {
        frag_describe(frag, &rx, frag->ranges[0].end);
        us_icmp_error(stack, &rx,
                      frag->is_ip6 ? (unsigned)US_ICMP6_EXCEEDED : (unsigned)US_ICMP4_EXCEEDED,
                      US_ICMP_REASSEMBLY, 0);
    }
    frag_forget(stack, frag);
}

void us_frag_timer(struct us_stack *stack)
{
    struct us_frags *frags = &stack->frags;

    while (!u_list_is_empty(&frags->open)) {
        struct us_frag *frag = U_CONTAINER_OF(frags->open.next, struct us_frag, link);
        if (frag->until_us > stack->now_us)
            break;
        frag_expire(stack, frag);
    }
    frag_reschedule(stack);
}
