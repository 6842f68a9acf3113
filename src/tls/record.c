/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of TLS 1.3; see record.h. Sections are those of RFC 8446. */
#include "tls/record.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum content { CHANGE_CIPHER_SPEC = 20, ALERT = 21, HANDSHAKE = 22, APPLICATION_DATA = 23 };
enum message { NEW_SESSION_TICKET = 4, KEY_UPDATE = 24 };
enum { UPDATE_NOT_REQUESTED = 0, UPDATE_REQUESTED = 1 };
enum { WARNING = 1, FATAL = 2 };

/* The inner plaintext has the type behind the data (5.2). */
#define INNER_MAX (TLS_RECORD_MAX + 1)
#define MESSAGE_HEADER 4

U_STATIC_ASSERT(TLS_RECORD_OVERHEAD == TLS_RECORD_HEADER + 1 + TLS_AEAD_TAG, overhead_of_a_record);
U_STATIC_ASSERT(TLS_PLAIN_ROOM == INNER_MAX, a_record_fits_the_room);

/* A record that comes in pieces: at first its header only. */
struct tls_partial {
    uint32_t have;
    uint32_t want;
    uint8_t bytes[];
};

/* ---- errors ------------------------------------------------------------------------------ */

static const struct tls_record_error no_memory = {SSL_AD_INTERNAL_ERROR, "no memory"};
static const struct tls_record_error bad_tag = {SSL_AD_BAD_RECORD_MAC, "a record was changed"};
static const struct tls_record_error too_long = {SSL_AD_RECORD_OVERFLOW, "a record is too long"};
static const struct tls_record_error not_encrypted = {SSL_AD_UNEXPECTED_MESSAGE,
                                                      "a record is not encrypted"};
static const struct tls_record_error old_key = {SSL_AD_INTERNAL_ERROR,
                                                "the peer has not changed its key"};
static const struct tls_record_error no_type = {SSL_AD_UNEXPECTED_MESSAGE, "a record has no type"};
static const struct tls_record_error wrong_type = {SSL_AD_UNEXPECTED_MESSAGE,
                                                   "a record has a type that is not expected"};
static const struct tls_record_error wrong_message = {SSL_AD_UNEXPECTED_MESSAGE,
                                                      "a handshake message is not expected"};
static const struct tls_record_error cut_message = {SSL_AD_UNEXPECTED_MESSAGE,
                                                    "a handshake message ends at the wrong place"};
static const struct tls_record_error bad_message = {SSL_AD_DECODE_ERROR,
                                                    "a message has the wrong length"};
static const struct tls_record_error bad_update = {SSL_AD_ILLEGAL_PARAMETER,
                                                   "a key update has an unknown value"};
static const struct tls_record_error too_many_empty = {SSL_AD_UNEXPECTED_MESSAGE,
                                                       "too many records without data"};

/* ---- keys -------------------------------------------------------------------------------- */

static uint32_t material_len(uint32_t key_len)
{
    return key_len + tls_secret_len(key_len);
}

static uint8_t *key_of(struct tls_records *records, const struct tls_direction *direction)
{
    return records->material + (direction == &records->out ? material_len(records->key_len) : 0);
}

static uint8_t *secret_of(struct tls_records *records, const struct tls_direction *direction)
{
    return key_of(records, direction) + records->key_len;
}

/* Key and IV of the direction's secret (7.3). */
static bool derive(struct tls_records *records, struct tls_direction *direction)
{
    uint32_t secret_len = tls_secret_len(records->key_len);
    const uint8_t *secret = secret_of(records, direction);

    direction->seq = 0;
    return tls_hkdf_expand_label(secret, secret_len, "key", key_of(records, direction),
                                 records->key_len) &&
           tls_hkdf_expand_label(secret, secret_len, "iv", direction->iv, TLS_AEAD_NONCE);
}

/* The next secret (7.2). */
static bool advance(struct tls_records *records, struct tls_key_cache *cache,
                    struct tls_direction *direction)
{
    uint32_t secret_len = tls_secret_len(records->key_len);
    uint8_t next[TLS_SECRET_MAX];
    bool done;

    done = tls_hkdf_expand_label(secret_of(records, direction), secret_len, "traffic upd", next,
                                 secret_len);
    if (done)
        memcpy(secret_of(records, direction), next, secret_len);
    OPENSSL_cleanse(next, sizeof(next));
    tls_key_cache_drop(cache, &direction->cached);
    return done && derive(records, direction);
}

static size_t records_bytes(uint32_t key_len)
{
    return sizeof(struct tls_records) + 2 * material_len(key_len);
}

static void partial_free(struct tls_records *records)
{
    free(records->partial);
    records->partial = NULL;
}

static void records_free(struct tls_records *records)
{
    partial_free(records);
    OPENSSL_cleanse(records, records_bytes(records->key_len));
    free(records);
}

struct tls_records *tls_records_open(const struct tls_record_secrets *secrets)
{
    struct tls_records *records = calloc(1, records_bytes(secrets->key_len));
    uint32_t secret_len = tls_secret_len(secrets->key_len);

    if (!records)
        return NULL;
    records->key_len = (uint8_t)secrets->key_len;
    records->is_client = secrets->is_client;
    memcpy(secret_of(records, &records->in), secrets->read, secret_len);
    memcpy(secret_of(records, &records->out), secrets->write, secret_len);
    if (!derive(records, &records->in) || !derive(records, &records->out)) {
        records_free(records);
        return NULL;
    }
    records->out.seq = secrets->written;
    return records;
}

void tls_records_close(struct tls_records *records, struct tls_key_cache *cache)
{
    tls_key_cache_drop(cache, &records->in.cached);
    tls_key_cache_drop(cache, &records->out.cached);
    records_free(records);
}

static void *expanded_of(struct tls_records *records, struct tls_key_cache *cache,
                         struct tls_direction *direction)
{
    return tls_key_cache_get(cache, &direction->cached, key_of(records, direction),
                             records->key_len);
}

/* 5.3 */
static void nonce_write(const struct tls_direction *direction, uint8_t nonce[TLS_AEAD_NONCE])
{
    uint32_t seq = direction->seq;
    unsigned i;

    memcpy(nonce, direction->iv, TLS_AEAD_NONCE);
    for (i = TLS_AEAD_NONCE; seq > 0; seq >>= 8)
        nonce[--i] ^= (uint8_t)seq;
}

/* ---- sealing ----------------------------------------------------------------------------- */

static uint32_t seal(struct tls_records *records, struct tls_key_cache *cache, uint8_t *record,
                     uint32_t len, enum content type)
{
    uint32_t inner_len = len + 1, body_len = inner_len + TLS_AEAD_TAG;
    uint8_t nonce[TLS_AEAD_NONCE];
    void *expanded = expanded_of(records, cache, &records->out);

    if (!expanded)
        return 0;
    record[0] = APPLICATION_DATA;
    record[1] = 3;
    record[2] = 3;
    record[3] = (uint8_t)(body_len >> 8);
    record[4] = (uint8_t)body_len;
    record[TLS_RECORD_HEADER + len] = (uint8_t)type;
    nonce_write(&records->out, nonce);
    if (!tls_key_cache_aead(cache)->seal(expanded, nonce, record, record + TLS_RECORD_HEADER,
                                         inner_len))
        return 0;
    records->out.seq++;
    return TLS_RECORD_HEADER + body_len;
}

uint32_t tls_records_seal(struct tls_records *records, struct tls_key_cache *cache, uint8_t *record,
                          uint32_t len)
{
    U_ASSERT(len > 0 && len <= TLS_RECORD_MAX);
    return seal(records, cache, record, len, APPLICATION_DATA);
}

uint32_t tls_records_alert(struct tls_records *records, struct tls_key_cache *cache, int alert,
                           uint8_t record[TLS_MESSAGE_RECORD_MAX])
{
    record[TLS_RECORD_HEADER] = alert == SSL_AD_CLOSE_NOTIFY ? WARNING : FATAL;
    record[TLS_RECORD_HEADER + 1] = (uint8_t)alert;
    return seal(records, cache, record, 2, ALERT);
}

uint32_t tls_records_update(struct tls_records *records, struct tls_key_cache *cache,
                            uint8_t record[TLS_MESSAGE_RECORD_MAX])
{
    bool asks = records->in.seq >= TLS_RECORDS_PER_KEY && !records->has_asked;
    const uint8_t message[] = {KEY_UPDATE, 0, 0, 1, asks ? UPDATE_REQUESTED : UPDATE_NOT_REQUESTED};
    uint32_t len;

    memcpy(record + TLS_RECORD_HEADER, message, sizeof(message));
    len = seal(records, cache, record, sizeof(message), HANDSHAKE);
    if (len == 0 || !advance(records, cache, &records->out))
        return 0;
    records->owes_update = false;
    records->has_asked = records->has_asked || asks;
    return len;
}

/* ---- messages ---------------------------------------------------------------------------- */

/* The value of a key update, which has to end its record (5.1). */
static const struct tls_record_error *take_update(struct tls_records *records,
                                                  struct tls_key_cache *cache, uint8_t value,
                                                  bool ends_record)
{
    if (!ends_record)
        return &cut_message;
    if (value > UPDATE_REQUESTED)
        return &bad_update;
    if (!advance(records, cache, &records->in))
        return &no_memory;
    records->has_asked = false;
    if (value == UPDATE_REQUESTED)
        records->owes_update = true;
    return NULL;
}

static uint32_t message_type(const struct tls_records *records)
{
    return records->message >> 24;
}

static uint32_t message_left(const struct tls_records *records)
{
    return records->message & 0xffffff;
}

/* The header of a message has come. */
static const struct tls_record_error *message_check(const struct tls_records *records)
{
    if (message_type(records) == KEY_UPDATE)
        return message_left(records) == 1 ? NULL : &bad_message;
    if (!records->is_client || message_type(records) != NEW_SESSION_TICKET)
        return &wrong_message;
    return message_left(records) > 0 ? NULL : &bad_message;
}

/* Bytes of handshake messages, which may be cut anywhere. */
static const struct tls_record_error *take_messages(struct tls_records *records,
                                                    struct tls_key_cache *cache,
                                                    const uint8_t *data, uint32_t len)
{
    const struct tls_record_error *error = NULL;
    uint32_t at, n;

    if (len == 0)
        return &wrong_type; /* 5.1 */
    for (at = 0; at < len && !error; at += n) {
        n = 1;
        if (records->message_len < MESSAGE_HEADER) {
            records->message = records->message << 8 | data[at];
            if (++records->message_len == MESSAGE_HEADER)
                error = message_check(records);
            continue;
        }
        if (message_type(records) == KEY_UPDATE)
            error = take_update(records, cache, data[at], at + 1 == len);
        else
            n = u_min32(len - at, message_left(records));
        records->message -= n;
        if (message_left(records) == 0)
            records->message_len = 0;
    }
    return error;
}

/* OpenSSL's words, which SSL_alert_desc_string_long() lacks for the alerts of TLS 1.3. */
static const char *alert_text(uint8_t alert)
{
    const char *text =
        ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert));

    return text != NULL ? text : "unknown alert";
}

/* An alert (6): the end of the stream, or the reason of the peer. */
static enum tls_result take_alert(const uint8_t *data, uint32_t len, struct tls_record_error *error)
{
    if (len != 2) {
        *error = bad_message;
        return TLS_FAILED;
    }
    if (data[1] == SSL_AD_CLOSE_NOTIFY)
        return TLS_CLOSED;
    if (data[1] == SSL_AD_USER_CANCELLED)
        return TLS_MORE;
    error->alert = -1;
    error->reason = alert_text(data[1]);
    return TLS_FAILED;
}

/* What a record holds. */
static enum tls_result take_content(struct tls_records *records, struct tls_key_cache *cache,
                                    enum content type, const uint8_t *data, uint32_t len,
                                    struct tls_record_error *error)
{
    const struct tls_record_error *wrong = NULL;
    enum tls_result result = TLS_MORE;

    if (type != HANDSHAKE && records->message_len > 0)
        wrong = &cut_message;
    else if (type == HANDSHAKE)
        wrong = take_messages(records, cache, data, len);
    else if (type == ALERT)
        result = take_alert(data, len, error);
    else if (type != APPLICATION_DATA)
        wrong = &wrong_type;
    if (wrong) {
        *error = *wrong;
        return TLS_FAILED;
    }
    if (result != TLS_MORE)
        return result;
    if (type == APPLICATION_DATA && len > 0) {
        records->empty_records = 0;
        return TLS_DATA;
    }
    if (++records->empty_records <= TLS_EMPTY_RECORDS_MAX)
        return TLS_MORE;
    *error = too_many_empty;
    return TLS_FAILED;
}

/* ---- opening ----------------------------------------------------------------------------- */

static uint32_t body_len(const uint8_t *record)
{
    return (uint32_t)record[3] << 8 | record[4];
}

static const struct tls_record_error *header_check(const uint8_t *record)
{
    if (record[0] != APPLICATION_DATA)
        return &not_encrypted;
    if (body_len(record) > INNER_MAX + TLS_AEAD_TAG)
        return &too_long;
    return body_len(record) < 1 + TLS_AEAD_TAG ? &bad_tag : NULL;
}

/* Decrypts a whole record with a good header. Returns the length without tag, or an error. */
static const struct tls_record_error *decrypt(struct tls_records *records,
                                              struct tls_key_cache *cache, const uint8_t *record,
                                              uint8_t *plain, uint32_t *inner_len)
{
    uint32_t len = body_len(record) - TLS_AEAD_TAG;
    void *expanded = expanded_of(records, cache, &records->in);
    uint8_t nonce[TLS_AEAD_NONCE];

    if (U_UNLIKELY(!expanded))
        return &no_memory;
    if (U_UNLIKELY(records->in.seq == UINT32_MAX))
        return &old_key;
    nonce_write(&records->in, nonce);
    *inner_len = len;
    return tls_key_cache_aead(cache)->open(expanded, nonce, record, record + TLS_RECORD_HEADER, len,
                                           plain)
               ? NULL
               : &bad_tag;
}

/* Handles a whole record. */
static enum tls_result take_record(struct tls_records *records, struct tls_key_cache *cache,
                                   const uint8_t *record, uint8_t *plain, uint32_t *plain_len,
                                   struct tls_record_error *error)
{
    const struct tls_record_error *wrong;
    enum tls_result result;
    uint32_t len = 0;

    wrong = decrypt(records, cache, record, plain, &len);
    if (!wrong) {
        records->in.seq++;
        while (len > 0 && plain[len - 1] == 0) /* 5.4 */
            len--;
        wrong = len == 0 ? &no_type : NULL;
    }
    if (wrong) {
        *error = *wrong;
        return TLS_FAILED;
    }
    len--;
    result = take_content(records, cache, (enum content)plain[len], plain, len, error);
    *plain_len = result == TLS_DATA ? len : 0;
    return result;
}

/* Gathers a record that is cut. Returns how much it took, up to its end; *error if it failed. */
static uint32_t gather(struct tls_records *records, const uint8_t *data, uint32_t len,
                       const struct tls_record_error **error)
{
    struct tls_partial *partial = records->partial;
    uint32_t n, at = 0;

    if (!partial) {
        partial = malloc(sizeof(*partial) + TLS_RECORD_HEADER);
        if (!partial) {
            *error = &no_memory;
            return 0;
        }
        partial->have = 0;
        partial->want = TLS_RECORD_HEADER;
        records->partial = partial;
    }
    while (at < len && partial->have < partial->want) {
        n = u_min32(len - at, partial->want - partial->have);
        memcpy(partial->bytes + partial->have, data + at, n);
        partial->have += n;
        at += n;
        if (partial->have != TLS_RECORD_HEADER || (*error = header_check(partial->bytes)) != NULL)
            continue;
        partial = realloc(partial, sizeof(*partial) + TLS_RECORD_HEADER + body_len(partial->bytes));
        if (!partial) {
            *error = &no_memory;
            break;
        }
        partial->want = TLS_RECORD_HEADER + body_len(partial->bytes);
        records->partial = partial;
    }
    return at;
}

/* The length of the record at the front of data if it is all there, or 0. */
static uint32_t whole_len(const uint8_t *data, uint32_t len)
{
    if (len < TLS_RECORD_HEADER || len - TLS_RECORD_HEADER < body_len(data))
        return 0;
    return TLS_RECORD_HEADER + body_len(data);
}

static enum tls_result fail(const struct tls_record_error *wrong, struct tls_record_error *error)
{
    *error = *wrong;
    return TLS_FAILED;
}

/* Takes bytes up to the end of one record. */
static enum tls_result read_one(struct tls_records *records, struct tls_key_cache *cache,
                                const uint8_t *data, uint32_t len, uint32_t *used, uint8_t *plain,
                                uint32_t *plain_len, struct tls_record_error *error)
{
    const struct tls_record_error *wrong = NULL;
    enum tls_result result;

    *used = records->partial ? 0 : whole_len(data, len);
    if (*used > 0) {
        wrong = header_check(data);
        return wrong ? fail(wrong, error)
                     : take_record(records, cache, data, plain, plain_len, error);
    }
    *used = gather(records, data, len, &wrong);
    if (wrong)
        return fail(wrong, error);
    if (records->partial->have < records->partial->want)
        return TLS_MORE;
    result = take_record(records, cache, records->partial->bytes, plain, plain_len, error);
    partial_free(records);
    return result;
}

enum tls_result tls_records_read(struct tls_records *records, struct tls_key_cache *cache,
                                 const uint8_t *data, uint32_t len, uint32_t *used,
                                 uint8_t plain[TLS_PLAIN_ROOM], uint32_t *plain_len,
                                 struct tls_record_error *error)
{
    enum tls_result result = TLS_MORE;
    uint32_t at, n;

    *plain_len = 0;
    for (at = 0; at < len && result == TLS_MORE; at += n)
        result = read_one(records, cache, data + at, len - at, &n, plain, plain_len, error);
    *used = at;
    return result;
}

uint32_t tls_records_open_one(struct tls_records *records, struct tls_key_cache *cache,
                              const uint8_t *data, uint32_t len, uint8_t *plain)
{
    uint32_t inner_len;

    if (records->partial || records->message_len > 0 || len == 0 || whole_len(data, len) != len ||
        header_check(data) || decrypt(records, cache, data, plain, &inner_len))
        return 0;
    if (inner_len < 2 || plain[inner_len - 1] != APPLICATION_DATA)
        return 0;
    records->in.seq++;
    records->empty_records = 0;
    return inner_len - 1;
}

void tls_records_prefetch(const struct tls_records *records, const struct tls_key_cache *cache)
{
    tls_key_cache_prefetch(cache, &records->in.cached);
    tls_key_cache_prefetch(cache, &records->out.cached);
}

/* ---- moving to another process ----------------------------------------------------------- */

U_STATIC_ASSERT(TLS_STATE_SECRET_BYTES == TLS_SECRET_MAX, a_secret_fits_the_state);
U_STATIC_ASSERT(sizeof(struct tls_session_state) == 28 + 2 * TLS_SECRET_MAX, no_gaps_in_the_state);

#define KEY_UPDATE_HEADER ((uint32_t)KEY_UPDATE << 24 | 1)

/* The bytes of a message's header that have come; older ones are shifted out as others come. */
static uint32_t message_begun(const struct tls_records *records)
{
    if (records->message_len == MESSAGE_HEADER)
        return records->message;
    return records->message & (((uint32_t)1 << 8 * records->message_len) - 1);
}

bool tls_records_export(struct tls_records *records, struct tls_session_state *state,
                        const uint8_t **input, uint32_t *input_len)
{
    uint32_t secret_len = tls_secret_len(records->key_len);

    if (records->is_client)
        return false;
    memset(state, 0, sizeof(*state));
    state->magic = TLS_SESSION_STATE_MAGIC;
    state->version = TLS_SESSION_STATE_VERSION;
    state->bytes = sizeof(*state);
    state->in_seq = records->in.seq;
    state->out_seq = records->out.seq;
    state->message = message_begun(records);
    state->message_len = records->message_len;
    state->key_len = records->key_len;
    state->empty_records = records->empty_records;
    state->owes_update = records->owes_update;
    state->has_asked = records->has_asked;
    memcpy(state->in_secret, secret_of(records, &records->in), secret_len);
    memcpy(state->out_secret, secret_of(records, &records->out), secret_len);
    *input = records->partial ? records->partial->bytes : NULL;
    *input_len = records->partial ? records->partial->have : 0;
    return true;
}

/* Whether a server's records can have come to this message: what may come is a key update. */
static bool message_is_possible(const struct tls_session_state *state)
{
    if (state->message_len >= MESSAGE_HEADER)
        return state->message_len == MESSAGE_HEADER && state->message == KEY_UPDATE_HEADER;
    return state->message >> 8 * state->message_len == 0;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;

    while (len > 0)
        any |= bytes[--len];
    return any == 0;
}

/* Why the state cannot be that of a session, or null. */
static const char *state_check(const struct tls_session_state *state)
{
    uint32_t unused;

    if (state->magic != TLS_SESSION_STATE_MAGIC || state->version != TLS_SESSION_STATE_VERSION ||
        state->bytes != sizeof(*state))
        return "the state of TLS has another version";
    if (state->key_len != 16 && state->key_len != 32)
        return "the state of TLS has an unknown cipher";
    unused = TLS_SECRET_MAX - tls_secret_len(state->key_len);
    if (state->out_seq > TLS_RECORDS_PER_KEY || !message_is_possible(state) ||
        state->empty_records > TLS_EMPTY_RECORDS_MAX || state->owes_update > 1 ||
        state->has_asked > 1 || !is_zero(state->reserved, sizeof(state->reserved)) ||
        !is_zero(state->in_secret + TLS_SECRET_MAX - unused, unused) ||
        !is_zero(state->out_secret + TLS_SECRET_MAX - unused, unused))
        return "a field of the state of TLS is outside its range";
    return NULL;
}

struct tls_records *tls_records_import(const struct tls_session_state *state, const char **error)
{
    struct tls_record_secrets secrets = {.key_len = state->key_len, .written = state->out_seq};
    struct tls_records *records;

    *error = state_check(state);
    if (*error)
        return NULL;
    memcpy(secrets.read, state->in_secret, sizeof(secrets.read));
    memcpy(secrets.write, state->out_secret, sizeof(secrets.write));
    records = tls_records_open(&secrets);
    OPENSSL_cleanse(&secrets, sizeof(secrets));
    if (!records) {
        *error = no_memory.reason;
        return NULL;
    }
    records->in.seq = state->in_seq;
    records->message = state->message;
    records->message_len = state->message_len;
    records->empty_records = state->empty_records;
    records->owes_update = state->owes_update;
    records->has_asked = state->has_asked;
    return records;
}
