/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of what a program does without memory; see balance.c. */
#ifndef BALANCE_H
#define BALANCE_H

/*
 * Lets the call of this number fail among the next allocations and mappings of the program itself:
 * 1 is the next one, 0 none. Returns how many calls were left to the failure set before: 0 if it
 * has happened, or none was set.
 */
unsigned balance_fail(unsigned number);

#endif
