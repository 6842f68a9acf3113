/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When DPDK's interrupt thread handles control messages of memif, and how it connects again. This
 * program plays that thread and the driver; time passes only while the thread waits.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include "nic/dpdk_port.h"
#include "nic_testing.h"

#define PORT 3

/* ---- EAL and the driver ------------------------------------------------------------------ */

static struct {
    pthread_t thread;
    pthread_mutex_t lock; /* of the alarm */
    pthread_cond_t changed;
    rte_eal_alarm_callback alarm;
    void *ctx;
    bool runs, ends;
    unsigned refused; /* how many of the next alarms there is no memory for */
    /* The thread's while it runs, the test's while it waits for a burst. */
    int control;       /* a socket that the thread reads after the alarm; -1: none */
    bool listens;      /* it accepts connections, and ends them */
    unsigned messages; /* read from it */
    bool link_down;
    unsigned stops, starts;
    bool interrupted; /* the next wait, by a signal */
    int64_t early_ms; /* the next wait ends that much earlier */
    int timeout_ms;   /* of the last wait */
    int64_t now_ms;
} eal = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

REPLACES(rte_eal_alarm_set);
REPLACES(rte_eal_alarm_cancel);
REPLACES(rte_eth_link_get_nowait);
REPLACES(rte_eth_dev_stop);
REPLACES(rte_eth_dev_start);
REPLACES(poll);
REPLACES(clock_gettime);

int fake_rte_eal_alarm_set(uint64_t us, rte_eal_alarm_callback function, void *ctx)
{
    bool refused;

    pthread_mutex_lock(&eal.lock);
    refused = eal.refused > 0;
    eal.refused -= refused;
    if (!refused) {
        eal.alarm = function;
        eal.ctx = ctx;
        pthread_cond_broadcast(&eal.changed);
    }
    pthread_mutex_unlock(&eal.lock);
    return refused ? -ENOMEM : 0;
}

int fake_rte_eal_alarm_cancel(rte_eal_alarm_callback function, void *ctx)
{
    pthread_mutex_lock(&eal.lock);
    while (eal.runs)
        pthread_cond_wait(&eal.changed, &eal.lock);
    eal.alarm = NULL;
    pthread_mutex_unlock(&eal.lock);
    return 1;
}

int fake_rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link)
{
    memset(link, 0, sizeof(*link));
    link->link_status = eal.link_down ? RTE_ETH_LINK_DOWN : RTE_ETH_LINK_UP;
    return id == PORT ? 0 : -ENODEV;
}

int fake_rte_eth_dev_stop(uint16_t id)
{
    eal.stops += id == PORT;
    return 0;
}

/* The driver connects when a device that was stopped is started. */
int fake_rte_eth_dev_start(uint16_t id)
{
    eal.starts += id == PORT && eal.starts < eal.stops;
    return 0;
}

int fake_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (eal.interrupted) {
        eal.interrupted = false;
        errno = EINTR;
        return -1;
    }
    eal.timeout_ms = timeout_ms;
    if (timeout_ms < 0)
        return real_poll(fds, n, -1);
    eal.now_ms += timeout_ms - eal.early_ms;
    eal.early_ms = 0;
    return real_poll(fds, n, 0);
}

int fake_clock_gettime(clockid_t id, struct timespec *now)
{
    now->tv_sec = (time_t)(eal.now_ms / 1000);
    now->tv_nsec = (long)(eal.now_ms % 1000) * 1000000;
    return 0;
}

/* Handles what the driver would. */
static void handle_control(void)
{
    char message[16];
    int fd;

    if (eal.control < 0)
        return;
    if (!eal.listens) {
        eal.messages += recv(eal.control, message, sizeof(message), MSG_DONTWAIT) > 0;
        return;
    }
    fd = accept4(eal.control, NULL, NULL, SOCK_NONBLOCK);
    if (fd >= 0) {
        eal.messages++;
        close(fd);
    }
}

static void *interrupt_thread(void *arg)
{
    pthread_mutex_lock(&eal.lock);
    while (!eal.ends) {
        rte_eal_alarm_callback alarm = eal.alarm;

        if (alarm == NULL) {
            pthread_cond_wait(&eal.changed, &eal.lock);
            continue;
        }
        eal.alarm = NULL;
        eal.runs = true;
        pthread_mutex_unlock(&eal.lock);
        alarm(eal.ctx);
        handle_control();
        pthread_mutex_lock(&eal.lock);
        eal.runs = false;
        pthread_cond_broadcast(&eal.changed);
    }
    pthread_mutex_unlock(&eal.lock);
    return NULL;
}

/* ---- for the tests ----------------------------------------------------------------------- */

static struct dpdk_intr intr;
static unsigned descriptors_before;

static int begin(void **state)
{
    memset(&intr, 0, sizeof(intr));
    eal.alarm = NULL;
    eal.refused = eal.messages = eal.stops = eal.starts = 0;
    eal.runs = eal.ends = eal.listens = eal.link_down = eal.interrupted = false;
    eal.control = -1;
    eal.now_ms = 1000000;
    eal.early_ms = 0;
    descriptors_before = descriptors();
    return pthread_create(&eal.thread, NULL, interrupt_thread, NULL);
}

static int end(void **state)
{
    dpdk_intr_release(&intr); /* after a failure */
    pthread_mutex_lock(&eal.lock);
    eal.ends = true;
    pthread_cond_broadcast(&eal.changed);
    pthread_mutex_unlock(&eal.lock);
    return pthread_join(eal.thread, NULL);
}

static void hold(bool connects)
{
    char error[NIC_ERROR_MAX] = "";

    if (dpdk_intr_hold(&intr, PORT, connects, error) < 0)
        fail_msg("%s", error);
}

/* The thread is unblocked permanently, and nothing is left. */
static void release(void)
{
    dpdk_intr_release(&intr);
    assert_null(eal.alarm);
    assert_int_equal(descriptors(), descriptors_before);
    dpdk_intr_release(&intr); /* no effect */
}

static bool is_pending(void)
{
    return __atomic_load_n(&intr.pending, __ATOMIC_ACQUIRE);
}

static void wait_for_events(void)
{
    while (!is_pending())
        sched_yield();
}

static void make_control(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    eal.control = ends[0];
}

/* ---- control messages -------------------------------------------------------------------- */

static void messages_are_handled_between_bursts(void **state)
{
    int ends[2];
    unsigned i;

    make_control(ends);
    eal.interrupted = true;
    hold(false);
    for (i = 0; i < 3; i++) {
        assert_false(is_pending());
        assert_int_equal(write(ends[1], "x", 1), 1);
        wait_for_events();
        assert_int_equal(eal.timeout_ms, -1);
        assert_int_equal(eal.messages, i); /* until a burst begins */
        eal.refused = i;                   /* the next alarm is tried again */
        dpdk_intr_handle_pending(&intr);
        assert_int_equal(intr.handled, i + 1);
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    wait_for_events();
    assert_int_equal(eal.messages, 3);
    assert_int_equal(eal.stops, 0);
    close(ends[1]);
    eal.control = -1;
    close(ends[0]);
    release();
}

/* The thread is blocked, without anything to handle. */
static void a_closed_device_unblocks_the_thread(void **state)
{
    hold(false);
    release();
}

static void a_failure_leaves_nothing(void **state)
{
    char error[NIC_ERROR_MAX] = "";

    eal.refused = 1;
    assert_int_equal(dpdk_intr_hold(&intr, PORT, false, error), -1);
    assert_non_null(strstr(error, "out of memory"));
    release();
}

/* ---- connecting again -------------------------------------------------------------------- */

/* A socket that waits for clients: it is no connection to one. */
static int make_listener(struct sockaddr_un *addr, socklen_t *bytes)
{
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    assert_true(sock >= 0);
    assert_int_equal(bind(sock, (const struct sockaddr *)addr, sizeof(addr->sun_family)), 0);
    assert_int_equal(listen(sock, 1), 0);
    *bytes = sizeof(*addr); /* the kernel has chosen a name */
    assert_int_equal(getsockname(sock, (struct sockaddr *)addr, bytes), 0);
    eal.control = sock;
    eal.listens = true;
    return sock;
}

/* Attempts of which each follows the one before after twice the time, up to 640 ms. */
static void connects_in_growing_steps(unsigned attempts)
{
    int wanted_ms = 20;
    unsigned i;

    for (i = 0; i < attempts; i++) {
        wait_for_events();
        assert_int_equal(eal.timeout_ms, wanted_ms);
        assert_int_equal(eal.stops, i);
        assert_int_equal(eal.starts, i);
        wanted_ms = wanted_ms < 640 ? wanted_ms * 2 : 640;
        if (i + 1 < attempts)
            dpdk_intr_handle_pending(&intr);
    }
}

static void a_lost_peer_is_sought_in_growing_steps(void **state)
{
    struct sockaddr_un addr;
    socklen_t bytes;
    int listener = make_listener(&addr, &bytes);
    int client;

    eal.link_down = true;
    hold(true);
    connects_in_growing_steps(8);

    /* An event before the next attempt is due: the rest of the time. */
    eal.early_ms = 100;
    dpdk_intr_handle_pending(&intr);
    wait_for_events();
    assert_int_equal(eal.stops, 8);
    dpdk_intr_handle_pending(&intr);
    wait_for_events();
    assert_int_equal(eal.timeout_ms, 100);
    assert_int_equal(eal.stops, 8);

    /* The link is up: there is no attempt any more. */
    eal.link_down = false;
    dpdk_intr_handle_pending(&intr);
    client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&addr, bytes), 0);
    wait_for_events();
    assert_int_equal(eal.timeout_ms, -1);
    assert_int_equal(eal.stops, 8);
    close(client);

    /* Down again: short steps at first. */
    eal.link_down = true;
    eal.stops = eal.starts = 0;
    dpdk_intr_handle_pending(&intr);
    connects_in_growing_steps(3);
    close(listener);
    eal.control = -1;
    release();
}

/* The handshake with the peer may be under way. */
static void no_attempt_is_made_while_a_peer_is_connected(void **state)
{
    int ends[2];
    unsigned i;

    make_control(ends);
    eal.link_down = true;
    hold(true);
    for (i = 0; i < 3; i++) {
        wait_for_events();
        assert_int_equal(eal.timeout_ms, 640);
        assert_int_equal(eal.stops, 0);
        if (i < 2)
            dpdk_intr_handle_pending(&intr);
    }
    close(ends[0]);
    close(ends[1]);
    eal.control = -1;
    dpdk_intr_handle_pending(&intr);
    wait_for_events();
    assert_int_equal(eal.stops, 1); /* it has gone */
    assert_int_equal(eal.starts, 1);
    release();
}

/* ---- what a client leaves ---------------------------------------------------------------- */

/* A region of memory like those of clients, which are sealed. */
static int make_region(int seals)
{
    int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Regions of a client that has gone are closed; the driver has those of one that is there. */
static void regions_without_a_client_are_closed(void **state)
{
    int region = make_region(F_SEAL_SHRINK), other = make_region(F_SEAL_GROW);
    int ends[2];

    make_control(ends);
    hold(false);
    assert_int_equal(write(ends[1], "x", 1), 1);
    wait_for_events();
    assert_true(is_open(region));
    eal.control = -1;
    close(ends[0]);
    close(ends[1]);
    dpdk_intr_handle_pending(&intr);
    while (is_open(region))
        sched_yield();
    assert_true(is_open(other));
    close(other);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_are_handled_between_bursts, begin, end),
        cmocka_unit_test_setup_teardown(a_closed_device_unblocks_the_thread, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_lost_peer_is_sought_in_growing_steps, begin, end),
        cmocka_unit_test_setup_teardown(no_attempt_is_made_while_a_peer_is_connected, begin, end),
        cmocka_unit_test_setup_teardown(regions_without_a_client_are_closed, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
