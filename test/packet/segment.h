/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames in packet scripts: injected by `<`, expected by `>`. README.md has the syntax. */
#ifndef TEST_SEGMENT_H
#define TEST_SEGMENT_H

#include "script.h"

/* Builds the frame that the rest of the line describes. */
struct rig_in segment_build(struct script *s);

/* Fails unless `out` is the frame that the rest of the line describes. */
void segment_expect(struct script *s, const struct rig_out *out);

/* The flow that a word like "@3" names, if it is the next word; else flow 1. */
struct rig_flow *segment_flow(struct script *s);

#endif
