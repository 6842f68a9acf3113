/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast listener discovery; see mld.h. */
#include "ustack/ip/mld.h"

#include "ustack/core/instance.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/ip6.h"

/* Record types of a version 2 report (RFC 3810 5.2.12). */
enum { MODE_IS_EXCLUDE = 2, CHANGE_TO_EXCLUDE = 4 };

enum {
    OLD_BYTES = 24,       /* length of a version 1 message */
    QUERY_BYTES_MIN = 28, /* version 2 */
    REPORT_HDR_BYTES = 8,
    RECORD_BYTES = 20,
    HOP_HDR_BYTES = 8,
    GROUP_OFFSET = 8
};

/* RFC 3810 9.12: robustness * query interval + maximum response delay. */
static const u_u64 mld_old_us = (u_u64)260 * 1000 * 1000;

void us_mld_init(struct us_stack *stack)
{
    stack->nd.mld.joins_us = US_NEVER;
    stack->nd.mld.answers_us = US_NEVER;
}

void us_mld_join(struct us_stack *stack, u_u32 index)
{
    struct us_mld *mld = &stack->nd.mld;

    U_ASSERT(index < US_LOCAL6_MAX);
    if (stack->config.arp_passive)
        return;
    mld->joins_due |= (u_u32)1 << index;
    mld->joins_again |= (u_u32)1 << index;
    if (mld->joins_us == US_NEVER)
        mld->joins_us = stack->now_us + US_MLD_INTERVAL_US;
}

void us_mld_leave(struct us_stack *stack, u_u32 index)
{
    struct us_mld *mld = &stack->nd.mld;
    u_u32 others = ~((u_u32)1 << index);

    mld->joins_due &= others;
    mld->joins_again &= others;
    mld->answers_due &= others;
    mld->answers &= others;
}

void us_mld_timer(struct us_stack *stack)
{
    struct us_mld *mld = &stack->nd.mld;

    if (mld->joins_us <= stack->now_us) {
        mld->joins_due |= mld->joins_again;
        mld->joins_again = 0;
        mld->joins_us = US_NEVER;
    }
    if (mld->answers_us <= stack->now_us) {
        mld->answers_due |= mld->answers;
        mld->answers = 0;
        mld->answers_us = US_NEVER;
    }
}

u_u64 us_mld_next_us(const struct us_stack *stack)
{
    return u_min64(stack->nd.mld.joins_us, stack->nd.mld.answers_us);
}

/* ---- queries ---- */

/* The maximum response delay, ms: RFC 3810 5.1.3. */
static u_u32 query_delay_ms(const struct us_rx *rx)
{
    struct u_be16 field;
    u_u32 code;

    u_copy(&field, rx->l4 + 4, sizeof(field));
    code = u_get_be16(field);
    if (rx->l4_bytes == OLD_BYTES || code < 0x8000)
        return code;
    return ((code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3);
}

/* The joined groups that a query is about. */
static u_u32 query_groups(const struct us_stack *stack, const struct us_ip6 *group)
{
    int general = us_ip6_equal(group, &us_ip6_any);
    u_u32 groups = 0;
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        struct us_ip6 own = us_ip6_solicited_node(&stack->nd.locals[i].addr);
        if (stack->nd.locals[i].state != US_LOCAL6_FREE && (general || us_ip6_equal(&own, group)))
            groups |= (u_u32)1 << i;
    }
    return groups;
}

void us_mld_query_input(struct us_stack *stack, const struct us_rx *rx)
{
    struct us_mld *mld = &stack->nd.mld;
    struct us_ip6 group;
    u_u64 delay_us;

    /* RFC 3810 5.1.14 and 6.2: from a neighbour, with a router alert. */
    if (rx->hop_limit != 1 || !us_ip6_is_link_local(rx->src6) || rx->l3[6] != US_IP_HOP_OPTIONS ||
        (rx->l4_bytes != OLD_BYTES && rx->l4_bytes < QUERY_BYTES_MIN)) {
        us_count(stack, US_C_DROP_ND_MALFORMED);
        return;
    }
    us_count(stack, US_C_ND_RX);
    if (stack->config.arp_passive)
        return;
    if (rx->l4_bytes == OLD_BYTES)
        mld->old_until_us = stack->now_us + mld_old_us;
    u_copy(&group, rx->l4 + GROUP_OFFSET, sizeof(group));
    mld->answers |= query_groups(stack, &group);
    if (mld->answers == 0)
        return;
    /* A random time within the delay, so that hosts do not answer simultaneously. */
    delay_us = (u_u64)query_delay_ms(rx) * (us_ip6_id(stack, rx->src6) & 1023);
    mld->answers_us = u_min64(mld->answers_us, stack->now_us + delay_us);
    us_nd_reschedule(stack);
}

/* ---- reports ---- */

/* Adds the headers, with a router alert, to a message that is in the packet. */
static void report_finish(struct us_stack *stack, struct us_pkt *pkt, const struct us_ip6 *dst,
                          u_u32 bytes)
{
    static const u_u8 router_alert[HOP_HDR_BYTES] = {US_IP_ICMP6, 0, 5, 2, 0, 0, 1, 0};
    u_u8 *ip = pkt->data + stack->l2_bytes;
    u_u8 mac[6];

    us_eth_multicast_mac(mac, dst);
    us_eth_build(stack, pkt->data, mac, US_ETH_IP6);
    us_ip6_build(ip, us_nd_link_local_source(stack), dst, US_IP_HOP_OPTIONS, 1);
    u_copy(ip + US_IP6_HDR_BYTES, router_alert, sizeof(router_alert));
    us_nd_finish(stack, pkt, HOP_HDR_BYTES, bytes);
}

/* A version 2 report about a set of groups. */
static void report_build(struct us_stack *stack, struct us_pkt *pkt, u_u32 groups, unsigned kind)
{
    static const struct us_ip6 all_routers = {
        {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};
    u_u8 *icmp = pkt->data + stack->l2_bytes + US_IP6_HDR_BYTES + HOP_HDR_BYTES;
    u_u32 bytes = REPORT_HDR_BYTES;
    unsigned records = 0;
    u_u32 i;

    u_zero(icmp, REPORT_HDR_BYTES + US_LOCAL6_MAX * RECORD_BYTES);
    icmp[0] = US_ICMP6_MLD2_REPORT;
    for (i = 0; i < US_LOCAL6_MAX; i++) {
        struct us_ip6 group = us_ip6_solicited_node(&stack->nd.locals[i].addr);
        if (!(groups & (u_u32)1 << i))
            continue;
        icmp[bytes] = (u_u8)kind;
        u_copy(icmp + bytes + 4, &group, sizeof(group));
        bytes += RECORD_BYTES;
        records++;
    }
    icmp[7] = (u_u8)records;
    report_finish(stack, pkt, &all_routers, bytes);
}

/* A version 1 report about one group, sent to it. */
static void report_build_old(struct us_stack *stack, struct us_pkt *pkt, u_u32 index)
{
    u_u8 *icmp = pkt->data + stack->l2_bytes + US_IP6_HDR_BYTES + HOP_HDR_BYTES;
    struct us_ip6 group = us_ip6_solicited_node(&stack->nd.locals[index].addr);

    u_zero(icmp, OLD_BYTES);
    icmp[0] = US_ICMP6_MLD_REPORT;
    u_copy(icmp + GROUP_OFFSET, &group, sizeof(group));
    report_finish(stack, pkt, &group, OLD_BYTES);
}

int us_mld_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct us_mld *mld = &stack->nd.mld;
    u_u32 *due = mld->joins_due != 0 ? &mld->joins_due : &mld->answers_due;
    u_u32 groups = *due;

    if (groups == 0)
        return 0;
    if (mld->old_until_us <= stack->now_us) {
        *due = 0;
        report_build(stack, pkt, groups,
                     due == &mld->joins_due ? (unsigned)CHANGE_TO_EXCLUDE
                                            : (unsigned)MODE_IS_EXCLUDE);
        return 1;
    }
    *due &= groups - 1;
    report_build_old(stack, pkt, u_lowest_bit(groups));
    return 1;
}
