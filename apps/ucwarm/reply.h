/* SPDX-License-Identifier: BSD-3-Clause */
/* What servers answer: lines of a metadump, and replies of mg and ms. */
#ifndef UCWARM_REPLY_H
#define UCWARM_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcproto/mcproto.h"

#define REPLY_LINE_MAX 2048
#define REPLY_EXPIRES_NEVER (-1)

enum reply_code {
    REPLY_VALUE,      /* VA: value_bytes and CRLF follow */
    REPLY_DONE,       /* HD */
    REPLY_MISS,       /* EN, NF */
    REPLY_STORED_NOT, /* NS: the key is there already */
    REPLY_REFUSED     /* an error, whose text is the line */
};

struct reply {
    enum reply_code code;
    uint32_t value_bytes;
    uint32_t flags;
    int64_t ttl_s; /* or REPLY_EXPIRES_NEVER */
    bool stale;    /* X: invalidated */
    const char *line;
    size_t line_len; /* without its end */
};

/* Parses a line without its end. A line that is no reply of mg or ms is REPLY_REFUSED. */
void reply_read(struct reply *reply, const char *line, size_t len);

struct dump_item {
    uint8_t key[MC_KEY_MAX];
    uint32_t key_len;
    int64_t expires_s; /* Unix time, or REPLY_EXPIRES_NEVER */
    uint64_t bytes;    /* of the whole item in the server's memory */
};

/* Reads "key=... exp=... size=..." without its end. False if the line is something else. */
bool reply_read_dump(struct dump_item *item, const char *line, size_t len);

#endif
