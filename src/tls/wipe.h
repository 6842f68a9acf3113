/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zeroes what OpenSSL frees: the object of a connection holds the secrets of its records, and
 * OpenSSL 3 leaves them in memory when it frees the object.
 */
#ifndef TLS_WIPE_H
#define TLS_WIPE_H

/*
 * For the whole process; any thread, before its first call of OpenSSL. Without effect if something
 * else in the process has used OpenSSL before.
 */
void tls_wipe_begin(void);

#endif
