/* SPDX-License-Identifier: BSD-3-Clause */
/* Users, rights, servers and certificates; see reload.h. */
#include "reload.h"

#include "net/log.h"

static int read_users(struct cache *cache)
{
    const char *path = cache_auth_file(cache);
    const char *error;

    if (cache_auth_load(cache, &error) == 0)
        return 0;
    net_log_error("ucached: %s: %s", error, path);
    return -1;
}

static int read_rights(struct cache *cache)
{
    char error[CACHE_ERROR_MAX];

    if (cache_acl_load(cache, error) == 0)
        return 0;
    net_log_error("ucached: -o acl_file: %s", error);
    return -1;
}

static int read_pool(struct cache *cache)
{
    char error[CACHE_ERROR_MAX];

    if (cache_cluster_load(cache, error) == 0)
        return 0;
    net_log("ucached: -o cluster_file: %s: %s", cache_cluster_file(cache), error);
    return -1;
}

int reload_first(struct cache *cache)
{
    if (cache_acl_file(cache) && read_rights(cache) < 0)
        return -1;
    if (cache_cluster_file(cache) && read_pool(cache) < 0)
        return -1;
    return cache_auth_file(cache) ? read_users(cache) : 0;
}

bool reload_has_files(const struct cache *cache, bool has_tls)
{
    return cache_auth_file(cache) || cache_acl_file(cache) || cache_cluster_file(cache) || has_tls;
}

void reload_all(struct cache *cache, bool has_tls, uint64_t now_us)
{
    const char *users = cache_auth_file(cache);
    const char *rights = cache_acl_file(cache);
    const char *pool = cache_cluster_file(cache);
    char error[CACHE_ERROR_MAX];

    if (!reload_has_files(cache, has_tls))
        net_log("ucached: SIGHUP: nothing to read again: no -Y, -S, -Z, -o acl_file, cluster_file");
    if (users && read_users(cache) == 0)
        net_log("ucached: SIGHUP: users read from %s", users);
    if (rights && read_rights(cache) == 0)
        net_log("ucached: SIGHUP: rights read from %s", rights);
    if (pool && read_pool(cache) == 0)
        net_log("ucached: SIGHUP: servers read from %s", pool);
    if (has_tls && cache_refresh_certs(cache, now_us, error) < 0)
        net_log_error("ucached: certificates: %s", error);
    else if (has_tls)
        net_log("ucached: SIGHUP: certificates read");
}
