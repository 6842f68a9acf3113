/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of DPDK's virtual devices: what the back end adds to them, and reads from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "nic/dpdk_port.h"

static const struct {
    const char *dev;
    unsigned queues;
    uint32_t mtu;
    const char *added;
} descriptions[] = {
    {"net_tap0,iface=a", 2, 9000, ""},
    {"net_af_packet0,iface=a", 1, 1500, ""},
    {"net_af_packet0,iface=a", 2, 1500, ",qpairs=2"},
    {"net_af_packet0,qpairs=1,iface=a", 2, 1500, ""},
    /* Larger frames than the default buffers: the ring's frames have headers of their own. */
    {"net_af_packet0,iface=a", 1, 1882, ""},
    {"net_af_packet0,iface=a", 1, 1883, ",blocksz=2048,framesz=2048"},
    {"net_af_packet0,iface=a", 1, 1902, ",blocksz=2048,framesz=2048"},
    {"net_af_packet0,iface=a", 1, 1903, ",blocksz=4096,framesz=4096"},
    {"net_af_packet0,iface=a", 4, 9000, ",qpairs=4,blocksz=16384,framesz=16384"},
    {"net_af_packet0,framesz=32768,iface=a", 1, 9000, ""},
    {"net_memif0,role=server", 2, 1882, ""},
    {"net_memif0,role=server", 1, 1883, ",bsize=2048"},
    {"net_memif0,role=server", 1, 9000, ",bsize=10240"},
    {"net_memif0,role=server,bsize=16384", 1, 9000, ""},
    /* Both ends need the same number of queues, which only the user knows. */
    {"net_vhost0,iface=a", 2, 9000, ""},
    {"net_virtio_user0,path=a", 2, 9000, ""},
};

static void descriptions_are_completed(void **state)
{
    char text[DPDK_DEV_TEXT_MAX], wanted[DPDK_DEV_TEXT_MAX];
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(descriptions); i++) {
        assert_true(dpdk_vdev_describe(descriptions[i].dev, descriptions[i].queues,
                                       descriptions[i].mtu, text));
        snprintf(wanted, sizeof(wanted), "%s%s", descriptions[i].dev, descriptions[i].added);
        assert_string_equal(text, wanted);
    }
}

static void long_descriptions_are_refused(void **state)
{
    static const struct {
        unsigned queues;
        uint32_t mtu;
        unsigned added; /* bytes */
    } rows[] = {{1, 1500, 0}, {2, 1500, 9}, {1, 9000, 28}};
    char dev[DPDK_DEV_TEXT_MAX + 1], text[DPDK_DEV_TEXT_MAX];
    size_t i, bytes;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        bytes = DPDK_DEV_TEXT_MAX - 1 - rows[i].added;
        memset(dev, 'a', sizeof(dev));
        memcpy(dev, "net_af_packet0,iface=", 21);
        dev[bytes] = '\0';
        assert_true(dpdk_vdev_describe(dev, rows[i].queues, rows[i].mtu, text));
        assert_int_equal(strlen(text), DPDK_DEV_TEXT_MAX - 1);
        dev[bytes] = 'a';
        dev[bytes + 1] = '\0';
        assert_false(dpdk_vdev_describe(dev, rows[i].queues, rows[i].mtu, text));
    }
}

/* ---- sockets ----------------------------------------------------------------------------- */

static const struct {
    const char *dev; /* %s: the path of its socket */
    bool listens;
    bool abstract; /* with a name that is in no folder */
} links[] = {
    {"net_vhost0,iface=%s", true, false},
    {"net_vhost0,iface=%s,client=0", true, false},
    {"net_vhost0,iface=%s,client=1", false, false},
    {"net_virtio_user0,path=%s", false, false},
    {"net_virtio_user0,path=%s,server=1", true, false},
    {"net_memif0,socket=%s,role=server", true, true},
    {"net_memif0,role=master,socket=%s", true, true},
    {"net_memif0,role=server,socket=%s,socket-abstract=yes", true, true},
    {"net_memif0,role=server,socket=%s,socket-abstract=no", true, false},
    {"net_memif0,socket=%s,role=client", false, true},
    {"net_memif0,socket=%s", false, true},
    {"net_af_packet0,iface=%s", false, false},
};

static char folder[] = "/tmp/dpdk-vdev-XXXXXX";
static char path[sizeof(folder) + 2];

static int make_folder(void **state)
{
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/s", folder);
    return 0;
}

static int remove_folder(void **state)
{
    return rmdir(folder);
}

/* A socket with the name that a device would have. */
static int make_socket(int type, bool abstract)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    memcpy(addr.sun_path + abstract, path, strlen(path));
    assert_int_equal(
        bind(sock, (const struct sockaddr *)&addr,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path))),
        0);
    return sock;
}

static bool exists(void)
{
    struct stat stat;

    return lstat(path, &stat) == 0;
}

/* Only where this end listens another process is in the way. What it left is removed. */
static void a_socket_that_is_in_use_is_seen(void **state)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    char dev[DPDK_DEV_TEXT_MAX];
    bool in_the_way;
    size_t i, j;
    int sock;

    for (i = 0; i < 2 * U_ARRAY_LEN(links); i++) {
        j = i / 2;
        snprintf(dev, sizeof(dev), links[j].dev, path);
        assert_int_equal(dpdk_vdev_listens(dev), links[j].listens);
        assert_true(dpdk_vdev_is_free(dev));
        sock = make_socket(types[i % 2], links[j].abstract);
        assert_int_equal(listen(sock, 1), 0);
        /* Each type has abstract names of its own. */
        in_the_way = links[j].listens && (!links[j].abstract || types[i % 2] == SOCK_SEQPACKET);
        assert_int_equal(dpdk_vdev_is_free(dev), !in_the_way);
        close(sock);
        assert_int_equal(exists(), !links[j].abstract);
        assert_true(dpdk_vdev_is_free(dev));
        assert_int_equal(exists(), !links[j].abstract && !links[j].listens);
        (void)unlink(path);
    }
}

static void other_files_stay(void **state)
{
    char dev[DPDK_DEV_TEXT_MAX], far[200];
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fclose(file);
    snprintf(dev, sizeof(dev), "net_vhost0,iface=%s", path);
    assert_true(dpdk_vdev_is_free(dev)); /* the driver says what is wrong */
    assert_true(exists());
    assert_int_equal(unlink(path), 0);
    memset(far, 'a', sizeof(far));
    far[sizeof(far) - 1] = '\0';
    snprintf(dev, sizeof(dev), "net_vhost0,iface=%s", far);
    assert_true(dpdk_vdev_is_free(dev));
    assert_true(dpdk_vdev_is_free("net_memif0,role=server"));
}

/* ---- who makes it, and what its end frees ------------------------------------------------ */

static void devices_are_made_here_or_by_eal(void **state)
{
    static const struct {
        const char *dev, *eal;
        bool ours, frees;
    } rows[] = {{NULL, NULL, false, false},
                {"0", NULL, false, false},
                {"0000:01:00.0", NULL, false, false},
                {"net_memif0", NULL, true, true},
                {"net_memif0", "--no-huge", true, true},
                {"net_memif0", "--no-huge --vdev=net_memif0", false, false},
                {"net_vhost0,iface=a", NULL, true, true},
                {"net_af_packet0,iface=a", NULL, true, true},
                {"net_tap0", NULL, true, false},
                {"net_virtio_user0,path=a", NULL, true, false}};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        struct nic_dpdk_config config = {.dev = rows[i].dev, .eal = rows[i].eal};

        assert_int_equal(dpdk_vdev_is_ours(&config), rows[i].ours);
        assert_int_equal(nic_dpdk_close_frees(&config), rows[i].frees);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptions_are_completed),
        cmocka_unit_test(long_descriptions_are_refused),
        cmocka_unit_test(a_socket_that_is_in_use_is_seen),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(devices_are_made_here_or_by_eal),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
