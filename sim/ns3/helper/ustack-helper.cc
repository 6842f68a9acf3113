/* SPDX-License-Identifier: BSD-3-Clause */
/* Installs UstackStack on devices; see ustack-helper.h. */
#include "ustack-helper.h"

#include "ns3/node.h"
#include "ns3/uinteger.h"

namespace ns3
{

UstackHelper::UstackHelper()
{
    m_factory.SetTypeId(UstackStack::GetTypeId());
}

void
UstackHelper::Set(const std::string& name, const AttributeValue& value)
{
    m_factory.Set(name, value);
}

void
UstackHelper::Fit(uint32_t connections, uint32_t queueBytes)
{
    us_config config;

    us_config_defaults(&config);
    us_config_fit(&config, connections, queueBytes);
    Set("ConnMax", UintegerValue(config.conn_max));
    Set("OrphansMax", UintegerValue(config.orphans_max));
    Set("HalfOpenMax", UintegerValue(config.half_open_max));
    Set("TimeWaitMax", UintegerValue(config.time_wait_max));
    Set("NeighbourMax", UintegerValue(config.neighbour_max));
    Set("BufferBytes", UintegerValue(config.buffer_bytes));
    Set("SendQueueBytes", UintegerValue(config.send_queue_bytes));
    Set("RecvWindowBytes", UintegerValue(config.recv_window_bytes));
}

Ptr<UstackStack>
UstackHelper::Install(Ptr<NetDevice> device)
{
    Ptr<UstackStack> stack = m_factory.Create<UstackStack>();

    if (m_stream >= 0)
    {
        m_stream += stack->AssignStreams(m_stream);
    }
    device->GetNode()->AggregateObject(stack);
    stack->Attach(device);
    m_stacks.push_back(stack);
    return stack;
}

void
UstackHelper::Install(const NetDeviceContainer& devices)
{
    for (auto device = devices.Begin(); device != devices.End(); ++device)
    {
        Install(*device);
    }
}

void
UstackHelper::Assign(const Ipv4Address& network, unsigned prefixLength, uint32_t first)
{
    for (const Ptr<UstackStack>& stack : m_stacks)
    {
        stack->AddAddress(Ipv4Address(network.Get() + first++), prefixLength);
    }
}

void
UstackHelper::Assign(const Ipv6Address& network, unsigned prefixLength, uint32_t first)
{
    for (const Ptr<UstackStack>& stack : m_stacks)
    {
        uint8_t bytes[16];
        uint32_t host = first++;

        network.GetBytes(bytes);
        for (unsigned i = 0; i < 4; i++)
        {
            bytes[15 - i] = static_cast<uint8_t>(bytes[15 - i] | host >> 8 * i);
        }
        stack->AddAddress(Ipv6Address(bytes), prefixLength);
    }
}

void
UstackHelper::SetGateway(const Address& gateway)
{
    for (const Ptr<UstackStack>& stack : m_stacks)
    {
        stack->SetGateway(gateway);
    }
}

void
UstackHelper::SetStream(int64_t stream)
{
    m_stream = stream;
}

void
UstackHelper::EnablePcap(const std::string& prefix)
{
    for (const Ptr<UstackStack>& stack : m_stacks)
    {
        stack->EnablePcap(prefix);
    }
}

Ptr<UstackStack>
UstackHelper::Get(std::size_t i) const
{
    return m_stacks.at(i);
}

} // namespace ns3
