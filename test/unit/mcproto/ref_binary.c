/* SPDX-License-Identifier: BSD-3-Clause */
/* A second reader of binary packets, plain and slow. */
#include "ref_binary.h"

#include <string.h>

#include "mcproto/mcproto.h"

/*
 * What each opcode takes: extras, whether a key ('k' must, '?' may, '-' must not), whether a value
 * ('v' may, '-' must not). Those without a command are refused as unknown. -4: none or four.
 */
static const struct {
    int opcode;
    enum mc_command command;
    int extras;
    char key;
    char value;
    int quiet;
    int return_key;
} rows[] = {
    {0x00, MC_CMD_GET, 0, 'k', '-', 0, 0},        {0x09, MC_CMD_GET, 0, 'k', '-', 1, 0},
    {0x0c, MC_CMD_GET, 0, 'k', '-', 0, 1},        {0x0d, MC_CMD_GET, 0, 'k', '-', 1, 1},
    {0x01, MC_CMD_SET, 8, 'k', 'v', 0, 0},        {0x11, MC_CMD_SET, 8, 'k', 'v', 1, 0},
    {0x02, MC_CMD_ADD, 8, 'k', 'v', 0, 0},        {0x12, MC_CMD_ADD, 8, 'k', 'v', 1, 0},
    {0x03, MC_CMD_REPLACE, 8, 'k', 'v', 0, 0},    {0x13, MC_CMD_REPLACE, 8, 'k', 'v', 1, 0},
    {0x04, MC_CMD_DELETE, 0, 'k', '-', 0, 0},     {0x14, MC_CMD_DELETE, 0, 'k', '-', 1, 0},
    {0x05, MC_CMD_INCR, 20, 'k', '-', 0, 0},      {0x15, MC_CMD_INCR, 20, 'k', '-', 1, 0},
    {0x06, MC_CMD_DECR, 20, 'k', '-', 0, 0},      {0x16, MC_CMD_DECR, 20, 'k', '-', 1, 0},
    {0x07, MC_CMD_QUIT, 0, '-', '-', 0, 0},       {0x17, MC_CMD_QUIT, 0, '-', '-', 1, 0},
    {0x08, MC_CMD_FLUSH_ALL, -4, '-', '-', 0, 0}, {0x18, MC_CMD_FLUSH_ALL, -4, '-', '-', 1, 0},
    {0x0a, MC_CMD_NOOP, 0, '-', '-', 0, 0},       {0x0b, MC_CMD_VERSION, 0, '-', '-', 0, 0},
    {0x0e, MC_CMD_APPEND, 0, 'k', 'v', 0, 0},     {0x19, MC_CMD_APPEND, 0, 'k', 'v', 1, 0},
    {0x0f, MC_CMD_PREPEND, 0, 'k', 'v', 0, 0},    {0x1a, MC_CMD_PREPEND, 0, 'k', 'v', 1, 0},
    {0x10, MC_CMD_STATS, 0, '?', '-', 0, 0},      {0x1c, MC_CMD_TOUCH, 4, 'k', '-', 0, 0},
    {0x1d, MC_CMD_GAT, 4, 'k', '-', 0, 0},        {0x1e, MC_CMD_GAT, 4, 'k', '-', 1, 0},
    {0x23, MC_CMD_GAT, 4, 'k', '-', 0, 1},        {0x24, MC_CMD_GAT, 4, 'k', '-', 1, 1},
    {0x20, MC_CMD_NONE, 0, '-', '-', 0, 0},       {0x21, MC_CMD_NONE, 0, 'k', 'v', 0, 0},
    {0x22, MC_CMD_NONE, 0, 'k', 'v', 0, 0},
};

static u_u64 number(const u_u8 *at, int bytes)
{
    u_u64 n = 0;

    while (bytes-- > 0)
        n = n << 8 | *at++;
    return n;
}

static enum mc_outcome refused(struct mc_request *req, const u_u8 *buf, unsigned status,
                               u_u32 discard_bytes, int close)
{
    const char *text = status == 0x81 ? "Unknown command" : "Invalid arguments";
    u_u8 *packet = req->binary.error;

    memset(packet, 0, sizeof req->binary.error);
    packet[0] = 0x81;
    packet[1] = buf[1];
    packet[7] = (u_u8)status;
    packet[11] = (u_u8)strlen(text);
    memcpy(packet + 12, buf + 12, 4);
    memcpy(packet + 24, text, strlen(text));
    req->error = (const char *)packet;
    req->error_len = 24 + (u_u32)strlen(text);
    req->line_bytes = 24;
    req->discard_bytes = discard_bytes;
    req->close = close;
    return MC_MALFORMED;
}

static void extras(struct mc_request *req, const u_u8 *at, u_u32 len)
{
    if (len == 8) {
        req->flags = (u_u32)number(at, 4);
        req->binary.exptime = (u_u32)number(at + 4, 4);
    } else if (len == 20) {
        req->delta = number(at, 8);
        req->binary.initial = number(at + 8, 8);
        req->binary.exptime = (u_u32)number(at + 16, 4);
    } else if (len == 4) {
        req->binary.exptime = (u_u32)number(at, 4);
    }
}

static enum mc_outcome accepted(size_t i, const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    u_u32 key_len = (u_u32)number(buf + 2, 2);
    u_u32 extras_len = buf[4];
    const u_u8 *key = buf + 24 + extras_len;

    if (len < 24 + extras_len + key_len)
        return MC_MORE;
    req->command = rows[i].command;
    req->line_bytes = 24 + extras_len + key_len;
    req->value_bytes = (u_u32)number(buf + 8, 4) - extras_len - key_len;
    req->binary.opcode = buf[1];
    req->binary.quiet = (u_u8)rows[i].quiet;
    req->binary.return_key = (u_u8)rows[i].return_key;
    memcpy(req->binary.opaque, buf + 12, 4);
    req->binary.cas = number(buf + 16, 8);
    extras(req, buf + 24, extras_len);
    if (rows[i].key == 'k') {
        req->key = key;
        req->key_len = key_len;
    }
    if (req->command == MC_CMD_GET || req->command == MC_CMD_GAT || req->command == MC_CMD_STATS) {
        req->args = key;
        req->args_len = key_len;
    }
    return MC_REQUEST;
}

enum mc_outcome ref_parse_binary(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    u_u32 key_len, extras_len, body_len, value_len;
    size_t i;

    memset(req, 0, sizeof *req);
    if (len > 0 && buf[0] != 0x80) {
        req->line_bytes = 1;
        req->close = 1;
        return MC_MALFORMED;
    }
    if (len < 24)
        return MC_MORE;
    key_len = (u_u32)number(buf + 2, 2);
    extras_len = buf[4];
    body_len = (u_u32)number(buf + 8, 4);
    if (body_len > 1u << 30)
        return refused(req, buf, 0x04, 0, 1);
    if (key_len + extras_len > body_len)
        return refused(req, buf, 0x81, 0, 1);
    if (key_len > 250)
        return refused(req, buf, 0x04, 0, 1);
    value_len = body_len - key_len - extras_len;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fits;
        if (rows[i].opcode != buf[1])
            continue;
        fits = rows[i].extras == (int)extras_len ||
               (rows[i].extras == -4 && (extras_len == 0 || extras_len == 4));
        fits &= rows[i].key == '?' || (rows[i].key == 'k') == (key_len > 0);
        fits &= rows[i].value == 'v' || value_len == 0;
        if (!fits)
            return refused(req, buf, 0x04, 0, 1);
        if (rows[i].command == MC_CMD_NONE)
            break;
        return accepted(i, buf, len, req);
    }
    return refused(req, buf, 0x81, body_len, 0);
}

int ref_binary_same(enum mc_outcome outcome, const struct mc_request *a, const struct mc_request *b)
{
    const struct mc_binary *x = &a->binary;
    const struct mc_binary *y = &b->binary;
    int same = a->command == b->command && a->line_bytes == b->line_bytes &&
               a->noreply == b->noreply && a->key == b->key && a->key_len == b->key_len &&
               a->args == b->args && a->args_len == b->args_len && a->flags == b->flags &&
               a->exptime == b->exptime && a->value_bytes == b->value_bytes && a->cas == b->cas &&
               a->delta == b->delta && a->level == b->level && a->error_len == b->error_len &&
               a->discard_bytes == b->discard_bytes && a->close == b->close;

    if (!same || (a->error == NULL) != (b->error == NULL))
        return 0;
    if (outcome != MC_REQUEST)
        return a->error == NULL || memcmp(a->error, b->error, a->error_len) == 0;
    return x->opcode == y->opcode && x->quiet == y->quiet && x->return_key == y->return_key &&
           memcmp(x->opaque, y->opaque, 4) == 0 && x->exptime == y->exptime && x->cas == y->cas &&
           x->initial == y->initial;
}
