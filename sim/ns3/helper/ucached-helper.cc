/* SPDX-License-Identifier: BSD-3-Clause */
/* Installs servers and clients; see ucached-helper.h. */
#include "ucached-helper.h"

namespace ns3
{

UcachedServerHelper::UcachedServerHelper()
{
    m_factory.SetTypeId(UcachedServer::GetTypeId());
}

void
UcachedServerHelper::SetAttribute(const std::string& name, const AttributeValue& value)
{
    m_factory.Set(name, value);
}

Ptr<UcachedServer>
UcachedServerHelper::Install(Ptr<NetDevice> device, const Address& address, unsigned prefixLength)
{
    Ptr<UcachedServer> server = m_factory.Create<UcachedServer>();

    server->SetDevice(device);
    server->SetAddress(address, prefixLength);
    device->GetNode()->AddApplication(server);
    return server;
}

MemcachedClientHelper::MemcachedClientHelper(const Address& remote)
{
    m_factory.SetTypeId(MemcachedClient::GetTypeId());
    m_factory.Set("Remote", AddressValue(remote));
}

void
MemcachedClientHelper::SetAttribute(const std::string& name, const AttributeValue& value)
{
    m_factory.Set(name, value);
}

ApplicationContainer
MemcachedClientHelper::Install(const NodeContainer& nodes)
{
    ApplicationContainer clients;

    for (auto node = nodes.Begin(); node != nodes.End(); ++node)
    {
        Ptr<MemcachedClient> client = m_factory.Create<MemcachedClient>();
        (*node)->AddApplication(client);
        clients.Add(client);
    }
    return clients;
}

int64_t
MemcachedClientHelper::AssignStreams(const ApplicationContainer& clients, int64_t stream)
{
    int64_t first = stream;

    for (auto app = clients.Begin(); app != clients.End(); ++app)
    {
        stream += DynamicCast<MemcachedClient>(*app)->AssignStreams(stream);
    }
    return stream - first;
}

} // namespace ns3
