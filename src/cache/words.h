/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of stats and of the administrative commands, cut into words. */
#ifndef CACHE_WORDS_H
#define CACHE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "mcproto/mcproto.h"

#define CACHE_WORDS_MAX 6

struct cache_words {
    const uint8_t *at[CACHE_WORDS_MAX];
    u_u32 len[CACHE_WORDS_MAX];
    unsigned count;
};

/* All words but the noreply at their end. What comes after the last place is ignored. */
static inline struct cache_words cache_words_split(const struct mc_request *request)
{
    const uint8_t *at = request->args;
    const uint8_t *end = at + request->args_len;
    struct cache_words words = {.count = 0};

    while (words.count < CACHE_WORDS_MAX &&
           mc_token_next(&at, end, &words.at[words.count], &words.len[words.count]))
        words.count++;
    if (request->noreply && words.count > 0)
        words.count--;
    return words;
}

/* Whether there is such a word, and it is this text. */
static inline bool cache_word_is(const struct cache_words *words, unsigned i, const char *text)
{
    return i < words->count && mc_token_is(words->at[i], words->len[i], text);
}

#endif
