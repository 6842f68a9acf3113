/* SPDX-License-Identifier: BSD-3-Clause */
/* Source lines of instructions, for reports. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "il.h"

/* Where the program was loaded to: a name that the linker defines. */
extern const char program_start[] __asm__("__executable_start");

void il_site_print(const void *site)
{
    char command[200], line[300], program[120];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return;
    program[length] = '\0';
    snprintf(command, sizeof(command), "addr2line -s -i -e %s %#lx 2>/dev/null", program,
             (unsigned long)((uintptr_t)site - (uintptr_t)program_start - 1));
    FILE *pipe = popen(command, "r");
    const char *separator = "";
    while (pipe && fgets(line, sizeof(line), pipe)) {
        line[strcspn(line, " \n")] = '\0';
        if (strncmp(line, "atomic.h", 8) != 0) {
            printf("%s%s", separator, line);
            separator = " < ";
        }
    }
    if (pipe)
        pclose(pipe);
}
