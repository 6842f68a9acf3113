/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of back ends that could not be opened. */
#ifndef NIC_ERROR_H
#define NIC_ERROR_H

#include "nic/nic.h"

/* Writes a formatted message to error[], cut to NIC_ERROR_MAX - 1 characters. */
void nic_error_set(char error[NIC_ERROR_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
