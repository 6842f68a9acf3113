/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that continue in another process, and their clients, which notice nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "record_peer.h"

#define DATA 23
#define HANDSHAKE 22
#define EMITTED_MAX 65536

static const uint32_t key_lens[] = {16, 32};

/* A server's session, the client that writes to it, and the client's end of what it writes. */
struct pair {
    struct tls_session *session;
    struct tls_key_cache *keys; /* of the session */
    struct record_peer writer;
    struct tls_records *reader;
    struct tls_key_cache *reader_keys;
    uint8_t emitted[EMITTED_MAX];
    uint32_t emitted_len;
    uint8_t plain[TLS_PLAIN_ROOM];
    uint32_t plain_len;
};

static bool emit(void *ctx, const uint8_t *data, uint32_t len)
{
    struct pair *pair = ctx;

    assert_true(pair->emitted_len + len <= EMITTED_MAX);
    memcpy(pair->emitted + pair->emitted_len, data, len);
    pair->emitted_len += len;
    return true;
}

/* The state of a session behind its handshake. */
static struct tls_session_state state_of(uint32_t key_len)
{
    struct tls_record_secrets secrets = secrets_of(key_len, false);
    struct tls_key_cache *keys = tls_key_cache_open();
    struct tls_records *records = tls_records_open(&secrets);
    struct tls_session_state state;
    const uint8_t *input;
    uint32_t len;

    assert_non_null(records);
    assert_true(tls_records_export(records, &state, &input, &len));
    assert_null(input);
    assert_int_equal(len, 0);
    tls_records_close(records, keys);
    tls_key_cache_close(keys);
    return state;
}

static struct pair *pair_open(uint32_t key_len)
{
    struct tls_record_secrets secrets = secrets_of(key_len, true);
    struct tls_session_state state = state_of(key_len);
    struct pair *pair = calloc(1, sizeof(*pair));
    const char *error = NULL;

    assert_non_null(pair);
    pair->keys = tls_key_cache_open();
    pair->reader_keys = tls_key_cache_open();
    pair->reader = tls_records_open(&secrets);
    record_peer_begin(&pair->writer, key_len);
    pair->session = tls_session_import(&state, pair->keys, emit, pair, &error);
    assert_non_null(pair->session);
    assert_true(tls_session_is_established(pair->session) && tls_session_seals(pair->session));
    return pair;
}

static void pair_close(struct pair *pair)
{
    tls_session_close(pair->session);
    tls_key_cache_close(pair->keys);
    tls_records_close(pair->reader, pair->reader_keys);
    tls_key_cache_close(pair->reader_keys);
    free(pair);
}

static enum tls_result give(struct pair *pair, const uint8_t *data, uint32_t len)
{
    uint32_t used;
    enum tls_result result =
        tls_session_read(pair->session, data, len, &used, pair->plain, &pair->plain_len);

    assert_int_equal(used, len);
    return result;
}

/* Another process, with keys of its own, continues. */
static void move(struct pair *pair)
{
    struct tls_key_cache *before = pair->keys;
    struct tls_session *session = pair->session;
    struct tls_session_state state;
    const char *error = NULL;
    const uint8_t *input;
    uint32_t len;

    assert_true(tls_session_export(session, &state, &input, &len));
    pair->keys = tls_key_cache_new(pair->writer.seq % 2 == 0 ? &tls_aead_evp : tls_aead_best());
    pair->session = tls_session_import(&state, pair->keys, emit, pair, &error);
    assert_non_null(pair->session);
    if (len > 0)
        assert_int_equal(give(pair, input, len), TLS_MORE);
    tls_session_close(session);
    tls_key_cache_close(before);
}

/* The client reads all that was emitted; returns the bytes of data. */
static uint32_t read_emitted(struct pair *pair)
{
    struct tls_record_error error;
    uint32_t at = 0, used, len, total = 0;
    enum tls_result result;

    while (at < pair->emitted_len) {
        result = tls_records_read(pair->reader, pair->reader_keys, pair->emitted + at,
                                  pair->emitted_len - at, &used, pair->plain, &len, &error);
        assert_true(result == TLS_MORE || result == TLS_DATA);
        total += len;
        at += used;
    }
    pair->emitted_len = 0;
    return total;
}

static uint32_t seal(struct pair *pair, uint8_t type, const void *data, uint32_t len,
                     uint8_t *record)
{
    uint8_t inner[256];

    memcpy(inner, data, len);
    inner[len] = type;
    return record_peer_seal(&pair->writer, inner, len + 1, record);
}

/* "ping" there and "pong" back. */
static void ping(struct pair *pair)
{
    uint8_t record[256];

    assert_int_equal(give(pair, record, seal(pair, DATA, "ping", 4, record)), TLS_DATA);
    assert_int_equal(pair->plain_len, 4);
    assert_memory_equal(pair->plain, "ping", 4);
    assert_int_equal(tls_session_write(pair->session, (const uint8_t *)"pong", 4), 0);
    assert_int_equal(read_emitted(pair), 4);
}

/* ---- what moves -------------------------------------------------------------------------- */

static void test_records_continue(void **state)
{
    unsigned i, n;

    for (i = 0; i < 2; i++) {
        struct pair *pair = pair_open(key_lens[i]);

        for (n = 0; n < 20; n++) {
            ping(pair);
            if (n % 3 == 2)
                move(pair);
        }
        pair_close(pair);
    }
}

/* A record of which a part has come: the rest comes to the other process. */
static void test_record_in_part(void **state)
{
    struct pair *pair = pair_open(16);
    uint8_t record[256];
    uint32_t len, cut;

    len = seal(pair, DATA, "partial", 7, record);
    assert_int_equal(give(pair, record, len), TLS_DATA);
    for (cut = 1; cut < len; cut++) {
        assert_int_equal(seal(pair, DATA, "partial", 7, record), len);
        assert_int_equal(give(pair, record, cut), TLS_MORE);
        move(pair);
        assert_int_equal(give(pair, record + cut, len - cut), TLS_DATA);
        assert_int_equal(pair->plain_len, 7);
        assert_memory_equal(pair->plain, "partial", 7);
        move(pair);
    }
    ping(pair);
    pair_close(pair);
}

static void test_key_updates_continue(void **state)
{
    static const uint8_t update[] = {24, 0, 0, 1, 1};
    uint8_t record[256];
    unsigned cut, i;

    for (i = 0; i < 2; i++) {
        struct pair *pair = pair_open(key_lens[i]);

        for (cut = 0; cut < sizeof(update); cut++) {
            /* The message in two records, with the move in between; ours answers it. */
            if (cut > 0)
                assert_int_equal(give(pair, record, seal(pair, HANDSHAKE, update, cut, record)),
                                 TLS_MORE);
            move(pair);
            assert_int_equal(
                give(pair, record,
                     seal(pair, HANDSHAKE, update + cut, (uint32_t)sizeof(update) - cut, record)),
                TLS_MORE);
            assert_true(record_peer_update(&pair->writer));
            assert_true(pair->emitted_len > 0);
            move(pair);
            ping(pair);
        }
        pair_close(pair);
    }
}

/* Near the limit of a key the other process asks for an update, and changes its own. */
static void test_limit_of_a_key_continues(void **state)
{
    struct tls_session_state near = state_of(16);
    struct pair *pair = pair_open(16);
    const char *error = NULL;

    near.out_seq = TLS_RECORDS_PER_KEY;
    near.in_seq = TLS_RECORDS_PER_KEY;
    tls_session_close(pair->session);
    pair->session = tls_session_import(&near, pair->keys, emit, pair, &error);
    assert_non_null(pair->session);
    pair->reader->in.seq = TLS_RECORDS_PER_KEY;
    pair->writer.seq = TLS_RECORDS_PER_KEY;
    ping(pair);
    assert_int_equal(pair->reader->in.seq, 1); /* "pong", under another key */
    assert_true(pair->reader->owes_update);
    move(pair); /* it does not ask again */
    ping(pair);
    assert_int_equal(pair->reader->in.seq, 2);
    pair_close(pair);
}

/* A peer cannot begin its count of records without data anew by a move. */
static void test_count_of_empty_records_continues(void **state)
{
    struct pair *pair = pair_open(16);
    uint8_t record[256];
    unsigned i;

    for (i = 0; i < TLS_EMPTY_RECORDS_MAX; i++)
        assert_int_equal(give(pair, record, seal(pair, DATA, "", 0, record)), TLS_MORE);
    move(pair);
    assert_int_equal(give(pair, record, seal(pair, DATA, "", 0, record)), TLS_FAILED);
    pair_close(pair);
}

/* ---- what does not ----------------------------------------------------------------------- */

static void test_sessions_that_stay(void **state)
{
    static const struct tls_client_config config = {0};
    char text[TLS_ERROR_MAX];
    struct tls_context *client = tls_client_open(&config, text);
    struct tls_session_state saved;
    struct pair *pair = pair_open(16);
    struct tls_session *session;
    const uint8_t *input;
    uint32_t len;

    assert_non_null(client);
    session = tls_session_open(client, pair->keys, TLS_PEER_NONE, emit, pair);
    assert_non_null(session);
    assert_false(tls_session_export(session, &saved, &input, &len)); /* no handshake */
    tls_session_close(session);
    tls_context_close(client);
    assert_false(tls_records_export(pair->reader, &saved, &input, &len));
    assert_int_equal(give(pair, (const uint8_t *)"\x16\x03\x03\x00\x20", 5), TLS_FAILED);
    assert_false(tls_session_export(pair->session, &saved, &input, &len));
    pair_close(pair);
}

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        offsetof(struct tls_session_state, name), sizeof(((struct tls_session_state *)0)->name),   \
            value                                                                                  \
    }

static void test_fields_outside_their_range(void **state)
{
    static const struct {
        size_t at, bytes;
        uint32_t value;
    } rows[] = {
        FIELD(magic, 0x3153544c),   FIELD(version, 0),
        FIELD(version, 2),          FIELD(bytes, sizeof(struct tls_session_state) - 1),
        FIELD(bytes, 0xffff),       FIELD(out_seq, TLS_RECORDS_PER_KEY + 1),
        FIELD(out_seq, UINT32_MAX), FIELD(message, 1),
        FIELD(message_len, 4),      FIELD(message_len, 5),
        FIELD(message_len, 255),    FIELD(key_len, 0),
        FIELD(key_len, 24),         FIELD(key_len, 255),
        FIELD(empty_records, 33),   FIELD(owes_update, 2),
        FIELD(has_asked, 2),        FIELD(reserved, 1),
        FIELD(in_secret[32], 1),    FIELD(in_secret[47], 1),
        FIELD(out_secret[32], 1),   FIELD(out_secret[47], 1),
    };
    struct tls_key_cache *keys = tls_key_cache_open();
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        struct tls_session_state saved = state_of(16);
        const char *error = NULL;

        memcpy((uint8_t *)&saved + rows[i].at, &rows[i].value, u_min64(rows[i].bytes, 4));
        assert_null(tls_session_import(&saved, keys, emit, NULL, &error));
        assert_non_null(error);
        assert_true(strlen(error) > 10);
    }
    tls_key_cache_close(keys);
}

/* Any changed byte: refused, or a session that serves on or fails at the client's record. */
static void test_any_changed_byte(void **state)
{
    const char *error = NULL;
    uint8_t record[256];
    unsigned at, served = 0;

    for (at = 0; at < sizeof(struct tls_session_state); at++) {
        struct tls_session_state saved = state_of(32);
        struct pair *pair = pair_open(32);
        struct tls_session *session;
        enum tls_result result;

        ((uint8_t *)&saved)[at] ^= 1;
        session = tls_session_import(&saved, pair->keys, emit, pair, &error);
        assert_true(session || strlen(error) > 10);
        if (session) {
            tls_session_close(pair->session);
            pair->session = session;
            result = give(pair, record, seal(pair, DATA, "ping", 4, record));
            assert_true(result == TLS_DATA || result == TLS_FAILED);
            served += result == TLS_DATA;
        }
        pair_close(pair);
    }
    /* out_seq, three counts and marks, and out_secret: the client notices what does not fit. */
    assert_int_equal(served, 4 + 3 + TLS_STATE_SECRET_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_continue),
        cmocka_unit_test(test_record_in_part),
        cmocka_unit_test(test_key_updates_continue),
        cmocka_unit_test(test_limit_of_a_key_continues),
        cmocka_unit_test(test_count_of_empty_records_continues),
        cmocka_unit_test(test_sessions_that_stay),
        cmocka_unit_test(test_fields_outside_their_range),
        cmocka_unit_test(test_any_changed_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
