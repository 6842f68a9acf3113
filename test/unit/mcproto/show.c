/* SPDX-License-Identifier: BSD-3-Clause */
/* The outcome of a parser as one line of text. */
#include "show.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *out;
    size_t size;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->out + text->used, text->size - text->used, format, args);
    va_end(args);
    text->used += (size_t)n;
    if (text->used >= text->size)
        text->used = text->size - 1;
}

static void add_bytes(struct text *text, const char *name, const u_u8 *bytes, u_u32 len)
{
    u_u32 i;

    add(text, " %s=", name);
    for (i = 0; i < len; i++)
        add(text, bytes[i] >= ' ' && bytes[i] <= '~' ? "%c" : "\\%02x", bytes[i]);
}

static void add_number(struct text *text, const char *name, u_u64 number)
{
    if (number != 0)
        add(text, " %s=%llu", name, (unsigned long long)number);
}

static void add_signed(struct text *text, const char *name, u_s32 number)
{
    if (number != 0)
        add(text, " %s=%d", name, number);
}

static void add_meta(struct text *text, const struct mc_meta *meta)
{
    static const char *const modes[] = {"set",     "add",  "append", "prepend",
                                        "replace", "incr", "decr"};

    if (meta->order_len > 0)
        add(text, " flags=%.*s", (int)meta->order_len, (const char *)meta->order);
    if (meta->has & MC_META_KEY_BASE64)
        add(text, " decoded");
    if (meta->has & MC_META_MODE)
        add(text, " mode=%s", modes[meta->mode]);
    add_signed(text, "ttl", meta->ttl_s);
    add_signed(text, "vivify", meta->vivify_ttl_s);
    add_signed(text, "recache", meta->recache_ttl_s);
    add_number(text, "client_flags", meta->client_flags);
    add_number(text, "compare", meta->compare_cas);
    add_number(text, "new_cas", meta->new_cas);
    add_number(text, "initial", meta->initial);
    if (meta->delta != 1)
        add(text, " delta=%llu", (unsigned long long)meta->delta);
    if (meta->opaque != NULL)
        add_bytes(text, "opaque", meta->opaque, meta->opaque_len);
}

static void add_fields(struct text *text, const struct mc_request *req)
{
    if (req->key != NULL)
        add_bytes(text, "key", req->key, req->key_len);
    if (req->args_len != 0)
        add_bytes(text, "args", req->args, req->args_len);
    add_number(text, "flags", req->flags);
    add_signed(text, "exptime", req->exptime);
    add_number(text, "bytes", req->value_bytes);
    add_number(text, "cas", req->cas);
    add_number(text, "delta", req->delta);
    add_number(text, "level", req->level);
}

const char *show(enum mc_outcome outcome, const struct mc_request *req, char *out, size_t size)
{
    struct text text = {out, size, 0};

    if (outcome == MC_MORE) {
        add(&text, "more");
        return out;
    }
    add(&text, "%s%s", outcome == MC_MALFORMED ? "malformed " : "", mc_command_name(req->command));
    if (req->noreply)
        add(&text, " noreply");
    add_fields(&text, req);
    if (outcome == MC_REQUEST && mc_command_is_meta(req->command))
        add_meta(&text, &req->meta);
    if (req->error != NULL && req->error_len >= 2 && req->error_len == strlen(req->error))
        add_bytes(&text, "error", (const u_u8 *)req->error, req->error_len - 2);
    add_number(&text, "swallow", req->discard_bytes);
    if (req->close)
        add(&text, " close");
    return out;
}

const char *show_binary(enum mc_outcome outcome, const struct mc_request *req, char *out,
                        size_t size)
{
    struct text text = {out, size, 0};
    const struct mc_binary *binary = &req->binary;

    if (outcome == MC_MORE) {
        add(&text, "more");
        return out;
    }
    add(&text, "%s%s", outcome == MC_MALFORMED ? "malformed " : "", mc_command_name(req->command));
    if (outcome == MC_REQUEST) {
        add(&text, " op=%02x%s%s", binary->opcode, binary->quiet ? " quiet" : "",
            binary->return_key ? " return_key" : "");
        add_fields(&text, req);
        add_number(&text, "exptime", binary->exptime);
        add_number(&text, "compare", binary->cas);
        add_number(&text, "initial", binary->initial);
    }
    if (req->error != NULL && req->error_len > MC_BINARY_HEADER_BYTES)
        add_bytes(&text, "error", binary->error + MC_BINARY_HEADER_BYTES,
                  req->error_len - MC_BINARY_HEADER_BYTES);
    add_number(&text, "swallow", req->discard_bytes);
    if (req->close)
        add(&text, " close");
    return out;
}
