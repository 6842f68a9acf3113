/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes connections between two stacks. The input says what the applications do, what happens to
 * each frame on its way, and how time passes; then the network heals and both sides close.
 *
 * The oracle: each side gets the other's bytes in order, exactly once and unaltered; every
 * connection ends with one CLOSED; us_check() finds nothing; and unless one side aborted, all that
 * was sent has arrived.
 */
#include "ustack/ustack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_MAX = 700, CABLE_MAX = 64, SEND_MAX = 3000, PORT = 7 };

struct frame {
    unsigned len;
    uint8_t bytes[FRAME_MAX];
};

struct side {
    struct us_stack *stack;
    struct us_conn *conn;
    struct frame cable[CABLE_MAX]; /* what this side has sent and the other has not got yet */
    unsigned frames;
    uint32_t sent, got; /* bytes of the stream */
    int keeps;          /* gives half of what it gets back */
    int connected, closing, closed, peer_closed;
    enum us_close_reason reason;
};

struct world {
    struct side sides[2];
    uint64_t now_us;
    int gave_up; /* one side aborted, or the network was too bad for too long */
};

static void check(int holds)
{
    if (!holds)
        abort();
}

static uint8_t byte_at(unsigned side, uint32_t offset)
{
    return (uint8_t)(offset * 13 + (offset >> 8) * 5 + side * 101);
}

static void on_data(struct world *w, unsigned s, const struct us_event *event)
{
    struct side *side = &w->sides[s];
    uint32_t keep = side->keeps ? event->len / 2 : 0;

    check(event->len > 0 && !side->peer_closed);
    for (uint32_t i = 0; i < event->len - keep; i++)
        check(event->data[i] == byte_at(!s, side->got + i));
    side->got += event->len - keep;
    check(side->got <= w->sides[!s].sent);
    if (keep > 0 &&
        us_recv_keep(side->stack, side->conn, event->data + event->len - keep, keep) != 0)
        w->gave_up = 1;
}

static void drain(struct world *w, unsigned s)
{
    struct side *side = &w->sides[s];
    struct us_event event;

    while (us_next_event(side->stack, &event)) {
        switch (event.type) {
        case US_EV_ACCEPTED:
            check(s == 1);
            if (side->conn == NULL)
                side->conn = event.conn;
            else
                us_abort(side->stack, event.conn); /* of an attempt that was given up */
            side->connected |= side->conn == event.conn;
            break;
        case US_EV_CONNECTED:
            side->connected = 1;
            break;
        case US_EV_DATA:
            if (event.conn == side->conn)
                on_data(w, s, &event);
            break;
        case US_EV_PEER_CLOSED:
            side->peer_closed |= event.conn == side->conn;
            break;
        case US_EV_CLOSED:
            check(event.reason != US_CLOSE_NONE);
            if (event.conn != side->conn)
                break;
            check(!side->closed);
            side->closed = 1;
            side->conn = NULL;
            side->reason = event.reason;
            w->gave_up |= event.reason != US_CLOSE_NORMAL;
            break;
        case US_EV_CWND:
        case US_EV_NONE:
        case US_EV_SENDABLE:
        case US_EV_RELEASED:
        case US_EV_DATAGRAM:
            break;
        }
    }
    check(us_check(side->stack) == NULL);
}

/* Lets a side send what it wants to, as far as the cable holds it; the rest is lost. */
static void output(struct world *w, unsigned s)
{
    static uint8_t room[FRAME_MAX];
    struct side *side = &w->sides[s];
    struct us_pkt pkt;
    struct us_pkt *ptr = &pkt;

    for (unsigned i = 0; i < 2 * CABLE_MAX; i++) {
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = room;
        pkt.room = sizeof(room);
        if (us_output(side->stack, &ptr, 1, w->now_us) == 0)
            break;
        if (side->frames < CABLE_MAX) {
            struct frame *frame = &side->cable[side->frames++];
            frame->len = pkt.len;
            memcpy(frame->bytes, room, pkt.len);
        }
    }
    drain(w, s);
}

static void input(struct world *w, unsigned s, const struct frame *frame)
{
    struct us_pkt pkt;
    struct us_pkt *ptr = &pkt;
    uint8_t *copy = malloc(FRAME_MAX);

    memset(&pkt, 0, sizeof(pkt));
    if (frame != NULL) {
        memcpy(copy, frame->bytes, frame->len);
        pkt.data = copy;
        pkt.len = frame->len;
    }
    if (frame == NULL)
        (void)us_input(w->sides[s].stack, NULL, 0, w->now_us);
    else
        while (us_input(w->sides[s].stack, &ptr, 1, w->now_us) == 0)
            drain(w, s);
    drain(w, s);
    free(copy);
    output(w, s);
}

/* Takes a frame off the cable. */
static struct frame unplug(struct side *side, unsigned index)
{
    struct frame frame = side->cable[index];

    memmove(side->cable + index, side->cable + index + 1,
            (side->frames - index - 1) * sizeof(frame));
    side->frames--;
    return frame;
}

enum fate { FATE_ARRIVE, FATE_LOSE, FATE_TWICE, FATE_BEND };

static void frame_fate(struct world *w, unsigned s, enum fate fate, unsigned detail)
{
    struct side *side = &w->sides[s];
    struct frame frame;

    if (side->frames == 0)
        return;
    frame = unplug(side, fate == FATE_ARRIVE ? detail % 4 % side->frames : 0);
    if (fate == FATE_LOSE)
        return;
    /* Not ARP, which has no checksum; nor Ethernet addresses, which no check here covers. */
    if (fate == FATE_BEND && frame.bytes[12] == 8 && frame.bytes[13] == 0)
        frame.bytes[14 + detail * 7 % (frame.len - 14)] ^= (uint8_t)(1u << detail % 8);
    input(w, !s, &frame);
    if (fate == FATE_TWICE)
        input(w, !s, &frame);
}

static void say(struct world *w, unsigned s, unsigned len)
{
    struct side *side = &w->sides[s];
    uint8_t bytes[SEND_MAX];
    long taken;

    if (side->conn == NULL || !side->connected || side->closing)
        return;
    for (uint32_t i = 0; i < len; i++)
        bytes[i] = byte_at(s, side->sent + i);
    taken = us_send(side->stack, side->conn, bytes, len);
    check(taken <= (long)len);
    if (taken > 0)
        side->sent += (uint32_t)taken;
    output(w, s);
}

static void call(struct world *w, unsigned s, unsigned what)
{
    struct side *side = &w->sides[s];

    if (side->conn == NULL || !side->connected)
        return;
    if (what % 4 == 0) {
        side->closing = 1;
        (void)us_close(side->stack, side->conn);
    } else if (what == 13) {
        w->gave_up = 1;
        us_abort(side->stack, side->conn);
    } else if (what % 4 == 1) {
        side->keeps = !side->keeps;
    } else {
        us_recv_resume(side->stack, side->conn);
    }
    output(w, s);
}

static void pass_time(struct world *w, unsigned how, unsigned amount)
{
    uint64_t first = us_deadline(w->sides[0].stack);
    uint64_t second = us_deadline(w->sides[1].stack);
    uint64_t next = first < second ? first : second;

    if (how == 0 && next != US_NEVER && next > w->now_us)
        w->now_us = next;
    else
        w->now_us += (uint64_t)amount << (how % 16);
    for (unsigned s = 0; s < 2; s++)
        input(w, s, NULL);
}

static void run_op(struct world *w, unsigned op, unsigned detail)
{
    unsigned s = op >> 7;

    switch (op & 7) {
    case 0:
        say(w, s, detail * 12u % SEND_MAX);
        break;
    case 1:
        call(w, s, detail);
        break;
    case 2:
        frame_fate(w, s, FATE_LOSE, detail);
        break;
    case 3:
        frame_fate(w, s, detail & 1 ? FATE_TWICE : FATE_BEND, detail);
        break;
    case 4:
        pass_time(w, op >> 3 & 15, detail);
        break;
    default:
        frame_fate(w, s, FATE_ARRIVE, detail);
        break;
    }
}

/* The network is perfect from now on, and both sides close. */
static void heal(struct world *w)
{
    for (unsigned s = 0; s < 2; s++)
        w->sides[s].keeps = 0;
    for (unsigned turn = 0; turn < 20000; turn++) {
        for (unsigned s = 0; s < 2; s++) {
            struct side *side = &w->sides[s];
            if (side->conn != NULL && side->connected) {
                us_recv_resume(side->stack, side->conn);
                drain(w, s);
            }
            if (side->conn != NULL && side->connected && !side->closing) {
                side->closing = 1;
                (void)us_close(side->stack, side->conn);
            }
            output(w, s);
        }
        if (w->sides[0].frames > 0 || w->sides[1].frames > 0) {
            frame_fate(w, 0, FATE_ARRIVE, 0);
            frame_fate(w, 1, FATE_ARRIVE, 0);
        } else if (w->sides[0].closed && (w->sides[1].closed || w->sides[1].conn == NULL)) {
            return;
        } else {
            pass_time(w, 0, 1000);
        }
    }
    abort(); /* it never came to an end */
}

static void start(struct world *w, unsigned s, unsigned mtu)
{
    static void *memory[2];
    static unsigned long room[2];
    struct us_addr addr = {US_IP4, {10, 0, 0, 0}};
    struct us_config config;
    unsigned long bytes;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    config.mac[0] = 2;
    config.mac[5] = (u_u8)s;
    memset(config.secret, (int)s + 1, sizeof(config.secret));
    config.mtu = mtu;
    config.conn_max = 3;
    config.half_open_max = 2;
    config.syn_cookies = 0;
    config.time_wait_max = 2;
    config.buffer_bytes = 96 * 1024;
    config.send_queue_bytes = 8 * 1024;
    config.recv_window_bytes = 8 * 1024;
    config.fin_wait2_us = 600u * 1000 * 1000;
    bytes = us_memory_bytes(&config);
    if (room[s] < bytes) {
        free(memory[s]);
        memory[s] = malloc(bytes);
        room[s] = bytes;
    }
    memset(memory[s], 0, bytes);
    w->sides[s].stack = us_create(&config, memory[s], bytes, w->now_us);
    addr.bytes[3] = (u_u8)(s + 1);
    check(w->sides[s].stack != NULL && us_addr_add(w->sides[s].stack, &addr, 24) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct us_addr to = {US_IP4, {10, 0, 0, 2}};

    memset(&w, 0, sizeof(w));
    w.now_us = 1000000;
    start(&w, 0, 576);
    start(&w, 1, 600);
    check(us_listen(w.sides[1].stack, PORT, NULL) == 0);
    w.sides[0].conn = us_connect(w.sides[0].stack, &to, PORT, 0, NULL, NULL);
    check(w.sides[0].conn != NULL);
    for (unsigned s = 0; s < 2; s++)
        output(&w, s);
    for (; size >= 2; data += 2, size -= 2)
        run_op(&w, data[0], data[1]);
    heal(&w);
    if (!w.gave_up)
        for (unsigned s = 0; s < 2; s++)
            check(w.sides[s].got == w.sides[!s].sent && w.sides[s].peer_closed);
    return 0;
}
