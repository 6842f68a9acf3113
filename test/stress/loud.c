/* SPDX-License-Identifier: BSD-3-Clause */
/* Says what broke; loud.h says why. */
#include "loud.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static char note[200];

void loud_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof(note), format, args);
    va_end(args);
}

void loud_fail(const char *condition, const char *file, int line)
{
    fflush(stdout);
    fprintf(stderr, "%s:%d: failed: %s (%s)\n", file, line, condition, note);
    fflush(stderr);
    _exit(1);
}
