/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that interrupt the system calls of a test, one each 10 ms. */
#ifndef ALARMS_H
#define ALARMS_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#include <cmocka.h>

static struct sigaction before_alarms;

static inline void alarms_begin(void (*handler)(int number))
{
    const struct itimerval often = {{0, 10000}, {0, 10000}};
    struct sigaction action = {.sa_handler = handler};

    assert_int_equal(sigaction(SIGALRM, &action, &before_alarms), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static inline void alarms_end(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};

    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before_alarms, NULL), 0);
}

#endif
