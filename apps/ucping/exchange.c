/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of ucping; see exchange.h. */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/prng.h"

#define MAGIC "ucping1"
#define MAGIC_BYTES 7
#define MODE_AT MAGIC_BYTES
#define TOTAL_AT 8

const char *const exchange_mode_names[MODE_COUNT] = {"ping", "send", "receive"};

/* The pattern twice, so that a slice with any start is contiguous. */
static uint8_t *text;

int exchange_init(void)
{
    struct u_prng prng;
    uint32_t i;

    text = malloc(2 * EXCHANGE_PATTERN_BYTES);
    if (!text)
        return -1;
    u_prng_seed(&prng, 7);
    for (i = 0; i < EXCHANGE_PATTERN_BYTES; i++) {
        text[i] = (uint8_t)u_prng_next(&prng);
        text[i + EXCHANGE_PATTERN_BYTES] = text[i];
    }
    return 0;
}

/* ---- the client's part ------------------------------------------------------------------- */

static bool time_is_up(const struct ping_run *run)
{
    return run->end_ns > 0 && run->now_ns >= run->end_ns;
}

static void next_ping(struct exchange *c)
{
    struct ping_run *run = c->run;

    if (time_is_up(run) || (run->count > 0 && c->pings == run->count)) {
        c->done = true;
        return;
    }
    c->begun_ns = run->now_ns;
    c->due += run->bytes;
}

static void open_client(struct exchange *c)
{
    struct ping_run *run = c->run;
    unsigned i;

    memcpy(c->header, MAGIC, MAGIC_BYTES);
    c->mode = run->mode;
    c->header[MODE_AT] = (uint8_t)exchange_mode_names[run->mode][0];
    for (i = 0; i < 8; i++)
        c->header[TOTAL_AT + i] = (uint8_t)(run->count >> (56 - 8 * i));
    if (c->mode == MODE_PING)
        next_ping(c);
    else if (c->mode == MODE_SEND)
        c->due = run->count > 0 ? run->count : UINT64_MAX;
}

void exchange_open(struct exchange *c, struct ping_run *run)
{
    memset(c, 0, sizeof(*c));
    c->run = run;
    if (run)
        open_client(c);
}

static void client_took(struct exchange *c, uint32_t len)
{
    struct ping_run *run = c->run;

    if (c->mode == MODE_RECEIVE) {
        run->moved += len;
        c->done = time_is_up(run);
        return;
    }
    while (c->taken >= (c->pings + 1) * run->bytes) {
        c->pings++;
        run->rounds++;
        load_histogram_count(&run->latency, run->now_ns - c->begun_ns);
        next_ping(c);
    }
}

/* ---- the server's part ------------------------------------------------------------------- */

/* Parses the complete header. Returns 0 or -1. */
static int read_header(struct exchange *c)
{
    uint64_t total = 0;
    unsigned i;

    for (i = 0; i < 8; i++)
        total = total << 8 | c->header[TOTAL_AT + i];
    for (i = 0; i < MODE_COUNT && exchange_mode_names[i][0] != c->header[MODE_AT]; i++)
        continue;
    if (memcmp(c->header, MAGIC, MAGIC_BYTES) != 0 || i == MODE_COUNT)
        return -1;
    c->mode = (enum mode)i;
    if (c->mode == MODE_RECEIVE)
        c->due = total > 0 ? total : UINT64_MAX;
    return 0;
}

/* ---- both -------------------------------------------------------------------------------- */

const uint8_t *exchange_next(struct exchange *c, uint32_t *len)
{
    uint64_t left = c->due == UINT64_MAX ? UINT64_MAX : c->due - c->sent;

    if (c->run && c->header_at < EXCHANGE_HEADER_BYTES) {
        *len = EXCHANGE_HEADER_BYTES - c->header_at;
        return c->header + c->header_at;
    }
    if (c->run && c->mode == MODE_SEND && (left == 0 || time_is_up(c->run)))
        c->done = true;
    if (!c->run && c->mode == MODE_RECEIVE && left == 0)
        c->done = true;
    if (c->done || left == 0)
        return NULL;
    *len = left < EXCHANGE_PATTERN_BYTES ? (uint32_t)left : EXCHANGE_PATTERN_BYTES;
    return text + c->sent % EXCHANGE_PATTERN_BYTES;
}

void exchange_sent(struct exchange *c, uint32_t len)
{
    if (c->run && c->header_at < EXCHANGE_HEADER_BYTES) {
        c->header_at += len;
        return;
    }
    c->sent += len;
    if (c->run && c->mode == MODE_SEND)
        c->run->moved += len;
}

static int take_text(struct exchange *c, const uint8_t *data, uint32_t len)
{
    uint32_t n;

    while (len > 0) {
        n = u_min32(len, EXCHANGE_PATTERN_BYTES);
        if (memcmp(data, text + c->taken % EXCHANGE_PATTERN_BYTES, n) != 0) {
            if (c->run)
                c->run->mismatch = true;
            return -1;
        }
        c->taken += n;
        if (c->run)
            client_took(c, n);
        else if (c->mode == MODE_PING)
            c->due += n;
        data += n;
        len -= n;
    }
    return 0;
}

int exchange_received(struct exchange *c, const uint8_t *data, uint32_t len)
{
    uint32_t n;

    if (!c->run && c->header_at < EXCHANGE_HEADER_BYTES) {
        n = u_min32(len, EXCHANGE_HEADER_BYTES - c->header_at);
        memcpy(c->header + c->header_at, data, n);
        c->header_at += n;
        data += n;
        len -= n;
        if (c->header_at < EXCHANGE_HEADER_BYTES)
            return 0;
        if (read_header(c) < 0)
            return -1;
    }
    return take_text(c, data, len);
}

int exchange_peer_closed(struct exchange *c)
{
    bool all_received = c->mode == MODE_RECEIVE && c->run && c->taken == c->run->count;
    bool early = c->run && !c->done && !all_received;

    c->done = true;
    return early ? -1 : 0;
}
