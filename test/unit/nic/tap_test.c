/* SPDX-License-Identifier: BSD-3-Clause */
/* How the TAP device is opened and closed, and its addresses and queues. */
#define _GNU_SOURCE /* unshare */
#include <fcntl.h>
#include <ifaddrs.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tap_rig.h"

static const uint8_t given_mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};

/* The host's side has this MAC address, too. */
static bool host_has_given_mac;

REPLACES(ioctl);

int fake_ioctl(int fd, unsigned long code, ...)
{
    va_list list;
    void *argument;
    int rc;

    va_start(list, code);
    argument = va_arg(list, void *);
    va_end(list);
    rc = real_ioctl(fd, code, argument);
    if (host_has_given_mac && rc == 0 && code == SIOCGIFHWADDR)
        memcpy(((struct ifreq *)argument)->ifr_hwaddr.sa_data, given_mac, 6);
    return rc;
}

/* What getrandom() returns: the host's MAC address, or an error. */
static bool random_is_the_hosts, random_fails;

REPLACES(getrandom);

ssize_t fake_getrandom(void *bytes, size_t n, unsigned flags)
{
    struct ifreq request = {.ifr_name = DEVICE};
    int sock;

    if (random_fails) {
        errno = ENOSYS;
        return -1;
    }
    if (!random_is_the_hosts)
        return real_getrandom(bytes, n, flags);
    assert_int_equal(n, 6);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(sock, SIOCGIFHWADDR, &request), 0);
    close(sock);
    memcpy(bytes, request.ifr_hwaddr.sa_data, 6);
    return 6;
}

static void configures_the_host_side(void **state)
{
    struct nic_tap_config config = base_config;
    struct ifaddrs *addrs, *a;
    struct ifreq request;
    struct nic *nic;
    int sock, found = 0;

    need_device();
    config.mtu = 1400;
    config.host_prefix_len = 22;
    nic = open_tap(&config);
    assert_int_equal(nic->mtu, 1400);
    assert_int_equal(nic->mac[0] & 3, 2);

    assert_int_equal(getifaddrs(&addrs), 0);
    for (a = addrs; a != NULL; a = a->ifa_next) {
        char text[INET_ADDRSTRLEN];

        if (strcmp(a->ifa_name, DEVICE) != 0 || a->ifa_addr == NULL)
            continue;
        assert_int_not_equal(a->ifa_addr->sa_family, AF_INET6);
        if (a->ifa_addr->sa_family != AF_INET)
            continue;
        found++;
        assert_string_equal(
            inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, text, sizeof(text)),
            "10.99.0.1");
        assert_string_equal(inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_netmask)->sin_addr,
                                      text, sizeof(text)),
                            "255.255.252.0");
    }
    freeifaddrs(addrs);
    assert_int_equal(found, 1);

    get_flags(DEVICE, &request);
    assert_true((request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING));
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(sock, SIOCGIFMTU, &request), 0);
    assert_int_equal(request.ifr_mtu, 1400);
    assert_int_equal(ioctl(sock, SIOCGIFHWADDR, &request), 0);
    assert_memory_not_equal(request.ifr_hwaddr.sa_data, nic->mac, 6);
    close(sock);
    nic_close(nic);
}

/* Close leaves neither the device nor a descriptor. */
static void close_removes_the_device(void **state)
{
    struct nic *nic;
    unsigned before = descriptors();
    int i;

    need_device();
    for (i = 0; i < 3; i++) {
        nic = open_tap(&base_config);
        assert_int_not_equal(if_nametoindex(DEVICE), 0);
        nic_close(nic);
        assert_int_equal(if_nametoindex(DEVICE), 0);
    }
    assert_int_equal(descriptors(), before);
}

static void the_end_of_the_process_removes_the_device(void **state)
{
    int status = 0, tries;
    pid_t pid;

    need_device();
    pid = fork();
    if (pid == 0) {
        static struct nic *nic; /* reachable for leak checkers */
        char error[NIC_ERROR_MAX];

        if (nic_tap_open(&base_config, 1, &nic, error) < 0)
            _exit(1);
        kill(getpid(), SIGKILL);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (tries = 0; tries < 6000 && if_nametoindex(DEVICE) != 0; tries++)
        usleep(10000);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void assert_refused(const struct nic_tap_config *config, const char *phrase)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *nic;

    assert_int_equal(nic_tap_open(config, 1, &nic, error), -1);
    if (strstr(error, phrase) == NULL)
        fail_msg("not the expected message: %s", error);
}

static void a_given_mac_is_used(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    memcpy(config.mac, given_mac, 6);
    nic = open_tap(&config);
    assert_memory_equal(nic->mac, given_mac, 6);
    nic_close(nic);
    host_has_given_mac = true;
    assert_refused(&config, "the MAC address is that of the host's side");
    host_has_given_mac = false;
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

/* Random addresses are locally administered addresses of one station. */
static void a_random_mac_is_of_one_station(void **state)
{
    struct nic *nic;
    unsigned i;

    need_device();
    for (i = 0; i < 16; i++) {
        nic = open_tap(&base_config);
        assert_int_equal(nic->mac[0] & 3, 2);
        nic_close(nic);
    }
}

/* A random MAC address that equals the host's is not used. */
static void a_random_mac_is_not_the_hosts(void **state)
{
    struct ifreq request = {.ifr_name = DEVICE};
    struct nic *nic;
    int sock;

    need_device();
    random_is_the_hosts = true;
    nic = open_tap(&base_config);
    random_is_the_hosts = false;
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(sock, SIOCGIFHWADDR, &request), 0);
    close(sock);
    assert_memory_not_equal(request.ifr_hwaddr.sa_data, nic->mac, 6);
    assert_int_equal(nic->mac[0] & 3, 2);
    nic_close(nic);
}

/* The kernel's setting of the device for IPv6. */
static int ipv6_setting(const char *name)
{
    char path[96];
    int value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/" DEVICE "/%s", name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &value), 1);
    fclose(file);
    return value;
}

/* The length of the prefix of this IPv6 address of the host's side; 0: it has no such address. */
static unsigned ipv6_prefix(const uint8_t bytes[16])
{
    struct ifaddrs *addrs, *a;
    unsigned length = 0, i;

    assert_int_equal(getifaddrs(&addrs), 0);
    for (a = addrs; a != NULL; a = a->ifa_next) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)a->ifa_addr;
        struct sockaddr_in6 *mask = (struct sockaddr_in6 *)(void *)a->ifa_netmask;

        if (strcmp(a->ifa_name, DEVICE) != 0 || in6 == NULL || in6->sin6_family != AF_INET6 ||
            memcmp(&in6->sin6_addr, bytes, 16) != 0)
            continue;
        for (i = 0; i < 16; i++)
            length += (unsigned)__builtin_popcount(mask->sin6_addr.s6_addr[i]);
    }
    freeifaddrs(addrs);
    return length;
}

/*
 * With an IPv6 address the kernel neither looks for a router on the link nor for another station
 * with the address, for which the first packets would have to wait.
 */
static void an_ipv6_address_is_not_announced(void **state)
{
    struct nic_tap_config config = base_config;
    unsigned before = descriptors();
    struct nic *nic;

    need_device();
    if (access("/proc/sys/net/ipv6/conf/default/accept_dad", W_OK) < 0)
        skip(); /* no IPv6 in the kernel, or a read-only /proc/sys */
    assert_int_equal(inet_pton(AF_INET6, "fd99::1", config.host_addr6), 1);
    config.host_prefix6_len = 128;
    nic_close(open_tap(&config));
    config.host_prefix6_len = 48;
    nic = open_tap(&config);
    assert_int_equal(ipv6_prefix(config.host_addr6), 48);
    assert_int_equal(ipv6_setting("disable_ipv6"), 0);
    assert_int_equal(ipv6_setting("accept_dad"), 0);
    assert_int_equal(ipv6_setting("accept_ra"), 0);
    assert_int_equal(ipv6_setting("router_solicitations"), 0);
    nic_close(nic);
    assert_int_equal(descriptors(), before);
}

/* Writes the setting of IPv6 for new devices. Returns whether that is permitted. */
static bool set_ipv6_off(const char *value)
{
    FILE *file = fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w");
    bool written = file != NULL && fputs(value, file) >= 0;

    return file != NULL && fclose(file) == 0 && written;
}

/* Where new devices have no IPv6, as in many containers, one with an address has it. */
static void an_ipv6_address_turns_ipv6_on(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    if (!set_ipv6_off("1"))
        skip(); /* no IPv6 in the kernel, or a read-only /proc/sys */
    assert_int_equal(inet_pton(AF_INET6, "fd99::1", config.host_addr6), 1);
    config.host_prefix6_len = 48;
    nic = open_tap(&config);
    assert_int_equal(ipv6_prefix(config.host_addr6), 48);
    nic_close(nic);
    assert_true(set_ipv6_off("0"));
}

/* Another process uses the queues of a device after this one, with their address. */
static void queues_of_another_process_are_used(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *first[2], *second[2];
    char error[NIC_ERROR_MAX] = "";
    struct us_pkt *pkt;
    int fds[2];
    unsigned i;

    need_device();
    assert_int_equal(nic_tap_open(&config, 2, first, error), 0);
    for (i = 0; i < 2; i++)
        fds[i] = dup(nic_adoptable_fd(first[i]));
    memcpy(config.mac, given_mac, sizeof(given_mac));
    config.adopted_fds = fds;
    assert_int_equal(nic_tap_open(&config, 2, second, error), 0);
    for (i = 0; i < 2; i++)
        nic_close(first[i]);
    for (i = 0; i < 2; i++) {
        assert_memory_equal(second[i]->mac, given_mac, 6);
        assert_int_equal(nic_alloc(second[i], &pkt, 1), 1);
        memset(pkt->data, 0xff, 60);
        pkt->len = 60;
        assert_int_equal(nic_tx_burst(second[i], &pkt, 1), 1);
        assert_int_equal(stat_of(second[i], "tap_tx_frames"), 1);
    }
    for (i = 0; i < 2; i++)
        nic_close(second[i]);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void a_host_side_without_address(void **state)
{
    struct nic_tap_config config = base_config;
    struct ifreq request;
    struct nic *nic;
    int sock;

    need_device();
    memset(config.host_addr, 0, 4);
    config.host_prefix_len = 0;
    nic = open_tap(&config);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    get_flags(DEVICE, &request);
    assert_true((request.ifr_flags & IFF_UP) != 0);
    assert_int_equal(ioctl(sock, SIOCGIFADDR, &request), -1);
    close(sock);
    nic_close(nic);
}

/* A network of one address, as of a link between two points. */
static void a_host_side_alone_in_its_network(void **state)
{
    struct nic_tap_config config = base_config;

    need_device();
    config.host_prefix_len = 32;
    nic_close(open_tap(&config));
}

/* The device exists until its last queue is closed, and each queue sends independently. */
static void a_device_has_several_queues(void **state)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *queue[3];
    struct us_pkt *pkt;
    unsigned i;

    need_device();
    assert_int_equal(nic_tap_open(&base_config, 3, queue, error), 0);
    for (i = 0; i < 3; i++) {
        assert_int_equal(queue[i]->queue, i);
        assert_int_equal(queue[i]->queues, 3);
        assert_memory_equal(queue[i]->mac, queue[0]->mac, 6);
        assert_int_equal(nic_alloc(queue[i], &pkt, 1), 1);
        memset(pkt->data, 0xff, 60);
        pkt->len = 60;
        assert_int_equal(nic_tx_burst(queue[i], &pkt, 1), 1);
        assert_int_equal(stat_of(queue[i], "tap_tx_frames"), 1);
    }
    nic_close(queue[0]);
    nic_close(queue[2]);
    assert_int_not_equal(if_nametoindex(DEVICE), 0);
    nic_close(queue[1]);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void a_name_in_use_is_refused(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    nic = open_tap(&base_config);
    assert_refused(&base_config, "tap unictest0: a device of this name exists");
    assert_int_not_equal(if_nametoindex(DEVICE), 0);
    nic_close(nic);
    config.name = "lo";
    assert_refused(&config, "tap lo: a device of this name exists");
}

static void the_longest_name_is_accepted(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    config.name = "fifteen-letters";
    nic = open_tap(&config);
    assert_int_not_equal(if_nametoindex(config.name), 0);
    nic_close(nic);
}

static void bad_configurations_are_refused(void **state)
{
    static const struct {
        struct nic_tap_config config;
        const char *phrase;
    } cases[] = {
        {{.name = NULL}, "1 to 15 characters"},
        {{.name = ""}, "1 to 15 characters"},
        {{.name = "sixteen-letters-"}, "1 to 15 characters"},
        {{.name = "a/b"}, "no '/'"},
        {{.name = "a b"}, "no '/'"},
        {{.name = "tap%d"}, "no '/'"},
        {{.name = "."}, "not . or .."},
        {{.name = ".."}, "not . or .."},
        {{.name = DEVICE, .mtu = 575}, "between 576 and 9216"},
        {{.name = DEVICE, .mtu = 9217}, "between 576 and 9216"},
        {{.name = DEVICE, .mac = {1, 0, 0, 0, 0, 1}}, "multicast"},
        {{.name = DEVICE, .host_addr = {10, 0, 0, 1}}, "between 1 and 32"},
        {{.name = DEVICE, .host_addr = {10, 0, 0, 1}, .host_prefix_len = 33}, "between 1 and 32"},
        {{.name = DEVICE, .host_addr6 = {0xfd}}, "between 1 and 128"},
        {{.name = DEVICE, .host_addr6 = {0xfd}, .host_prefix6_len = 129}, "between 1 and 128"},
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(&cases[i].config, cases[i].phrase);
}

static void an_impossible_address_is_refused(void **state)
{
    struct nic_tap_config config = base_config;

    need_device();
    config.host_addr[0] = 224;
    assert_refused(&config, "cannot set the address of the host's side");
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void no_random_address_is_an_error(void **state)
{
    need_device();
    random_fails = true;
    assert_refused(&base_config, "no random MAC address");
    random_fails = false;
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

/* As user nobody: opening /dev/net/tun, or creating the device, is not permitted. */
static void error_without_privileges_says_what_is_needed(void **state)
{
    int status = 0;
    pid_t pid;

    need_device();
    pid = fork();
    if (pid == 0) {
        char error[NIC_ERROR_MAX] = "";
        struct nic *nic;

        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(3);
        if (nic_tap_open(&base_config, 1, &nic, error) == 0)
            _exit(1);
        _exit(strstr(error, "needs root or CAP_NET_ADMIN") != NULL ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Opens two queues with too few descriptors for each of the steps in turn. */
static void failure_without_descriptors_leaves_nothing(void **state)
{
    unsigned open_before = descriptors();
    struct rlimit before, few;
    int last, rc = -1;

    need_device();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (few = before, last = 0; rc < 0; last++) {
        char error[NIC_ERROR_MAX] = "";
        struct nic *nic[2];

        few.rlim_cur = (rlim_t)last;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        rc = nic_tap_open(&base_config, 2, nic, error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (rc == 0) {
            nic_close(nic[0]);
            nic_close(nic[1]);
        } else {
            assert_non_null(strstr(error, "tap unictest0: "));
        }
        assert_int_equal(if_nametoindex(DEVICE), 0);
        assert_int_equal(descriptors(), open_before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(configures_the_host_side),
        cmocka_unit_test(close_removes_the_device),
        cmocka_unit_test(the_end_of_the_process_removes_the_device),
        cmocka_unit_test(a_given_mac_is_used),
        cmocka_unit_test(a_random_mac_is_of_one_station),
        cmocka_unit_test(a_random_mac_is_not_the_hosts),
        cmocka_unit_test(an_ipv6_address_is_not_announced),
        cmocka_unit_test(an_ipv6_address_turns_ipv6_on),
        cmocka_unit_test(queues_of_another_process_are_used),
        cmocka_unit_test(a_host_side_without_address),
        cmocka_unit_test(a_host_side_alone_in_its_network),
        cmocka_unit_test(a_device_has_several_queues),
        cmocka_unit_test(a_name_in_use_is_refused),
        cmocka_unit_test(the_longest_name_is_accepted),
        cmocka_unit_test(an_impossible_address_is_refused),
        cmocka_unit_test(no_random_address_is_an_error),
        cmocka_unit_test(error_without_privileges_says_what_is_needed),
        cmocka_unit_test(failure_without_descriptors_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, enter_own_namespace, NULL);
}
