/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies of the examples and tests: two hosts, and hosts around a router. */
#ifndef NS3_USTACK_NETWORK_H
#define NS3_USTACK_NETWORK_H

#include <string>
#include <vector>

#include "ustack-helper.h"

#include "ns3/core-module.h"
#include "ns3/csma-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace topology
{

using namespace ns3;

/** Which TCP a host has. */
enum class Tcp { USTACK, NS3 };

/** The socket factory of this TCP. */
TypeId FactoryOf(Tcp tcp);

/** Two hosts on one link, in 10.1.1.0/24 and fd00:1::/64. */
struct Pair {
    NodeContainer nodes;
    NetDeviceContainer devices;
    Ptr<UstackStack> stack[2]; //!< null for ns-3's TCP
    Address address[2];        //!< Ipv4Address or Ipv6Address

    /** csma: with ARP and neighbour discovery; else point-to-point. */
    Pair(Tcp first, Tcp second, bool csma, bool ip6, const std::string &rate,
         const std::string &delay, uint32_t queuePackets = 1000);

    /** Loses a share of the packets that host `to` receives. */
    void SetLoss(unsigned to, double share);
};

/**
 * Hosts with a link each to one router of ns-3. Host i is 10.1.i.2/24, its router 10.1.i.1. The
 * caller installs the hosts' stacks.
 */
struct Star {
    Ptr<Node> router;
    NodeContainer hosts;
    NetDeviceContainer hostDevices;
    NetDeviceContainer routerDevices;

    explicit Star(unsigned count);

    /** Adds the link of the next host. */
    void Add(const std::string &rate, const std::string &delay, uint32_t routerQueuePackets);

    /** Queues packets to host i: at most so many, marked from markPackets on (0: never). */
    Ptr<QueueDisc> SetQueue(unsigned i, uint32_t packets, uint32_t markPackets);

    /** Loses a share of the packets to host i. */
    void SetLoss(unsigned i, double share);

    Ipv4Address HostAddress(unsigned i) const;
    Ipv4Address RouterAddress(unsigned i) const;

    /** ns-3's stack on host i; its TCP has this type. */
    void InstallNs3(unsigned i);

    /** libustack on host i. */
    Ptr<UstackStack> InstallUstack(unsigned i, UstackHelper &helper);
};

/** Jain's index of shares. */
double Jain(const std::vector<double> &shares);

} // namespace topology

#endif
