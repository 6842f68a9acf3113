/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells a service manager that the server is ready: sd_notify(3). */
#ifndef UCACHED_NOTIFY_H
#define UCACHED_NOTIFY_H

/*
 * Sends READY=1 to the unix socket that NOTIFY_SOCKET in the environment names: a path, or "@" and
 * an abstract name. Without the variable it does nothing. Returns 0, or -1 with errno: ENAMETOOLONG
 * for a name that does not fit, or the error of the socket. A server that could not tell still
 * serves.
 */
int notify_ready(void);

#endif
