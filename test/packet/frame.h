/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames as the tests see them: decoded into one struct, built from one, described in a
 * line of text. Written apart from the stack on purpose, in the slow and obvious way, so that an
 * error of the stack's own parser or checksum is not repeated here.
 */
#ifndef TEST_FRAME_H
#define TEST_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum frame_kind { FRAME_OTHER, FRAME_ARP, FRAME_TCP, FRAME_ICMP };

enum tcp_flag {
    TCP_FIN = 1,
    TCP_SYN = 2,
    TCP_RST = 4,
    TCP_PSH = 8,
    TCP_ACK = 16,
    TCP_URG = 32,
    TCP_ECE = 64,
    TCP_CWR = 128
};

#define FRAME_BYTES_MAX 66000u
#define FRAME_SACK_MAX 4
#define FRAME_QUOTE_BYTES 28u /* of an IPv4 packet in an ICMP error */

/* The TCP options of a segment; each `has_` says whether the option was there. */
struct frame_opts {
    int has_mss, has_ws, has_sackok, has_ts;
    unsigned mss, ws;
    uint32_t ts_val, ts_ecr;
    unsigned sack_count;
    uint32_t sack[FRAME_SACK_MAX][2];
};

struct frame {
    enum frame_kind kind;
    uint8_t src_mac[6], dst_mac[6];
    uint32_t src_ip, dst_ip; /* host order; of ARP the sender's and the target's address */
    unsigned ttl, ip_id, ip_frag, tos;

    unsigned arp_op;
    uint8_t arp_sha[6], arp_tha[6];

    uint16_t src_port, dst_port;
    uint32_t seq, ack;
    unsigned flags; /* enum tcp_flag */
    unsigned window, urgent;
    struct frame_opts opts;

    unsigned icmp_type, icmp_code, icmp_id, icmp_seq;
    int quoted; /* to build: the payload of the ICMP message is the segment below */
    uint16_t quote_src_port, quote_dst_port;
    uint32_t quote_seq;

    const uint8_t *payload;
    uint32_t len; /* bytes of payload */
};

/* Faults and special fields of a frame to build. All 0: none. */
struct frame_faults {
    int bad_ip_csum, bad_l4_csum;
    int cut;                  /* bytes to keep of the frame */
    int pad;                  /* bytes to append behind the IP packet */
    int ip_len;               /* value of the total length field, if not 0 */
    int ip_ihl;               /* value of the header length field in words, if not 0 */
    int ip_ver;               /* value of the version field, if not 0 */
    int ip_opts;              /* bytes of NOP options in the IP header, a multiple of four */
    int tcp_doff;             /* value of the data offset field in words, if not 0 */
    int zero_doff;            /* the data offset field is 0 */
    int zero_ihl;             /* the header length field is 0 */
    const uint8_t *opt_bytes; /* TCP options as they are, instead of struct frame_opts */
    unsigned opt_len;
};

/* The Internet checksum (RFC 1071) of `bytes`, started with the sum `start`. */
uint16_t frame_checksum(const uint8_t *bytes, size_t len, uint32_t start);

/*
 * Decodes a frame and checks every length and checksum in it. Returns null, or a phrase that says
 * the error. `frame->payload` points into `bytes`.
 */
const char *frame_parse(const uint8_t *bytes, size_t len, struct frame *frame);

/* Writes the frame to `out` (FRAME_BYTES_MAX bytes of room); returns its length. */
size_t frame_build(const struct frame *frame, const struct frame_faults *faults, uint8_t *out);

/* Computes the checksums of an IPv4 frame with TCP inside again, after its bytes were changed. */
void frame_fix_checksums(uint8_t *bytes, size_t len);

/* One line of text; sequence and acknowledgment numbers are shown relative to the two bases. */
void frame_describe(const struct frame *frame, uint32_t seq_base, uint32_t ack_base, char *text,
                    size_t room);

#endif
