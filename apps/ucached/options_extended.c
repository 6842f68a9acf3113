/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's -o: a list of words, some with a value. Words that tune slab pages, LRU segments or
 * the hash table are checked as memcached checks them and shown in `stats settings`, but have no
 * other effect: ucached has none of these.
 */
#include <string.h>
#include <sysexits.h>

#include "base/base.h"
#include "common/value.h"
#include "net/net.h"
#include "options_table.h"
#include "tls/tls.h"

#define LIST_MAX 8192
#define SLAB_PAGE_BYTES (1024 * 1024)

/* ---- words that set more than one field -------------------------------------------------- */

static int set_slab_automove(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;
    uint64_t value = 1;

    if (arg && value_number(arg, 0, 2, &value) < 0)
        return cmdline_fail(error, "it must be between 0 and 2");
    o->settings.compat.slab_automove = (uint32_t)value;
    return 0;
}

static int clear_slab_automove(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    return set_slab_automove(settings, "0", error);
}

static int set_hash_algorithm(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    static const char *const known[] = {"jenkins", "murmur3", "xxh3"};
    struct options *o = settings;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(known); i++) {
        if (strcmp(arg, known[i]) != 0)
            continue;
        o->settings.compat.hash_algorithm = known[i];
        return 0;
    }
    return cmdline_fail(error, "\"%s\" is not one of jenkins, murmur3, xxh3", arg);
}

static int set_lru_maintainer(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.compat.lru_maintainer = o->settings.compat.lru_segmented = true;
    return 0;
}

static int clear_lru_maintainer(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.compat.lru_maintainer = o->settings.compat.lru_segmented = false;
    return 0;
}

/* Makes the system call filter mandatory: without this word ucached also starts without it. */
static int set_drop_privileges(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.compat.drop_privileges = true;
    o->keep_privileges = false;
    return 0;
}

static int clear_drop_privileges(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.compat.drop_privileges = false;
    o->keep_privileges = true;
    return 0;
}

/* Sizes of slab classes in ascending order: "100-200-400". */
static int check_slab_sizes(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    char number[12];
    uint64_t before = 0;
    uint64_t value;
    size_t len;

    for (;; arg += len + 1) {
        len = strcspn(arg, "-");
        snprintf(number, sizeof(number), "%.*s", (int)(len < 11 ? len : 11), arg);
        if (value_number(number, before + 1, UINT32_MAX, &value) < 0)
            return cmdline_fail(error, "\"%s\" is not a size greater than %llu", number,
                                (unsigned long long)before);
        before = value;
        if (arg[len] == '\0')
            return 0;
    }
}

/* The defaults of memcached 1.4. */
static int set_no_modern(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    if (o->settings.compat.slab_chunk_bytes_max == SLAB_PAGE_BYTES / 2) /* the default */
        o->settings.compat.slab_chunk_bytes_max = SLAB_PAGE_BYTES;
    o->settings.accept_waits = true;
    o->settings.compat.slab_reassign = false;
    o->settings.compat.slab_automove = 0;
    o->settings.compat.lru_crawler = false;
    o->settings.compat.hash_algorithm = "jenkins";
    return clear_lru_maintainer(settings, arg, error);
}

/* memcached's numbers of file formats: OpenSSL's, of which it has two. */
static int set_key_format(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;
    uint64_t value;

    if (value_number(arg, TLS_KEY_PEM, TLS_KEY_DER, &value) < 0)
        return cmdline_fail(error, "it must be 1 (PEM) or 2 (DER)");
    o->settings.tls.key_format = (uint32_t)value;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, settings.field)
#define COMPAT(field) AT(compat.field)

/* A word whose `arg` is set needs a value; others ignore it, or (CMDLINE_CALL) may have one. */
static const struct cmdline_option words[] = {
    {0, "maxconns_fast", NULL, NULL, "refuse connections over the limit (default)", CMDLINE_OFF,
     AT(accept_waits)},
    {0, "no_maxconns_fast", NULL, NULL, "leave them waiting until a connection closes", CMDLINE_ON,
     AT(accept_waits)},
    {0, "idle_timeout", "N", NULL, "close connections idle for N seconds", CMDLINE_U32,
     AT(idle_timeout_s), 0, INT32_MAX},
    {0, "upload_timeout", "N", NULL, "close connections whose upload stalls for N seconds",
     CMDLINE_U32, AT(upload_timeout_s), 0, INT32_MAX},
    {0, "cluster_file", "FILE", NULL, "serve the list of servers in FILE to auto-discovery",
     CMDLINE_TEXT, AT(cluster_file)},
    {0, "track_sizes", NULL, NULL, "collect `stats sizes`", CMDLINE_ON, AT(track_sizes)},
    {0, "acl_file", "FILE", NULL, "rights of users and certificates by prefix of keys",
     CMDLINE_TEXT, AT(acl_file)},
    {0, "drop_privileges", NULL, set_drop_privileges,
     "do not start without the system call filter"},
    {0, "no_drop_privileges", NULL, clear_drop_privileges,
     "keep all capabilities and system calls"},
    {0, "ssl_chain_cert", "FILE", NULL,
     OPTIONS_TLS_HELP("certificate (PEM), followed by those that signed it"), CMDLINE_TEXT,
     AT(tls.chain_cert)},
    {0, "ssl_key", "FILE", NULL, OPTIONS_TLS_HELP("its private key (default: in ssl_chain_cert)"),
     CMDLINE_TEXT, AT(tls.key)},
    {0, "ssl_keyformat", "N", set_key_format,
     OPTIONS_TLS_HELP("of ssl_key: 1 PEM (default), 2 DER")},
    {0, "ssl_ca_cert", "FILE", NULL,
     OPTIONS_TLS_HELP("certificates (PEM) that sign those of clients"), CMDLINE_TEXT,
     AT(tls.ca_cert)},
    {0, "ssl_verify_mode", "N", NULL,
     OPTIONS_TLS_HELP("client certificates: 0 none (default), 1 request, 2, 3 require"),
     CMDLINE_U32, AT(tls.verify_mode), 0, TLS_VERIFY_MODES - 1},
    {0, "ssl_min_version", "N", NULL, OPTIONS_TLS_HELP("TLS 1.N at least, 0 to 3 (default: 2)"),
     CMDLINE_U32, AT(tls.min_version), 0, TLS_VERSION_1_3},
    {0, "ssl_ciphers", "LIST", NULL,
     OPTIONS_TLS_HELP("OpenSSL's list of ciphers for TLS 1.2 and older"), CMDLINE_TEXT,
     AT(tls.ciphers)},
    {0, "ssl_session_cache", NULL, NULL,
     OPTIONS_TLS_HELP("keep sessions for clients without tickets"), CMDLINE_ON,
     AT(tls.session_cache)},
    {0, "handshake_threads", "N", NULL,
     OPTIONS_TLS_HELP("threads that make handshakes (default: 0, the workers do)"), CMDLINE_U32,
     AT(tls.handshake_threads), 0, NET_TLS_THREADS_MAX},
    {0, "ssl_wbuf_size", "KB", NULL, NULL, CMDLINE_U32, AT(tls.write_buf_bytes), 1,
     UINT32_MAX / 1024, 1024},
    {0, "ssl_kernel_tls", NULL, NULL, NULL, CMDLINE_ON, AT(tls.kernel_tls)},
    {0, "relaxed_privileges", .kind = CMDLINE_IGNORED},
    {0, "hashpower", "N", NULL, NULL, CMDLINE_U32, COMPAT(hashpower_init), 12, 32},
    {0, "no_hashexpand", .kind = CMDLINE_IGNORED},
    {0, "hash_algorithm", "NAME", set_hash_algorithm},
    {0, "slab_reassign", NULL, NULL, NULL, CMDLINE_ON, COMPAT(slab_reassign)},
    {0, "no_slab_reassign", NULL, NULL, NULL, CMDLINE_OFF, COMPAT(slab_reassign)},
    {0, "slab_automove", NULL, set_slab_automove},
    {0, "no_slab_automove", NULL, clear_slab_automove},
    {0, "slab_automove_ratio", "X", NULL, NULL, CMDLINE_RATIO, COMPAT(slab_automove_ratio), 0, 1,
     1},
    {0, "slab_automove_window", "N", NULL, NULL, CMDLINE_U32, COMPAT(slab_automove_window), 3,
     1800},
    {0, "slab_chunk_max", "N", NULL, "bytes of the largest class of `stats items`", CMDLINE_U32,
     COMPAT(slab_chunk_bytes_max), 1, UINT32_MAX},
    {0, "slab_sizes", "LIST", check_slab_sizes, .status = EX_USAGE},
    {0, "no_chunked_items", .kind = CMDLINE_IGNORED},
    {0, "tail_repair_time", "N", NULL, NULL, CMDLINE_U32, COMPAT(tail_repair_time_s), 10,
     INT32_MAX},
    {0, "lru_crawler", NULL, NULL, "enable lru_crawler crawl, metadump, mgdump (default)",
     CMDLINE_ON, COMPAT(lru_crawler)},
    {0, "no_lru_crawler", NULL, NULL, "disable them", CMDLINE_OFF, COMPAT(lru_crawler)},
    {0, "lru_crawler_sleep", "N", NULL, NULL, CMDLINE_U32, COMPAT(lru_crawler_sleep_us), 0,
     1000000},
    {0, "lru_crawler_tocrawl", "N", NULL, NULL, CMDLINE_U32, COMPAT(lru_crawler_tocrawl), 0,
     UINT32_MAX},
    {0, "lru_maintainer", NULL, set_lru_maintainer},
    {0, "no_lru_maintainer", NULL, clear_lru_maintainer},
    {0, "hot_lru_pct", "N", NULL, NULL, CMDLINE_U32, COMPAT(hot_lru_pct), 1, 79},
    {0, "warm_lru_pct", "N", NULL, NULL, CMDLINE_U32, COMPAT(warm_lru_pct), 1, 79},
    {0, "hot_max_factor", "X", NULL, NULL, CMDLINE_RATIO, COMPAT(hot_max_factor), 0, 0, 1},
    {0, "warm_max_factor", "X", NULL, NULL, CMDLINE_RATIO, COMPAT(warm_max_factor), 0, 0, 1},
    {0, "temporary_ttl", "N", NULL, NULL, CMDLINE_U32, COMPAT(temporary_ttl_s), 0, INT32_MAX,
     .given = COMPAT(temp_lru)},
    {0, "watcher_logbuf_size", "N", NULL, NULL, CMDLINE_U32, COMPAT(watcher_logbuf_bytes), 0,
     UINT32_MAX / 1024, 1024},
    {0, "worker_logbuf_size", "N", NULL, "KiB of a watcher's buffer in each worker (default: 64)",
     CMDLINE_U32, COMPAT(worker_logbuf_bytes), 0, UINT32_MAX / 1024, 1024},
    {0, "read_buf_mem_limit", "MB", NULL, "memory of incomplete get lines of all connections",
     CMDLINE_U64, AT(read_buf_mem_limit_bytes), 0, UINT32_MAX, 1024 * 1024},
    {0, "resp_obj_mem_limit", .kind = CMDLINE_IGNORED},
    {0, "inline_ascii_resp", .kind = CMDLINE_IGNORED},
    {0, "no_inline_ascii_resp", .kind = CMDLINE_IGNORED},
    {0, "sock_cookie_id", "N", .kind = CMDLINE_IGNORED},
    {0, "modern", .kind = CMDLINE_IGNORED},
    {0, "no_modern", NULL, set_no_modern, "the defaults of memcached 1.4"},
};

/* ---- parsing ----------------------------------------------------------------------------- */

static const struct cmdline_option *find_word(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(words); i++) {
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            return &words[i];
    }
    return NULL;
}

/* Copies a text that outlives the list which it is a part of. Returns null if there is no room. */
static const char *keep_text(struct options *o, const char *text)
{
    char *kept = o->texts + o->texts_len;
    size_t bytes = strlen(text) + 1;

    if (bytes > sizeof(o->texts) - o->texts_len)
        return NULL;
    memcpy(kept, text, bytes);
    o->texts_len += bytes;
    return kept;
}

/* Words of memcached's builds with further features: names the feature that is missing here. */
static int refuse_unknown(const char *text, char error[OPTIONS_ERROR_MAX])
{
    static const char *const features[][2] = {{"ext_", "extstore"}, {"proxy_", "the proxy"}};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(features); i++) {
        if (strncmp(text, features[i][0], strlen(features[i][0])) == 0)
            return cmdline_fail(error, "%s: this server does not have %s", text, features[i][1]);
    }
    return cmdline_fail(error, "there is no \"%s\"; see --help", text);
}

static int apply(struct options *o, const char *text, char error[OPTIONS_ERROR_MAX])
{
    const struct cmdline_option *word = find_word(text, strcspn(text, "="));
    const char *value = strchr(text, '=');

    o->exit_status = OPTIONS_EXIT_RANGE;
    if (!word) {
        snprintf(o->illegal_suboption, sizeof(o->illegal_suboption), "%s", text);
        return refuse_unknown(text, error);
    }
    if (word->status)
        o->exit_status = word->status;
    if (word->arg && !value)
        return cmdline_fail(error, "%s: its value is missing", word->name);
    value = value ? value + 1 : NULL;
    if (value && word->kind == CMDLINE_TEXT) {
        value = keep_text(o, value);
        if (!value)
            return cmdline_fail(error, "%s: more than %d characters of texts", word->name,
                                OPTIONS_TEXTS_MAX);
    }
    if (cmdline_apply(word, o, word->name, value, error) < 0)
        return -1;
    o->exit_status = 0;
    return 0;
}

int options_set_extended(void *options, const char *list, char error[OPTIONS_ERROR_MAX])
{
    char copy[LIST_MAX];
    char *next = copy;
    const char *text;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", list) >= sizeof(copy))
        return cmdline_fail(error, "more than %d characters", LIST_MAX - 1);
    while ((text = strsep(&next, ",")) != NULL) {
        if (text[0] != '\0' && apply(options, text, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- help -------------------------------------------------------------------------------- */

#define HELP_COLUMN 30

void options_print_extended(FILE *to)
{
    size_t i;
    int column;

    fprintf(to, "\n-o takes a list of these, separated by commas:\n");
    for (i = 0; i < U_ARRAY_LEN(words); i++) {
        if (!words[i].help)
            continue;
        column = fprintf(to, "      %s%s%s", words[i].name, words[i].arg ? "=" : "",
                         words[i].arg ? words[i].arg : "");
        fprintf(to, "%*s%s\n", HELP_COLUMN - column, "", words[i].help);
    }
    fprintf(to, "  accepted, checked, shown in `stats settings`, otherwise without effect:\n");
    column = 0;
    for (i = 0; i < U_ARRAY_LEN(words); i++) {
        if (words[i].help)
            continue;
        if (column == 0 || column + 2 + (int)strlen(words[i].name) > 78)
            column = fprintf(to, column == 0 ? "      " : "\n      ") - (column > 0);
        column += fprintf(to, "%s ", words[i].name);
    }
    fprintf(to, "\n");
}
