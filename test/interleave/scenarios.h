/* SPDX-License-Identifier: BSD-3-Clause */
/* The explored scenarios. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "il.h"

extern const struct il_scenario index_scenarios[];
extern const unsigned index_scenario_count;

extern const struct il_scenario grow_scenarios[];
extern const unsigned grow_scenario_count;

extern const struct il_scenario flush_scenarios[];
extern const unsigned flush_scenario_count;

extern const struct il_scenario key_scenarios[];
extern const unsigned key_scenario_count;

extern const struct il_scenario grace_scenarios[];
extern const unsigned grace_scenario_count;

extern const struct il_scenario segment_scenarios[];
extern const unsigned segment_scenario_count;

#endif
