/* SPDX-License-Identifier: BSD-3-Clause */
/* Installs UcachedServer and MemcachedClient. */
#ifndef NS3_UCACHED_HELPER_H
#define NS3_UCACHED_HELPER_H

#include "memcached-client.h"
#include "ucached-server.h"

#include "ns3/application-container.h"
#include "ns3/node-container.h"
#include "ns3/object-factory.h"

namespace ns3
{

/** Makes a server on a device. */
class UcachedServerHelper
{
  public:
    UcachedServerHelper();

    /** Sets an attribute of the server. */
    void SetAttribute(const std::string &name, const AttributeValue &value);

    /** A server on the node of the device, with this address. */
    Ptr<UcachedServer> Install(Ptr<NetDevice> device, const Address &address,
                               unsigned prefixLength);

  private:
    ObjectFactory m_factory;
};

/** Makes clients of one server. */
class MemcachedClientHelper
{
  public:
    /** remote: an InetSocketAddress or Inet6SocketAddress. */
    explicit MemcachedClientHelper(const Address &remote);

    /** Sets an attribute of the clients. */
    void SetAttribute(const std::string &name, const AttributeValue &value);

    /** A client on each node. */
    ApplicationContainer Install(const NodeContainer &nodes);

    /** Assigns streams of random numbers to clients; returns how many. */
    static int64_t AssignStreams(const ApplicationContainer &clients, int64_t stream);

  private:
    ObjectFactory m_factory;
};

} // namespace ns3

#endif
