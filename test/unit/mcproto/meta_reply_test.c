/* SPDX-License-Identifier: BSD-3-Clause */
/* The replies of the meta commands: each flag, their order, what a reply does not tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "mcproto/mcproto.h"

#define TELLS_OF_A_HIT                                                                             \
    (MC_META_RETURN_CAS | MC_META_RETURN_FLAGS | MC_META_RETURN_HIT | MC_META_RETURN_KEY |         \
     MC_META_RETURN_ACCESS | MC_META_RETURN_SIZE | MC_META_RETURN_TTL | MC_META_OPAQUE)

static struct mc_meta_reply hit(void)
{
    struct mc_meta_reply reply;

    memset(&reply, 0, sizeof reply);
    reply.tells = TELLS_OF_A_HIT;
    reply.key = (const u_u8 *)"key";
    reply.key_len = 3;
    reply.size = 1234;
    reply.client_flags = 0xffffffffu;
    reply.cas = ~(u_u64)0;
    reply.access_s = 7;
    reply.was_hit = 1;
    reply.ttl_s = 50;
    reply.ttl_set_s = 60;
    reply.ttl_created_s = 70;
    return reply;
}

/* The reply to a request line, which has to be a good one. */
static void check(const char *line, const struct mc_meta_reply *reply, const char *expected)
{
    struct mc_request req;
    u_u8 out[MC_META_LINE_MAX + 1];
    char request[600];
    u_u32 len;

    snprintf(request, sizeof request, "%s\r\n", line);
    assert_int_equal(mc_parse((const u_u8 *)request, (u_u32)strlen(request), &req), MC_REQUEST);
    memset(out, '!', sizeof out);
    len = mc_write_meta(out, &req.meta, reply);
    assert_in_range(len, 4, MC_META_LINE_MAX);
    assert_int_equal(out[len], '!');
    assert_memory_equal(out + len - 2, "\r\n", 2);
    out[len - 2] = '\0';
    assert_string_equal((const char *)out, expected);
}

static void codes(void **state)
{
    static const char *const names[] = {"HD", "VA 1234567890", "EN", "NF", "NS", "EX"};
    struct mc_meta_reply reply = hit();
    int i;

    reply.value_bytes = 1234567890;
    for (i = 0; i < 6; i++) {
        reply.code = (enum mc_meta_code)i;
        check("mg k", &reply, names[i]);
    }
}

static void every_flag(void **state)
{
    struct mc_meta_reply reply = hit();

    check("mg k c", &reply, "HD c18446744073709551615");
    check("mg k f", &reply, "HD f4294967295");
    check("mg k h", &reply, "HD h1");
    check("mg k k", &reply, "HD kkey");
    check("mg k l", &reply, "HD l7");
    check("mg k s", &reply, "HD s1234");
    check("mg k t", &reply, "HD t50");
    check("mg k O", &reply, "HD O");
    check("mg k Oxyz", &reply, "HD Oxyz");
    check("mg a2V5 q u v x b E1 F1 I J1 D1 MS N1 R1 T1 Pp Ll", &reply, "HD");
    reply.was_hit = 0;
    reply.ttl_s = MC_TTL_NONE;
    check("mg k h t", &reply, "HD h0 t-1");
}

static void flags_come_in_the_order_of_the_request(void **state)
{
    struct mc_meta_reply reply = hit();

    check("mg k s v t Oo k c f h l", &reply,
          "HD s1234 t50 Oo kkey c18446744073709551615 f4294967295 h1 l7");
    check("mg k l h f c k Oo t v s", &reply,
          "HD l7 h1 f4294967295 c18446744073709551615 kkey Oo t50 s1234");
    /* Words behind a letter that takes no argument go unnoticed. */
    check("mg k size ttl", &reply, "HD s1234 t50");
}

/* Flags that ask for nothing are not answered, whatever the caller says. */
static void what_cannot_be_told_is_left_out(void **state)
{
    struct mc_meta_reply reply = hit();

    reply.tells = ~(u_u32)0;
    check("mg a2V5 q v x u I b E1 F1 J1 D1 MS N1 R1 T1 Pp Ll s", &reply, "HD s1234");
}

static void what_a_reply_does_not_tell_is_left_out(void **state)
{
    struct mc_meta_reply reply = hit();

    reply.code = MC_META_EN;
    reply.tells = MC_META_RETURN_KEY | MC_META_OPAQUE;
    check("mg key s v t Oo k c f h l", &reply, "EN Oo kkey");
    reply.tells = 0;
    check("mg key s v t Oo k c f h l", &reply, "EN");
}

static void the_time_to_live_follows_the_flags(void **state)
{
    struct mc_meta_reply reply = hit();

    check("mg k t T60", &reply, "HD t50");
    check("mg k T60 t", &reply, "HD t60");
    check("mg k N70 t", &reply, "HD t50");
    reply.created = 1;
    reply.ttl_s = MC_TTL_NONE;
    check("mg k t N70", &reply, "HD t-1");
    check("mg k N70 t", &reply, "HD t70");
    check("mg k T60 N70 t", &reply, "HD t70");
    check("mg k N70 T60 t", &reply, "HD t60");
}

static void binary_keys(void **state)
{
    struct mc_meta_reply reply = hit();

    reply.key_is_binary = 1;
    check("mg k k s", &reply, "HD ka2V5 b s1234");
    check("mg a2V5 b s", &reply, "HD s1234");
    check("mg a2V5 b k", &reply, "HD ka2V5 b");
}

static void stale_and_won(void **state)
{
    struct mc_meta_reply reply = hit();

    reply.is_stale = 1;
    reply.won = 1;
    check("mg k s", &reply, "HD s1234 X W");
    reply.won = 0;
    reply.won_before = 1;
    check("mg k s", &reply, "HD s1234 Z X");
    reply.is_stale = 0;
    check("mg k", &reply, "HD Z");
}

/* Everything that a reply can tell, each as long as it can be. */
static void the_longest_line_fits(void **state)
{
    struct mc_meta_reply reply = hit();
    struct mc_request req;
    u_u8 key[MC_KEY_MAX];
    u_u8 out[MC_META_LINE_MAX];
    const char line[] = "mg k c f h k l s t Oooooooooooooooooooooooooooooooo\r\n";

    memset(key, 0xff, sizeof key);
    reply.code = MC_META_VA;
    reply.value_bytes = reply.size = reply.access_s = 0xffffffffu;
    reply.ttl_s = 0xfffffffeu;
    reply.key = key;
    reply.key_len = sizeof key;
    reply.key_is_binary = reply.won = reply.is_stale = reply.won_before = 1;
    assert_int_equal(mc_parse((const u_u8 *)line, sizeof line - 1, &req), MC_REQUEST);
    assert_in_range(mc_write_meta(out, &req.meta, &reply), 450, sizeof out);
}

static struct mc_item_info facts(void)
{
    struct mc_item_info item;

    memset(&item, 0, sizeof item);
    item.key = (const u_u8 *)"a b";
    item.key_len = 3;
    item.access = 5;
    item.cas = 7;
    item.class_id = 1;
    item.size = 63;
    item.flags = 9;
    return item;
}

static void check_text(const u_u8 *out, u_u32 len, const char *expected)
{
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(out, expected, len);
}

static void lines_about_items(void **state)
{
    struct mc_item_info item = facts();
    u_u8 out[MC_ITEM_LINE_MAX];

    check_text(out, mc_write_meta_debug(out, &item),
               "ME a b exp=-1 la=5 cas=7 fetch=no cls=1 size=63\r\n");
    check_text(out, mc_write_metadump(out, &item),
               "key=a%20b exp=-1 la=5 cas=7 fetch=no cls=1 size=63 flags=9 \n");
    check_text(out, mc_write_mgdump(out, item.key, item.key_len, 0), "mg a b\r\n");
    item.expires = 1;
    item.exptime = 100;
    item.fetched = 1;
    item.key_is_binary = 1;
    check_text(out, mc_write_meta_debug(out, &item),
               "ME YSBi exp=100 la=5 cas=7 fetch=yes cls=1 size=63\r\n");
    check_text(out, mc_write_metadump(out, &item),
               "key=a%20b exp=100 la=5 cas=7 fetch=yes cls=1 size=63 flags=9 \n");
    check_text(out, mc_write_mgdump(out, item.key, item.key_len, 1), "mg YSBi b\r\n");
}

static void the_longest_lines_about_items_fit(void **state)
{
    struct mc_item_info item = facts();
    u_u8 key[MC_KEY_MAX];
    u_u8 out[MC_ITEM_LINE_MAX];

    memset(key, ' ', sizeof key);
    item.key = key;
    item.key_len = sizeof key;
    item.expires = item.fetched = 1;
    item.exptime = item.access = item.class_id = item.size = item.flags = 0xffffffffu;
    item.cas = ~(u_u64)0;
    assert_in_range(mc_write_metadump(out, &item), 750, sizeof out);
    assert_in_range(mc_write_meta_debug(out, &item), 250, sizeof out);
    assert_in_range(mc_write_mgdump(out, key, sizeof key, 1), 330, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(every_flag),
        cmocka_unit_test(flags_come_in_the_order_of_the_request),
        cmocka_unit_test(what_cannot_be_told_is_left_out),
        cmocka_unit_test(what_a_reply_does_not_tell_is_left_out),
        cmocka_unit_test(the_time_to_live_follows_the_flags),
        cmocka_unit_test(binary_keys),
        cmocka_unit_test(stale_and_won),
        cmocka_unit_test(the_longest_line_fits),
        cmocka_unit_test(lines_about_items),
        cmocka_unit_test(the_longest_lines_about_items_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
