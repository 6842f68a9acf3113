/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One ucached on a link of 10 Gbit/s, and clients behind paths of 10 to 200 ms that lose 0 to 1 %
 * of the packets. Each client gets values of 32 KiB, one after another. For each path: round trip
 * (ms), loss (%), replies, latency p50 and p99 (ms), goodput of a client (Mbit/s), Jain's index of
 * the path's clients.
 *
 *     ns3-internet [--clients=5] [--seconds=10]      clients of each of the 15 paths
 */
#include <algorithm>
#include <cstdio>
#include <map>

#include "network.h"
#include "ucached-helper.h"

using namespace ns3;

static std::map<unsigned, std::vector<double>> g_latencies_ms;

static void
Answered(unsigned path, Time latency)
{
    g_latencies_ms[path].push_back(latency.GetMicroSeconds() / 1e3);
}

int
main(int argc, char** argv)
{
    static const unsigned rtts_ms[] = {10, 20, 50, 100, 200};
    static const double losses[] = {0, 0.001, 0.01};
    constexpr unsigned PATHS = 15;
    constexpr uint32_t VALUE_BYTES = 32768;
    unsigned clients = 5;
    double seconds = 10;
    CommandLine cmd;

    cmd.AddValue("clients", "of each path", clients);
    cmd.AddValue("seconds", "how long", seconds);
    cmd.Parse(argc, argv);
    topology::Star net(PATHS + 1);
    UstackHelper ustack;
    UcachedServerHelper helper;
    std::vector<ApplicationContainer> apps(PATHS);

    ustack.SetStream(1);
    ustack.Fit(clients, 256 << 10);
    for (unsigned path = 0; path < PATHS; path++)
    {
        net.Add("1Gbps", std::to_string(rtts_ms[path / 3] / 2.0) + "ms", 10000);
        net.InstallUstack(path, ustack);
        net.SetLoss(path, losses[path % 3]);
    }
    net.Add("10Gbps", "10us", 10000);
    helper.SetAttribute("Connections", UintegerValue(PATHS * clients));
    helper.SetAttribute("MemoryBytes", UintegerValue(2048ull << 20));
    Ptr<UcachedServer> server =
        helper.Install(net.hostDevices.Get(PATHS), net.HostAddress(PATHS), 24);
    server->AssignStreams(100);
    server->SetGateway(net.RouterAddress(PATHS));
    MemcachedClientHelper client(InetSocketAddress(net.HostAddress(PATHS), 11211));
    client.SetAttribute("Keys", UintegerValue(1));
    client.SetAttribute("ValueBytes", UintegerValue(VALUE_BYTES));
    for (unsigned i = 0; i < PATHS * clients; i++)
    {
        unsigned path = i % PATHS;
        ApplicationContainer app = client.Install(net.hosts.Get(path));
        app.Start(Seconds(1) + MilliSeconds(i % 997));
        app.Get(0)->TraceConnectWithoutContext("Latency", MakeBoundCallback(&Answered, path));
        client.AssignStreams(app, 1000 + i);
        apps[path].Add(app);
    }
    Simulator::Stop(Seconds(1 + seconds));
    Simulator::Run();
    for (unsigned path = 0; path < PATHS; path++)
    {
        std::vector<double>& ms = g_latencies_ms[path];
        std::vector<double> shares;
        double sum = 0;

        std::sort(ms.begin(), ms.end());
        for (auto app = apps[path].Begin(); app != apps[path].End(); ++app)
        {
            shares.push_back(DynamicCast<MemcachedClient>(*app)->GetBytes() * 8 / seconds / 1e6);
            sum += shares.back();
        }
        std::printf("%u %.1f %zu %.1f %.1f %.3f %.3f\n", rtts_ms[path / 3], losses[path % 3] * 100,
                    ms.size(), ms[ms.size() / 2], ms[ms.size() * 99 / 100], sum / clients,
                    topology::Jain(shares));
    }
    std::printf("# server: %u timeouts, %u retransmissions\n",
                (unsigned)server->GetCounter("tcp_timeouts"),
                (unsigned)server->GetCounter("tcp_retransmits"));
    Simulator::Destroy();
    return 0;
}
