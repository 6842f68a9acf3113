/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two flows share a link with a queue of a bandwidth-delay product, but at least 100 packets:
 *
 *     ns3_fairness CASE FIRST_SEED LAST_SEED [MBIT_PER_S SECONDS]
 *
 * For each seed it prints what they get, Jain's index, and a hash of all frames that arrive, with
 * their times. It fails if an index is below the least one of the case. The seed chooses when the
 * second flow begins. CUBIC takes many of its periods, some seconds each, to share equally.
 */
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "network.h"
#include "trace-hash.h"
#include "transfer.h"

using namespace ns3;
using namespace topology;
using ns3test::TraceHash;
using ns3test::Transfer;

namespace
{

struct Case
{
    const char* name;
    Tcp second; // the other flow's; the first flow is libustack's
    const char* cc;
    unsigned rttMs;
    unsigned mbps;
    double seconds;
    double jainMin;
};

const Case g_cases[] = {
    {"newreno-1ms", Tcp::NS3, "Reno", 1, 100, 10, 0.99},
    {"newreno-50ms", Tcp::NS3, "Reno", 50, 20, 20, 0.99},
    {"cubic-1ms", Tcp::USTACK, "Cubic", 1, 20, 120, 0.98},
    {"cubic-50ms", Tcp::USTACK, "Cubic", 50, 20, 200, 0.98},
};

constexpr uint16_t PORT = 7777;
constexpr uint32_t QUEUE_MIN = 100; // packets
constexpr unsigned FRAME_BITS = 1500 * 8;
constexpr double START_S_MAX = 0.1; // of the second flow

void
Received(TraceHash* hash, Ptr<const Packet> packet)
{
    hash->Add(packet);
}

/*
 * The flows of host 0 and host 1 meet on the link to host 2; the second one starts at a random time
 * after the first. What counts is the second half of the time. With ns-3's TCP host 2 is ns-3's,
 * too, and acknowledges each segment: NewReno counts ACKs, not bytes.
 */
double
Share(const Case& one, unsigned seed, unsigned mbps, double seconds)
{
    /* A sender's link has most of the round trip, the shared one 0.2 ms. */
    std::string delay = std::to_string(one.rttMs * 500 - 100) + "us";
    uint32_t queue_packets = std::max(QUEUE_MIN, mbps * one.rttMs * 1000 / FRAME_BITS);

    RngSeedManager::SetRun(seed);
    Star net(3);
    UstackHelper ustack;
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    const Tcp tcp[3] = {Tcp::USTACK, one.second, one.second};
    std::unique_ptr<Transfer> flow[2];
    uint64_t before[2];
    uint64_t wrong = 0;
    std::vector<double> shares;
    TraceHash hash;

    ustack.Fit(16, 4 << 20);
    ustack.SetStream(50);
    ustack.Set("CongestionControl", StringValue(one.cc));
    net.Add("1Gbps", delay, 1000);
    net.Add("1Gbps", delay, 1000);
    net.Add(std::to_string(mbps) + "Mbps", "100us", queue_packets);
    for (unsigned i = 0; i < 3; i++)
    {
        if (tcp[i] == Tcp::NS3)
        {
            net.InstallNs3(i);
        }
        else
        {
            net.InstallUstack(i, ustack);
        }
    }
    net.hostDevices.Get(2)->TraceConnectWithoutContext("MacRx",
                                                       MakeBoundCallback(&Received, &hash));
    start->SetStream(10);
    for (unsigned i = 0; i < 2; i++)
    {
        Simulator::Schedule(Seconds(i == 0 ? 0 : start->GetValue(0, START_S_MAX)), [&, i] {
            flow[i] = std::make_unique<Transfer>(net.hosts.Get(i), FactoryOf(tcp[i]),
                                                 net.hosts.Get(2), FactoryOf(one.second),
                                                 Address(net.HostAddress(2)), PORT + i, 0);
        });
    }
    Simulator::Schedule(Seconds(seconds / 2), [&] {
        before[0] = flow[0]->Received();
        before[1] = flow[1]->Received();
    });
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    for (unsigned i = 0; i < 2; i++)
    {
        wrong += flow[i]->Wrong();
        shares.push_back((flow[i]->Received() - before[i]) * 8 / (seconds / 2) / 1e6);
    }
    double jain = Jain(shares);
    std::printf("%s, seed %u: %.3f and %.3f Mbit/s, Jain's index %.4f, frames %016" PRIx64 "%s\n",
                one.name, seed, shares[0], shares[1], jain, hash.Get(),
                wrong > 0 ? ", WRONG BYTES" : "");
    std::fflush(stdout);
    Simulator::Destroy();
    return wrong > 0 ? 0 : jain;
}

int
Usage()
{
    std::fprintf(stderr,
                 "usage: ns3_fairness CASE FIRST_SEED LAST_SEED [MBIT_PER_S SECONDS]\ncases:");
    for (const Case& one : g_cases)
    {
        std::fprintf(stderr, " %s", one.name);
    }
    std::fprintf(stderr, "\n");
    return 2;
}

const Case*
FindCase(const char* name)
{
    for (const Case& one : g_cases)
    {
        if (std::strcmp(one.name, name) == 0)
        {
            return &one;
        }
    }
    return nullptr;
}

} // namespace

int
main(int argc, char** argv)
{
    const Case* one = argc == 4 || argc == 6 ? FindCase(argv[1]) : nullptr;
    bool failed = false;

    if (!one)
    {
        return Usage();
    }
    unsigned last = std::strtoul(argv[3], nullptr, 10);
    unsigned mbps = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : one->mbps;
    double seconds = argc > 4 ? std::atof(argv[5]) : one->seconds;
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    for (unsigned seed = std::strtoul(argv[2], nullptr, 10); seed <= last; seed++)
    {
        failed = Share(*one, seed, mbps, seconds) < one->jainMin || failed;
    }
    return failed;
}
