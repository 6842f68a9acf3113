/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of parsing a short request and of writing its reply, with a value of 8 bytes.
 *
 *   bench/mcproto_cost get|gets|set|mg|ms|binary_get [requests]
 *
 * Prints time-stamp counter ticks per request. The instructions per request, which do not depend
 * on the machine, are counted by:
 *   valgrind --tool=callgrind --toggle-collect=serve
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcproto/mcproto.h"

enum { VALUE_BYTES = 8, REPLY_BYTES = 1024 };

static const u_u8 value[VALUE_BYTES] = {'1', '2', '3', '4', '5', '6', '7', '8'};

struct workload {
    const char *name;
    const char *request;
    u_u32 len;
    u_u32 (*reply)(const struct mc_request *req, u_u8 *out);
};

static u_u32 append(u_u8 *out, u_u32 at, const void *bytes, u_u32 len)
{
    memcpy(out + at, bytes, len);
    return at + len;
}

static u_u32 reply_get(const struct mc_request *req, u_u8 *out)
{
    u_u32 at = mc_write_value_header(out, req->key, req->key_len, 0, VALUE_BYTES, NULL);

    at = append(out, at, value, VALUE_BYTES);
    return append(out, at, "\r\nEND\r\n", 7);
}

static u_u32 reply_gets(const struct mc_request *req, u_u8 *out)
{
    u_u64 cas = 123456789;
    u_u32 at = mc_write_value_header(out, req->key, req->key_len, 0, VALUE_BYTES, &cas);

    at = append(out, at, value, VALUE_BYTES);
    return append(out, at, "\r\nEND\r\n", 7);
}

static u_u32 reply_set(const struct mc_request *req, u_u8 *out)
{
    return mc_write_status(out, req->noreply ? MC_STATUS_ERROR : MC_STATUS_STORED);
}

static u_u32 reply_mg(const struct mc_request *req, u_u8 *out)
{
    struct mc_meta_reply reply = {.code = MC_META_VA,
                                  .tells = MC_META_RETURN_SIZE | MC_META_OPAQUE,
                                  .value_bytes = VALUE_BYTES,
                                  .size = VALUE_BYTES};
    u_u32 at = mc_write_meta(out, &req->meta, &reply);

    at = append(out, at, value, VALUE_BYTES);
    return append(out, at, "\r\n", 2);
}

static u_u32 reply_ms(const struct mc_request *req, u_u8 *out)
{
    struct mc_meta_reply reply = {.code = MC_META_HD};

    return mc_write_meta(out, &req->meta, &reply);
}

static u_u32 reply_binary_get(const struct mc_request *req, u_u8 *out)
{
    u_u32 at =
        mc_write_binary_value_header(out, &req->binary, req->key, req->key_len, 0, VALUE_BYTES, 1);

    return append(out, at, value, VALUE_BYTES);
}

#define REQUEST(text) text, sizeof(text) - 1

static const struct workload workloads[] = {
    {"get", REQUEST("get key00001\r\n"), reply_get},
    {"gets", REQUEST("gets key00001\r\n"), reply_gets},
    {"set", REQUEST("set key00001 0 0 8\r\n"), reply_set},
    {"mg", REQUEST("mg key00001 s v O1\r\n"), reply_mg},
    {"ms", REQUEST("ms key00001 8 T0\r\n"), reply_ms},
    {"binary_get",
     REQUEST("\x80\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x01"
             "\x00\x00\x00\x00\x00\x00\x00\x00"
             "key00001"),
     reply_binary_get},
};

/* Serves one request of a buffer that may hold more behind it. */
static __attribute__((noinline)) u_u32 serve(const struct workload *w, const u_u8 *in, u_u8 *out)
{
    struct mc_request req;
    enum mc_outcome outcome = mc_protocol_detect(in[0]) == MC_PROTOCOL_BINARY
                                  ? mc_parse_binary(in, w->len, &req)
                                  : mc_parse(in, w->len, &req);

    return outcome == MC_REQUEST ? w->reply(&req, out) : 0;
}

static unsigned long ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

int main(int argc, char **argv)
{
    unsigned long requests = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    u_u8 out[REPLY_BYTES];
    u_u8 in[64];
    size_t i;

    for (i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        const struct workload *w = &workloads[i];
        unsigned long start, n, bytes = 0;

        if (argc < 2 || strcmp(argv[1], w->name) != 0)
            continue;
        memcpy(in, w->request, w->len);
        start = ticks_now();
        for (n = 0; n < requests; n++)
            bytes += serve(w, in, out);
        printf("%s: %.1f ticks per request\n", w->name,
               requests > 0 ? (double)(ticks_now() - start) / (double)requests : 0.0);
        return requests > 0 && bytes == 0;
    }
    fprintf(stderr, "usage: mcproto_cost get|gets|set|mg|ms|binary_get [requests]\n");
    return 64;
}
