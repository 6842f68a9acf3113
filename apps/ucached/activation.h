/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that a service manager passes to a process at its start, by the protocol of
 * sd_listen_fds(3): listening sockets (socket activation), and memory that it has held since the
 * previous process (its file descriptor store).
 */
#ifndef UCACHED_ACTIVATION_H
#define UCACHED_ACTIVATION_H

#define ACTIVATION_SOCKETS_MAX 32
#define ACTIVATION_MEMORY "ucached-memory" /* the memory's name; all others are sockets */

struct activation {
    int sockets[ACTIVATION_SOCKETS_MAX];
    unsigned socket_count;
    int memory_fd; /* -1: none */
};

/*
 * Takes the descriptors: the caller's from then on, or activation_close()'s. Returns 0, or -1 after
 * a message.
 */
int activation_open(struct activation *activation);

/* Closes those that are left in it. */
void activation_close(struct activation *activation);

#endif
