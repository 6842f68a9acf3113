/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests byte by byte, and replies split at every byte: correct ones are counted as such, wrong
 * ones are detected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_fixture.h"

/* pipeline_begin_whole() writes the same bytes and stores the same pending request. */
static void assert_asked_alike(enum op op, uint64_t id, const uint8_t *wanted, uint32_t len)
{
    const struct template *template = templates.whole[op];
    struct pending begun = *pipeline_newest(&s);
    uint64_t bytes_out = ctx.tally.bytes_out;
    uint8_t out[TEMPLATE_ROOM + TEMPLATE_VALUE_MAX + TEMPLATE_COPY_STEP];

    if (!template)
        return;
    s.tail--;
    memset(&s.ring[s.tail & s.mask], 0xa5, sizeof(s.ring[0]));
    assert_int_equal(pipeline_begin_whole(&s, op, id, template, 400, out), len);
    assert_memory_equal(out, wanted, len);
    assert_int_equal(ctx.tally.bytes_out, bytes_out + len);
    assert_int_equal(s.step, WRITE_IDLE);
    assert_int_equal(pipeline_newest(&s)->at_ns, begun.at_ns);
    assert_int_equal(pipeline_newest(&s)->id, begun.id);
    assert_int_equal(pipeline_newest(&s)->word, begun.word);
    assert_int_equal(pipeline_newest(&s)->keys, begun.keys);
    assert_int_equal(pipeline_newest(&s)->op, begun.op);
}

static void assert_request(enum op op, uint64_t id, const char *wanted)
{
    uint8_t out[2048];
    uint32_t len = write_request(op, &id, 1, out, TEMPLATE_ROOM);

    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(out, wanted, len);
    assert_asked_alike(op, id, out, len);
    s.head = s.tail;
}

/* The heads of these requests for key 1, whose value of 5 bytes follows. */
static void assert_requests_with_value(const char *append, const char *prepend, const char *cas)
{
    const char *const heads[3] = {append, prepend, cas};
    static const enum op ops[3] = {OP_APPEND, OP_PREPEND, OP_CAS};
    char wanted[128];

    s.unique = UINT64_MAX;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(wanted, sizeof(wanted), "%s%.5s\r\n", heads[i],
                 (const char *)keyspace_value(&keys, 1));
        assert_request(ops[i], 1, wanted);
    }
}

static void test_text_requests(void **state)
{
    static const uint64_t three[3] = {1, 2, 70};
    uint8_t out[2048];
    char set[64];

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 3);
    assert_request(OP_GET, 1, "get 10000000\r\n");
    assert_request(OP_DELETE, 70, "delete 61000000\r\n");
    assert_request(OP_INCR, 1, "incr 10000000 1\r\n");
    assert_request(OP_TOUCH, 1, "touch 10000000 0\r\n");
    assert_request(OP_DECR, 1, "decr 10000000 1\r\n");
    assert_request(OP_GAT, 1, "gat 0 10000000\r\n");
    assert_request(OP_GETS, 1, "gets 10000000\r\n");
    assert_request(OP_CREATE, 1, "set 10000000 0 0 1\r\n0\r\n");
    assert_request(OP_STATS, 0, "stats ustack\r\n");
    snprintf(set, sizeof(set), "set 10000000 0 0 5\r\n%.5s\r\n",
             (const char *)keyspace_value(&keys, 1));
    assert_request(OP_SET, 1, set);
    assert_requests_with_value("append 10000000 0 0 5\r\n", "prepend 10000000 0 0 5\r\n",
                               "cas 10000000 0 0 5 18446744073709551615\r\n");
    assert_int_equal(write_request(OP_GET, three, 3, out, TEMPLATE_ROOM), 32);
    assert_memory_equal(out, "get 10000000 20000000 61000000\r\n", 32);
    close_all();
}

static void test_meta_requests(void **state)
{
    static const uint64_t two[2] = {1, 2};
    static const char wanted[] = "mg 10000000 k v q\r\nmg 20000000 k v q\r\nmn\r\n";
    uint8_t out[2048];
    char set[64];

    (void)state;
    open_with(PROTOCOL_META, "5-6", 2);
    assert_request(OP_GET, 1, "mg 10000000 v\r\n");
    assert_request(OP_DELETE, 1, "md 10000000\r\n");
    assert_request(OP_INCR, 1, "ma 10000000 v\r\n");
    assert_request(OP_TOUCH, 1, "mg 10000000 T0\r\n");
    assert_request(OP_DECR, 1, "ma 10000000 MD v\r\n");
    assert_request(OP_GAT, 1, "mg 10000000 v T0\r\n");
    assert_request(OP_GETS, 1, "mg 10000000 v c\r\n");
    snprintf(set, sizeof(set), "ms 10000000 %u T0\r\n%.*s\r\n", keyspace_value_bytes(&keys, 1),
             (int)keyspace_value_bytes(&keys, 1), (const char *)keyspace_value(&keys, 1));
    assert_request(OP_SET, 1, set);
    assert_int_equal(write_request(OP_GET, two, 2, out, TEMPLATE_ROOM), sizeof(wanted) - 1);
    assert_memory_equal(out, wanted, sizeof(wanted) - 1);
    close_all();
    open_with(PROTOCOL_META, "5", 1);
    assert_requests_with_value("ms 10000000 5 MA\r\n", "ms 10000000 5 MP\r\n",
                               "ms 10000000 5 C18446744073709551615 T0\r\n");
    close_all();
}

static void test_binary_requests(void **state)
{
    static const uint8_t get[] = {0x80, 0, 0,   8,   0,   0,   0,   0,   0,   0,  0,
                                  8,    0, 0,   0,   0,   0,   0,   0,   0,   0,  0,
                                  0,    0, '1', '0', '0', '0', '0', '0', '0', '0'};
    static const uint8_t set[] = {0x80, 1, 0, 8, 8,   0,   0,   0,   0,   0,   0,   21, 0, 0,
                                  0,    1, 0, 0, 0,   0,   0,   0,   0,   0,   0,   0,  0, 0,
                                  0,    0, 0, 0, '1', '0', '0', '0', '0', '0', '0', '0'};
    uint64_t id = 1;
    uint8_t out[2048];

    (void)state;
    open_with(PROTOCOL_BINARY, "5", 1);
    assert_int_equal(write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM), sizeof(get));
    assert_memory_equal(out, get, sizeof(get));
    assert_int_equal(write_request(OP_SET, &id, 1, out, TEMPLATE_ROOM), sizeof(set) + 5);
    assert_memory_equal(out, set, sizeof(set));
    assert_memory_equal(out + sizeof(set), keyspace_value(&keys, 1), 5);
    s.unique = UINT64_C(0x0102030405060708);
    assert_int_equal(write_request(OP_CAS, &id, 1, out, TEMPLATE_ROOM), sizeof(set) + 5);
    assert_memory_equal(out + 16, "\1\2\3\4\5\6\7\10", 8);
    assert_memory_equal(out + 24, set + 24, sizeof(set) - 24);
    assert_int_equal(write_request(OP_APPEND, &id, 1, out, TEMPLATE_ROOM), 24 + 8 + 5);
    assert_int_equal(out[1], 0x0e);
    assert_memory_equal(out + 32, keyspace_value(&keys, 1), 5);
    close_all();
}

/* A large value is written in as many parts as the room requires. */
static void test_large_value_in_pieces(void **state)
{
    static uint8_t out[5100];
    uint64_t id = 7;
    uint32_t len;

    (void)state;
    open_with(PROTOCOL_TEXT, "5000", 1);
    len = write_request(OP_SET, &id, 1, out, 33);
    assert_int_equal(len, 23 + 5000 + 2);
    assert_memory_equal(out, "set 70000000 0 0 5000\r\n", 23);
    assert_memory_equal(out + 23, keyspace_value(&keys, 7), 5000);
    assert_memory_equal(out + len - 2, "\r\n", 2);
    assert_int_equal(ctx.tally.bytes_out, len);
    close_all();
}

/*
 * Also the value that is the last slice of the text. Short values are written with their template.
 */
static void test_sets_of_every_size(void **state)
{
    static const unsigned sizes[] = {
        0, 1, 15, 16, 17, 64, TEMPLATE_VALUE_MAX, TEMPLATE_VALUE_MAX + 1};
    static const uint64_t ids[] = {1, KEYSPACE_SLICES - 1};
    uint8_t out[1024];
    char wanted[1024], size[8], key[9] = "";
    uint32_t len, i, k;

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (k = 0; k < 2; k++) {
            snprintf(size, sizeof(size), "%u", sizes[i]);
            open_with(PROTOCOL_TEXT, size, 1);
            assert_int_equal(templates.whole[TEMPLATE_SET] != NULL, sizes[i] <= TEMPLATE_VALUE_MAX);
            load_key_write(key, ids[k], 8);
            snprintf(wanted, sizeof(wanted), "set %s 0 0 %s\r\n%.*s\r\n", key, size, (int)sizes[i],
                     (const char *)keyspace_value(&keys, ids[k]));
            len = write_request(OP_SET, ids + k, 1, out, TEMPLATE_ROOM);
            assert_int_equal(len, strlen(wanted));
            assert_memory_equal(out, wanted, len);
            assert_asked_alike(OP_SET, ids[k], out, len);
            close_all();
        }
    }
}

struct answer {
    enum op op;
    const char *reply;
    unsigned hits, refused;
};

/* Each correct reply, split at every byte, and byte by byte. */
static void check_answers(const struct answer *answers, unsigned count)
{
    uint8_t out[2048];
    uint64_t id = 1;
    unsigned i;

    for (i = 0; i < count; i++) {
        const uint8_t *reply = (const uint8_t *)answers[i].reply;
        uint32_t len = (uint32_t)strlen(answers[i].reply);
        uint32_t cut, k;

        for (cut = 0; cut <= len; cut++) {
            struct tally before = ctx.tally;

            write_request(answers[i].op, &id, 1, out, TEMPLATE_ROOM);
            if (cut < len)
                assert_int_equal(feed_cut(reply, len, cut), 0);
            for (k = 0; cut == len && k < len; k++)
                assert_int_equal(pipeline_receive(&s, reply + k, 1), 0);
            assert_int_equal(pipeline_in_flight(&s), 0);
            assert_int_equal(ctx.tally.hits - before.hits, answers[i].hits);
            assert_int_equal(ctx.tally.misses - before.misses, 1 - answers[i].hits);
            assert_int_equal(ctx.tally.refused - before.refused, answers[i].refused);
            assert_int_equal(ctx.tally.wrong, 0);
        }
    }
    assert_int_equal(load_histogram_percentile(&latency[OP_GET], 50), 600);
}

static void test_text_answers(void **state)
{
    char hit[64];
    const struct answer answers[] = {
        {OP_GET, hit, 1, 0},
        {OP_GET, "END\r\n", 0, 0},
        {OP_GET, "SERVER_ERROR out of memory\r\n", 0, 1},
        {OP_SET, "STORED\r\n", 1, 0},
        {OP_SET, "SERVER_ERROR object too large for cache\r\n", 0, 1},
        {OP_DELETE, "DELETED\r\n", 1, 0},
        {OP_DELETE, "NOT_FOUND\r\n", 0, 0},
        {OP_INCR, "18446744073709551615\r\n", 1, 0},
        {OP_INCR, "NOT_FOUND\r\n", 0, 0},
        {OP_TOUCH, "TOUCHED\r\n", 1, 0},
        {OP_TOUCH, "NOT_FOUND\r\n", 0, 0},
        {OP_DECR, "0\r\n", 1, 0},
        {OP_DECR, "NOT_FOUND\r\n", 0, 0},
        {OP_APPEND, "STORED\r\n", 1, 0},
        {OP_APPEND, "NOT_STORED\r\n", 0, 0},
        {OP_PREPEND, "STORED\r\n", 1, 0},
        {OP_PREPEND, "SERVER_ERROR too large\r\n", 0, 1},
        {OP_GAT, hit, 1, 0},
        {OP_GAT, "END\r\n", 0, 0},
        {OP_CAS, "STORED\r\n", 1, 0},
        {OP_CAS, "EXISTS\r\n", 1, 0},
        {OP_CAS, "NOT_FOUND\r\n", 0, 0},
        {OP_STATS, "STAT loops 5\r\nSTAT cycles_busy 1234567890123\r\nEND\r\n", 0, 0},
        {OP_STATS, "ERROR\r\n", 0, 1},
    };

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 1);
    snprintf(hit, sizeof(hit), "VALUE 10000000 0 5\r\n%.5s\r\nEND\r\n",
             (const char *)keyspace_value(&keys, 1));
    check_answers(answers, sizeof(answers) / sizeof(answers[0]));
    assert_true(ctx.server_cycles == UINT64_C(1234567890123));
    close_all();
}

/* Replies to several kinds of requests, in one part and split at every byte. */
static void test_answers_in_a_row(void **state)
{
    static const enum op ops[4] = {OP_SET, OP_GET, OP_DELETE, OP_SET};
    uint8_t out[2048];
    char reply[128];
    uint64_t id = 1;
    uint32_t len, cut, i;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 1);
    len = (uint32_t)snprintf(reply, sizeof(reply),
                             "STORED\r\nVALUE 10000000 0 5\r\n%.5s\r\nEND\r\nDELETED\r\nSTORED\r\n",
                             (const char *)keyspace_value(&keys, 1));
    for (cut = 0; cut < len; cut++) {
        for (i = 0; i < 4; i++)
            write_request(ops[i], &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(feed_cut((uint8_t *)reply, len, cut), 0);
        assert_int_equal(pipeline_in_flight(&s), 0);
    }
    assert_int_equal(ctx.tally.requests, 4 * len);
    assert_int_equal(ctx.tally.ops[OP_SET], 2 * len);
    assert_int_equal(ctx.tally.ops[OP_DELETE], len);
    assert_int_equal(ctx.tally.hits, 4 * len);
    assert_int_equal(ctx.tally.wrong, 0);
    for (i = 0; i < 8; i++) { /* a wrong byte in STORED */
        write_request(OP_SET, &id, 1, out, TEMPLATE_ROOM);
        reply[i] ^= 1;
        assert_true(pipeline_receive(&s, (uint8_t *)reply, 8) < 0 || pipeline_in_flight(&s) == 1);
        reply[i] ^= 1;
        close_all();
        open_with(PROTOCOL_TEXT, "5", 1);
    }
    close_all();
}

static void test_meta_answers(void **state)
{
    char hit[64];
    const struct answer answers[] = {
        {OP_GET, hit, 1, 0},
        {OP_GET, "EN\r\n", 0, 0},
        {OP_SET, "HD\r\n", 1, 0},
        {OP_SET, "NS\r\n", 0, 1},
        {OP_DELETE, "HD\r\n", 1, 0},
        {OP_DELETE, "NF\r\n", 0, 0},
        {OP_INCR, "VA 2\r\n12\r\n", 1, 0},
        {OP_INCR, "NF\r\n", 0, 0},
        {OP_TOUCH, "HD\r\n", 1, 0},
        {OP_TOUCH, "EN\r\n", 0, 0},
        {OP_DECR, "VA 1\r\n0\r\n", 1, 0},
        {OP_APPEND, "HD\r\n", 1, 0},
        {OP_APPEND, "NS\r\n", 0, 0},
        {OP_GAT, hit, 1, 0},
        {OP_GAT, "EN\r\n", 0, 0},
        {OP_CAS, "HD\r\n", 1, 0},
        {OP_CAS, "EX\r\n", 1, 0},
        {OP_CAS, "NF\r\n", 0, 0},
    };

    (void)state;
    open_with(PROTOCOL_META, "5", 1);
    snprintf(hit, sizeof(hit), "VA 5\r\n%.5s\r\n", (const char *)keyspace_value(&keys, 1));
    check_answers(answers, sizeof(answers) / sizeof(answers[0]));
    close_all();
}

/* A gets is followed by a cas with the number of its reply, split at every byte. */
static void check_gets(enum protocol protocol, const char *reply_format)
{
    uint8_t out[2048];
    char reply[128];
    uint64_t id = 1;
    uint32_t len, cut;

    open_with(protocol, "5", 1);
    len = (uint32_t)snprintf(reply, sizeof(reply), reply_format,
                             (const char *)keyspace_value(&keys, 1));
    for (cut = 0; cut < len; cut++) {
        write_request(OP_GETS, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(feed_cut((uint8_t *)reply, len, cut), 0);
        assert_int_equal(ctx.followup_count, cut + 1);
        assert_int_equal(ctx.followups[cut].id, 1);
        assert_int_equal(ctx.followups[cut].op, OP_CAS);
        assert_true(ctx.followups[cut].unique == UINT64_MAX);
    }
    assert_int_equal(ctx.tally.hits, len);
    assert_int_equal(ctx.tally.wrong, 0);
    close_all();
}

static void test_gets_and_cas(void **state)
{
    uint8_t out[2048];
    uint64_t id = 1;

    (void)state;
    check_gets(PROTOCOL_TEXT, "VALUE 10000000 0 5 18446744073709551615\r\n%.5s\r\nEND\r\n");
    check_gets(PROTOCOL_META, "VA 5 c18446744073709551615\r\n%.5s\r\n");
    open_with(PROTOCOL_TEXT, "5", 1);
    write_request(OP_GETS, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, (const uint8_t *)"END\r\n", 5), 0);
    assert_int_equal(ctx.followup_count, 0);
    ctx.fill = true;
    write_request(OP_GETS, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, (const uint8_t *)"END\r\n", 5), 0);
    assert_int_equal(ctx.followup_count, 1);
    assert_int_equal(ctx.followups[0].op, OP_SET);
    write_request(OP_CAS, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, (const uint8_t *)"EXISTS\r\n", 8), 0);
    assert_int_equal(ctx.tally.exists, 1);
    close_all();
}

/* A reply that does not belong to the request is an error with a message. */
static void test_not_a_reply(void **state)
{
    static const struct {
        enum op op;
        const char *reply;
    } wrong[] = {
        {OP_GET, "VALUE 20000000 0 5\r\n"},
        {OP_GET, "VALUE 10000000 0 x\r\n"},
        {OP_GET, "VALUE 10000000 0 5 9\r\n"},
        {OP_GET, "STORED\r\n"},
        {OP_GET, "END\n"},
        {OP_GET, "VALUE 10000000 0\r\n"},
        {OP_GET, "\r\n"},
        {OP_GET, "\n"},
        {OP_SET, "END\r\n"},
        {OP_SET, "STORED \r\n"},
        {OP_DELETE, "STORED\r\n"},
        {OP_INCR, "12x\r\n"},
        {OP_INCR, "\r\n"},
        {OP_TOUCH, "OK\r\n"},
        {OP_GETS, "VALUE 10000000 0 5\r\n"},
        {OP_GETS, "VALUE 10000000 0 5 \r\n"},
        {OP_GETS, "VALUE 10000000 0 5 1x\r\n"},
        {OP_GAT, "VALUE 10000000 0 5 1\r\n"},
        {OP_SET, "EXISTS\r\n"},
        {OP_STATS, "STORED\r\n"},
    };
    uint8_t out[2048];
    uint64_t id = 1;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        open_with(PROTOCOL_TEXT, "5", 1);
        write_request(wrong[i].op, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(
            pipeline_receive(&s, (const uint8_t *)wrong[i].reply, (uint32_t)strlen(wrong[i].reply)),
            -1);
        assert_int_equal(ctx.tally.wrong, 1);
        assert_true(strlen(ctx.error) > 0);
        close_all();
    }
}

static void test_unexpected_and_endless_replies(void **state)
{
    static uint8_t endless[PIPELINE_HEAD_MAX + 1];
    uint8_t out[2048];
    uint64_t id = 1;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 1);
    assert_int_equal(pipeline_receive(&s, (const uint8_t *)"END\r\n", 5), -1);
    close_all();
    open_with(PROTOCOL_TEXT, "5", 1);
    memset(endless, 'x', sizeof(endless));
    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, endless, sizeof(endless)), -1);
    close_all();
}

/* A wrong bit or a wrong length of a value is counted, and the connection continues. */
static void test_wrong_value(void **state)
{
    char reply[128];
    uint8_t out[2048];
    uint64_t id = 1;
    unsigned i;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 1);
    snprintf(reply, sizeof(reply), "VALUE 10000000 0 5\r\n%.5s\r\nEND\r\n",
             (const char *)keyspace_value(&keys, 1));
    for (i = 0; i < 5; i++) {
        reply[20 + i] ^= 1;
        write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(pipeline_receive(&s, (uint8_t *)reply, (uint32_t)strlen(reply)), 0);
        assert_int_equal(ctx.tally.wrong, i + 1);
        reply[20 + i] ^= 1;
    }
    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(
        pipeline_receive(&s, (const uint8_t *)"VALUE 10000000 0 2\r\nab\r\nEND\r\n", 29), 0);
    assert_int_equal(ctx.tally.wrong, 6);
    ctx.verify = false;
    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(
        pipeline_receive(&s, (const uint8_t *)"VALUE 10000000 0 2\r\nab\r\nEND\r\n", 29), 0);
    assert_int_equal(ctx.tally.wrong, 6);
    assert_int_equal(ctx.tally.hits, 7);
    close_all();
}

/* Several keys: hits in order, with or without misses; a repeated or late one is wrong. */
static void test_multi(void **state)
{
    static const uint64_t ids[3] = {1, 2, 3};
    uint8_t out[2048];
    char reply[256];
    uint32_t cut;
    int len;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 3);
    len = snprintf(reply, sizeof(reply),
                   "VALUE 10000000 0 5\r\n%.5s\r\nVALUE 30000000 0 5\r\n%.5s\r\nEND\r\n",
                   (const char *)keyspace_value(&keys, 1), (const char *)keyspace_value(&keys, 3));
    for (cut = 0; cut < (uint32_t)len; cut++) {
        write_request(OP_GET, ids, 3, out, TEMPLATE_ROOM);
        assert_int_equal(feed_cut((uint8_t *)reply, (uint32_t)len, cut), 0);
        assert_int_equal(ctx.tally.requests, cut + 1);
        assert_int_equal(ctx.tally.hits, 2 * (cut + 1));
        assert_int_equal(ctx.tally.misses, cut + 1);
    }
    reply[32 + 2] = '1'; /* VALUE 10... again */
    write_request(OP_GET, ids, 3, out, TEMPLATE_ROOM);
    memcpy(reply + 27, "VALUE 10000000", 14);
    assert_int_equal(pipeline_receive(&s, (uint8_t *)reply, (uint32_t)len), -1);
    close_all();
}

static void binary_head(uint8_t head[24], uint8_t opcode, uint8_t extras, uint16_t status,
                        uint32_t body, uint32_t opaque)
{
    memset(head, 0, 24);
    head[0] = 0x81;
    head[1] = opcode;
    head[4] = extras;
    head[7] = (uint8_t)status;
    head[11] = (uint8_t)body;
    head[15] = (uint8_t)opaque;
}

static void test_binary_answers(void **state)
{
    uint8_t out[2048], reply[64];
    uint64_t id = 1;
    uint32_t cut;

    (void)state;
    open_with(PROTOCOL_BINARY, "5", 1);
    for (cut = 0; cut < 33; cut++) {
        binary_head(reply, 0, 4, 0, 9, s.tail);
        memset(reply + 24, 0, 4);
        memcpy(reply + 28, keyspace_value(&keys, 1), 5);
        write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(feed_cut(reply, 33, cut), 0);
        assert_int_equal(ctx.tally.hits, cut + 1);
    }
    binary_head(reply, 0, 0, 1, 9, s.tail);
    memcpy(reply + 24, "Not found", 9);
    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, reply, 33), 0);
    assert_int_equal(ctx.tally.misses, 1);
    binary_head(reply, 1, 0, 0x82, 0, s.tail);
    write_request(OP_SET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, reply, 24), 0);
    assert_int_equal(ctx.tally.refused, 1);
    binary_head(reply, 1, 0, 2, 3, s.tail);
    memcpy(reply + 24, "xyz", 3);
    write_request(OP_CAS, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, reply, 27), 0);
    assert_int_equal(ctx.tally.exists, 1);
    binary_head(reply, 0x0e, 0, 5, 0, s.tail);
    write_request(OP_APPEND, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, reply, 24), 0);
    assert_int_equal(ctx.tally.refused, 1);
    binary_head(reply, 5, 0, 0, 8, s.tail);
    write_request(OP_INCR, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, reply, 32), 0);
    assert_int_equal(pipeline_in_flight(&s), 0);
    assert_int_equal(ctx.tally.wrong, 0);
    close_all();
}

/* Another opaque, another opcode, a magic of a request. */
static void test_binary_not_a_reply(void **state)
{
    uint8_t out[2048], reply[24];
    uint64_t id = 1;
    unsigned i;

    (void)state;
    for (i = 0; i < 3; i++) {
        open_with(PROTOCOL_BINARY, "5", 1);
        write_request(OP_SET, &id, 1, out, TEMPLATE_ROOM);
        binary_head(reply, i == 0 ? 4 : 1, 0, 0, 0, i == 1);
        if (i == 2)
            reply[0] = 0x80;
        assert_int_equal(pipeline_receive(&s, reply, 24), -1);
        assert_int_equal(ctx.tally.wrong, 1);
        close_all();
    }
}

/* Keys are compared separately from the bytes around them. */
static void test_every_length_of_a_key(void **state)
{
    static const char *const lengths[] = {"2", "7", "8", "9", "40", "250", "2-20"};
    uint8_t out[TEMPLATE_ROOM], reply[TEMPLATE_ROOM + 64];
    uint64_t id = 999;
    char key[LOAD_KEY_MAX + 1], request[TEMPLATE_ROOM];
    uint32_t len, i, k;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        open_sized(PROTOCOL_TEXT, lengths[i], "5", 1);
        key[load_key_write(key, id, keyspace_key_bytes(&keys, id))] = '\0';
        snprintf(request, sizeof(request), "get %s\r\n", key);
        assert_request(OP_GET, id, request);
        len = (uint32_t)snprintf((char *)reply, sizeof(reply), "VALUE %s 0 5\r\n%.5s\r\nEND\r\n",
                                 key, (const char *)keyspace_value(&keys, id));
        write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(pipeline_receive(&s, reply, len), 0);
        assert_int_equal(ctx.tally.hits, 1);
        close_all();
        for (k = 6; k < 6 + strlen(key); k++) {
            open_sized(PROTOCOL_TEXT, lengths[i], "5", 1);
            write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
            reply[k] ^= 1;
            assert_int_equal(pipeline_receive(&s, reply, len), -1);
            reply[k] ^= 1;
            assert_int_equal(ctx.tally.wrong, 1);
            close_all();
        }
    }
}

/* Requests of the warm-up are checked, but not counted. */
static void test_warm_up(void **state)
{
    uint8_t out[2048];
    uint64_t id = 1;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 1);
    ctx.record_from_ns = 401;
    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    assert_int_equal(pipeline_receive(&s, (const uint8_t *)"END\r\n", 5), 0);
    assert_int_equal(ctx.tally.requests, 0);
    for (unsigned op = 0; op < OP_COUNT; op++)
        assert_int_equal(latency[op].total, 0);
    assert_int_equal(ctx.answered, 1);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_requests),
        cmocka_unit_test(test_meta_requests),
        cmocka_unit_test(test_binary_requests),
        cmocka_unit_test(test_large_value_in_pieces),
        cmocka_unit_test(test_sets_of_every_size),
        cmocka_unit_test(test_text_answers),
        cmocka_unit_test(test_answers_in_a_row),
        cmocka_unit_test(test_meta_answers),
        cmocka_unit_test(test_gets_and_cas),
        cmocka_unit_test(test_not_a_reply),
        cmocka_unit_test(test_unexpected_and_endless_replies),
        cmocka_unit_test(test_wrong_value),
        cmocka_unit_test(test_multi),
        cmocka_unit_test(test_binary_answers),
        cmocka_unit_test(test_binary_not_a_reply),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_every_length_of_a_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
