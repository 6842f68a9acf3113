/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers of one cache, each with a link in memory and a client of its own, which take turns under
 * a clock that the test moves. Only the turns of the workers are counted (coherence.h).
 */
#ifndef SHARING_RIG_H
#define SHARING_RIG_H

#include <stdbool.h>
#include <stddef.h>

struct rig;

struct rig *rig_open(unsigned workers);
void rig_close(struct rig *rig);

/* Runs before each turn of a worker, as this worker. Null: nothing. */
void rig_before_turn(struct rig *rig, void (*run)(void *ctx, unsigned worker), void *ctx);

/* Moves the clock to the next second and lets the workers do what is due once a second. */
void rig_next_second(struct rig *rig);

/*
 * Each worker serves `count` requests, one in each turn, of which number i is written by
 * write_request(text, room, worker, i). All replies have to end with `ending`.
 */
typedef int rig_write_request(char *text, size_t room, unsigned worker, unsigned number);
void rig_serve(struct rig *rig, rig_write_request *write_request, unsigned count,
               const char *ending);

#endif
