/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of the meta protocol from the line to the reply: the first bytes of the input choose the
 * command and what the reply says, the rest is what stands behind the command's name.
 *
 *   - the library and the reference parser agree;
 *   - the reply has the flags of the request that it can answer, in their order, and nothing else;
 *   - keys survive base64, and what is read as base64 is written in its proper form.
 */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "mcproto/mcproto.h"
#include "mcproto/meta_parse.h"
#include "ref_parser.h"

enum { FACTS = 24, LINE_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static u_u32 number(const u_u8 *at)
{
    return (u_u32)at[0] << 24 | (u_u32)at[1] << 16 | (u_u32)at[2] << 8 | at[3];
}

static struct mc_meta_reply reply_from(const u_u8 *facts, const struct mc_request *req)
{
    struct mc_meta_reply reply;

    memset(&reply, 0, sizeof reply);
    reply.code = (enum mc_meta_code)(facts[1] % 6);
    reply.tells =
        number(facts + 2) &
        (MC_META_RETURN_CAS | MC_META_RETURN_FLAGS | MC_META_RETURN_HIT | MC_META_RETURN_KEY |
         MC_META_RETURN_ACCESS | MC_META_RETURN_SIZE | MC_META_RETURN_TTL | MC_META_OPAQUE);
    reply.value_bytes = reply.size = number(facts + 6);
    reply.client_flags = reply.access_s = number(facts + 10);
    reply.cas = (u_u64)number(facts + 10) << 32 | number(facts + 14);
    reply.ttl_s = reply.ttl_created_s = number(facts + 18);
    reply.ttl_set_s = MC_TTL_NONE;
    reply.created = facts[22] & 1;
    reply.was_hit = facts[22] & 2;
    reply.won_before = facts[22] & 4;
    reply.is_stale = facts[22] & 8;
    reply.won = facts[22] & 16;
    reply.key = req->key;
    reply.key_len = req->key_len;
    reply.key_is_binary = (req->meta.has & MC_META_KEY_BASE64) != 0;
    return reply;
}

/* The words of a reply line one by one; a word is not empty. */
static const u_u8 *next_word(const u_u8 **at, const u_u8 *end)
{
    const u_u8 *word = *at + 1;

    check(*at < end && **at == ' ', "a space before each word");
    check(word < end && *word != ' ', "one space only");
    for (*at = word; *at < end && **at != ' ';)
        (*at)++;
    return word;
}

static void check_reply(const struct mc_request *req, const struct mc_meta_reply *reply)
{
    u_u8 out[MC_META_LINE_MAX];
    u_u32 len = mc_write_meta(out, &req->meta, reply);
    const u_u8 *at = out + 2;
    const u_u8 *end = out + len - 2;
    u_u32 i;

    check(len >= 4 && len <= sizeof out, "the line fits");
    check(memcmp(end, "\r\n", 2) == 0, "the line ends");
    check(memchr(out, '\n', len) == out + len - 1, "there is one line");
    if (reply->code == MC_META_VA)
        next_word(&at, end);
    for (i = 0; i < req->meta.order_len; i++) {
        u_u8 letter = req->meta.order[i];
        if ((mc_meta_flag_bit(letter) & reply->tells) == 0)
            continue;
        check(*next_word(&at, end) == letter, "the flags in their order");
        if (letter == 'k' && reply->key_is_binary)
            check(*next_word(&at, end) == 'b', "a binary key says so");
    }
    if (reply->won_before)
        check(*next_word(&at, end) == 'Z', "Z");
    if (reply->is_stale)
        check(*next_word(&at, end) == 'X', "X");
    if (reply->won)
        check(*next_word(&at, end) == 'W', "W");
    check(at == end, "nothing else");
}

static void check_key(const struct mc_request *req)
{
    u_u8 text[MC_BASE64_BYTES(MC_KEY_MAX)];
    u_u8 back[sizeof text / 4 * 3];
    u_u8 uri[MC_URI_BYTES(MC_KEY_MAX)];
    u_u32 len = mc_base64_encode(text, req->key, req->key_len);

    check(len == MC_BASE64_BYTES(req->key_len), "length of base64");
    check(mc_base64_decode(back, text, len) == req->key_len, "base64 comes back");
    check(memcmp(back, req->key, req->key_len) == 0, "base64 comes back as it was");
    len = mc_uri_encode(uri, req->key, req->key_len);
    check(len >= req->key_len && len <= sizeof uri, "length of the encoded key");
    check(memchr(uri, ' ', len) == NULL && memchr(uri, '\n', len) == NULL, "it is one word");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char letters[] = "gsdae";
    u_u8 line[LINE_BYTES_MAX];
    struct mc_request req, reference;
    enum mc_outcome outcome;
    size_t rest;

    if (len < FACTS || len - FACTS > sizeof line - 5)
        return 0;
    rest = len - FACTS;
    line[0] = 'm';
    line[1] = (u_u8)letters[data[0] % 5];
    line[2] = ' ';
    memcpy(line + 3, data + FACTS, rest);
    memcpy(line + 3 + rest, "\r\n", 2);
    outcome = mc_parse(line, (u_u32)rest + 5, &req);
    check(outcome == ref_parse(line, (u_u32)rest + 5, &reference), "the outcome");
    check(ref_same(&req, &reference), "the request");
    if (outcome != MC_REQUEST)
        return 0;
    check(req.key_len >= 1 && req.key_len <= MC_KEY_MAX, "length of the key");
    check(req.meta.opaque_len <= MC_META_OPAQUE_MAX, "length of the opaque");
    check_key(&req);
    if (req.command != MC_CMD_ME) {
        struct mc_meta_reply reply = reply_from(data, &req);
        check_reply(&req, &reply);
    }
    return 0;
}
