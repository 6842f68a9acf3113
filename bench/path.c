/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers at one end of a link in memory. */
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void path_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

struct us_addr path_address(uint8_t last)
{
    struct us_addr addr = {US_IP4, {10, 0, 0, last}};

    return addr;
}

struct cache *path_cache(unsigned workers, uint64_t now_us)
{
    struct cache_config config = {.start_us = now_us, .start_unix_s = 1700000000};
    struct cache *cache;
    const char *why;

    config.settings.memory_bytes = 64 << 20;
    config.settings.item_bytes_max = 1 << 20;
    config.settings.connections_max = PATH_CONNECTIONS * workers;
    config.settings.threads = workers;
    config.settings.evict = true;
    cache = cache_create(&config, &why);
    if (cache == NULL)
        path_die(why);
    return cache;
}

struct net_stack_worker *path_server(struct nic *end, struct cache *cache, struct tls_context *tls)
{
    struct net_stack_config config = {
        .port = PATH_PORT, .addr_count = 1, .conn_max = PATH_CONNECTIONS};
    struct net_stack_worker *server;
    char error[NET_ERROR_MAX];

    config.cache = cache;
    config.tls = tls;
    config.addrs[0].addr = path_address(1);
    config.addrs[0].prefix_len = 24;
    server = (struct net_stack_worker *)net_stack_worker_open(end, &config, error);
    if (server == NULL)
        path_die(error);
    if (net_stack_begin(server) != 0)
        path_die("the cache takes no worker");
    return server;
}

struct us_stack *path_client(const struct nic *end, uint64_t now_us)
{
    struct us_addr local = path_address(2);
    struct us_config config;
    struct us_stack *stack;
    void *memory;

    us_config_defaults(&config);
    memcpy(config.mac, end->mac, sizeof(config.mac));
    memset(config.secret, 2, sizeof(config.secret));
    config.conn_max = PATH_CONNECTIONS;
    config.half_open_max = PATH_CONNECTIONS;
    memory = calloc(1, us_memory_bytes(&config));
    stack = us_create(&config, memory, us_memory_bytes(&config), now_us);
    if (stack == NULL || us_addr_add(stack, &local, 24) != 0)
        path_die("the clients' stack does not start");
    return stack;
}
