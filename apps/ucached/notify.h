/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to a service manager: the protocol of sd_notify(3), without a library. The socket stays
 * open, so a message needs no further privilege or system call than write(). Without a service
 * manager nothing is sent.
 */
#ifndef UCACHED_NOTIFY_H
#define UCACHED_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Connects to the unix socket that NOTIFY_SOCKET in the environment names: a path, or "@" and an
 * abstract name. Without the variable it does nothing. Returns 0, or -1 with errno: ENAMETOOLONG
 * for a name that does not fit, or the error of the socket.
 */
int notify_open(void);

/* Whether there is a service manager. */
bool notify_is_open(void);

/* These return 0, or -1 with errno of the socket. The server serves in any case. */
int notify_ready(void);
int notify_alive(void);
int notify_stopping(void);

/*
 * Asks the service manager to hold the open memory of this name for the next process, in place of
 * one of the same name; or to release it.
 */
int notify_store(const char *name, int memory_fd);
int notify_forget(const char *name);

/* The time within which notify_alive() is due, in microseconds; 0: never. */
uint64_t notify_watchdog_us(void);

#endif
