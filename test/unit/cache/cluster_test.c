/* SPDX-License-Identifier: BSD-3-Clause */
/* Auto-discovery: the file of servers, and what clients read of it. */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

#include "cache/cluster.h"

#define TEXT "12\na.example|10.0.0.1|11211 b.example||11212\n"
#define PAYLOAD TEXT "\r\nEND\r\n"
#define CONFIG "CONFIG cluster 0 45\r\n" PAYLOAD
#define VALUE "VALUE AmazonElastiCache:cluster 0 45\r\n" PAYLOAD

static char path[] = "/tmp/ucached_cluster_XXXXXX";

static void load(struct rig *rig, const char *text, const char *complaint)
{
    char error[CACHE_ERROR_MAX] = "";
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(cache_cluster_load(rig->cache, error), complaint == NULL ? 0 : -1);
    if (complaint != NULL && strstr(error, complaint) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", complaint, error);
}

static void open_with(struct rig *rig, const char *text)
{
    struct cache_config config = rig_config();

    config.settings.cluster_file = path;
    rig_open(rig, &config);
    load(rig, text, NULL);
}

static void test_what_clients_read(void **state)
{
    struct rig rig;

    (void)state;
    open_with(&rig, "# our pool\n12\na.example|10.0.0.1|11211\r\n\n \t b.example||11212");
    rig_expect(&rig, "config get cluster\r\n", CONFIG);
    rig_expect(&rig, "config  get  cluster \r\nmn\r\n", CONFIG "MN\r\n");
    rig_expect(&rig, "config get cluster noreply\r\nmn\r\n", "MN\r\n");
    rig_expect(&rig, "get AmazonElastiCache:cluster\r\n", VALUE);
    rig_expect(&rig, "gets AmazonElastiCache:cluster\r\n",
               "VALUE AmazonElastiCache:cluster 0 45 12\r\n" PAYLOAD);
    rig_feed(&rig, "set a 0 0 1\r\nx\r\n");
    rig_forget(&rig.out);
    rig_expect(&rig, "get b AmazonElastiCache:cluster a\r\n",
               "VALUE AmazonElastiCache:cluster 0 45\r\n" TEXT "\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    rig_close(&rig);
}

static void test_what_is_no_command(void **state)
{
    static const char *const lines[] = {
        "config\r\n",
        "config get\r\n",
        "config get clusters\r\n",
        "config set cluster\r\n",
        "config get cluster 0\r\n",
    };
    struct rig rig;

    (void)state;
    open_with(&rig, "12 a|10.0.0.1|1\n");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        rig_expect(&rig, lines[i], "ERROR\r\n");
    rig_expect(&rig, "get AmazonElastiCache:clusters\r\n", "END\r\n");
    rig_expect(&rig, "gat 0 AmazonElastiCache:cluster\r\n", "END\r\n");
    rig_close(&rig);
}

/* Without the option nothing differs from memcached. */
static void test_without_a_file(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    rig_open(&rig, &config);
    rig_expect(&rig, "config get cluster\r\n", "ERROR\r\n");
    rig_expect(&rig, "get AmazonElastiCache:cluster\r\n", "END\r\n");
    rig_close(&rig);
}

static void test_refused_files(void **state)
{
    static const char *const refused[][2] = {
        {"", "no server"},
        {"7\n", "no server"},
        {"0 a||1\n", "line 1: \"0\" is not a version"},
        {"-1 a||1\n", "not a version"},
        {"9999999999999999999 a||1\n", "not a version"},
        {"a|10.0.0.1|11211\n", "not a version"},
        {"13\n\n# b\na|10.0.0.1\n", "line 4: \"a|10.0.0.1\" is not name|address|port"},
        {"13\n|10.0.0.1|11211\n", "not name|address|port"},
        {"13\na|10.0.0.1|0\n", "not name|address|port"},
        {"13\na|10.0.0.1|65536\n", "not name|address|port"},
        {"13\na|10.0.0.1|11x\n", "not name|address|port"},
        {"13\na|10.0.0|11211\n", "not name|address|port"},
        {"13\na|10.0.0.1|11211|1\n", "not name|address|port"},
        {"13\na\x7f|10.0.0.1|11211\n", "not name|address|port"},
        {"13\na|1000:1000:1000:1000:1000:1000:1000:1000:1000:1000|1\n", "not name|address|port"},
    };
    static char text[9000];
    struct rig rig;

    (void)state;
    open_with(&rig, "12 a.example|10.0.0.1|11211 b.example||11212");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        load(&rig, refused[i][0], refused[i][1]);
    memset(text, 'a', sizeof(text) - 1);
    load(&rig, text, "line 1 is longer");
    unlink(path);
    assert_int_equal(cache_cluster_load(rig.cache, text), -1);
    rig_expect(&rig, "config get cluster\r\n", CONFIG); /* the old list is still there */
    rig_close(&rig);
}

static void test_the_version_grows(void **state)
{
    struct rig rig;

    (void)state;
    open_with(&rig, "9 a||1\n");
    load(&rig, "9 a||1\n", NULL);
    load(&rig, "9 a||1 b||1\n", "version 9 has to become greater than 9");
    load(&rig, "8 a||1\n", "version 8 has to become greater than 9");
    load(&rig, "10 a||1 b|fd00::2|1\n", NULL);
    rig_expect(&rig, "config get cluster\r\n",
               "CONFIG cluster 0 20\r\n10\na||1 b|fd00::2|1\n\r\nEND\r\n");
    rig_close(&rig);
}

/* The longest list is answered, in rooms of any size. */
static void test_bound(void **state)
{
    static char text[CACHE_CLUSTER_NODES_MAX * 40];
    size_t len = 1;
    size_t reply_len;
    struct rig rig;

    (void)state;
    text[0] = '1';
    for (unsigned i = 0; i < CACHE_CLUSTER_NODES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "\nserver%u|10.0.0.1|11211", i);
    open_with(&rig, text);
    rig_feed(&rig, "config get cluster\r\n");
    reply_len = strlen(rig_reply(&rig));
    assert_true(reply_len > len && reply_len < len + 40);
    rig_forget(&rig.out);
    rig.out.room_bytes = 100;
    rig_feed(&rig, "config get cluster\r\n");
    assert_int_equal(strlen(rig_reply(&rig)), reply_len);
    text[0] = '2';
    snprintf(text + len, sizeof(text) - len, "\nmore|10.0.0.1|1");
    load(&rig, text, "more than 256 servers");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_clients_read), cmocka_unit_test(test_what_is_no_command),
        cmocka_unit_test(test_without_a_file),    cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_the_version_grows), cmocka_unit_test(test_bound),
    };
    int fd = mkstemp(path);
    int failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
