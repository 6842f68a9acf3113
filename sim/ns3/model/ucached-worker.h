/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of ucached for a simulator: the cache and the loop of src/net on a device whose frames
 * the caller carries. C, because src/net is C11; ucached-server.cc is its C++ side.
 */
#ifndef NS3_UCACHED_WORKER_H
#define NS3_UCACHED_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "ustack/ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define UCACHED_WORKER_ERROR_MAX 512

struct ucached_worker;

/* What the device does for the worker. `ctx` is the caller's. */
struct ucached_device {
    void *ctx;
    uint32_t (*receive)(void *ctx, uint8_t *to, uint32_t room); /* bytes of a frame; 0: none */
    bool (*has_room)(void *ctx);                                /* whether send() takes a frame */
    void (*send)(void *ctx, const uint8_t *bytes, uint32_t len);
    uint8_t mac[6];
    uint32_t mtu;
    bool checksums; /* frames have checksums, and are to have them */
};

struct ucached_worker_config {
    struct us_config us; /* congestion control, ECN, times, point_to_point and the secret */
    struct us_addr addr, gateway;
    unsigned prefix_len;
    bool has_gateway;
    uint16_t port;
    uint32_t connections_max;
    uint64_t memory_bytes;
    uint32_t item_bytes_max;
};

/* Makes a cache and a worker at time now_us. Null: *error says why. */
struct ucached_worker *ucached_worker_open(const struct ucached_device *device,
                                           const struct ucached_worker_config *config,
                                           uint64_t now_us, char error[UCACHED_WORKER_ERROR_MAX]);

/*
 * Runs the loop until there is nothing left to do now. Returns the time of the next call, if no
 * frame comes and the device does not take frames again before.
 */
uint64_t ucached_worker_run(struct ucached_worker *worker, uint64_t now_us);

/* A counter of the stack by its name; UINT64_MAX if there is none. */
uint64_t ucached_worker_counter(const struct ucached_worker *worker, const char *name);

/* Resets all connections and frees everything. */
void ucached_worker_close(struct ucached_worker *worker, uint64_t now_us);

#ifdef __cplusplus
}
#endif

#endif
