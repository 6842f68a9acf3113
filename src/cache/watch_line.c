/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a watcher's stream, as memcached writes them. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/watch.h"
#include "mcproto/mcproto.h"

struct line {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->at, line->left, format, args);
    va_end(args);
    U_ASSERT(n >= 0 && (size_t)n < line->left); /* CACHE_WATCH_LINE_MAX has room for the longest */
    line->at += n;
    line->left -= (size_t)n;
}

static void add_key(struct line *line, const struct cache_event *event)
{
    u_u32 n;

    add(line, " key=");
    n = mc_uri_encode((u_u8 *)line->at, event->what.key, event->key_len);
    line->at += n;
    line->left -= n;
}

static const char *found_name(uint8_t found)
{
    switch ((enum kv_found)found) {
    case KV_HIT:
        return "found";
    case KV_MISS_FLUSHED:
        return "flushed";
    case KV_MISS_EXPIRED:
        return "expired";
    case KV_MISS:
        break;
    }
    return "not_found";
}

static const char *const stored_names[] = {
    [CACHE_OK] = "stored",           [CACHE_NOT_FOUND] = "not_found",
    [CACHE_EXISTS] = "exists",       [CACHE_NOT_STORED] = "not_stored",
    [CACHE_TOO_LARGE] = "too_large", [CACHE_NO_MEMORY] = "no_memory",
};

static const char *const close_names[] = {
    [CACHE_CLOSE_ERROR] = "error",
    [CACHE_CLOSE_NORMAL] = "normal",
    [CACHE_CLOSE_IDLE] = "idle_timeout",
    [CACHE_CLOSE_SHUTDOWN] = "shutdown",
};

static void add_peer(struct line *line, const struct cache_peer *peer)
{
    char addr[INET6_ADDRSTRLEN] = "unix";
    const char *transport = "local";
    bool v6 = cache_peer_is(peer, "tcp6") || cache_peer_is(peer, "udp6");

    if (!cache_peer_is(peer, "unix")) {
        transport = cache_peer_is(peer, "udp") ? "udp" : "tcp";
        if (inet_ntop(v6 ? AF_INET6 : AF_INET, peer->addr, addr, sizeof(addr)) == NULL)
            addr[0] = '\0';
    }
    add(line, " rip=%s rport=%u transport=%s", addr, peer->port, transport);
}

uint32_t cache_watch_line(uint8_t *out, const struct cache_event *event)
{
    struct line line = {(char *)out, CACHE_WATCH_LINE_MAX};

    add(&line, "ts=%" PRIu64 ".%06u gid=%" PRIu64 " type=", event->unix_us / 1000000,
        (unsigned)(event->unix_us % 1000000), event->id);
    switch ((enum cache_event_kind)event->kind) {
    case CACHE_EVENT_GET:
        add(&line, "item_get");
        add_key(&line, event);
        add(&line, " status=%s clsid=%u cfd=%" PRIu32 " size=%" PRIu32, found_name(event->status),
            event->class_id, event->conn, event->value_bytes);
        break;
    case CACHE_EVENT_STORE:
        add(&line, "item_store");
        add_key(&line, event);
        add(&line, " status=%s cmd=%s ttl=%" PRId64 " clsid=%u cfd=%" PRIu32 " size=%" PRIu32,
            stored_names[event->status], event->command, event->ttl_s, event->class_id, event->conn,
            event->value_bytes);
        break;
    case CACHE_EVENT_EVICTION:
        add(&line, "eviction");
        add_key(&line, event);
        add(&line, " fetch=%s ttl=%" PRId64 " la=%" PRIu32 " clsid=%u size=%" PRIu32,
            event->status ? "yes" : "no", event->ttl_s, event->idle_s, event->class_id,
            event->value_bytes);
        break;
    case CACHE_EVENT_DELETION:
        add(&line, "deleted");
        add_key(&line, event);
        add(&line, " cmd=%s clsid=%u size=%" PRIu32, event->command, event->class_id,
            event->value_bytes);
        break;
    case CACHE_EVENT_CONN_NEW:
        add(&line, "conn_new");
        add_peer(&line, &event->what.peer);
        add(&line, " cfd=%" PRIu32, event->conn);
        break;
    case CACHE_EVENT_CONN_CLOSE:
        add(&line, "conn_close");
        add_peer(&line, &event->what.peer);
        add(&line, " reason=%s cfd=%" PRIu32, close_names[event->status], event->conn);
        break;
    case CACHE_EVENT_TLS_ERROR:
        add(&line, "conntlserr fd=%" PRIu32 " msg=%.*s", event->conn, event->key_len,
            (const char *)event->what.key);
        break;
    case CACHE_EVENT_FILLER:
        break;
    }
    add(&line, "\n");
    return (uint32_t)(CACHE_WATCH_LINE_MAX - line.left);
}
