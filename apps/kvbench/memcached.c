/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a memcached on a unix socket and sends it batches of meta gets, and sets without reply. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kvbench/memcached.h"
#include "load/key.h"
#include "load/random.h"

#define BATCH_MAX 64
#define BATCH_SLOTS 256 /* open addressing, a quarter full */
#define OUT_BYTES (1u << 18)
#define ANSWER_BYTES 4 /* "HD\r\n" or "EN\r\n" */
#define WAIT_MS 5000
#define STEP_MS 10

struct memcached {
    pid_t pid;
    int fd;
    char folder[32];
    struct sockaddr_un address;
    uint64_t hits, misses;

    unsigned keys;  /* of the batch */
    unsigned asked; /* GETs among them */
    struct load_request gets[BATCH_MAX];
    uint64_t slots[BATCH_SLOTS]; /* ids of the batch, plus one */

    size_t out_bytes;
    char out[OUT_BYTES];
};

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool flush(struct memcached *memcached, char *error)
{
    size_t done = 0;

    while (done < memcached->out_bytes) {
        ssize_t n =
            send(memcached->fd, memcached->out + done, memcached->out_bytes - done, MSG_NOSIGNAL);
        if (n <= 0) {
            snprintf(error, LOAD_ERROR_MAX, "cannot send to memcached: %s", strerror(errno));
            return false;
        }
        done += (size_t)n;
    }
    memcached->out_bytes = 0;
    return true;
}

/* Room for `bytes` in the buffer, which is at least LOAD_KEY_MAX + 64. */
static bool room(struct memcached *memcached, size_t bytes, char *error)
{
    return memcached->out_bytes + bytes <= OUT_BYTES || flush(memcached, error);
}

static void put(struct memcached *memcached, const void *bytes, size_t count)
{
    memcpy(memcached->out + memcached->out_bytes, bytes, count);
    memcached->out_bytes += count;
}

static void put_key(struct memcached *memcached, const struct load_request *request)
{
    memcached->out_bytes +=
        load_key_write(memcached->out + memcached->out_bytes, request->id, request->key_bytes);
}

static bool put_set(struct memcached *memcached, const struct load_request *request, char *error)
{
    char numbers[64];
    int len = snprintf(numbers, sizeof(numbers), " 0 0 %u noreply\r\n", request->value_bytes);

    if (!room(memcached, LOAD_KEY_MAX + 80, error))
        return false;
    put(memcached, "set ", 4);
    put_key(memcached, request);
    put(memcached, numbers, (size_t)len);
    for (uint32_t done = 0; done < request->value_bytes;) {
        uint32_t part = request->value_bytes - done;
        if (!room(memcached, 64, error))
            return false;
        if (part > OUT_BYTES - memcached->out_bytes)
            part = (uint32_t)(OUT_BYTES - memcached->out_bytes);
        memset(memcached->out + memcached->out_bytes, 'v', part);
        memcached->out_bytes += part;
        done += part;
    }
    if (!room(memcached, 2, error))
        return false;
    put(memcached, "\r\n", 2);
    return true;
}

static bool receive(struct memcached *memcached, char *to, size_t bytes, char *error)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = recv(memcached->fd, to + done, bytes - done, 0);
        if (n <= 0) {
            snprintf(error, LOAD_ERROR_MAX, "memcached does not answer: %s",
                     n == 0 ? "it has closed the connection" : strerror(errno));
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Adds an id to the batch; false if the batch has it already. */
static bool batch_add(struct memcached *memcached, uint64_t id)
{
    unsigned at = (unsigned)load_random_hash(id, 0) % BATCH_SLOTS;

    while (memcached->slots[at] != 0) {
        if (memcached->slots[at] == id + 1)
            return false;
        at = (at + 1) % BATCH_SLOTS;
    }
    memcached->slots[at] = id + 1;
    memcached->keys++;
    return true;
}

bool memcached_flush(struct memcached *memcached, char error[LOAD_ERROR_MAX])
{
    char answers[BATCH_MAX * ANSWER_BYTES];
    unsigned asked = memcached->asked;

    memset(memcached->slots, 0, sizeof(memcached->slots));
    memcached->asked = 0;
    memcached->keys = 0;
    if (!flush(memcached, error) ||
        !receive(memcached, answers, (size_t)asked * ANSWER_BYTES, error))
        return false;
    for (unsigned i = 0; i < asked; i++) {
        const char *answer = answers + (size_t)i * ANSWER_BYTES;
        if (memcmp(answer, "HD\r\n", ANSWER_BYTES) == 0) {
            memcached->hits++;
        } else if (memcmp(answer, "EN\r\n", ANSWER_BYTES) == 0) {
            memcached->misses++;
            if (!put_set(memcached, &memcached->gets[i], error))
                return false;
        } else {
            snprintf(error, LOAD_ERROR_MAX, "unexpected reply \"%.4s...\" of memcached; is it 1.6?",
                     answer);
            return false;
        }
    }
    return true;
}

bool memcached_request(struct memcached *memcached, const struct load_request *request,
                       char error[LOAD_ERROR_MAX])
{
    if (memcached->keys == BATCH_MAX || !batch_add(memcached, request->id)) {
        if (!memcached_flush(memcached, error))
            return false;
        batch_add(memcached, request->id);
    }
    if (request->op == LOAD_SET)
        return put_set(memcached, request, error);
    if (!room(memcached, LOAD_KEY_MAX + 32, error))
        return false;
    if (request->op == LOAD_DELETE) {
        put(memcached, "delete ", 7);
        put_key(memcached, request);
        put(memcached, " noreply\r\n", 10);
        return true;
    }
    put(memcached, "mg ", 3);
    put_key(memcached, request);
    put(memcached, "\r\n", 2);
    memcached->gets[memcached->asked++] = *request;
    return true;
}

uint64_t memcached_hits(const struct memcached *memcached)
{
    return memcached->hits;
}

uint64_t memcached_misses(const struct memcached *memcached)
{
    return memcached->misses;
}

double memcached_stat(struct memcached *memcached, const char *section, const char *name)
{
    static char text[1 << 16];
    char error[LOAD_ERROR_MAX], wanted[64];
    size_t len = 0;
    const char *found;

    if (!room(memcached, 64, error))
        return -1;
    snprintf(wanted, sizeof(wanted), "stats %.32s\r\n", section ? section : "");
    put(memcached, wanted, strlen(wanted));
    if (!flush(memcached, error))
        return -1;
    while (len < 5 || memcmp(text + len - 5, "END\r\n", 5) != 0) {
        ssize_t n = recv(memcached->fd, text + len, sizeof(text) - 1 - len, 0);
        if (n <= 0)
            return -1;
        len += (size_t)n;
    }
    text[len] = '\0';
    snprintf(wanted, sizeof(wanted), "STAT %s ", name);
    found = strstr(text, wanted);
    return found ? strtod(found + strlen(wanted), NULL) : -1;
}

/* ---- start and stop ------------------------------------------------------------------------- */

/* In the child: executes the server, which ends with the parent. */
static void exec_server(const struct memcached *memcached, const char *program,
                        uint64_t memory_bytes, uint32_t value_bytes_max)
{
    char memory[32], item[32];
    uint64_t item_kib = 1024;

    while (item_kib < (value_bytes_max + 1024) / 512)
        item_kib *= 2;
    if (item_kib > memory_bytes >> 11) /* memcached accepts at most half of -m */
        item_kib = memory_bytes >> 11;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    snprintf(memory, sizeof(memory), "%llu", (unsigned long long)(memory_bytes >> 20));
    snprintf(item, sizeof(item), "%lluk", (unsigned long long)item_kib);
    if (geteuid() == 0)
        execlp(program, program, "-s", memcached->address.sun_path, "-m", memory, "-t", "1", "-I",
               item, "-u", "root", (char *)NULL);
    else
        execlp(program, program, "-s", memcached->address.sun_path, "-m", memory, "-t", "1", "-I",
               item, (char *)NULL);
    _exit(127);
}

/* Connects once the server listens. */
static bool connect_to_server(struct memcached *memcached, const char *program, char *error)
{
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};

    for (unsigned waited = 0; waited < WAIT_MS; waited += STEP_MS) {
        if (connect(memcached->fd, (const struct sockaddr *)&memcached->address,
                    sizeof(memcached->address)) == 0)
            return true;
        if (waitpid(memcached->pid, NULL, WNOHANG) == memcached->pid) {
            memcached->pid = 0;
            snprintf(error, LOAD_ERROR_MAX, "%.80s could not be started (Debian: memcached)",
                     program);
            return false;
        }
        nanosleep(&step, NULL);
    }
    snprintf(error, LOAD_ERROR_MAX, "%.80s does not listen after %d s", program, WAIT_MS / 1000);
    return false;
}

struct memcached *memcached_start(const char *program, uint64_t memory_bytes,
                                  uint32_t value_bytes_max, char error[LOAD_ERROR_MAX])
{
    struct memcached *memcached = calloc(1, sizeof(*memcached));

    if (!memcached) {
        snprintf(error, LOAD_ERROR_MAX, "no memory");
        return NULL;
    }
    snprintf(memcached->folder, sizeof(memcached->folder), "/tmp/kvbench.XXXXXX");
    memcached->address.sun_family = AF_UNIX;
    memcached->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (memcached->fd < 0 || !mkdtemp(memcached->folder)) {
        snprintf(error, LOAD_ERROR_MAX, "no socket for memcached: %s", strerror(errno));
        free(memcached);
        return NULL;
    }
    snprintf(memcached->address.sun_path, sizeof(memcached->address.sun_path), "%s/socket",
             memcached->folder);
    memcached->pid = fork();
    if (memcached->pid == 0)
        exec_server(memcached, program, memory_bytes, value_bytes_max);
    if (memcached->pid < 0 || !connect_to_server(memcached, program, error)) {
        if (memcached->pid < 0)
            snprintf(error, LOAD_ERROR_MAX, "no process for memcached: %s", strerror(errno));
        memcached_stop(memcached);
        return NULL;
    }
    return memcached;
}

void memcached_stop(struct memcached *memcached)
{
    close(memcached->fd);
    if (memcached->pid > 0) {
        kill(memcached->pid, SIGTERM);
        waitpid(memcached->pid, NULL, 0);
    }
    unlink(memcached->address.sun_path);
    rmdir(memcached->folder);
    free(memcached);
}
