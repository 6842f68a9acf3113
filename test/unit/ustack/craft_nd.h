/* SPDX-License-Identifier: BSD-3-Clause */
/* Crafted messages of neighbour discovery, and what a stack sends of them; see craft.h. */
#ifndef TEST_USTACK_CRAFT_ND_H
#define TEST_USTACK_CRAFT_ND_H

#include "craft.h"
#include "ustack/ip/addr.h"

enum { SOLICIT = 135, ADVERT = 136, ROUTER_SOLICIT = 133, ROUTER_ADVERT = 134, SECOND = 1000000 };

/* fe80::9 with 02:00:00:00:00:09, and a host behind it. */
extern const struct us_ip6 nd_router;
extern const u_u8 nd_router_mac[6];
extern const struct us_ip6 nd_far;

/* Opens a stack that listens at RAW_PORT; its IPv4 frames are dropped. config null: defaults. */
void nd_open(struct raw *raw, const struct us_config *config);

/* The same with config.ip6_autoconf. */
void nd_open_autoconf(struct raw *raw);

/* Makes an ICMPv6 message with hop limit 255. */
void nd_make(struct craft *c, const struct raw *raw, const struct us_ip6 *src,
             const struct us_ip6 *dst, const void *msg, u_u32 len);

/* A solicitation or advertisement with one option, of this type and MAC; opt_type 0: without. */
void nd_make_message(struct craft *c, const struct raw *raw, unsigned type, unsigned flags,
                     const struct us_ip6 *src, const struct us_ip6 *dst,
                     const struct us_ip6 *target, unsigned opt_type, u_u8 mac);

/* A general query of groups, version 2 (28 bytes) or 1 (24), with this delay code. */
void nd_make_query(struct craft *c, const struct raw *raw, unsigned code, u_u32 len);

/* The next frame must be an ICMPv6 message of this type behind the fixed header. */
const struct raw_frame *nd_expect(struct raw *raw, unsigned type);

/* The next frame must be a report of groups; returns how many it has. */
unsigned nd_expect_report(struct raw *raw, unsigned kind);

struct us_addr nd_addr(const struct us_ip6 *ip);

/* Takes all frames that the stack has sent. */
void nd_skip_frames(struct raw *raw);

/* What a router advertises: itself, an MTU (0: none), and fd00:5::/64 for addresses of hosts. */
struct nd_router_advert {
    unsigned lifetime_s;
    u_u32 valid_s;
    u_u32 preferred_s;
    u_u32 mtu;
    u_u8 hop_limit;
    u_u8 prefix_len;   /* 0: 64 */
    u_u8 prefix_flags; /* 0: on-link and autonomous */
    u_u8 prefix_byte;  /* the last byte of the 64 bits, in place of 5 */
};

void nd_make_router_advert(struct craft *c, const struct raw *raw,
                           const struct nd_router_advert *advert);
void nd_give_router_advert(struct raw *raw, const struct nd_router_advert *advert);

/* The address that the stack makes of the prefix. */
extern const struct us_ip6 nd_auto;

/* Whether the stack answers for nd_auto. */
int nd_auto_answers(struct raw *raw);

#endif
