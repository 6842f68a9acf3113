/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record layer of TLS 1.3: the examples of RFC 8448, both libraries against each other, records
 * cut at every byte, and everything that a peer must not send.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/prng.h"
#include "record_peer.h"

#define ROOM (TLS_RECORD_MAX + 512)

/* ---- ends of a connection ---------------------------------------------------------------- */

struct end {
    struct tls_key_cache *cache;
    struct tls_records *records;
    uint8_t got[4 * TLS_RECORD_MAX]; /* plaintext */
    uint32_t got_len;
    enum tls_result result;
    struct tls_record_error error;
};

static struct end *end_open(const struct tls_aead *aead, const struct tls_record_secrets *secrets)
{
    struct end *end = calloc(1, sizeof(*end));

    assert_non_null(end);
    end->cache = tls_key_cache_new(aead);
    assert_non_null(end->cache);
    end->records = tls_records_open(secrets);
    assert_non_null(end->records);
    return end;
}

static struct end *end_of(uint32_t key_len, bool is_client)
{
    struct tls_record_secrets secrets = secrets_of(key_len, is_client);

    return end_open(tls_aead_best(), &secrets);
}

static void end_close(struct end *end)
{
    tls_records_close(end->records, end->cache);
    tls_key_cache_close(end->cache);
    free(end);
}

/* Gives it bytes, `step` at a time, each piece in memory of its own. */
static void give(struct end *end, const uint8_t *data, uint32_t len, uint32_t step)
{
    uint8_t plain[TLS_PLAIN_ROOM];
    uint32_t at, chunk, used = 0, plain_len;

    end->result = TLS_MORE;
    for (at = 0; at < len && (end->result == TLS_MORE || end->result == TLS_DATA); at += used) {
        uint8_t *piece;

        chunk = step < len - at ? step : len - at;
        piece = malloc(chunk);
        assert_non_null(piece);
        memcpy(piece, data + at, chunk);
        end->result = tls_records_read(end->records, end->cache, piece, chunk, &used, plain,
                                       &plain_len, &end->error);
        free(piece);
        assert_true(used > 0 && used <= chunk);
        assert_int_equal(end->result == TLS_DATA, plain_len > 0);
        assert_true(end->got_len + plain_len <= sizeof(end->got));
        memcpy(end->got + end->got_len, plain, plain_len);
        end->got_len += plain_len;
    }
}

/* Seals bytes of this value. */
static uint32_t seal(struct end *end, uint8_t *record, uint8_t value, uint32_t len)
{
    uint32_t sealed;

    memset(record + TLS_RECORD_HEADER, value, len);
    sealed = tls_records_seal(end->records, end->cache, record, len);
    assert_int_equal(sealed, len + TLS_RECORD_OVERHEAD);
    return sealed;
}

/* ---- RFC 8448 ---------------------------------------------------------------------------- */

static uint32_t from_hex(const char *hex, uint8_t *to)
{
    uint32_t n = 0;
    unsigned value;

    for (; *hex; hex += 2) {
        assert_int_equal(sscanf(hex, "%2x", &value), 1);
        to[n++] = (uint8_t)value;
    }
    return n;
}

/* Section 3: the traffic after the handshake. The server's first record is a ticket. */
static const char client_secret[] =
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
static const char server_secret[] =
    "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";
static const char client_data[] =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a"
    "20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
static const char server_data[] =
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb"
    "501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d";
static const char client_alert[] = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3";
static const char server_alert[] = "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9";

static void test_examples(void **state)
{
    const struct tls_aead *aeads[] = {&tls_aead_evp, tls_aead_best()};
    struct tls_record_secrets secrets = {.key_len = 16, .written = 1};
    uint8_t record[128], expected[128], data[50];
    struct end *end;
    uint32_t len;
    unsigned i;

    from_hex(client_secret, secrets.read);
    from_hex(server_secret, secrets.write);
    for (i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    for (i = 0; i < 2; i++) {
        end = end_open(aeads[i], &secrets);
        len = from_hex(client_data, record);
        give(end, record, len, len);
        assert_int_equal(end->result, TLS_DATA);
        assert_int_equal(end->got_len, sizeof(data));
        assert_memory_equal(end->got, data, sizeof(data));
        memcpy(record + TLS_RECORD_HEADER, data, sizeof(data));
        len = tls_records_seal(end->records, end->cache, record, sizeof(data));
        assert_int_equal(len, from_hex(server_data, expected));
        assert_memory_equal(record, expected, len);
        len = from_hex(client_alert, record);
        give(end, record, len, len);
        assert_int_equal(end->result, TLS_CLOSED);
        len = tls_records_alert(end->records, end->cache, 0, record);
        assert_int_equal(len, from_hex(server_alert, expected));
        assert_memory_equal(record, expected, len);
        end_close(end);
    }
}

/* ---- both libraries ---------------------------------------------------------------------- */

static void test_libraries_agree(void **state)
{
    static const uint32_t lens[] = {1, 2, 15, 16, 17, 37, 255, 256, 1000, 4095, 16383, 16384};
    const struct tls_aead *ipsec = tls_aead_ipsec();
    static uint8_t by_evp[ROOM], by_ipsec[ROOM];
    struct tls_record_secrets client, server;
    struct end *a, *b, *reader;
    unsigned i, n;
    uint32_t len;

    if (!ipsec)
        skip();
    for (i = 0; i < 2; i++) {
        client = secrets_of(i == 0 ? 16 : 32, true);
        server = secrets_of(i == 0 ? 16 : 32, false);
        a = end_open(&tls_aead_evp, &client);
        b = end_open(ipsec, &client);
        reader = end_open(ipsec, &server);
        for (n = 0; n < sizeof(lens) / sizeof(lens[0]); n++) {
            len = seal(a, by_evp, (uint8_t)n, lens[n]);
            seal(b, by_ipsec, (uint8_t)n, lens[n]);
            assert_memory_equal(by_evp, by_ipsec, len);
            reader->got_len = 0;
            give(reader, by_evp, len, len);
            assert_int_equal(reader->result, TLS_DATA);
            assert_int_equal(reader->got_len, lens[n]);
            assert_int_equal(reader->got[lens[n] - 1], n);
        }
        end_close(a);
        end_close(b);
        end_close(reader);
    }
}

/* ---- a stream ---------------------------------------------------------------------------- */

/* Data, both kinds of key updates, empty records and data again, in pieces of any length. */
static void test_stream_cut_at_every_byte(void **state)
{
    static uint8_t stream[4096];
    uint8_t update[] = {24, 0, 0, 1, 0, 22}, part[] = {24, 0, 22}, rest[] = {0, 1, 1, 22, 0, 0};
    uint8_t data[] = {'d', 'a', 't', 'a', 23}, padded[] = {'x', 23, 0, 0, 0};
    struct record_peer peer;
    struct end *end;
    uint32_t len = 0, step;

    record_peer_begin(&peer, 32);
    len += record_peer_seal(&peer, data, 5, stream + len);
    len += record_peer_seal(&peer, update, 6, stream + len);
    assert_true(record_peer_update(&peer));
    len += record_peer_seal(&peer, padded, 5, stream + len);
    len += record_peer_seal(&peer, "\x17", 1, stream + len); /* empty */
    len += record_peer_seal(&peer, part, 3, stream + len);
    len += record_peer_seal(&peer, rest, 6, stream + len);
    assert_true(record_peer_update(&peer));
    len += record_peer_seal(&peer, "\x01\x5a\x15", 3, stream + len); /* user_canceled */
    len += record_peer_seal(&peer, data, 5, stream + len);
    for (step = 1; step <= len; step++) {
        end = end_of(32, false);
        give(end, stream, len, step);
        assert_int_equal(end->result, TLS_DATA);
        assert_int_equal(end->got_len, 9);
        assert_memory_equal(end->got, "dataxdata", 9);
        assert_true(tls_records_update_is_due(end->records));
        end_close(end);
    }
}

static void test_open_one(void **state)
{
    uint8_t record[128], plain[TLS_PLAIN_ROOM];
    struct end *client = end_of(16, true), *server = end_of(16, false);
    struct record_peer peer;
    uint32_t len, at;

    len = seal(client, record, 'x', 20);
    for (at = 0; at < len; at++) /* a part is none, and what is behind it neither */
        assert_int_equal(tls_records_open_one(server->records, server->cache, record, at, plain),
                         0);
    assert_int_equal(tls_records_open_one(server->records, server->cache, record, len + 1, plain),
                     0);
    for (at = 0; at < len; at++) {
        record[at] ^= 1;
        assert_int_equal(tls_records_open_one(server->records, server->cache, record, len, plain),
                         0);
        record[at] ^= 1;
    }
    assert_int_equal(tls_records_open_one(server->records, server->cache, record, len, plain), 20);
    assert_int_equal(plain[19], 'x');
    /* Messages are not handled, and not lost. */
    record_peer_begin(&peer, 16);
    peer.seq = 1;
    len = record_peer_seal(&peer, "\x18\0\0\1\1\x16", 6, record);
    assert_int_equal(tls_records_open_one(server->records, server->cache, record, len, plain), 0);
    give(server, record, len, len);
    assert_int_equal(server->result, TLS_MORE);
    assert_true(tls_records_update_is_due(server->records));
    /* Nor while a record is incomplete. */
    assert_true(record_peer_update(&peer));
    len = record_peer_seal(&peer, "ab\x17", 3, record);
    give(server, record, 3, 3);
    assert_int_equal(tls_records_open_one(server->records, server->cache, record, len, plain), 0);
    give(server, record + 3, len - 3, len);
    assert_int_equal(server->result, TLS_DATA);
    /* Nor is a record without data. */
    len = record_peer_seal(&peer, "\x17", 1, record);
    assert_int_equal(tls_records_open_one(server->records, server->cache, record, len, plain), 0);
    give(server, record, len, len);
    assert_int_equal(server->result, TLS_MORE);
    end_close(client);
    end_close(server);
}

/* ---- key updates ------------------------------------------------------------------------- */

/* Both ends change their keys when these have protected many records, and understand each other. */
static void test_keys_are_changed_before_their_limit(void **state)
{
    uint8_t record[256], again[256];
    struct end *client = end_of(16, true), *server = end_of(16, false);
    uint32_t len, n;

    client->records->out.seq = server->records->in.seq = TLS_RECORDS_PER_KEY - 1;
    assert_false(tls_records_update_is_due(client->records));
    len = seal(client, record, 'a', 10);
    give(server, record, len, len);
    assert_int_equal(server->result, TLS_DATA);
    assert_true(tls_records_update_is_due(client->records));
    assert_true(tls_records_update_is_due(server->records)); /* to ask for one */
    len = tls_records_update(server->records, server->cache, record);
    assert_true(len > 0);
    assert_false(tls_records_update_is_due(server->records));
    give(client, record, len, len);
    assert_int_equal(client->result, TLS_MORE);
    len = tls_records_update(client->records, client->cache, record);
    assert_false(tls_records_update_is_due(client->records));
    assert_int_equal(client->records->out.seq, 0);
    /* It asks once, whatever else is due before the peer's update has come. */
    n = tls_records_update(server->records, server->cache, again);
    give(client, again, n, n);
    assert_int_equal(client->result, TLS_MORE);
    assert_false(tls_records_update_is_due(client->records));
    assert_false(tls_records_update_is_due(server->records));
    len += seal(client, record + len, 'b', 10);
    give(server, record, len, len);
    assert_int_equal(server->got_len, 20);
    assert_int_equal(server->got[19], 'b');
    assert_false(tls_records_update_is_due(server->records));
    len = seal(server, record, 'c', 10);
    give(client, record, len, len);
    assert_int_equal(client->got_len, 10);
    server->records->in.seq = TLS_RECORDS_PER_KEY; /* and asks again for the next one */
    assert_true(tls_records_update_is_due(server->records));
    /* A peer that never does ends the connection. */
    server->records->in.seq = client->records->out.seq = UINT32_MAX;
    len = seal(client, record, 'a', 10);
    give(server, record, len, len);
    assert_int_equal(server->result, TLS_FAILED);
    end_close(client);
    end_close(server);
}

/* ---- what a peer must not send ----------------------------------------------------------- */

struct bad {
    const char *inner;
    uint32_t len;
    int alert;
};

static void test_bad_messages(void **state)
{
    static const struct bad rows[] = {
        {"\0\0\0", 3, 10},                 /* no type */
        {"x\x14", 2, 10},                  /* change_cipher_spec */
        {"x\x18", 2, 10},                  /* heartbeat */
        {"\x16", 1, 10},                   /* an empty handshake record */
        {"\x01\0\0\x01x\x16", 6, 10},      /* a ClientHello: renegotiation */
        {"\x04\0\0\x01x\x16", 6, 10},      /* a ticket, from a client */
        {"\x18\0\0\x02\0\0\x16", 7, 50},   /* a key update of a wrong length */
        {"\x18\0\0\x01\x02\x16", 6, 47},   /* with a wrong value */
        {"\x18\0\0\x01\0\x18\x16", 7, 10}, /* not at the end of its record */
        {"\x01\x15", 2, 50},               /* half an alert */
        {"\x01\0\0\x15", 4, 50},           /* more than one */
        {"\x02\x28\x15", 3, -1},           /* the peer's handshake_failure */
        {"\x01\x0a\x15", 3, -1},           /* every alert but two is fatal */
    };
    struct record_peer peer;
    uint8_t record[128];
    struct end *end;
    uint32_t len;
    unsigned i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        end = end_of(16, false);
        record_peer_begin(&peer, 16);
        len = record_peer_seal(&peer, rows[i].inner, rows[i].len, record);
        give(end, record, len, len);
        assert_int_equal(end->result, TLS_FAILED);
        assert_int_equal(end->error.alert, rows[i].alert);
        assert_true(strlen(end->error.reason) > 0);
        assert_int_equal(end->got_len, 0);
        end_close(end);
    }
}

/* RFC 8446, 6: an alert that ends the connection for an error is fatal, close_notify a warning. */
static void test_levels_of_alerts(void **state)
{
    enum { DECODE_ERROR = 50 };
    uint8_t notify[TLS_MESSAGE_RECORD_MAX], error[TLS_MESSAGE_RECORD_MAX];
    struct end *end;
    unsigned i;

    for (i = 0; i < 2; i++) { /* each is the first record: both have the same key stream */
        end = end_of(16, false);
        assert_int_equal(tls_records_alert(end->records, end->cache, i == 0 ? 0 : DECODE_ERROR,
                                           i == 0 ? notify : error),
                         TLS_RECORD_OVERHEAD + 2);
        end_close(end);
    }
    assert_int_equal(notify[TLS_RECORD_HEADER] ^ error[TLS_RECORD_HEADER], 1 ^ 2);
    assert_int_equal(notify[TLS_RECORD_HEADER + 1] ^ error[TLS_RECORD_HEADER + 1], DECODE_ERROR);
}

static void test_alerts_of_a_peer_have_words(void **state)
{
    static const struct {
        const char *inner, *words;
    } rows[] = {
        {"\x02\x28\x15", "handshake failure"},
        {"\x02\x74\x15", "certificate required"},
        {"\x02\xff\x15", "unknown alert"},
    };
    struct record_peer peer;
    uint8_t record[128];
    struct end *end;
    uint32_t len;
    unsigned i;

    assert_int_equal(OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL), 1); /* as a context */
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        end = end_of(16, false);
        record_peer_begin(&peer, 16);
        len = record_peer_seal(&peer, rows[i].inner, 3, record);
        give(end, record, len, len);
        assert_int_equal(end->result, TLS_FAILED);
        assert_non_null(strstr(end->error.reason, rows[i].words));
        end_close(end);
    }
}

/* A message that is cut may be followed by its remainder only. */
static void test_interleaved_messages(void **state)
{
    struct end *end = end_of(16, false);
    struct record_peer peer;
    uint8_t record[128], plain[TLS_PLAIN_ROOM];
    uint32_t len;

    record_peer_begin(&peer, 16);
    len = record_peer_seal(&peer, "\x18\0\x16", 3, record);
    give(end, record, len, len);
    len = record_peer_seal(&peer, "x\x17", 2, record);
    assert_int_equal(tls_records_open_one(end->records, end->cache, record, len, plain), 0);
    give(end, record, len, len);
    assert_int_equal(end->result, TLS_FAILED);
    assert_int_equal(end->error.alert, 10);
    end_close(end);
}

static void test_bad_headers(void **state)
{
    static const struct {
        uint8_t header[TLS_RECORD_HEADER];
        int alert;
    } rows[] = {
        {{20, 3, 3, 0, 1}, 10},  /* change_cipher_spec, after the handshake */
        {{21, 3, 3, 0, 2}, 10},  /* an alert in the clear */
        {{22, 3, 3, 0, 40}, 10}, /* a handshake message in the clear */
        {{'g', 'e', 't', ' ', 'k'}, 10},
        {{23, 3, 3, 0, 0}, 20}, /* no room for a type and the tag */
        {{23, 3, 3, 0, 16}, 20},
        {{23, 3, 3, 0x40, 0x12}, 22}, /* one byte more than a record may have */
        {{23, 3, 3, 0xff, 0xff}, 22},
    };
    struct end *end;
    unsigned i;
    uint32_t step;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (step = 1; step <= TLS_RECORD_HEADER; step++) {
            end = end_of(16, false);
            give(end, rows[i].header, TLS_RECORD_HEADER, step);
            assert_int_equal(end->result, TLS_FAILED);
            assert_int_equal(end->error.alert, rows[i].alert);
            end_close(end);
        }
    }
}

/* The longest record that is allowed, and one with more plaintext behind padding of the peer. */
static void test_longest_record(void **state)
{
    uint8_t *inner = calloc(1, ROOM), *record = malloc(ROOM);
    struct record_peer peer;
    struct end *end = end_of(16, false);
    uint32_t len;

    memset(inner, 'v', TLS_RECORD_MAX);
    inner[TLS_RECORD_MAX] = 23;
    record_peer_begin(&peer, 16);
    len = record_peer_seal(&peer, inner, TLS_RECORD_MAX + 1, record);
    give(end, record, len, 1000);
    assert_int_equal(end->result, TLS_DATA);
    assert_int_equal(end->got_len, TLS_RECORD_MAX);
    len = record_peer_seal(&peer, inner, TLS_RECORD_MAX + 2, record);
    give(end, record, len, len);
    assert_int_equal(end->error.alert, 22);
    end_close(end);
    free(inner);
    free(record);
}

/* Data in between, read or opened ahead, lets the count begin anew. */
static void records_without_data_are_bounded(bool opens_ahead)
{
    struct end *end = end_of(16, false);
    uint8_t record[64], plain[TLS_PLAIN_ROOM];
    struct record_peer peer;
    unsigned i;
    uint32_t len;

    record_peer_begin(&peer, 16);
    for (i = 0; i < TLS_EMPTY_RECORDS_MAX; i++) {
        len = record_peer_seal(&peer, "\x17", 1, record);
        give(end, record, len, len);
    }
    len = record_peer_seal(&peer, "x\x17", 2, record);
    if (opens_ahead) {
        assert_int_equal(tls_records_open_one(end->records, end->cache, record, len, plain), 1);
    } else {
        give(end, record, len, len);
        assert_int_equal(end->result, TLS_DATA);
    }
    for (i = 0; i <= TLS_EMPTY_RECORDS_MAX; i++) {
        assert_int_equal(i == 0 ? TLS_MORE : end->result, TLS_MORE);
        len = record_peer_seal(&peer, "\x17", 1, record);
        give(end, record, len, len);
    }
    assert_int_equal(end->result, TLS_FAILED);
    assert_int_equal(end->error.alert, 10);
    end_close(end);
}

static void test_records_without_data_are_bounded(void **state)
{
    records_without_data_are_bounded(false);
    records_without_data_are_bounded(true);
}

/* A client skips tickets, which may be cut, and which may be long. */
static void test_client_skips_tickets(void **state)
{
    static uint8_t inner[TLS_RECORD_MAX + 1];
    struct record_peer peer;
    uint8_t *record = malloc(ROOM);
    struct end *end = end_of(16, true);
    uint32_t len;

    record_peer_begin(&peer, 16);
    memset(peer.secret, 's', sizeof(peer.secret));
    inner[0] = 4; /* of 20,000 bytes */
    inner[2] = 20000 >> 8;
    inner[3] = 20000 & 255;
    inner[TLS_RECORD_MAX] = 22;
    len = record_peer_seal(&peer, inner, TLS_RECORD_MAX + 1, record);
    give(end, record, len, 100);
    assert_int_equal(end->result, TLS_MORE);
    inner[20003 - TLS_RECORD_MAX] = 22;
    len = record_peer_seal(&peer, inner, 20004 - TLS_RECORD_MAX, record);
    give(end, record, len, 100);
    assert_int_equal(end->result, TLS_MORE);
    len = record_peer_seal(&peer, "\0\x16", 2, record); /* its last byte */
    give(end, record, len, 100);
    assert_int_equal(end->result, TLS_MORE);
    len = record_peer_seal(&peer, "ok\x17", 3, record);
    give(end, record, len, 100);
    assert_int_equal(end->result, TLS_DATA);
    end_close(end);
    free(record);
}

/* ---- the cache of keys ------------------------------------------------------------------- */

/* With more keys than entries, one that was used since the last look at it stays. */
static void test_key_in_use_stays_expanded(void **state)
{
    enum { KEYS = TLS_CACHED_KEYS_MAX, NEWER = KEYS / 16 + 1 };
    static struct tls_cached_key keys[KEYS + NEWER];
    static const uint8_t bytes[16];
    struct tls_key_cache *cache = tls_key_cache_open();
    void *first = NULL, *second = NULL;
    unsigned i;

    assert_non_null(cache);
    for (i = 0; i < KEYS; i++)
        assert_non_null(tls_key_cache_get(cache, &keys[i], bytes, sizeof(bytes)));
    first = tls_key_cache_get(cache, &keys[0], bytes, sizeof(bytes));
    second = tls_key_cache_get(cache, &keys[1], bytes, sizeof(bytes));
    /* Each new key takes the entry of the sixteenth that is looked at, as all were used. */
    for (; i < KEYS + NEWER - 1; i++)
        assert_non_null(tls_key_cache_get(cache, &keys[i], bytes, sizeof(bytes)));
    assert_ptr_equal(tls_key_cache_get(cache, &keys[0], bytes, sizeof(bytes)), first);
    assert_ptr_equal(tls_key_cache_get(cache, &keys[i], bytes, sizeof(bytes)), second);
    assert_ptr_equal(tls_key_cache_get(cache, &keys[0], bytes, sizeof(bytes)), first);
    tls_key_cache_close(cache);
    (void)state;
}

static bool copy_expand(void *memory, const uint8_t *key, uint32_t key_len)
{
    memcpy(memory, key, key_len);
    return true;
}

static unsigned cleared;

static void copy_clear(void *memory)
{
    memset(memory, 0, 16);
    cleared++;
}

/* Nothing of a key stays in memory when its connection or the worker has ended. */
static void test_dropped_key_is_cleared(void **state)
{
    static const struct tls_aead copies = {
        .expanded_bytes = TLS_AEAD_ALIGN, .expand = copy_expand, .clear = copy_clear};
    static const uint8_t zeros[16];
    struct tls_key_cache *cache = tls_key_cache_new(&copies);
    struct tls_cached_key key = {0}, other = {0};
    const uint8_t *expanded;
    unsigned before;

    assert_non_null(cache);
    expanded = tls_key_cache_get(cache, &key, (const uint8_t *)"0123456789abcdef", 16);
    assert_memory_equal(expanded, "0123456789abcdef", 16);
    tls_key_cache_drop(cache, &key);
    assert_memory_equal(expanded, zeros, 16);
    /* Its place is the next key's. */
    assert_ptr_equal(tls_key_cache_get(cache, &other, zeros, sizeof(zeros)), expanded);
    before = cleared;
    tls_key_cache_close(cache);
    assert_true(cleared > before);
    (void)state;
}

/* More connections than the cache has room for, used in any order; some end. */
static void test_more_keys_than_the_cache_has(void **state)
{
    enum { ENDS = TLS_CACHED_KEYS_MAX / 2 + 300 };
    struct tls_key_cache *cache = tls_key_cache_open();
    struct tls_records **clients = calloc(ENDS, sizeof(clients[0]));
    struct tls_records **servers = calloc(ENDS, sizeof(servers[0]));
    uint8_t record[64], plain[TLS_PLAIN_ROOM];
    struct tls_record_secrets secrets;
    struct u_prng prng;
    uint32_t i, at;

    u_prng_seed(&prng, 1);
    for (i = 0; i < 20000; i++) {
        at = u_prng_below(&prng, ENDS);
        if (clients[at] && u_prng_below(&prng, 8) == 0) {
            tls_records_close(clients[at], cache);
            tls_records_close(servers[at], cache);
            clients[at] = NULL;
        }
        if (!clients[at]) {
            secrets = secrets_of(at % 2 == 0 ? 16 : 32, true);
            memcpy(secrets.write, &at, sizeof(at));
            clients[at] = tls_records_open(&secrets);
            secrets = secrets_of(at % 2 == 0 ? 16 : 32, false);
            memcpy(secrets.read, &at, sizeof(at));
            servers[at] = tls_records_open(&secrets);
            assert_true(clients[at] && servers[at]);
        }
        memcpy(record + TLS_RECORD_HEADER, &i, sizeof(i));
        assert_int_equal(tls_records_seal(clients[at], cache, record, sizeof(i)), 26);
        tls_records_prefetch(servers[at], cache);
        assert_int_equal(tls_records_open_one(servers[at], cache, record, 26, plain), sizeof(i));
        assert_memory_equal(plain, &i, sizeof(i));
    }
    for (i = 0; i < ENDS; i++) {
        if (!clients[i])
            continue;
        tls_records_close(clients[i], cache);
        tls_records_close(servers[i], cache);
    }
    tls_key_cache_close(cache);
    free(clients);
    free(servers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_libraries_agree),
        cmocka_unit_test(test_stream_cut_at_every_byte),
        cmocka_unit_test(test_open_one),
        cmocka_unit_test(test_keys_are_changed_before_their_limit),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_levels_of_alerts),
        cmocka_unit_test(test_alerts_of_a_peer_have_words),
        cmocka_unit_test(test_interleaved_messages),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_longest_record),
        cmocka_unit_test(test_records_without_data_are_bounded),
        cmocka_unit_test(test_client_skips_tickets),
        cmocka_unit_test(test_key_in_use_stays_expanded),
        cmocka_unit_test(test_dropped_key_is_cleared),
        cmocka_unit_test(test_more_keys_than_the_cache_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
