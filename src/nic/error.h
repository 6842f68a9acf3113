/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about back ends that cannot be opened. */
#ifndef NIC_ERROR_H
#define NIC_ERROR_H

#include "nic/nic.h"

/* Writes a formatted message to error[], truncated to NIC_ERROR_MAX - 1 characters. Returns -1. */
int nic_error_set(char error[NIC_ERROR_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
