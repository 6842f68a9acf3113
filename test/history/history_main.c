/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks histories that another program has recorded. Each line of the standard input is one
 * operation:
 *
 *   KEY ACTION VALUE DELTA EXPECTED EXPTIME RESULT SEEN CAS SEEN_EXPTIME FROM TO
 *
 * ACTION and RESULT are numbers of history.h, VALUE and SEEN are "-" where there is none. The
 * operations of a key stand together. Prints each key whose history is wrong, and how many were
 * right; ends with 0 if all were.
 */
#include <stdio.h>
#include <string.h>

#include "history.h"

#define OPS_MAX 20000
#define TEXT_BYTES (HISTORY_VALUE_MAX + 1)

static struct history_op ops[OPS_MAX];

static bool read_op(struct history_op *op, char key[TEXT_BYTES])
{
    char value[TEXT_BYTES], seen[TEXT_BYTES];
    unsigned action, result;
    unsigned long delta, expected, cas, from, to;
    int count = scanf("%63s %u %63s %lu %lu %u %u %63s %lu %u %lu %lu", key, &action, value, &delta,
                      &expected, &op->exptime, &result, seen, &cas, &op->seen_exptime, &from, &to);
    if (count != 12)
        return false;
    op->action = (enum history_action)action;
    op->result = (enum history_result)result;
    op->value = history_text(strcmp(value, "-") == 0 ? "" : value);
    op->seen = history_text(strcmp(seen, "-") == 0 ? "" : seen);
    op->delta = delta;
    op->expected = expected;
    op->cas = cas;
    op->from = from;
    op->to = to;
    return true;
}

static bool check(const char *key, unsigned count)
{
    enum history_verdict verdict = history_check(ops, count);
    if (verdict != HISTORY_LINEARIZABLE)
        printf("%s: %s\n", key, verdict == HISTORY_WRONG ? "not linearizable" : "not checked");
    return verdict == HISTORY_LINEARIZABLE;
}

int main(void)
{
    char key[TEXT_BYTES] = "", next[TEXT_BYTES];
    struct history_op op;
    unsigned count = 0, keys = 0, wrong = 0;
    for (;;) {
        memset(&op, 0, sizeof(op));
        bool more = read_op(&op, next);
        if (count > 0 && (!more || strcmp(key, next) != 0)) {
            wrong += !check(key, count);
            keys++;
            count = 0;
        }
        if (!more)
            break;
        if (count == OPS_MAX) {
            printf("%s: more than %d operations\n", next, OPS_MAX);
            return 1;
        }
        memcpy(key, next, sizeof(key));
        ops[count++] = op;
    }
    printf("%u keys, %u wrong\n", keys, wrong);
    return wrong != 0 || keys == 0;
}
