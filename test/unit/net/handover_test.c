/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of a handover: written, read, and refused if they are not well-formed. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "net/handover.h"

static void add(struct net_handover *handover, struct net_handover_record record, const char *input,
                const char *queued, const char *tls)
{
    record.input_bytes = (uint32_t)strlen(input);
    record.queued_bytes = (uint32_t)strlen(queued);
    record.tls_bytes = (uint32_t)strlen(tls);
    record.tls = record.tls_bytes > 0 ? CACHE_TLS_ON : CACHE_TLS_OFF;
    record.state.queued_bytes = record.queued_bytes;
    net_handover_begin(handover, &record);
    net_handover_add(handover, input, record.input_bytes);
    net_handover_add(handover, queued, record.queued_bytes);
    net_handover_add(handover, tls, record.tls_bytes);
    net_handover_end(handover, &record);
}

static void fill(struct net_handover *handover)
{
    memset(handover, 0, sizeof(*handover));
    add(handover,
        (struct net_handover_record){.kind = NET_HANDOVER_LISTENER,
                                     .fd = net_handover_add_fd(handover, open("/dev/null", 0))},
        "", "", "");
    add(handover,
        (struct net_handover_record){.kind = NET_HANDOVER_SOCKET,
                                     .fd = net_handover_add_fd(handover, open("/dev/null", 0))},
        "get ", "", "");
    add(handover, (struct net_handover_record){.kind = NET_HANDOVER_STACK}, "set a", "VALUE",
        "keys");
    add(handover,
        (struct net_handover_record){.kind = NET_HANDOVER_DEVICE,
                                     .fd = net_handover_add_fd(handover, open("/dev/null", 0))},
        "sixbyt", "", "");
    add(handover, (struct net_handover_record){.kind = NET_HANDOVER_MAC, .fd = 99}, "bytsix", "",
        "");
    assert_false(handover->failed);
}

static void test_records_are_read_as_written(void **state)
{
    const struct net_handover_record *record;
    struct net_handover handover;
    size_t at = 0;
    int fd;

    fill(&handover);
    assert_true(net_handover_is_valid(&handover));
    record = net_handover_next(&handover, &at);
    assert_int_equal(record->kind, NET_HANDOVER_LISTENER);
    fd = net_handover_take_fd(&handover, record->fd);
    assert_true(fd >= 0);
    assert_int_equal(net_handover_take_fd(&handover, record->fd), -1);
    record = net_handover_next(&handover, &at);
    assert_int_equal(record->kind, NET_HANDOVER_SOCKET);
    assert_memory_equal(net_handover_input(record), "get ", 4);
    record = net_handover_next(&handover, &at);
    assert_int_equal(record->kind, NET_HANDOVER_STACK);
    assert_memory_equal(net_handover_input(record), "set aVALUE", 10);
    assert_memory_equal(net_handover_tls(record), "keys", 4);
    net_handover_wipe_tls(&handover, record);
    assert_memory_equal(net_handover_input(record), "set aVALUE\0\0\0\0", 14);
    record = net_handover_next(&handover, &at);
    assert_ptr_equal(record, net_handover_find(&handover, NET_HANDOVER_DEVICE));
    assert_memory_equal(net_handover_input(record), "sixbyt", 6);
    record = net_handover_next(&handover, &at); /* which has no descriptor */
    assert_ptr_equal(record, net_handover_find(&handover, NET_HANDOVER_MAC));
    assert_memory_equal(net_handover_input(record), "bytsix", 6);
    assert_null(net_handover_next(&handover, &at));
    net_handover_free(&handover, true);
    assert_int_equal(close(fd), 0); /* it was not closed */
}

static void test_descriptors_stay_open_for_the_sender(void **state)
{
    struct net_handover handover;
    int fds[3];

    fill(&handover);
    memcpy(fds, handover.fds, sizeof(fds));
    net_handover_free(&handover, false);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(close(fds[2]), 0);
}

/* Cut anywhere, or with any bytes changed: refused, or all that is read lies inside. */
static void test_malformed_records_are_refused(void **state)
{
    struct net_handover handover, damaged;
    struct u_prng prng;
    size_t i, whole = 0;
    unsigned n;

    fill(&handover);
    damaged = handover;
    for (i = 0; i <= handover.len; i++) {
        damaged.len = i;
        whole += net_handover_is_valid(&damaged);
    }
    assert_int_equal(whole, 6); /* behind each record, and at the start */
    u_prng_seed(&prng, 3);
    damaged.len = handover.len;
    damaged.bytes = malloc(handover.len);
    for (n = 0; n < 20000; n++) {
        const struct net_handover_record *record;
        size_t at = 0;

        memcpy(damaged.bytes, handover.bytes, handover.len);
        for (i = u_prng_below(&prng, 3) + 1; i > 0; i--)
            damaged.bytes[u_prng_below(&prng, (u_u32)handover.len)] ^=
                (uint8_t)(1 + u_prng_below(&prng, 255));
        if (!net_handover_is_valid(&damaged))
            continue;
        while ((record = net_handover_next(&damaged, &at)) != NULL) {
            const uint8_t *end = net_handover_tls(record) + record->tls_bytes;

            assert_true(end <= damaged.bytes + damaged.len);
            assert_true(record->kind == NET_HANDOVER_STACK || record->kind == NET_HANDOVER_MAC ||
                        record->fd < damaged.fd_count);
        }
    }
    free(damaged.bytes);
    net_handover_free(&handover, true);
}

/* A MAC address has six bytes. */
static void test_addresses_of_other_lengths_are_refused(void **state)
{
    static const struct {
        uint8_t kind;
        const char *address;
        bool valid;
    } rows[] = {
        {NET_HANDOVER_DEVICE, "sixbyt", true},   {NET_HANDOVER_DEVICE, "fiveb", false},
        {NET_HANDOVER_DEVICE, "sevenby", false}, {NET_HANDOVER_MAC, "sixbyt", true},
        {NET_HANDOVER_MAC, "fiveb", false},      {NET_HANDOVER_MAC, "sevenby", false},
        {NET_HANDOVER_SOCKET, "sevenby", true}, /* input, of any length */
    };
    struct net_handover handover;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        memset(&handover, 0, sizeof(handover));
        add(&handover,
            (struct net_handover_record){.kind = rows[i].kind,
                                         .fd = net_handover_add_fd(&handover, -1)},
            rows[i].address, "", "");
        assert_int_equal(net_handover_is_valid(&handover), rows[i].valid);
        net_handover_free(&handover, false);
    }
}

/* The valid ranges of a record's fields, with one descriptor. */
static void test_fields_out_of_range_are_refused(void **state)
{
    static const struct {
        struct net_handover_record record;
        bool valid;
    } rows[] = {
        {{.kind = NET_HANDOVER_SOCKET, .transport = NET_ENDPOINT_UNIX}, true},
        {{.kind = NET_HANDOVER_SOCKET, .transport = NET_ENDPOINT_UNIX + 1}, false},
        {{.kind = NET_HANDOVER_SOCKET, .binding = CACHE_BINDING_BINARY}, true},
        {{.kind = NET_HANDOVER_SOCKET, .binding = CACHE_BINDING_BINARY + 1}, false},
        {{.kind = NET_HANDOVER_SOCKET, .tls = CACHE_TLS_CERT}, true},
        {{.kind = NET_HANDOVER_SOCKET, .tls = CACHE_TLS_CERT + 1}, false},
        {{.kind = NET_HANDOVER_LISTENER - 1}, false},
        {{.kind = NET_HANDOVER_MAC + 1, .input_bytes = 6}, false},
        {{.kind = NET_HANDOVER_SOCKET, .fd = 1}, false},
        {{.kind = NET_HANDOVER_LISTENER, .fd = 1}, false},
        {{.kind = NET_HANDOVER_STACK, .queued_bytes = 1, .state.queued_bytes = 1}, true},
        {{.kind = NET_HANDOVER_STACK, .queued_bytes = 1, .state.unread_bytes = 1}, true},
        {{.kind = NET_HANDOVER_STACK, .queued_bytes = 1}, false},
        {{.kind = NET_HANDOVER_SOCKET, .queued_bytes = 1}, false},
        {{.kind = NET_HANDOVER_SOCKET, .tls = CACHE_TLS_ON, .tls_bytes = 4}, true},
        {{.kind = NET_HANDOVER_SOCKET, .tls_bytes = 4}, false},
        {{.kind = NET_HANDOVER_LISTENER, .tls = CACHE_TLS_ON, .tls_bytes = 4}, false},
    };
    struct net_handover handover;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        const struct net_handover_record *record = &rows[i].record;

        memset(&handover, 0, sizeof(handover));
        (void)net_handover_add_fd(&handover, -1);
        net_handover_begin(&handover, record);
        net_handover_add(&handover, "abcdef", record->input_bytes);
        net_handover_add(&handover, "q", record->queued_bytes);
        net_handover_add(&handover, "keys", record->tls_bytes);
        net_handover_end(&handover, record);
        if (net_handover_is_valid(&handover) != rows[i].valid)
            fail_msg("row %u", i);
        net_handover_free(&handover, false);
    }
}

/* Records are missing when memory for them was. */
static void test_incomplete_records_are_refused(void **state)
{
    struct net_handover handover;

    fill(&handover);
    handover.failed = true;
    assert_false(net_handover_is_valid(&handover));
    net_handover_free(&handover, true);
}

/* A process whose TLS does not fit the connections. */
static void test_tls_fits_or_not(void **state)
{
    static const struct {
        uint8_t kind;
        const char *tls;
        bool fits_none, fits_tls;
    } rows[] = {
        {NET_HANDOVER_SOCKET, "", true, true},
        {NET_HANDOVER_SOCKET, "keys", false, true},
        {NET_HANDOVER_STACK, "", true, false},
        {NET_HANDOVER_STACK, "keys", false, true},
    };
    struct net_handover handover;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        memset(&handover, 0, sizeof(handover));
        add(&handover, (struct net_handover_record){.kind = rows[i].kind}, "", "", rows[i].tls);
        assert_int_equal(net_handover_tls_obstacle(&handover, false) == NULL, rows[i].fits_none);
        assert_int_equal(net_handover_tls_obstacle(&handover, true) == NULL, rows[i].fits_tls);
        net_handover_free(&handover, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_are_read_as_written),
        cmocka_unit_test(test_descriptors_stay_open_for_the_sender),
        cmocka_unit_test(test_malformed_records_are_refused),
        cmocka_unit_test(test_addresses_of_other_lengths_are_refused),
        cmocka_unit_test(test_fields_out_of_range_are_refused),
        cmocka_unit_test(test_incomplete_records_are_refused),
        cmocka_unit_test(test_tls_fits_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
