/* SPDX-License-Identifier: BSD-3-Clause */
/* An outcome of mc_parse() as one line of text. */
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
    if (req->key != NULL)
        add_bytes(&text, "key", req->key, req->key_len);
    if (req->args_len != 0)
        add_bytes(&text, "args", req->args, req->args_len);
    add_number(&text, "flags", req->flags);
    if (req->exptime != 0)
        add(&text, " exptime=%d", req->exptime);
    add_number(&text, "bytes", req->value_bytes);
    add_number(&text, "cas", req->cas);
    add_number(&text, "delta", req->delta);
    add_number(&text, "level", req->level);
    if (req->error != NULL && req->error_len >= 2 && req->error_len == strlen(req->error))
        add_bytes(&text, "error", (const u_u8 *)req->error, req->error_len - 2);
    add_number(&text, "swallow", req->swallow_bytes);
    if (req->close)
        add(&text, " close");
    return out;
}
