/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asserts that say what broke and where before they end the process, for programs with threads:
 * cmocka's assertions work in the first thread only, and the engine's U_ASSERT traps without a
 * word. The engine's sources are compiled with this file included first.
 */
#ifndef LOUD_H
#define LOUD_H

/* Prints the message and the last loud_note(), and exits with 1. */
__attribute__((noreturn)) void loud_fail(const char *condition, const char *file, int line);

/* The current test for messages: a name, the seed and the command to repeat it. */
__attribute__((format(printf, 1, 2))) void loud_note(const char *format, ...);

#define U_ASSERT_FAIL(text) loud_fail(text, __FILE__, __LINE__)

/* An expectation, in any thread. */
#define EXPECT(condition) ((condition) ? (void)0 : loud_fail(#condition, __FILE__, __LINE__))

#endif
