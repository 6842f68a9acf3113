/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executing requests: from a parsed request to an operation (op.h) and its reply.
 *
 * Unless it says otherwise a function returns 0, or -1 if the transport has no memory or the
 * connection has to end; the session then closes. It writes the reply unless the request says
 * noreply (text) or quiet (binary, meta).
 */
#ifndef CACHE_EXEC_H
#define CACHE_EXEC_H

#include "cache/session.h"

/* ---- arguments --------------------------------------------------------------------------- */

#define CACHE_WORDS_MAX 6

/* The arguments of stats and of the administrative commands, cut into words. */
struct cache_words {
    const uint8_t *at[CACHE_WORDS_MAX];
    u_u32 len[CACHE_WORDS_MAX];
    unsigned count;
};

/* All words but the noreply at their end. What comes after the last place is ignored. */
static inline struct cache_words cache_words_split(const struct mc_request *request)
{
    const uint8_t *at = request->args;
    const uint8_t *end = at + request->args_len;
    struct cache_words words = {.count = 0};

    while (words.count < CACHE_WORDS_MAX &&
           mc_token_next(&at, end, &words.at[words.count], &words.len[words.count]))
        words.count++;
    if (request->noreply && words.count > 0)
        words.count--;
    return words;
}

/* Whether there is such a word, and it is this text. */
static inline bool cache_word_is(const struct cache_words *words, unsigned i, const char *text)
{
    return i < words->count && mc_token_is(words->at[i], words->len[i], text);
}

/* ---- get, gets, gat, gats of the text protocol (exec_get.c) ------------------------------ */

/*
 * Answers the keys of the request and END. If the sink fills up, the keys that remain are kept and
 * the phase is CACHE_PHASE_REPLYING; a request of one key is never interrupted.
 */
int cache_exec_get(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink);

/* Answers a get of one key, which is hashed. */
int cache_exec_get_key(struct cache_worker *worker, const struct kv_key *key,
                       struct cache_sink *sink);

/* Continues in CACHE_PHASE_REPLYING, and may be interrupted again. */
int cache_exec_get_resume(struct cache_session *session, struct cache_sink *sink);

/* ---- requests with a value, in all protocols (exec_store.c) ------------------------------ */

/*
 * Runs a request whose value begins at `data`, with as much of it as has arrived. If all of it has,
 * stores and replies; else leaves the session in CACHE_PHASE_VALUE, or in CACHE_PHASE_DISCARD if it
 * refuses the value. Returns how many bytes of the value it took.
 */
uint32_t cache_exec_store(struct cache_session *session, const struct mc_request *request,
                          const uint8_t *data, uint32_t len, struct cache_sink *sink);

/* Takes more of a value in CACHE_PHASE_VALUE; returns how many bytes it took. */
uint32_t cache_exec_store_more(struct cache_session *session, const uint8_t *data, uint32_t len,
                               struct cache_sink *sink);

/* ---- text commands without a value (exec_text.c) ----------------------------------------- */

int cache_text_run(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink);

/* A flush_all that mc_parse() has refused. */
int cache_text_flush_refused(struct cache_session *session, const struct mc_request *request,
                             struct cache_sink *sink);

/* The mode of a classic or binary command that stores. */
enum cache_mode cache_mode_of(enum mc_command command);

/* What a text command stores, and its reply. */
struct cache_store cache_text_store(const struct cache_worker *worker,
                                    const struct mc_request *request);
int cache_text_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_store_result *stored, struct cache_sink *sink);

/* stats (exec_stats.c), in either protocol. */
int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* ---- administrative commands (exec_admin.c, watch.c) ------------------------------------- */

/* Runs one of those that are answered by a status alone: settings, debugging. */
int cache_admin_run(struct cache_session *session, const struct mc_request *request,
                    struct cache_sink *sink);

/* Reads the certificates of TLS again; the reply is memcached's. */
int cache_admin_refresh_certs(struct cache_session *session, const struct mc_request *request,
                              struct cache_sink *sink);

/* Ends the process, if it may: -1, so that the connection closes without a reply. */
int cache_admin_shutdown(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink);

/* lru_crawler; a dump continues as the session's task. */
int cache_admin_crawler(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink);

/* ---- dumps of the items (dump.c) --------------------------------------------------------- */

enum cache_dump_kind { CACHE_DUMP_METADUMP = 0, CACHE_DUMP_MGDUMP, CACHE_DUMP_CACHEDUMP };

/*
 * Reads the classes of a dump: "all", "hash", or ids separated by commas. Bit n of *classes is the
 * engine's class n. False if an id is out of range.
 */
bool cache_dump_classes(const uint8_t *word, uint32_t len, uint64_t *classes);

/* Sends the items of these classes as the session's task; a cachedump has at most 2 MiB. */
int cache_dump_start(struct cache_session *session, enum cache_dump_kind kind, uint64_t classes,
                     uint32_t lines_max, struct cache_sink *sink);

/* watch: the session becomes a watcher, as its task. */
int cache_exec_watch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* ---- meta commands (exec_meta.c, exec_meta_get.c) ---------------------------------------- */

struct cache_store cache_meta_store(const struct cache_worker *worker,
                                    const struct mc_request *request);
int cache_meta_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_store_result *stored, struct cache_sink *sink);

int cache_meta_get(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink);
int cache_meta_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink);
int cache_meta_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_meta_debug(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* A reply with what the request itself provides: key and opaque. */
struct mc_meta_reply cache_meta_reply(const struct mc_request *request);

/* Seconds until a time on the engine's clock, as meta replies show them. */
uint32_t cache_meta_ttl(const struct cache_worker *worker, uint32_t exptime);

/* ---- binary requests (exec_binary.c) ----------------------------------------------------- */

/* An error with the caller's text; null: that of the status. */
int cache_binary_error(struct cache_worker *worker, const struct mc_request *request,
                       enum mc_binary_status status, const char *text, struct cache_sink *sink);

/* Those without a value. */
int cache_binary_run(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* What a binary request stores, its reply, and the reply to a value that is refused. */
struct cache_store cache_binary_store(const struct cache_worker *worker,
                                      const struct mc_request *request);
int cache_binary_store_reply(struct cache_session *session, const struct mc_request *request,
                             const struct cache_store_result *stored, struct cache_sink *sink);
int cache_binary_store_refuse(struct cache_session *session, const struct mc_request *request,
                              enum cache_outcome outcome, struct cache_sink *sink);

#endif
