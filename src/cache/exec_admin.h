/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The administrative commands.
 */
#ifndef CACHE_EXEC_ADMIN_H
#define CACHE_EXEC_ADMIN_H

#include "cache/session.h"

/*
 * cache_memlimit, slabs, lru, lru_crawler, watch, shutdown, refresh_certs, extstore, misbehave,
 * debugtime, debugitem. Returns 0, or -1 if the connection is to be closed: the transport has no
 * memory, or the process ends. A dump or a watch goes on as the session's task.
 */
int cache_exec_admin(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

#endif
