/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmcproto: the memcached protocol as pure functions.
 *
 * Parsers turn bytes into a request struct or the exact error reply; writers put replies into the
 * caller's buffer. The library allocates nothing, does no I/O, keeps no state and calls no
 * callbacks, so all functions are reentrant and thread-safe. It compiles as C89 and as C++98,
 * hosted or freestanding. What a request does is up to the caller.
 *
 *     switch (mc_parse(buf, len, &req)) {
 *     case MC_MORE:      read more and keep what is there
 *     case MC_REQUEST:   skip req.line_bytes; after a command with a value, req.value_bytes + 2
 *                        bytes of data block follow; execute; reply unless req.noreply
 *     case MC_MALFORMED: skip req.line_bytes, then req.discard_bytes, send req.error
 *     }
 *
 * Calls by group:
 *     requests         mc_protocol_detect, mc_parse, mc_parse_binary
 *     commands, words  mc_command_name, _has_value, _is_retrieval, _is_meta; mc_token_next, _is,
 *                      _u32, _s32
 *     numbers          mc_counter_parse, mc_write_u64
 *     text replies     mc_status_text, mc_write_status, _value_header, _number
 *     meta replies     mc_write_meta, _meta_debug, _metadump, _mgdump
 *     binary replies   mc_write_binary_header, _done, _error, _text, _miss, _value_header, _number,
 *                      _stat_header
 *     UDP              mc_udp_parse, mc_udp_datagrams, mc_udp_write
 *     encodings        mc_base64_encode, mc_base64_decode, mc_uri_encode
 *
 * Memory: all buffers belong to the caller. A request points into the input and into itself; it is
 * valid as long as both are, and must not be copied while meta.key or binary.error are in use.
 * Returned texts are literals. Writers return the bytes written and cannot fail: `out` must have
 * the room that each names; a longer key or an enumerator out of range is a failed assertion.
 *
 * Sources of the rules: protocol.txt of memcached and the behaviour of version 1.6.45 on the wire;
 * docs/protocol.md lists the differences.
 */
#ifndef MCPROTO_MCPROTO_H
#define MCPROTO_MCPROTO_H

#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header, by semantic versioning; equal to the version of the project. */
#define MC_VERSION_MAJOR 0
#define MC_VERSION_MINOR 1
#define MC_VERSION_PATCH 0
#define MC_VERSION_STRING "0.1.0"

#define MC_KEY_MAX 250

/*
 * The longest input without a line end that may still become a request; longer input is
 * MC_MALFORMED with `close` and no error. The retrieval commands have a higher limit, since only
 * that bounds their number of keys. (memcached exempts get and gets but not gat and gats.)
 * A complete line may have any length.
 */
#define MC_LINE_MAX 2048
#define MC_KEYS_LINE_MAX (32 * 1024 * 1024)

/* Largest <bytes> that a storage command may announce. */
#define MC_VALUE_MAX 2147483645

/* Which protocol a connection or a datagram speaks. */
enum mc_protocol { MC_PROTOCOL_TEXT = 0, MC_PROTOCOL_BINARY = 1 };

/* Returns the protocol that a first byte announces; it holds until the end of the connection. */
enum mc_protocol mc_protocol_detect(u_u8 first_byte);

enum mc_command {
    MC_CMD_NONE = 0, /* not a command */
    MC_CMD_GET,
    MC_CMD_GETS,
    MC_CMD_GAT,
    MC_CMD_GATS,

    /* These have a value. */
    MC_CMD_SET,
    MC_CMD_ADD,
    MC_CMD_REPLACE,
    MC_CMD_APPEND,
    MC_CMD_PREPEND,
    MC_CMD_CAS,
    MC_CMD_MS, /* meta set */

    MC_CMD_DELETE,
    MC_CMD_INCR,
    MC_CMD_DECR,
    MC_CMD_TOUCH,

    MC_CMD_MG, /* meta get */
    MC_CMD_MD, /* meta delete */
    MC_CMD_MA, /* meta arithmetic */
    MC_CMD_ME, /* meta debug */
    MC_CMD_MN, /* meta no-op */

    MC_CMD_FLUSH_ALL,
    MC_CMD_VERSION,
    MC_CMD_VERBOSITY,
    MC_CMD_STATS,
    MC_CMD_QUIT,
    MC_CMD_NOOP, /* binary only */

    /* Administrative commands: `args` is what follows the name. */
    MC_CMD_CACHE_MEMLIMIT,
    MC_CMD_SLABS,
    MC_CMD_LRU,
    MC_CMD_LRU_CRAWLER,
    MC_CMD_WATCH,
    MC_CMD_SHUTDOWN,
    MC_CMD_REFRESH_CERTS,
    MC_CMD_EXTSTORE,
    MC_CMD_MISBEHAVE,
    MC_CMD_DEBUGTIME,
    MC_CMD_DEBUGITEM,
    MC_CMD_CONFIG /* of auto-discovery, not memcached's */
};

enum mc_outcome {
    MC_MORE = 0,     /* not complete yet */
    MC_REQUEST = 1,  /* a well-formed request */
    MC_MALFORMED = 2 /* complete (or given up), and gets an error */
};

/* ---- meta requests ----------------------------------------------------------------------- */

/* The flags of a meta request, with their letters. */
enum mc_meta_flag {
    MC_META_KEY_BASE64 = 1 << 0,     /* b: the key of the line is base64 */
    MC_META_RETURN_CAS = 1 << 1,     /* c */
    MC_META_COMPARE_CAS = 1 << 2,    /* C */
    MC_META_DELTA = 1 << 3,          /* D */
    MC_META_NEW_CAS = 1 << 4,        /* E */
    MC_META_RETURN_FLAGS = 1 << 5,   /* f */
    MC_META_SET_FLAGS = 1 << 6,      /* F */
    MC_META_RETURN_HIT = 1 << 7,     /* h: whether it was hit before */
    MC_META_INVALIDATE = 1 << 8,     /* I */
    MC_META_INITIAL = 1 << 9,        /* J */
    MC_META_RETURN_KEY = 1 << 10,    /* k */
    MC_META_RETURN_ACCESS = 1 << 11, /* l: seconds since the last access */
    MC_META_MODE = 1 << 12,          /* M */
    MC_META_VIVIFY = 1 << 13,        /* N */
    MC_META_OPAQUE = 1 << 14,        /* O */
    MC_META_QUIET = 1 << 15,         /* q */
    MC_META_RECACHE = 1 << 16,       /* R */
    MC_META_RETURN_SIZE = 1 << 17,   /* s */
    MC_META_RETURN_TTL = 1 << 18,    /* t */
    MC_META_SET_TTL = 1 << 19,       /* T */
    MC_META_NO_BUMP = 1 << 20,       /* u: leave no trace of the access */
    MC_META_RETURN_VALUE = 1 << 21,  /* v */
    MC_META_REMOVE_VALUE = 1 << 22,  /* x */
    MC_META_HINT_L = 1 << 23,        /* L, P: for proxies, of no meaning here */
    MC_META_HINT_P = 1 << 24
};

/* The mode that M selects; without M the first one of the command. */
enum mc_meta_mode {
    MC_MODE_SET = 0, /* ms */
    MC_MODE_ADD,
    MC_MODE_APPEND,
    MC_MODE_PREPEND,
    MC_MODE_REPLACE,
    MC_MODE_INCR, /* ma */
    MC_MODE_DECR
};

#define MC_META_FLAGS_MAX 18
#define MC_META_OPAQUE_MAX 31
#define MC_META_KEY_DECODED_MAX 187 /* what 250 characters of base64 can hold */

/*
 * The flags of mg, ms, md, ma and me. Numbers whose flag is not in `has` are zero, delta one.
 * `order` and the last two are what the writers of the reply need.
 */
struct mc_meta {
    u_u32 has; /* MC_META_... bits */
    enum mc_meta_mode mode;
    u_s32 ttl_s;         /* T */
    u_s32 vivify_ttl_s;  /* N */
    u_s32 recache_ttl_s; /* R */
    u_u32 client_flags;  /* F */
    u_u64 compare_cas;   /* C */
    u_u64 new_cas;       /* E */
    u_u64 initial;       /* J */
    u_u64 delta;         /* D */
    const u_u8 *opaque;  /* what follows the O, in the line; null without O */
    u_u32 opaque_len;    /* may be zero with O */
    u_u32 order_len;
    u_u8 order[MC_META_FLAGS_MAX];     /* the letters in the order of the request */
    u_u8 key[MC_META_KEY_DECODED_MAX]; /* with MC_META_KEY_BASE64: the key that req.key shows */
};

/* ---- binary requests --------------------------------------------------------------------- */

#define MC_BINARY_MAGIC_REQUEST 0x80
#define MC_BINARY_MAGIC_REPLY 0x81
#define MC_BINARY_HEADER_BYTES 24

/* Header, extras and key of a request are never longer: so much has to be contiguous. */
#define MC_BINARY_REQUEST_MAX (MC_BINARY_HEADER_BYTES + 20 + MC_KEY_MAX)

/* A request whose body is announced to be longer ends the connection. */
#define MC_BINARY_BODY_MAX 1073741824

/* incr, decr with this exptime create nothing. */
#define MC_BINARY_NO_CREATE 0xffffffffu

/* Status codes as they stand in a header. */
enum mc_binary_status {
    MC_BINARY_OK = 0x00,
    MC_BINARY_NOT_FOUND = 0x01,
    MC_BINARY_EXISTS = 0x02,
    MC_BINARY_TOO_LARGE = 0x03,
    MC_BINARY_INVALID = 0x04,
    MC_BINARY_NOT_STORED = 0x05,
    MC_BINARY_NON_NUMERIC = 0x06,
    MC_BINARY_AUTH_ERROR = 0x20,
    MC_BINARY_AUTH_CONTINUE = 0x21,
    MC_BINARY_UNKNOWN_COMMAND = 0x81,
    MC_BINARY_NO_MEMORY = 0x82
};

#define MC_BINARY_STATUS_MAX (MC_BINARY_HEADER_BYTES + 64) /* no status packet is longer */

/* What a binary request has beyond the fields of the text protocol. */
struct mc_binary {
    u_u8 opcode;     /* as sent; the reply repeats it */
    u_u8 quiet;      /* success, and the miss of a retrieval, are not to be answered */
    u_u8 return_key; /* the reply of a retrieval has the key in it */
    u_u8 opaque[4];  /* repeated as it is */
    u_u32 exptime;   /* set.., incr, touch, gat; flush: the delay. Unsigned, so never negative */
    u_u64 cas;       /* 0: none */
    u_u64 initial;
    u_u8 error[MC_BINARY_HEADER_BYTES + 20]; /* MC_MALFORMED: the packet that req.error shows */
};

/* ---- requests ---------------------------------------------------------------------------- */

/*
 * The command decides which fields are set; the others are zero. Pointers point into the input or
 * into the struct itself (meta.key, binary.error). With MC_MALFORMED only command, line_bytes,
 * noreply and the fields under MC_MALFORMED are set.
 */
struct mc_request {
    enum mc_command command;
    u_u32 line_bytes; /* text: length of the line with its end; binary: of header, extras and key;
                         0 with MC_MORE */
    int noreply;      /* text: no reply may be sent, errors of execution included */

    const u_u8 *key; /* the first key */
    u_u32 key_len;
    const u_u8 *args; /* get, gets, gat, gats: the keys, all of them, for mc_token_next().
                         stats and administration: what follows the command's name, without the
                         spaces before and after it, a noreply included */
    u_u32 args_len;

    u_u32 flags;
    u_s32 exptime;     /* set.., touch, gat, gats; flush_all: the delay (0 without one).
                          Not in binary requests, which have binary.exptime */
    u_u32 value_bytes; /* length of the data block without its CRLF; binary has no CRLF */
    u_u64 cas;         /* cas */
    u_u64 delta;       /* incr, decr */
    u_u32 level;       /* verbosity, as given */

    /* MC_MALFORMED only. */
    const char *error; /* reply with its CRLF; null: none is due */
    u_u32 error_len;
    u_u32 discard_bytes; /* bytes of a data block to skip; memcached sends the error after them */
    int close;           /* end the connection (after the error) */

    /* Set for meta commands only, and by mc_parse_binary() only. */
    struct mc_meta meta;
    struct mc_binary binary;
};

/*
 * Parses one text request at the start of buf: one contiguous line. Returns MC_REQUEST with all
 * fields that the command has, MC_MALFORMED with the error, or MC_MORE. Reads nothing at or after
 * buf + len, writes only *req, does work in proportion to the line. It may be called again on a
 * line that the caller has kept, for instance when the data block has arrived.
 *
 * After MC_MORE the outcome stays MC_MORE until a line feed has arrived, or len exceeds
 * MC_LINE_MAX, or (if it has exceeded that) MC_KEYS_LINE_MAX. A caller that gathers a long line
 * in small pieces should look for the line feed in the new piece only, not parse each time.
 */
enum mc_outcome mc_parse(const u_u8 *buf, u_u32 len, struct mc_request *req);

/*
 * Parses one binary request: header, extras and key, contiguous; req.value_bytes of value follow.
 * Set, add and replace with a binary.cas are conditional stores; the key of stat is in args.
 * Returns MC_MORE until all of it is there, at most MC_BINARY_REQUEST_MAX bytes; MC_MALFORMED as
 * soon as the header is there (for a wrong magic: the first byte); else MC_REQUEST.
 */
enum mc_outcome mc_parse_binary(const u_u8 *buf, u_u32 len, struct mc_request *req);

/*
 * Walks the words of [*at, end), which spaces separate: the keys of a retrieval command (*at starts
 * as req.args, end is req.args + args_len; mc_parse() has checked all of them), the arguments of an
 * administrative one. Returns 1 with the next word and *at behind it, or 0 at the end.
 */
int mc_token_next(const u_u8 **at, const u_u8 *end, const u_u8 **token, u_u32 *token_len);

/* Returns 1 if a word is exactly this text, else 0. */
int mc_token_is(const u_u8 *token, u_u32 token_len, const char *text);

/*
 * Read a word of an administrative command as a number: digits only, after an optional minus if
 * signed, at most 11 characters. Return 1, or 0 and leave *number unchanged.
 */
int mc_token_u32(const u_u8 *token, u_u32 token_len, u_u32 *number);
int mc_token_s32(const u_u8 *token, u_u32 token_len, u_s32 *number);

/* Returns the name of a command in lower case ("get"); "none" for MC_CMD_NONE. */
const char *mc_command_name(enum mc_command command);

/* Returns 1 for the commands that a data block follows, else 0. */
int mc_command_has_value(enum mc_command command);

/* Returns 1 for get, gets, gat, gats, whose `args` are keys, else 0. */
int mc_command_is_retrieval(enum mc_command command);

/* Returns 1 for mg, ms, md, ma, me, which set `meta`, else 0. */
int mc_command_is_meta(enum mc_command command);

/* ---- numbers ----------------------------------------------------------------------------- */

/*
 * Reads the number in a stored value by the rule of incr and decr, which is that of strtoull():
 * blanks and a '+' may precede it, a blank or NUL ends it, anything may follow; 0..2^64-1.
 * Returns 1, or 0 and leaves *number unchanged if it is not a number.
 */
int mc_counter_parse(const u_u8 *value, u_u32 len, u_u64 *number);

#define MC_NUMBER_MAX 20

/* Writes a number in decimal, not terminated; returns its length, at most MC_NUMBER_MAX. */
u_u32 mc_write_u64(u_u8 *out, u_u64 number);

/* ---- text replies ------------------------------------------------------------------------ */

/* Every reply that is one fixed line: X(enumerator, text without CRLF). */
#define MC_STATUS_LIST(X)                                                                          \
    X(MC_STATUS_STORED, "STORED")                                                                  \
    X(MC_STATUS_NOT_STORED, "NOT_STORED")                                                          \
    X(MC_STATUS_EXISTS, "EXISTS")                                                                  \
    X(MC_STATUS_NOT_FOUND, "NOT_FOUND")                                                            \
    X(MC_STATUS_DELETED, "DELETED")                                                                \
    X(MC_STATUS_TOUCHED, "TOUCHED")                                                                \
    X(MC_STATUS_OK, "OK")                                                                          \
    X(MC_STATUS_END, "END")                                                                        \
    X(MC_STATUS_RESET, "RESET")                                                                    \
    X(MC_STATUS_ERROR, "ERROR")                                                                    \
    X(MC_STATUS_BAD_FORMAT, "CLIENT_ERROR bad command line format")                                \
    X(MC_STATUS_BAD_DATA_CHUNK, "CLIENT_ERROR bad data chunk")                                     \
    X(MC_STATUS_BAD_DELTA, "CLIENT_ERROR invalid numeric delta argument")                          \
    X(MC_STATUS_BAD_EXPTIME, "CLIENT_ERROR invalid exptime argument")                              \
    X(MC_STATUS_NON_NUMERIC, "CLIENT_ERROR cannot increment or decrement non-numeric value")       \
    X(MC_STATUS_TOO_LARGE, "SERVER_ERROR object too large for cache")                              \
    X(MC_STATUS_NO_MEMORY_STORING, "SERVER_ERROR out of memory storing object")                    \
    X(MC_STATUS_NO_MEMORY, "SERVER_ERROR out of memory")                                           \
    X(MC_STATUS_NO_MEMORY_NEW, "SERVER_ERROR Out of memory allocating new item")                   \
    X(MC_STATUS_NO_MEMORY_DURING_READ, "SERVER_ERROR Out of memory during read")                   \
    X(MC_STATUS_NO_MEMORY_REQUEST, "SERVER_ERROR out of memory reading request")                   \
    X(MC_STATUS_NO_MEMORY_STATS, "SERVER_ERROR out of memory writing stats")                       \
    X(MC_STATUS_TOO_MANY_CONNECTIONS, "ERROR Too many open connections")                           \
    X(MC_STATUS_FLUSH_NOT_ALLOWED, "CLIENT_ERROR flush_all not allowed")                           \
    X(MC_STATUS_META_NOOP, "MN")                                                                   \
    X(MC_STATUS_META_MISS, "EN")                                                                   \
    X(MC_STATUS_FLAGS_TOO_LONG, "CLIENT_ERROR options flags are too long")                         \
    X(MC_STATUS_INVALID_FLAG, "CLIENT_ERROR invalid flag")                                         \
    X(MC_STATUS_DUPLICATE_FLAG, "CLIENT_ERROR duplicate flag")                                     \
    X(MC_STATUS_BAD_FLAG_OF_MA, "CLIENT_ERROR invalid or duplicate flag")                          \
    X(MC_STATUS_BAD_TOKEN, "CLIENT_ERROR bad token in command line format")                        \
    X(MC_STATUS_BAD_INITIAL, "CLIENT_ERROR invalid numeric initial value")                         \
    X(MC_STATUS_BAD_META_DELTA, "CLIENT_ERROR invalid numeric delta value")                        \
    X(MC_STATUS_OPAQUE_TOO_LONG, "CLIENT_ERROR opaque token too long")                             \
    X(MC_STATUS_BAD_KEY_ENCODING, "CLIENT_ERROR error decoding key")                               \
    X(MC_STATUS_BAD_MODE_OF_MS, "CLIENT_ERROR invalid mode for ms M token")                        \
    X(MC_STATUS_BAD_MODE_OF_MA, "CLIENT_ERROR invalid mode for ma M token")                        \
    X(MC_STATUS_SHUTDOWN_DISABLED, "SERVER_ERROR: shutdown not enabled")                           \
    X(MC_STATUS_SHUTDOWN_BAD_MODE, "CLIENT_ERROR invalid shutdown mode")                           \
    X(MC_STATUS_MEMLIMIT_TOO_SMALL, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m")      \
    X(MC_STATUS_MEMLIMIT_NOT_BYTES, "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes")   \
    X(MC_STATUS_MEMLIMIT_FAILED, "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust")       \
    X(MC_STATUS_REASSIGN_BUSY, "BUSY currently processing reassign request")                       \
    X(MC_STATUS_REASSIGN_BAD_CLASS, "BADCLASS invalid src or dst class id")                        \
    X(MC_STATUS_REASSIGN_NO_SPARE, "NOSPARE source class has no spare pages")                      \
    X(MC_STATUS_REASSIGN_SAME, "SAME src and dst class are identical")                             \
    X(MC_STATUS_REASSIGN_DISABLED, "CLIENT_ERROR slab reassignment disabled")                      \
    X(MC_STATUS_AUTOMOVE_BAD_WINDOW, "CLIENT_ERROR automove window too low or too high")           \
    X(MC_STATUS_LRU_BAD_PERCENT, "ERROR hot and warm pcts must not exceed 80")                     \
    X(MC_STATUS_LRU_BAD_FACTOR, "ERROR hot/warm age factors must be greater than 0")               \
    X(MC_STATUS_CRAWLER_NO_START, "ERROR failed to start lru crawler thread")                      \
    X(MC_STATUS_CRAWLER_NO_STOP, "ERROR failed to stop lru crawler thread")                        \
    X(MC_STATUS_CRAWLER_BAD_SLEEP, "CLIENT_ERROR sleep must be one second or less")                \
    X(MC_STATUS_CRAWLER_BUSY, "BUSY currently processing crawler request")                         \
    X(MC_STATUS_CRAWLER_BAD_CLASS, "BADCLASS invalid class id")                                    \
    X(MC_STATUS_CRAWLER_NO_ITEMS, "NOTSTARTED no items to crawl")                                  \
    X(MC_STATUS_CRAWLER_ERROR, "ERROR an unknown error happened")                                  \
    X(MC_STATUS_CRAWLER_DISABLED, "CLIENT_ERROR lru crawler disabled")                             \
    X(MC_STATUS_METADUMP_NOT_ALLOWED, "ERROR metadump not allowed")                                \
    X(MC_STATUS_MGDUMP_NOT_ALLOWED, "ERROR key dump not allowed")                                  \
    X(MC_STATUS_METADUMP_PIPELINED, "ERROR cannot pipeline other commands before metadump")        \
    X(MC_STATUS_MGDUMP_PIPELINED, "ERROR cannot pipeline other commands before mgdump")            \
    X(MC_STATUS_DUMP_LOCKED, "ERROR locked try again later")                                       \
    X(MC_STATUS_WATCH_PIPELINED, "ERROR cannot pipeline other commands before watch")              \
    X(MC_STATUS_WATCH_NOT_ALLOWED, "CLIENT_ERROR watch commands not allowed")                      \
    X(MC_STATUS_WATCHER_TOO_MANY, "WATCHER_TOO_MANY log watcher limit reached")                    \
    X(MC_STATUS_WATCHER_FAILED, "WATCHER_FAILED failed to add log watcher")                        \
    X(MC_STATUS_DETAIL_USAGE, "CLIENT_ERROR usage: stats detail on|off|dump")                      \
    X(MC_STATUS_DETAIL_NOT_ALLOWED, "CLIENT_ERROR stats detail not allowed")                       \
    X(MC_STATUS_CACHEDUMP_BAD_LINE, "CLIENT_ERROR bad command line")                               \
    X(MC_STATUS_CACHEDUMP_BAD_CLASS, "CLIENT_ERROR Illegal slab id")                               \
    X(MC_STATUS_CACHEDUMP_NOT_ALLOWED, "CLIENT_ERROR stats cachedump not allowed")                 \
    X(MC_STATUS_MISS, "MISS")                                                                      \
    X(MC_STATUS_UNAUTHENTICATED, "CLIENT_ERROR unauthenticated")                                   \
    X(MC_STATUS_AUTH_FAILURE, "CLIENT_ERROR authentication failure")                               \
    X(MC_STATUS_AUTH_BAD_FORMAT, "CLIENT_ERROR bad authentication token format")                   \
    X(MC_STATUS_AUTH_BAD_TERMINATION, "CLIENT_ERROR bad command line termination")                 \
    X(MC_STATUS_AUTH_TOO_LONG, "CLIENT_ERROR auth token too long")                                 \
    X(MC_STATUS_ACCESS_DENIED, "CLIENT_ERROR access denied")

#define MC_STATUS_ENUMERATOR(name, text) name,
enum mc_status { MC_STATUS_LIST(MC_STATUS_ENUMERATOR) MC_STATUS_COUNT };

#define MC_STATUS_MAX 80 /* no status line is longer, CRLF included */

/* Returns the reply line of a status with its CRLF, a literal; *len is its length. */
const char *mc_status_text(enum mc_status status, u_u32 *len);

/* Writes that line to out, which has MC_STATUS_MAX bytes; returns its length. */
u_u32 mc_write_status(u_u8 *out, enum mc_status status);

#define MC_VALUE_HEADER_MAX (6 + MC_KEY_MAX + 1 + 10 + 1 + 10 + 1 + 20 + 2)

/*
 * Writes "VALUE <key> <flags> <bytes>[ <cas>]\r\n", without cas if it is null; out has
 * MC_VALUE_HEADER_MAX bytes. Returns the length. The caller sends the data and its CRLF.
 */
u_u32 mc_write_value_header(u_u8 *out, const u_u8 *key, u_u32 key_len, u_u32 flags,
                            u_u32 value_bytes, const u_u64 *cas);

/* Writes a number and CRLF, at most MC_NUMBER_MAX + 2 bytes; returns the length. */
u_u32 mc_write_number(u_u8 *out, u_u64 number);

/* ---- meta replies ------------------------------------------------------------------------ */

/* The two letters that a meta reply begins with. */
enum mc_meta_code {
    MC_META_HD = 0, /* done; a hit without value */
    MC_META_VA,     /* a value follows */
    MC_META_EN,     /* miss of mg, me */
    MC_META_NF,     /* miss of the others */
    MC_META_NS,     /* not stored */
    MC_META_EX      /* cas mismatch */
};

#define MC_TTL_NONE 0xffffffffu /* does not expire: shown as -1 */

/*
 * The contents of a meta reply. Only the fields that `tells` names are read. The reply has those
 * flags that are both in the request and in `tells`:
 *
 *     mg: a hit all RETURN_ bits but VALUE, and OPAQUE; a miss KEY and OPAQUE
 *     ms: RETURN_KEY, _CAS, _SIZE, OPAQUE      md: RETURN_KEY, OPAQUE
 *     ma: RETURN_KEY, OPAQUE; if there is a number also RETURN_CAS, _TTL
 */
struct mc_meta_reply {
    enum mc_meta_code code;
    u_u32 tells;       /* valid fields: MC_META_RETURN_..., MC_META_OPAQUE bits */
    u_u32 value_bytes; /* VA */

    const u_u8 *key; /* RETURN_KEY: raw, not encoded */
    u_u32 key_len;
    int key_is_binary; /* shown as base64 and followed by " b" */

    u_u32 size;         /* RETURN_SIZE */
    u_u32 client_flags; /* RETURN_FLAGS */
    u_u64 cas;          /* RETURN_CAS */
    u_u32 access_s;     /* RETURN_ACCESS */
    int was_hit;        /* RETURN_HIT */

    /*
     * RETURN_TTL: the seconds that remain, or MC_TTL_NONE. The flags act in their order: a t before
     * the T shows the old one. With `created` N acts like T.
     */
    u_u32 ttl_s;         /* as found, or of an item just created: MC_TTL_NONE */
    u_u32 ttl_set_s;     /* behind a T */
    u_u32 ttl_created_s; /* behind an N */
    int created;

    int won_before; /* Z: another client may recache */
    int is_stale;   /* X */
    int won;        /* W: the client may recache */
};

#define MC_META_LINE_MAX 512

/*
 * Writes the line of a meta reply with its CRLF; out has MC_META_LINE_MAX bytes. Returns its
 * length. The caller sends the data of VA and its CRLF, and nothing at all if q suppresses it.
 */
u_u32 mc_write_meta(u_u8 *out, const struct mc_meta *request, const struct mc_meta_reply *reply);

/* What `me` and the dumps show of an item. */
struct mc_item_info {
    const u_u8 *key; /* raw */
    u_u32 key_len;
    int key_is_binary;
    int expires;
    int fetched;
    u_u32 exptime; /* me: seconds left; metadump: unix time */
    u_u32 access;  /* me: seconds ago; metadump: unix time */
    u_u64 cas;
    u_u32 class_id;
    u_u32 size;  /* in memory, all of it */
    u_u32 flags; /* metadump only */
};

/* Room for any of the next three lines: a key is at most tripled. */
#define MC_ITEM_LINE_MAX (3 * MC_KEY_MAX + 160)

/* "ME <key> exp=... size=...\r\n"; a binary key comes as base64. Returns the length. */
u_u32 mc_write_meta_debug(u_u8 *out, const struct mc_item_info *item);

/* A line of lru_crawler metadump, which ends with a space and a bare LF. Returns the length. */
u_u32 mc_write_metadump(u_u8 *out, const struct mc_item_info *item);

/* A line of lru_crawler mgdump: "mg <key>\r\n" or "mg <base64> b\r\n". Returns the length. */
u_u32 mc_write_mgdump(u_u8 *out, const u_u8 *key, u_u32 key_len, int key_is_binary);

/* ---- binary replies ---------------------------------------------------------------------- */

/* All copy opcode and opaque from the request and return the length of what they wrote. */

/* A header for a body of extras, key and value; writes MC_BINARY_HEADER_BYTES. */
u_u32 mc_write_binary_header(u_u8 *out, const struct mc_binary *request,
                             enum mc_binary_status status, u_u32 extras_len, u_u32 key_len,
                             u_u32 value_bytes, u_u64 cas);

/* Success without a body. Writes MC_BINARY_HEADER_BYTES. */
u_u32 mc_write_binary_done(u_u8 *out, const struct mc_binary *request, u_u64 cas);

/* An error with its text; at most MC_BINARY_STATUS_MAX. */
u_u32 mc_write_binary_error(u_u8 *out, const struct mc_binary *request,
                            enum mc_binary_status status);

/* The same with the caller's text of at most 64 bytes. */
u_u32 mc_write_binary_text(u_u8 *out, const struct mc_binary *request, enum mc_binary_status status,
                           const char *text);

/* The miss of a retrieval, with the key or with a text; at most MC_BINARY_REQUEST_MAX. */
u_u32 mc_write_binary_miss(u_u8 *out, const struct mc_binary *request, const u_u8 *key,
                           u_u32 key_len);

/*
 * The hit of a retrieval, or of touch with value_bytes 0: header, flags, and the key if the request
 * has return_key; at most MC_BINARY_REQUEST_MAX. The caller sends the value.
 */
u_u32 mc_write_binary_value_header(u_u8 *out, const struct mc_binary *request, const u_u8 *key,
                                   u_u32 key_len, u_u32 flags, u_u32 value_bytes, u_u64 cas);

/* The number of incr and decr: MC_BINARY_HEADER_BYTES + 8. */
u_u32 mc_write_binary_number(u_u8 *out, const struct mc_binary *request, u_u64 number, u_u64 cas);

/*
 * Header and name of one statistic; the caller sends the value. Without key and value it ends the
 * list. key_len is at most MC_KEY_MAX.
 */
u_u32 mc_write_binary_stat_header(u_u8 *out, const struct mc_binary *request, const char *key,
                                  u_u32 key_len, u_u32 value_bytes);

/* ---- UDP --------------------------------------------------------------------------------- */

#define MC_UDP_HEADER_BYTES 8
#define MC_UDP_DATAGRAM_MAX 1400 /* of a reply, header included */
#define MC_UDP_PAYLOAD_MAX (MC_UDP_DATAGRAM_MAX - MC_UDP_HEADER_BYTES)

struct mc_udp_frame {
    u_u32 request_id; /* 16 bits each */
    u_u32 sequence;
    u_u32 datagrams; /* of the message */
};

/*
 * Reads the header of a datagram. Returns 1, or 0 if it must be dropped silently: no payload, or
 * part of a request of several datagrams.
 */
int mc_udp_parse(const u_u8 *datagram, u_u32 len, struct mc_udp_frame *frame);

/* Returns how many datagrams a reply takes, at most 65535. */
u_u32 mc_udp_datagrams(u_u32 reply_bytes);

/* Writes a header; returns MC_UDP_HEADER_BYTES. */
u_u32 mc_udp_write(u_u8 *out, const struct mc_udp_frame *frame);

/* ---- encodings --------------------------------------------------------------------------- */

#define MC_BASE64_BYTES(bytes) (((bytes) + 2) / 3 * 4)
#define MC_URI_BYTES(bytes) (3 * (bytes))

/* Writes base64 with padding; out has MC_BASE64_BYTES(len). Returns the length. */
u_u32 mc_base64_encode(u_u8 *out, const u_u8 *in, u_u32 len);

/*
 * Reads base64 as memcached does: skips bytes that are not in the alphabet; the others have to be
 * whole groups of four, of which the first with padding is the last. Writes at most len / 4 * 3
 * bytes; returns how many, 0 if it is empty or not base64.
 */
u_u32 mc_base64_decode(u_u8 *out, const u_u8 *in, u_u32 len);

/*
 * Writes %XX for bytes other than A-Z a-z 0-9 - . _ ~; out has MC_URI_BYTES(len). Returns the
 * length.
 */
u_u32 mc_uri_encode(u_u8 *out, const u_u8 *in, u_u32 len);

#ifdef __cplusplus
}
#endif
#endif
