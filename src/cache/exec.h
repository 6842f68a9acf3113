/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the requests do. Functions that reply return 0, or -1 if the transport has no memory and the
 * connection has to be given up, unless they say otherwise.
 */
#ifndef CACHE_EXEC_H
#define CACHE_EXEC_H

#include "cache/session.h"

/* ---- get, gets, gat, gats (exec_get.c) --------------------------------------------------- */

struct cache_retrieval {
    enum mc_command command;
    int32_t exptime;   /* gat, gats */
    const uint8_t *at; /* the keys that remain */
    const uint8_t *end;
};

enum cache_progress {
    CACHE_GAVE_UP = -1,
    CACHE_DONE = 0,
    CACHE_INTERRUPTED /* the sink is full; retrieval->at is where to go on */
};

/* Answers the keys up to END, or until the sink is full. */
enum cache_progress cache_exec_get(struct cache_session *session, struct cache_retrieval *retrieval,
                                   struct cache_sink *sink);

/* The same for requests of one key, which are never interrupted; and for a get of one. */
int cache_exec_get_one(struct cache_session *session, const struct mc_request *request,
                       struct cache_sink *sink);
int cache_exec_get_key(struct cache_worker *worker, const struct kv_key *key,
                       struct cache_sink *sink);

/* ---- requests with a value (exec_store.c) ------------------------------------------------ */

/*
 * Prepares for the value: makes upload->item. Returns CACHE_OK, or CACHE_TOO_LARGE or
 * CACHE_NO_MEMORY: the value is to be skipped.
 */
enum cache_outcome cache_exec_store_begin(struct cache_session *session,
                                          const struct mc_request *request,
                                          struct cache_upload *upload);

/* The value and its CRLF are complete: stores it or not, replies, disposes of upload->item. */
int cache_exec_store_finish(struct cache_session *session, const struct mc_request *request,
                            struct cache_upload *upload, struct cache_sink *sink);

/* ---- classic commands (exec_text.c) ------------------------------------------------------ */

struct cache_store cache_text_store(const struct cache_worker *worker,
                                    const struct mc_request *request);
int cache_text_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_stored *stored, struct cache_sink *sink);

/* Classic and meta requests that have no value and whose reply is never interrupted. */
int cache_text_run(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink);

/* A flush_all that mc_parse() has refused. */
int cache_text_flush_refused(struct cache_session *session, const struct mc_request *request,
                             struct cache_sink *sink);

/* stats (stats.c), in either protocol. */
int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* ---- meta commands (exec_meta.c, exec_meta_get.c) ---------------------------------------- */

struct cache_store cache_meta_store(const struct cache_worker *worker,
                                    const struct mc_request *request);
int cache_meta_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_stored *stored, struct cache_sink *sink);

int cache_meta_get(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink);
int cache_meta_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink);
int cache_meta_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_meta_debug(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* A reply that tells of nothing but the request: its key and its opaque. */
struct mc_meta_reply cache_meta_reply(const struct mc_request *request);

/* Seconds until a time on the engine's clock, as meta replies tell them. */
uint32_t cache_meta_ttl(const struct cache_worker *worker, uint32_t exptime);

/* ---- binary requests (exec_binary.c) ----------------------------------------------------- */

struct cache_store cache_binary_store(const struct cache_worker *worker,
                                      const struct mc_request *request);
int cache_binary_store_reply(struct cache_session *session, const struct mc_request *request,
                             const struct cache_stored *stored, struct cache_sink *sink);

/* cache_exec_store_begin() has refused it. */
int cache_binary_store_refuse(struct cache_session *session, const struct mc_request *request,
                              enum cache_outcome outcome, struct cache_sink *sink);

/* Those without a value. */
int cache_binary_run(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

#endif
