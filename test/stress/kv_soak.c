/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine at full memory for any length of time: threads store, read, increment, touch, pin and
 * delete, while another one dumps, crawls, flushes, changes the memory limit and advances the
 * clock.
 *
 *   kv_soak [--seconds=N] [--seed=N] [--threads=N] [--megabytes=N]
 *
 * Runs in rounds of at most 20 s, each with another seed and eviction policy, on a table that
 * starts small and grows.
 *
 * Checked throughout:
 *   - a key that only one thread writes is missing or has the value that this thread stored last,
 *     and is missing after this thread has deleted it;
 *   - no increment is lost, neither by a decision nor by a compare of an older cas: a counter never
 *     shows the same number of the same life twice;
 *   - a store finds memory without waiting, unless another worker is not quiescent for as long as a
 *     store waits (it may be preempted); then it finds memory once that worker is quiescent;
 *   - the memory in use is within the highest limit, and at the end within the last one.
 * Checked at the end, after everything was deleted: no items, bytes or pins are left, kv_check()
 * finds nothing, and the memory in use is that of the index.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../unit/kv/kv_rig.h"
#include "base/base.h"
#include "base/prng.h"
#include "kv/engine.h"
#include "loud.h"

#define THREADS_MAX 16
#define OWN_KEYS 60000   /* of each thread */
#define COUNTER_KEYS 512 /* of all */
#define CLAIMS 1024      /* numbers of a counter that are remembered */
#define STORE_TRIES_MAX 20000
#define STORE_WAIT_S 0.05 /* that a store naps at least before it gives up: evict.c */
#define PINS 4
#define PROGRESS_S 10
#define ROUND_S 20
#define SLOWNESS_MAX 20

struct own {
    uint32_t seed; /* of the value stored last; 0: it was deleted, or never stored */
    uint32_t len;
};

struct counters_of {
    kv_atomic_u64 gets, hits, sets, shorts, increments, swaps, outrun, waits;
};

/* A counter as it was some steps ago. */
struct seen {
    unsigned counter;
    uint64_t number;
    uint64_t cas; /* 0: none is remembered */
};

struct thread {
    struct soak *soak;
    struct kv_worker *worker;
    struct u_prng prng;
    unsigned number;
    pthread_t handle;
    struct own *own;
    struct {
        const struct kv_item *item;
        struct own what;
    } pins[PINS];
    struct seen seen;
    struct counters_of counts;
};

struct soak {
    struct kv *kv;
    unsigned threads;
    double seconds;
    uint64_t seed;
    uint64_t memory_bytes;
    enum kv_policy_kind policy;
    kv_atomic_u32 over;
    kv_atomic_u32 now_s;
    kv_atomic_u64 lives;
    kv_atomic_u64 claims[COUNTER_KEYS][CLAIMS];
    struct thread thread[THREADS_MAX];
};

static double clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct kv_key key_of(const struct kv *kv, char name[32], char kind, unsigned thread,
                            unsigned number)
{
    snprintf(name, 32, "%c%u:%u", kind, thread, number);
    return kv_key(kv, name, (uint32_t)strlen(name));
}

/* Has another worker been waited for in full, and not come since? */
static bool is_blocked(const struct thread *thread)
{
    const struct kv_worker *worker = thread->worker;
    return kv_epoch_oldest(&thread->soak->kv->epoch, worker->member) == worker->waited_for;
}

/*
 * Makes an item to store. Memory that another worker may still view is not available before that
 * worker is quiescent; if that takes long this worker becomes quiescent and waits. Any other
 * refusal is an error.
 */
static struct kv_item *item_new(struct thread *thread, const struct kv_key *key, uint32_t len,
                                uint32_t exptime)
{
    for (unsigned tries = 0; tries < STORE_TRIES_MAX; tries++) {
        double start = clock_now();
        bool blocked = is_blocked(thread);
        enum kv_error error;
        struct kv_item *item = kv_item_new(thread->worker, key, len, 0, exptime, &error);
        if (item)
            return item;
        EXPECT(error == KV_NO_MEMORY);
        EXPECT(blocked || clock_now() - start >= STORE_WAIT_S);
        kv_u64_count(&thread->counts.waits, 1);
        kv_offline(thread->worker);
        nanosleep(&(struct timespec){0, 100000}, NULL);
        kv_online(thread->worker);
        kv_quiesce(thread->worker);
    }
    loud_fail("a store finds memory", __FILE__, __LINE__);
}

/* Most are short, so that many fit and the index has to grow. */
static uint32_t random_len(struct thread *thread)
{
    uint32_t lot = u_prng_below(&thread->prng, 1024);
    if (lot == 0)
        return u_prng_below(&thread->prng, 200000); /* several extents */
    if (lot < 8)
        return 0;
    return u_prng_below(&thread->prng, lot < 128 ? 1000 : 64);
}

/* ---- keys of one writer ------------------------------------------------------------------ */

/* Half of the short ones use the fast path of single SETs, if the key has an item for it. */
static bool replace_short(struct thread *thread, struct kv_key *key, const struct own *what,
                          uint32_t exptime)
{
    uint8_t bytes[KV_SHORT_MAX];
    struct kv_short value = {.value = bytes, .value_len = what->len};
    if (what->len > KV_SHORT_MAX || u_prng_below(&thread->prng, 2))
        return false;
    for (uint32_t i = 0; i < what->len; i++)
        bytes[i] = rig_byte(i, what->seed);
    kv_prefetch_bucket(thread->worker, key);
    if (!kv_prefetch_item(thread->worker, key) ||
        kv_replace_short(thread->worker, key, &value, exptime) == 0)
        return false;
    kv_u64_count(&thread->counts.shorts, 1);
    return true;
}

static void own_set(struct thread *thread, unsigned number)
{
    char name[32];
    struct kv_key key = key_of(thread->soak->kv, name, 'o', thread->number, number);
    struct own *own = &thread->own[number];
    uint32_t now_s = kv_u32_load_relaxed(&thread->soak->now_s);
    uint32_t exptime = u_prng_below(&thread->prng, 2) ? now_s + u_prng_below(&thread->prng, 30) : 0;
    struct kv_change change = {0};
    struct own what = {.seed = 1 + u_prng_below(&thread->prng, 1000000000),
                       .len = random_len(thread)};
    if (!replace_short(thread, &key, &what, exptime)) {
        change.item = item_new(thread, &key, what.len, exptime);
        rig_fill(change.item, what.len, what.seed);
        EXPECT(kv_update(thread->worker, &key, rig_decide_replace, NULL, &change) == KV_REPLACE);
    }
    *own = what;
    kv_u64_count(&thread->counts.sets, 1);
}

static void pin_check(struct thread *thread, unsigned pin)
{
    const struct kv_item *item = thread->pins[pin].item;
    if (!item)
        return;
    EXPECT(rig_is_filled(item, thread->pins[pin].what.len, thread->pins[pin].what.seed));
    kv_unpin(thread->worker, item);
    thread->pins[pin].item = NULL;
}

static void own_get(struct thread *thread, unsigned number)
{
    char name[32];
    struct kv_key key = key_of(thread->soak->kv, name, 'o', thread->number, number);
    struct own *own = &thread->own[number];
    struct kv_view view;
    kv_u64_count(&thread->counts.gets, 1);
    if (kv_get(thread->worker, &key, &view) != KV_HIT)
        return;
    kv_u64_count(&thread->counts.hits, 1);
    EXPECT(own->seed != 0);
    EXPECT(view.value_len == own->len);
    EXPECT(rig_is_filled(view.item, view.value_len, own->seed));
    if (u_prng_below(&thread->prng, 64) != 0)
        return;
    unsigned pin = u_prng_below(&thread->prng, PINS);
    pin_check(thread, pin);
    kv_pin(thread->worker, view.item);
    thread->pins[pin].item = view.item;
    thread->pins[pin].what = *own;
}

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = *(const uint32_t *)ctx;
    return old ? KV_TOUCH : KV_KEEP;
}

static enum kv_verdict decide_renew(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = *(const uint32_t *)ctx;
    return old ? KV_RENEW : KV_KEEP;
}

/* A key of another thread: its value stays, whatever is touched. */
static void foreign_touch(struct thread *thread)
{
    char name[32];
    unsigned owner = u_prng_below(&thread->prng, thread->soak->threads);
    struct kv_key key =
        key_of(thread->soak->kv, name, 'o', owner, u_prng_below(&thread->prng, OWN_KEYS));
    uint32_t exptime = kv_u32_load_relaxed(&thread->soak->now_s) + 10;
    struct kv_change change = {0};
    kv_update(thread->worker, &key, u_prng_below(&thread->prng, 4) ? decide_touch : decide_renew,
              &exptime, &change);
}

/* ---- counters ---------------------------------------------------------------------------- */

struct increment {
    struct soak *soak;
    uint64_t number; /* life << 24 | count */
};

static enum kv_verdict decide_increment(void *ctx, const struct kv_view *old,
                                        struct kv_change *change)
{
    struct increment *increment = (struct increment *)ctx;
    uint32_t len;
    if (old)
        memcpy(&increment->number, kv_value(old->item, 0, &len), sizeof(increment->number));
    else
        increment->number = kv_u64_fetch_add_relaxed(&increment->soak->lives, 1) << 24;
    increment->number++;
    memcpy(kv_item_room(change->item, 0, &len), &increment->number, sizeof(increment->number));
    change->state = 0;
    return KV_REPLACE;
}

/* Some counters are in demand. */
static unsigned random_counter(struct thread *thread)
{
    return u_prng_below(&thread->prng, u_prng_below(&thread->prng, 2) ? COUNTER_KEYS : 4);
}

/* This thread has stored that number: no other thread may have stored it before. */
static void number_claim(struct thread *thread, unsigned counter, uint64_t number)
{
    kv_atomic_u64 *claim = &thread->soak->claims[counter][number % CLAIMS];
    uint64_t before = kv_u64_load_relaxed(claim);
    do
        EXPECT(before != number); /* else an increment was lost */
    while (!kv_u64_cas_acq_rel(claim, &before, number));
}

static void counter_increment(struct thread *thread)
{
    char name[32];
    unsigned counter = random_counter(thread);
    struct kv_key key = key_of(thread->soak->kv, name, 'c', 0, counter);
    struct increment increment = {.soak = thread->soak};
    struct kv_change change = {.item = item_new(thread, &key, sizeof(increment.number), 0)};
    EXPECT(kv_update(thread->worker, &key, decide_increment, &increment, &change) == KV_REPLACE);
    number_claim(thread, counter, increment.number);
    kv_u64_count(&thread->counts.increments, 1);
}

static void counter_see(struct thread *thread)
{
    char name[32];
    struct seen *seen = &thread->seen;
    seen->counter = random_counter(thread);
    struct kv_key key = key_of(thread->soak->kv, name, 'c', 0, seen->counter);
    struct kv_view view;
    if (kv_get(thread->worker, &key, &view) != KV_HIT)
        return;
    EXPECT(view.cas != 0);
    seen->cas = view.cas;
    memcpy(&seen->number, view.value, sizeof(seen->number));
}

static enum kv_verdict decide_swap(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    const struct seen *seen = (const struct seen *)ctx;
    change->state = 0;
    return old && old->cas == seen->cas ? KV_REPLACE : KV_KEEP;
}

/* Increments a value seen some steps before, if its cas is still the same. */
static void counter_swap(struct thread *thread)
{
    char name[32];
    struct seen *seen = &thread->seen;
    struct kv_key key = key_of(thread->soak->kv, name, 'c', 0, seen->counter);
    uint64_t number = seen->number + 1;
    struct kv_change change = {.item = item_new(thread, &key, sizeof(number), 0)};
    uint32_t len;
    memcpy(kv_item_room(change.item, 0, &len), &number, sizeof(number));
    if (kv_update(thread->worker, &key, decide_swap, seen, &change) == KV_REPLACE) {
        EXPECT(change.cas > seen->cas);
        number_claim(thread, seen->counter, number);
        kv_u64_count(&thread->counts.swaps, 1);
    } else {
        kv_item_drop(thread->worker, change.item);
        kv_u64_count(&thread->counts.outrun, 1);
    }
    seen->cas = 0;
}

/* ---- threads ----------------------------------------------------------------------------- */

static void step(struct thread *thread)
{
    unsigned number = u_prng_below(&thread->prng, OWN_KEYS);
    if (u_prng_below(&thread->prng, 2))
        number %= OWN_KEYS / 32; /* some are in demand */
    uint32_t what = u_prng_below(&thread->prng, 100);
    if (what < 45)
        own_get(thread, number);
    else if (what < 75)
        own_set(thread, number);
    else if (what < 82)
        counter_increment(thread);
    else if (what < 90 && thread->seen.cas != 0)
        counter_swap(thread);
    else if (what < 90)
        counter_see(thread);
    else if (what < 97)
        foreign_touch(thread);
    else {
        char name[32];
        struct kv_key key = key_of(thread->soak->kv, name, 'o', thread->number, number);
        if (rig_delete(thread->worker, &key) == KV_DELETE)
            thread->own[number].seed = 0;
    }
}

static void *thread_main(void *arg)
{
    struct thread *thread = (struct thread *)arg;
    struct soak *soak = thread->soak;
    thread->worker = kv_join(soak->kv);
    EXPECT(thread->worker != NULL);
    for (unsigned i = 0; kv_u32_load_relaxed(&soak->over) == 0; i++) {
        kv_tick(thread->worker, kv_u32_load_relaxed(&soak->now_s));
        for (unsigned j = 0; j < 16; j++) {
            step(thread);
            kv_release_views(thread->worker);
        }
        kv_quiesce(thread->worker);
        if (i % 4096 == 4095) {
            kv_offline(thread->worker);
            kv_online(thread->worker);
        }
    }
    for (unsigned i = 0; i < PINS; i++)
        pin_check(thread, i);
    kv_leave(thread->worker);
    return NULL;
}

/* ---- the administrator ------------------------------------------------------------------- */

static void visit(void *ctx, const struct kv_view *view)
{
    uint64_t *shown = (uint64_t *)ctx;
    EXPECT(view->key_len >= 4 && view->key_len < 32);
    EXPECT(view->key[0] == 'o' || view->key[0] == 'c');
    ++*shown;
}

static void scan_all(struct soak *soak, struct kv_worker *worker, bool crawl, uint64_t *shown)
{
    static const struct kv_quantum part = {.chains = 500, .items = 200};
    struct kv_cursor cursor = {0};
    bool more = true;
    while (more && kv_u32_load_relaxed(&soak->over) == 0) {
        more = crawl ? kv_crawl(worker, &cursor, &part, UINT64_MAX)
                     : kv_scan(worker, &cursor, &part, visit, shown);
        kv_quiesce(worker);
    }
}

/* Memory that the whole program has; what each round leaves behind adds up. */
static unsigned long resident_mib(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (unsigned long)sysconf(_SC_PAGESIZE) >> 20;
}

static void progress(const struct soak *soak, double elapsed, uint64_t shown, unsigned flushes)
{
    struct kv_stats stats = rig_stats(soak->kv);
    uint64_t gets = 0, hits = 0, sets = 0, shorts = 0, increments = 0, swaps = 0, outrun = 0,
             waits = 0;
    for (unsigned i = 0; i < soak->threads; i++) {
        const struct counters_of *counts = &soak->thread[i].counts;
        gets += kv_u64_load_relaxed(&counts->gets);
        hits += kv_u64_load_relaxed(&counts->hits);
        sets += kv_u64_load_relaxed(&counts->sets);
        shorts += kv_u64_load_relaxed(&counts->shorts);
        increments += kv_u64_load_relaxed(&counts->increments);
        swaps += kv_u64_load_relaxed(&counts->swaps);
        outrun += kv_u64_load_relaxed(&counts->outrun);
        waits += kv_u64_load_relaxed(&counts->waits);
    }
    printf("%5.0f s: %.1f M gets (%.0f %% hits), %.1f M sets (%.1f M at once), %.1f M increments, "
           "%.2f M by cas (%lu too late), ",
           elapsed, (double)gets / 1e6, gets ? 100.0 * (double)hits / (double)gets : 0.0,
           (double)sets / 1e6, (double)shorts / 1e6, (double)increments / 1e6, (double)swaps / 1e6,
           (unsigned long)outrun);
    printf("%.1f M evictions, %.1f M expired, %.1f M dumped, %u flushes; ",
           (double)stats.evictions / 1e6,
           (double)(stats.expired_reclaimed + stats.crawl_reclaimed) / 1e6, (double)shown / 1e6,
           flushes);
    printf("%lu items, %lu of %lu MiB, %lu MiB resident, 2^%u chains, %u growths; %lu retries, "
           "%lu waits\n",
           (unsigned long)stats.items, (unsigned long)(stats.memory_used_bytes >> 20),
           (unsigned long)(stats.memory_limit_bytes >> 20), resident_mib(), stats.hash_power,
           stats.growths, (unsigned long)stats.update_retries, (unsigned long)waits);
    fflush(stdout);
}

/* Raised and lowered between the limit and half of it. */
static void limit_move(struct soak *soak, struct kv_worker *worker, struct u_prng *prng)
{
    uint64_t half = soak->memory_bytes / 2;
    EXPECT(kv_memory_limit_set(worker, half + u_prng_below(prng, 9) * (half / 8)));
}

/* Where all is slow (under valgrind) the table has to have grown and the memory to be full first.
 */
static bool is_over(const struct soak *soak, double elapsed)
{
    struct kv_stats stats = rig_stats(soak->kv);
    return elapsed > soak->seconds * SLOWNESS_MAX ||
           (elapsed > soak->seconds && stats.evictions > 0 && stats.growths > 0);
}

static void administer(struct soak *soak)
{
    struct kv_worker *worker = kv_join(soak->kv);
    struct u_prng prng;
    double start = clock_now();
    double next = start + PROGRESS_S;
    uint64_t shown = 0;
    unsigned flushes = 0;
    u_prng_seed(&prng, soak->seed);
    for (unsigned round = 0;; round++) {
        double now = clock_now();
        if (is_over(soak, now - start))
            break;
        if (now > next) {
            progress(soak, now - start, shown, flushes);
            next += PROGRESS_S;
        }
        kv_u32_fetch_add_relaxed(&soak->now_s, 1);
        kv_tick(worker, kv_u32_load_relaxed(&soak->now_s));
        scan_all(soak, worker, round % 3 == 2, &shown);
        if (round % 8 == 7)
            limit_move(soak, worker, &prng);
        if (round % 256 == 255) {
            kv_flush(worker);
            flushes++;
        }
        EXPECT(rig_stats(soak->kv).memory_used_bytes <= soak->memory_bytes);
        kv_quiesce(worker);
        kv_offline(worker);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        kv_online(worker);
    }
    kv_u32_store_relaxed(&soak->over, 1);
    EXPECT(kv_memory_limit_set(worker, soak->memory_bytes));
    kv_leave(worker);
    progress(soak, clock_now() - start, shown, flushes);
    EXPECT(shown > 0);
}

/* ---- beginning and end ------------------------------------------------------------------- */

static void delete_all(struct soak *soak)
{
    struct kv_worker *worker = kv_join(soak->kv);
    char name[32];
    kv_tick(worker, kv_u32_load_relaxed(&soak->now_s));
    for (unsigned thread = 0; thread < soak->threads; thread++)
        for (unsigned i = 0; i < OWN_KEYS; i++) {
            struct kv_key key = key_of(soak->kv, name, 'o', thread, i);
            rig_delete(worker, &key);
        }
    for (unsigned i = 0; i < COUNTER_KEYS; i++) {
        struct kv_key key = key_of(soak->kv, name, 'c', 0, i);
        rig_delete(worker, &key);
    }
    for (unsigned i = 0; i < 20000; i++)
        kv_quiesce(worker);
    kv_leave(worker);
    /* What this worker has closed by leaving is reclaimed by another one. */
    worker = kv_join(soak->kv);
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(worker);
    kv_leave(worker);
}

static uint64_t beside_index_bytes(const struct soak *soak)
{
    struct kv_stats stats = rig_stats(soak->kv);
    return stats.memory_used_bytes - stats.index_bytes;
}

static void check_end(struct soak *soak, uint64_t empty_bytes)
{
    delete_all(soak);
    const char *broken = kv_check(soak->kv);
    if (broken)
        loud_fail(broken, __FILE__, __LINE__);
    struct kv_stats stats = rig_stats(soak->kv);
    EXPECT(stats.items == 0);
    EXPECT(stats.item_bytes == 0);
    EXPECT(stats.pinned == 0);
    EXPECT(stats.evictions > 0);
    EXPECT(stats.growths > 0);
    EXPECT(stats.memory_used_bytes <= stats.memory_limit_bytes);
    if (beside_index_bytes(soak) != empty_bytes)
        printf("%lu bytes in use beside the index, %lu at the beginning\n",
               (unsigned long)beside_index_bytes(soak), (unsigned long)empty_bytes);
    EXPECT(beside_index_bytes(soak) == empty_bytes);
}

static void run(struct soak *soak)
{
    uint64_t ahead_bytes = soak->seed / KV_POLICIES % 2 == 0 ? soak->memory_bytes / 8 : 0;
    soak->kv =
        rig_create_ahead(soak->memory_bytes, soak->threads + 1, true, soak->policy, ahead_bytes);
    uint64_t empty_bytes = beside_index_bytes(soak);
    kv_u32_store_relaxed(&soak->now_s, 1);
    kv_u64_store_relaxed(&soak->lives, 1);
    for (unsigned i = 0; i < soak->threads; i++) {
        struct thread *thread = &soak->thread[i];
        thread->soak = soak;
        thread->number = i;
        thread->own = (struct own *)calloc(OWN_KEYS, sizeof(*thread->own));
        EXPECT(thread->own != NULL);
        u_prng_seed(&thread->prng, soak->seed * 100 + i);
        EXPECT(pthread_create(&thread->handle, NULL, thread_main, thread) == 0);
    }
    administer(soak);
    for (unsigned i = 0; i < soak->threads; i++) {
        pthread_join(soak->thread[i].handle, NULL);
        free(soak->thread[i].own);
    }
    check_end(soak, empty_bytes);
    kv_destroy(soak->kv);
}

static bool option(const char *arg, const char *name, double *value)
{
    size_t len = strlen(name);
    if (strncmp(arg, name, len) != 0)
        return false;
    *value = strtod(arg + len, NULL);
    return true;
}

int main(int argc, char **argv)
{
    static struct soak soak;
    double seconds = 5, seed = 1, threads = 3, megabytes = 32;
    for (int i = 1; i < argc; i++) {
        if (!option(argv[i], "--seconds=", &seconds) && !option(argv[i], "--seed=", &seed) &&
            !option(argv[i], "--threads=", &threads) &&
            !option(argv[i], "--megabytes=", &megabytes)) {
            fprintf(stderr, "unknown option %s\n", argv[i]);
            return 1;
        }
    }
    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "between 1 and %d threads\n", THREADS_MAX);
        return 1;
    }
    for (unsigned round = 0; seconds > 0; round++) {
        memset(&soak, 0, sizeof(soak));
        soak.seconds = seconds < ROUND_S ? seconds : ROUND_S;
        soak.seed = (uint64_t)seed + round;
        soak.threads = (unsigned)threads;
        soak.memory_bytes = (uint64_t)megabytes << 20;
        soak.policy = (enum kv_policy_kind)(soak.seed % KV_POLICIES);
        loud_note("kv_soak --seed=%lu --threads=%u --megabytes=%lu", (unsigned long)soak.seed,
                  soak.threads, (unsigned long)(soak.memory_bytes >> 20));
        printf("seed %lu, %s\n", (unsigned long)soak.seed, kv_policy_name(soak.policy));
        run(&soak);
        seconds -= ROUND_S;
    }
    printf("all is well\n");
    return 0;
}
