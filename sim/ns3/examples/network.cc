/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies of the examples and tests; see network.h. */
#include "network.h"

#include "ns3/error-model.h"

namespace topology
{

namespace
{

void
InstallNs3(Ptr<Node> node)
{
    InternetStackHelper internet;

    internet.Install(node);
}

/* Without FqCoDel, which Assign() installs: it shares by itself. */
void
AssignNs3(Ptr<NetDevice> device, Ipv4Address network, uint32_t host)
{
    Ptr<Ipv4> ipv4 = device->GetNode()->GetObject<Ipv4>();
    uint32_t interface = ipv4->AddInterface(device);

    ipv4->AddAddress(interface,
                     Ipv4InterfaceAddress(Ipv4Address(network.Get() + host), Ipv4Mask("/24")));
    ipv4->SetMetric(interface, 1);
    ipv4->SetUp(interface);
}

Address
AssignNs3Ip6(Ptr<NetDevice> device, uint32_t host)
{
    Ptr<Ipv6> ipv6 = device->GetNode()->GetObject<Ipv6>();
    uint32_t interface = ipv6->AddInterface(device);
    std::string text = "fd00:1::" + std::to_string(host);

    ipv6->AddAddress(interface, Ipv6InterfaceAddress(Ipv6Address(text.c_str()), Ipv6Prefix(64)));
    ipv6->SetMetric(interface, 1);
    ipv6->SetUp(interface);
    return Ipv6Address(text.c_str());
}

void
SetReceiveLoss(Ptr<NetDevice> device, double share, int64_t stream)
{
    Ptr<RateErrorModel> model = CreateObject<RateErrorModel>();

    model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    model->SetRate(share);
    model->AssignStreams(stream);
    device->SetAttribute("ReceiveErrorModel", PointerValue(model));
}

} // namespace

TypeId
FactoryOf(Tcp tcp)
{
    return TypeId::LookupByName(tcp == Tcp::USTACK ? "ns3::UstackSocketFactory"
                                                   : "ns3::TcpSocketFactory");
}

Pair::Pair(Tcp first, Tcp second, bool csma, bool ip6, const std::string& rate,
           const std::string& delay, uint32_t queuePackets)
{
    Tcp tcp[2] = {first, second};
    QueueSize size(QueueSizeUnit::PACKETS, queuePackets);
    UstackHelper ustack;

    nodes.Create(2);
    if (csma)
    {
        CsmaHelper link;
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(size));
        link.SetChannelAttribute("DataRate", StringValue(rate));
        link.SetChannelAttribute("Delay", StringValue(delay));
        devices = link.Install(nodes);
    }
    else
    {
        PointToPointHelper link;
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(size));
        link.SetDeviceAttribute("DataRate", StringValue(rate));
        link.SetChannelAttribute("Delay", StringValue(delay));
        devices = link.Install(nodes);
    }
    ustack.SetStream(1000);
    for (unsigned i = 0; i < 2; i++)
    {
        if (tcp[i] == Tcp::NS3)
        {
            InstallNs3(nodes.Get(i));
            AssignNs3(devices.Get(i), "10.1.1.0", i + 1);
            if (ip6)
            {
                address[i] = AssignNs3Ip6(devices.Get(i), i + 1);
            }
        }
        else
        {
            stack[i] = ustack.Install(devices.Get(i));
            stack[i]->AddAddress(Ipv4Address(Ipv4Address("10.1.1.0").Get() + i + 1), 24);
            if (ip6)
            {
                std::string text = "fd00:1::" + std::to_string(i + 1);
                address[i] = Ipv6Address(text.c_str());
                stack[i]->AddAddress(address[i], 64);
            }
        }
        if (!ip6)
        {
            address[i] = Ipv4Address(Ipv4Address("10.1.1.0").Get() + i + 1);
        }
    }
}

void
Pair::SetLoss(unsigned to, double share)
{
    SetReceiveLoss(devices.Get(to), share, 77 + to);
}

Star::Star(unsigned count)
{
    router = CreateObject<Node>();
    hosts.Create(count);
    topology::InstallNs3(router);
}

void
Star::Add(const std::string& rate, const std::string& delay, uint32_t routerQueuePackets)
{
    unsigned i = hostDevices.GetN();
    PointToPointHelper link;

    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, routerQueuePackets)));
    NetDeviceContainer ends = link.Install(hosts.Get(i), router);
    hostDevices.Add(ends.Get(0));
    routerDevices.Add(ends.Get(1));
    AssignNs3(ends.Get(1), Ipv4Address(HostAddress(i).Get() - 2), 1);
}

Ptr<QueueDisc>
Star::SetQueue(unsigned i, uint32_t packets, uint32_t markPackets)
{
    TrafficControlHelper queue;
    QueueSizeValue size(QueueSize(QueueSizeUnit::PACKETS, packets));

    if (markPackets == 0)
    {
        queue.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", size);
    }
    else
    {
        /* The length that counts is the present one, as in RFC 8257 3.1. */
        queue.SetRootQueueDisc("ns3::RedQueueDisc", "UseEcn", BooleanValue(true), "UseHardDrop",
                               BooleanValue(false), "MinTh", DoubleValue(markPackets), "MaxTh",
                               DoubleValue(markPackets), "QW", DoubleValue(1), "Gentle",
                               BooleanValue(false), "MeanPktSize", UintegerValue(1500), "MaxSize",
                               size);
    }
    return queue.Install(routerDevices.Get(i)).Get(0);
}

void
Star::SetLoss(unsigned i, double share)
{
    SetReceiveLoss(hostDevices.Get(i), share, 200 + i);
}

Ipv4Address
Star::HostAddress(unsigned i) const
{
    return Ipv4Address(Ipv4Address("10.1.0.2").Get() + (i << 8));
}

Ipv4Address
Star::RouterAddress(unsigned i) const
{
    return Ipv4Address(Ipv4Address("10.1.0.1").Get() + (i << 8));
}

void
Star::InstallNs3(unsigned i)
{
    Ipv4StaticRoutingHelper routing;

    topology::InstallNs3(hosts.Get(i));
    AssignNs3(hostDevices.Get(i), Ipv4Address(HostAddress(i).Get() - 2), 2);
    routing.GetStaticRouting(hosts.Get(i)->GetObject<Ipv4>())
        ->SetDefaultRoute(RouterAddress(i), 1);
}

Ptr<UstackStack>
Star::InstallUstack(unsigned i, UstackHelper& helper)
{
    Ptr<UstackStack> stack = helper.Install(hostDevices.Get(i));

    stack->AddAddress(HostAddress(i), 24);
    stack->SetGateway(RouterAddress(i));
    return stack;
}

double
Jain(const std::vector<double>& shares)
{
    double sum = 0;
    double squares = 0;

    for (double share : shares)
    {
        sum += share;
        squares += share * share;
    }
    return sum * sum / (shares.size() * squares);
}

} // namespace topology
