/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binary protocol: header, extras and key into a struct mc_request.
 *
 * The header alone decides whether a packet is well-formed, so errors are known before the rest has
 * arrived. memcached closes the connection after almost all of them, since the start of the next
 * packet is unknown.
 */
#include "mcproto/binary_header.h"

#include "base/base.h"
#include "mcproto/request.h"

/* The required lengths and contents of a packet. */
enum binary_shape {
    SHAPE_UNKNOWN = 0,
    SHAPE_KEY,    /* key */
    SHAPE_STORE,  /* flags, exptime; key; value */
    SHAPE_CONCAT, /* key; value */
    SHAPE_COUNT,  /* delta, initial, exptime; key */
    SHAPE_TOUCH,  /* exptime; key */
    SHAPE_FLUSH,  /* perhaps exptime */
    SHAPE_STAT,   /* perhaps key */
    SHAPE_EMPTY,
    SHAPE_SASL_LIST, /* refused as by a memcached built without SASL; a server can answer it */
    SHAPE_SASL_AUTH
};

struct opcode {
    u_u8 command; /* enum mc_command */
    u_u8 shape;   /* enum binary_shape */
    u_u8 quiet;
    u_u8 return_key;
};

static const struct opcode opcodes[] = {
    /* 00 Get */ {MC_CMD_GET, SHAPE_KEY, 0, 0},
    /* 01 Set */ {MC_CMD_SET, SHAPE_STORE, 0, 0},
    /* 02 Add */ {MC_CMD_ADD, SHAPE_STORE, 0, 0},
    /* 03 Replace */ {MC_CMD_REPLACE, SHAPE_STORE, 0, 0},
    /* 04 Delete */ {MC_CMD_DELETE, SHAPE_KEY, 0, 0},
    /* 05 Increment */ {MC_CMD_INCR, SHAPE_COUNT, 0, 0},
    /* 06 Decrement */ {MC_CMD_DECR, SHAPE_COUNT, 0, 0},
    /* 07 Quit */ {MC_CMD_QUIT, SHAPE_EMPTY, 0, 0},
    /* 08 Flush */ {MC_CMD_FLUSH_ALL, SHAPE_FLUSH, 0, 0},
    /* 09 GetQ */ {MC_CMD_GET, SHAPE_KEY, 1, 0},
    /* 0a Noop */ {MC_CMD_NOOP, SHAPE_EMPTY, 0, 0},
    /* 0b Version */ {MC_CMD_VERSION, SHAPE_EMPTY, 0, 0},
    /* 0c GetK */ {MC_CMD_GET, SHAPE_KEY, 0, 1},
    /* 0d GetKQ */ {MC_CMD_GET, SHAPE_KEY, 1, 1},
    /* 0e Append */ {MC_CMD_APPEND, SHAPE_CONCAT, 0, 0},
    /* 0f Prepend */ {MC_CMD_PREPEND, SHAPE_CONCAT, 0, 0},
    /* 10 Stat */ {MC_CMD_STATS, SHAPE_STAT, 0, 0},
    /* 11 SetQ */ {MC_CMD_SET, SHAPE_STORE, 1, 0},
    /* 12 AddQ */ {MC_CMD_ADD, SHAPE_STORE, 1, 0},
    /* 13 ReplaceQ */ {MC_CMD_REPLACE, SHAPE_STORE, 1, 0},
    /* 14 DeleteQ */ {MC_CMD_DELETE, SHAPE_KEY, 1, 0},
    /* 15 IncrementQ */ {MC_CMD_INCR, SHAPE_COUNT, 1, 0},
    /* 16 DecrementQ */ {MC_CMD_DECR, SHAPE_COUNT, 1, 0},
    /* 17 QuitQ */ {MC_CMD_QUIT, SHAPE_EMPTY, 1, 0},
    /* 18 FlushQ */ {MC_CMD_FLUSH_ALL, SHAPE_FLUSH, 1, 0},
    /* 19 AppendQ */ {MC_CMD_APPEND, SHAPE_CONCAT, 1, 0},
    /* 1a PrependQ */ {MC_CMD_PREPEND, SHAPE_CONCAT, 1, 0},
    /* 1b Verbosity */ {MC_CMD_NONE, SHAPE_UNKNOWN, 0, 0},
    /* 1c Touch */ {MC_CMD_TOUCH, SHAPE_TOUCH, 0, 0},
    /* 1d GAT */ {MC_CMD_GAT, SHAPE_TOUCH, 0, 0},
    /* 1e GATQ */ {MC_CMD_GAT, SHAPE_TOUCH, 1, 0},
    /* 1f */ {MC_CMD_NONE, SHAPE_UNKNOWN, 0, 0},
    /* 20 SASL list mechs */ {MC_CMD_NONE, SHAPE_SASL_LIST, 0, 0},
    /* 21 SASL auth */ {MC_CMD_NONE, SHAPE_SASL_AUTH, 0, 0},
    /* 22 SASL step */ {MC_CMD_NONE, SHAPE_SASL_AUTH, 0, 0},
    /* 23 GATK */ {MC_CMD_GAT, SHAPE_TOUCH, 0, 1},
    /* 24 GATKQ */ {MC_CMD_GAT, SHAPE_TOUCH, 1, 1},
};

/* The lengths of the parts of a packet. */
struct lengths {
    u_u32 extras;
    u_u32 key;
    u_u32 body; /* with extras and key */
};

enum mc_protocol mc_protocol_detect(u_u8 first_byte)
{
    return first_byte == MC_BINARY_MAGIC_REQUEST ? MC_PROTOCOL_BINARY : MC_PROTOCOL_TEXT;
}

static const struct opcode *opcode_find(u_u8 code)
{
    static const struct opcode unknown = {MC_CMD_NONE, SHAPE_UNKNOWN, 0, 0};

    return code < U_ARRAY_LEN(opcodes) ? &opcodes[code] : &unknown;
}

static int lengths_fit(enum binary_shape shape, const struct lengths *len)
{
    u_u32 value = len->body - len->extras - len->key;

    switch (shape) {
    case SHAPE_KEY:
        return len->extras == 0 && len->key > 0 && value == 0;
    case SHAPE_STORE:
        return len->extras == 8 && len->key > 0;
    case SHAPE_CONCAT:
    case SHAPE_SASL_AUTH:
        return len->extras == 0 && len->key > 0;
    case SHAPE_COUNT:
        return len->extras == 20 && len->key > 0 && value == 0;
    case SHAPE_TOUCH:
        return len->extras == 4 && len->key > 0 && value == 0;
    case SHAPE_FLUSH:
        return (len->extras == 0 || len->extras == 4) && len->key == 0 && value == 0;
    case SHAPE_STAT:
        return len->extras == 0 && value == 0;
    case SHAPE_EMPTY:
    case SHAPE_SASL_LIST:
        return len->body == 0;
    case SHAPE_UNKNOWN:
        break;
    }
    return 1;
}

static enum mc_outcome refuse_packet(struct mc_request *req, enum mc_binary_status status,
                                     u_u32 discard_bytes, int close)
{
    req->line_bytes = MC_BINARY_HEADER_BYTES;
    req->error_len = mc_write_binary_error(req->binary.error, &req->binary, status);
    req->error = (const char *)req->binary.error;
    req->discard_bytes = discard_bytes;
    req->close = close;
    return MC_MALFORMED;
}

/* MC_REQUEST if the header is that of a request, in memcached's order of checks. */
static enum mc_outcome check_header(struct mc_request *req, enum binary_shape shape,
                                    const struct lengths *len)
{
    if (len->body > MC_BINARY_BODY_MAX)
        return refuse_packet(req, MC_BINARY_INVALID, 0, 1);
    if (len->key + len->extras > len->body)
        return refuse_packet(req, MC_BINARY_UNKNOWN_COMMAND, 0, 1);
    if (len->key > MC_KEY_MAX || !lengths_fit(shape, len))
        return refuse_packet(req, MC_BINARY_INVALID, 0, 1);
    if (shape == SHAPE_UNKNOWN || shape >= SHAPE_SASL_LIST)
        return refuse_packet(req, MC_BINARY_UNKNOWN_COMMAND, len->body, 0);
    return MC_REQUEST;
}

static u_u32 read_u32(const u_u8 *at)
{
    struct u_be32 v;

    u_copy(&v, at, sizeof(v));
    return u_get_be32(v);
}

static u_u64 read_u64(const u_u8 *at)
{
    return (u_u64)read_u32(at) << 32 | read_u32(at + 4);
}

static void read_extras(const u_u8 *at, enum binary_shape shape, u_u32 extras_len,
                        struct mc_request *req)
{
    switch (shape) {
    case SHAPE_STORE:
        req->flags = read_u32(at);
        req->binary.exptime = read_u32(at + 4);
        break;
    case SHAPE_COUNT:
        req->delta = read_u64(at);
        req->binary.initial = read_u64(at + 8);
        req->binary.exptime = read_u32(at + 16);
        break;
    case SHAPE_TOUCH:
    case SHAPE_FLUSH:
        if (extras_len == 4)
            req->binary.exptime = read_u32(at);
        break;
    default:
        break;
    }
}

/* Stat has words as in the text protocol, all others a key. */
static void take_binary_key(const u_u8 *key, u_u32 key_len, struct mc_request *req)
{
    if (req->command != MC_CMD_STATS && key_len > 0) {
        req->key = key;
        req->key_len = key_len;
    }
    if (mc_command_is_retrieval(req->command) || req->command == MC_CMD_STATS) {
        req->args = key;
        req->args_len = key_len;
    }
}

enum mc_outcome mc_parse_binary(const u_u8 *buf, u_u32 len, struct mc_request *req)
{
    struct mc_binary_header header;
    const struct opcode *opcode;
    struct lengths lengths;
    u_u32 before_value;

    mc_request_clear(req);
    if (len > 0 && buf[0] != MC_BINARY_MAGIC_REQUEST) {
        req->line_bytes = 1;
        req->close = 1;
        return MC_MALFORMED;
    }
    if (len < sizeof(header))
        return MC_MORE;
    u_copy(&header, buf, sizeof(header));
    opcode = opcode_find(header.opcode);
    lengths.extras = header.extras_len;
    lengths.key = u_get_be16(header.key_len);
    lengths.body = u_get_be32(header.body_len);

    req->binary.opcode = header.opcode;
    req->binary.quiet = opcode->quiet;
    req->binary.return_key = opcode->return_key;
    u_copy(req->binary.opaque, header.opaque, sizeof(header.opaque));
    req->binary.cas = mc_get_be64(header.cas);
    req->binary.exptime = 0;
    req->binary.initial = 0;
    if (check_header(req, (enum binary_shape)opcode->shape, &lengths) != MC_REQUEST)
        return MC_MALFORMED;

    before_value = MC_BINARY_HEADER_BYTES + lengths.extras + lengths.key;
    if (len < before_value)
        return MC_MORE;
    req->command = (enum mc_command)opcode->command;
    req->line_bytes = before_value;
    req->value_bytes = lengths.body - lengths.extras - lengths.key;
    buf += MC_BINARY_HEADER_BYTES;
    read_extras(buf, (enum binary_shape)opcode->shape, lengths.extras, req);
    take_binary_key(buf + lengths.extras, lengths.key, req);
    return MC_REQUEST;
}
