/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What memcached would make of an item: its size there, and the class of that size. The engine has
 * neither; limits, dumps and statistics are told in these terms because tools know them.
 */
#ifndef CACHE_SIZES_H
#define CACHE_SIZES_H

#include "cache/worker.h"
#include "mcproto/mcproto.h"

/* Classes are numbered from 1 to this one, which all larger items belong to. */
#define CACHE_CLASS_MAX 39

/* Bytes of an item, header included. value_len counts the CRLF. */
uint64_t cache_item_size(const struct cache *cache, uint32_t key_len, uint32_t flags,
                         uint64_t value_len);

/* The class of items of that size. */
unsigned cache_class_of(uint64_t item_size);

/* The size of the items of a class (1..CACHE_CLASS_MAX): none is larger. */
uint32_t cache_class_bytes(unsigned class_id);

/* What `me` tells of an item. */
struct mc_item_facts cache_item_facts(const struct cache_worker *worker,
                                      const struct kv_view *view);

#endif
