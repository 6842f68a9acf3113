/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP of both families; see icmp.h. */
#include "ustack/ip/icmp.h"

#include "ustack/core/instance.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

/* The largest error: RFC 1812 4.3.2.3 for IPv4, RFC 4443 2.4 (c) for IPv6. */
enum { ERROR4_BYTES_MAX = 576, ERROR6_BYTES_MAX = US_IP6_MTU_MIN };

/* Whether a packet is, or may be, an ICMP error. */
static int icmp_is_about_error(const struct us_rx *rx)
{
    unsigned type = rx->l4_bytes > 0 ? rx->l4[0] : 0;

    if (rx->src6 != U_NULL)
        return rx->protocol == US_IP_ICMP6 && (type < 128 || type == US_ICMP6_REDIRECT);
    /* RFC 1122 3.2.2: all types but queries. */
    return rx->protocol == US_IP_ICMP && type != 0 && type != 8 && (type < 13 || type > 18);
}

/* Whether no error may be sent about a packet. */
static int icmp_error_is_banned(const struct us_stack *stack, const struct us_rx *rx, unsigned type,
                                unsigned code)
{
    if (rx->src6 != U_NULL) {
        /* RFC 4862 5.4: a tentative address sends nothing, nor does one that is gone by now. */
        if (rx->cast == US_CAST_UNICAST && !us_local6_is_usable(&stack->nd.locals[rx->dst_ip]))
            return 1;
        if (us_ip6_equal(rx->src6, &us_ip6_any))
            return 1;
        /* RFC 4443 2.4 (e.3): the exception is an option that demands it. */
        if (rx->cast != US_CAST_UNICAST &&
            !(type == US_ICMP6_PROBLEM && code == US_ICMP6_PROBLEM_OPTION))
            return 1;
        return icmp_is_about_error(rx);
    }
    return rx->cast != US_CAST_UNICAST || icmp_is_about_error(rx);
}

/* Refills the bucket by the time passed and takes a token. Returns 0 if it is empty. */
static int icmp_take_token(struct us_stack *stack)
{
    u_u64 passed_us = stack->now_us - stack->icmp_filled_us;

    if (passed_us >= US_ICMP_REFILL_US) {
        u_u32 tokens = US_ICMP_BURST;
        if (passed_us < (u_u64)US_ICMP_BURST * US_ICMP_REFILL_US)
            tokens = (u_u32)passed_us / US_ICMP_REFILL_US;
        stack->icmp_tokens = u_min32(stack->icmp_tokens + tokens, US_ICMP_BURST);
        stack->icmp_filled_us = stack->now_us;
    }
    if (stack->icmp_tokens == 0)
        return 0;
    stack->icmp_tokens--;
    return 1;
}

void us_icmp_error(struct us_stack *stack, const struct us_rx *rx, unsigned type, unsigned code,
                   u_u32 value)
{
    int six = rx->src6 != U_NULL;
    u_u32 quote =
        (six ? ERROR6_BYTES_MAX - US_IP6_HDR_BYTES : ERROR4_BYTES_MAX - US_IP4_HDR_BYTES) -
        US_ICMP_HDR_BYTES;
    struct us_dgram *dgram;
    u_u8 hdr[US_ICMP_HDR_BYTES];
    struct u_be32 word = u_be32(value);

    if (icmp_error_is_banned(stack, rx, type, code))
        return;
    if (!icmp_take_token(stack)) {
        us_count(stack, US_C_ICMP_TX_LIMITED);
        return;
    }
    u_zero(hdr, sizeof(hdr));
    hdr[0] = (u_u8)type;
    hdr[1] = (u_u8)code;
    u_copy(hdr + 4, &word, sizeof(word));
    dgram = us_dgram_new_reply(stack, rx, six ? US_IP_ICMP6 : US_IP_ICMP);
    if (dgram == U_NULL || !us_dgram_append(stack, dgram, hdr, sizeof(hdr)) ||
        !us_dgram_append(stack, dgram, rx->l3, u_min32(rx->l3_bytes, quote)))
        return;
    us_dgram_checksum(stack, dgram, US_ICMP_CSUM_OFFSET);
    us_dgram_queue(stack, dgram);
    us_count(stack, US_C_ICMP_TX_ERRORS);
}

/* The reply is the request with another first word; its checksum covers just these bytes. */
void us_icmp_echo(struct us_stack *stack, const struct us_rx *rx, unsigned reply_type)
{
    struct us_dgram *dgram;
    u_u8 hdr[4];

    us_count(stack, US_C_ICMP_RX_ECHO);
    u_zero(hdr, sizeof(hdr));
    hdr[0] = (u_u8)reply_type;
    dgram = us_dgram_new_reply(stack, rx, rx->src6 != U_NULL ? US_IP_ICMP6 : US_IP_ICMP);
    if (dgram == U_NULL || !us_dgram_append(stack, dgram, hdr, sizeof(hdr)) ||
        !us_dgram_append(stack, dgram, rx->l4 + sizeof(hdr), rx->l4_bytes - sizeof(hdr)))
        return;
    us_dgram_checksum(stack, dgram, US_ICMP_CSUM_OFFSET);
    us_dgram_queue(stack, dgram);
    us_count(stack, US_C_ICMP_TX_ECHO);
}
