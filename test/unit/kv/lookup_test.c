/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups: accesses, expiry, lifetimes of views and pins. */
#include "kv_rig.h"

#include "kv/engine.h"
#include "kv/item.h"

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 2 * MIB, 2, true, 10);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static void set_expiring(const struct kv_key *key, uint32_t exptime)
{
    enum kv_error error;
    assert_true(rig_store(rig.worker, key, 20, 1, 0, exptime, &error) != 0);
}

/* Enough sets to evict everything that can be. */
static void flood(uint32_t seed)
{
    char name[16];
    for (unsigned i = 0; i < 4000; i++) {
        snprintf(name, sizeof(name), "flood%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, 1000, seed + i);
        kv_quiesce(rig.worker);
    }
}

static void test_miss(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "nothing");
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_MISS);
    kv_prefetch_bucket(rig.worker, &key);
    assert_null(kv_prefetch_item(rig.worker, &key));
}

/* For all sizes: a prefetch finds the item that a lookup finds, and changes nothing. */
static void test_prefetch_finds_the_item(void **unused)
{
    static const uint32_t sizes[] = {0, 1, 254, 255, 5000, 300000};
    struct kv_view view;
    char name[16];
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(name, sizeof(name), "sized%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, sizes[i], i);
        kv_prefetch_bucket(rig.worker, &key);
        const struct kv_item *item = kv_prefetch_item(rig.worker, &key);
        assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
        assert_ptr_equal(item, view.item);
        kv_prefetch_value(item);
        assert_int_equal(view.state & KV_FETCHED, 0);
        assert_true(rig_is_filled(view.item, sizes[i], i));
    }
}

/* With and without flags, long and large items: a hint leads to the current item. */
static void test_place_is_but_a_hint(void **unused)
{
    static const struct {
        uint32_t value_len;
        uint32_t flags;
    } kinds[] = {{0, 0}, {20, 0}, {20, 7}, {254, 0}, {255, 0}, {300, 7}, {60000, 0}, {60000, 7}};
    enum kv_error error;
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct kv_view view;
        struct kv_key plain = rig_key(rig.kv, "hinted"), key = plain;
        rig_set(rig.worker, &plain, 8, 1);
        kv_prefetch_bucket(rig.worker, &key);
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT); /* only the bucket is known */
        kv_prefetch_item(rig.worker, &key);
        assert_true(
            rig_store(rig.worker, &plain, kinds[i].value_len, i, kinds[i].flags, 0, &error) != 0);
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
        assert_int_equal(view.value_len, kinds[i].value_len);
        assert_int_equal(view.flags, kinds[i].flags);
        assert_memory_equal(view.key, "hinted", view.key_len);
        assert_true(rig_is_filled(view.item, kinds[i].value_len, i));
        rig_delete(rig.worker, &plain);
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
    }
}

static void test_hinted_item_can_be_over(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "hinted");
    set_expiring(&key, 12);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS_EXPIRED);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
    rig_set(rig.worker, &key, 20, 1);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    kv_flush(rig.worker);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS_FLUSHED);
}

/* Two keys of one length and tag: the hint is where the first of them is. */
static void test_hint_of_another_key_with_the_tag(void **unused)
{
    char name[16], other_name[16];
    struct kv_key key = {0}, other = {0};
    struct kv_view view;
    snprintf(name, sizeof(name), "tag%08u", 0);
    key = rig_key(rig.kv, name);
    for (unsigned i = 1; other.bytes == NULL || (uint16_t)other.hash != (uint16_t)key.hash; i++) {
        snprintf(other_name, sizeof(other_name), "tag%08u", i);
        other = rig_key(rig.kv, other_name);
        assert_true(i < 10000000);
    }
    rig_set(rig.worker, &key, 8, 1);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    other.hint = key.hint;
    assert_int_equal(kv_get(rig.worker, &other, &view), KV_MISS);
    rig_set(rig.worker, &other, 8, 2);
    assert_int_equal(kv_get(rig.worker, &other, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 8, 2));
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 8, 1));
}

static void prefetch(struct kv_key *key)
{
    kv_prefetch_bucket(rig.worker, key);
    kv_prefetch_item(rig.worker, key);
}

/* The lengths of keys and values for which there is a short way, and those around them. */
static void test_short_finds_what_get_finds(void **unused)
{
    static const uint32_t key_lens[] = {1, 3, 4, 7, 8, 9, 16, 17, 32, 33, 250};
    static const uint32_t value_lens[] = {0, 1, 8, 32, 254, 255, 300};
    char name[251];
    for (unsigned k = 0; k < sizeof(key_lens) / sizeof(key_lens[0]); k++) {
        memset(name, 'n', sizeof(name));
        name[key_lens[k]] = '\0';
        for (unsigned i = 0; i < sizeof(value_lens) / sizeof(value_lens[0]); i++) {
            struct kv_key key = rig_key(rig.kv, name);
            struct kv_short found;
            struct kv_view view;
            rig_set(rig.worker, &key, value_lens[i], i);
            assert_false(kv_get_short(rig.worker, &key, &found)); /* nothing is known of it */
            prefetch(&key);
            assert_int_equal(kv_get_short(rig.worker, &key, &found),
                             key_lens[k] <= 32 && value_lens[i] <= KV_SHORT_MAX);
            if (key_lens[k] > 32 || value_lens[i] > KV_SHORT_MAX)
                continue;
            assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
            assert_ptr_equal(found.value, view.value);
            assert_int_equal(found.value_len, value_lens[i]);
        }
    }
}

static void test_short_refuses_what_is_not_plain(void **unused)
{
    struct kv_key plain = rig_key(rig.kv, "hinted"), key = plain;
    struct kv_key other = rig_key(rig.kv, "hintee");
    enum kv_error error;
    struct kv_short found;
    assert_true(rig_store(rig.worker, &plain, 8, 1, 7, 0, &error) != 0);
    prefetch(&key);
    assert_false(kv_get_short(rig.worker, &key, &found));
    set_expiring(&plain, 12);
    prefetch(&key);
    kv_tick(rig.worker, 11);
    assert_true(kv_get_short(rig.worker, &key, &found));
    kv_tick(rig.worker, 12);
    assert_false(kv_get_short(rig.worker, &key, &found));
    rig_set(rig.worker, &plain, 8, 1);
    assert_false(kv_get_short(rig.worker, &key, &found)); /* there is another one now */
    prefetch(&key);
    assert_true(kv_get_short(rig.worker, &key, &found));
    other.hint = key.hint;
    assert_false(kv_get_short(rig.worker, &other, &found));
    kv_flush(rig.worker);
    assert_false(kv_get_short(rig.worker, &key, &found));
    rig_set(rig.worker, &plain, 8, 1);
    prefetch(&key);
    rig_delete(rig.worker, &plain);
    assert_false(kv_get_short(rig.worker, &key, &found));
}

static void test_short_counts_as_an_access(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "short"), other = rig_key(rig.kv, "other");
    struct kv_short found;
    struct kv_view view, other_view;
    rig_set(rig.worker, &key, 8, 1);
    rig_set(rig.worker, &other, 8, 1);
    prefetch(&key);
    for (uint32_t i = 0; i < 8; i++) {
        kv_tick(rig.worker, 20 + i / 2);
        assert_true(kv_get_short(rig.worker, &key, &found));
        assert_int_equal(kv_get(rig.worker, &other, &other_view), KV_HIT);
        assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
        assert_int_equal(view.last_access, 20 + i / 2);
        assert_true(view.state & KV_FETCHED);
        assert_int_equal(kv_item_access(view.item), kv_item_access(other_view.item));
    }
}

static void test_hash_depends_on_key_and_secret(void **unused)
{
    struct kv *other = NULL;
    struct kv_config config = {
        .memory_bytes = MIB, .value_bytes_max = 100, .worker_max = 1, .secret = {1}};
    const char *error;
    other = kv_create(&config, &error);
    struct kv_key a = rig_key(rig.kv, "a"), b = rig_key(rig.kv, "b"), c = rig_key(other, "a");
    assert_true(a.hash != b.hash);
    assert_true(a.hash != c.hash);
    kv_destroy(other);
}

static void test_get_is_an_access_and_peek_is_not(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    rig_set(rig.worker, &key, 5, 1);
    kv_tick(rig.worker, 20);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.state, 0);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.state, 0); /* as it was before this lookup */
    assert_int_equal(view.last_access, 10);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.state, KV_FETCHED);
    assert_int_equal(view.last_access, 20);
}

/* The eviction spares it once, where one access is enough for that; nothing else knows. */
static void test_spare(void **unused)
{
    rig_close(&rig);
    rig.kv = rig_create_policy(2 * MIB, 2, true, KV_POLICY_CLOCK);
    rig.worker = kv_join(rig.kv);
    kv_tick(rig.worker, 10);
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "spared"), other = rig_key(rig.kv, "other");
    rig_set(rig.worker, &key, 1000, 1);
    rig_set(rig.worker, &other, 1000, 2);
    kv_tick(rig.worker, 20);
    kv_bump(rig.worker, &key);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.state, 0);
    assert_int_equal(view.last_access, 10);
    for (unsigned i = 0; kv_peek(rig.worker, &other, &view) == KV_HIT; i++) {
        char name[16];
        snprintf(name, sizeof(name), "flood%u", i);
        struct kv_key filler = rig_key(rig.kv, name);
        rig_set(rig.worker, &filler, 1000, i);
        kv_quiesce(rig.worker);
        assert_true(i < 4000);
    }
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    kv_quiesce(rig.worker);
}

static void test_expires_when_its_second_comes(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    set_expiring(&key, 12);
    kv_tick(rig.worker, 11);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_MISS_EXPIRED);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_MISS_EXPIRED);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS_EXPIRED);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS); /* the first one took it away */
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.expired_reclaimed, 1);
    assert_int_equal(stats.expired_unfetched, 0);
}

/* Seen expired by one worker, but touched by another one, whose clock is behind, since. */
static void test_touched_since_it_was_seen_expired(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    uint64_t word;
    set_expiring(&key, 12);
    struct kv_item *item = rig_find(&rig.kv->index, &key, &word);
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_item_validity(rig.worker, item), KV_MISS_EXPIRED);
    kv_item_set_exptime(rig.worker, item, 100);
    assert_false(kv_unlink_invalid(rig.worker, item, key.hash, word));
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
}

static void test_stored_expired_is_never_seen(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    set_expiring(&key, 10);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS_EXPIRED);
    assert_int_equal(rig_stats(rig.kv).expired_unfetched, 1);
}

static void test_flushed(void **unused)
{
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    rig_set(rig.worker, &key, 5, 1);
    kv_flush(rig.worker);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_MISS_FLUSHED);
    rig_set(rig.worker, &key, 5, 2);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 5, 2));
}

static void view_outlives_delete_and_eviction(enum kv_found (*look)(struct kv_worker *,
                                                                    const struct kv_key *,
                                                                    struct kv_view *))
{
    struct kv_view small, large;
    struct kv_key key = rig_key(rig.kv, "small"), large_key = rig_key(rig.kv, "large");
    rig_set(rig.worker, &key, 100, 1);
    rig_set(rig.worker, &large_key, 60000, 2);
    assert_int_equal(look(rig.worker, &key, &small), KV_HIT);
    assert_int_equal(look(rig.worker, &large_key, &large), KV_HIT);
    rig_delete(rig.worker, &key);
    char name[16];
    for (unsigned i = 0; i < 4000; i++) { /* no kv_quiesce() in between */
        snprintf(name, sizeof(name), "flood%u", i);
        struct kv_key other = rig_key(rig.kv, name);
        rig_set(rig.worker, &other, 1000, i);
    }
    assert_true(rig_stats(rig.kv).evictions > 0);
    assert_true(rig_is_filled(small.item, 100, 1));
    assert_true(rig_is_filled(large.item, 60000, 2));
}

static void test_view_of_a_get_outlives_delete_and_eviction(void **unused)
{
    view_outlives_delete_and_eviction(kv_get);
}

static void test_view_of_a_peek_outlives_delete_and_eviction(void **unused)
{
    view_outlives_delete_and_eviction(kv_peek);
}

/* Views of a worker that has just come back are as good as those of one that never was away. */
static void test_view_of_another_worker_outlives_eviction(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key");
    enum kv_error error;
    char name[16];
    rig_set(rig.worker, &key, 100, 1);
    kv_offline(other);
    flood(1);
    rig_set(rig.worker, &key, 100, 1);
    kv_online(other);
    assert_int_equal(kv_peek(other, &key, &view), KV_HIT);
    for (unsigned i = 0; i < 4000; i++) {
        snprintf(name, sizeof(name), "more%u", i);
        struct kv_key more = rig_key(rig.kv, name);
        rig_store(rig.worker, &more, 1000, i, 0, 0, &error); /* may fail: the other delays */
        kv_quiesce(rig.worker);
    }
    assert_true(rig_is_filled(view.item, 100, 1));
    kv_leave(other);
}

static void test_pin_outlives_everything(void **unused)
{
    struct kv_view small, large;
    struct kv_worker *other = kv_join(rig.kv);
    struct kv_key key = rig_key(rig.kv, "small"), large_key = rig_key(rig.kv, "large");
    rig_set(rig.worker, &key, 100, 1);
    rig_set(rig.worker, &large_key, 60000, 2);
    kv_get(rig.worker, &key, &small);
    kv_get(rig.worker, &large_key, &large);
    kv_pin(rig.worker, small.item);
    kv_pin(rig.worker, large.item);
    kv_pin(rig.worker, large.item);
    assert_int_equal(rig_stats(rig.kv).pinned, 3);
    rig_delete(rig.worker, &key);
    kv_offline(other);
    flood(1);
    kv_online(other);
    assert_true(rig_is_filled(small.item, 100, 1));
    assert_true(rig_is_filled(large.item, 60000, 2));
    kv_unpin(other, large.item);
    kv_offline(other);
    flood(2);
    kv_online(other);
    assert_true(rig_is_filled(large.item, 60000, 2));
    kv_unpin(other, large.item);
    kv_unpin(other, small.item);
    assert_int_equal(rig_stats(rig.kv).pinned, 0);
    kv_offline(other);
    flood(3);
    kv_leave(other);
}

static void test_pins_do_not_stop_eviction(void **unused)
{
    const struct kv_item *pinned[40];
    char name[16];
    for (unsigned i = 0; i < 40; i++) { /* one in most of the segments */
        snprintf(name, sizeof(name), "pinned%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, 100, i);
        struct kv_view view;
        kv_get(rig.worker, &key, &view);
        kv_pin(rig.worker, view.item);
        pinned[i] = view.item;
        for (unsigned j = 0; j < 12; j++) {
            snprintf(name, sizeof(name), "filler%u", i * 100 + j);
            key = rig_key(rig.kv, name);
            rig_set(rig.worker, &key, 1000, j);
        }
        kv_quiesce(rig.worker);
    }
    flood(4);
    for (unsigned i = 0; i < 40; i++) {
        assert_true(rig_is_filled(pinned[i], 100, i));
        kv_unpin(rig.worker, pinned[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_prefetch_finds_the_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_miss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_place_is_but_a_hint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_finds_what_get_finds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_refuses_what_is_not_plain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_counts_as_an_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hinted_item_can_be_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hint_of_another_key_with_the_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hash_depends_on_key_and_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(test_get_is_an_access_and_peek_is_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spare, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expires_when_its_second_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_touched_since_it_was_seen_expired, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stored_expired_is_never_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flushed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_of_a_get_outlives_delete_and_eviction, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_view_of_a_peek_outlives_delete_and_eviction, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_view_of_another_worker_outlives_eviction, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_pin_outlives_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pins_do_not_stop_eviction, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
