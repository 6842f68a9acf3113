/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near misses of header prediction: a predicted frame with one altered field, so that each
 * predicate of tcp_fast_in.c has to reject some frames.
 */
#ifndef USTACK_MUTATE_FRAME_H
#define USTACK_MUTATE_FRAME_H

#include "peer_frame.h"

/* Alters one field at random: of TCP, of IP, or of the frame around them. */
void mutate_frame(struct lockstep *t, struct frame *f);

#endif
