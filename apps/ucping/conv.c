/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said on one connection; see conv.h. */
#include "conv.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/prng.h"

#define MAGIC "ucping1"
#define MAGIC_BYTES 7
#define MODE_AT MAGIC_BYTES
#define TOTAL_AT 8

/* Twice the text, so that a slice of any beginning is in one piece. */
static uint8_t *text;

int conv_start(void)
{
    struct u_prng prng;
    uint32_t i;

    text = malloc(2 * CONV_TEXT_BYTES);
    if (!text)
        return -1;
    u_prng_seed(&prng, 7);
    for (i = 0; i < CONV_TEXT_BYTES; i++) {
        text[i] = (uint8_t)u_prng_next(&prng);
        text[i + CONV_TEXT_BYTES] = text[i];
    }
    return 0;
}

/* ---- the client's part ------------------------------------------------------------------- */

static bool time_is_up(const struct game *game)
{
    return game->end_ns > 0 && game->now_ns >= game->end_ns;
}

static void next_ping(struct conv *c)
{
    struct game *game = c->game;

    if (time_is_up(game) || (game->count > 0 && c->pings == game->count)) {
        c->over = true;
        return;
    }
    c->begun_ns = game->now_ns;
    c->due += game->bytes;
}

static void open_client(struct conv *c)
{
    struct game *game = c->game;
    unsigned i;

    memcpy(c->header, MAGIC, MAGIC_BYTES);
    c->mode = game->mode;
    c->header[MODE_AT] = (uint8_t)game->mode;
    for (i = 0; i < 8; i++)
        c->header[TOTAL_AT + i] = (uint8_t)(game->count >> (56 - 8 * i));
    if (c->mode == MODE_PING)
        next_ping(c);
    else if (c->mode == MODE_SEND)
        c->due = game->count > 0 ? game->count : UINT64_MAX;
}

void conv_open(struct conv *c, struct game *game)
{
    memset(c, 0, sizeof(*c));
    c->game = game;
    if (game)
        open_client(c);
}

static void client_took(struct conv *c, uint32_t len)
{
    struct game *game = c->game;

    if (c->mode == MODE_RECEIVE) {
        game->moved += len;
        c->over = time_is_up(game);
        return;
    }
    while (c->taken >= (c->pings + 1) * game->bytes) {
        c->pings++;
        game->rounds++;
        load_histogram_count(&game->latency, game->now_ns - c->begun_ns);
        next_ping(c);
    }
}

/* ---- the server's part ------------------------------------------------------------------- */

/* The header is complete: what the client wants. */
static int read_header(struct conv *c)
{
    uint64_t total = 0;
    unsigned i;

    for (i = 0; i < 8; i++)
        total = total << 8 | c->header[TOTAL_AT + i];
    c->mode = (enum mode)c->header[MODE_AT];
    if (memcmp(c->header, MAGIC, MAGIC_BYTES) != 0 ||
        (c->mode != MODE_PING && c->mode != MODE_SEND && c->mode != MODE_RECEIVE))
        return -1;
    if (c->mode == MODE_RECEIVE)
        c->due = total > 0 ? total : UINT64_MAX;
    return 0;
}

/* ---- both -------------------------------------------------------------------------------- */

const uint8_t *conv_next(struct conv *c, uint32_t *len)
{
    uint64_t left = c->due == UINT64_MAX ? UINT64_MAX : c->due - c->sent;

    if (c->game && c->header_at < CONV_HEADER_BYTES) {
        *len = CONV_HEADER_BYTES - c->header_at;
        return c->header + c->header_at;
    }
    if (c->game && c->mode == MODE_SEND && (left == 0 || time_is_up(c->game)))
        c->over = true;
    if (!c->game && c->mode == MODE_RECEIVE && left == 0)
        c->over = true;
    if (c->over || left == 0)
        return NULL;
    *len = left < CONV_TEXT_BYTES ? (uint32_t)left : CONV_TEXT_BYTES;
    return text + c->sent % CONV_TEXT_BYTES;
}

void conv_sent(struct conv *c, uint32_t len)
{
    if (c->game && c->header_at < CONV_HEADER_BYTES) {
        c->header_at += len;
        return;
    }
    c->sent += len;
    if (c->game && c->mode == MODE_SEND)
        c->game->moved += len;
}

static int take_text(struct conv *c, const uint8_t *data, uint32_t len)
{
    uint32_t n;

    while (len > 0) {
        n = u_min32(len, CONV_TEXT_BYTES);
        if (memcmp(data, text + c->taken % CONV_TEXT_BYTES, n) != 0) {
            if (c->game)
                c->game->wrong = true;
            return -1;
        }
        c->taken += n;
        if (c->game)
            client_took(c, n);
        else if (c->mode == MODE_PING)
            c->due += n;
        data += n;
        len -= n;
    }
    return 0;
}

int conv_take(struct conv *c, const uint8_t *data, uint32_t len)
{
    uint32_t n;

    if (!c->game && c->header_at < CONV_HEADER_BYTES) {
        n = u_min32(len, CONV_HEADER_BYTES - c->header_at);
        memcpy(c->header + c->header_at, data, n);
        c->header_at += n;
        data += n;
        len -= n;
        if (c->header_at < CONV_HEADER_BYTES)
            return 0;
        if (read_header(c) < 0)
            return -1;
    }
    return take_text(c, data, len);
}

void conv_peer_done(struct conv *c)
{
    c->over = true;
}
