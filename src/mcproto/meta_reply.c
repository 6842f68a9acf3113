/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing the replies of the meta commands, and the lines of the dumps. */
#include "base/base.h"
#include "mcproto/mcproto.h"
#include "mcproto/meta_parse.h"
#include "mcproto/write.h"

/* " k<key>", or " k<base64> b" for a binary key. */
static u_u8 *write_key(u_u8 *at, const u_u8 *key, u_u32 len, int is_binary)
{
    U_ASSERT(len <= MC_KEY_MAX);
    if (is_binary) {
        at += mc_base64_encode(at, key, len);
        return mc_append(at, " b", 2);
    }
    u_copy(at, key, len);
    return at + len;
}

static u_u8 *write_ttl(u_u8 *at, u_u32 ttl_s)
{
    return ttl_s == MC_TTL_NONE ? mc_append(at, "-1", 2) : mc_append_number(at, ttl_s);
}

/* The flags that a reply can have. */
#define TELLABLE                                                                                   \
    ((u_u32)MC_META_RETURN_CAS | MC_META_RETURN_FLAGS | MC_META_RETURN_HIT | MC_META_RETURN_KEY |  \
     MC_META_RETURN_ACCESS | MC_META_RETURN_SIZE | MC_META_RETURN_TTL | MC_META_OPAQUE)

/* Writes a space, the flag and its value. */
static u_u8 *write_flag(u_u8 *at, u_u8 letter, const struct mc_meta *request,
                        const struct mc_meta_reply *reply, u_u32 ttl_s)
{
    *at++ = ' ';
    *at++ = letter;
    switch (letter) {
    case 'c':
        return mc_append_number(at, reply->cas);
    case 'f':
        return mc_append_number(at, reply->client_flags);
    case 'h':
        *at = reply->was_hit ? '1' : '0';
        return at + 1;
    case 'k':
        return write_key(at, reply->key, reply->key_len, reply->key_is_binary);
    case 'l':
        return mc_append_number(at, reply->access_s);
    case 's':
        return mc_append_number(at, reply->size);
    case 't':
        return write_ttl(at, ttl_s);
    default:
        U_ASSERT(letter == 'O');
        U_ASSERT(request->opaque_len <= MC_META_OPAQUE_MAX);
        u_copy(at, request->opaque, request->opaque_len);
        return at + request->opaque_len;
    }
}

static u_u8 *write_flags(u_u8 *at, const struct mc_meta *request, const struct mc_meta_reply *reply)
{
    u_u32 tells = reply->tells & TELLABLE;
    u_u32 ttl_s = reply->ttl_s;
    u_u32 i;

    U_ASSERT(request->order_len <= MC_META_FLAGS_MAX);
    for (i = 0; i < request->order_len; i++) {
        u_u8 letter = request->order[i];

        if (mc_meta_flag_bit(letter) & tells)
            at = write_flag(at, letter, request, reply, ttl_s);
        else if (letter == 'T')
            ttl_s = reply->ttl_set_s;
        else if (letter == 'N' && reply->created)
            ttl_s = reply->ttl_created_s;
    }
    return at;
}

u_u32 mc_write_meta(u_u8 *out, const struct mc_meta *request, const struct mc_meta_reply *reply)
{
    static const char codes[][3] = {"HD", "VA", "EN", "NF", "NS", "EX"};
    u_u8 *at;

    U_ASSERT((unsigned)reply->code < U_ARRAY_LEN(codes));
    at = mc_append(out, codes[reply->code], 2);
    if (reply->code == MC_META_VA) {
        *at++ = ' ';
        at = mc_append_number(at, reply->value_bytes);
    }
    at = write_flags(at, request, reply);
    if (reply->won_before)
        at = mc_append(at, " Z", 2);
    if (reply->is_stale)
        at = mc_append(at, " X", 2);
    if (reply->won)
        at = mc_append(at, " W", 2);
    at = mc_append(at, "\r\n", 2);
    return (u_u32)(at - out);
}

/* " cas=... fetch=... cls=... size=...", which `me` and metadump have in common. */
static u_u8 *write_facts(u_u8 *at, const struct mc_item_info *item)
{
    at = mc_append(at, " cas=", 5);
    at = mc_append_number(at, item->cas);
    at = item->fetched ? mc_append(at, " fetch=yes", 10) : mc_append(at, " fetch=no", 9);
    at = mc_append(at, " cls=", 5);
    at = mc_append_number(at, item->class_id);
    at = mc_append(at, " size=", 6);
    return mc_append_number(at, item->size);
}

static u_u8 *write_times(u_u8 *at, const struct mc_item_info *item)
{
    at = mc_append(at, " exp=", 5);
    at = item->expires ? mc_append_number(at, item->exptime) : mc_append(at, "-1", 2);
    at = mc_append(at, " la=", 4);
    return mc_append_number(at, item->access);
}

u_u32 mc_write_meta_debug(u_u8 *out, const struct mc_item_info *item)
{
    u_u8 *at = mc_append(out, "ME ", 3);

    U_ASSERT(item->key_len <= MC_KEY_MAX);
    if (item->key_is_binary) {
        at += mc_base64_encode(at, item->key, item->key_len);
    } else {
        u_copy(at, item->key, item->key_len);
        at += item->key_len;
    }
    at = write_times(at, item);
    at = write_facts(at, item);
    at = mc_append(at, "\r\n", 2);
    return (u_u32)(at - out);
}

u_u32 mc_write_metadump(u_u8 *out, const struct mc_item_info *item)
{
    u_u8 *at = mc_append(out, "key=", 4);

    U_ASSERT(item->key_len <= MC_KEY_MAX);
    at += mc_uri_encode(at, item->key, item->key_len);
    at = write_times(at, item);
    at = write_facts(at, item);
    at = mc_append(at, " flags=", 7);
    at = mc_append_number(at, item->flags);
    at = mc_append(at, " \n", 2);
    return (u_u32)(at - out);
}

u_u32 mc_write_mgdump(u_u8 *out, const u_u8 *key, u_u32 key_len, int key_is_binary)
{
    u_u8 *at = mc_append(out, "mg ", 3);

    at = write_key(at, key, key_len, key_is_binary);
    at = mc_append(at, "\r\n", 2);
    return (u_u32)(at - out);
}
