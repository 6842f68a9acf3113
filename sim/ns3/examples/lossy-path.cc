/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One flow over a long path that loses packets: 100 Mbit/s, windows of 4 MB, of libustack and of
 * ns-3's TCP. Prints round trip (ms), loss (%), the TCP, and goodput (Mbit/s).
 *
 *     ns3-lossy-path [--seconds=10]
 */
#include <cstdio>

#include "network.h"

#include "ns3/applications-module.h"

using namespace ns3;

static double
Goodput(topology::Tcp tcp, const char* cc, unsigned rtt_ms, double loss, double seconds)
{
    bool ustack = tcp == topology::Tcp::USTACK;
    const char* factory = ustack ? "ns3::UstackSocketFactory" : "ns3::TcpSocketFactory";

    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::UstackSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::UstackStack::RecvWindowBytes", UintegerValue(4 << 20));
    Config::SetDefault("ns3::UstackStack::SendQueueBytes", UintegerValue(4 << 20));
    Config::SetDefault("ns3::UstackStack::CongestionControl",
                       StringValue(ustack ? cc : "Cubic"));
    if (!ustack)
    {
        Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                           TypeIdValue(TypeId::LookupByName(cc)));
    }
    topology::Pair net(tcp, tcp, false, false, "100Mbps", std::to_string(rtt_ms / 2.0) + "ms",
                       std::max(100u, rtt_ms * 9));
    net.SetLoss(1, loss);
    InetSocketAddress to(Ipv4Address::ConvertFrom(net.address[1]), 5000);
    BulkSendHelper bulk(factory, to);
    PacketSinkHelper sink(factory, InetSocketAddress(Ipv4Address::GetAny(), 5000));
    ApplicationContainer sinks = sink.Install(net.nodes.Get(1));
    bulk.Install(net.nodes.Get(0));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    double bits = 8.0 * DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx();
    Simulator::Destroy();
    return bits / seconds / 1e6;
}

int
main(int argc, char** argv)
{
    double seconds = 10;
    CommandLine cmd;

    cmd.AddValue("seconds", "of each transfer", seconds);
    cmd.Parse(argc, argv);
    for (unsigned rtt_ms : {1, 50, 200})
    {
        for (double loss : {0.0, 0.001, 0.01})
        {
            using topology::Tcp;
            const struct
            {
                const char* name;
                Tcp tcp;
                const char* cc;
            } kinds[] = {{"ustack-cubic", Tcp::USTACK, "Cubic"},
                         {"ustack-reno", Tcp::USTACK, "Reno"},
                         {"ns3-cubic", Tcp::NS3, "ns3::TcpCubic"},
                         {"ns3-newreno", Tcp::NS3, "ns3::TcpNewReno"}};
            for (const auto& kind : kinds)
            {
                std::printf("%u %.1f %s %.1f\n", rtt_ms, loss * 100, kind.name,
                            Goodput(kind.tcp, kind.cc, rtt_ms, loss, seconds));
                std::fflush(stdout);
            }
        }
    }
    return 0;
}
