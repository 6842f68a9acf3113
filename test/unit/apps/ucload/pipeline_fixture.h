/* SPDX-License-Identifier: BSD-3-Clause */
/* One pipeline with its keys and templates, for the tests of requests and replies. */
#ifndef PIPELINE_FIXTURE_H
#define PIPELINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline.h"

static struct keyspace keys;
static struct templates templates;
static struct load_histogram latency[OP_COUNT];
static struct thread_ctx ctx;
static struct pipeline s;

static void open_sized(enum protocol protocol, const char *key_size, const char *value_size,
                       uint32_t multi)
{
    char error[LOAD_ERROR_MAX];

    assert_int_equal(keyspace_open(&keys, 1000, key_size, value_size, error), 0);
    assert_int_equal(templates_open(&templates, protocol, &keys, 0), 0);
    memset(&ctx, 0, sizeof(ctx));
    for (unsigned op = 0; op < OP_COUNT; op++)
        load_histogram_clear(&latency[op]);
    ctx.templates = &templates;
    ctx.keys = &keys;
    ctx.verify = true;
    ctx.latency = latency;
    ctx.now_ns = 1000;
    assert_int_equal(pipeline_open(&s, &ctx, 4, multi), 0);
}

static void open_with(enum protocol protocol, const char *value_size, uint32_t multi)
{
    open_sized(protocol, "8", value_size, multi);
}

static void close_all(void)
{
    pipeline_close(&s);
    templates_close(&templates);
    keyspace_close(&keys);
}

/* Writes the request for these keys in parts of `room` bytes. */
static uint32_t write_request(enum op op, const uint64_t *ids, uint32_t n, uint8_t *out,
                              uint32_t room)
{
    uint8_t piece[TEMPLATE_ROOM + 64];
    uint32_t used, total = 0;

    pipeline_begin(&s, op, ids, n, 400);
    while (s.step != WRITE_IDLE) {
        used = pipeline_write(&s, piece, room);
        if (used == 0)
            used = pipeline_write(&s, piece, TEMPLATE_ROOM);
        assert_true(used > 0);
        memcpy(out + total, piece, used);
        total += used;
    }
    return total;
}

/* Receives a reply in two parts, split at `cut`. */
static int feed_cut(const uint8_t *reply, uint32_t len, uint32_t cut)
{
    if (cut > 0 && pipeline_receive(&s, reply, cut) < 0)
        return -1;
    return cut < len ? pipeline_receive(&s, reply + cut, len - cut) : 0;
}

#endif
