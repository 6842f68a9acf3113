/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLANTED_H
#define PLANTED_H

/* For rig_before_turn(). `ctx` of the last one: 16 numbers. */
void planted_shared_counter(void *ctx, unsigned worker);
void planted_shared_line(void *ctx, unsigned worker);
void planted_shared_copy(void *ctx, unsigned worker);

#endif
