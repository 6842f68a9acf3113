/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy of all sources; see copy.h. */
#include "copy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/value.h"
#include "peer_stack.h"

#define SAVE_NS 1000000000 /* how often the state is saved */

/* ---- opening ----------------------------------------------------------------------------- */

static int open_peers(struct copy *copy, struct peer *peers, const struct server_name *names,
                      unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (peer_init(&peers[i], names[i].address, copy->options->timeout_s, copy->stack) < 0 ||
            peer_connect(&peers[i]) < 0)
            return batch_failed(copy, &peers[i]);
    return 0;
}

static void open_ring(struct load_ketama *ring, const struct server_name *names, unsigned count)
{
    static char hosts[OPTIONS_SERVERS_MAX][VALUE_HOST_MAX];
    struct load_ketama_server servers[OPTIONS_SERVERS_MAX] = {0};
    char port[VALUE_PORT_MAX];
    uint64_t number;

    for (unsigned i = 0; i < count; i++) {
        snprintf(port, sizeof(port), "11211");
        (void)value_endpoint(names[i].name, hosts[i], port); /* checked with the options */
        (void)value_number(port, 1, UINT16_MAX, &number);
        servers[i].host = hosts[i];
        servers[i].port = (uint16_t)number;
    }
    (void)load_ketama_open(ring, servers, count);
}

static size_t append_names(char *text, size_t at, const struct server_name *names, unsigned count)
{
    for (unsigned i = 0; i < count && at < STATE_LINE_MAX; i++)
        at += (size_t)snprintf(text + at, STATE_LINE_MAX - at, "%s=%.160s ", names[i].name,
                               names[i].address);
    return at;
}

static int open_state(struct copy *copy)
{
    const struct options *o = copy->options;
    struct state *state = &copy->state;
    size_t at;

    state->path = o->state_path;
    state->sources = o->source_count;
    at = append_names(state->copy, 0, o->sources, o->source_count);
    if (at < STATE_LINE_MAX)
        at += (size_t)snprintf(state->copy + at, STATE_LINE_MAX - at, "to ");
    (void)append_names(state->copy, at, o->targets, o->target_count);
    if (state_load(state, copy->error) < 0 || state_save(state, copy->error) < 0) {
        copy->state_failed = true;
        return -1;
    }
    for (unsigned i = 0; i < o->source_count; i++) {
        copy->continued[i] = state->passed[i];
        if (!state->done[i])
            state->passed[i] = 0;
    }
    return 0;
}

int copy_open(struct copy *copy, const struct options *options, const atomic_bool *stop)
{
    uint64_t items;

    copy->options = options;
    copy->stop = stop;
    copy->pace = (struct pace){.items_per_s = options->items_per_s,
                               .bytes_per_s = (double)options->bytes_per_s};
    for (unsigned i = 0; i < OPTIONS_SERVERS_MAX; i++)
        copy->sources[i].fd = copy->targets[i].fd = -1;
    if (link_carries_frames(&options->link)) {
        copy->stack = peer_stack_open(&options->link, copy->error);
        if (!copy->stack)
            return -1;
    }
    if (open_peers(copy, copy->sources, options->sources, options->source_count) < 0 ||
        open_peers(copy, copy->targets, options->targets, options->target_count) < 0)
        return -1;
    open_ring(&copy->from, options->sources, options->source_count);
    open_ring(&copy->to, options->targets, options->target_count);
    if (open_state(copy) < 0)
        return -1;
    for (unsigned i = 0; i < options->source_count; i++) {
        if (peer_stat(&copy->sources[i], "curr_items", &items) < 0)
            return batch_failed(copy, &copy->sources[i]);
        copy->progress.total += copy->state.done[i] ? 0 : items;
    }
    copy->progress.shown = isatty(STDERR_FILENO) != 0;
    copy->progress.what = "copy";
    copy->progress.begun_ns = pace_clock_ns();
    return 0;
}

void copy_close(struct copy *copy)
{
    progress_end(&copy->progress);
    for (unsigned i = 0; i < OPTIONS_SERVERS_MAX; i++) {
        peer_close(&copy->sources[i]);
        peer_close(&copy->targets[i]);
    }
    if (copy->stack)
        peer_stack_close(copy->stack);
    buffer_free(&copy->values);
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Whether a target has a key that an earlier run may have copied. */
static int on_presence(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                       const uint8_t *value)
{
    struct copy *copy = ctx;

    if (reply->code == REPLY_REFUSED)
        return batch_refused(copy, peer, reply);
    if (reply->code != REPLY_MISS) {
        copy->items[tag].wanted = false;
        copy->tally.present++;
    }
    return 0;
}

static int on_source(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                     const uint8_t *value)
{
    struct copy *copy = ctx;

    if (reply->code == REPLY_VALUE && !reply->stale && reply->ttl_s != 0)
        return batch_store(copy, tag, reply, value);
    if (reply->code != REPLY_VALUE && reply->code != REPLY_MISS)
        return batch_refused(copy, peer, reply);
    copy->tally.gone++;
    return 0;
}

static int on_target(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                     const uint8_t *value)
{
    struct copy *copy = ctx;

    if (reply->code == REPLY_STORED_NOT)
        copy->tally.present++;
    else if (reply->code != REPLY_DONE)
        return batch_refused(copy, peer, reply);
    else
        copy->tally.copied++;
    copy->tally.bytes += reply->code == REPLY_DONE ? copy->items[tag].value_bytes : 0;
    return 0;
}

static int ask_presence(struct copy *copy)
{
    struct peer *failed;

    if (copy->options->overwrite)
        return 0;
    for (unsigned i = 0; i < copy->item_count; i++)
        if (copy->items[i].continued &&
            batch_ask(copy, &copy->targets[copy->items[i].target], (uint16_t)i, " u") < 0)
            return -1;
    if (peer_exchange(copy->targets, copy->options->target_count, on_presence, copy, &failed) < 0)
        return batch_failed(copy, failed);
    return 0;
}

/* Reads the values of a batch and stores them. *bytes: what was sent. */
static int batch_copy(struct copy *copy, struct peer *source, uint64_t *bytes)
{
    struct peer *failed;

    if (ask_presence(copy) < 0)
        return -1;
    for (unsigned i = 0; i < copy->item_count; i++)
        if (copy->items[i].wanted && batch_ask(copy, source, (uint16_t)i, " v f t u") < 0)
            return -1;
    if (peer_exchange(source, 1, on_source, copy, &failed) < 0)
        return batch_failed(copy, failed);
    *bytes = 0;
    for (unsigned i = 0; i < copy->options->target_count; i++)
        *bytes += buffer_len(&copy->targets[i].out);
    if (peer_exchange(copy->targets, copy->options->target_count, on_target, copy, &failed) < 0)
        return batch_failed(copy, failed);
    return 0;
}

/* ---- sources ----------------------------------------------------------------------------- */

/* Saves the state, unless it has been saved lately. A failure is remembered, not fatal. */
static void save(struct copy *copy, bool now)
{
    uint64_t now_ns = pace_clock_ns();
    struct state state = copy->state;

    if (!now && now_ns - copy->saved_ns < SAVE_NS)
        return;
    /* What an earlier run has handled counts until this one is beyond it. */
    for (unsigned i = 0; i < state.sources; i++)
        if (!state.done[i] && state.passed[i] < copy->continued[i])
            state.passed[i] = copy->continued[i];
    copy->saved_ns = now_ns;
    if (state_save(&state, copy->error) < 0)
        copy->state_failed = true;
}

static int copy_batches(struct copy *copy, unsigned source, struct dump *dump)
{
    uint64_t bytes = 0;
    int rc = 1;

    while (!atomic_load(copy->stop) && !copy->state_failed) {
        uint64_t passed = copy->state.passed[source];

        rc = batch_fill(copy, source, dump);
        if (rc <= 0)
            break;
        if (batch_copy(copy, &copy->sources[source], &bytes) < 0) {
            copy->state.passed[source] = passed;
            return -1;
        }
        save(copy, false);
        progress_show(&copy->progress, copy->tally.scanned, copy->tally.bytes);
        pace_wait(&copy->pace, copy->item_count, bytes, copy->stop);
    }
    copy->state.done[source] = rc == 0;
    return rc < 0 || copy->state_failed ? -1 : 0;
}

/* Runs `batches` on a dump of a source, over a connection of its own. */
static int with_dump(struct copy *copy, unsigned source,
                     int (*batches)(struct copy *copy, unsigned source, struct dump *dump))
{
    struct peer peer;
    struct dump dump;
    int rc = 0;

    if (peer_init(&peer, copy->options->sources[source].address, copy->options->timeout_s,
                  copy->stack) < 0 ||
        peer_connect(&peer) < 0 || dump_begin(&dump, &peer) < 0)
        rc = batch_failed(copy, &peer);
    else
        rc = batches(copy, source, &dump);
    peer_close(&peer);
    return rc;
}

int copy_run(struct copy *copy)
{
    unsigned count = copy->options->source_count;
    bool complete = true;
    int rc = 0;

    for (unsigned i = 0; i < count && rc == 0 && !atomic_load(copy->stop); i++)
        if (!copy->state.done[i])
            rc = with_dump(copy, i, copy_batches);
    for (unsigned i = 0; i < count; i++)
        complete = complete && copy->state.done[i];
    if (complete && rc == 0)
        state_remove(&copy->state);
    else
        save(copy, true);
    progress_end(&copy->progress);
    return rc < 0 || copy->state_failed ? -1 : 0;
}

/* ---- verifying --------------------------------------------------------------------------- */

/* A time to live is read from two servers one after the other, in whole seconds. */
#define TTL_TOLERANCE_S 2

static int keep_value(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                      const uint8_t *value)
{
    struct copy *copy = ctx;
    struct item *item = &copy->items[tag];

    if (reply->code == REPLY_REFUSED)
        return batch_refused(copy, peer, reply);
    if (reply->code != REPLY_VALUE || reply->stale ||
        (reply->ttl_s >= 0 && reply->ttl_s <= TTL_TOLERANCE_S))
        return 0;
    item->has_value = true;
    item->value_at = copy->values.end;
    item->value_bytes = reply->value_bytes;
    item->flags = reply->flags;
    item->ttl_s = reply->ttl_s;
    if (buffer_add(&copy->values, value, reply->value_bytes) == 0)
        return 0;
    snprintf(copy->error, sizeof(copy->error), "no memory for a batch");
    return -1;
}

static bool ttl_is_close(int64_t a, int64_t b)
{
    if (a == REPLY_EXPIRES_NEVER || b == REPLY_EXPIRES_NEVER)
        return a == b;
    return a - b <= TTL_TOLERANCE_S && b - a <= TTL_TOLERANCE_S;
}

static int compare(void *ctx, struct peer *peer, uint16_t tag, const struct reply *reply,
                   const uint8_t *value)
{
    struct copy *copy = ctx;
    const struct item *item = &copy->items[tag];

    if (reply->code == REPLY_REFUSED)
        return batch_refused(copy, peer, reply);
    if (reply->code != REPLY_VALUE)
        copy->tally.missing++;
    else if (reply->value_bytes == item->value_bytes && reply->flags == item->flags &&
             ttl_is_close(reply->ttl_s, item->ttl_s) &&
             memcmp(value, copy->values.bytes + item->value_at, item->value_bytes) == 0)
        copy->tally.equal++;
    else
        copy->tally.different++;
    return 0;
}

static int batch_verify(struct copy *copy, struct peer *source)
{
    const char *flags = " v f t u";
    struct peer *failed;

    copy->values.at = copy->values.end = 0;
    for (unsigned i = 0; i < copy->item_count; i++)
        if (batch_ask(copy, source, (uint16_t)i, flags) < 0)
            return -1;
    if (peer_exchange(source, 1, keep_value, copy, &failed) < 0)
        return batch_failed(copy, failed);
    for (unsigned i = 0; i < copy->item_count; i++)
        if (copy->items[i].has_value &&
            batch_ask(copy, &copy->targets[copy->items[i].target], (uint16_t)i, flags) < 0)
            return -1;
    if (peer_exchange(copy->targets, copy->options->target_count, compare, copy, &failed) < 0)
        return batch_failed(copy, failed);
    return 0;
}

static int verify_batches(struct copy *copy, unsigned source, struct dump *dump)
{
    int rc = 1;

    while (!atomic_load(copy->stop) && (rc = batch_fill(copy, source, dump)) > 0) {
        if (batch_verify(copy, &copy->sources[source]) < 0)
            return -1;
        progress_show(&copy->progress, copy->tally.scanned, copy->tally.bytes);
        pace_wait(&copy->pace, copy->item_count, copy->values.end, copy->stop);
    }
    return rc < 0 ? -1 : 0;
}

int copy_verify(struct copy *copy)
{
    struct tally copied = copy->tally;
    int rc = 0;

    copy->progress.what = "verify";
    copy->progress.begun_ns = pace_clock_ns();
    copy->tally.scanned = 0;
    for (unsigned i = 0; i < copy->options->source_count && rc == 0; i++)
        rc = with_dump(copy, i, verify_batches);
    copied.equal = copy->tally.equal;
    copied.missing = copy->tally.missing;
    copied.different = copy->tally.different;
    copy->tally = copied;
    progress_end(&copy->progress);
    return rc;
}
