/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's -o: a list of words, some with a value. Much of it tunes slab classes, LRU segments
 * and a hash table that are built otherwise here: such a word is checked as memcached checks it,
 * shown in `stats settings`, and has no effect.
 */
#include <string.h>

#include "common/value.h"
#include "options_spec.h"

#define SECONDS_MAX INT32_MAX
#define LIST_MAX 1024
#define SLAB_PAGE_BYTES (1024 * 1024)

enum word_kind {
    WORD_ON,         /* sets the bool at `offset` */
    WORD_OFF,        /* clears it */
    WORD_NUMBER,     /* a uint32_t at `offset`, min..max, times `unit` */
    WORD_FACTOR,     /* a double at `offset`, greater than 0, up to max if that is not 0 */
    WORD_CALL,       /* as `set` says, which gets a null if there is no value */
    WORD_CALL_VALUE, /* the same, but there must be one */
    WORD_NOTHING,    /* may have a value, and neither matters */
    WORD_VALUE       /* must have a value, which does not matter */
};

struct word {
    const char *name;
    enum word_kind kind;
    size_t offset; /* in struct cache_settings */
    uint64_t min;
    uint64_t max;
    uint64_t unit; /* 0: 1 */
    option_set *set;
    const char *help; /* null: works the other way round, or has no effect here */
};

/* ---- words with a rule of their own ------------------------------------------------------ */

static int set_slab_automove(struct options *o, const char *arg)
{
    uint64_t value = 1;

    if (arg && value_number(arg, 0, 2, &value) < 0)
        return options_fail(o, OPTIONS_EXIT_RANGE, "-o slab_automove must be between 0 and 2");
    o->settings.shown.slab_automove = (uint32_t)value;
    return 0;
}

static int set_no_slab_automove(struct options *o, const char *arg)
{
    o->settings.shown.slab_automove = 0;
    return 0;
}

static int set_hash_algorithm(struct options *o, const char *arg)
{
    static const char *const known[] = {"jenkins", "murmur3", "xxh3"};
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(arg, known[i]) != 0)
            continue;
        o->settings.shown.hash_algorithm = known[i];
        return 0;
    }
    return options_fail(o, OPTIONS_EXIT_RANGE,
                        "-o hash_algorithm: \"%s\" is not one of jenkins, murmur3, xxh3", arg);
}

static int set_no_lru_maintainer(struct options *o, const char *arg)
{
    o->settings.shown.lru_maintainer = false;
    o->settings.shown.lru_segmented = false;
    return 0;
}

static int set_lru_maintainer(struct options *o, const char *arg)
{
    o->settings.shown.lru_maintainer = true;
    o->settings.shown.lru_segmented = true;
    return 0;
}

static int set_temporary_ttl(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-o temporary_ttl", arg, 0, SECONDS_MAX, &value) < 0)
        return -1;
    o->settings.shown.temp_lru = true;
    o->settings.shown.temporary_ttl_s = (uint32_t)value;
    o->temporary_ttl_given = true;
    return 0;
}

static int set_read_buf_mem_limit(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-o read_buf_mem_limit (megabytes)", arg, 0, UINT32_MAX, &value) < 0)
        return -1;
    o->settings.read_buf_mem_limit_bytes = value * 1024 * 1024;
    return 0;
}

/* Sizes of classes, rising: "100-200-400". */
static int set_slab_sizes(struct options *o, const char *arg)
{
    char number[12];
    uint64_t before = 0;
    uint64_t value;
    size_t len;

    for (;; arg += len + 1) {
        len = strcspn(arg, "-");
        snprintf(number, sizeof(number), "%.*s", (int)(len < 11 ? len : 11), arg);
        if (value_number(number, before + 1, UINT32_MAX, &value) < 0)
            return options_fail(o, EX_USAGE,
                                "-o slab_sizes: \"%s\" is not a size greater than %llu", number,
                                (unsigned long long)before);
        before = value;
        if (arg[len] == '\0')
            return 0;
    }
}

/* What memcached 1.4 did where it differs. */
static int set_no_modern(struct options *o, const char *arg)
{
    if (o->settings.shown.slab_chunk_bytes_max == SLAB_PAGE_BYTES / 2) /* the default */
        o->settings.shown.slab_chunk_bytes_max = SLAB_PAGE_BYTES;
    o->settings.accept_waits = true;
    o->settings.shown.slab_reassign = false;
    o->settings.shown.slab_automove = 0;
    o->settings.shown.lru_crawler = false;
    o->settings.shown.hash_algorithm = "jenkins";
    return set_no_lru_maintainer(o, arg);
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct word words[] = {
    {.name = "maxconns_fast",
     .kind = WORD_OFF,
     .offset = offsetof(struct cache_settings, accept_waits),
     .help = "refuse connections over the limit (default)"},
    {.name = "no_maxconns_fast",
     .kind = WORD_ON,
     .offset = offsetof(struct cache_settings, accept_waits),
     .help = "let them wait until there is a place"},
    {.name = "idle_timeout",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, idle_timeout_s),
     .max = SECONDS_MAX,
     .help = "close connections that ask nothing for so many seconds"},
    {.name = "track_sizes",
     .kind = WORD_ON,
     .offset = offsetof(struct cache_settings, track_sizes),
     .help = "keep what stats sizes shows"},
    {.name = "drop_privileges",
     .kind = WORD_ON,
     .offset = offsetof(struct cache_settings, shown.drop_privileges),
     .help = "open no socket and start no program any more"},
    {.name = "no_drop_privileges",
     .kind = WORD_OFF,
     .offset = offsetof(struct cache_settings, shown.drop_privileges)},
    {.name = "relaxed_privileges", .kind = WORD_NOTHING},
    {.name = "hashpower",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.hashpower_init),
     .min = 12,
     .max = 32},
    {.name = "no_hashexpand", .kind = WORD_NOTHING},
    {.name = "hash_algorithm", .kind = WORD_CALL_VALUE, .set = set_hash_algorithm},
    {.name = "slab_reassign",
     .kind = WORD_ON,
     .offset = offsetof(struct cache_settings, shown.slab_reassign)},
    {.name = "no_slab_reassign",
     .kind = WORD_OFF,
     .offset = offsetof(struct cache_settings, shown.slab_reassign)},
    {.name = "slab_automove", .kind = WORD_CALL, .set = set_slab_automove},
    {.name = "no_slab_automove", .kind = WORD_CALL, .set = set_no_slab_automove},
    {.name = "slab_automove_ratio",
     .kind = WORD_FACTOR,
     .offset = offsetof(struct cache_settings, shown.slab_automove_ratio),
     .max = 1},
    {.name = "slab_automove_window",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.slab_automove_window),
     .min = 3,
     .max = 1800},
    {.name = "slab_chunk_max",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.slab_chunk_bytes_max),
     .min = 1,
     .max = UINT32_MAX},
    {.name = "slab_sizes", .kind = WORD_CALL_VALUE, .set = set_slab_sizes},
    {.name = "no_chunked_items", .kind = WORD_NOTHING},
    {.name = "tail_repair_time",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.tail_repair_time_s),
     .min = 10,
     .max = SECONDS_MAX},
    {.name = "lru_crawler",
     .kind = WORD_ON,
     .offset = offsetof(struct cache_settings, shown.lru_crawler)},
    {.name = "no_lru_crawler",
     .kind = WORD_OFF,
     .offset = offsetof(struct cache_settings, shown.lru_crawler)},
    {.name = "lru_crawler_sleep",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.lru_crawler_sleep_us),
     .min = 0,
     .max = 1000000},
    {.name = "lru_crawler_tocrawl",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.lru_crawler_tocrawl),
     .min = 0,
     .max = UINT32_MAX},
    {.name = "lru_maintainer", .kind = WORD_CALL, .set = set_lru_maintainer},
    {.name = "no_lru_maintainer", .kind = WORD_CALL, .set = set_no_lru_maintainer},
    {.name = "hot_lru_pct",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.hot_lru_pct),
     .min = 1,
     .max = 79},
    {.name = "warm_lru_pct",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.warm_lru_pct),
     .min = 1,
     .max = 79},
    {.name = "hot_max_factor",
     .kind = WORD_FACTOR,
     .offset = offsetof(struct cache_settings, shown.hot_max_factor)},
    {.name = "warm_max_factor",
     .kind = WORD_FACTOR,
     .offset = offsetof(struct cache_settings, shown.warm_max_factor)},
    {.name = "temporary_ttl", .kind = WORD_CALL_VALUE, .set = set_temporary_ttl},
    {.name = "watcher_logbuf_size",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.watcher_logbuf_bytes),
     .min = 0,
     .max = UINT32_MAX / 1024,
     .unit = 1024},
    {.name = "worker_logbuf_size",
     .kind = WORD_NUMBER,
     .offset = offsetof(struct cache_settings, shown.worker_logbuf_bytes),
     .min = 0,
     .max = UINT32_MAX / 1024,
     .unit = 1024},
    {.name = "read_buf_mem_limit", .kind = WORD_CALL_VALUE, .set = set_read_buf_mem_limit},
    {.name = "resp_obj_mem_limit", .kind = WORD_NOTHING},
    {.name = "inline_ascii_resp", .kind = WORD_NOTHING},
    {.name = "no_inline_ascii_resp", .kind = WORD_NOTHING},
    {.name = "sock_cookie_id", .kind = WORD_VALUE},
    {.name = "modern", .kind = WORD_NOTHING},
    {.name = "no_modern", .kind = WORD_CALL, .set = set_no_modern},
};

#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

/* ---- reading ----------------------------------------------------------------------------- */

static int set_number(struct options *o, const struct word *word, void *field, const char *arg)
{
    char name[48];
    uint64_t value;
    uint32_t number;

    snprintf(name, sizeof(name), "-o %s", word->name);
    if (options_number(o, name, arg, word->min, word->max, &value) < 0)
        return -1;
    number = (uint32_t)(value * (word->unit ? word->unit : 1));
    memcpy(field, &number, sizeof(number));
    return 0;
}

static int set_factor(struct options *o, const struct word *word, void *field, const char *arg)
{
    double value;

    if (value_ratio(arg, &value) < 0 || value <= 0 || (word->max > 0 && value > (double)word->max))
        return options_fail(o, OPTIONS_EXIT_RANGE, "-o %s: \"%s\" is not a number greater than 0%s",
                            word->name, arg, word->max > 0 ? " and at most 1" : "");
    memcpy(field, &value, sizeof(value));
    return 0;
}

static bool wants_value(enum word_kind kind)
{
    return kind == WORD_NUMBER || kind == WORD_FACTOR || kind == WORD_CALL_VALUE ||
           kind == WORD_VALUE;
}

static int apply(struct options *o, const struct word *word, const char *arg)
{
    void *field = (char *)&o->settings + word->offset;

    if (!arg && wants_value(word->kind))
        return options_fail(o, OPTIONS_EXIT_RANGE, "-o %s: its value is missing", word->name);
    switch (word->kind) {
    case WORD_ON:
    case WORD_OFF:
        *(bool *)field = word->kind == WORD_ON;
        return 0;
    case WORD_NUMBER:
        return set_number(o, word, field, arg);
    case WORD_FACTOR:
        return set_factor(o, word, field, arg);
    case WORD_CALL:
    case WORD_CALL_VALUE:
        return word->set(o, arg);
    case WORD_NOTHING:
    case WORD_VALUE:
        break;
    }
    return 0;
}

static const struct word *find_word(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < WORD_COUNT; i++) {
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            return &words[i];
    }
    return NULL;
}

int options_extended(struct options *o, const char *list)
{
    char copy[LIST_MAX];
    const struct word *word;
    char *next = copy;
    char *text, *value;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", list) >= sizeof(copy))
        return options_fail(o, OPTIONS_EXIT_RANGE, "-o: more than %d characters", LIST_MAX - 1);
    while ((text = strsep(&next, ",")) != NULL) {
        if (text[0] == '\0')
            continue;
        word = find_word(text, strcspn(text, "="));
        if (!word) {
            snprintf(o->illegal_suboption, sizeof(o->illegal_suboption), "%s", text);
            return options_fail(o, OPTIONS_EXIT_RANGE, "-o: there is no \"%s\"; see --help", text);
        }
        value = strchr(text, '=');
        if (apply(o, word, value ? value + 1 : NULL) < 0)
            return -1;
    }
    return 0;
}

/* ---- help -------------------------------------------------------------------------------- */

#define HELP_COLUMN 30

void options_extended_help(FILE *to)
{
    size_t i;
    int column;

    fprintf(to, "\n-o takes a list of these, separated by commas:\n");
    for (i = 0; i < WORD_COUNT; i++) {
        if (!words[i].help)
            continue;
        column = fprintf(to, "      %s%s", words[i].name, words[i].kind == WORD_NUMBER ? "=N" : "");
        fprintf(to, "%*s%s\n", HELP_COLUMN - column, "", words[i].help);
    }
    fprintf(to, "  accepted, checked, shown in `stats settings`, without effect:\n");
    column = 0;
    for (i = 0; i < WORD_COUNT; i++) {
        if (words[i].help)
            continue;
        if (column == 0 || column + 2 + (int)strlen(words[i].name) > 78)
            column = fprintf(to, column == 0 ? "      " : "\n      ") - (column > 0);
        column += fprintf(to, "%s ", words[i].name);
    }
    fprintf(to, "\n");
}
