/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One direction of a link: a queue drained at a rate, a delay, and faults. A corrupted frame has
 * one flipped bit that a checksum must detect: behind the Ethernet header of an IPv4 packet, behind
 * the header of an IPv6 packet, never in ARP.
 */
#include "../packet/frame.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { ETH_BYTES = 14, IP6_BYTES = 40, TCP_FRAME_BYTES = 14 + 20 + 20 };

static void arrive(struct sim *sim, void *target, void *detail)
{
    struct link *link = target;
    host_receive(link->to, detail);
}

static int is_ip4(const uint8_t *bytes, size_t len)
{
    return len > ETH_BYTES && bytes[12] == 8 && bytes[13] == 0;
}

/* Where the bytes begin that a checksum covers; the length of the frame if there are none. */
static size_t covered_from(const uint8_t *bytes, size_t len)
{
    if (is_ip4(bytes, len))
        return ETH_BYTES;
    if (len > ETH_BYTES + IP6_BYTES && bytes[12] == 0x86 && bytes[13] == 0xdd)
        return ETH_BYTES + IP6_BYTES;
    return len;
}

/* RFC 3168 section 5: a queue marks ECN-capable packets. */
static void mark(uint8_t *bytes, size_t len)
{
    if (!is_ip4(bytes, len) || (bytes[ETH_BYTES + 1] & 3) == 0)
        return;
    bytes[ETH_BYTES + 1] |= 3;
    frame_fix_checksums(bytes, len);
}

/* The planted faults: an altered byte with a right checksum; a link that goes dead. */
static int canary(struct sim *sim, struct link_frame *frame)
{
    size_t header = ETH_BYTES + 20;
    if (sim->canary == CANARY_SILENCE)
        return sim->frames >= sim->canary_frame;
    if (sim->canary != CANARY_ALTER || sim->frames < sim->canary_frame ||
        !is_ip4(frame->bytes, frame->len) || frame->len < TCP_FRAME_BYTES)
        return 0;
    header += (size_t)(frame->bytes[header + 12] >> 4) * 4;
    if (frame->len < header + 64)
        return 0;
    frame->bytes[frame->len - 1] ^= 1;
    frame_fix_checksums(frame->bytes, frame->len);
    sim->canary_frame = ~0u;
    return 0;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The TCP header of an IPv4 frame, and how much payload follows; null if there is none. */
static uint8_t *tcp_header(uint8_t *bytes, size_t len, size_t *payload)
{
    uint8_t *ip = bytes + ETH_BYTES;
    if (!is_ip4(bytes, len) || len < TCP_FRAME_BYTES || ip[9] != 6)
        return NULL;
    *payload = (size_t)(ip[2] << 8 | ip[3]) - 20 - (size_t)(ip[32] >> 4) * 4;
    return ip + 20;
}

/* Removes options from a SYN. */
static void strip(const struct link_config *c, uint8_t *bytes, size_t len)
{
    size_t payload;
    uint8_t *tcp = tcp_header(bytes, len, &payload);
    if (!tcp || !(tcp[13] & 2))
        return;
    for (size_t at = 20, end = (size_t)(tcp[12] >> 4) * 4; at < end && tcp[at] != 0;) {
        size_t size = tcp[at] == 1 ? 1 : tcp[at + 1];
        if ((tcp[at] == 4 && c->strip_sack) || (tcp[at] == 8 && c->strip_ts))
            memset(tcp + at, 1, size);
        at += size;
    }
    frame_fix_checksums(bytes, len);
}

static void deliver(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len,
                    uint64_t ready_us, int faults, int marked)
{
    const struct link_config *c = &link->config;
    uint64_t at = ready_us + c->delay_us;
    struct link_frame *frame = malloc(sizeof(*frame) + len);
    frame->len = len;
    memcpy(frame->bytes, bytes, len);
    if (marked)
        mark(frame->bytes, len);
    if (c->strip_sack || c->strip_ts)
        strip(c, frame->bytes, len);
    if (c->jitter_us > 0)
        at += sim_between(&sim->random, 0, c->jitter_us);
    if (faults && sim_chance(&sim->random, c->reorder)) {
        at += sim_between(&sim->random, 1, c->reorder_us);
    } else {
        at = at < link->last_arrival_us ? link->last_arrival_us : at;
        link->last_arrival_us = at;
    }
    size_t covered = covered_from(bytes, len);
    if (faults && covered < len && sim_chance(&sim->random, c->corrupt)) {
        uint64_t bit = sim_between(&sim->random, covered * 8, len * 8 - 1);
        frame->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (canary(sim, frame)) {
        free(frame);
        return;
    }
    sim_at(sim, at, arrive, link, frame);
}

static void transmit(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len);

static void send_held(struct sim *sim, struct link *link)
{
    struct link_frame *frame = link->held;
    size_t payload;
    link->held = NULL;
    link->acked = be32(tcp_header(frame->bytes, frame->len, &payload) + 8);
    transmit(sim, link, frame->bytes, frame->len);
    free(frame);
}

static void held_is_due(struct sim *sim, void *target, void *detail)
{
    struct link *link = target;
    if (link->held && link->held_number == (uint64_t)(uintptr_t)detail)
        send_held(sim, link);
}

/*
 * Delayed ACKs of a host that counts bytes, as Linux does (RFC 9293 3.8.6.3): an ACK of a segment
 * or less waits; data, duplicate ACKs and SACK blocks are sent immediately and replace it.
 * Returns whether the frame waits.
 */
static int hold(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len)
{
    enum { SEGMENT_BYTES = 1460, PLAIN_BYTES = 32 };
    size_t payload;
    uint8_t copy[TCP_FRAME_BYTES + 40];
    memcpy(copy, bytes, len < sizeof(copy) ? len : sizeof(copy));
    const uint8_t *tcp = tcp_header(copy, len, &payload);
    if (!tcp)
        return 0;
    uint32_t ack = be32(tcp + 8);
    size_t size;
    uint32_t newest =
        link->held ? be32(tcp_header(link->held->bytes, link->held->len, &size) + 8) : link->acked;
    int waits = payload == 0 && tcp[13] == 0x10 && (tcp[12] >> 4) * 4 <= PLAIN_BYTES &&
                ack != newest && ack - link->acked <= SEGMENT_BYTES;
    if (!waits) {
        free(link->held);
        link->held = NULL;
        link->acked = ack;
        return 0;
    }
    if (!link->held) {
        link->held_number++;
        sim_at(sim, sim->now_us + link->config.ack_delay_us, held_is_due, link,
               (void *)(uintptr_t)link->held_number);
    }
    free(link->held);
    link->held = malloc(sizeof(*link->held) + len);
    link->held->len = len;
    memcpy(link->held->bytes, bytes, len);
    return 1;
}

void link_free(struct sim *sim, struct link *link)
{
    free(link->held);
    link->held = NULL;
    for (size_t i = 0; i < sim->count; i++) {
        struct sim_event *event = &sim->heap[i];
        if (event->run != arrive || event->target != link)
            continue;
        free(event->detail);
        event->detail = NULL;
    }
}

void link_send(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len)
{
    if (link->config.ack_delay_us == 0 || !hold(sim, link, bytes, len))
        transmit(sim, link, bytes, len);
}

static void transmit(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len)
{
    const struct link_config *c = &link->config;
    int faults = sim->now_us < c->faults_end_us;
    sim_trace(sim, link->direction, bytes, len);
    link->sent++;
    uint64_t now_ns = sim->now_us * 1000;
    uint64_t start_ns = link->busy_until_ns > now_ns ? link->busy_until_ns : now_ns;
    uint64_t wire_ns = c->rate_bits ? (uint64_t)len * 8000000000u / c->rate_bits : 0;
    uint64_t waiting = c->rate_bits ? (start_ns - now_ns) / 1000 * c->rate_bits / 8000000 : 0;
    int cut = faults && sim->now_us >= c->cut_from_us && sim->now_us < c->cut_until_us;
    int marked = c->mark_bytes > 0 && waiting > c->mark_bytes;
    int large = c->mtu > 0 && len > c->mtu + ETH_BYTES && sim->now_us >= c->mtu_from_us;
    if (cut || large || waiting + len > c->queue_bytes ||
        (faults && sim_chance(&sim->random, c->loss))) {
        link->lost++;
        return;
    }
    link->busy_until_ns = start_ns + wire_ns;
    uint64_t ready_us = (link->busy_until_ns + 999) / 1000;
    deliver(sim, link, bytes, len, ready_us, faults, marked);
    if (faults && sim_chance(&sim->random, c->duplicate))
        deliver(sim, link, bytes, len, ready_us, faults, marked);
}
