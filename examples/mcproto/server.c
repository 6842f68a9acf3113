/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that speaks memcached: libmcproto reads the requests and writes the replies, the rest is
 * a table and a thread for each connection. It knows get, set, mg, mn, version and quit. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcproto/mcproto.h"

enum { VALUE_MAX = 8192, INPUT_MAX = 16384, SLOTS = 4096 };

static struct item {
    u_u8 key[MC_KEY_MAX], value[VALUE_MAX + 2]; /* with its CRLF */
    u_u32 key_len, value_len, flags;
} table[SLOTS]; /* of two keys with one hash the later one stays */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static struct item *slot_of(const u_u8 *key, u_u32 len)
{
    u_u32 hash = 2166136261u;

    for (u_u32 i = 0; i < len; i++)
        hash = (hash ^ key[i]) * 16777619u;
    return &table[hash % SLOTS];
}

static struct item *find(const u_u8 *key, u_u32 len)
{
    struct item *item = slot_of(key, len);

    return item->key_len == len && memcmp(item->key, key, len) == 0 ? item : NULL;
}

static void put(FILE *out, const u_u8 *line, u_u32 len, const struct item *item)
{
    fwrite(line, 1, len, out);
    if (item != NULL)
        fwrite(item->value, 1, item->value_len + 2, out);
}

static enum mc_status set(const struct mc_request *req, const u_u8 *value)
{
    struct item *item = slot_of(req->key, req->key_len);

    if (memcmp(value + req->value_bytes, "\r\n", 2) != 0)
        return MC_STATUS_BAD_DATA_CHUNK;
    memcpy(item->key, req->key, item->key_len = req->key_len);
    memcpy(item->value, value, (item->value_len = req->value_bytes) + 2);
    item->flags = req->flags;
    return MC_STATUS_STORED;
}

static enum mc_status get(const struct mc_request *req, FILE *out)
{
    u_u8 line[MC_VALUE_HEADER_MAX];
    const u_u8 *at = req->args, *key;
    struct item *i;
    u_u32 n;

    while (mc_token_next(&at, req->args + req->args_len, &key, &n))
        if ((i = find(key, n)) != NULL)
            put(out, line, mc_write_value_header(line, key, n, i->flags, i->value_len, NULL), i);
    return MC_STATUS_END;
}

static void meta_get(const struct mc_request *req, FILE *out)
{
    struct mc_meta_reply reply = {.code = MC_META_EN, .key = req->key, .key_len = req->key_len};
    const struct item *item = find(req->key, req->key_len);
    u_u8 line[MC_META_LINE_MAX];

    reply.key_is_binary = (req->meta.has & MC_META_KEY_BASE64) != 0;
    reply.tells = MC_META_RETURN_KEY | MC_META_OPAQUE;
    if (item != NULL) {
        reply.code = req->meta.has & MC_META_RETURN_VALUE ? MC_META_VA : MC_META_HD;
        reply.tells |= MC_META_RETURN_SIZE;
        reply.size = reply.value_bytes = item->value_len;
    }
    put(out, line, mc_write_meta(line, &req->meta, &reply), reply.code == MC_META_VA ? item : NULL);
}

/* Returns the bytes that the first request at `in` took; 0: it is not complete, -1: close. */
static long take(const u_u8 *in, u_u32 len, FILE *out)
{
    struct mc_request req;
    enum mc_outcome outcome = mc_parse(in, len, &req);
    int has_value = outcome == MC_REQUEST && mc_command_has_value(req.command);
    u_u32 data = has_value ? req.value_bytes + 2 : req.discard_bytes;

    if (data > VALUE_MAX + 2 || req.command == MC_CMD_QUIT || req.close)
        return -1;
    if (outcome == MC_MORE || len - req.line_bytes < data)
        return len < INPUT_MAX ? 0 : -1;
    if (outcome == MC_MALFORMED) {
        fwrite(req.error, 1, req.error_len, out);
    } else if (req.command == MC_CMD_MG) {
        meta_get(&req, out);
    } else if (req.command == MC_CMD_VERSION) {
        fputs("VERSION 1.6.45\r\n", out);
    } else {
        enum mc_status status = req.command == MC_CMD_GET   ? get(&req, out)
                                : req.command == MC_CMD_SET ? set(&req, in + req.line_bytes)
                                : req.command == MC_CMD_MN  ? MC_STATUS_META_NOOP
                                                            : MC_STATUS_ERROR;
        if (!req.noreply)
            fputs(mc_status_text(status, &len), out);
    }
    return (long)(req.line_bytes + data);
}

static void *serve(void *stream)
{
    u_u8 in[INPUT_MAX];
    u_u32 at, len = 0;
    long taken = 0, n;

    while (taken >= 0 && (n = read(fileno(stream), in + len, INPUT_MAX - len)) > 0) {
        len += (u_u32)n;
        pthread_mutex_lock(&table_lock);
        for (at = 0; (taken = take(in + at, len - at, stream)) > 0; at += (u_u32)taken)
            continue;
        pthread_mutex_unlock(&table_lock);
        memmove(in, in + at, len -= at);
        fflush(stream);
    }
    fclose(stream);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    FILE *stream;

    signal(SIGPIPE, SIG_IGN);
    address.sin_port = htons((unsigned short)(argc == 2 ? strtoul(argv[1], NULL, 10) : 11211));
    if (bind(listener, (void *)&address, sizeof(address)) != 0 || listen(listener, 16) != 0)
        return 1;
    while ((stream = fdopen(accept(listener, NULL, NULL), "w")) != NULL &&
           pthread_create(&thread, NULL, serve, stream) == 0)
        pthread_detach(thread);
    return 1;
}
