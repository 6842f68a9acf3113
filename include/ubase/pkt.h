/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One frame on its way between a NIC and the TCP/IP stack.
 *
 * This struct is the seam between the two: a packet I/O back end keeps one beside each of its own
 * descriptors (for DPDK in the mbuf's private area), the stack reads and writes its fields
 * directly. There is no accessor and no reference count. Who owns a packet at which moment:
 *
 *   received:  back end -> caller -> us_input() looks at it -> its events are taken -> back end
 *   to send:   back end (empty) -> caller -> us_output() fills it -> caller -> back end
 *
 * The stack never keeps a pointer to a packet or to its data after the events of a us_input()
 * have been taken, and never after us_output() has returned.
 */
#ifndef UBASE_PKT_H
#define UBASE_PKT_H

#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a back end can do by itself: bits of us_config.caps and nic.caps. */
enum us_cap {
    US_CAP_RX_CSUM = 1 << 0,    /* gives a verdict on checksums of received frames */
    US_CAP_TX_IP_CSUM = 1 << 1, /* fills in the IPv4 header checksum */
    US_CAP_TX_L4_CSUM = 1 << 2, /* fills in the TCP or UDP checksum */
    US_CAP_TX_TSO = 1 << 3,     /* cuts a large TCP segment at us_pkt.tso_mss */
    US_CAP_TX_SG = 1 << 4,      /* sends a frame that is a chain of segments */
    US_CAP_RX_SG = 1 << 5,      /* may deliver a frame as a chain of segments */
    US_CAP_RX_HASH = 1 << 6     /* fills in us_pkt.rss_hash */
};

/*
 * A frame to send of several segments (US_CAP_TX_SG): the structs of the further ones lie in the
 * room of the first packet, behind its bytes, and go with it. Their owner is null, and their data
 * is also memory of the application that must not change until the device has taken the frame; a
 * device that reads it later than that makes a copy. The first segment holds all headers.
 */

/* Bits of us_pkt.flags. A received frame without any of the first four: check in software. */
enum us_pkt_flag {
    US_PKT_IP_CSUM_GOOD = 1 << 0,
    US_PKT_IP_CSUM_BAD = 1 << 1,
    US_PKT_L4_CSUM_GOOD = 1 << 2,
    US_PKT_L4_CSUM_BAD = 1 << 3,
    US_PKT_HASH_VALID = 1 << 4, /* rss_hash is set */
    US_PKT_TX_IP_CSUM = 1 << 8, /* to the back end: fill in the IPv4 header checksum */
    US_PKT_TX_L4_CSUM = 1 << 9, /* to the back end: finish the checksum at csum_start/offset */
    US_PKT_TX_TSO = 1 << 10     /* to the back end: cut at tso_mss */
};

struct us_pkt {
    u_u8 *data;              /* first byte of this segment */
    struct us_pkt *next_seg; /* next segment of the same frame, or null */
    void *owner[2];          /* the back end's private words: nobody else touches them */
    u_u32 len;               /* bytes used from `data` */
    u_u32 room;              /* to send: bytes that may be written from `data` */
    u_u32 flags;             /* enum us_pkt_flag */
    u_u32 rss_hash;          /* the NIC's hash of the connection, if US_PKT_HASH_VALID */
    u_u16 csum_start;        /* to send: where the checksummed bytes begin, from `data` */
    u_u16 csum_offset;       /* to send: where in them the 16-bit checksum field is */
    u_u16 tso_mss;           /* to send: payload bytes per segment after the cut */
    u_u8 l2_len;             /* to send: lengths of the headers, for offloads */
    u_u8 l3_len;
    u_u8 l4_len;
    u_u16 home; /* whose it is, for a layer that passes it between threads; others leave it be */
};

/* One cache line. */
typedef char us_pkt_check_size[(sizeof(struct us_pkt) <= 64) ? 1 : -1];

#ifdef __cplusplus
}
#endif
#endif
