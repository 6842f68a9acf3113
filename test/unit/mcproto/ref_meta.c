/* SPDX-License-Identifier: BSD-3-Clause */
/* A second reader of meta commands, plain and slow. */
#include "ref_meta.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "CLIENT_ERROR bad command line format\r\n"
#define TOKEN "CLIENT_ERROR bad token in command line format\r\n"

static const char all_flags[] = "bcCDEfFhIJklLMNOPqRstTuvx";

/* Digits only, perhaps a minus; not more than `chars` characters; between min and max. */
static int number(const u_u8 *at, u_u32 len, u_u32 chars, long long min, unsigned long long max,
                  unsigned long long *n)
{
    int minus = min < 0 && len > 0 && at[0] == '-';
    unsigned long long bound = minus ? 0ull - (unsigned long long)min : max;
    unsigned long long sum = 0;
    u_u32 i;

    if (len > chars || len == (u_u32)minus)
        return 0;
    for (i = (u_u32)minus; i < len; i++) {
        unsigned digit = (unsigned)at[i] - '0';
        if (digit > 9 || sum > (bound - digit) / 10)
            return 0;
        sum = sum * 10 + digit;
    }
    *n = minus ? 0ull - sum : sum;
    return 1;
}

static int number_s32(const u_u8 *at, u_u32 len, u_s32 *n)
{
    unsigned long long wide = 0;
    int fits = number(at, len, 11, INT_MIN, INT_MAX, &wide);

    *n = fits ? (u_s32)wide : *n;
    return fits;
}

static int number_u64(const u_u8 *at, u_u32 len, u_u64 *n)
{
    unsigned long long wide = 0;
    int fits = number(at, len, 22, 0, ULLONG_MAX, &wide);

    *n = fits ? wide : *n;
    return fits;
}

/* Bytes that are not of the alphabet have no effect at all. */
static u_u32 decode(const u_u8 *in, u_u32 len, u_u8 *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    char kept[251];
    u_u32 count = 0;
    u_u32 bytes = 0;
    u_u32 i, k;

    for (i = 0; i < len; i++)
        if (in[i] != '\0' && strchr(letters, in[i]) != NULL)
            kept[count++] = (char)in[i];
    if (count % 4 != 0)
        return 0;
    for (i = 0; i < count; i += 4) {
        unsigned long long bits = 0;
        u_u32 padding = 0;
        for (k = 0; k < 4; k++) {
            padding += kept[i + k] == '=';
            bits = bits * 64 + (unsigned long long)((strchr(letters, kept[i + k]) - letters) % 64);
        }
        if (padding > 2)
            return 0;
        for (k = 0; k < 3 - padding; k++)
            out[bytes++] = (u_u8)(bits >> (16 - 8 * k));
        if (padding > 0)
            break;
    }
    return bytes;
}

static int take_key(struct mc_request *req)
{
    req->key_len = decode(req->key, req->key_len, req->meta.key);
    req->key = req->meta.key;
    return req->key_len > 0;
}

/* One good flag; returns what is wrong with its argument, "" if only that something is. */
static const char *argument(u_u8 letter, const u_u8 *at, u_u32 len, struct mc_request *req)
{
    struct mc_meta *meta = &req->meta;
    unsigned long long n = 0;

    if (letter == 'b')
        return take_key(req) ? NULL : "CLIENT_ERROR error decoding key\r\n";
    if (letter == 'T')
        return number_s32(at, len, &meta->ttl_s) ? NULL : TOKEN;
    if (letter == 'N')
        return number_s32(at, len, &meta->vivify_ttl_s) ? NULL : TOKEN;
    if (letter == 'R')
        return number_s32(at, len, &meta->recache_ttl_s) ? NULL : TOKEN;
    if (letter == 'C')
        return number_u64(at, len, &meta->compare_cas) ? NULL : TOKEN;
    if (letter == 'E')
        return number_u64(at, len, &meta->new_cas) ? NULL : TOKEN;
    if (letter == 'J')
        return number_u64(at, len, &meta->initial)
                   ? NULL
                   : "CLIENT_ERROR invalid numeric initial value\r\n";
    if (letter == 'D')
        return number_u64(at, len, &meta->delta) ? NULL
                                                 : "CLIENT_ERROR invalid numeric delta value\r\n";
    if (letter == 'F') {
        int fits = number(at, len, 11, 0, UINT_MAX, &n);
        meta->client_flags = (u_u32)n;
        return fits ? NULL : "";
    }
    if (letter == 'O') {
        meta->opaque = at;
        meta->opaque_len = len;
    }
    return NULL;
}

static const char *flags(const struct words *words, int first, struct mc_request *req)
{
    const char *error = NULL;
    int i;

    if (req->key_len > 250)
        return FORMAT;
    if (words->count > 20)
        return "CLIENT_ERROR options flags are too long\r\n";
    for (i = first; i < words->count; i++) {
        u_u8 letter = words->at[i][0];
        const char *wrong;
        if (memchr(req->meta.order, letter, (size_t)(i - first)) != NULL)
            return "CLIENT_ERROR duplicate flag\r\n";
        if (strchr(all_flags, letter) == NULL)
            return "CLIENT_ERROR invalid flag\r\n";
        req->meta.order[i - first] = letter;
        req->meta.order_len++;
        req->meta.has |= mc_meta_flag_bit(letter);
        wrong = argument(letter, words->at[i] + 1, words->len[i] - 1, req);
        if (wrong != NULL && (error == NULL || wrong[0] != '\0'))
            error = wrong[0] != '\0' ? wrong : FORMAT;
    }
    return error;
}

static const char *mode(const struct words *words, int first, struct mc_request *req)
{
    static const char ms_modes[] = "SEAPR";
    static const char ma_modes[] = "I+D-";
    const char *found = NULL;
    int ma = req->command == MC_CMD_MA;
    int i;

    req->meta.mode = ma ? MC_MODE_INCR : MC_MODE_SET;
    for (i = first; i < words->count; i++) {
        if (words->at[i][0] != 'M' || (!ma && req->command != MC_CMD_MS))
            continue;
        if (words->len[i] > 1 && words->at[i][1] != '\0')
            found = strchr(ma ? ma_modes : ms_modes, words->at[i][1]);
        if (found == NULL)
            return ma ? "CLIENT_ERROR invalid mode for ma M token\r\n"
                      : "CLIENT_ERROR invalid mode for ms M token\r\n";
        if (ma)
            req->meta.mode = found - ma_modes < 2 ? MC_MODE_INCR : MC_MODE_DECR;
        else
            req->meta.mode = (enum mc_meta_mode)(MC_MODE_SET + (found - ms_modes));
    }
    return NULL;
}

static const char *debug(const struct words *words, struct mc_request *req)
{
    if (req->key_len > 250)
        return FORMAT;
    if (words->count > 2 && words->len[2] == 1 && words->at[2][0] == 'b') {
        req->meta.has = MC_META_KEY_BASE64;
        return take_key(req) ? NULL : FORMAT;
    }
    return NULL;
}

const char *ref_meta(const struct words *words, struct mc_request *req)
{
    int first = req->command == MC_CMD_MS ? 3 : 2;
    const char *error;
    unsigned long long n = 0;
    int i;

    for (i = first; i < words->count; i++) {
        u_u8 c = words->at[i][0];
        if (!(c >= 'A' && c <= 'z') && !(c >= '0' && c <= '9'))
            return FORMAT;
    }
    if (first == 3 &&
        (!number(words->at[2], words->len[2], 11, INT_MIN, 2147483645, &n) || (long long)n < 0))
        return FORMAT;
    memset(&req->meta, 0, sizeof req->meta);
    req->meta.delta = 1;
    req->key = words->at[1];
    req->key_len = words->len[1];
    req->value_bytes = (u_u32)n;
    if (req->command == MC_CMD_ME)
        return debug(words, req);
    error = flags(words, first, req);
    if (error != NULL && req->command == MC_CMD_MA)
        error = "CLIENT_ERROR invalid or duplicate flag\r\n";
    if (error == NULL)
        error = mode(words, first, req);
    if (error == NULL && req->meta.opaque_len > 31)
        error = "CLIENT_ERROR opaque token too long\r\n";
    if (error != NULL && first == 3)
        req->discard_bytes = req->value_bytes + 2;
    return error;
}

int ref_meta_same(const struct mc_request *a, const struct mc_request *b)
{
    const struct mc_meta *x = &a->meta;
    const struct mc_meta *y = &b->meta;

    return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0 &&
           (a->key == b->key) == ((x->has & MC_META_KEY_BASE64) == 0) && x->has == y->has &&
           x->mode == y->mode && x->ttl_s == y->ttl_s && x->vivify_ttl_s == y->vivify_ttl_s &&
           x->recache_ttl_s == y->recache_ttl_s && x->client_flags == y->client_flags &&
           x->compare_cas == y->compare_cas && x->new_cas == y->new_cas &&
           x->initial == y->initial && x->delta == y->delta && x->opaque == y->opaque &&
           x->opaque_len == y->opaque_len && x->order_len == y->order_len &&
           memcmp(x->order, y->order, x->order_len) == 0;
}
