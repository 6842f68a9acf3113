/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of a handover; see handover.h. */
#include "net/handover.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define RECORD_ALIGN 8
#define MAC_BYTES 6

U_STATIC_ASSERT(sizeof(struct net_handover_record) % RECORD_ALIGN == 0, records_stay_aligned);

/* Zeroed, as it may have held secrets. */
static void wipe_and_free(void *array, size_t bytes)
{
    if (array)
        explicit_bzero(array, bytes);
    free(array);
}

/* Makes room for `more` objects behind `count` ones. False: no memory, or the bound is reached. */
static bool grow(void **array, size_t *capacity, size_t count, size_t more, size_t bytes_each,
                 size_t max)
{
    size_t wanted = *capacity > 0 ? *capacity : 4096;
    void *grown;

    if (more <= *capacity - count)
        return true;
    if (more > max - count)
        return false;
    while (wanted - count < more)
        wanted *= 2;
    grown = malloc(wanted * bytes_each); /* realloc() would leave a copy behind */
    if (!grown)
        return false;
    if (count > 0)
        memcpy(grown, *array, count * bytes_each);
    wipe_and_free(*array, count * bytes_each);
    *array = grown;
    *capacity = wanted;
    return true;
}

void net_handover_add(struct net_handover *handover, const void *bytes, size_t len)
{
    void *array = handover->bytes;

    if (len == 0)
        return;
    if (!grow(&array, &handover->capacity, handover->len, len, 1, NET_HANDOVER_BYTES_MAX)) {
        handover->failed = true;
        return;
    }
    handover->bytes = array;
    memcpy(handover->bytes + handover->len, bytes, len);
    handover->len += len;
}

uint32_t net_handover_add_fd(struct net_handover *handover, int fd)
{
    void *array = handover->fds;

    if (!grow(&array, &handover->fd_capacity, handover->fd_count, 1, sizeof(int),
              NET_HANDOVER_FDS_MAX)) {
        handover->failed = true;
        return 0;
    }
    handover->fds = array;
    handover->fds[handover->fd_count] = fd;
    return (uint32_t)handover->fd_count++;
}

/* Without what pads it. */
static uint64_t used_bytes(const struct net_handover_record *record)
{
    return sizeof(*record) + (uint64_t)record->input_bytes + record->queued_bytes +
           record->tls_bytes;
}

static uint64_t record_bytes(const struct net_handover_record *record)
{
    return (used_bytes(record) + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
}

void net_handover_begin(struct net_handover *handover, const struct net_handover_record *record)
{
    struct net_handover_record sized = *record;

    sized.bytes = (uint32_t)record_bytes(record);
    net_handover_add(handover, &sized, sizeof(sized));
}

void net_handover_end(struct net_handover *handover, const struct net_handover_record *record)
{
    static const uint8_t zeros[RECORD_ALIGN];

    net_handover_add(handover, zeros, record_bytes(record) - used_bytes(record));
}

static bool is_connection(const struct net_handover_record *record)
{
    return record->kind == NET_HANDOVER_SOCKET || record->kind == NET_HANDOVER_STACK;
}

static bool record_is_valid(const struct net_handover *handover, size_t at)
{
    const struct net_handover_record *record;

    if (handover->len - at < sizeof(*record))
        return false;
    record = (const void *)(handover->bytes + at);
    if (record->kind < NET_HANDOVER_LISTENER || record->kind > NET_HANDOVER_MAC ||
        record->transport > NET_ENDPOINT_UNIX || record->binding > CACHE_BINDING_BINARY ||
        record->tls > CACHE_TLS_CERT || record->bytes != record_bytes(record) ||
        record->bytes > handover->len - at)
        return false;
    if (record->tls_bytes > 0 && (record->tls == CACHE_TLS_OFF || !is_connection(record)))
        return false;
    if (record->kind == NET_HANDOVER_STACK)
        return record->queued_bytes ==
               (uint64_t)record->state.queued_bytes + record->state.unread_bytes;
    if (record->kind >= NET_HANDOVER_DEVICE && record->input_bytes != MAC_BYTES)
        return false;
    return record->queued_bytes == 0 &&
           (record->kind == NET_HANDOVER_MAC || record->fd < handover->fd_count);
}

bool net_handover_is_valid(const struct net_handover *handover)
{
    size_t at = 0;

    while (at < handover->len) {
        if (!record_is_valid(handover, at))
            return false;
        (void)net_handover_next(handover, &at);
    }
    return !handover->failed;
}

const char *net_handover_tls_obstacle(const struct net_handover *handover, bool has_tls)
{
    const struct net_handover_record *record;
    size_t at = 0;

    while ((record = net_handover_next(handover, &at)) != NULL) {
        if (record->tls != CACHE_TLS_OFF && !has_tls)
            return "the running server has TLS: add -Z";
        if (record->kind == NET_HANDOVER_STACK && record->tls_bytes == 0 && has_tls)
            return "the running server has connections without TLS: leave out -Z";
    }
    return NULL;
}

const struct net_handover_record *net_handover_next(const struct net_handover *handover, size_t *at)
{
    const struct net_handover_record *record;

    if (*at >= handover->len)
        return NULL;
    record = (const void *)(handover->bytes + *at);
    *at += record->bytes;
    return record;
}

const struct net_handover_record *net_handover_find(const struct net_handover *handover,
                                                    enum net_handover_kind kind)
{
    const struct net_handover_record *record;
    size_t at = 0;

    while ((record = net_handover_next(handover, &at)) != NULL && record->kind != kind)
        continue;
    return record;
}

void net_handover_wipe_tls(struct net_handover *handover, const struct net_handover_record *record)
{
    const uint8_t *tls = net_handover_tls(record);

    explicit_bzero(handover->bytes + (tls - handover->bytes), record->tls_bytes);
}

int net_handover_take_fd(struct net_handover *handover, uint32_t index)
{
    int fd = handover->fds[index];

    handover->fds[index] = -1;
    return fd;
}

void net_handover_free(struct net_handover *handover, bool owns_fds)
{
    size_t i;

    for (i = 0; owns_fds && i < handover->fd_count; i++) {
        if (handover->fds[i] >= 0)
            close(handover->fds[i]);
    }
    free(handover->fds);
    wipe_and_free(handover->bytes, handover->len);
    memset(handover, 0, sizeof(*handover));
}
