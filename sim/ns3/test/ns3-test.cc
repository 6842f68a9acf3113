/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of libustack and ucached in ns-3: ns3_test CASE. Each case is a simulation of its own.
 */
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/resource.h>

#include "network.h"
#include "trace-hash.h"
#include "transfer.h"
#include "ucached-helper.h"
#include "ustack-socket.h"

#include "ns3/applications-module.h"

namespace ns3test
{

using namespace topology;

namespace
{

int g_failures = 0;

#define CHECK(condition)                                                                           \
    do                                                                                             \
    {                                                                                              \
        if (!(condition))                                                                          \
        {                                                                                          \
            std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                    \
            g_failures++;                                                                          \
        }                                                                                          \
    } while (0)

constexpr uint16_t PORT = 7777;
constexpr uint64_t MB = 1000000;

void
CheckStack(Ptr<UstackStack> stack)
{
    if (stack && stack->Check())
    {
        std::printf("us_check: %s\n", stack->Check());
        g_failures++;
    }
}

/* ---- transfers ---- */

/* Bytes both ways over a link; all must arrive, whichever TCP the ends have. */
void
RunTransfer(Tcp first, Tcp second, bool csma, bool ip6, double loss, uint64_t bytes)
{
    Pair net(first, second, csma, ip6, "100Mbps", csma ? "1us" : "1ms");

    if (loss > 0)
    {
        net.SetLoss(0, loss);
        net.SetLoss(1, loss);
    }
    /* After duplicate address detection. */
    std::unique_ptr<Transfer> transfer;
    Simulator::Schedule(Seconds(3), [&] {
        transfer = std::make_unique<Transfer>(net.nodes.Get(0), FactoryOf(first), net.nodes.Get(1),
                                              FactoryOf(second), net.address[1], PORT, bytes, true);
    });
    Simulator::Stop(Seconds(120));
    Simulator::Run();
    bool complete = transfer->IsComplete();
    std::printf("%s to %s, %s, IPv%d, loss %.3f: %s after %.3f s\n",
                first == Tcp::USTACK ? "ustack" : "ns-3", second == Tcp::USTACK ? "ustack" : "ns-3",
                csma ? "CSMA" : "point-to-point", ip6 ? 6 : 4, loss,
                complete ? "complete" : "NOT complete",
                transfer->FinishedAt().GetSeconds() - 3);
    if (!complete)
    {
        transfer->Print();
    }
    CHECK(complete);
    CheckStack(net.stack[0]);
    CheckStack(net.stack[1]);
    Simulator::Destroy();
}

void
TransferIp4()
{
    RunTransfer(Tcp::USTACK, Tcp::USTACK, true, false, 0, 5 * MB);
    RunTransfer(Tcp::USTACK, Tcp::USTACK, false, false, 0.01, 5 * MB);
}

void
TransferIp6()
{
    RunTransfer(Tcp::USTACK, Tcp::USTACK, true, true, 0, 5 * MB);
    RunTransfer(Tcp::USTACK, Tcp::USTACK, false, true, 0.01, 5 * MB);
}

void
InteropIp4()
{
    for (bool csma : {false, true})
    {
        RunTransfer(Tcp::USTACK, Tcp::NS3, csma, false, 0, 5 * MB);
        RunTransfer(Tcp::NS3, Tcp::USTACK, csma, false, 0, 5 * MB);
    }
}

void
InteropIp6()
{
    RunTransfer(Tcp::USTACK, Tcp::NS3, true, true, 0, 5 * MB);
    RunTransfer(Tcp::NS3, Tcp::USTACK, true, true, 0, 5 * MB);
}

void
InteropLoss()
{
    for (double loss : {0.001, 0.01, 0.03})
    {
        RunTransfer(Tcp::USTACK, Tcp::NS3, false, false, loss, 2 * MB);
        RunTransfer(Tcp::NS3, Tcp::USTACK, false, false, loss, 2 * MB);
    }
}

/* An altered byte is noticed. */
void
Canary()
{
    Pair net(Tcp::USTACK, Tcp::USTACK, false, false, "100Mbps", "1ms");
    Transfer transfer(net.nodes.Get(0), FactoryOf(Tcp::USTACK), net.nodes.Get(1),
                      FactoryOf(Tcp::USTACK), net.address[1], PORT, MB);

    transfer.AlterByte(123456);
    Simulator::Stop(Seconds(10));
    Simulator::Run();
    CHECK(transfer.Received() == MB);
    CHECK(transfer.Wrong() == 1);
    CHECK(!transfer.IsComplete());
    Simulator::Destroy();
}

/* ns-3's applications run over either socket without a change. */
void
Applications()
{
    for (Tcp tcp : {Tcp::USTACK, Tcp::NS3})
    {
        Tcp other = tcp == Tcp::USTACK ? Tcp::NS3 : Tcp::USTACK;
        Pair net(tcp, other, false, false, "10Mbps", "5ms");
        const char* factory =
            tcp == Tcp::USTACK ? "ns3::UstackSocketFactory" : "ns3::TcpSocketFactory";
        const char* sink_factory =
            other == Tcp::USTACK ? "ns3::UstackSocketFactory" : "ns3::TcpSocketFactory";
        InetSocketAddress to(Ipv4Address::ConvertFrom(net.address[1]), PORT);
        BulkSendHelper bulk(factory, to);
        OnOffHelper onoff(factory, to);
        PacketSinkHelper sink(sink_factory, InetSocketAddress(Ipv4Address::GetAny(), PORT));

        bulk.SetAttribute("MaxBytes", UintegerValue(MB));
        onoff.SetAttribute("MaxBytes", UintegerValue(MB / 5));
        onoff.SetAttribute("DataRate", StringValue("1Mbps"));
        ApplicationContainer receiving = sink.Install(net.nodes.Get(1));
        ApplicationContainer sending = bulk.Install(net.nodes.Get(0));
        sending.Add(onoff.Install(net.nodes.Get(0)));
        sending.Start(Seconds(1));
        Simulator::Stop(Seconds(60));
        Simulator::Run();
        CHECK(DynamicCast<PacketSink>(receiving.Get(0))->GetTotalRx() >= MB + MB / 5 - 1500);
        std::printf("BulkSend and OnOff over %s: %" PRIu64 " bytes\n", factory,
                    DynamicCast<PacketSink>(receiving.Get(0))->GetTotalRx());
        Simulator::Destroy();
    }
}

/* Each member of struct us_config but mac and secret has an attribute, which takes effect. */
void
Attributes()
{
    constexpr unsigned members =
        (sizeof(us_config) - sizeof(us_config::mac) - sizeof(us_config::secret)) / sizeof(u_u32);
    constexpr unsigned others = 1; // SocketList
    TypeId tid = UstackStack::GetTypeId();

    CHECK(tid.GetAttributeN() - others == members);
    Ptr<UstackStack> stack = CreateObject<UstackStack>();
    stack->SetAttribute("RtoMinUs", UintegerValue(12345));
    stack->SetAttribute("CongestionControl", StringValue("Dctcp"));
    CHECK(stack->rto_min_us == 12345);
    CHECK(stack->cc == US_CC_DCTCP);
    for (const char* source : {"Tx", "Rx"})
    {
        CHECK(tid.LookupTraceSourceByName(source));
    }
    for (const char* source : {"CongestionWindow", "SlowStartThreshold", "RTT", "State"})
    {
        CHECK(UstackSocket::GetTypeId().LookupTraceSourceByName(source));
    }
}

/* ---- headers ---- */

/* TTL, or hop limit, and type of service, or traffic class, without ECN, of IPv4 and IPv6. */
struct Header
{
    unsigned ttl{0}, tos{0};

    bool operator!=(const Header& other) const
    {
        return ttl != other.ttl || tos != other.tos;
    }
};

/* What the TCP frames of a host should have, and how many had it or not. */
struct HeaderCount
{
    Header expected;
    unsigned right{0}, wrong{0};
};

void
CountHeader(HeaderCount* count, Ptr<const Packet> packet)
{
    constexpr unsigned ETHERNET_BYTES = 14;
    constexpr uint8_t TCP = 6;
    uint8_t bytes[ETHERNET_BYTES + 20];

    if (packet->CopyData(bytes, sizeof(bytes)) < sizeof(bytes))
    {
        return;
    }
    const uint8_t* ip = bytes + ETHERNET_BYTES;
    bool ip4 = ip[0] >> 4 == 4;
    if (ip[ip4 ? 9 : 6] != TCP)
    {
        return;
    }
    unsigned tos = ip4 ? ip[1] : (ip[0] << 4 | ip[1] >> 4) & 0xff;
    Header header{ip[ip4 ? 8 : 7], tos & 0xfc};
    (header != count->expected ? count->wrong : count->right)++;
}

void
SetTos(Ptr<Socket> socket, bool ip6, uint8_t tos)
{
    if (ip6)
    {
        socket->SetIpv6Tclass(tos);
    }
    else
    {
        socket->SetIpTos(tos);
    }
}

void
SetTtl(Ptr<Socket> socket, bool ip6, uint8_t ttl)
{
    if (ip6)
    {
        socket->SetIpv6HopLimit(ttl);
    }
    else
    {
        socket->SetIpTtl(ttl);
    }
}

/*
 * A socket's TTL and type of service, set before Connect(), are those of each frame from the SYN
 * on; set later, from the next Send() on. Accepted connections have those of the listening socket.
 */
void
RunHeaders(bool ip6)
{
    Pair net(Tcp::USTACK, Tcp::USTACK, false, ip6, "100Mbps", "1ms");
    HeaderCount counts[2] = {{{7, 0xb8}}, {{64, 0}}};
    Ptr<Socket> listener = Socket::CreateSocket(net.nodes.Get(1), FactoryOf(Tcp::USTACK));
    Ptr<Socket> socket = Socket::CreateSocket(net.nodes.Get(0), FactoryOf(Tcp::USTACK));
    Address to;

    if (ip6)
    {
        to = Inet6SocketAddress(Ipv6Address::ConvertFrom(net.address[1]), PORT);
    }
    else
    {
        to = InetSocketAddress(Ipv4Address::ConvertFrom(net.address[1]), PORT);
    }
    for (unsigned i = 0; i < 2; i++)
    {
        net.stack[i]->TraceConnectWithoutContext("Tx",
                                                 MakeBoundCallback(&CountHeader, &counts[i]));
    }
    listener->Bind(to);
    listener->Listen();
    SetTtl(listener, ip6, 9);
    SetTos(listener, ip6, 0x48);
    SetTtl(socket, ip6, 7);
    SetTos(socket, ip6, 0xb8);
    Simulator::Schedule(Seconds(3), [&] { socket->Connect(to); });
    Simulator::Schedule(Seconds(4), [&] {
        CHECK(counts[0].right >= 2 && counts[1].right == 1);
        counts[1] = {{9, 0x48}};
        socket->Send(Create<Packet>(100));
    });
    Simulator::Schedule(Seconds(5), [&] {
        CHECK(counts[0].right >= 3 && counts[1].right >= 1);
        CHECK(counts[0].wrong == 0 && counts[1].wrong == 0);
        counts[0] = {{99, 0x28}};
        SetTtl(socket, ip6, 99);
        SetTos(socket, ip6, 0x28);
        socket->Send(Create<Packet>(100));
    });
    Simulator::Stop(Seconds(6));
    Simulator::Run();
    CHECK(counts[0].right >= 1);
    CHECK(counts[0].wrong == 0 && counts[1].wrong == 0);
    Simulator::Destroy();
}

void
Headers()
{
    RunHeaders(false);
    RunHeaders(true);
}

/* ---- ucached ---- */

struct Totals
{
    uint64_t replies{0}, errors{0}, bytes{0};
    unsigned done{0};
};

Totals
Sum(const ApplicationContainer& clients)
{
    Totals totals;

    for (auto app = clients.Begin(); app != clients.End(); ++app)
    {
        Ptr<MemcachedClient> client = DynamicCast<MemcachedClient>(*app);
        totals.replies += client->GetReplies();
        totals.errors += client->GetErrors();
        totals.bytes += client->GetBytes();
        totals.done += client->IsDone();
    }
    return totals;
}

/*
 * Clients of one ucached, on some hosts, that connect and ask at the same moment; no packet is
 * lost, so no retransmission timeout may come. quiet: nor a tail loss probe. With 10,000 the queue
 * to the server is longer than the time after which the stack probes, and the first samples of it
 * come only then.
 */
void
ManyClients(unsigned hosts, unsigned clients_each, unsigned requests, uint32_t value_bytes,
            bool quiet)
{
    Star net(hosts + 1);
    UstackHelper ustack;
    UcachedServerHelper server;
    ApplicationContainer clients;

    ustack.Fit(2 * clients_each, 256 << 10);
    ustack.SetStream(50);
    for (unsigned i = 0; i <= hosts; i++)
    {
        net.Add("10Gbps", "5us", 1000000);
    }
    server.SetAttribute("Connections", UintegerValue(hosts * clients_each));
    server.SetAttribute("MemoryBytes", UintegerValue(1024 << 20));
    Ptr<UcachedServer> ucached = server.Install(net.hostDevices.Get(hosts),
                                                net.HostAddress(hosts), 24);
    ucached->AssignStreams(40);
    ucached->SetGateway(net.RouterAddress(hosts));
    MemcachedClientHelper client(InetSocketAddress(net.HostAddress(hosts), 11211));
    client.SetAttribute("Requests", UintegerValue(requests));
    client.SetAttribute("ValueBytes", UintegerValue(value_bytes));
    for (unsigned i = 0; i < hosts; i++)
    {
        net.InstallUstack(i, ustack);
        for (unsigned k = 0; k < clients_each; k++)
        {
            clients.Add(client.Install(net.hosts.Get(i)));
        }
    }
    client.AssignStreams(clients, 2000);
    clients.Start(Seconds(1));
    Simulator::Stop(Seconds(20));
    Simulator::Run();
    Totals totals = Sum(clients);
    std::printf("%u of %u clients done, %" PRIu64 " replies, %" PRIu64 " errors, %" PRIu64
                " RTOs, %" PRIu64 " probes, %" PRIu64 " retransmissions\n",
                totals.done, hosts * clients_each, totals.replies, totals.errors,
                ucached->GetCounter("tcp_timeouts"), ucached->GetCounter("tcp_tail_probes"),
                ucached->GetCounter("tcp_retransmits"));
    CHECK(totals.done == hosts * clients_each);
    CHECK(totals.errors == 0);
    CHECK(ucached->GetCounter("tcp_timeouts") == 0);
    CHECK(!quiet || ucached->GetCounter("tcp_retransmits") == 0);
    CHECK(ucached->GetDroppedFrames() == 0);
    Simulator::Destroy();
}

void
ThousandClients()
{
    ManyClients(20, 50, 6, 20000, true);
}

void
TenThousandClients()
{
    constexpr long KIB_MAX = 1000000;
    rusage usage;

    ManyClients(100, 100, 5, 8000, false);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    std::printf("%ld KiB of memory\n", usage.ru_maxrss);
    CHECK(usage.ru_maxrss < KIB_MAX);
}

void
NoteTime(Time* last, Time latency)
{
    *last = Simulator::Now();
}

/* What a client that asks servers at once has seen, and the servers and the queue to it. */
struct Burst
{
    uint64_t retransmits{0}, probes{0}, timeouts{0};
    uint32_t marks{0}, drops{0};
    double gbps{0}; // of values, until the last one
};

/*
 * A client asks servers at once, each of them ten times for 32 KiB. The router's queue to it holds
 * so many packets, and marks from 65 packets on, or only drops.
 */
Burst
RunIncast(unsigned servers, const char* cc, uint32_t queuePackets, bool mark)
{
    Star net(servers + 1);
    UstackHelper ustack;
    UcachedServerHelper server;
    ApplicationContainer clients;
    std::vector<Ptr<UcachedServer>> ucached;
    Burst burst;
    Time last;

    ustack.Fit(servers, 1 << 20);
    ustack.SetStream(50);
    ustack.Set("Ecn", StringValue(mark ? "Request" : "Off"));
    for (unsigned i = 0; i <= servers; i++)
    {
        net.Add("10Gbps", "10us", i < servers ? 1000 : 20);
    }
    Ptr<QueueDisc> queue = net.SetQueue(servers, queuePackets, mark ? 65 : 0);
    net.InstallUstack(servers, ustack);
    for (unsigned i = 0; i < servers; i++)
    {
        ucached.push_back(server.Install(net.hostDevices.Get(i), net.HostAddress(i), 24));
        ucached[i]->AssignStreams(100 + i);
        ucached[i]->SetGateway(net.RouterAddress(i));
        ucached[i]->SetStackAttribute("CongestionControl", StringValue(cc));
        MemcachedClientHelper client(InetSocketAddress(net.HostAddress(i), 11211));
        client.SetAttribute("Requests", UintegerValue(11));
        client.SetAttribute("Keys", UintegerValue(1));
        client.SetAttribute("ValueBytes", UintegerValue(32768));
        clients.Add(client.Install(net.hosts.Get(servers)));
        clients.Get(i)->TraceConnectWithoutContext("Latency",
                                                   MakeBoundCallback(&NoteTime, &last));
    }
    clients.Start(Seconds(1));
    Simulator::Stop(Seconds(10));
    Simulator::Run();
    Totals totals = Sum(clients);
    for (const Ptr<UcachedServer>& one : ucached)
    {
        burst.retransmits += one->GetCounter("tcp_retransmits");
        burst.probes += one->GetCounter("tcp_tail_probes");
        burst.timeouts += one->GetCounter("tcp_timeouts");
    }
    burst.marks = queue->GetStats().nTotalMarkedPackets;
    burst.drops = queue->GetStats().nTotalDroppedPackets;
    burst.gbps = totals.bytes * 8 / (last - Seconds(1)).GetSeconds() / 1e9;
    std::printf("%u servers, %s, queue of %u%s: %.2f Gbit/s, %u drops, %u marks, %" PRIu64
                " retransmissions, %" PRIu64 " probes, %" PRIu64 " timeouts\n",
                servers, cc, queuePackets, mark ? " with marks" : "", burst.gbps, burst.drops,
                burst.marks, burst.retransmits, burst.probes, burst.timeouts);
    CHECK(totals.done == servers);
    CHECK(totals.errors == 0);
    Simulator::Destroy();
    return burst;
}

void
Incast()
{
    Burst cubic = RunIncast(32, "Cubic", 400, false);
    Burst dctcp = RunIncast(32, "Dctcp", 400, true);

    CHECK(cubic.marks == 0);
    CHECK(dctcp.marks > 0);
    CHECK(dctcp.retransmits < cubic.retransmits);
}

/*
 * A queue that takes more than the initial windows (ten segments) of all servers drops no marked
 * packet. Tail loss probes are retransmissions, without ECT (RFC 3168 6.1.5): it may drop those.
 */
void
IncastMany()
{
    for (unsigned servers : {8, 100, 200})
    {
        Burst deep = RunIncast(servers, "Dctcp", std::max(400u, 16 * servers), true);

        CHECK(deep.retransmits <= deep.probes);
        CHECK(deep.drops <= deep.probes);
        CHECK(deep.retransmits <= servers / 20);
        CHECK(deep.timeouts == 0);
        CHECK(deep.marks > 0);
        CHECK(deep.gbps > 7);
    }
    for (unsigned servers : {100, 200})
    {
        Burst cubic = RunIncast(servers, "Cubic", 400, false);
        Burst dctcp = RunIncast(servers, "Dctcp", 400, true);

        CHECK(dctcp.marks > 0);
        CHECK(dctcp.drops < cubic.drops);
        CHECK(dctcp.retransmits < cubic.retransmits);
    }
}

/* How a server ends a connection. */
enum class End
{
    CLOSE,       // at once
    RESET,       // at once
    AFTER_REPLY, // to one request
};

/* A server that ends the connection before all requests are answered is an error of its client. */
void
RunClientError(Tcp tcp, End end, uint64_t expected)
{
    Pair net(tcp, Tcp::USTACK, false, false, "100Mbps", "1ms");
    Ptr<Socket> listener = Socket::CreateSocket(net.nodes.Get(1), FactoryOf(Tcp::USTACK));
    MemcachedClientHelper helper(
        InetSocketAddress(Ipv4Address::ConvertFrom(net.address[1]), PORT));
    std::vector<Ptr<Socket>> accepted;

    helper.SetAttribute("Protocol", TypeIdValue(FactoryOf(tcp)));
    helper.SetAttribute("Requests", UintegerValue(1));
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
    listener->Listen();
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                MakeBoundCallback(
                                    +[](std::vector<Ptr<Socket>>* list, Ptr<Socket> socket,
                                        const Address&) { list->push_back(socket); },
                                    &accepted));
    ApplicationContainer clients = helper.Install(net.nodes.Get(0));
    clients.Start(Seconds(1));
    Simulator::Schedule(Seconds(2), [&] {
        CHECK(accepted.size() == 1);
        if (end == End::RESET)
        {
            DynamicCast<UstackSocket>(accepted[0])->Abort();
            return;
        }
        if (end == End::AFTER_REPLY)
        {
            accepted[0]->Send(Create<Packet>(reinterpret_cast<const uint8_t*>("STORED\r\n"), 8));
        }
        accepted[0]->Close();
    });
    Simulator::Stop(Seconds(5));
    Simulator::Run();
    CHECK(DynamicCast<MemcachedClient>(clients.Get(0))->GetErrors() == expected);
    CHECK(DynamicCast<MemcachedClient>(clients.Get(0))->IsDone() == (expected == 0));
    Simulator::Destroy();
}

void
ClientErrors()
{
    for (Tcp tcp : {Tcp::USTACK, Tcp::NS3})
    {
        RunClientError(tcp, End::CLOSE, 1);
        RunClientError(tcp, End::RESET, 1);
        RunClientError(tcp, End::AFTER_REPLY, 0);
    }
}

/* ---- repeatability ---- */

TraceHash g_hash;

void
HashFrame(Ptr<const Packet> packet)
{
    g_hash.Add(packet);
}

/* All frames and their times, of a lossy transfer: the same from every compiler and sanitizer. */
void
Trace()
{
    constexpr uint64_t golden = 0xefa013a68698cf2cu;
    Pair net(Tcp::USTACK, Tcp::NS3, false, false, "20Mbps", "5ms");

    net.SetLoss(1, 0.02);
    net.stack[0]->TraceConnectWithoutContext("Tx", MakeCallback(&HashFrame));
    net.stack[0]->TraceConnectWithoutContext("Rx", MakeCallback(&HashFrame));
    Transfer transfer(net.nodes.Get(0), FactoryOf(Tcp::USTACK), net.nodes.Get(1),
                      FactoryOf(Tcp::NS3), net.address[1], PORT, MB, true);
    Simulator::Stop(Seconds(60));
    Simulator::Run();
    CHECK(transfer.IsComplete());
    std::printf("trace %016" PRIx64 "\n", g_hash.Get());
    CHECK(g_hash.Get() == golden);
    Simulator::Destroy();
}

const struct
{
    const char* name;
    void (*run)();
} g_cases[] = {
    {"transfer-ip4", TransferIp4},
    {"transfer-ip6", TransferIp6},
    {"interop-ip4", InteropIp4},
    {"interop-ip6", InteropIp6},
    {"interop-loss", InteropLoss},
    {"applications", Applications},
    {"canary", Canary},
    {"attributes", Attributes},
    {"headers", Headers},
    {"client-errors", ClientErrors},
    {"thousand-clients", ThousandClients},
    {"ten-thousand-clients", TenThousandClients},
    {"incast", Incast},
    {"incast-many", IncastMany},
    {"trace", Trace},
};

} // namespace

int
Main(const char* name)
{
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(1);
    for (const auto& one : g_cases)
    {
        if (std::strcmp(one.name, name) == 0)
        {
            one.run();
            return g_failures > 0;
        }
    }
    std::printf("no case %s\n", name);
    return 2;
}

} // namespace ns3test

int
main(int argc, char** argv)
{
    if (argc != 2)
    {
        std::fprintf(stderr, "usage: ns3_test CASE\n");
        return 2;
    }
    return ns3test::Main(argv[1]);
}
