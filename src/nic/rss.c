/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash of a flow, and the headers that it is made of.
 */
#include "nic/rss.h"

#include <string.h>

#define KEY_HIGH 0xe3
#define KEY_LOW 0x4b
#define KEY_WORD (KEY_HIGH << 8 | KEY_LOW)
#define KEY_FOUR_BYTES KEY_HIGH, KEY_LOW, KEY_HIGH, KEY_LOW

/*
 * Of the words whose sixteen rotations are linearly independent (so that no two sums of words have
 * the same hash) one of the few with which the last bits of the ports, which are what tells one
 * client's connections apart, decide the last bits of the hash.
 */
const uint8_t nic_rss_key[NIC_RSS_KEY_BYTES] = {
    KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES,
    KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES,
    KEY_FOUR_BYTES, KEY_FOUR_BYTES, KEY_FOUR_BYTES,
};

/* ---- the hash ---------------------------------------------------------------------------- */

uint32_t nic_rss_toeplitz(const uint8_t *key, const uint8_t *input, size_t input_bytes)
{
    uint32_t window =
        (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | (uint32_t)key[3];
    uint32_t hash = 0;
    size_t i;
    unsigned bit;

    for (i = 0; i < input_bytes; i++) {
        for (bit = 0; bit < 8; bit++) {
            if (input[i] & (0x80u >> bit))
                hash ^= window;
            window = window << 1 | (key[i + 4] >> (7 - bit) & 1u);
        }
    }
    return hash;
}

/* The sum of the 16-bit words of an address. */
static uint32_t fold(const uint8_t *addr, unsigned bytes)
{
    uint32_t sum = 0;
    unsigned i;

    for (i = 0; i < bytes; i += 2)
        sum ^= (uint32_t)addr[i] << 8 | addr[i + 1];
    return sum;
}

uint32_t nic_rss_hash(const struct nic_rss_flow *flow)
{
    unsigned bytes = flow->is_ip6 ? 16 : 4;
    uint32_t sum = fold(flow->from.addr, bytes) ^ fold(flow->to.addr, bytes);
    uint32_t window = (uint32_t)KEY_WORD << 16 | KEY_WORD;
    uint32_t hash = 0;
    unsigned bit;

    if (flow->has_ports)
        sum ^= (uint32_t)flow->from.port ^ flow->to.port;
    for (bit = 0; bit < 16; bit++) {
        hash ^= window & (0u - (sum >> (15 - bit) & 1u));
        window = window << 1 | window >> 31;
    }
    return hash;
}

/* ---- the headers ------------------------------------------------------------------------- */

enum {
    ETHER_TYPE_IP4 = 0x0800,
    ETHER_TYPE_ARP = 0x0806,
    ETHER_TYPE_VLAN = 0x8100,
    ETHER_TYPE_IP6 = 0x86dd,

    PROTOCOL_HOP_BY_HOP = 0,
    PROTOCOL_ICMP4 = 1,
    PROTOCOL_TCP = 6,
    PROTOCOL_UDP = 17,
    PROTOCOL_ROUTING = 43,
    PROTOCOL_FRAGMENT = 44,
    PROTOCOL_ICMP6 = 58,
    PROTOCOL_OPTIONS = 60,

    IP4_FRAGMENT_BITS = 0x3fff, /* more fragments, and the offset */
    IP4_OFFSET_BITS = 0x1fff,
    IP6_FRAGMENT_BITS = 0xfff9,
    IP6_OFFSET_BITS = 0xfff8
};

enum part { PART_WHOLE, PART_FIRST, PART_LATER };

/* Extension headers that are walked; the stack takes no more either. */
#define EXTENSIONS_MAX 8

/* What is left of the frame behind the headers that were read. */
struct rest {
    const uint8_t *at;
    size_t len;
};

static unsigned be16_at(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static bool rest_skip(struct rest *rest, size_t bytes)
{
    if (rest->len < bytes)
        return false;
    rest->at += bytes;
    rest->len -= bytes;
    return true;
}

static void take_addrs(struct nic_rss_flow *flow, const uint8_t *addrs, size_t bytes)
{
    memcpy(flow->from.addr, addrs, bytes);
    memcpy(flow->to.addr, addrs + bytes, bytes);
}

/* Ports stand at the beginning of TCP and UDP alike. A cut header leaves the flow without. */
static void take_ports(struct nic_rss_flow *flow, unsigned protocol, const struct rest *rest)
{
    if ((protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP) || rest->len < 4)
        return;
    flow->has_ports = true;
    flow->from.port = (uint16_t)be16_at(rest->at);
    flow->to.port = (uint16_t)be16_at(rest->at + 2);
}

/* Reads the header of IPv4. Returns false if it is cut or wrong. */
static bool read_ip4(struct rest *rest, struct nic_rss_flow *flow, unsigned *protocol,
                     enum part *part)
{
    const uint8_t *ip = rest->at;
    unsigned bits;

    if (rest->len < 20 || ip[0] >> 4 != 4 || (ip[0] & 15) < 5)
        return false;
    flow->is_ip6 = false;
    take_addrs(flow, ip + 12, 4);
    *protocol = ip[9];
    bits = be16_at(ip + 6) & IP4_FRAGMENT_BITS;
    *part = bits == 0 ? PART_WHOLE : bits & IP4_OFFSET_BITS ? PART_LATER : PART_FIRST;
    flow->ident = be16_at(ip + 4);
    return rest_skip(rest, (size_t)(ip[0] & 15) * 4);
}

static enum part read_fragment6(const uint8_t *extension, struct nic_rss_flow *flow)
{
    unsigned bits = be16_at(extension + 2) & IP6_FRAGMENT_BITS;

    flow->ident = be16_at(extension + 4) << 16 | be16_at(extension + 6);
    return bits == 0 ? PART_WHOLE : bits & IP6_OFFSET_BITS ? PART_LATER : PART_FIRST;
}

/* The same for IPv6 and its extension headers, up to that of a fragment. */
static bool read_ip6(struct rest *rest, struct nic_rss_flow *flow, unsigned *protocol,
                     enum part *part)
{
    const uint8_t *ip = rest->at;
    unsigned i;

    if (rest->len < 40 || ip[0] >> 4 != 6)
        return false;
    flow->is_ip6 = true;
    take_addrs(flow, ip + 8, 16);
    *protocol = ip[6];
    *part = PART_WHOLE;
    rest_skip(rest, 40);
    for (i = 0; i < EXTENSIONS_MAX && rest->len >= 8 && *part != PART_LATER; i++) {
        const uint8_t *extension = rest->at;
        size_t bytes = 8;

        if (*protocol == PROTOCOL_FRAGMENT)
            *part = read_fragment6(extension, flow);
        else if (*protocol == PROTOCOL_HOP_BY_HOP || *protocol == PROTOCOL_ROUTING ||
                 *protocol == PROTOCOL_OPTIONS)
            bytes = 8 + (size_t)extension[1] * 8;
        else
            break;
        *protocol = extension[0];
        if (!rest_skip(rest, bytes))
            return false;
    }
    return true;
}

static bool is_icmp_error(bool is_ip6, unsigned type)
{
    if (is_ip6)
        return type < 128;
    return type == 3 || type == 4 || type == 11 || type == 12; /* RFC 792, RFC 1122 3.2.2 */
}

/* Listener queries and reports (RFC 2710, 3810), router and neighbour discovery (RFC 4861). */
static bool is_discovery(unsigned type)
{
    return (type >= 130 && type <= 137) || type == 143;
}

/* An ICMP message: what it quotes decides, if it is an error. */
static enum nic_rss_kind classify_icmp(struct rest rest, struct nic_rss_flow *flow)
{
    struct nic_rss_flow quoted = {0};
    unsigned protocol;
    enum part part;

    if (rest.len < 8)
        return NIC_RSS_FLOW;
    if (flow->is_ip6 && is_discovery(rest.at[0]))
        return NIC_RSS_ALL;
    if (!is_icmp_error(flow->is_ip6, rest.at[0]))
        return NIC_RSS_FLOW;
    rest_skip(&rest, 8);
    if (!(flow->is_ip6 ? read_ip6(&rest, &quoted, &protocol, &part)
                       : read_ip4(&rest, &quoted, &protocol, &part)))
        return NIC_RSS_FLOW;
    if (part != PART_LATER)
        take_ports(&quoted, protocol, &rest);
    *flow = quoted;
    return NIC_RSS_FLOW;
}

static enum nic_rss_kind classify_ip(struct rest rest, bool is_ip6, struct nic_rss_flow *flow)
{
    unsigned protocol;
    enum part part;

    if (!(is_ip6 ? read_ip6(&rest, flow, &protocol, &part)
                 : read_ip4(&rest, flow, &protocol, &part)))
        return NIC_RSS_OTHER;
    flow->is_first = part == PART_FIRST;
    if (flow->is_first)
        take_ports(flow, protocol, &rest);
    if (part != PART_WHOLE)
        return NIC_RSS_FRAGMENT;
    if (protocol == (is_ip6 ? PROTOCOL_ICMP6 : PROTOCOL_ICMP4))
        return classify_icmp(rest, flow);
    take_ports(flow, protocol, &rest);
    return NIC_RSS_FLOW;
}

enum nic_rss_kind nic_rss_classify(const struct us_pkt *pkt, struct nic_rss_flow *flow)
{
    struct rest rest = {pkt->data, pkt->len};
    unsigned type;

    flow->has_ports = false;
    if (!rest_skip(&rest, 14))
        return NIC_RSS_OTHER;
    type = be16_at(rest.at - 2);
    if (type == ETHER_TYPE_VLAN) {
        if (!rest_skip(&rest, 4))
            return NIC_RSS_OTHER;
        type = be16_at(rest.at - 2);
    }
    if (type == ETHER_TYPE_IP4 || type == ETHER_TYPE_IP6)
        return classify_ip(rest, type == ETHER_TYPE_IP6, flow);
    return type == ETHER_TYPE_ARP ? NIC_RSS_ALL : NIC_RSS_OTHER;
}
