/* SPDX-License-Identifier: BSD-3-Clause */
/* Steers fragments to lanes; see frag_steer.h. */
#include "nic/frag_steer.h"

#include <string.h>

#include "base/base.h"

static bool is_of(const struct nic_frag_datagram *datagram, const struct nic_rss_flow *flow)
{
    const size_t addr_bytes = flow->is_ip6 ? 16 : 4;

    return datagram->used && datagram->flow.ident == flow->ident &&
           datagram->flow.is_ip6 == flow->is_ip6 &&
           memcmp(datagram->flow.from.addr, flow->from.addr, addr_bytes) == 0 &&
           memcmp(datagram->flow.to.addr, flow->to.addr, addr_bytes) == 0;
}

static struct nic_frag_datagram *find(struct nic_frag_steer *frags, const struct nic_rss_flow *flow)
{
    unsigned i;

    for (i = 0; i < NIC_FRAG_DATAGRAMS_MAX; i++) {
        if (is_of(&frags->datagrams[i], flow))
            return &frags->datagrams[i];
    }
    return NULL;
}

/* Reuses the oldest entry for a new datagram. */
static struct nic_frag_datagram *begin(struct nic_frag_steer *frags,
                                       const struct nic_rss_flow *flow,
                                       struct nic_frag_result *sorted)
{
    struct nic_frag_datagram *datagram = &frags->datagrams[frags->next];

    frags->next = (frags->next + 1) % NIC_FRAG_DATAGRAMS_MAX;
    sorted->dropped_count = datagram->waiting_count;
    memcpy(sorted->dropped, datagram->waiting,
           datagram->waiting_count * sizeof(sorted->dropped[0]));
    datagram->used = true;
    datagram->lane_known = false;
    datagram->flow = *flow;
    datagram->waiting_count = 0;
    return datagram;
}

void nic_frag_steer_add(struct nic_frag_steer *frags, const struct nic_rss_flow *flow,
                        struct us_pkt *pkt, unsigned lanes, struct nic_frag_result *sorted)
{
    struct nic_frag_datagram *datagram = find(frags, flow);

    sorted->ready_count = 0;
    sorted->dropped_count = 0;
    if (!datagram)
        datagram = begin(frags, flow, sorted);
    if (flow->is_first) {
        datagram->lane_known = true;
        datagram->lane = nic_rss_lane(nic_rss_hash(flow), lanes);
    }
    sorted->lane = datagram->lane;
    if (datagram->lane_known) {
        sorted->ready_count = datagram->waiting_count;
        memcpy(sorted->ready, datagram->waiting, datagram->waiting_count * sizeof(struct us_pkt *));
        datagram->waiting_count = 0;
        sorted->ready[sorted->ready_count++] = pkt;
    } else if (datagram->waiting_count < NIC_FRAG_WAITING_MAX) {
        datagram->waiting[datagram->waiting_count++] = pkt;
    } else {
        sorted->dropped[sorted->dropped_count++] = pkt;
    }
}

struct us_pkt *nic_frag_steer_pop(struct nic_frag_steer *frags)
{
    unsigned i;

    for (i = 0; i < NIC_FRAG_DATAGRAMS_MAX; i++) {
        struct nic_frag_datagram *datagram = &frags->datagrams[i];

        if (datagram->waiting_count > 0)
            return datagram->waiting[--datagram->waiting_count];
    }
    return NULL;
}
