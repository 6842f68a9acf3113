/* SPDX-License-Identifier: BSD-3-Clause */
/* Crafted packets for struct raw: Ethernet, IP and what it carries, with right checksums. */
#ifndef TEST_USTACK_CRAFT_H
#define TEST_USTACK_CRAFT_H

#include "raw.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/ip/udp_datagram.h"

enum { CRAFT_BYTES = 10000, CRAFT_L4 = 34 };

struct craft {
    u_u8 bytes[CRAFT_BYTES];
    u_u32 len;
};

/* An Ethernet header from the peer to us, without anything behind it. */
void craft_eth(struct craft *c, const struct raw *raw, unsigned ethertype);

/* An IPv4 packet from the peer to us. */
void craft_ip4(struct craft *c, const struct raw *raw, unsigned protocol, const void *data,
               u_u32 len);

/* The IPv4 header of a packet, to be changed; craft_ip4_finish() updates its checksum. */
struct us_ip4_hdr *craft_ip4_hdr(struct craft *c);
void craft_ip4_finish(struct craft *c);

/* A UDP datagram over IPv4 from the peer's port raw->peer_port. */
void craft_udp4(struct craft *c, const struct raw *raw, unsigned dst_port, const void *data,
                u_u32 len);

/* The UDP header behind an IPv4 header without options. */
struct us_udp_hdr *craft_udp4_hdr(struct craft *c);

/* IPv6: we are fd00::1 and the peer is fd00::2. */
enum { CRAFT_L4_6 = 54 };
extern const struct us_ip6 craft_local6;
extern const struct us_ip6 craft_peer6;

/* Adds fd00::1/64, runs duplicate detection and drops its frames. */
void craft_enable6(struct raw *raw);

/* An IPv6 packet from the peer to us. */
void craft_ip6(struct craft *c, const struct raw *raw, unsigned next, const void *data, u_u32 len);
struct us_ip6_hdr *craft_ip6_hdr(struct craft *c);

/*
 * The same with a protocol that has a checksum, at this offset of data, behind `ext_bytes` bytes of
 * extension headers, of which the first is what `next` says.
 */
void craft_l4_6(struct craft *c, const struct raw *raw, unsigned next, const void *ext,
                u_u32 ext_bytes, unsigned protocol, const void *data, u_u32 len, u_u32 csum_offset);

/* Updates the checksum behind the fixed header and extension headers. */
void craft_ip6_checksum(struct craft *c, unsigned protocol, u_u32 ext_bytes, u_u32 csum_offset);

/* A datagram to our port with a right checksum, to be put into a packet or cut in pieces. */
u_u32 craft_datagram6(u_u8 *to, const struct raw *raw, unsigned dst_port, const void *data,
                      u_u32 len);

/* Gives the packet to the stack; fails unless that adds one to this counter. */
void craft_give(struct raw *raw, const struct craft *c);
void craft_expect_counted(struct raw *raw, const struct craft *c, const char *counter);

#endif
