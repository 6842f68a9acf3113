/* SPDX-License-Identifier: BSD-3-Clause */
/* `stats detail dump` of the text protocol, as a task. */
#ifndef CACHE_PREFIX_DUMP_H
#define CACHE_PREFIX_DUMP_H

#include "cache/session.h"

/* Returns 0, or -1 if the connection has to close. */
int cache_detail_dump(struct cache_session *session, struct cache_sink *sink);

#endif
