/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the index alone, on items that were made beforehand: nothing is allocated or
 * accounted for. Kept as histories, as those of keys.h.
 */
#ifndef INDEX_OPS_H
#define INDEX_OPS_H

#include "il.h"
#include "keys.h"

/*
 * Items of A and B with the values 1 to 9, and one for each key that fills a chain. When setting
 * up.
 */
void index_items_make(void);

void index_insert(enum key key, unsigned digit);
void index_exchange(enum key key, unsigned digit);

/* The same, in the slot where a search has found the key. */
void index_exchange_at(enum key key, unsigned digit);

void index_unlink(enum key key);
void index_find(enum key key);

/* Looks at one slot, of that number in its chain, as a reader does that came to it long ago. */
void index_find_late(enum key key, kv_atomic_u64 *slot, unsigned number);

#endif
