/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames with one altered field; see mutate_frame.h. */
#include "mutate_frame.h"

#include "raw.h"

enum { BENDS = 30 };

/* Alters a field of the TCP header. */
static void mutate_tcp(struct lockstep *t, struct frame *f, u_u32 how)
{
    struct us_tcp_hdr *tcp = frame_tcp(f);
    u_u8 *options = f->bytes + f->l4 + US_TCP_HDR_BYTES;

    switch (how) {
    case 0:
        tcp->seq = u_be32(u_get_be32(tcp->seq) - 1 - lockstep_below(t, 40));
        break;
    case 1:
        tcp->seq = u_be32(u_get_be32(tcp->seq) + 1 +
                          lockstep_below(t, lockstep_one_in(t, 2) ? 40 : 400000));
        break;
    case 2:
        tcp->ack = u_be32(u_get_be32(tcp->ack) - 1 -
                          lockstep_below(t, lockstep_one_in(t, 2) ? 40 : 400000));
        break;
    case 3:
        tcp->ack = u_be32(u_get_be32(tcp->ack) + 1 + lockstep_below(t, 40));
        break;
    case 4:
        tcp->window = u_be16(
            lockstep_one_in(t, 3) ? 0 : 3 * lockstep_below(t, 4)); /* a segment is 8 of them */
        break;
    case 5:
        tcp->flags ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 6: /* an old timestamp, or one that wraps */
        options[4] ^= (u_u8)(lockstep_one_in(t, 2) ? 0x80 : 0xff);
        break;
    case 7:
        options[lockstep_below(t, 4)] ^= (u_u8)(1u << lockstep_below(t, 4));
        break;
    case 8: /* no options, or payload as options */
        tcp->offset = (u_u8)(tcp->offset + (lockstep_one_in(t, 2) ? 0x10 : -0x10));
        break;
    case 9:
        tcp->offset ^= (u_u8)(1u << lockstep_below(t, 4));
        break;
    case 10:
        tcp->urgent = u_be16(1 + lockstep_below(t, 9));
        break;
    case 11:
        tcp->src_port = u_be16(lockstep_below(t, 65536));
        break;
    case 12:
        tcp->dst_port = u_be16(lockstep_one_in(t, 2) ? 0 : RAW_PORT + 1);
        break;
    default:
        break;
    }
    frame_sum(t, f);
}

/* Alters a field of the IP header. */
static void mutate_ip(struct lockstep *t, struct frame *f, u_u32 how)
{
    u_u8 *ip = f->bytes + f->l3;

    switch (how) {
    case 13: /* ECN, DSCP or traffic class */
        ip[1] ^= (u_u8)(t->shape.ip6 ? 0x10u << lockstep_below(t, 4) : 1u << lockstep_below(t, 8));
        break;
    case 14:
        ip[1] |= (u_u8)(t->shape.ip6 ? 0x30 : 3);
        break;
    case 15: /* version, or the length of the header */
        ip[0] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 16: /* a fragment, or a flow label */
        ip[t->shape.ip6 ? 2 : 6] ^= (u_u8)(0x80u >> lockstep_below(t, 4));
        break;
    case 17:
        ip[t->shape.ip6 ? 3 : 7] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 18: /* the length */
        ip[t->shape.ip6 ? 5 : 3] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 19: /* the protocol */
        ip[t->shape.ip6 ? 6 : 9] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 20: /* the source */
        ip[t->shape.ip6 ? 8 + lockstep_below(t, 16) : 12 + lockstep_below(t, 4)] ^=
            (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 21: /* the destination */
        ip[t->shape.ip6 ? 24 + lockstep_below(t, 16) : 16 + lockstep_below(t, 4)] ^=
            (u_u8)(1u << lockstep_below(t, 8));
        break;
    default: /* TTL or hop limit */
        ip[t->shape.ip6 ? 7 : 8] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    }
    frame_sum(t, f);
}

/* Alters the Ethernet header, the length, a byte or a packet flag. */
static void mutate_ethernet(struct lockstep *t, struct frame *f, u_u32 how)
{
    switch (how) {
    case 23:
        f->bytes[6 + lockstep_below(t, 6)] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 24:
        f->bytes[lockstep_below(t, 6)] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 25: /* the type, or the tag */
        f->bytes[12 + lockstep_below(t, f->l3 - 12)] ^= (u_u8)(1u << lockstep_below(t, 8));
        break;
    case 26: /* truncated, or padded */
        f->len = lockstep_one_in(t, 2) ? lockstep_below(t, f->len) : f->len + lockstep_below(t, 40);
        break;
    case 27: /* corrupted; the device may have flagged it */
        f->bytes[f->l3 + lockstep_below(t, f->len - f->l3)] ^= (u_u8)(1u << lockstep_below(t, 8));
        f->flags = lockstep_below(t, 16);
        break;
    case 28:
        f->chained = 1;
        break;
    default:
        f->flags = lockstep_below(t, 16);
        break;
    }
}

void mutate_frame(struct lockstep *t, struct frame *f)
{
    u_u32 how = lockstep_below(t, BENDS);

    if (how < 13)
        mutate_tcp(t, f, how);
    else if (how < 23)
        mutate_ip(t, f, how);
    else
        mutate_ethernet(t, f, how);
}
