/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of a NetDevice; see ustack-port.h. */
#include "ustack-port.h"

#include "ustack-syn.h"

#include "ns3/boolean.h"
#include "ns3/global-value.h"
#include "ns3/mac48-address.h"
#include "ns3/pointer.h"
#include "ns3/queue.h"
#include "ns3/simulator.h"
#include "ns3/trace-helper.h"

namespace ns3
{

namespace
{
constexpr uint32_t ETHERNET_BYTES = 14;
}

UstackPort::UstackPort(Ptr<NetDevice> device)
    : m_device(device),
      m_node(device->GetNode())
{
    PointerValue queue;

    NS_ABORT_MSG_UNLESS(m_node, "the device of a stack belongs to a node: Node::AddDevice() first");
    if (device->GetAttributeFailSafe("TxQueue", queue))
    {
        m_queue = queue.GetObject();
    }
    if (Ptr<Queue<Packet>> packets = DynamicCast<Queue<Packet>>(m_queue))
    {
        packets->TraceConnectWithoutContext("Dequeue", MakeCallback(&UstackPort::Dequeued, this));
    }
    m_node->RegisterProtocolHandler(MakeCallback(&UstackPort::Take, this), 0, device, false);
}

void
UstackPort::SetWake(Callback<void> wake)
{
    m_wake = wake;
}

void
UstackPort::Close()
{
    m_wake = Callback<void>();
    if (Ptr<Queue<Packet>> packets = DynamicCast<Queue<Packet>>(m_queue))
    {
        packets->TraceDisconnectWithoutContext("Dequeue",
                                               MakeCallback(&UstackPort::Dequeued, this));
    }
    if (m_node)
    {
        m_node->UnregisterProtocolHandler(MakeCallback(&UstackPort::Take, this));
    }
    m_queue = nullptr;
    m_node = nullptr;
    m_received.clear();
}

void
UstackPort::Take(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t protocol,
                 const Address& from, const Address& to, NetDevice::PacketType type)
{
    Frame frame(ETHERNET_BYTES + packet->GetSize());

    if (m_received.size() == RX_MAX)
    {
        m_dropped++;
        return;
    }
    Mac48Address::ConvertFrom(to).CopyTo(&frame[0]);
    Mac48Address::ConvertFrom(from).CopyTo(&frame[6]);
    frame[12] = static_cast<uint8_t>(protocol >> 8);
    frame[13] = static_cast<uint8_t>(protocol);
    packet->CopyData(&frame[ETHERNET_BYTES], packet->GetSize());
    Trace(frame.data(), frame.size(), false);
    UstackInsertMss(frame, device->GetMtu(), ChecksumsAreOn());
    m_received.push_back(std::move(frame));
    if (!m_wake.IsNull())
    {
        m_wake();
    }
}

void
UstackPort::Dequeued(Ptr<const Packet> packet)
{
    if (m_stalled && !m_wake.IsNull())
    {
        m_stalled = false;
        m_wake();
    }
}

bool
UstackPort::Receive(Frame& frame)
{
    if (m_received.empty())
    {
        return false;
    }
    frame = std::move(m_received.front());
    m_received.pop_front();
    return true;
}

std::size_t
UstackPort::Received() const
{
    return m_received.size();
}

bool
UstackPort::HasRoom()
{
    Ptr<Queue<Packet>> packets = DynamicCast<Queue<Packet>>(m_queue);

    if (!packets)
    {
        return true;
    }
    QueueSize most = packets->GetMaxSize();
    uint32_t left = most.GetValue();
    uint32_t used = packets->GetCurrentSize().GetValue();
    /* A frame is a packet, or at most its MTU and the header of the link. */
    uint32_t need = most.GetUnit() == QueueSizeUnit::PACKETS ? 1 : m_device->GetMtu() + 32;

    m_stalled = used + need > left;
    return !m_stalled;
}

void
UstackPort::Send(const uint8_t* bytes, uint32_t len)
{
    Mac48Address destination;
    uint16_t protocol = static_cast<uint16_t>(bytes[12] << 8 | bytes[13]);

    destination.CopyFrom(bytes);
    Trace(bytes, len, true);
    if (!m_device->Send(Create<Packet>(bytes + ETHERNET_BYTES, len - ETHERNET_BYTES), destination,
                        protocol))
    {
        m_dropped++;
    }
}

void
UstackPort::Trace(const uint8_t* bytes, uint32_t len, bool sent)
{
    TracedCallback<Ptr<const Packet>>& callbacks = sent ? m_tx : m_rx;

    if (m_pcap)
    {
        m_pcap->Write(Simulator::Now(), bytes, len);
    }
    if (!callbacks.IsEmpty())
    {
        callbacks(Create<Packet>(bytes, len));
    }
}

void
UstackPort::CopyMac(uint8_t mac[6]) const
{
    Mac48Address::ConvertFrom(m_device->GetAddress()).CopyTo(mac);
}

bool
UstackPort::IsPointToPoint() const
{
    return !m_device->NeedsArp();
}

Ptr<NetDevice>
UstackPort::GetDevice() const
{
    return m_device;
}

bool
UstackPort::ChecksumsAreOn()
{
    BooleanValue on;

    GlobalValue::GetValueByName("ChecksumEnabled", on);
    return on.Get();
}

void
UstackPort::EnablePcap(const std::string& prefix)
{
    PcapHelper helper;

    m_pcap = helper.CreateFile(helper.GetFilenameFromDevice(prefix, m_device), std::ios::out,
                               PcapHelper::DLT_EN10MB);
}

uint64_t
UstackPort::GetDropped() const
{
    return m_dropped;
}

} // namespace ns3
