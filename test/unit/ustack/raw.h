/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stack whose peer is the test, with crafted segments. The stack is 10.0.0.1 with MAC
 * 02:00:00:00:00:01, the peer 10.0.0.2 with 02:00:00:00:00:02; the virtual clock
 * moves only by the test.
 */
#ifndef TEST_USTACK_RAW_H
#define TEST_USTACK_RAW_H

#include "ustack/tcp/tcp_hdr.h"
#include "ustack/tcp/tcp_opt.h"
#include "ustack/ustack.h"

enum { RAW_FRAMES = 64, RAW_FRAME_BYTES = 2048, RAW_EVENTS = 64, RAW_KEPT = 1024 };

enum {
    RAW_LOCAL_IP = 0x0a000001,
    RAW_PEER_IP = 0x0a000002,
    RAW_PORT = 11211,
    RAW_PEER_PORT = 4000
};

extern const u_u8 raw_our_mac[6];
extern const u_u8 raw_peer_mac[6]; /* unless the test changes struct raw's */

/* A frame sent by the stack. ip_protocol 0: no IP packet. */
struct raw_frame {
    u_u8 bytes[RAW_FRAME_BYTES];
    u_u32 len;
    u_u32 pkt_flags;
    unsigned ethertype;
    unsigned ip_protocol;
    u_u32 seq;
    u_u32 ack;
    unsigned flags;
    unsigned window;
    unsigned src_port;
    unsigned dst_port;
    struct us_tcp_opts opts;
    const u_u8 *data;
    u_u32 data_len;
};

struct raw {
    struct us_stack *stack;
    void *memory;
    u_u64 now_us;
    struct raw_frame frames[RAW_FRAMES]; /* sent and not taken by the test yet */
    unsigned frame_count;
    unsigned frame_next;
    struct us_event events[RAW_EVENTS]; /* likewise */
    unsigned event_count;
    unsigned event_next;
    u_u8 peer_mac[6];
    u_u32 peer_ip;
    u_u32 rx_flags;          /* of the frames that the stack receives */
    u_u16 peer_port;         /* where segments come from */
    int answer_arp;          /* the peer answers ARP requests, which are hidden from the test */
    struct us_tcp_opts opts; /* put into each segment */
    int no_pump;             /* raw_input() only calls us_input(), and the packet stays valid */
    u_u8 *kept[RAW_KEPT];    /* these packets */
    unsigned kept_count;
};

/* config null: pair_config()'s. The gratuitous ARP is dropped. */
void raw_open(struct raw *raw, const struct us_config *config);
void raw_close(struct raw *raw);

/*
 * For cmocka: *state is a struct raw with pair_config()'s configuration, which listens at RAW_PORT
 * and whose peer answers ARP.
 */
int raw_setup(void **state);
int raw_teardown(void **state);

/* Gives a frame to the stack, takes its events and then its frames; checks all invariants. */
void raw_input(struct raw *raw, const u_u8 *bytes, u_u32 len);

/* The same with a TCP segment from the peer. */
void raw_segment(struct raw *raw, unsigned flags, u_u32 seq, u_u32 ack, unsigned window,
                 const void *data, u_u32 len);

/* Takes events and frames; move_us moves the clock first. */
void raw_pump(struct raw *raw, u_u64 move_us);

/* The next frame or event; null if there is none. */
struct raw_frame *raw_frame(struct raw *raw);
struct us_event *raw_event(struct raw *raw);

/* Fails unless the next frame is a segment like this; returns it. */
struct raw_frame *raw_expect(struct raw *raw, unsigned flags, u_u32 seq, u_u32 ack, u_u32 len);
void raw_expect_nothing(struct raw *raw);

/* Fails unless the next event is of this type; returns it. */
struct us_event *raw_expect_event(struct raw *raw, enum us_event_type type);

/*
 * Opens a connection from the peer, whose sequence numbers begin at 1001, with the options in
 * raw->opts; *snd: the first sequence number of the stack's data.
 */
struct us_conn *raw_accept(struct raw *raw, u_u32 *snd);

u_u64 raw_counter(struct raw *raw, const char *name);

#endif
