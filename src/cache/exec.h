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

/* ---- set, add, replace, append, prepend, cas (exec_store.c) ------------------------------ */

/*
 * Prepares for the data block: makes upload->item and fills in the rest of *upload. Returns
 * MC_STATUS_OK, or the error to send when the data block has been skipped; a refused `set` removes
 * what the key had.
 */
enum mc_status cache_store_begin(struct cache_session *session, const struct mc_request *request,
                                 struct cache_upload *upload);

/* Writes n bytes of the data block (n <= upload->left). */
void cache_store_write(struct cache_upload *upload, const uint8_t *data, uint32_t n);

/* The data block is complete: stores it or not, replies, and disposes of upload->item. */
int cache_store_finish(struct cache_session *session, struct cache_upload *upload,
                       const uint8_t *key, uint32_t key_len, struct cache_sink *sink);

/* ---- the others -------------------------------------------------------------------------- */

int cache_exec_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_exec_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink);
int cache_exec_touch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_exec_flush(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);
int cache_exec_verbosity(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink);
int cache_exec_version(struct cache_session *session, struct cache_sink *sink);
int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* Removes a key without counting or replying. Returns whether there was one. */
bool cache_key_remove(struct cache_worker *worker, const struct kv_key *key);

/* Once per loop: carries out a delayed flush that is due. */
void cache_flush_tick(struct cache_worker *worker);

#endif
