/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frame: the interface between packet I/O back ends and the TCP/IP stack.
 *
 * A back end keeps one struct us_pkt beside each of its descriptors (DPDK: in the private area of
 * the mbuf); the stack reads and writes its fields directly. Ownership:
 *
 *   received:  back end -> caller -> us_input() reads it -> its events are taken -> back end
 *   to send:   back end (empty) -> caller -> us_output() fills it -> caller -> back end
 *
 * The stack keeps no pointer to a packet or its data after the events of a us_input() are taken,
 * and none after us_output() has returned.
 */
#ifndef UBASE_PKT_H
#define UBASE_PKT_H

#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Offloads of a back end: bits of us_config.caps and nic.caps. */
enum us_cap {
    US_CAP_RX_CSUM = 1 << 0,    /* verifies checksums of received frames */
    US_CAP_TX_IP_CSUM = 1 << 1, /* fills in the IPv4 header checksum */
    US_CAP_TX_L4_CSUM = 1 << 2, /* fills in the TCP or UDP checksum */
    US_CAP_TX_TSO = 1 << 3,     /* cuts a large TCP segment at us_pkt.tso_mss */
    US_CAP_TX_SG = 1 << 4,      /* sends a frame that is a chain of segments */
    US_CAP_RX_SG = 1 << 5,      /* may deliver a frame as a chain of segments */
    US_CAP_RX_HASH = 1 << 6     /* fills in us_pkt.rss_hash */
};

/*
 * A frame to send of several segments (US_CAP_TX_SG): the first segment holds all headers. The
 * structs of the other segments lie in the room of the first packet, behind its bytes; their owner
 * is null, and their data may be memory of the application that changes after the transmit call of
 * the back end: a device that reads it later must copy it.
 */

/* Bits of us_pkt.flags. Without one of the first four the stack verifies checksums itself. */
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
    void *owner[2];          /* private to the back end */
    u_u32 len;               /* bytes used from `data` */
    u_u32 room;              /* to send: bytes that may be written from `data` */
    u_u32 flags;             /* enum us_pkt_flag */
    u_u32 rss_hash;          /* the NIC's hash of the connection, if US_PKT_HASH_VALID */
    u_u16 csum_start;        /* to send: where the checksummed bytes begin, from `data` */
    u_u16 csum_offset;       /* to send: where in them the 16-bit checksum field is */
    u_u16 tso_mss;           /* to send: payload bytes per segment after the cut */
    u_u8 l2_len;             /* to send: lengths of the headers, for offloads */
    u_u8 l3_len;
    u_u8 l4_len; /* of TCP; 0 for other protocols */
    u_u16 home;  /* index of the owning lane, for a layer that passes packets between threads */
};

/* One cache line. */
typedef char us_pkt_check_size[(sizeof(struct us_pkt) <= 64) ? 1 : -1];

#ifdef __cplusplus
}
#endif
#endif
