/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing binary packets. */
#include "mcproto/binary_header.h"

#include "base/base.h"

struct status_text {
    enum mc_binary_status status;
    const char *text;
};

static const struct status_text status_texts[] = {
    {MC_BINARY_NOT_FOUND, "Not found"},
    {MC_BINARY_EXISTS, "Data exists for key."},
    {MC_BINARY_TOO_LARGE, "Too large."},
    {MC_BINARY_INVALID, "Invalid arguments"},
    {MC_BINARY_NOT_STORED, "Not stored."},
    {MC_BINARY_NON_NUMERIC, "Non-numeric server-side value for incr or decr"},
    {MC_BINARY_AUTH_ERROR, "Auth failure."},
    {MC_BINARY_UNKNOWN_COMMAND, "Unknown command"},
    {MC_BINARY_NO_MEMORY, "Out of memory"},
};

u_u32 mc_write_binary_header(u_u8 *out, const struct mc_binary *request,
                             enum mc_binary_status status, u_u32 extras_len, u_u32 key_len,
                             u_u32 value_bytes, u_u64 cas)
{
    struct mc_binary_header header;

    header.magic = MC_BINARY_MAGIC_REPLY;
    header.opcode = request->opcode;
    header.key_len = u_be16(key_len);
    header.extras_len = (u_u8)extras_len;
    header.data_type = 0;
    header.status = u_be16((unsigned)status);
    header.body_len = u_be32(extras_len + key_len + value_bytes);
    u_copy(header.opaque, request->opaque, sizeof(header.opaque));
    header.cas = mc_be64(cas);
    u_copy(out, &header, sizeof(header));
    return sizeof(header);
}

u_u32 mc_write_binary_done(u_u8 *out, const struct mc_binary *request, u_u64 cas)
{
    return mc_write_binary_header(out, request, MC_BINARY_OK, 0, 0, 0, cas);
}

u_u32 mc_write_binary_text(u_u8 *out, const struct mc_binary *request, enum mc_binary_status status,
                           const char *text)
{
    u_u32 len = 0;
    u_u32 header_len;

    while (text[len] != '\0')
        len++;
    U_ASSERT(len <= MC_BINARY_STATUS_MAX - MC_BINARY_HEADER_BYTES);
    header_len = mc_write_binary_header(out, request, status, 0, 0, len, 0);
    u_copy(out + header_len, text, len);
    return header_len + len;
}

u_u32 mc_write_binary_error(u_u8 *out, const struct mc_binary *request,
                            enum mc_binary_status status)
{
    u_u32 i = 0;

    while (status_texts[i].status != status) {
        i++;
        U_ASSERT(i < U_ARRAY_LEN(status_texts));
    }
    return mc_write_binary_text(out, request, status, status_texts[i].text);
}

u_u32 mc_write_binary_miss(u_u8 *out, const struct mc_binary *request, const u_u8 *key,
                           u_u32 key_len)
{
    u_u32 header_len;

    U_ASSERT(key_len <= MC_KEY_MAX);
    if (!request->return_key)
        return mc_write_binary_error(out, request, MC_BINARY_NOT_FOUND);
    header_len = mc_write_binary_header(out, request, MC_BINARY_NOT_FOUND, 0, key_len, 0, 0);
    u_copy(out + header_len, key, key_len);
    return header_len + key_len;
}

u_u32 mc_write_binary_value_header(u_u8 *out, const struct mc_binary *request, const u_u8 *key,
                                   u_u32 key_len, u_u32 flags, u_u32 value_bytes, u_u64 cas)
{
    struct u_be32 extras = u_be32(flags);
    u_u8 *at = out;

    U_ASSERT(key_len <= MC_KEY_MAX);
    if (!request->return_key)
        key_len = 0;
    at += mc_write_binary_header(at, request, MC_BINARY_OK, sizeof(extras), key_len, value_bytes,
                                 cas);
    u_copy(at, &extras, sizeof(extras));
    at += sizeof(extras);
    u_copy(at, key, key_len);
    return (u_u32)(at - out) + key_len;
}

u_u32 mc_write_binary_number(u_u8 *out, const struct mc_binary *request, u_u64 number, u_u64 cas)
{
    struct mc_be64 value = mc_be64(number);
    u_u32 header_len = mc_write_binary_header(out, request, MC_BINARY_OK, 0, 0, sizeof(value), cas);

    u_copy(out + header_len, &value, sizeof(value));
    return header_len + (u_u32)sizeof(value);
}

u_u32 mc_write_binary_stat_header(u_u8 *out, const struct mc_binary *request, const char *key,
                                  u_u32 key_len, u_u32 value_bytes)
{
    u_u32 header_len;

    U_ASSERT(key_len <= MC_KEY_MAX);
    header_len = mc_write_binary_header(out, request, MC_BINARY_OK, 0, key_len, value_bytes, 0);
    u_copy(out + header_len, key, key_len);
    return header_len + key_len;
}
