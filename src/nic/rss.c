/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive side scaling: the hash of a flow and the headers that it is computed from; see rss.h. */
#include "nic/rss.h"

#include <string.h>

#include "base/siphash.h"

/* Addresses and ports of IPv6, in the order in which they are hashed. */
#define INPUT_BYTES_MAX 36

/* Offsets of the peer's port in the hash input. */
enum { PORT_AT_IP4 = 8, PORT_AT_IP6 = 32 };

/* Bits of the hash that index the indirection table. */
#define INDEX_BITS 7

uint8_t nic_rss_key[NIC_RSS_KEY_BYTES] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43,
    0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb,
    0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01,
    0xfa, 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d,
};

/* The XOR contribution of each half byte of the input to the hash with this key. */
static uint32_t half_byte_hash[2 * INPUT_BYTES_MAX][16];
static bool half_bytes_are_hashed; /* else nic_rss_key_choose() was not called yet */

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

/* Writes addresses, then ports, in packet order. Returns the number of bytes. */
static size_t flow_input(const struct nic_rss_flow *flow, uint8_t input[INPUT_BYTES_MAX])
{
    size_t bytes = flow->is_ip6 ? 16 : 4;

    memcpy(input, flow->from.addr, bytes);
    memcpy(input + bytes, flow->to.addr, bytes);
    bytes *= 2;
    if (!flow->has_ports)
        return bytes;
    input[bytes] = (uint8_t)(flow->from.port >> 8);
    input[bytes + 1] = (uint8_t)flow->from.port;
    input[bytes + 2] = (uint8_t)(flow->to.port >> 8);
    input[bytes + 3] = (uint8_t)flow->to.port;
    return bytes + 4;
}

uint32_t nic_rss_hash(const struct nic_rss_flow *flow)
{
    uint8_t input[INPUT_BYTES_MAX];
    size_t bytes = flow_input(flow, input);
    uint32_t hash = 0;
    size_t i;

    if (!half_bytes_are_hashed)
        return nic_rss_toeplitz(nic_rss_key, input, bytes);
    for (i = 0; i < bytes; i++)
        hash ^= half_byte_hash[2 * i][input[i] >> 4] ^ half_byte_hash[2 * i + 1][input[i] & 15];
    return hash;
}

/* ---- the key ----------------------------------------------------------------------------- */

static unsigned key_bit(unsigned bit)
{
    return nic_rss_key[bit / 8] >> (7 - bit % 8) & 1u;
}

/*
 * Whether, for each n up to INDEX_BITS, the last n bits of a port map one to one to the last n bits
 * of the hash while its other bits are constant: no leading minor of the matrix of this map is 0,
 * so that Gaussian elimination needs no row exchange.
 */
static bool key_spreads_ports(unsigned port_at)
{
    unsigned rows[INDEX_BITS] = {0};
    unsigned i, j;

    for (i = 0; i < INDEX_BITS; i++) {
        for (j = 0; j < INDEX_BITS; j++) /* bit i of the hash, by bit j of the port */
            rows[i] |= key_bit(8 * port_at + 15 - j + 31 - i) << j;
    }
    for (i = 0; i < INDEX_BITS; i++) {
        if (!(rows[i] >> i & 1u))
            return false;
        for (j = i + 1; j < INDEX_BITS; j++)
            rows[j] ^= rows[j] >> i & 1u ? rows[i] : 0;
    }
    return true;
}

/* Increments the two key bytes that determine this property; one of 128 values has it. */
static void key_make_spread_ports(unsigned port_at)
{
    uint8_t *bytes = nic_rss_key + port_at + 4;
    unsigned n;

    for (n = 0; n < 65536 && !key_spreads_ports(port_at); n++) {
        bytes[1]++;
        bytes[0] = (uint8_t)(bytes[0] + (bytes[1] == 0));
    }
}

void nic_rss_key_choose(const uint8_t secret[NIC_RSS_SECRET_BYTES])
{
    uint8_t input[INPUT_BYTES_MAX];
    unsigned i;

    for (i = 0; i < NIC_RSS_KEY_BYTES; i++) {
        uint8_t label = (uint8_t)i;

        nic_rss_key[i] = (uint8_t)u_siphash24(secret, &label, 1);
    }
    key_make_spread_ports(PORT_AT_IP4);
    key_make_spread_ports(PORT_AT_IP6);
    memset(input, 0, sizeof(input));
    for (i = 0; i < 2 * INPUT_BYTES_MAX * 16; i++) {
        input[i / 32] = (uint8_t)(i & 16 ? i & 15 : (i & 15) << 4);
        half_byte_hash[i / 16][i % 16] = nic_rss_toeplitz(nic_rss_key, input, INPUT_BYTES_MAX);
        input[i / 32] = 0;
    }
    half_bytes_are_hashed = true;
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

/* Maximum number of extension headers, as in the stack. */
#define EXTENSIONS_MAX 8

/* The part of the frame that was not parsed yet. */
struct unparsed {
    const uint8_t *at;
    size_t len;
};

static unsigned be16_at(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static bool rest_skip(struct unparsed *rest, size_t bytes)
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

/* Reads the ports of TCP and UDP. A truncated header leaves the flow without ports. */
static void take_ports(struct nic_rss_flow *flow, unsigned protocol, const struct unparsed *rest)
{
    if ((protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP) || rest->len < 4)
        return;
    flow->has_ports = true;
    flow->from.port = (uint16_t)be16_at(rest->at);
    flow->to.port = (uint16_t)be16_at(rest->at + 2);
}

/* Parses an IPv4 header. Returns false if it is truncated or malformed. */
static bool read_ip4(struct unparsed *rest, struct nic_rss_flow *flow, unsigned *protocol,
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

/* Parses an IPv6 header and its extension headers, up to a fragment header. */
static bool read_ip6(struct unparsed *rest, struct nic_rss_flow *flow, unsigned *protocol,
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

/* Classifies an ICMP message. An error belongs to the flow of the packet that it quotes. */
static enum nic_rss_kind classify_icmp(struct unparsed rest, struct nic_rss_flow *flow)
{
    struct nic_rss_flow quoted = {0};
    unsigned protocol;
    enum part part;

    if (rest.len < 8)
        return NIC_RSS_FLOW;
    if (flow->is_ip6 && is_discovery(rest.at[0]))
        return NIC_RSS_BROADCAST;
    if (!is_icmp_error(flow->is_ip6, rest.at[0]))
        return NIC_RSS_FLOW;
    rest_skip(&rest, 8);
    if (!(flow->is_ip6 ? read_ip6(&rest, &quoted, &protocol, &part)
                       : read_ip4(&rest, &quoted, &protocol, &part)))
        return NIC_RSS_FLOW;
    if (part != PART_LATER)
        take_ports(&quoted, protocol, &rest);
    *flow = quoted;
    flow->from = quoted.to;
    flow->to = quoted.from;
    return NIC_RSS_FLOW;
}

static enum nic_rss_kind classify_ip(struct unparsed rest, bool is_ip6, struct nic_rss_flow *flow)
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
    struct unparsed rest = {pkt->data, pkt->len};
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
    return type == ETHER_TYPE_ARP ? NIC_RSS_BROADCAST : NIC_RSS_OTHER;
}
