/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes of software flow steering over one queue of a loopback link, and frames for them. */
#ifndef STEER_RIG_H
#define STEER_RIG_H

#include "base/base.h"
#include "nic/rss.h"
#include "nic/steer.h"
#include "nic_testing.h"

#define FRAME_LEN 60
#define LANES_MAX 4

struct fixture {
    struct nic *peer;
    struct nic *lane[LANES_MAX];
    unsigned lanes;
};

/* One queue, used by lane 0. */
static inline void open_fixture(struct fixture *f, unsigned lanes, unsigned queue_frames)
{
    struct nic_loopback_config config = {.queue_frames = queue_frames};
    char error[NIC_ERROR_MAX];
    struct nic *ends[2];

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    f->peer = ends[0];
    f->lanes = lanes;
    assert_int_equal(nic_steer_open(&ends[1], 1, lanes, f->lane, error), 0);
}

static inline void close_fixture(struct fixture *f)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned i, n;

    for (i = 0; i < f->lanes; i++)
        nic_close(f->lane[i]);
    while ((n = nic_rx_burst(f->peer, pkts, NIC_BURST_MAX)) > 0)
        nic_release(f->peer, pkts, n);
    assert_int_equal(stat_of(f->peer, "loop_pool_in_use"), 0); /* all packets are back */
    nic_close(f->peer);
}

/* A TCP segment of 10.0.0.1:port to 10.0.0.2:11211; port 0: an ARP request. */
static inline void fill(struct us_pkt *pkt, uint16_t port)
{
    static const uint8_t ip[20] = {0x45, 0, 0,  46, 0, 0, 0,  0, 64, 6,
                                   0,    0, 10, 0,  0, 1, 10, 0, 0,  2};

    memset(pkt->data, 0, FRAME_LEN);
    pkt->len = FRAME_LEN;
    pkt->data[12] = 8;
    pkt->data[13] = port == 0 ? 6 : 0;
    if (port == 0)
        return;
    memcpy(pkt->data + 14, ip, sizeof(ip));
    pkt->data[34] = (uint8_t)(port >> 8);
    pkt->data[35] = (uint8_t)port;
    pkt->data[36] = 11211 >> 8;
    pkt->data[37] = (uint8_t)(11211 & 255);
}

static inline unsigned lane_of_port(uint16_t port, unsigned lanes)
{
    struct nic_rss_flow flow = {.has_ports = true,
                                .from = {.addr = {10, 0, 0, 1}, .port = port},
                                .to = {.addr = {10, 0, 0, 2}, .port = 11211}};

    return nic_rss_lane(nic_rss_hash(&flow), lanes);
}

static inline uint16_t port_of(const struct us_pkt *pkt)
{
    return (uint16_t)(pkt->data[34] << 8 | pkt->data[35]);
}

/* Sends one frame. Returns false if there is no packet, or the nic does not accept it. */
static inline bool send_port(struct nic *nic, uint16_t port)
{
    struct us_pkt *pkt;

    if (nic_alloc(nic, &pkt, 1) == 0)
        return false;
    fill(pkt, port);
    if (nic_tx_burst(nic, &pkt, 1) == 1)
        return true;
    nic_release(nic, &pkt, 1);
    return false;
}

static inline unsigned receive(struct nic *nic, struct us_pkt **pkts)
{
    return nic_rx_burst(nic, pkts, NIC_BURST_MAX);
}

#endif
