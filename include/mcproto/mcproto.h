/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmcproto: the memcached protocol as pure functions.
 *
 * Bytes in, a request struct or the exact error out; replies are written into a buffer of the
 * caller. The library allocates nothing, does no I/O, keeps no state and calls nobody back. It
 * compiles as C89 and as C++98, hosted or freestanding. What a request does is the caller's part.
 *
 *     switch (mc_parse(buf, len, &req)) {
 *     case MC_MORE:      read more, keep what is there
 *     case MC_REQUEST:   skip req.line_bytes; for storage commands req.value_bytes + 2 bytes of
 *                        data block follow; execute; write the reply unless req.noreply
 *     case MC_MALFORMED: skip req.line_bytes, send req.error, then skip req.swallow_bytes
 *     }
 *
 * Source of the rules: protocol.txt of memcached and the behaviour of version 1.6.45 on the wire.
 */
#ifndef MCPROTO_MCPROTO_H
#define MCPROTO_MCPROTO_H

#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MC_KEY_MAX 250

/*
 * Input longer than this without a line end in it is given up (MC_MALFORMED with `close` and no
 * error). Only the retrieval commands may be longer, since their number of keys is not limited
 * otherwise. (memcached exempts get and gets but not gat and gats, whose lines then live or die by
 * how TCP happens to cut them.) A line whose end is in sight may have any length.
 */
#define MC_LINE_MAX 2048
#define MC_KEYS_LINE_MAX (1024 * 1024)

/* Largest <bytes> that a storage command may announce. */
#define MC_VALUE_MAX 2147483645

enum mc_command {
    MC_CMD_NONE = 0, /* the line is not a command */
    MC_CMD_GET,
    MC_CMD_GETS,
    MC_CMD_GAT,
    MC_CMD_GATS,
    MC_CMD_SET,
    MC_CMD_ADD,
    MC_CMD_REPLACE,
    MC_CMD_APPEND,
    MC_CMD_PREPEND,
    MC_CMD_CAS,
    MC_CMD_DELETE,
    MC_CMD_INCR,
    MC_CMD_DECR,
    MC_CMD_TOUCH,
    MC_CMD_FLUSH_ALL,
    MC_CMD_VERSION,
    MC_CMD_VERBOSITY,
    MC_CMD_STATS,
    MC_CMD_QUIT
};

enum mc_outcome {
    MC_MORE = 0,     /* no complete line yet */
    MC_REQUEST = 1,  /* a well-formed request */
    MC_MALFORMED = 2 /* a complete line (or too long a one) that gets an error */
};

/*
 * Which fields are set follows from `command`; the others are zero. Pointers lead into the input.
 * With MC_MALFORMED command, line_bytes and noreply are set and, of the rest, only the last four.
 */
struct mc_request {
    enum mc_command command;
    u_u32 line_bytes; /* length of the line with its end; 0 with MC_MORE */
    int noreply;      /* no reply may be sent, errors of execution included */

    const u_u8 *key; /* the first key */
    u_u32 key_len;
    const u_u8 *args; /* get, gets, gat, gats: the keys, all of them, for mc_key_next().
                         stats: what follows the command's name, without the
                         spaces before and after it */
    u_u32 args_len;

    u_u32 flags;
    u_s32 exptime;     /* set.., touch, gat, gats; flush_all: the delay (0 without one) */
    u_u32 value_bytes; /* storage commands: length of the data block without its CRLF */
    u_u64 cas;         /* cas */
    u_u64 delta;       /* incr, decr */
    u_u32 level;       /* verbosity, as given */

    /* MC_MALFORMED only. */
    const char *error; /* reply with its CRLF; null: none is due (noreply, or close) */
    u_u32 error_len;
    u_u32 swallow_bytes; /* bytes of a data block to skip after the line */
    int close;           /* end the connection (after the error) */
};

/*
 * Reads one request line from the start of buf. The line is contiguous; a line that straddles two
 * buffers is to be joined by the caller first. Reads nothing at or after buf + len, writes only
 * *req, does work in proportion to the line.
 *
 * After MC_MORE the outcome stays MC_MORE until a line feed has arrived, or len exceeds
 * MC_LINE_MAX, or (if it has exceeded that) MC_KEYS_LINE_MAX. A caller that gathers a long line
 * in small pieces should look for the line feed in the new piece only, not parse each time.
 */
enum mc_outcome mc_parse(const u_u8 *buf, u_u32 len, struct mc_request *req);

/*
 * Walks the keys of a retrieval command: *at starts as req.args and ends at req.args + args_len.
 * Returns 1 with the next key and *at behind it, or 0. All keys were checked by mc_parse().
 */
int mc_key_next(const u_u8 **at, const u_u8 *end, const u_u8 **key, u_u32 *key_len);

/* Name of a command in lower case ("get"), never null. */
const char *mc_command_name(enum mc_command command);

/* True for the commands that a data block follows. */
int mc_command_has_value(enum mc_command command);

/* ---- numbers ----------------------------------------------------------------------------- */

/*
 * The number in a stored value, by the rule of incr and decr, which is that of strtoull() in C:
 * blanks and a '+' may stand before it, and a blank or NUL ends it, whatever comes then;
 * 0..2^64-1. Returns 1, or 0 and leaves *number alone if it is not a number.
 */
int mc_counter_parse(const u_u8 *value, u_u32 len, u_u64 *number);

#define MC_NUMBER_MAX 20

/* Writes a number in decimal without an end mark; returns its length, at most MC_NUMBER_MAX. */
u_u32 mc_write_u64(u_u8 *out, u_u64 number);

/* ---- replies ----------------------------------------------------------------------------- */

enum mc_status {
    MC_STATUS_STORED = 0,
    MC_STATUS_NOT_STORED,
    MC_STATUS_EXISTS,
    MC_STATUS_NOT_FOUND,
    MC_STATUS_DELETED,
    MC_STATUS_TOUCHED,
    MC_STATUS_OK,
    MC_STATUS_END,
    MC_STATUS_RESET,
    MC_STATUS_ERROR,
    MC_STATUS_BAD_FORMAT,        /* CLIENT_ERROR bad command line format */
    MC_STATUS_BAD_DATA_CHUNK,    /* CLIENT_ERROR bad data chunk */
    MC_STATUS_BAD_DELTA,         /* CLIENT_ERROR invalid numeric delta argument */
    MC_STATUS_BAD_EXPTIME,       /* CLIENT_ERROR invalid exptime argument */
    MC_STATUS_NON_NUMERIC,       /* CLIENT_ERROR cannot increment or decrement non-numeric value */
    MC_STATUS_TOO_LARGE,         /* SERVER_ERROR object too large for cache */
    MC_STATUS_NO_MEMORY_STORING, /* SERVER_ERROR out of memory storing object */
    MC_STATUS_NO_MEMORY,         /* SERVER_ERROR out of memory */
    MC_STATUS_TOO_MANY_CONNECTIONS, /* ERROR Too many open connections */
    MC_STATUS_FLUSH_NOT_ALLOWED,    /* CLIENT_ERROR flush_all not allowed */
    MC_STATUS_COUNT
};

#define MC_STATUS_MAX 80 /* no status line is longer, CRLF included */

/* The reply line of a status with its CRLF; *len is its length. */
const char *mc_status_text(enum mc_status status, u_u32 *len);

/* Writes that line to out (room for MC_STATUS_MAX); returns its length. */
u_u32 mc_write_status(u_u8 *out, enum mc_status status);

#define MC_VALUE_HEADER_MAX (6 + MC_KEY_MAX + 1 + 10 + 1 + 10 + 1 + 20 + 2)

/*
 * Writes "VALUE <key> <flags> <bytes>[ <cas>]\r\n"; cas null: without. Returns the length. The
 * data and its CRLF are the caller's to send.
 */
u_u32 mc_write_value_header(u_u8 *out, const u_u8 *key, u_u32 key_len, u_u32 flags,
                            u_u32 value_bytes, const u_u64 *cas);

/* Writes a number and CRLF: the reply of incr and decr. At most MC_NUMBER_MAX + 2 bytes. */
u_u32 mc_write_number(u_u8 *out, u_u64 number);

#ifdef __cplusplus
}
#endif
#endif
