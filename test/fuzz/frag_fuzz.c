/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the reassembly of IPv4. The input chooses the fragments of sixteen UDP datagrams, their
 * order and flags, and the time between them. The payload follows from datagram and offset. The
 * oracle: only complete, correct datagrams are delivered, and all invariants of the instance hold.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ustack/ustack.h"

enum { IDENTS = 16, ETH_BYTES = 14, IP_BYTES = 20, UDP_BYTES = 8, PIECE_MAX = 1480, PORT = 7 };

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[6] = {2, 0, 0, 0, 0, 2};

static void check(int holds)
{
    if (!holds)
        abort();
}

static void put16(uint8_t *to, unsigned value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

/* Bytes of a datagram, its UDP header included. */
static unsigned total_of(unsigned ident)
{
    return UDP_BYTES + 1 + ident * ident * 17;
}

static uint8_t byte_of(unsigned ident, unsigned at)
{
    const unsigned header[UDP_BYTES] = {0, 9, 0, PORT, total_of(ident) >> 8, total_of(ident), 0, 0};

    return (uint8_t)(at < UDP_BYTES ? header[at] : ident * 31 + at * 7 + (at >> 8));
}

static void put_ip_header(uint8_t *ip, unsigned ident, unsigned bytes, unsigned fragment)
{
    static const uint8_t addresses[8] = {10, 0, 0, 2, 10, 0, 0, 1};
    unsigned long sum = 0;

    memset(ip, 0, IP_BYTES);
    ip[0] = 0x45;
    put16(ip + 2, IP_BYTES + bytes);
    put16(ip + 4, ident);
    put16(ip + 6, fragment);
    ip[8] = 64;
    ip[9] = 17;
    memcpy(ip + 12, addresses, sizeof(addresses));
    for (unsigned i = 0; i < IP_BYTES; i += 2)
        sum += (unsigned)ip[i] << 8 | ip[i + 1];
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 10, (unsigned)~sum & 0xffff);
}

static void take_events(struct us_stack *stack)
{
    struct us_event event;

    while (us_next_event(stack, &event)) {
        unsigned ident = 0;

        check(event.type == US_EV_DATAGRAM);
        while (ident < IDENTS && total_of(ident) != event.len + UDP_BYTES)
            ident++;
        check(ident < IDENTS);
        for (unsigned i = 0; i < event.len; i++)
            check(event.data[i] == byte_of(ident, UDP_BYTES + i));
    }
}

static void arrive(struct us_stack *stack, const uint8_t op[4], u_u64 now_us)
{
    static uint8_t frame[ETH_BYTES + IP_BYTES + PIECE_MAX];
    struct us_pkt pkt;
    struct us_pkt *pkts = &pkt;
    unsigned ident = op[0] % IDENTS;
    unsigned units = op[1] | (op[0] & 0x10u) << 4;
    unsigned bytes = (op[2] * 8u + op[3] % 8u) % PIECE_MAX;
    unsigned more = op[3] & 0x80u ? (op[3] & 0x40u) != 0 : units * 8 + bytes < total_of(ident);

    memcpy(frame, our_mac, 6);
    memcpy(frame + 6, peer_mac, 6);
    put16(frame + 12, 0x0800);
    put_ip_header(frame + ETH_BYTES, ident, bytes, units | more << 13);
    for (unsigned i = 0; i < bytes; i++)
        frame[ETH_BYTES + IP_BYTES + i] = byte_of(ident, units * 8 + i);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = frame;
    pkt.len = ETH_BYTES + IP_BYTES + bytes;
    pkt.room = sizeof(frame);
    us_input(stack, &pkts, 1, now_us);
    take_events(stack);
    check(us_check(stack) == NULL);
}

static void drain(struct us_stack *stack, u_u64 now_us)
{
    static uint8_t frame[2048];
    struct us_pkt pkt;
    struct us_pkt *pkts = &pkt;

    do {
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = frame;
        pkt.room = sizeof(frame);
    } while (us_output(stack, &pkts, 1, now_us) == 1);
}

static struct us_stack *make(void)
{
    static void *memory;
    static unsigned long bytes;
    static const struct us_addr addr = {US_IP4, {10, 0, 0, 1}};
    struct us_config config;
    struct us_stack *stack;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    memcpy(config.mac, our_mac, sizeof(our_mac));
    config.conn_max = 1;
    config.half_open_max = 1;
    config.time_wait_max = 1;
    config.buffer_bytes = 64 * 1024;
    config.reassembly_max = 4;
    if (memory == NULL) {
        bytes = us_memory_bytes(&config);
        memory = malloc(bytes);
    }
    check(memory != NULL && bytes != 0);
    memset(memory, 0, bytes);
    stack = us_create(&config, memory, bytes, 0);
    check(stack != NULL && us_addr_add(stack, &addr, 24) == 0);
    check(us_udp_bind(stack, PORT, NULL) == 0);
    return stack;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each operation is four bytes; bit 5 of the fourth lets two seconds pass before it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct us_stack *stack = make();
    u_u64 now_us = 0;

    for (size_t at = 0; at + 4 <= size; at += 4) {
        now_us += (data[at + 3] & 0x20) != 0 ? 2000000 : 10;
        arrive(stack, data + at, now_us);
        drain(stack, now_us);
    }
    return 0;
}
