/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading and attaching the XDP program; see xdp_filter.h. The program is compiled together with
 * ucached and embedded (xdp_program.h). A BPF link descriptor keeps it attached, so it is detached
 * when the process ends.
 */
#include "nic/xdp_filter.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <string.h>
#include <unistd.h>

#include "nic/error.h"
#include "nic/xdp_program.h"

/* ---- loading ----------------------------------------------------------------------------- */

static int load_failed(int code, char error[NIC_ERROR_MAX])
{
    if (code == EPERM || code == EACCES)
        return nic_error_set(error,
                             "xdp: loading the XDP program needs root, or CAP_BPF, CAP_PERFMON, "
                             "CAP_NET_ADMIN and CAP_NET_RAW");
    if (code == ENOSYS)
        return nic_error_set(error, "xdp: this kernel has no BPF (CONFIG_BPF_SYSCALL)");
    return nic_error_set(error,
                         "xdp: cannot load the XDP program: %s; it needs Linux 5.10 or later",
                         strerror(code));
}

int nic_xdp_filter_load(struct nic_xdp_filter *filter, char error[NIC_ERROR_MAX])
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "ucached");
    const struct bpf_program *program;
    int rc;

    memset(filter, 0, sizeof(*filter));
    filter->link_fd = -1;
    libbpf_set_print(NULL);
    filter->object = bpf_object__open_mem(xdp_program, sizeof(xdp_program), &opts);
    if (filter->object == NULL)
        return load_failed(errno, error);
    rc = bpf_object__load(filter->object);
    if (rc < 0)
        return load_failed(-rc, error);
    program = bpf_object__find_program_by_name(filter->object, "ucached_filter");
    filter->program_fd = bpf_program__fd(program);
    filter->rules_fd = bpf_object__find_map_fd_by_name(filter->object, "rules");
    filter->sockets_fd = bpf_object__find_map_fd_by_name(filter->object, "sockets");
    if (filter->program_fd < 0 || filter->rules_fd < 0 || filter->sockets_fd < 0)
        return load_failed(EINVAL, error);
    return 0;
}

void nic_xdp_filter_close(struct nic_xdp_filter *filter)
{
    if (filter->link_fd >= 0)
        close(filter->link_fd);
    bpf_object__close(filter->object);
    filter->link_fd = -1;
    filter->object = NULL;
}

/* ---- addresses --------------------------------------------------------------------------- */

static void make_key(const struct nic_xdp_addr *addr, struct nic_xdp_key *key)
{
    memset(key, 0, sizeof(*key));
    if (addr->is_ip6) {
        memcpy(key->bytes, addr->bytes, 16);
        return;
    }
    key->bytes[10] = 0xff;
    key->bytes[11] = 0xff;
    memcpy(key->bytes + 12, addr->bytes, 4);
}

int nic_xdp_filter_allow(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX])
{
    struct nic_xdp_rule rule = {.whole = !config->host_addrs,
                                .tcp_port = htons(config->tcp_port),
                                .udp_port = htons(config->udp_port)};
    struct nic_xdp_key key;
    unsigned i;

    for (i = 0; i < config->addr_count; i++) {
        make_key(&config->addrs[i], &key);
        if (bpf_map_update_elem(filter->rules_fd, &key, &rule, BPF_ANY) < 0)
            return nic_error_set(error, "xdp %s: cannot add an address to the XDP program: %s",
                                 config->dev, strerror(errno));
    }
    return 0;
}

/* ---- attaching --------------------------------------------------------------------------- */

/* Returns 0 or a positive errno value. */
static int attach(struct nic_xdp_filter *filter, int ifindex, unsigned flags)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);
    int fd = bpf_link_create(filter->program_fd, ifindex, BPF_XDP, &opts);

    if (fd < 0)
        return -fd;
    filter->link_fd = fd;
    filter->generic = (flags & XDP_FLAGS_SKB_MODE) != 0;
    return 0;
}

int nic_xdp_filter_attach(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                          int ifindex, char error[NIC_ERROR_MAX])
{
    int code = EOPNOTSUPP;

    if (config->mode != NIC_XDP_MODE_GENERIC)
        code = attach(filter, ifindex, XDP_FLAGS_DRV_MODE);
    if (code != 0 && code != EBUSY && code != EEXIST && code != EPERM &&
        config->mode != NIC_XDP_MODE_NATIVE)
        code = attach(filter, ifindex, XDP_FLAGS_SKB_MODE);
    if (code == 0)
        return 0;
    if (code == EBUSY || code == EEXIST)
        return nic_error_set(
            error,
            "xdp %s: another XDP program is attached (is another ucached running there? "
            "ip link show dev %s); remove it: ip link set dev %s xdp off",
            config->dev, config->dev, config->dev);
    if (code == EPERM)
        return nic_error_set(error, "xdp %s: attaching the XDP program needs root or CAP_NET_ADMIN",
                             config->dev);
    if (config->mode == NIC_XDP_MODE_NATIVE)
        return nic_error_set(
            error,
            "xdp %s: the driver takes no XDP program (%s): use the generic mode, or lower "
            "the MTU if it is above 1500",
            config->dev, strerror(code));
    return nic_error_set(error, "xdp %s: cannot attach the XDP program: %s", config->dev,
                         strerror(code));
}
