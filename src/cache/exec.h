/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the commands do. Functions that reply return 0, or -1 if the transport has no memory and the
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

/* The same for a request of one key, which most are; it is never interrupted. */
int cache_exec_get_one(struct cache_session *session, const struct mc_request *request,
                       struct cache_sink *sink);

/* ---- the other classic commands (exec_text.c) -------------------------------------------- */

/*
 * Prepares for the data block. Returns MC_STATUS_OK, or the error to send when the data block has
 * been skipped.
 */
enum mc_status cache_text_store_begin(struct cache_session *session,
                                      const struct mc_request *request,
                                      struct cache_upload *upload);

/* The data block is complete: stores it or not, replies, and disposes of upload->item. */
int cache_text_store_finish(struct cache_session *session, const struct mc_request *request,
                            struct cache_upload *upload, struct cache_sink *sink);

int cache_text_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_text_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink);
int cache_text_touch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_text_flush(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* A flush_all that mc_parse() has refused. */
int cache_text_flush_refused(struct cache_session *session, const struct mc_request *request,
                             struct cache_sink *sink);

int cache_text_verbosity(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink);
int cache_text_version(struct cache_session *session, struct cache_sink *sink);

/* stats (stats.c) */
int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

#endif
