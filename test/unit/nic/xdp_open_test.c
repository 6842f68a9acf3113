/* SPDX-License-Identifier: BSD-3-Clause */
/* AF_XDP: settings of the interface, and what an end or a failure leaves. */
#define _GNU_SOURCE /* unshare */
#include "xdp_link.h"

/* ---- settings ---------------------------------------------------------------------------- */

static void the_mtu_is_that_of_the_interface_within_bounds(void **state)
{
    static const unsigned rows[][2] = {{1500, 1500}, {1200, 1200}, {300, 576}, {3000, 1400}};
    struct nic_xdp_config config = config_make();
    struct nic *nic;
    char text[64];
    unsigned i;

    if (skip_reason != NULL)
        skip();
    config.mtu = 575;
    xdp_fails(&config, 1, "MTU 575: between 576 and");
    config.mtu = 1501;
    xdp_fails(&config, 1, "MTU 1501: between");
    config.mtu = 1500;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_int_equal(nic->mtu, 1500);
    nic_close(nic);
    config.mtu = 1400;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    for (i = 1; i < U_ARRAY_LEN(rows); i++) {
        snprintf(text, sizeof(text), "link set " DEVICE " mtu %u", rows[i][0]);
        ip(text);
        assert_int_equal(nic_mtu(nic), rows[i][1]);
        assert_int_equal(stat_of(nic, "xdp_mtu_interface"), rows[i][0]);
    }
    nic_close(nic);
}

/* Whether the interface takes frames to this multicast group. */
static bool has_group(const char *address)
{
    char line[128];
    FILE *file = fopen("/proc/net/dev_mcast", "re");
    bool found = false;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        found = found || (strstr(line, DEVICE " ") != NULL && strstr(line, address) != NULL);
    fclose(file);
    return found;
}

/* A virtual interface takes another address by taking all. */
static bool takes_all(void)
{
    FILE *shown = popen("ip -d link show " DEVICE, "re");
    char text[2048];

    assert_non_null(shown);
    text[fread(text, 1, sizeof(text) - 1, shown)] = '\0';
    pclose(shown);
    assert_non_null(strstr(text, " promiscuity "));
    return strstr(text, " promiscuity 0 ") == NULL;
}

static void addresses_of_the_stack_are_accepted_by_the_interface(void **state)
{
    struct nic_xdp_config config = config_make();
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    config.addrs[1] =
        (struct nic_xdp_addr){true, {0xfd, [12] = 0x11, [13] = 0x22, [14] = 0x33, [15] = 0x44}};
    config.addr_count = 2;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_false(has_group("3333ff000000")); /* IPv4 has no such groups */
    assert_true(has_group("3333ff223344"));  /* RFC 4291 2.7.1, RFC 2464 section 7 */
    assert_false(takes_all());
    memcpy(config.mac, nic->mac, 6);
    nic_close(nic);
    assert_false(has_group("3333ff223344"));

    assert_int_equal(xdp_open(&config, 1, &nic), 1); /* its own address, given */
    assert_false(takes_all());
    nic_close(nic);
    config.mac[5] ^= 1;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_memory_equal(nic->mac, config.mac, 6);
    assert_true(takes_all());
    nic_close(nic);
    assert_false(takes_all());
    config.mac[0] |= 1;
    xdp_fails(&config, 1, "multicast");
}

/* Drivers count queues of each direction, or for both; others have one. */
static void queues_are_those_that_the_driver_tells_of(void **state)
{
    struct nic_xdp_config config = config_make();
    struct nic *nic[QUEUES];

    if (skip_reason != NULL)
        skip();
    faults.combined = true;
    assert_int_equal(xdp_open(&config, 1, nic), 1);
    assert_int_equal(stat_of(nic[0], "xdp_sockets"), QUEUES);
    nic_close(nic[0]);
    faults.no_channels = true;
    assert_int_equal(xdp_open(&config, QUEUES, nic), 1);
    assert_int_equal(stat_of(nic[0], "xdp_sockets"), 1);
    nic_close(nic[0]);
}

/* Binds a port of the host. Returns the socket, or -1. */
static int bind_port(int family, int type, unsigned port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int sock = socket(family, type | SOCK_CLOEXEC, 0);
    const int on = 1;
    int rc;

    if (family == AF_INET6)
        (void)setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (type == SOCK_DGRAM) /* would share the port with whoever allows it, too */
        (void)setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    rc = family == AF_INET ? bind(sock, (const struct sockaddr *)&in, sizeof(in))
                           : bind(sock, (const struct sockaddr *)&in6, sizeof(in6));
    if (rc == 0)
        return sock;
    close(sock);
    return -1;
}

/* Ports of the host that the stack serves are taken in the kernel, of both families. */
static void ports_of_the_host_are_taken(void **state)
{
    static const struct {
        int family, type;
        unsigned port;
    } rows[] = {{AF_INET, SOCK_STREAM, 11211},
                {AF_INET6, SOCK_STREAM, 11211},
                {AF_INET, SOCK_DGRAM, 11212},
                {AF_INET6, SOCK_DGRAM, 11212}};
    struct nic_xdp_config config = config_make();
    unsigned before, i;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    config.host_addrs = true;
    config.tcp_port = 11211;
    config.udp_port = 11212;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    for (i = 0; i < U_ARRAY_LEN(rows); i++)
        assert_int_equal(bind_port(rows[i].family, rows[i].type, rows[i].port), -1);
    nic_close(nic);
    before = descriptors();
    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        int sock = bind_port(rows[i].family, rows[i].type, rows[i].port);

        assert_true(sock >= 0);
        xdp_fails(&config, 1, i < 2 ? "TCP port 11211" : "UDP port 11212");
        close(sock);
        assert_int_equal(descriptors(), before);
    }
    config.udp_port = 0; /* none */
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    i = (unsigned)bind_port(AF_INET, SOCK_DGRAM, 11211);
    assert_int_not_equal((int)i, -1);
    close((int)i);
    nic_close(nic);
    faults.no_ip6 = true;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_int_equal(bind_port(AF_INET, SOCK_STREAM, 11211), -1);
    nic_close(nic);
}

/* A connection of an earlier server is in FIN-WAIT. */
static void a_port_with_old_connections_is_taken(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(11211)};
    struct nic_xdp_config config = config_make();
    int server, client, conn;
    const int on = 1;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    ip("link set lo up");
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(server, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    conn = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    assert_true(conn >= 0);
    close(server);
    close(conn); /* FIN-WAIT until the client closes, too, then TIME-WAIT */
    assert_int_equal(bind_port(AF_INET, SOCK_STREAM, 11211), -1);
    config.host_addrs = true;
    config.tcp_port = 11211;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    close(client);
    nic_close(nic);
}

/* ---- the end, and failures --------------------------------------------------------------- */

/* Mappings of buffers that are shared with the kernel; libbpf has a small one. */
static unsigned areas(void)
{
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long first, end_at;

        assert_int_equal(sscanf(line, "%lx-%lx", &first, &end_at), 2);
        count += strstr(line, "/dev/zero") != NULL && end_at - first >= RING_FRAMES * 2048;
    }
    fclose(file);
    return count;
}

/* The interface is free, and nothing is left of a device. */
static void check_nothing_left(unsigned before)
{
    struct nic_xdp_config config = config_make();
    struct nic *nic[QUEUES];

    assert_int_equal(descriptors(), before);
    assert_int_equal(areas(), 0);
    memset(&faults, 0, sizeof(faults));
    assert_int_equal(xdp_open(&config, QUEUES, nic), QUEUES);
    assert_int_equal(areas(), QUEUES); /* shared: -d forks after the start */
    nic_close(nic[1]);
    nic_close(nic[0]);
    assert_int_equal(descriptors(), before);
    assert_int_equal(areas(), 0);
}

static void a_failure_leaves_nothing(void **state)
{
    static const struct {
        unsigned queues, from;
        bool in_map;
        int result;
        const char *message;
    } rows[] = {{1, 1, false, -EPERM, "needs root"},
                {1, 2, false, -ENOBUFS, "memory cannot be locked"}, /* the second queue's */
                {2, 2, false, -ENETDOWN, "is down"},
                {2, 1, true, -EIO, "no AF_XDP socket"},
                {1, 2, true, -EIO, "no AF_XDP socket"}};
    struct nic_xdp_config config = config_make();
    unsigned before, i;

    if (skip_reason != NULL)
        skip();
    before = descriptors();
    check_nothing_left(before);
    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        memset(&faults, 0, sizeof(faults));
        faults.fails_from = rows[i].from;
        faults.fails_to = UINT32_MAX;
        faults.in_map = rows[i].in_map;
        faults.result = rows[i].result;
        xdp_fails(&config, rows[i].queues, rows[i].message);
        assert_int_equal(faults.calls, rows[i].from); /* no further attempt */
        assert_int_equal(faults.pauses, 0);
        check_nothing_left(before);
    }
}

/* A killed server's sockets are closed a moment after its end. */
static void a_busy_queue_is_tried_again_for_a_time(void **state)
{
    struct nic_xdp_config config = config_make();
    unsigned before;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    before = descriptors();
    faults.fails_from = 2; /* the first socket of the first attempt is there already */
    faults.fails_to = 5;
    faults.result = -EBUSY;
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_int_equal(faults.pauses, 5 - 2);
    assert_int_equal(stat_of(nic, "xdp_sockets"), QUEUES);
    assert_int_equal(areas(), 1);
    memset(seen, 0, sizeof(seen));
    peer_sends(0, NIC_BURST_MAX, FRAME_BYTES);
    receive(nic, NIC_BURST_MAX, FRAME_BYTES);
    nic_close(nic);
    check_nothing_left(before);

    faults.fails_from = 1;
    faults.fails_to = UINT32_MAX;
    faults.result = -EBUSY;
    faults.calls = 0;
    faults.pauses = 0;
    xdp_fails(&config, 1, "in use by another AF_XDP socket");
    assert_int_equal(faults.pauses, 100);
    check_nothing_left(before);
}

static void interfaces_that_cannot_be_used_are_named(void **state)
{
    struct nic_xdp_config config = config_make();

    if (skip_reason != NULL)
        skip();
    config.dev = "a23456789012345";
    xdp_fails(&config, 1, "no such interface");
    config.dev = "a234567890123456";
    xdp_fails(&config, 1, "1 to 15 characters");
    config.dev = "";
    xdp_fails(&config, 1, "1 to 15 characters");
    ip("link set lo up");
    config.dev = "lo";
    xdp_fails(&config, 1, "not an Ethernet interface");
    config.dev = DEVICE;
    ip("link set " DEVICE " down");
    xdp_fails(&config, 1, "the interface is down");
    (void)end(NULL);
    make_link_of(1500, 129);
    xdp_fails(&config, 1, "129 receive queues, more than 128");
    (void)end(NULL);
    make_link(1500);
    check_nothing_left(descriptors());
}

static void an_interface_is_for_one_server(void **state)
{
    struct nic_xdp_config config = config_make();
    unsigned before;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    before = descriptors();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    xdp_fails(&config, 1, "another XDP program is attached");
    memset(seen, 0, sizeof(seen));
    peer_sends(0, NIC_BURST_MAX, FRAME_BYTES);
    receive(nic, NIC_BURST_MAX, FRAME_BYTES);
    nic_close(nic);
    check_nothing_left(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_mtu_is_that_of_the_interface_within_bounds),
        TEST(addresses_of_the_stack_are_accepted_by_the_interface),
        TEST(queues_are_those_that_the_driver_tells_of),
        TEST(ports_of_the_host_are_taken),
        TEST(a_port_with_old_connections_is_taken),
        TEST(a_failure_leaves_nothing),
        TEST(a_busy_queue_is_tried_again_for_a_time),
        TEST(interfaces_that_cannot_be_used_are_named),
        TEST(an_interface_is_for_one_server),
    };

    return RUN_TESTS(tests);
}
