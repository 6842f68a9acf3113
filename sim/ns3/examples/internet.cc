/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One ucached on a link of 10 Gbit/s, and clients behind paths of 10 to 200 ms that lose 0 to 1 %
 * of the packets to them. Each client gets values of 32 KiB, one after another; what comes in the
 * first 5 s is not counted. For each path: round trip (ms), loss (%), replies, latency p50 and p99
 * (ms), goodput of a client (Mbit/s), Jain's index of the path's clients.
 *
 *     ns3-internet [--clients=5] [--seconds=30] [--RngRun=1]      clients of each of the 25 paths
 */
#include <algorithm>
#include <cstdio>

#include "network.h"
#include "ucached-helper.h"

using namespace ns3;

static const unsigned g_rtts_ms[] = {10, 20, 50, 100, 200};
static const double g_losses[] = {0, 0.001, 0.002, 0.005, 0.01};
constexpr unsigned LOSSES = 5;
constexpr unsigned PATHS = 5 * LOSSES;
constexpr uint32_t VALUE_BYTES = 32768;
constexpr double WARM_S = 5;

static std::vector<std::vector<double>> g_latencies_ms; // of each client

static void
Answered(unsigned client, Time latency)
{
    if (Simulator::Now() >= Seconds(WARM_S))
    {
        g_latencies_ms[client].push_back(latency.GetMicroSeconds() / 1e3);
    }
}

static void
PrintPath(unsigned path, unsigned clients, double seconds)
{
    std::vector<double> ms;
    std::vector<double> shares;
    double sum = 0;

    for (unsigned client = path; client < PATHS * clients; client += PATHS)
    {
        const std::vector<double>& own = g_latencies_ms[client];

        ms.insert(ms.end(), own.begin(), own.end());
        shares.push_back(own.size() * VALUE_BYTES * 8 / seconds / 1e6);
        sum += shares.back();
    }
    NS_ABORT_MSG_IF(ms.empty(), "no reply over a path: --seconds is too short");
    std::sort(ms.begin(), ms.end());
    std::printf("%u %.1f %zu %.1f %.1f %.3f %.3f\n", g_rtts_ms[path / LOSSES],
                g_losses[path % LOSSES] * 100, ms.size(), ms[ms.size() / 2],
                ms[ms.size() * 99 / 100], sum / clients, topology::Jain(shares));
}

int
main(int argc, char** argv)
{
    unsigned clients = 5;
    double seconds = 30;
    CommandLine cmd;

    cmd.AddValue("clients", "of each path", clients);
    cmd.AddValue("seconds", "that are counted", seconds);
    cmd.Parse(argc, argv);
    topology::Star net(PATHS + 1);
    UstackHelper ustack;
    UcachedServerHelper helper;

    ustack.SetStream(1);
    ustack.Fit(clients, 256 << 10);
    for (unsigned path = 0; path < PATHS; path++)
    {
        net.Add("1Gbps", std::to_string(g_rtts_ms[path / LOSSES] / 2.0) + "ms", 10000);
        net.InstallUstack(path, ustack);
        net.SetLoss(path, g_losses[path % LOSSES]);
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
    g_latencies_ms.resize(PATHS * clients);
    for (unsigned i = 0; i < PATHS * clients; i++)
    {
        ApplicationContainer app = client.Install(net.hosts.Get(i % PATHS));
        app.Start(MilliSeconds(i % 997));
        app.Get(0)->TraceConnectWithoutContext("Latency", MakeBoundCallback(&Answered, i));
        client.AssignStreams(app, 1000 + i);
    }
    Simulator::Stop(Seconds(WARM_S + seconds));
    Simulator::Run();
    for (unsigned path = 0; path < PATHS; path++)
    {
        PrintPath(path, clients, seconds);
    }
    std::printf("# server: %u timeouts, %u retransmissions\n",
                (unsigned)server->GetCounter("tcp_timeouts"),
                (unsigned)server->GetCounter("tcp_retransmits"));
    Simulator::Destroy();
    return 0;
}
