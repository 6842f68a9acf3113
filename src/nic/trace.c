/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes every received and sent frame to a file in the classic pcap format, which tcpdump and
 * Wireshark read. The queues of a device share the file; each has its own buffer.
 *
 * The buffer is written when it is full, when the thread sleeps or is idle, and on close. A crash
 * loses the records of the last busy period. A write error (disk full) ends the trace and is
 * counted; the traffic continues.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/nic.h"
#include "nic/pool.h"

/* The pcap file format, in the byte order of this machine, which the magic number indicates. */
#define PCAP_MAGIC_MICROSECONDS 0xa1b2c3d4u
#define PCAP_LINKTYPE_ETHERNET 1

struct pcap_file_header {
    uint32_t magic;
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t time_zone;
    uint32_t time_accuracy;
    uint32_t snap_bytes; /* maximum bytes of a frame in a record */
    uint32_t link_type;
};
U_STATIC_ASSERT(sizeof(struct pcap_file_header) == 24, pcap_file_header_size);

struct pcap_record_header {
    uint32_t seconds;
    uint32_t microseconds;
    uint32_t captured_bytes;
    uint32_t frame_bytes;
};
U_STATIC_ASSERT(sizeof(struct pcap_record_header) == 16, pcap_record_header_size);

/* Consecutive polls without a frame after which a busy-polling thread counts as idle. */
#define IDLE_POLLS 256

/* Snap length beyond MTU and Ethernet header: VLAN tags. */
#define SNAP_SPARE_BYTES 8

struct trace_file {
    pthread_mutex_t lock; /* of all members: queues write from different threads */
    int fd;               /* -1: closed after an error */
    off_t bytes;          /* length of the file in complete records */
    unsigned users;       /* open queues */
};

struct trace {
    struct nic nic;
    struct nic *lower;
    struct trace_file *file;
    bool given_up; /* a write of this or another queue failed */
    uint32_t snap_bytes;
    unsigned char *buffer;
    size_t buffer_bytes; /* at least one burst of full frames */
    size_t used_bytes;
    unsigned idle_polls;
    unsigned pending_frames; /* in the buffer */
    uint64_t frames;         /* in the file */
    uint64_t frames_lost;    /* not recorded because of an error */
    uint64_t write_errors;
};

static struct trace *trace_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct trace, nic);
}

/* ---- the file ---------------------------------------------------------------------------- */

/* How long the reader of a pipe may keep a worker waiting; then the trace ends. */
#define READER_WAIT_MS 20

/* Whether the descriptor takes bytes again; false, with EAGAIN, if not in time. */
static bool wait_for_reader(int fd)
{
    struct pollfd reader = {.fd = fd, .events = POLLOUT};

    if (poll(&reader, 1, READER_WAIT_MS) > 0)
        return true;
    errno = EAGAIN;
    return false;
}

static int write_all(int fd, const unsigned char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && (errno == EINTR || (errno == EAGAIN && wait_for_reader(fd))))
            continue;
        if (written <= 0)
            return -1;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

/* Ends the trace. The file stays readable: an incomplete record at its end is cut off. */
static void give_up(struct trace_file *file)
{
    int result = ftruncate(file->fd, file->bytes);

    (void)result; /* a pipe cannot be truncated; a failure is ignored */
    close(file->fd);
    file->fd = -1;
}

/* Appends records. Returns whether that succeeded; *error is set for the write that failed. */
static bool file_append(struct trace_file *file, const unsigned char *bytes, size_t n, bool *error)
{
    bool written;

    *error = false;
    pthread_mutex_lock(&file->lock);
    written = file->fd >= 0 && write_all(file->fd, bytes, n) == 0;
    if (written) {
        file->bytes += (off_t)n;
    } else if (file->fd >= 0) {
        give_up(file);
        *error = true;
    }
    pthread_mutex_unlock(&file->lock);
    return written;
}

static void flush(struct trace *trace)
{
    bool error;

    if (trace->used_bytes == 0 || trace->given_up)
        return;
    if (file_append(trace->file, trace->buffer, trace->used_bytes, &error)) {
        trace->frames += trace->pending_frames;
    } else {
        trace->given_up = true;
        trace->frames_lost += trace->pending_frames;
        trace->write_errors += error;
    }
    trace->used_bytes = 0;
    trace->pending_frames = 0;
}

static uint32_t frame_length(const struct us_pkt *pkt)
{
    uint32_t bytes = 0;

    for (; pkt != NULL; pkt = pkt->next_seg)
        bytes += pkt->len;
    return bytes;
}

static void append(struct trace *trace, const void *bytes, size_t n)
{
    U_ASSERT(n <= trace->buffer_bytes - trace->used_bytes);
    memcpy(trace->buffer + trace->used_bytes, bytes, n);
    trace->used_bytes += n;
}

static void record(struct trace *trace, const struct us_pkt *pkt, const struct timespec *now)
{
    struct pcap_record_header header;
    uint32_t left;

    header.seconds = (uint32_t)now->tv_sec;
    header.microseconds = (uint32_t)(now->tv_nsec / 1000);
    header.frame_bytes = frame_length(pkt);
    header.captured_bytes = u_min32(header.frame_bytes, trace->snap_bytes);
    append(trace, &header, sizeof(header));
    for (left = header.captured_bytes; left > 0; pkt = pkt->next_seg) {
        uint32_t bytes = u_min32(pkt->len, left);

        append(trace, pkt->data, bytes);
        left -= bytes;
    }
}

/* Makes room for n records, n <= NIC_BURST_MAX. */
static void reserve(struct trace *trace, unsigned n)
{
    size_t need_bytes = n * (sizeof(struct pcap_record_header) + trace->snap_bytes);

    if (need_bytes > trace->buffer_bytes - trace->used_bytes)
        flush(trace);
}

/* ---- the device -------------------------------------------------------------------------- */

static unsigned trace_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct trace *trace = trace_of(nic);
    struct timespec now;
    unsigned i;

    n = nic_rx_burst(trace->lower, pkts, u_min32(n, NIC_BURST_MAX));
    nic->caps = trace->lower->caps;
    if (n == 0) {
        if (++trace->idle_polls == IDLE_POLLS)
            flush(trace);
        return 0;
    }
    trace->idle_polls = 0;
    reserve(trace, n);
    if (trace->given_up) {
        trace->frames_lost += n;
        return n;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    for (i = 0; i < n; i++)
        record(trace, pkts[i], &now);
    trace->pending_frames += n;
    return n;
}

static unsigned trace_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_alloc(trace_of(nic)->lower, pkts, n);
}

static void trace_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_release(trace_of(nic)->lower, pkts, n);
}

/*
 * A sent frame belongs to the device, so frames are recorded before they are sent; the records of
 * frames that were not accepted are removed.
 */
static unsigned trace_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct trace *trace = trace_of(nic);
    size_t end_bytes[NIC_BURST_MAX + 1]; /* used bytes after i records */
    struct timespec now;
    unsigned i;

    n = u_min32(n, NIC_BURST_MAX);
    trace->idle_polls = 0;
    reserve(trace, n);
    if (trace->given_up) {
        n = nic_tx_burst(trace->lower, pkts, n);
        trace->frames_lost += n;
        return n;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    end_bytes[0] = trace->used_bytes;
    for (i = 0; i < n; i++) {
        record(trace, pkts[i], &now);
        end_bytes[i + 1] = trace->used_bytes;
    }
    n = nic_tx_burst(trace->lower, pkts, n);
    trace->used_bytes = end_bytes[n];
    trace->pending_frames += n;
    return n;
}

static int trace_wait(struct nic *nic, uint64_t timeout_us)
{
    struct trace *trace = trace_of(nic);

    flush(trace);
    return nic_wait(trace->lower, timeout_us);
}

static void trace_wake(struct nic *nic)
{
    nic_wake(trace_of(nic)->lower);
}

static void trace_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct trace *trace = trace_of(nic);

    emit(emit_ctx, "trace_frames", trace->frames);
    emit(emit_ctx, "trace_frames_lost", trace->frames_lost);
    emit(emit_ctx, "trace_write_errors", trace->write_errors);
    nic_stats(trace->lower, emit, emit_ctx);
}

/* Detaches a queue from the file; the last one closes it. */
static void file_leave(struct trace_file *file)
{
    unsigned users;

    pthread_mutex_lock(&file->lock);
    users = --file->users;
    pthread_mutex_unlock(&file->lock);
    if (users > 0)
        return;
    if (file->fd >= 0)
        close(file->fd);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

static void trace_free(struct trace *trace)
{
    file_leave(trace->file);
    free(trace->buffer);
    free(trace);
}

static void trace_close(struct nic *nic)
{
    struct trace *trace = trace_of(nic);

    flush(trace);
    nic_close(trace->lower);
    trace_free(trace);
}

static uint32_t trace_mtu(struct nic *nic)
{
    return nic_mtu(trace_of(nic)->lower);
}

static const struct nic_ops trace_ops = {
    .name = "trace",
    .rx_burst = trace_rx_burst,
    .alloc = trace_alloc,
    .release = trace_release,
    .tx_burst = trace_tx_burst,
    .wait = trace_wait,
    .wake = trace_wake,
    .mtu = trace_mtu,
    .stats = trace_stats,
    .close = trace_close,
};

/* Standard streams and descriptors of the process are symbolic links. */
static bool is_own_stream(const char *path)
{
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 ||
           strncmp(path, "/dev/fd/", 8) == 0;
}

/*
 * Creates the file. The process may be root and the directory may belong to another user, so
 * neither a symbolic link nor an existing file with a second name or another owner is opened. A
 * pipe is not waited for: without a reader it is an error.
 */
static int create_file(const char *path)
{
    int follow = is_own_stream(path) ? 0 : O_NOFOLLOW;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | follow, 0600);
    struct stat file;

    if (fd < 0)
        return -1;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        if (follow != 0 && (file.st_nlink > 1 || file.st_uid != geteuid()))
            errno = EEXIST;
        else if (ftruncate(fd, 0) == 0)
            return fd;
        close(fd);
        return -1;
    }
    return fd;
}

/* Creates the file and writes the header, so that an error is reported at the start. */
static int start_file(struct trace_file *file, const char *path, uint32_t snap_bytes,
                      char error[NIC_ERROR_MAX])
{
    struct pcap_file_header header = {
        .magic = PCAP_MAGIC_MICROSECONDS,
        .version_major = 2,
        .version_minor = 4,
        .snap_bytes = snap_bytes,
        .link_type = PCAP_LINKTYPE_ETHERNET,
    };

    /* The frames contain the clients' data, so only the owner may read the file. */
    file->fd = create_file(path);
    if (file->fd < 0 || write_all(file->fd, (const unsigned char *)&header, sizeof(header)) < 0)
        return nic_error_set(error, "trace: cannot write '%.150s': %s", path,
                             errno == ELOOP   ? "it is a symbolic link; name the file itself"
                             : errno == ENXIO ? "it is a pipe that no program reads"
                             : errno == EEXIST
                                 ? "it is another user's file or has a second name; remove it"
                                 : strerror(errno));
    file->bytes = (off_t)sizeof(header);
    return 0;
}

/* Opens the file; the caller counts as a user until file_leave(). */
static struct trace_file *file_open(const char *path, uint32_t snap_bytes,
                                    char error[NIC_ERROR_MAX])
{
    struct trace_file *file = calloc(1, sizeof(*file));

    if (file == NULL) {
        nic_error_set(error, "trace: out of memory");
        return NULL;
    }
    pthread_mutex_init(&file->lock, NULL);
    file->users = 1;
    if (start_file(file, path, snap_bytes, error) == 0)
        return file;
    file_leave(file);
    return NULL;
}

static struct nic *open_queue(struct nic *lower, struct trace_file *file, uint32_t snap_bytes)
{
    struct trace *trace = calloc(1, sizeof(*trace));

    if (trace == NULL)
        return NULL;
    trace->nic = *lower;
    trace->nic.ops = &trace_ops;
    trace->lower = lower;
    trace->snap_bytes = snap_bytes;
    trace->buffer_bytes = 2 * NIC_BURST_MAX * (sizeof(struct pcap_record_header) + snap_bytes);
    trace->buffer = malloc(trace->buffer_bytes);
    if (trace->buffer == NULL) {
        free(trace);
        return NULL;
    }
    trace->file = file;
    file->users++; /* no lock: no thread uses a queue yet */
    return &trace->nic;
}

int nic_trace_open(struct nic *queue[], unsigned queues, const char *path,
                   char error[NIC_ERROR_MAX])
{
    struct nic *outer[NIC_QUEUES_MAX];
    struct trace_file *file;
    uint32_t snap_bytes;
    unsigned n = 0;

    U_ASSERT(queues > 0 && queues <= NIC_QUEUES_MAX);
    snap_bytes = queue[0]->mtu + NIC_ETH_HEADER_BYTES + SNAP_SPARE_BYTES;
    file = file_open(path, snap_bytes, error);
    if (file == NULL)
        return -1;
    while (n < queues && (outer[n] = open_queue(queue[n], file, snap_bytes)) != NULL)
        n++;
    if (n == queues) {
        memcpy(queue, outer, queues * sizeof(queue[0]));
    } else {
        nic_error_set(error, "trace: out of memory");
        for (unsigned i = 0; i < n; i++)
            trace_free(trace_of(outer[i]));
    }
    file_leave(file);
    return n == queues ? 0 : -1;
}
