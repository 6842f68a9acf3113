/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP program: redirects frames for the stack to AF_XDP sockets and passes all others to the
 * kernel.
 *
 * Addresses of the stack: ARP requests and neighbour solicitations for them, and every packet to
 * them, fragments included. Addresses of the host of which the stack serves two ports: TCP and UDP
 * to these ports, and ICMP errors about packets sent from them; not fragments, of which only the
 * first contains a port.
 *
 * A frame goes to the socket of the queue that it arrived in; if there is none, the kernel gets it.
 * Frames with a VLAN tag belong to another interface.
 *
 * ARP and ICMP headers are declared here, because <linux/if_arp.h> and <linux/icmp.h> include C
 * library headers that need the rarely installed 32-bit variant for a BPF target.
 */
#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "nic/xdp_rule.h"

#define VLAN_ID_MASK 0x0fff
#define IP_FRAGMENT_MASK 0x3fff /* "more fragments", and the offset */
#define ND_SOLICITATION 135

/* ICMP errors that quote the packet they are about (RFC 792). */
#define ICMP_DEST_UNREACH 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12

#define ARPHRD_ETHER 1

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, NIC_XDP_RULES_MAX);
    __type(key, struct nic_xdp_key);
    __type(value, struct nic_xdp_rule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, NIC_XDP_QUEUES_MAX);
    __type(key, __u32);
    __type(value, __u32);
} sockets SEC(".maps");

struct vlan_tag {
    __be16 id;
    __be16 type;
};

/* ARP for Ethernet and IPv4 (RFC 826); the addresses are unaligned. */
struct arp_packet {
    __be16 hardware;
    __be16 protocol;
    __u8 hardware_len;
    __u8 protocol_len;
    __be16 operation;
    __u8 sender_mac[6];
    __u8 sender_ip[4];
    __u8 target_mac[6];
    __u8 target_ip[4];
};

/* RFC 792. */
struct icmp_header {
    __u8 type;
    __u8 code;
    __be16 checksum;
    __u8 rest[4];
};

/* The first fields of TCP and UDP. */
struct ports {
    __be16 source;
    __be16 dest;
};

static struct nic_xdp_rule *find4(const void *ip)
{
    struct nic_xdp_key key = {.bytes = {[10] = 0xff, [11] = 0xff}};

    __builtin_memcpy(key.bytes + 12, ip, 4);
    return bpf_map_lookup_elem(&rules, &key);
}

static struct nic_xdp_rule *find6(const void *ip)
{
    struct nic_xdp_key key;

    __builtin_memcpy(key.bytes, ip, 16);
    return bpf_map_lookup_elem(&rules, &key);
}

static int is_our_port(const struct nic_xdp_rule *rule, __u8 protocol, __be16 port)
{
    return port != 0 && ((protocol == IPPROTO_TCP && port == rule->tcp_port) ||
                         (protocol == IPPROTO_UDP && port == rule->udp_port));
}

static int takes_arp(const struct arp_packet *arp, const void *end)
{
    const struct nic_xdp_rule *rule;

    if ((const void *)(arp + 1) > end || arp->hardware != bpf_htons(ARPHRD_ETHER) ||
        arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_len != ETH_ALEN ||
        arp->protocol_len != 4)
        return 0;
    rule = find4(arp->target_ip);
    return rule && rule->whole;
}

/* Whether the packet quoted in an ICMP error came from one of the stack's ports. */
static int quotes_us4(const struct iphdr *ip, const void *end)
{
    const struct ports *ports;
    const struct nic_xdp_rule *rule;

    if ((const void *)(ip + 1) > end || ip->ihl < 5)
        return 0;
    ports = (const void *)ip + ip->ihl * 4;
    if ((const void *)(ports + 1) > end)
        return 0;
    rule = find4(&ip->saddr);
    return rule && is_our_port(rule, ip->protocol, ports->source);
}

static int takes_ip4(const struct iphdr *ip, const void *end)
{
    const struct nic_xdp_rule *rule;
    const void *payload;
    const struct ports *ports;
    const struct icmp_header *icmp;

    if ((const void *)(ip + 1) > end || ip->ihl < 5)
        return 0;
    rule = find4(&ip->daddr);
    if (!rule || rule->whole)
        return rule != 0;
    if (ip->frag_off & bpf_htons(IP_FRAGMENT_MASK))
        return 0;
    payload = (const void *)ip + ip->ihl * 4;
    if (ip->protocol == IPPROTO_ICMP) {
        icmp = payload;
        if ((const void *)(icmp + 1) > end ||
            (icmp->type != ICMP_DEST_UNREACH && icmp->type != ICMP_TIME_EXCEEDED &&
             icmp->type != ICMP_PARAMETERPROB))
            return 0;
        return quotes_us4((const void *)(icmp + 1), end);
    }
    ports = payload;
    return (const void *)(ports + 1) <= end && is_our_port(rule, ip->protocol, ports->dest);
}

/* ICMPv6 errors are the types below 128 (RFC 4443 2.1). */
static int quotes_us6(const struct icmp6hdr *icmp, const void *end)
{
    const struct ipv6hdr *ip = (const void *)(icmp + 1);
    const struct ports *ports = (const void *)(ip + 1);
    const struct nic_xdp_rule *rule;

    if ((const void *)(ports + 1) > end || icmp->icmp6_type >= 128)
        return 0;
    rule = find6(&ip->saddr);
    return rule && is_our_port(rule, ip->nexthdr, ports->source);
}

/*
 * A neighbour solicitation is sent to a multicast group that other hosts may have joined too (RFC
 * 4291 2.7.1).
 */
static int takes_group6(const struct ipv6hdr *ip, const void *end)
{
    const struct icmp6hdr *icmp = (const void *)(ip + 1);
    const struct in6_addr *target = (const void *)(icmp + 1);
    const struct nic_xdp_rule *rule;

    if ((const void *)(target + 1) > end || ip->nexthdr != IPPROTO_ICMPV6 ||
        icmp->icmp6_type != ND_SOLICITATION)
        return 0;
    rule = find6(target);
    return rule && rule->whole;
}

static int takes_ip6(const struct ipv6hdr *ip, const void *end)
{
    const struct ports *ports = (const void *)(ip + 1);
    const struct icmp6hdr *icmp = (const void *)(ip + 1);
    const struct nic_xdp_rule *rule;

    if ((const void *)(ip + 1) > end)
        return 0;
    if (ip->daddr.s6_addr[0] == 0xff)
        return takes_group6(ip, end);
    rule = find6(&ip->daddr);
    if (!rule || rule->whole)
        return rule != 0;
    if (ip->nexthdr == IPPROTO_ICMPV6)
        return (const void *)(icmp + 1) <= end && quotes_us6(icmp, end);
    return (const void *)(ports + 1) <= end && is_our_port(rule, ip->nexthdr, ports->dest);
}

SEC("xdp")
int ucached_filter(struct xdp_md *ctx)
{
    const void *end = (const void *)(long)ctx->data_end;
    const struct ethhdr *eth = (const void *)(long)ctx->data;
    const void *at = eth + 1;
    __be16 type;
    int taken = 0;

    if (at > end)
        return XDP_PASS;
    type = eth->h_proto;
    if (type == bpf_htons(ETH_P_8021Q)) { /* VLAN 0 is a priority tag */
        const struct vlan_tag *tag = at;

        if ((const void *)(tag + 1) > end || (tag->id & bpf_htons(VLAN_ID_MASK)) != 0)
            return XDP_PASS;
        type = tag->type;
        at = tag + 1;
    }
    if (type == bpf_htons(ETH_P_IP))
        taken = takes_ip4(at, end);
    else if (type == bpf_htons(ETH_P_IPV6))
        taken = takes_ip6(at, end);
    else if (type == bpf_htons(ETH_P_ARP))
        taken = takes_arp(at, end);
    return taken ? bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS) : XDP_PASS;
}

/* The program calls no GPL-only helper functions. */
char filter_license[] SEC("license") = "BSD-3-Clause";
