/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a running server may ask of the system (-o drop_privileges): whoever takes it over by some
 * mistake of ours shall open no new socket and start no program.
 */
#ifndef UCACHED_SANDBOX_H
#define UCACHED_SANDBOX_H

/*
 * Applies to all threads of the process, for good: from now on socket(), fork(), execve() and
 * ptrace() fail with EACCES. To be called when everything is open and all threads run. Returns 0,
 * or -1 after a message.
 */
int sandbox_enter(void);

#endif
