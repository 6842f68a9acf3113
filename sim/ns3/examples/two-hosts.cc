/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A megabyte from one host to another, by ns-3's own applications over libustack. Needs nothing but
 * what is installed.
 *
 *     ns3-two-hosts
 */
#include <cinttypes>
#include <cstdio>

#include "ustack-helper.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

int
main()
{
    constexpr uint64_t BYTES = 1000000;
    NodeContainer nodes(2);
    PointToPointHelper link;
    UstackHelper ustack;

    NetDeviceContainer devices = link.Install(nodes);
    ustack.Set("CongestionControl", StringValue("Dctcp"));
    ustack.SetStream(1);
    ustack.Install(devices);
    ustack.Assign(Ipv4Address("10.0.0.0"), 24); // 10.0.0.1, 10.0.0.2
    BulkSendHelper bulk("ns3::UstackSocketFactory",
                        InetSocketAddress(Ipv4Address("10.0.0.2"), 5000));
    PacketSinkHelper sink("ns3::UstackSocketFactory",
                          InetSocketAddress(Ipv4Address::GetAny(), 5000));
    bulk.SetAttribute("MaxBytes", UintegerValue(BYTES));
    ApplicationContainer sinks = sink.Install(nodes.Get(1));
    bulk.Install(nodes.Get(0));
    Simulator::Stop(Seconds(1000));
    Simulator::Run();
    uint64_t received = DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx();
    std::printf("%" PRIu64 " of %" PRIu64 " bytes arrived\n", received, BYTES);
    Simulator::Destroy();
    return received != BYTES;
}
