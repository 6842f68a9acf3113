/* SPDX-License-Identifier: BSD-3-Clause */
/* Included before each source that is tracked: a broken invariant of the engine is a finding. */
#ifndef IL_TRACKED_H
#define IL_TRACKED_H

void il_assert_failed(const char *condition);

#define U_ASSERT_FAIL(text) il_assert_failed(text)

#endif
