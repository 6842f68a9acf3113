/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of the service manager; see activation.h. */
#include "activation.h"
#include "net/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FDS_START 3
#define FDS_MAX (ACTIVATION_SOCKETS_MAX + 8)

static int refuse(const char *why)
{
    net_log_error("ucached: LISTEN_FDS: %s", why);
    return -1;
}

/* How many descriptors are for this process. */
static long count_of(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");

    if (!pid || !count || strtol(pid, NULL, 10) != (long)getpid())
        return 0;
    return strtol(count, NULL, 10);
}

/* Whether the next of the names, separated by colons, is that of the memory; goes behind it. */
static int is_memory(const char **names)
{
    size_t len = strcspn(*names, ":");
    int equal = len == strlen(ACTIVATION_MEMORY) && memcmp(*names, ACTIVATION_MEMORY, len) == 0;

    *names += len + ((*names)[len] == ':');
    return equal;
}

int activation_open(struct activation *activation)
{
    const char *names = getenv("LISTEN_FDNAMES");
    long count = count_of();
    long i;

    memset(activation, 0, sizeof(*activation));
    activation->memory_fd = -1;
    if (count < 0 || count > FDS_MAX)
        return refuse("there are too many descriptors");
    if (!names)
        names = "";
    for (i = 0; i < count; i++) {
        int fd = FDS_START + (int)i;

        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return refuse("a descriptor is not open");
        if (is_memory(&names)) {
            /* Should there be several, the youngest counts. */
            if (activation->memory_fd >= 0)
                close(activation->memory_fd);
            activation->memory_fd = fd;
        } else if (activation->socket_count < ACTIVATION_SOCKETS_MAX) {
            activation->sockets[activation->socket_count++] = fd;
        } else {
            return refuse("there are too many sockets");
        }
    }
    return 0;
}

void activation_close(struct activation *activation)
{
    while (activation->socket_count > 0)
        close(activation->sockets[--activation->socket_count]);
    if (activation->memory_fd >= 0)
        close(activation->memory_fd);
    activation->memory_fd = -1;
}
