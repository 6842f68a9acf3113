/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about back ends that cannot be opened. */
#include "nic/error.h"

#include <stdarg.h>
#include <stdio.h>

int nic_error_set(char error[NIC_ERROR_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, NIC_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}
