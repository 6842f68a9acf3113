/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary packets in, binary packets out. */
#include "rig.h"

#include "mcproto/mcproto.h"

#define OPAQUE 0x01020304u

struct packet {
    uint8_t opcode;
    uint8_t extras_len;
    uint16_t key_len;
    uint16_t status; /* of a reply */
    uint32_t value_len;
    uint64_t cas;
    uint8_t body[600]; /* extras, key, value */
};

static void put(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

static size_t request_write(uint8_t *at, uint8_t opcode, const char *extras, size_t extras_len,
                            const char *key, const char *value, uint64_t cas)
{
    size_t key_len = strlen(key);
    size_t value_len = strlen(value);

    memset(at, 0, MC_BINARY_HEADER_BYTES);
    at[0] = 0x80;
    at[1] = opcode;
    put(at + 2, key_len, 2);
    at[4] = (uint8_t)extras_len;
    put(at + 8, extras_len + key_len + value_len, 4);
    put(at + 12, OPAQUE, 4);
    put(at + 16, cas, 8);
    at += MC_BINARY_HEADER_BYTES;
    memcpy(at, extras, extras_len);
    memcpy(at + extras_len, key, key_len);
    memcpy(at + extras_len + key_len, value, value_len);
    return MC_BINARY_HEADER_BYTES + extras_len + key_len + value_len;
}

/* Takes the next reply from the sent bytes. */
static struct packet reply_take(struct rig *rig)
{
    struct packet packet = {0};
    const uint8_t *at;
    size_t body;

    rig_reply(rig);
    at = rig->out.taken;
    assert_true(rig->out.taken_len >= MC_BINARY_HEADER_BYTES);
    assert_int_equal(at[0], 0x81);
    assert_int_equal(get(at + 12, 4), OPAQUE);
    body = get(at + 8, 4);
    assert_true(rig->out.taken_len >= MC_BINARY_HEADER_BYTES + body && body < sizeof(packet.body));
    packet.opcode = at[1];
    packet.key_len = (uint16_t)get(at + 2, 2);
    packet.extras_len = at[4];
    packet.status = (uint16_t)get(at + 6, 2);
    packet.value_len = (uint32_t)(body - packet.extras_len - packet.key_len);
    packet.cas = get(at + 16, 8);
    memcpy(packet.body, at + MC_BINARY_HEADER_BYTES, body);
    rig->out.taken_len -= MC_BINARY_HEADER_BYTES + body;
    rig->out.drained_len = rig->out.taken_len;
    memmove(rig->out.taken, rig->out.taken + MC_BINARY_HEADER_BYTES + body, rig->out.taken_len);
    return packet;
}

static void ask(struct rig *rig, uint8_t opcode, const char *extras, size_t extras_len,
                const char *key, const char *value, uint64_t cas)
{
    uint8_t request[1000];
    size_t len = request_write(request, opcode, extras, extras_len, key, value, cas);

    assert_int_equal(rig_feed_sliced(rig, request, len, 0), len);
}

/* A request without extras and cas; the reply is an error, or a success without a body. */
static void expect(struct rig *rig, uint8_t opcode, const char *key, const char *value,
                   unsigned status, const char *text)
{
    struct packet reply;

    ask(rig, opcode, "", 0, key, value, 0);
    reply = reply_take(rig);
    assert_int_equal(reply.opcode, opcode);
    assert_int_equal(reply.status, status);
    assert_int_equal(reply.value_len, strlen(text));
    assert_memory_equal(reply.body, text, strlen(text));
}

/* In the cache it ends with a CRLF, which a packet does not have. */
static void test_long_value(void **state)
{
    enum { BYTES = 500000 };
    static const uint8_t request[25] = {0x80, [3] = 1, [11] = 1, [24] = 'a'};
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;

    rig_expect_set(rig, "a", BYTES, 'x', "STORED\r\n");
    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
    rig_forget(&rig->out);
    assert_int_equal(rig_feed_sliced(rig, request, sizeof(request), 0), sizeof(request));
    rig_drain(&rig->out);
    assert_int_equal(rig->out.taken_len, MC_BINARY_HEADER_BYTES + 4 + BYTES);
    assert_int_equal(get(rig->out.taken + 8, 4), 4 + BYTES);
    assert_int_equal(rig->out.taken[rig->out.taken_len - 1], 'x');
}

static void expect_nothing(struct rig *rig)
{
    rig_reply(rig);
    assert_int_equal(rig->out.taken_len, 0);
}

/* Stores with flags 7; returns the cas. */
static uint64_t store(struct rig *rig, uint8_t opcode, const char *key, const char *value,
                      uint64_t cas, unsigned status)
{
    struct packet reply;

    ask(rig, opcode, "\0\0\0\7\0\0\0\0", 8, key, value, cas);
    reply = reply_take(rig);
    assert_int_equal(reply.opcode, opcode);
    assert_int_equal(reply.status, status);
    return reply.cas;
}

static struct packet hit(struct rig *rig, uint8_t opcode, const char *key, const char *value)
{
    struct packet reply;

    ask(rig, opcode, "", 0, key, "", 0);
    reply = reply_take(rig);
    assert_int_equal(reply.status, 0);
    assert_int_equal(reply.extras_len, 4);
    assert_int_equal(reply.value_len, strlen(value));
    assert_memory_equal(reply.body + 4 + reply.key_len, value, strlen(value));
    return reply;
}

static void test_store_and_get(void **state)
{
    struct rig *rig = *state;
    uint64_t cas = store(rig, 0x01, "a", "hello", 0, 0);
    struct packet reply = hit(rig, 0x00, "a", "hello");

    assert_true(cas != 0 && reply.cas == cas);
    assert_int_equal(get(reply.body, 4), 7);
    assert_int_equal(reply.key_len, 0);
    reply = hit(rig, 0x0c, "a", "hello");
    assert_int_equal(reply.key_len, 1);
    assert_int_equal(hit(rig, 0x0d, "a", "hello").opcode, 0x0d);
    hit(rig, 0x09, "a", "hello");
    expect(rig, 0x00, "b", "", 1, "Not found");
    ask(rig, 0x0c, "", 0, "bb", "", 0);
    reply = reply_take(rig);
    assert_int_equal(reply.status, 1);
    assert_int_equal(reply.key_len, 2);
    assert_int_equal(reply.value_len, 0);
    ask(rig, 0x09, "", 0, "b", "", 0);
    ask(rig, 0x0d, "", 0, "b", "", 0);
    expect(rig, 0x0a, "", "", 0, "");
    expect_nothing(rig);
    assert_int_equal(store(rig, 0x01, "z", "", 0, 0), cas + 1);
    hit(rig, 0x00, "z", "");
}

static void test_store_rules(void **state)
{
    struct rig *rig = *state;
    uint64_t cas;

    store(rig, 0x03, "a", "x", 0, 1);
    cas = store(rig, 0x02, "a", "x", 0, 0);
    store(rig, 0x02, "a", "x", 0, 2);
    store(rig, 0x01, "a", "x", cas + 1, 2);
    store(rig, 0x01, "b", "x", cas, 1);
    store(rig, 0x02, "b", "x", cas, 1);
    assert_true(store(rig, 0x03, "a", "y", cas, 0) > cas);
    expect(rig, 0x0e, "a", "!", 0, "");
    expect(rig, 0x0f, "a", "?", 0, "");
    expect(rig, 0x0e, "b", "!", 5, "Not stored.");
    hit(rig, 0x00, "a", "?y!");
    cas = store(rig, 0x01, "j", "x", 0, 0);
    ask(rig, 0x0e, "", 0, "j", "!", cas + 1);
    assert_int_equal(reply_take(rig).status, 2);
    ask(rig, 0x0e, "", 0, "j", "!", cas); /* a cas does not make it a set */
    assert_int_equal(reply_take(rig).status, 0);
    hit(rig, 0x00, "j", "x!");
    ask(rig, 0x11, "\0\0\0\0\0\0\0\0", 8, "q", "1", 0);
    ask(rig, 0x12, "\0\0\0\0\0\0\0\0", 8, "p", "1", 0);
    ask(rig, 0x13, "\0\0\0\0\0\0\0\0", 8, "q", "2", 0);
    ask(rig, 0x19, "", 0, "q", "3", 0);
    ask(rig, 0x1a, "", 0, "q", "1", 0);
    expect_nothing(rig);
    hit(rig, 0x00, "q", "123");
    store(rig, 0x12, "q", "1", 0, 2);
    store(rig, 0x13, "none", "1", 0, 1);
    expect(rig, 0x19, "none", "1", 5, "Not stored.");
}

static void test_delete_and_count(void **state)
{
    static const char create[] = "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\12\0\0\0\0";
    static const char no_create[] = "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\12\377\377\377\377";
    struct rig *rig = *state;
    struct packet reply;
    uint64_t cas;

    ask(rig, 0x05, no_create, 20, "n", "", 0);
    assert_int_equal(reply_take(rig).status, 1);
    ask(rig, 0x05, create, 20, "n", "", 0);
    reply = reply_take(rig);
    assert_int_equal(reply.status, 0);
    assert_int_equal(get(reply.body, 8), 10);
    ask(rig, 0x05, create, 20, "n", "", reply.cas);
    reply = reply_take(rig);
    assert_int_equal(get(reply.body, 8), 15);
    ask(rig, 0x06, create, 20, "n", "", reply.cas - 1);
    assert_int_equal(reply_take(rig).status, 2);
    ask(rig, 0x16, create, 20, "n", "", 0);
    ask(rig, 0x15, create, 20, "m", "", 0);
    expect_nothing(rig);
    cas = hit(rig, 0x00, "n", "10").cas;
    store(rig, 0x01, "x", "y", 0, 0);
    ask(rig, 0x16, create, 20, "x", "", 0);
    assert_int_equal(reply_take(rig).status, 6);
    ask(rig, 0x04, "", 0, "n", "", cas + 1);
    assert_int_equal(reply_take(rig).status, 2);
    ask(rig, 0x14, "", 0, "n", "", cas + 1);
    assert_int_equal(reply_take(rig).status, 2);
    ask(rig, 0x04, "", 0, "n", "", cas);
    reply = reply_take(rig);
    assert_int_equal(reply.status, 0);
    assert_int_equal(reply.cas, 0);
    expect(rig, 0x04, "n", "", 1, "Not found");
    ask(rig, 0x14, "", 0, "m", "", 0);
    expect_nothing(rig);
    expect(rig, 0x14, "m", "", 1, "Not found");
}

/* Stores items of this size until there is no memory (-M). */
static void fill(struct rig *rig, unsigned len)
{
    for (unsigned i = 0; i < 10000; i++) {
        char text[1100];
        size_t text_len = 0;

        rig_append(text, sizeof(text), &text_len, "set %u:%u 0 0 %u\r\n%0*u\r\n", len, i, len,
                   (int)len, i);
        rig_feed_sliced(rig, text, text_len, 0);
        if (strcmp(rig_reply(rig), "STORED\r\n") != 0)
            return;
    }
    fail();
}

/* A number that cannot be created, and one that cannot become longer. */
static void test_counters_without_memory(void **state)
{
    static const char create[] = "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\12\0\0\0\0";
    static const char *const keys[] = {"a_longer_key_that_is_not_there", "a_longer_key"};
    static const char *const texts[] = {"Out of memory allocating new item",
                                        "Out of memory incrementing value"};
    struct cache_config config = rig_config();
    struct cache_peer peer = {.transport = "tcp"};
    struct rig rig;

    config.settings.memory_bytes = 2 << 20;
    config.settings.evict = false;
    rig_open(&rig, &config);
    rig_expect(&rig, "set a_longer_key 0 0 1\r\n9\r\n", "STORED\r\n");
    fill(&rig, 1000);
    fill(&rig, 5);
    rig_expect(&rig, "ma a_longer_key_that_is_not_there N0\r\nma a_longer_key D5\r\n",
               "SERVER_ERROR Out of memory allocating new item\r\nSERVER_ERROR out of memory\r\n");
    cache_session_close(rig.session);
    rig.session = cache_session_open(rig.worker, &peer);
    rig_forget(&rig.out);
    for (unsigned i = 0; i < 2; i++) {
        struct packet reply;

        ask(&rig, 0x05, create, 20, keys[i], "", 0);
        reply = reply_take(&rig);
        assert_int_equal(reply.status, 0x82);
        assert_int_equal(reply.value_len, strlen(texts[i]));
        assert_memory_equal(reply.body, texts[i], reply.value_len);
    }
    rig_close(&rig);
}

/* In the second of a delayed flush, as with other stores: a number that is created is gone. */
static void test_counter_of_the_flush_second(void **state)
{
    static const char create[] = "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\12\0\0\0\0";
    struct rig *rig = *state;

    ask(rig, 0x08, "\0\0\0\2", 4, "", "", 0);
    assert_int_equal(reply_take(rig).status, 0);
    rig_wait(rig, 1);
    ask(rig, 0x05, create, 20, "n", "", 0);
    assert_int_equal(reply_take(rig).status, 0);
    expect(rig, 0x00, "n", "", 1, "Not found");
    rig_wait(rig, 1);
    ask(rig, 0x05, create, 20, "n", "", 0);
    assert_int_equal(reply_take(rig).status, 0);
    hit(rig, 0x00, "n", "10");
}

/*
 * A number that an earlier reply of the same input shows gets no spaces when it becomes shorter,
 * unless a noop or an error came in between. A miss is an error, except that of a getk.
 */
static void test_noop_and_errors_end_pending_replies(void **state)
{
    static const struct {
        uint8_t opcode; /* 0xff: nothing in between */
        const char *key;
        bool ends;
    } cases[] = {{0xff, "", false}, {0x0a, "", true},   {0x00, "-", true},
                 {0x04, "-", true}, {0x0c, "-", false}, {0x09, "-", false}};
    static const char by_one[20] = {[7] = 1};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t input[200];
        size_t len;

        store(rig, 0x01, "n", "10", 0, 0);
        len = request_write(input, 0x00, "", 0, "n", "", 0);
        if (cases[i].opcode != 0xff)
            len += request_write(input + len, cases[i].opcode, "", 0, cases[i].key, "", 0);
        len += request_write(input + len, 0x16, by_one, sizeof(by_one), "n", "", 0);
        assert_int_equal(rig_feed_sliced(rig, input, len, 0), len);
        assert_int_equal(reply_take(rig).opcode, 0x00);
        if (cases[i].opcode != 0xff && cases[i].opcode != 0x09)
            assert_int_equal(reply_take(rig).opcode, cases[i].opcode);
        hit(rig, 0x00, "n", cases[i].ends ? "9 " : "9");
    }
}

static void test_touch(void **state)
{
    static const char soon[] = "\0\0\0\2";
    struct rig *rig = *state;
    struct packet reply;

    store(rig, 0x01, "a", "x", 0, 0);
    ask(rig, 0x1c, soon, 4, "a", "", 0);
    reply = reply_take(rig);
    assert_int_equal(reply.status, 0);
    assert_int_equal(reply.extras_len, 4);
    assert_int_equal(reply.value_len, 0);
    ask(rig, 0x24, soon, 4, "a", "", 0);
    reply = reply_take(rig);
    assert_int_equal(reply.key_len, 1);
    assert_int_equal(reply.value_len, 1);
    rig_wait(rig, 2);
    ask(rig, 0x1d, soon, 4, "a", "", 0);
    assert_int_equal(reply_take(rig).status, 1);
    ask(rig, 0x1e, soon, 4, "a", "", 0);
    expect_nothing(rig);
    ask(rig, 0x01, "\0\0\0\0\377\377\377\377", 8, "far", "x", 0);
    assert_int_equal(reply_take(rig).status, 0);
    hit(rig, 0x00, "far", "x");
}

static void test_server(void **state)
{
    struct rig *rig = *state;
    struct packet reply;
    unsigned count = 0;

    expect(rig, 0x0b, "", "", 0, "1.6.45");
    store(rig, 0x01, "a", "x", 0, 0);
    expect(rig, 0x08, "", "", 0, "");
    expect(rig, 0x00, "a", "", 1, "Not found");
    ask(rig, 0x18, "\0\0\0\5", 4, "", "", 0);
    expect_nothing(rig);
    expect(rig, 0x40, "key", "value", 0x81, "Unknown command");
    expect(rig, 0x20, "", "", 0x81, "Unknown command");
    expect(rig, 0x21, "PLAIN", "xyz", 0x81, "Unknown command");
    expect(rig, 0x10, "bogus", "", 1, "Not found");
    expect(rig, 0x10, "conns", "", 1, "Not found");
    expect(rig, 0x10, "reset", "", 0, "");
    ask(rig, 0x10, "", 0, "", "", 0);
    do {
        reply = reply_take(rig);
        count += reply.key_len == 3 && memcmp(reply.body, "pid", 3) == 0;
    } while (reply.key_len > 0);
    assert_int_equal(reply.value_len, 0);
    assert_int_equal(count, 1);
    expect_nothing(rig);
}

/* A set that is too large removes the old item, also one with a cas that does not match. */
static void test_too_large(void **state)
{
    enum { VALUE = 1048600 };
    struct rig *rig = *state;
    uint8_t *request = malloc(VALUE + 100);
    size_t len;

    assert_non_null(request);
    store(rig, 0x01, "a", "x", 0, 0);
    len = request_write(request, 0x02, "\0\0\0\0\0\0\0\0", 8, "a", "", 0);
    put(request + 8, 9 + VALUE, 4);
    memset(request + len, 'x', VALUE);
    rig_feed_sliced(rig, request, len + VALUE, 100000);
    assert_int_equal(reply_take(rig).status, 3);
    hit(rig, 0x00, "a", "x");
    request[1] = 0x11;
    rig_feed_sliced(rig, request, len + VALUE, 0);
    assert_int_equal(reply_take(rig).status, 3);
    expect(rig, 0x00, "a", "", 1, "Not found");
    store(rig, 0x01, "a", "x", 0, 0);
    put(request + 16, UINT64_MAX, 8);
    rig_feed_sliced(rig, request, len + VALUE, 0);
    assert_int_equal(reply_take(rig).status, 3);
    expect(rig, 0x00, "a", "", 1, "Not found");
    free(request);
}

static void reopen(struct rig *rig)
{
    struct cache_peer peer = {.transport = "tcp"};

    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
}

static void test_what_ends_a_session(void **state)
{
    struct rig *rig = *state;

    expect(rig, 0x07, "", "", 0, "");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    reopen(rig);
    ask(rig, 0x17, "", 0, "", "", 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    expect_nothing(rig);
    reopen(rig);
    expect(rig, 0x0a, "", "", 0, "");
    rig_feed(rig, "get a\r\n");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    expect_nothing(rig);
    reopen(rig);
    rig_feed_sliced(rig, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\1\2\3\4\0\0\0\0\0\0\0\0",
                    24, 0);
    assert_int_equal(reply_take(rig).status, 4);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
}

/* -B ascii takes the magic byte for a letter, -B binary takes nothing else. */
static void test_bindings(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.binding = CACHE_BINDING_ASCII;
    rig_open(&rig, &config);
    rig_expect(&rig, "\x80\x0bxx\r\nversion\r\n", "ERROR\r\nVERSION 1.6.45\r\n");
    rig_close(&rig);
    config.settings.binding = CACHE_BINDING_BINARY;
    rig_open(&rig, &config);
    rig_expect(&rig, "version\r\n", "");
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_store_and_get, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_long_value, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_store_rules, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_delete_and_count, rig_setup, rig_teardown),
        cmocka_unit_test(test_counters_without_memory),
        cmocka_unit_test_setup_teardown(test_counter_of_the_flush_second, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_noop_and_errors_end_pending_replies, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_touch, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_server, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_too_large, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_ends_a_session, rig_setup, rig_teardown),
        cmocka_unit_test(test_bindings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
