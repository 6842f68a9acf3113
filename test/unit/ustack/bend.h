/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near misses: what header prediction expects, changed in one place, so that each of its predicates
 * has to say no once it matters.
 */
#ifndef TEST_USTACK_BEND_H
#define TEST_USTACK_BEND_H

#include "peer_frame.h"

/* Changes one thing in the frame, drawn: of TCP, of IP, or of what is around them. */
void bend(struct twins *t, struct frame *f);

#endif
