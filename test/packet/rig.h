/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test rig for one stack: virtual time, frames in, frames out, events, and up to 64 flows.
 *
 * A flow is what the script calls a connection: a peer (address, MAC, port), a local port, the
 * initial sequence numbers of both sides, and the us_conn once there is one. Sequence numbers in
 * scripts are relative to those initial numbers. All payload is generated from its position in the
 * stream, so lost, doubled, moved and altered bytes are detected without help from the script.
 *
 * Every frame that the stack sends is checked here, whatever the script expects: lengths,
 * checksums (finished in software where the stack left them to the NIC), addresses, payload,
 * size, the peer's window, and that the window offered is never taken back.
 */
#ifndef TEST_RIG_H
#define TEST_RIG_H

#include "frame.h"
#include "ustack/ustack.h"

#include <stdio.h>

#define RIG_FLOWS_MAX 64
#define RIG_FRAMES_MAX 8192
#define RIG_EVENTS_MAX 8192
#define RIG_REFS_MAX 256

struct rig_ref {
    struct rig_flow *flow;
    int id;
    int released;
    uint8_t *bytes;
};

struct rig_flow {
    int number;
    uint32_t peer_ip;
    uint8_t peer_mac[6];
    uint16_t peer_port, local_port;
    uint32_t peer_isn, stack_isn;
    int isn_known;    /* stack_isn has been learned from a SYN of the stack */
    unsigned window;  /* window field of the last segment that was injected */
    int peer_syn_ws;  /* shift offered by the peer, or -1 */
    int stack_syn_ws; /* shift offered by the stack, or -1 */
    int peer_syn_ts, stack_syn_ts;
    uint32_t stack_ts; /* newest timestamp value of the stack */
    uint32_t data_ts;  /* that of its first segment with data */
    int data_sent;
    uint32_t send_edge; /* absolute: how far the peer's window has ever let the stack send */
    int edge_known;
    uint32_t recv_edge; /* absolute: how far the stack's window has ever let the peer send */
    int recv_edge_known;
    unsigned peer_mss;
    struct us_conn *conn;
    uint32_t queued;   /* bytes handed to the stack so far */
    uint32_t received; /* bytes that DATA events have brought, less those kept */
    const u_u8 *data;  /* slice of the last DATA event */
    u_u32 data_len;
    int held;             /* bytes were kept, and no resume since: no DATA may come */
    uint32_t stall_bytes; /* kept by a stalled reader since the last resume */
    int stalled;          /* the application keeps all of every DATA event */
};

struct rig_event {
    struct us_event ev;
    struct rig_flow *flow;
    int ref_id;
};

struct rig_out {
    uint64_t time_us;
    struct frame frame;
    uint8_t *bytes;
    size_t len;
    u_u32 flags;
    unsigned tso_mss;
    unsigned segments;     /* of memory */
    struct rig_flow *flow; /* null if it belongs to none */
};

struct rig {
    struct us_config config;
    uint32_t local_ip;
    unsigned prefix_len;
    uint32_t gateway_ip;
    int auto_arp;    /* answer the stack's ARP requests */
    int auto_checks; /* check window and content of what the stack sends */
    unsigned burst;  /* packets given to one us_output() */
    uint64_t now_us;
    struct us_stack *stack;
    void *memory;
    struct rig_flow flows[RIG_FLOWS_MAX];
    unsigned flow_count;
    struct rig_out out[RIG_FRAMES_MAX]; /* sent by the stack, from out_head on not yet expected */
    unsigned out_head, out_tail;
    struct rig_event events[RIG_EVENTS_MAX];
    unsigned event_tail;
    int event_taken[RIG_EVENTS_MAX];
    struct rig_ref refs[RIG_REFS_MAX];
    unsigned ref_count;
    uint8_t *in[64]; /* frames of the last us_input(), freed when the stack must not look again */
    unsigned in_count;
    FILE *log; /* every frame and event is written here */
    void (*fail)(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void *owner;
};

/* Byte number `offset` of what the peer (from_peer) or the stack's application sends. */
uint8_t rig_pattern(int from_peer, uint32_t offset);

void rig_defaults(struct rig *rig);
void rig_start(struct rig *rig);
void rig_free(struct rig *rig);

struct rig_flow *rig_flow(struct rig *rig, unsigned number);

/* Hands n frames to the stack in one us_input() and takes the events. */
struct rig_in {
    uint8_t *bytes; /* from malloc; the rig frees it */
    size_t len;
    u_u32 flags;
};
void rig_input(struct rig *rig, const struct rig_in *in, unsigned n);

/* Takes what the stack wants to send now. */
void rig_output(struct rig *rig);

/*
 * Advances the time to until_us, waking the stack exactly at its deadlines. Stops early, at the
 * moment it happens, once there is an unexpected frame (if on_frame) or an untaken event of a
 * flow (on_event).
 */
void rig_run(struct rig *rig, uint64_t until_us, int on_frame, const struct rig_flow *on_event);

/* The oldest event of the flow that was not taken, or null. */
struct rig_event *rig_event_first(struct rig *rig, const struct rig_flow *flow);
void rig_event_take(struct rig *rig, struct rig_event *event);
const char *rig_event_name(enum us_event_type type);
const char *rig_reason_name(enum us_close_reason reason);

/* Fails unless the stack says that all its invariants hold. */
void rig_check(struct rig *rig);

void rig_describe(const struct rig_out *out, char *text, size_t room);

#endif
