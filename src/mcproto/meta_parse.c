/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meta protocol: "<name> <key> [<bytes>] <flag>*".
 *
 * memcached checks in two stages, as with the classic commands. The first requires a key, a <bytes>
 * for ms, and a letter or digit as the first character of each flag; its errors skip no data block.
 * The second checks the length of the key, the number of flags and each flag in order: an unknown
 * or repeated flag ends it, a bad argument does not, so the last error is the one that is sent.
 */
#include "mcproto/meta_parse.h"

#include "base/base.h"
#include "mcproto/num.h"
#include "mcproto/tokenize.h"

/* Tokens after the command's name: parsed, and allowed. */
#define META_ARGS_SEEN (MC_TOKENS_MAX - 1)
#define META_ARGS_MAX 19

/* The MC_META_ bits by letter, from A to x; 0: no flag. */
static const u_u32 flag_bits[] = {
    0,      0,       0x4,     0x8,      0x10,     0x40,     0,      0,         /* A-H */
    0x100,  0x200,   0,       0x800000, 0x1000,   0x2000,   0x4000, 0x1000000, /* I-P */
    0,      0x10000, 0,       0x80000,  0,        0,        0,      0,         /* Q-X */
    0,      0,       0,       0,        0,        0,        0,      0,         /* Y-` */
    0,      0x1,     0x2,     0,        0,        0x20,     0,      0x80,      /* a-h */
    0,      0,       0x400,   0x800,    0,        0,        0,      0,         /* i-p */
    0x8000, 0,       0x20000, 0x40000,  0x100000, 0x200000, 0,      0x400000   /* q-x */
};

u_u32 mc_meta_flag_bit(u_u8 letter)
{
    u_u32 i = (u_u32)letter - 'A';

    return i < U_ARRAY_LEN(flag_bits) ? flag_bits[i] : 0;
}

static void meta_clear(struct mc_meta *meta)
{
    meta->has = 0;
    meta->mode = MC_MODE_SET;
    meta->ttl_s = 0;
    meta->vivify_ttl_s = 0;
    meta->recache_ttl_s = 0;
    meta->client_flags = 0;
    meta->compare_cas = 0;
    meta->new_cas = 0;
    meta->initial = 0;
    meta->delta = 1;
    meta->opaque = (const u_u8 *)U_NULL;
    meta->opaque_len = 0;
    meta->order_len = 0;
}

/* The first character of a flag, also of an unknown one. */
static int may_begin_flag(u_u8 byte)
{
    return (byte >= 'A' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

static int decode_key(struct mc_request *req)
{
    req->key_len = mc_base64_decode(req->meta.key, req->key, req->key_len);
    req->key = req->meta.key;
    return req->key_len > 0;
}

static enum mc_status status_unless(int good, enum mc_status otherwise)
{
    return good ? MC_STATUS_OK : otherwise;
}

/* Reads the argument of a flag, if it has one. Returns MC_STATUS_OK or the error. */
static enum mc_status take_argument(const struct mc_token *flag, struct mc_request *req)
{
    struct mc_meta *meta = &req->meta;
    struct mc_token arg;

    arg.at = flag->at + 1;
    arg.end = flag->end;
    switch (*flag->at) {
    case 'b':
        return status_unless(decode_key(req), MC_STATUS_BAD_KEY_ENCODING);
    case 'C':
        return status_unless(mc_num_u64(&arg, &meta->compare_cas), MC_STATUS_BAD_TOKEN);
    case 'D':
        return status_unless(mc_num_u64(&arg, &meta->delta), MC_STATUS_BAD_META_DELTA);
    case 'E':
        return status_unless(mc_num_u64(&arg, &meta->new_cas), MC_STATUS_BAD_TOKEN);
    case 'F':
        return status_unless(mc_num_u32(&arg, &meta->client_flags), MC_STATUS_BAD_FORMAT);
    case 'J':
        return status_unless(mc_num_u64(&arg, &meta->initial), MC_STATUS_BAD_INITIAL);
    case 'N':
        return status_unless(mc_num_s32(&arg, &meta->vivify_ttl_s), MC_STATUS_BAD_TOKEN);
    case 'O':
        meta->opaque = arg.at;
        meta->opaque_len = (u_u32)(arg.end - arg.at);
        return MC_STATUS_OK;
    case 'R':
        return status_unless(mc_num_s32(&arg, &meta->recache_ttl_s), MC_STATUS_BAD_TOKEN);
    case 'T':
        return status_unless(mc_num_s32(&arg, &meta->ttl_s), MC_STATUS_BAD_TOKEN);
    default:
        return MC_STATUS_OK;
    }
}

/* Parses the flags in order. memcached has no error for a bad F: that of another flag stays. */
static enum mc_status take_flags(const struct mc_token *flag, u_u32 count, struct mc_request *req)
{
    struct mc_meta *meta = &req->meta;
    enum mc_status result = MC_STATUS_OK;
    u_u32 i;

    for (i = 0; i < count; i++) {
        u_u8 letter = *flag[i].at;
        u_u32 bit = mc_meta_flag_bit(letter);
        enum mc_status status;

        if (bit == 0)
            return MC_STATUS_INVALID_FLAG;
        if (meta->has & bit)
            return MC_STATUS_DUPLICATE_FLAG;
        meta->has |= bit;
        meta->order[i] = letter;
        status = take_argument(&flag[i], req);
        if (status != MC_STATUS_OK && (status != MC_STATUS_BAD_FORMAT || result == MC_STATUS_OK))
            result = status;
    }
    meta->order_len = count;
    return result;
}

/* Sets the mode of a letter; `letters` are those of `first` and its successors, in order. */
static int find_mode(u_u8 letter, const char *letters, enum mc_meta_mode first,
                     enum mc_meta_mode *mode)
{
    u_u32 i;

    for (i = 0; letters[i] != '\0'; i++) {
        if ((u_u8)letters[i] == letter) {
            *mode = (enum mc_meta_mode)(first + i);
            return 1;
        }
    }
    return 0;
}

/*
 * Only ms and ma use M, and check it when all flags are valid; only the first character of its
 * argument counts.
 */
static enum mc_status take_mode(const struct mc_token *flag, u_u32 count, struct mc_request *req)
{
    struct mc_meta *meta = &req->meta;
    u_u8 letter = 0;
    u_u32 i;

    if (req->command == MC_CMD_MA)
        meta->mode = MC_MODE_INCR;
    if (!(meta->has & MC_META_MODE))
        return MC_STATUS_OK;
    for (i = 0; i < count; i++)
        if (*flag[i].at == 'M' && flag[i].end - flag[i].at > 1)
            letter = flag[i].at[1];
    if (req->command == MC_CMD_MS)
        return status_unless(find_mode(letter, "SEAPR", MC_MODE_SET, &meta->mode),
                             MC_STATUS_BAD_MODE_OF_MS);
    if (req->command == MC_CMD_MA)
        return status_unless(find_mode(letter, "ID", MC_MODE_INCR, &meta->mode) ||
                                 find_mode(letter, "+-", MC_MODE_INCR, &meta->mode),
                             MC_STATUS_BAD_MODE_OF_MA);
    return MC_STATUS_OK;
}

/* The second stage for all commands but me. */
static enum mc_status check_flags(const struct mc_token *flag, u_u32 count, u_u32 args,
                                  struct mc_request *req)
{
    enum mc_status status;

    if (req->key_len > MC_KEY_MAX)
        status = MC_STATUS_BAD_FORMAT;
    else if (args > META_ARGS_MAX)
        status = MC_STATUS_FLAGS_TOO_LONG;
    else
        status = take_flags(flag, count, req);
    if (status != MC_STATUS_OK)
        return req->command == MC_CMD_MA ? MC_STATUS_BAD_FLAG_OF_MA : status;
    status = take_mode(flag, count, req);
    if (status != MC_STATUS_OK)
        return status;
    return status_unless(req->meta.opaque_len <= MC_META_OPAQUE_MAX, MC_STATUS_OPAQUE_TOO_LONG);
}

/* me has one flag, b, directly after the key, and ignores others. */
static enum mc_status check_debug(const struct mc_token *flag, u_u32 count, struct mc_request *req)
{
    if (req->key_len > MC_KEY_MAX)
        return MC_STATUS_BAD_FORMAT;
    if (count == 0 || flag->end - flag->at != 1 || *flag->at != 'b')
        return MC_STATUS_OK;
    req->meta.has = MC_META_KEY_BASE64;
    return status_unless(decode_key(req), MC_STATUS_BAD_FORMAT);
}

enum mc_status mc_meta_parse(const u_u8 *at, const u_u8 *end, struct mc_request *req)
{
    struct mc_token arg[META_ARGS_SEEN];
    u_u32 count = mc_tokens_split(at, end, arg, META_ARGS_SEEN);
    u_u32 first = req->command == MC_CMD_MS ? 2 : 1;
    enum mc_status status;
    u_s32 bytes = 0;
    u_u32 i;

    if (count < first)
        return MC_STATUS_BAD_FORMAT;
    for (i = first; i < count; i++)
        if (!may_begin_flag(*arg[i].at))
            return MC_STATUS_BAD_FORMAT;
    if (first == 2 && (!mc_num_s32(&arg[1], &bytes) || bytes < 0 || bytes > MC_VALUE_MAX))
        return MC_STATUS_BAD_FORMAT;

    meta_clear(&req->meta);
    req->key = arg[0].at;
    req->key_len = (u_u32)(arg[0].end - arg[0].at);
    req->value_bytes = (u_u32)bytes;
    if (req->command == MC_CMD_ME)
        return check_debug(arg + first, count - first, req);
    status = check_flags(arg + first, count - first, count, req);
    if (status != MC_STATUS_OK && req->command == MC_CMD_MS)
        req->discard_bytes = req->value_bytes + 2;
    return status;
}
