/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps of keys. `hash` walks the hash table, in which an item keeps its place: `all` walks the LRU
 * lists, where one that is read meanwhile may move past the crawler.
 */
#include "dump.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BUSY_PAUSE_NS 100000000

static bool begins_with(const char *line, size_t len, const char *text)
{
    return len >= strlen(text) && memcmp(line, text, strlen(text)) == 0;
}

static int refused(struct peer *peer, const char *line, size_t len)
{
    snprintf(peer->error, sizeof(peer->error), "%s: it answers \"%.*s\" to lru_crawler metadump",
             peer->name, (int)(len < 150 ? len : 150), line);
    return -1;
}

int dump_begin(struct dump *dump, struct peer *peer)
{
    *dump = (struct dump){.peer = peer};
    return peer_command(peer, "lru_crawler metadump hash");
}

/* Another dump or a crawl runs: asks again, as often as the timeout allows. */
static int retry(struct peer *peer, unsigned *tries)
{
    const struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};

    if (++*tries > peer->timeout_s * 10) {
        snprintf(peer->error, sizeof(peer->error),
                 "%s: another dump or crawl has been running for %u s", peer->name,
                 peer->timeout_s);
        return -1;
    }
    nanosleep(&pause, NULL);
    return peer_command(peer, "lru_crawler metadump hash");
}

int dump_next(struct dump *dump, struct dump_item *item)
{
    unsigned tries = 0;
    const char *line;
    size_t len;

    while (!dump->ended) {
        if (peer_line(dump->peer, &line, &len) < 0)
            return -1;
        if (reply_read_dump(item, line, len))
            return 1;
        if (begins_with(line, len, "BUSY")) {
            if (retry(dump->peer, &tries) < 0)
                return -1;
        } else if (len == 3 && begins_with(line, len, "END")) {
            dump->ended = true;
        } else if (!(len == 2 && begins_with(line, len, "OK"))) {
            return refused(dump->peer, line, len);
        }
    }
    return 0;
}
