/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a batch, and the requests for them; see copy.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "copy.h"

/* memcached reads a longer time as a date, so it is sent as one. */
#define TTL_RELATIVE_MAX (60 * 60 * 24 * 30)

#define REQUEST_MAX (MC_BASE64_BYTES(MC_KEY_MAX) + 128)

int batch_failed(struct copy *copy, const struct peer *peer)
{
    if (copy->error[0] == '\0')
        snprintf(copy->error, sizeof(copy->error), "%s", peer->error);
    return -1;
}

static int no_memory(struct copy *copy)
{
    snprintf(copy->error, sizeof(copy->error), "no memory for a batch");
    return -1;
}

/* ---- keys -------------------------------------------------------------------------------- */

static unsigned target_of(const struct copy *copy, unsigned source, const struct dump_item *item)
{
    if (copy->options->distribution == DISTRIBUTION_PAIR)
        return source;
    return load_ketama_server_of(&copy->to, item->key, item->key_len);
}

/* Whether clients of the sources look for the key elsewhere: what is here may be outdated. */
static bool is_misplaced(const struct copy *copy, unsigned source, const struct dump_item *item)
{
    const struct options *o = copy->options;

    return o->distribution == DISTRIBUTION_KETAMA && !o->all_keys &&
           load_ketama_server_of(&copy->from, item->key, item->key_len) != source;
}

static void item_add(struct copy *copy, unsigned source, const struct dump_item *found,
                     unsigned target)
{
    struct item *item = &copy->items[copy->item_count++];

    memset(item, 0, sizeof(*item));
    memcpy(item->key, found->key, found->key_len);
    item->key_len = found->key_len;
    item->target = (uint16_t)target;
    item->continued = copy->state.passed[source] < copy->continued[source];
    item->wanted = true;
}

/* Takes a key of the dump, or counts why not. */
static void item_consider(struct copy *copy, unsigned source, const struct dump_item *found)
{
    struct tally *tally = &copy->tally;
    unsigned target = target_of(copy, source, found);

    tally->scanned++;
    if (found->bytes > PEER_VALUE_MAX)
        tally->too_large++;
    else if (is_misplaced(copy, source, found))
        tally->misplaced++;
    else if (peer_is_same(&copy->targets[target], &copy->sources[source]))
        tally->staying++;
    else if (found->expires_s >= 0 && found->expires_s <= (int64_t)time(NULL))
        tally->gone++;
    else
        item_add(copy, source, found, target);
    copy->state.passed[source]++;
}

int batch_fill(struct copy *copy, unsigned source, struct dump *dump)
{
    unsigned most = pace_batch(&copy->pace, PEER_BATCH_MAX);
    struct dump_item found;
    uint64_t bytes = 0;
    int rc = 1;

    copy->item_count = 0;
    for (unsigned lines = 0; lines < PEER_BATCH_MAX && copy->item_count < most; lines++) {
        unsigned before = copy->item_count;

        rc = dump_next(dump, &found);
        if (rc < 0)
            return batch_failed(copy, dump->peer);
        if (rc == 0)
            break;
        item_consider(copy, source, &found);
        bytes += copy->item_count > before ? found.bytes : 0;
        if (bytes >= COPY_BATCH_BYTES)
            break;
    }
    return rc == 0 && copy->item_count == 0 ? 0 : 1;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* A key with blanks or control characters can be named in base64 only. */
static bool needs_base64(const struct item *item)
{
    for (uint32_t i = 0; i < item->key_len; i++)
        if (item->key[i] <= ' ')
            return true;
    return false;
}

static uint8_t *write_key(uint8_t *at, const struct item *item)
{
    if (needs_base64(item))
        return at + mc_base64_encode(at, item->key, item->key_len);
    memcpy(at, item->key, item->key_len);
    return at + item->key_len;
}

int batch_ask(struct copy *copy, struct peer *peer, uint16_t tag, const char *flags)
{
    const struct item *item = &copy->items[tag];
    uint8_t *room = buffer_room(&peer->out, REQUEST_MAX);
    uint8_t *at = room;
    int n;

    if (!room)
        return no_memory(copy);
    memcpy(at, "mg ", 3);
    at = write_key(at + 3, item);
    n = snprintf((char *)at, 64, "%s%s\r\n", flags, needs_base64(item) ? " b" : "");
    peer->out.end += (size_t)(at - room) + (size_t)n;
    peer_ask(peer, tag);
    return 0;
}

int batch_store(struct copy *copy, uint16_t tag, const struct reply *reply, const uint8_t *value)
{
    struct item *item = &copy->items[tag];
    struct peer *peer = &copy->targets[item->target];
    uint8_t *room = buffer_room(&peer->out, REQUEST_MAX + (size_t)reply->value_bytes + 2);
    int64_t ttl_s = reply->ttl_s;
    char ttl[32] = "";
    uint8_t *at = room;

    if (!room)
        return no_memory(copy);
    if (ttl_s > TTL_RELATIVE_MAX)
        ttl_s += (int64_t)time(NULL);
    if (ttl_s != REPLY_EXPIRES_NEVER)
        snprintf(ttl, sizeof(ttl), " T%lld", (long long)ttl_s);
    memcpy(at, "ms ", 3);
    at = write_key(at + 3, item);
    at += snprintf((char *)at, 96, " %u F%u%s M%c%s\r\n", reply->value_bytes, reply->flags, ttl,
                   copy->options->overwrite ? 'S' : 'E', needs_base64(item) ? " b" : "");
    memcpy(at, value, (size_t)reply->value_bytes + 2);
    peer->out.end += (size_t)(at - room) + reply->value_bytes + 2;
    item->value_bytes = reply->value_bytes;
    peer_ask(peer, tag);
    return 0;
}

/* ERROR is an unknown command: nothing can be copied with this server. */
int batch_refused(struct copy *copy, struct peer *peer, const struct reply *reply)
{
    int shown = (int)(reply->line_len < 150 ? reply->line_len : 150);

    if (reply->line_len == 5 && memcmp(reply->line, "ERROR", 5) == 0) {
        snprintf(copy->error, sizeof(copy->error),
                 "%s: it does not have the meta commands: memcached 1.6 or ucached is needed",
                 peer->name);
        return -1;
    }
    copy->tally.refused++;
    if (copy->refusal[0] == '\0')
        snprintf(copy->refusal, sizeof(copy->refusal), "%.150s: %.*s", peer->name, shown,
                 reply->line);
    return 0;
}
