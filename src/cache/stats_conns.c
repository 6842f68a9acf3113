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
#include "cache/textbuf.h"

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

/* Sessions that a part of the list shows. */
#define PART_SESSIONS 16
U_STATIC_ASSERT(CACHE_SESSIONS_PER_SLAB % PART_SESSIONS == 0, a_slab_has_whole_parts);

/* Slab `index` of a worker, in the order in which they were added, which is at the front. */
static const struct cache_session_slab *slab_at(const struct cache_worker *worker, uint32_t index)
{
    const struct cache_session_slab *slab = worker->slabs;
    uint32_t newer = worker->session_count / CACHE_SESSIONS_PER_SLAB;

    if (index >= newer)
        return NULL;
    while (--newer > index)
        slab = slab->next;
    return slab;
}

/* Copies the shown fields of the open sessions among these; returns how many. */
static unsigned sessions_copy(const struct cache_session *sessions,
                              struct conn_copy conns[PART_SESSIONS])
{
    unsigned count = 0;

    for (unsigned i = 0; i < PART_SESSIONS; i++) {
        const struct cache_session *session = &sessions[i];

        if (session->open) {
            conns[count].id = session->id;
            conns[count].last_request_s =
                atomic_load_explicit(&session->last_request_s, memory_order_relaxed);
            conns[count].phase = cache_session_phase(session);
            conns[count].peer = session->peer;
            count++;
        }
    }
    return count;
}

/* Adds the next sessions of a worker. False if it has no more. */
static bool worker_part(struct cache_stats_out *out, struct cache_worker *worker,
                        struct cache_list_at *at)
{
    const struct cache_session_slab *slab;
    struct conn_copy conns[PART_SESSIONS];
    unsigned count = 0;

    pthread_mutex_lock(&worker->session_lock);
    slab = slab_at(worker, at->block);
    if (slab != NULL)
        count = sessions_copy(&slab->sessions[at->item], conns);
    pthread_mutex_unlock(&worker->session_lock);
    for (unsigned i = 0; i < count; i++)
        conn_lines(out, &conns[i]);
    at->item += PART_SESSIONS;
    if (at->item == CACHE_SESSIONS_PER_SLAB) {
        at->item = 0;
        at->block++;
    }
    return slab != NULL;
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
        idle_line(out, i + 1, cache->clock_start_s);
    }
}

int cache_listener_add(struct cache *cache, const struct cache_peer *listener)
{
    if (cache->listener_count == CACHE_LISTENERS_MAX)
        return -1;
    cache->listeners[cache->listener_count++] = *listener;
    return 0;
}

/* Groups are the listeners and then each worker, blocks its slabs, items the sessions of a slab. */
static bool conns_part(struct cache_session *session, struct cache_textbuf *text,
                       struct cache_list_at *at)
{
    struct cache *cache = session->worker->cache;
    struct cache_stats_out out = {.cache = cache, .session = session, .text = *text};
    bool more_of_group = false;

    if (at->group == 0) {
        listener_lines(&out, cache);
    } else {
        /* Held so that the worker does not leave meanwhile. */
        pthread_mutex_lock(&cache->lock);
        if (cache->workers[at->group - 1] != NULL)
            more_of_group = worker_part(&out, cache->workers[at->group - 1], at);
        pthread_mutex_unlock(&cache->lock);
    }
    if (!more_of_group)
        *at = (struct cache_list_at){.group = at->group + 1};
    *text = out.text;
    return at->group <= cache->settings.threads;
}

int cache_stats_conns_start(struct cache_session *session, struct cache_sink *sink)
{
    return cache_list_send(session, conns_part, sink);
}
