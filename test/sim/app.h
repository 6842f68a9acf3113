/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workload of the two hosts, and the oracle that checks it.
 *
 * A job is one connection with a plan: who opens, how many bytes go each way and when, how fast
 * each side reads, how it ends. All bytes follow from the job's number, the direction and the
 * offset, so each side knows the expected bytes. The oracle: every byte in order and exactly once,
 * the end of the stream only after the last byte, exactly one end of each connection and for the
 * right reason, every reference released exactly once, and all of it within a bounded time.
 */
#ifndef TEST_APP_H
#define TEST_APP_H

#include "sim.h"

#define APP_PORT 7777

enum job_kind {
    JOB_BULK,     /* both sides send all they have */
    JOB_RPC,      /* request and response in turn */
    JOB_HALF,     /* the server answers after the client's end of stream */
    JOB_TOGETHER, /* both sides connect: simultaneous open */
    JOB_KINDS
};

struct job_plan {
    enum job_kind kind;
    unsigned client;            /* which host opens: 0 or 1 */
    uint64_t bytes[2];          /* what host 0 and host 1 send */
    uint32_t request, response; /* JOB_RPC: sizes; bytes[] are multiples of them */
    unsigned chunk_max;         /* bytes of one us_send() */
    unsigned ref_chance, reserve_chance, keep_chance; /* millionths */
    unsigned resume_us_max;                           /* how long a slow reader waits */
    int abort_by;                                     /* host that aborts, or -1 */
    uint64_t abort_after;                             /* once it has received so many bytes */
    int close_late; /* the server closes only after the client's end of stream */
    int any_port;   /* the stack chooses the local port */
};

struct side {
    struct job *job;
    struct host *host;
    unsigned index;
    struct us_conn *conn;
    uint64_t queued, received;
    int established, closing, peer_closed, ended;
    int waiting;          /* a send was refused: no sends until SENDABLE */
    int wanting;          /* a send was refused or cut short: SENDABLE must follow */
    uint64_t short_input; /* number of the us_input() of that */
    int aborted;          /* us_abort() was called: only CLOSED may follow */
    int held;             /* bytes are kept and us_recv_resume() was not called */
    uint64_t held_input;  /* number of the us_input() of that */
    enum us_close_reason reason;
};

struct job {
    struct work *work;
    unsigned number;
    struct job_plan plan;
    struct side side[2];
    uint16_t port; /* the client's */
    unsigned attempts;
    int running, done;
    int aborted; /* as planned */
    int spoiled; /* the attempt failed or was aborted: the other side may end for any reason */
};

struct work {
    struct sim *sim;
    struct host host[2];
    struct link link[2];
    struct job *jobs;
    unsigned job_count, next_job, running, concurrent, finished;
    uint64_t refs_given, refs_released;
    uint64_t bytes_received;
    uint64_t dropped[2]; /* orphans of each host that were reset for others */
    int resets_allowed;  /* tiny TIME-WAIT table: a last FIN may meet a RST */
    uint64_t deadline_us;
    uint64_t finished_us;          /* when the last job was done */
    struct job *by_port[2][65536]; /* by the client's host and port */
};

/* Runs all jobs to their end and checks that no connection, reference or buffer is left. */
void work_run(struct work *work);

void work_free(struct work *work);

#endif
