/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a session half: stack_conn.c once more, with another port and names of its
 * own. It is the same code, not a copy, and no branch tells the two apart while they run.
 */
#include <string.h>

#include "net/port_rings.h"

#define net_stack_events net_split_events
#define net_stack_unblock net_split_unblock
#define net_stack_eager net_split_eager
#define net_stack_seat net_split_seat
#define net_stack_idle net_split_idle
#define net_stack_conn_finish net_split_conn_finish
#define net_stack_conn_abort net_split_conn_abort

#include "net/stack_conn.c"
