/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asserts that say what broke and where before they end the process, for programs with threads:
 * cmocka's assertions work in the first thread only, and the engine's U_ASSERT traps without a
 * word. The engine's sources are compiled with this file included first.
 */
#ifndef LOUD_H
#define LOUD_H

/* Prints it, with what loud_note() was told last, and ends the process with 1. */
__attribute__((noreturn)) void loud_fail(const char *condition, const char *file, int line);

/* What is being done, for the message: a name, the seed and how to run it again. */
__attribute__((format(printf, 1, 2))) void loud_note(const char *format, ...);

#define U_ASSERT_FAIL(text) loud_fail(text, __FILE__, __LINE__)

/* What a test expects, in any thread. */
#define EXPECT(condition) ((condition) ? (void)0 : loud_fail(#condition, __FILE__, __LINE__))

#endif
