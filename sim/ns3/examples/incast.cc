/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Incast: a client asks many ucached servers at once for 1 MiB in all, over one port of 10 Gbit/s
 * with a queue of 200 packets, marked from 65 on. Prints servers, congestion control, us until the
 * last answer (mean, highest), Gbit/s, packets marked and dropped, timeouts, retransmissions.
 *
 *     ns3-incast [--rounds=10]
 */
#include <cstdio>

#include "network.h"
#include "ucached-helper.h"

using namespace ns3;

struct Kind
{
    const char *name, *cc;
    bool mark;
};

constexpr uint32_t REPLY_BYTES = 1 << 20; // of all servers

static Time g_asked, g_sum, g_highest;
static unsigned g_answers;

static void
Ask(const std::vector<Ptr<MemcachedClient>>& clients)
{
    g_asked = Simulator::Now();
    for (const Ptr<MemcachedClient>& client : clients)
    {
        client->AskOnce();
    }
}

static void
Answered(unsigned servers, Time latency)
{
    if (++g_answers % servers == 0 && g_answers > servers)
    {
        g_sum += Simulator::Now() - g_asked;
        g_highest = Max(g_highest, Simulator::Now() - g_asked);
    }
}

static void
RunOnce(unsigned servers, const Kind& kind, unsigned rounds)
{
    topology::Star net(servers + 1);
    UstackHelper ustack;
    UcachedServerHelper helper;
    std::vector<Ptr<UcachedServer>> ucached;
    std::vector<Ptr<MemcachedClient>> clients;
    uint64_t timeouts = 0, retransmits = 0; // of all servers

    ustack.SetStream(1);
    ustack.Fit(servers, 1 << 20);
    ustack.Set("Ecn", StringValue(kind.mark ? "Request" : "Off"));
    for (unsigned i = 0; i <= servers; i++)
    {
        net.Add("10Gbps", "10us", i < servers ? 1000 : 4);
    }
    Ptr<QueueDisc> queue = net.SetQueue(servers, 200, kind.mark ? 65 : 0);
    net.InstallUstack(servers, ustack);
    for (unsigned i = 0; i < servers; i++)
    {
        ucached.push_back(helper.Install(net.hostDevices.Get(i), net.HostAddress(i), 24));
        ucached[i]->AssignStreams(100 + i);
        ucached[i]->SetGateway(net.RouterAddress(i));
        ucached[i]->SetStackAttribute("CongestionControl", StringValue(kind.cc));
        MemcachedClientHelper client(InetSocketAddress(net.HostAddress(i), 11211));
        client.SetAttribute("Keys", UintegerValue(1));
        client.SetAttribute("ByHand", BooleanValue(true));
        client.SetAttribute("ValueBytes", UintegerValue(REPLY_BYTES / servers));
        ApplicationContainer app = client.Install(net.hosts.Get(servers));
        app.Start(Seconds(1));
        app.Get(0)->TraceConnectWithoutContext("Latency", MakeBoundCallback(&Answered, servers));
        clients.push_back(DynamicCast<MemcachedClient>(app.Get(0)));
    }
    g_answers = 0;
    g_sum = g_highest = Time(0);
    for (unsigned round = 0; round <= rounds; round++) // the first one stores the values
    {
        Simulator::Schedule(Seconds(2 + round), &Ask, clients);
    }
    Simulator::Stop(Seconds(3 + rounds));
    Simulator::Run();
    for (const Ptr<UcachedServer>& server : ucached)
    {
        timeouts += server->GetCounter("tcp_timeouts");
        retransmits += server->GetCounter("tcp_retransmits");
    }
    double us = g_sum.GetMicroSeconds() / double(rounds);
    std::printf("%u %s %.0f %u %.2f %u %u %u %u\n", servers, kind.name, us,
                (unsigned)g_highest.GetMicroSeconds(), REPLY_BYTES * 8 / us / 1e3,
                queue->GetStats().nTotalMarkedPackets, queue->GetStats().nTotalDroppedPackets,
                (unsigned)timeouts, (unsigned)retransmits);
    Simulator::Destroy();
}

int
main(int argc, char** argv)
{
    unsigned rounds = 10;
    CommandLine cmd;

    cmd.AddValue("rounds", "requests to each server", rounds);
    cmd.Parse(argc, argv);
    for (unsigned servers : {8, 32, 100, 200})
    {
        for (const Kind& kind : {Kind{"cubic", "Cubic", false}, Kind{"cubic+ecn", "Cubic", true},
                                 Kind{"dctcp", "Dctcp", true}})
        {
            RunOnce(servers, kind, rounds);
        }
    }
    return 0;
}
