/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of a peer after the handshake. The input is a list of steps, each a byte and its data: a
 * record with any inner plaintext, its type included, under the right key; bytes in the clear; or a
 * key update. They come in pieces whose length the first byte selects.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../unit/tls/record_peer.h"
#include "check.h"

#define CHECK(holds) check((holds) ? 1 : 0, #holds)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls_key_cache *cache;

enum step { STEP_SEALED = 0, STEP_CLEAR, STEP_UPDATE, STEPS };

/* Answers what is due. Returns false at the end of the connection. */
static bool give(struct tls_records *records, const uint8_t *data, uint32_t len, uint32_t piece)
{
    static uint8_t plain[TLS_PLAIN_ROOM];
    uint8_t record[TLS_MESSAGE_RECORD_MAX];
    struct tls_record_error error;
    enum tls_result result;
    uint32_t at, n, used, plain_len;

    for (at = 0; at < len; at += used) {
        n = piece < len - at ? piece : len - at;
        result = tls_records_read(records, cache, data + at, n, &used, plain, &plain_len, &error);
        CHECK(used > 0 && used <= n && plain_len <= TLS_RECORD_MAX);
        CHECK((result == TLS_DATA) == (plain_len > 0));
        if (result == TLS_FAILED) {
            CHECK(error.alert < 0 || tls_records_alert(records, cache, error.alert, record) > 0);
            return false;
        }
        if (result == TLS_CLOSED)
            return false;
        if (tls_records_update_is_due(records))
            CHECK(tls_records_update(records, cache, record) > 0);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_record_secrets secrets = secrets_of(size % 2 == 0 ? 16 : 32, (size & 2) != 0);
    uint8_t update[] = {24, 0, 0, 1, 0, 22}, record[512];
    struct tls_records *records;
    struct record_peer peer;
    uint32_t piece, len;
    bool open = true;
    size_t at;

    if (size < 2 || size > 65536)
        return 0;
    if (!cache)
        cache = tls_key_cache_open();
    CHECK(cache);
    records = tls_records_open(&secrets);
    CHECK(records);
    record_peer_begin(&peer, secrets.key_len);
    memcpy(peer.secret, secrets.read, sizeof(peer.secret));
    piece = 1u + data[0];
    for (at = 1; at + 2 <= size && open; at += 2 + len) {
        len = data[at + 1] < size - at - 2 ? data[at + 1] : (uint32_t)(size - at - 2);
        switch ((enum step)(data[at] % STEPS)) {
        case STEP_SEALED:
            open = len == 0 || give(records, record,
                                    record_peer_seal(&peer, data + at + 2, len, record), piece);
            break;
        case STEP_CLEAR:
            open = give(records, data + at + 2, len, piece);
            break;
        default:
            update[4] = data[at] >> 7;
            open = give(records, record, record_peer_seal(&peer, update, 6, record), piece);
            CHECK(record_peer_update(&peer));
            break;
        }
    }
    tls_records_close(records, cache);
    return 0;
}
