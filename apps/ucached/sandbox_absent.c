/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for builds without libseccomp: no system call filter. See sandbox.h. */
#include <errno.h>

#include "sandbox.h"

bool sandbox_is_built(void)
{
    return false;
}

bool sandbox_is_default(void)
{
    return false;
}

int sandbox_enter(const struct sandbox_use *use)
{
    return -ENOSYS;
}
