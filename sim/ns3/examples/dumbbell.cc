/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two flows of libustack with different congestion controls share a link of 100 Mbit/s and 20 ms.
 * Prints time, name and congestion window (segments) of both, and then what each of them got.
 *
 *     ns3-dumbbell [--first=Cubic] [--second=Reno] [--seconds=30]
 */
#include <cstdio>

#include "network.h"
#include "ustack-socket.h"

#include "ns3/applications-module.h"

using namespace ns3;

static std::string g_names[2] = {"Cubic", "Reno"};

static void
Window(unsigned flow, uint32_t before, uint32_t bytes)
{
    static Time last[2];

    if (Simulator::Now() - last[flow] >= MilliSeconds(100) || bytes < before)
    {
        last[flow] = Simulator::Now();
        std::printf("%.3f %s %u\n", last[flow].GetSeconds(), g_names[flow].c_str(), bytes / 1448);
    }
}

static void
Watch(Ptr<BulkSendApplication> app, unsigned flow)
{
    app->GetSocket()->TraceConnectWithoutContext("CongestionWindow",
                                                 MakeBoundCallback(&Window, flow));
}

int
main(int argc, char** argv)
{
    double seconds = 30;
    CommandLine cmd;

    cmd.AddValue("first", "Cubic, Reno or Dctcp", g_names[0]);
    cmd.AddValue("second", "likewise", g_names[1]);
    cmd.AddValue("seconds", "how long", seconds);
    cmd.Parse(argc, argv);

    topology::Star net(3);
    net.Add("1Gbps", "9ms", 1000);
    net.Add("1Gbps", "9ms", 1000);
    net.Add("100Mbps", "1ms", 170); // a round trip of packets

    UstackHelper ustack;
    ustack.SetStream(1);
    ustack.Fit(8, 4 << 20);
    net.InstallUstack(2, ustack);
    PacketSinkHelper sink("ns3::UstackSocketFactory",
                          InetSocketAddress(Ipv4Address::GetAny(), 5000));
    ApplicationContainer sinks;
    for (unsigned flow = 0; flow < 2; flow++)
    {
        uint16_t port = static_cast<uint16_t>(5000 + flow);
        ustack.Set("CongestionControl", StringValue(g_names[flow]));
        net.InstallUstack(flow, ustack);
        BulkSendHelper bulk("ns3::UstackSocketFactory",
                            InetSocketAddress(net.HostAddress(2), port));
        ApplicationContainer sender = bulk.Install(net.hosts.Get(flow));
        sender.Start(Seconds(flow));
        Simulator::Schedule(Seconds(flow + 0.001), &Watch,
                            DynamicCast<BulkSendApplication>(sender.Get(0)), flow);
        sink.SetAttribute("Local", AddressValue(InetSocketAddress(Ipv4Address::GetAny(), port)));
        sinks.Add(sink.Install(net.hosts.Get(2)));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    for (unsigned flow = 0; flow < 2; flow++)
    {
        double bits = 8.0 * DynamicCast<PacketSink>(sinks.Get(flow))->GetTotalRx();
        std::printf("# %s: %.1f Mbit/s\n", g_names[flow].c_str(), bits / seconds / 1e6);
    }
    Simulator::Destroy();
    return 0;
}
