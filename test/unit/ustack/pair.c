/* SPDX-License-Identifier: BSD-3-Clause */
/* Two stacks on one wire; see pair.h. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int use_ip6;

void pair_use_ip6(int yes)
{
    use_ip6 = yes;
}

struct us_addr pair_addr(int host)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    if (use_ip6) {
        addr.family = US_IP6;
        addr.bytes[0] = 0xfd;
        addr.bytes[15] = (u_u8)(host + 1);
        return addr;
    }
    addr.family = US_IP4;
    addr.bytes[0] = 10;
    addr.bytes[3] = (u_u8)(host + 1);
    return addr;
}

void pair_config(struct us_config *config, int host)
{
    us_config_defaults(config);
    config->rto_min_us = 200000;
    config->delayed_ack_us = 40000;
    config->quick_acks = 0;
    config->cc = US_CC_RENO;
    memset(config->mac, 0, sizeof(config->mac));
    config->mac[0] = 2;
    config->mac[5] = (u_u8)(host + 1);
    memset(config->secret, 0x5a + host, sizeof(config->secret));
    config->conn_max = 64;
    config->half_open_max = 32;
    config->time_wait_max = 64;
    config->neighbour_max = 4;
    config->listen_max = 4;
    config->buffer_bytes = 1u << 20;
}

static void host_open(struct pair_host *host, const struct us_config *config, int index,
                      u_u64 now_us)
{
    struct us_config own;
    struct us_addr addr = pair_addr(index);

    if (config != NULL) {
        own = *config;
        own.mac[5] = (u_u8)(index + 1);
        own.secret[0] = (u_u8)(own.secret[0] + index);
    } else {
        pair_config(&own, index);
    }
    host->memory_bytes = us_memory_bytes(&own);
    assert_true(host->memory_bytes > 0);
    host->memory = calloc(1, host->memory_bytes);
    host->stack = us_create(&own, host->memory, host->memory_bytes, now_us);
    assert_non_null(host->stack);
    host->ring = calloc(PAIR_FLIGHT_MAX, sizeof(*host->ring));
    assert_int_equal(us_addr_add(host->stack, &addr, use_ip6 ? 64 : 24), 0);
}

void pair_open(struct pair *pair, const struct us_config *config)
{
    memset(pair, 0, sizeof(*pair));
    pair->now_us = 1000000;
    pair->delay_us = 50;
    pair->check = 1;
    host_open(&pair->host[0], config, 0, pair->now_us);
    host_open(&pair->host[1], config, 1, pair->now_us);
    if (use_ip6) {
        pair_run(pair, pair->now_us + 2 * 1000 * 1000);
        pair->frames = 0;
        pair->steps = 0;
    }
}

void pair_close(struct pair *pair)
{
    int i;

    for (i = 0; i < 2; i++) {
        free(pair->host[i].memory);
        free(pair->host[i].ring);
    }
}

/* Hands the frames that have arrived to the stack and its events to the application. */
static void host_input(struct pair *pair, struct pair_host *host)
{
    struct us_pkt pkts[PAIR_BURST];
    struct us_pkt *list[PAIR_BURST];
    struct us_event event;
    unsigned n = 0;
    unsigned done = 0;

    while (n < PAIR_BURST && host->head + n != host->tail) {
        struct pair_frame *frame = &host->ring[(host->head + n) % PAIR_FLIGHT_MAX];
        if (frame->arrives_us > pair->now_us)
            break;
        memset(&pkts[n], 0, sizeof(pkts[n]));
        pkts[n].data = frame->bytes;
        pkts[n].len = frame->len;
        list[n] = &pkts[n];
        n++;
    }
    do {
        done += us_input(host->stack, list + done, n - done, pair->now_us);
        while (us_next_event(host->stack, &event))
            host->on_event(host, &event);
    } while (done < n);
    host->head += n;
}

/* Whether the wire swallows this frame. */
static int wire_loses(struct pair *pair, const u_u8 *bytes)
{
    if (pair->partitioned)
        return 1;
    if (!(bytes[12] == 8 && bytes[13] == 0) && !(bytes[12] == 0x86 && bytes[20] == 6))
        return 0;
    pair->frames++;
    if (pair->lose_percent != 0 && u_prng_below(&pair->prng, 100) < pair->lose_percent)
        return 1;
    return pair->lose_every != 0 && pair->frames % pair->lose_every == 0;
}

static void host_output(struct pair *pair, struct pair_host *host, struct pair_host *peer)
{
    static u_u8 buffers[PAIR_BURST][PAIR_FRAME_BYTES];
    struct us_pkt pkts[PAIR_BURST];
    struct us_pkt *list[PAIR_BURST];
    unsigned n;
    unsigned i;

    do {
        for (i = 0; i < PAIR_BURST; i++) {
            memset(&pkts[i], 0xa5, sizeof(pkts[i]));
            pkts[i].data = buffers[i];
            pkts[i].room = PAIR_FRAME_BYTES;
            list[i] = &pkts[i];
        }
        n = us_output(host->stack, list, PAIR_BURST, pair->now_us);
        for (i = 0; i < n; i++) {
            struct pair_frame *frame = &peer->ring[peer->tail % PAIR_FLIGHT_MAX];
            if (wire_loses(pair, list[i]->data))
                continue;
            assert_true(peer->tail - peer->head < PAIR_FLIGHT_MAX);
            memcpy(frame->bytes, list[i]->data, list[i]->len);
            frame->len = list[i]->len;
            frame->arrives_us = pair->now_us + pair->delay_us;
            peer->tail++;
        }
    } while (n == PAIR_BURST);
}

static u_u64 host_next_us(const struct pair_host *host)
{
    u_u64 next_us = us_deadline(host->stack);

    if (host->head != host->tail) {
        u_u64 arrives_us = host->ring[host->head % PAIR_FLIGHT_MAX].arrives_us;
        if (arrives_us < next_us)
            next_us = arrives_us;
    }
    return next_us;
}

static void host_check(const struct pair_host *host)
{
    const char *broken = us_check(host->stack);

    if (broken != NULL)
        fail_msg("us_check: %s", broken);
}

void pair_run(struct pair *pair, u_u64 until_us)
{
    for (;;) {
        u_u64 next_us;
        int i;

        for (i = 0; i < 2; i++) {
            struct pair_host *host = &pair->host[i];
            host_input(pair, host);
            if (host->on_idle != NULL)
                host->on_idle(host);
            if (pair->check)
                host_check(host);
            host_output(pair, host, &pair->host[1 - i]);
            if (pair->check)
                host_check(host);
        }
        pair->steps++;
        next_us = host_next_us(&pair->host[0]);
        if (host_next_us(&pair->host[1]) < next_us)
            next_us = host_next_us(&pair->host[1]);
        if (next_us > until_us)
            break;
        if (next_us > pair->now_us)
            pair->now_us = next_us;
    }
    if (until_us != US_NEVER)
        pair->now_us = until_us;
}

u_u64 pair_counter(const struct us_stack *stack, const char *name)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++)
        if (strcmp(us_counter_name(i), name) == 0)
            return us_counter(stack, i);
    fail_msg("no counter %s", name);
    return 0;
}
