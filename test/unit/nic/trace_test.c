/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace: the file is read back and compared with the frames. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "narrow_device.h"
#include "nic/pool.h"
#include "nic_testing.h"

struct pcap_file {
    unsigned char *bytes;
    size_t size;
    size_t position;
};

static char path[] = "/tmp/nic_trace_test.XXXXXX";

/* What becomes of the next writes to the file. */
static struct {
    unsigned interrupted, full; /* how many fail like this, in this order */
    bool no_space;              /* all fail */
    size_t most;                /* bytes at a time; 0: all */
    int waited_ms;              /* the last argument of poll() */
} writes;

REPLACES(write);
REPLACES(poll);

int fake_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    writes.waited_ms = timeout_ms;
    return real_poll(fds, n, timeout_ms);
}

ssize_t fake_write(int fd, const void *bytes, size_t n)
{
    errno = 0;
    if (writes.interrupted > 0) {
        writes.interrupted--;
        errno = EINTR;
    } else if (writes.full > 0) {
        writes.full--;
        errno = EAGAIN;
    } else if (writes.no_space) {
        errno = ENOSPC;
    }
    if (errno != 0)
        return -1;
    return real_write(fd, bytes, writes.most != 0 && n > writes.most ? writes.most : n);
}

static int make_path(void **state)
{
    int fd = mkstemp(path);

    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int remove_path(void **state)
{
    return unlink(path);
}

static void open_traced(unsigned queue_frames, uint32_t mtu, struct nic **traced, struct nic **peer)
{
    struct nic_loopback_config config = {.mtu = mtu, .queue_frames = queue_frames};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX] = "";

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    *traced = ends[0];
    assert_int_equal(nic_trace_open(traced, 1, path, error), 0);
    assert_string_equal(error, "");
    assert_ptr_not_equal(*traced, ends[0]);
    *peer = ends[1];
}

static uint32_t read_u32(struct pcap_file *file)
{
    uint32_t value;

    assert_true(file->size - file->position >= sizeof(value));
    memcpy(&value, file->bytes + file->position, sizeof(value));
    file->position += sizeof(value);
    return value;
}

/* Loads the file and checks its header. */
static void open_pcap(struct pcap_file *file, uint32_t mtu)
{
    FILE *stream = fopen(path, "rb");
    struct stat status;

    assert_non_null(stream);
    assert_int_equal(fstat(fileno(stream), &status), 0);
    file->size = (size_t)status.st_size;
    file->bytes = malloc(file->size + 1);
    assert_int_equal(fread(file->bytes, 1, file->size, stream), file->size);
    fclose(stream);
    file->position = 0;
    assert_int_equal(read_u32(file), 0xa1b2c3d4);
    assert_int_equal(read_u32(file), 2 | 4 << 16); /* two 16-bit fields, little endian */
    assert_int_equal(read_u32(file), 0);
    assert_int_equal(read_u32(file), 0);
    assert_true(read_u32(file) >= mtu + 14);
    assert_int_equal(read_u32(file), 1);
}

/* Reads one record and compares it with the numbered frame. */
static void expect_record(struct pcap_file *file, uint32_t number, uint32_t bytes)
{
    uint32_t seconds = read_u32(file);
    struct us_pkt pkt = {0};

    assert_true(llabs((long long)seconds - (long long)time(NULL)) < 100);
    assert_true(read_u32(file) < 1000000);
    assert_int_equal(read_u32(file), bytes);
    assert_int_equal(read_u32(file), bytes);
    assert_true(file->size - file->position >= bytes);
    pkt.data = file->bytes + file->position;
    pkt.len = bytes;
    assert_int_equal(frame_number(&pkt), number);
    assert_int_equal(wrong_bits(&pkt, number), 0);
    file->position += bytes;
}

static void close_pcap(struct pcap_file *file)
{
    assert_int_equal(file->position, file->size);
    free(file->bytes);
}

static size_t file_size(void)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return (size_t)status.st_size;
}

/* Frames out and in, alternating; more bytes than the buffer holds. */
static void records_both_directions(void **state)
{
    enum { FRAMES = 2000 };
    struct nic *traced, *peer;
    struct pcap_file file;
    uint32_t i;

    open_traced(0, 1500, &traced, &peer);
    for (i = 0; i < FRAMES; i++) {
        struct nic *from = i % 2 == 0 ? traced : peer;
        struct nic *to = i % 2 == 0 ? peer : traced;
        struct us_pkt *pkt;

        assert_int_equal(send_frame(from, i, FRAME_MIN_BYTES + i % 1497), 1);
        assert_int_equal(nic_rx_burst(to, &pkt, 1), 1);
        nic_release(to, &pkt, 1);
    }
    nic_wait(traced, 0);
    assert_int_equal(stat_of(traced, "trace_frames"), FRAMES);
    assert_int_equal(stat_of(traced, "trace_frames_lost"), 0);
    assert_int_equal(stat_of(traced, "loop_tx_frames"), FRAMES / 2);
    nic_close(traced);
    nic_close(peer);

    open_pcap(&file, 1500);
    for (i = 0; i < FRAMES; i++)
        expect_record(&file, i, FRAME_MIN_BYTES + i % 1497);
    close_pcap(&file);
}

/* All queues write to one file, each in order. */
static void queues_share_the_file(void **state)
{
    struct nic_loopback_config config = {0};
    struct nic *queues[2];
    struct pcap_file file;
    char error[NIC_ERROR_MAX] = "";
    unsigned before = descriptors();
    uint32_t i;

    assert_int_equal(nic_loopback_open(&config, queues, error), 0);
    assert_int_equal(nic_trace_open(queues, 2, path, error), 0);
    assert_int_equal(descriptors(), before + 1);
    for (i = 0; i < 3; i++)
        assert_int_equal(send_frame(queues[0], i, 60), 1);
    for (i = 3; i < 5; i++)
        assert_int_equal(send_frame(queues[1], i, 60), 1);
    nic_wait(queues[0], 0);
    nic_close(queues[0]); /* the other one continues */
    nic_close(queues[1]);
    assert_int_equal(descriptors(), before);
    open_pcap(&file, 1500);
    for (i = 0; i < 5; i++)
        expect_record(&file, i, 60);
    close_pcap(&file);
}

static void full_bursts_of_the_largest_frames_fit(void **state)
{
    struct nic *traced, *peer;
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct pcap_file file;
    uint32_t round, i, n;

    open_traced(0, NIC_MTU_MAX, &traced, &peer);
    for (round = 0; round < 3; round++) {
        assert_int_equal(nic_alloc(traced, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
        for (i = 0; i < NIC_BURST_MAX; i++)
            fill_frame(pkts[i], round * NIC_BURST_MAX + i, NIC_MTU_MAX + 14);
        assert_int_equal(nic_tx_burst(traced, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
        n = nic_rx_burst(peer, pkts, NIC_BURST_MAX);
        nic_release(peer, pkts, n);
    }
    nic_close(traced);
    nic_close(peer);
    open_pcap(&file, NIC_MTU_MAX);
    for (i = 0; i < 3 * NIC_BURST_MAX; i++)
        expect_record(&file, i, NIC_MTU_MAX + 14);
    close_pcap(&file);
}

static struct nic *open_traced_narrow(struct narrow *narrow, struct nic **peer)
{
    char error[NIC_ERROR_MAX];
    struct nic *traced;

    narrow_open(narrow, peer);
    traced = &narrow->nic;
    assert_int_equal(nic_trace_open(&traced, 1, path, error), 0);
    return traced;
}

static void frames_not_taken_are_not_recorded(void **state)
{
    struct narrow narrow = {.allowance = 3};
    struct nic *peer;
    struct nic *traced = open_traced_narrow(&narrow, &peer);
    struct us_pkt *pkts[5];
    struct pcap_file file;
    uint32_t i;

    assert_int_equal(nic_alloc(traced, pkts, 5), 5);
    for (i = 0; i < 5; i++)
        fill_frame(pkts[i], i, 60 + i);
    assert_int_equal(nic_tx_burst(traced, pkts, 5), 3);
    assert_int_equal(nic_tx_burst(traced, pkts + 3, 2), 0);
    narrow.allowance = 1;
    assert_int_equal(nic_tx_burst(traced, pkts + 3, 2), 1);
    nic_release(traced, pkts + 4, 1);
    nic_close(traced);
    nic_close(peer);
    open_pcap(&file, 1500);
    for (i = 0; i < 4; i++)
        expect_record(&file, i, 60 + i);
    close_pcap(&file);
}

static void a_chain_is_recorded_as_one_frame(void **state)
{
    enum { LARGEST = 1500 + 14 + 4 }; /* with a VLAN tag */
    struct narrow narrow = {.allowance = 1};
    struct nic *peer;
    struct nic *traced = open_traced_narrow(&narrow, &peer);
    struct us_pkt *pkts[2];
    struct pcap_file file;

    assert_int_equal(nic_alloc(traced, pkts, 2), 2);
    fill_frame(pkts[0], 7, LARGEST);
    memcpy(pkts[1]->data, pkts[0]->data + 40, LARGEST - 40);
    pkts[0]->len = 40;
    pkts[1]->len = LARGEST - 40;
    pkts[0]->next_seg = pkts[1];
    assert_int_equal(nic_tx_burst(traced, pkts, 1), 1);
    nic_close(traced);
    nic_close(peer);
    open_pcap(&file, 1500);
    expect_record(&file, 7, LARGEST);
    close_pcap(&file);
}

/* Recorded frames are in the file as soon as the thread sleeps or idles. */
static void flushes_when_idle(void **state)
{
    struct nic *traced, *peer;
    struct us_pkt *pkt;
    size_t empty_bytes;
    unsigned i;

    open_traced(0, 1500, &traced, &peer);
    empty_bytes = file_size();
    assert_int_equal(empty_bytes, 24);
    send_frame(traced, 1, 60);
    assert_int_equal(file_size(), empty_bytes);
    nic_wait(traced, 0);
    assert_int_equal(file_size(), empty_bytes + 16 + 60);
    send_frame(traced, 2, 60);
    for (i = 0; i < 1000; i++)
        assert_int_equal(nic_rx_burst(traced, &pkt, 1), 0);
    assert_int_equal(file_size(), empty_bytes + 2 * (16 + 60));
    send_frame(peer, 3, 60); /* and it is idle once more */
    assert_int_equal(nic_rx_burst(traced, &pkt, 1), 1);
    nic_release(traced, &pkt, 1);
    for (i = 0; i < 1000; i++)
        assert_int_equal(nic_rx_burst(traced, &pkt, 1), 0);
    assert_int_equal(file_size(), empty_bytes + 3 * (16 + 60));
    send_frame(traced, 4, 60); /* and again */
    for (i = 0; i < 1000; i++)
        assert_int_equal(nic_rx_burst(traced, &pkt, 1), 0);
    assert_int_equal(file_size(), empty_bytes + 4 * (16 + 60));
    nic_close(traced);
    nic_close(peer);
}

/*
 * The disk is full after 10000 bytes: the file ends with a complete record, and traffic continues.
 */
static void a_full_disk_ends_only_the_trace(void **state)
{
    struct rlimit before, limit;
    struct nic *traced, *peer;
    struct us_pkt *pkt;
    struct pcap_file file;
    uint64_t recorded;
    uint32_t i;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    open_traced(0, 1500, &traced, &peer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (i = 0; i < 100; i++) {
        assert_int_equal(send_frame(traced, i, 1000), 1);
        assert_int_equal(nic_rx_burst(peer, &pkt, 1), 1);
        assert_int_equal(frame_number(pkt), i);
        nic_release(peer, &pkt, 1);
        if (i % 4 == 3)
            nic_wait(traced, 0);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    for (i = 0; i < 10; i++) {
        assert_int_equal(send_frame(peer, i, 1000), 1);
        assert_int_equal(nic_rx_burst(traced, &pkt, 1), 1);
        nic_release(traced, &pkt, 1);
    }
    assert_int_equal(stat_of(traced, "trace_write_errors"), 1);
    recorded = stat_of(traced, "trace_frames");
    assert_int_equal(recorded, 8);
    assert_int_equal(stat_of(traced, "trace_frames_lost"), 110 - recorded);
    nic_close(traced);
    nic_close(peer);
    open_pcap(&file, 1500);
    for (i = 0; i < recorded; i++)
        expect_record(&file, i, 1000);
    close_pcap(&file);
}

/* The first queue that cannot write ends the trace of all, and has the error. */
static void an_error_ends_the_trace_of_all_queues(void **state)
{
    struct narrow narrow = {.allowance = 1};
    struct nic *queues[2];
    struct us_pkt *pkts[5];
    char error[NIC_ERROR_MAX];
    unsigned i;

    narrow_open(&narrow, &queues[1]);
    queues[0] = &narrow.nic;
    assert_int_equal(nic_trace_open(queues, 2, path, error), 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(send_frame(queues[i], i, 60), 1);
    writes.no_space = true;
    nic_wait(queues[0], 0);
    writes.no_space = false;
    nic_wait(queues[1], 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(stat_of(queues[i], "trace_write_errors"), i == 0);
        assert_int_equal(stat_of(queues[i], "trace_frames"), 0);
        assert_int_equal(stat_of(queues[i], "trace_frames_lost"), 1);
    }
    assert_int_equal(nic_alloc(queues[0], pkts, 5), 5);
    for (i = 0; i < 5; i++)
        fill_frame(pkts[i], i, 60);
    narrow.allowance = 3;
    assert_int_equal(nic_tx_burst(queues[0], pkts, 5), 3);
    nic_release(queues[0], pkts + 3, 2);
    assert_int_equal(stat_of(queues[0], "trace_frames_lost"), 1 + 3);
    for (i = 0; i < 2; i++)
        nic_close(queues[i]);
}

/* A file that takes bytes later, or some at a time, gets all of them. */
static void an_incomplete_write_is_continued(void **state)
{
    enum { INTERRUPTED, FULL, PIECES, KINDS };
    struct nic *traced, *peer;
    struct pcap_file file;
    unsigned i;

    open_traced(0, 1500, &traced, &peer);
    for (i = 0; i < KINDS; i++) {
        writes.interrupted = i == INTERRUPTED;
        writes.full = i == FULL;
        writes.most = i == PIECES ? 7 : 0;
        assert_int_equal(send_frame(traced, i, 60), 1);
        nic_wait(traced, 0);
        assert_int_equal(stat_of(traced, "trace_frames"), i + 1);
    }
    writes.most = 0;
    assert_in_range(writes.waited_ms, 1, 1000); /* for a reader, but a worker has more to do */
    assert_int_equal(stat_of(traced, "trace_write_errors"), 0);
    nic_close(traced);
    nic_close(peer);
    open_pcap(&file, 1500);
    for (i = 0; i < KINDS; i++)
        expect_record(&file, i, 60);
    close_pcap(&file);
}

static void a_path_that_cannot_be_written_is_refused(void **state)
{
    static const char *const paths[] = {"/nonexistent/trace.pcap", "/", "/dev/full"};
    struct nic_loopback_config config = {0};
    struct nic *ends[2];
    unsigned i;

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char error[NIC_ERROR_MAX] = "";

        assert_int_equal(nic_loopback_open(&config, ends, error), 0);
        assert_int_equal(nic_trace_open(ends, 1, paths[i], error), -1);
        assert_non_null(strstr(error, paths[i]));
        nic_close(ends[0]); /* still ours */
        nic_close(ends[1]);
    }
}

/*
 * As root in another user's directory: neither a symbolic link nor a second name nor a file of that
 * user is opened.
 */
static void a_link_is_not_followed(void **state)
{
    struct nic_loopback_config config = {0};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX], victim[64], text[8] = "";
    FILE *file;
    unsigned i;

    snprintf(victim, sizeof(victim), "%s.victim", path);
    file = fopen(victim, "w");
    assert_non_null(file);
    assert_true(fputs("precious", file) >= 0);
    fclose(file);
    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    for (i = 0; i < 2; i++) {
        struct nic *traced = ends[0];

        assert_int_equal(unlink(path), 0);
        assert_int_equal(i == 0 ? symlink(victim, path) : link(victim, path), 0);
        assert_int_equal(nic_trace_open(&traced, 1, path, error), -1);
        assert_non_null(strstr(error, i == 0 ? "symbolic link" : "second name"));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(victim, path), 0);
    if (chown(path, 1, 1) == 0) { /* needs root */
        struct nic *traced = ends[0];

        assert_int_equal(nic_trace_open(&traced, 1, path, error), -1);
        assert_non_null(strstr(error, "another user's file"));
    }
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "preciou");
    nic_close(ends[0]);
    nic_close(ends[1]);
}

/* A pipe without a reader is refused; one that is not read any more ends only the trace. */
static void a_pipe_blocks_nothing(void **state)
{
    struct nic_loopback_config config = {.mtu = 1500};
    struct nic *ends[2], *traced, *peer;
    struct us_pkt *pkt;
    char error[NIC_ERROR_MAX];
    int reader;
    uint32_t i;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    assert_int_equal(nic_trace_open(ends, 1, path, error), -1);
    assert_non_null(strstr(error, "a pipe that no program reads"));
    nic_close(ends[0]);
    nic_close(ends[1]);
    reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    open_traced(0, 1500, &traced, &peer);
    for (i = 0; i < 300; i++) {
        assert_int_equal(send_frame(traced, i, 1000), 1);
        assert_int_equal(nic_rx_burst(peer, &pkt, 1), 1);
        assert_int_equal(frame_number(pkt), i);
        nic_release(peer, &pkt, 1);
        nic_wait(traced, 0);
    }
    assert_int_equal(stat_of(traced, "trace_write_errors"), 1);
    assert_true(stat_of(traced, "trace_frames_lost") > 0);
    nic_close(traced);
    nic_close(peer);
    close(reader);
    assert_int_equal(unlink(path), 0); /* the next test creates a file */
}

/* A descriptor that the program was started with, which is a symbolic link. */
static void a_descriptor_of_the_process_is_written_to(void **state)
{
    struct nic_loopback_config config = {0};
    struct nic *ends[2];
    char name[32], error[NIC_ERROR_MAX];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    assert_int_equal(nic_trace_open(ends, 1, name, error), 0);
    assert_int_equal(file_size(), 24);
    nic_close(ends[0]);
    nic_close(ends[1]);
    close(fd);
}

/* The guest of a virtual device may take an offload from it at any time. */
static void changes_of_the_lower_device_are_followed(void **state)
{
    struct narrow narrow = {.allowance = 1};
    struct nic *peer;
    struct nic *traced = open_traced_narrow(&narrow, &peer);
    struct us_pkt *pkt;

    narrow.nic.caps = US_CAP_TX_L4_CSUM;
    assert_int_equal(nic_rx_burst(traced, &pkt, 1), 0);
    assert_int_equal(traced->caps, US_CAP_TX_L4_CSUM);
    narrow.mtu_now = 1400; /* that of an interface may change */
    assert_int_equal(nic_mtu(traced), 1400);
    nic_close(traced);
    nic_close(peer);
}

static void looks_like_the_lower_device(void **state)
{
    struct nic *traced, *peer;

    open_traced(0, 2000, &traced, &peer);
    assert_int_equal(traced->mtu, 2000);
    assert_int_equal(traced->mac[0], 0x02);
    assert_int_equal(traced->caps, 0);
    nic_wake(traced);
    nic_close(traced);
    nic_close(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_both_directions),
        cmocka_unit_test(queues_share_the_file),
        cmocka_unit_test(full_bursts_of_the_largest_frames_fit),
        cmocka_unit_test(frames_not_taken_are_not_recorded),
        cmocka_unit_test(a_chain_is_recorded_as_one_frame),
        cmocka_unit_test(flushes_when_idle),
        cmocka_unit_test(a_full_disk_ends_only_the_trace),
        cmocka_unit_test(an_error_ends_the_trace_of_all_queues),
        cmocka_unit_test(an_incomplete_write_is_continued),
        cmocka_unit_test(a_path_that_cannot_be_written_is_refused),
        cmocka_unit_test(a_link_is_not_followed),
        cmocka_unit_test(a_pipe_blocks_nothing),
        cmocka_unit_test(a_descriptor_of_the_process_is_written_to),
        cmocka_unit_test(changes_of_the_lower_device_are_followed),
        cmocka_unit_test(looks_like_the_lower_device),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
