/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of what a program does without memory; see balance.c. */
#ifndef BALANCE_H
#define BALANCE_H

/*
 * Of the next allocations and mappings the one of this number fails: 1 is the first; 0: none.
 * Returns what was left of the number before: 0 if that one has failed, or there was none. As in
 * balance.c, only calls of the program itself count.
 */
unsigned balance_fail(unsigned number);

#endif
