/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thousand clients on 20 hosts ask one ucached, each 200 times a second. Prints percentiles of
 * the latency, and what the server counted.
 *
 *     ns3-thousand-clients [--clients=1000] [--seconds=1]
 */
#include <algorithm>
#include <cstdio>
#include <vector>

#include "network.h"
#include "ucached-helper.h"

using namespace ns3;

static std::vector<double> g_latencies_us;

static void
Answered(Time latency)
{
    g_latencies_us.push_back(latency.GetNanoSeconds() / 1e3);
}

int
main(int argc, char** argv)
{
    constexpr unsigned HOSTS = 20;
    unsigned clients = 1000;
    double seconds = 1;
    CommandLine cmd;

    cmd.AddValue("clients", "in all", clients);
    cmd.AddValue("seconds", "how long", seconds);
    cmd.Parse(argc, argv);

    topology::Star net(HOSTS + 1);
    for (unsigned i = 0; i <= HOSTS; i++)
    {
        net.Add("10Gbps", "5us", 10000);
    }
    UstackHelper ustack;
    ustack.SetStream(1);
    ustack.Fit(clients / HOSTS + 1, 64 << 10);
    UcachedServerHelper helper;
    helper.SetAttribute("Connections", UintegerValue(clients));
    Ptr<UcachedServer> server =
        helper.Install(net.hostDevices.Get(HOSTS), net.HostAddress(HOSTS), 24);
    server->AssignStreams(100);
    server->SetGateway(net.RouterAddress(HOSTS));

    MemcachedClientHelper client(InetSocketAddress(net.HostAddress(HOSTS), 11211));
    client.SetAttribute("Interval", TimeValue(MilliSeconds(5)));
    client.SetAttribute("ValueBytes", UintegerValue(1000));
    ApplicationContainer apps;
    for (unsigned i = 0; i < HOSTS; i++)
    {
        net.InstallUstack(i, ustack);
    }
    for (unsigned i = 0; i < clients; i++)
    {
        ApplicationContainer app = client.Install(net.hosts.Get(i % HOSTS));
        app.Start(Seconds(1) + MicroSeconds(5 * i)); // spread over the interval
        apps.Add(app);
        app.Get(0)->TraceConnectWithoutContext("Latency", MakeCallback(&Answered));
    }
    client.AssignStreams(apps, 1000);
    Simulator::Stop(Seconds(1 + seconds));
    Simulator::Run();
    std::sort(g_latencies_us.begin(), g_latencies_us.end());
    std::size_t n = g_latencies_us.size();
    std::printf("clients %u, replies %zu, latency p50 %.1f us, p99 %.1f us, highest %.1f us\n",
                clients, n, g_latencies_us[n / 2], g_latencies_us[n * 99 / 100],
                g_latencies_us[n - 1]);
    std::printf("server: %u timeouts, %u retransmissions, %u connections\n",
                (unsigned)server->GetCounter("tcp_timeouts"),
                (unsigned)server->GetCounter("tcp_retransmits"),
                (unsigned)server->GetCounter("tcp_accepted"));
    Simulator::Destroy();
    return 0;
}
