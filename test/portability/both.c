/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that has copied both amalgamated libraries in: their headers fit together, they link
 * into one program, and each does something. Compiled as C89 and as C++98 by portability_test.py.
 */
#include "mcproto.h"
#include "ustack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parser_works(void)
{
    static const u_u8 line[] = "get key\r\n";
    struct mc_request request;

    return mc_parse(line, sizeof(line) - 1, &request) == MC_REQUEST &&
           request.command == MC_CMD_GET && request.key_len == 3;
}

static int stack_works(void)
{
    struct us_config config;
    struct us_stack *stack;
    struct us_event event;
    unsigned long bytes;
    void *memory;
    int works;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    config.conn_max = 16;
    bytes = us_memory_bytes(&config);
    memory = calloc(1, bytes);
    if (memory == NULL)
        return 0;
    stack = us_create(&config, memory, bytes, 0);
    works = stack != NULL && us_listen(stack, 11211, NULL) == 0 &&
            us_input(stack, NULL, 0, 1) == 0 && !us_next_event(stack, &event) &&
            us_check(stack) == NULL;
    free(memory);
    return works;
}

int main(void)
{
    if (!parser_works()) {
        puts("mcproto does not work");
        return 1;
    }
    if (!stack_works()) {
        puts("ustack does not work");
        return 1;
    }
    return 0;
}
