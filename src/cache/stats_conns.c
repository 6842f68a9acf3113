/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats conns: the open connections of all workers. Instead of memcached's file descriptor each has
 * an id that is unique among the open connections of the process.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec_stats.h"

struct conn_copy {
    uint32_t id;
    uint32_t last_request_s;
    enum cache_phase phase;
    struct cache_peer peer;
};

static const char *phase_name(enum cache_phase phase)
{
    switch (phase) {
    case CACHE_PHASE_LINE:
        return "conn_read";
    case CACHE_PHASE_VALUE:
    case CACHE_PHASE_TOKEN:
        return "conn_nread";
    case CACHE_PHASE_DISCARD:
        return "conn_swallow";
    case CACHE_PHASE_REPLYING:
        return "conn_mwrite";
    case CACHE_PHASE_TASK:
        return "conn_watch";
    case CACHE_PHASE_CLOSING:
        break;
    }
    return "conn_closing";
}

/* "tcp:1.2.3.4:5", "tcp6:[::1]:5", "unix:/path". */
static void address_text(const struct cache_settings *settings, const struct cache_peer *peer,
                         bool local, char *text, size_t size)
{
    bool v6 = cache_peer_is(peer, "tcp6") || cache_peer_is(peer, "udp6");
    char addr[INET6_ADDRSTRLEN];

    if (cache_peer_is(peer, "unix")) {
        snprintf(text, size, "unix:%s", settings->unix_path != NULL ? settings->unix_path : "");
        return;
    }
    if (inet_ntop(v6 ? AF_INET6 : AF_INET, local ? peer->local_addr : peer->addr, addr,
                  sizeof(addr)) == NULL)
        addr[0] = '\0';
    snprintf(text, size, v6 ? "%s:[%s]:%u" : "%s:%s:%u", peer->transport, addr,
             local ? peer->local_port : peer->port);
}

static void conn_line(struct cache_stats_out *out, uint32_t id, const char *name, const char *value)
{
    char full[48];

    snprintf(full, sizeof(full), "%" PRIu32 ":%s", id, name);
    cache_stats_text(out, full, value);
}

static void idle_line(struct cache_stats_out *out, uint32_t id, uint32_t since_s)
{
    uint32_t now_s = out->session->worker->now_s;
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, now_s > since_s ? now_s - since_s : 0);
    conn_line(out, id, "secs_since_last_cmd", text);
}

static void conn_lines(struct cache_stats_out *out, const struct conn_copy *conn)
{
    const struct cache_session *asker = out->session;
    const struct cache_settings *settings = &asker->worker->cache->settings;
    bool datagram = cache_peer_is(&conn->peer, "udp");
    char text[PATH_MAX + 16];

    if (datagram)
        conn_line(out, conn->id, "UDP", "UDP");
    address_text(settings, &conn->peer, datagram, text, sizeof(text));
    conn_line(out, conn->id, "addr", text);
    if (!datagram) {
        address_text(settings, &conn->peer, true, text, sizeof(text));
        conn_line(out, conn->id, "listen_addr", text);
    }
    conn_line(out, conn->id, "state",
              conn->id == asker->id ? "conn_parse_cmd" : phase_name(conn->phase));
    idle_line(out, conn->id, conn->last_request_s);
}

/* Copies the shown fields of the open sessions of a slab; returns how many. */
static unsigned slab_copy(struct cache_worker *worker, const struct cache_session_slab *slab,
                          struct conn_copy conns[CACHE_SESSIONS_PER_SLAB])
{
    unsigned count = 0;

    pthread_mutex_lock(&worker->session_lock);
    for (unsigned i = 0; i < CACHE_SESSIONS_PER_SLAB; i++) {
        const struct cache_session *session = &slab->sessions[i];

        if (session->open) {
            conns[count].id = session->id;
            conns[count].last_request_s =
                atomic_load_explicit(&session->last_request_s, memory_order_relaxed);
            conns[count].phase = cache_session_phase(session);
            conns[count].peer = session->peer;
            count++;
        }
    }
    pthread_mutex_unlock(&worker->session_lock);
    return count;
}

static void worker_conns(struct cache_stats_out *out, struct cache_worker *worker)
{
    struct conn_copy conns[CACHE_SESSIONS_PER_SLAB];
    const struct cache_session_slab *slab;

    /* Slabs are added at the front and stay until the worker leaves. */
    pthread_mutex_lock(&worker->session_lock);
    slab = worker->slabs;
    pthread_mutex_unlock(&worker->session_lock);
    for (; slab != NULL; slab = slab->next) {
        unsigned count = slab_copy(worker, slab, conns);

        for (unsigned i = 0; i < count; i++)
            conn_lines(out, &conns[i]);
    }
}

/* Listening sockets have the first ids. */
static void listener_lines(struct cache_stats_out *out, const struct cache *cache)
{
    char text[PATH_MAX + 16];

    for (uint32_t i = 0; i < cache->listener_count; i++) {
        const struct cache_peer *listener = &cache->listeners[i];

        if (cache_peer_is(listener, "udp"))
            conn_line(out, i + 1, "UDP", "UDP");
        address_text(&cache->settings, listener, true, text, sizeof(text));
        conn_line(out, i + 1, "addr", text);
        conn_line(out, i + 1, "state",
                  cache_peer_is(listener, "udp") ? "conn_read" : "conn_listening");
        idle_line(out, i + 1, CACHE_CLOCK_START_S);
    }
}

int cache_listener_add(struct cache *cache, const struct cache_peer *listener)
{
    if (cache->listener_count == CACHE_LISTENERS_MAX)
        return -1;
    cache->listeners[cache->listener_count++] = *listener;
    return 0;
}

void cache_stats_conns(struct cache_stats_out *out)
{
    struct cache *cache = out->session->worker->cache;

    listener_lines(out, cache);
    /* Held so that no worker leaves meanwhile. */
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < cache->settings.threads; i++)
        if (cache->workers[i] != NULL)
            worker_conns(out, cache->workers[i]);
    pthread_mutex_unlock(&cache->lock);
}
