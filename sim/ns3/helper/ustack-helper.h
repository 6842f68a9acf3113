/* SPDX-License-Identifier: BSD-3-Clause */
/* Installs UstackStack on devices, as InternetStackHelper and Ipv4AddressHelper do for ns-3's. */
#ifndef NS3_USTACK_HELPER_H
#define NS3_USTACK_HELPER_H

#include "ustack-stack.h"

#include "ns3/net-device-container.h"
#include "ns3/object-factory.h"

namespace ns3
{

/**
 *     UstackHelper ustack;
 *     ustack.Set("CongestionControl", StringValue("Dctcp"));
 *     ustack.Install(devices);
 *     ustack.Assign(Ipv4Address("10.0.0.0"), 24);
 */
class UstackHelper
{
  public:
    UstackHelper();

    /** Sets an attribute of the stacks that Install() makes. */
    void Set(const std::string &name, const AttributeValue &value);

    /** Sets the bounds of us_config_fit(): connections, and bytes queued in each direction. */
    void Fit(uint32_t connections, uint32_t queueBytes);

    /** Makes a stack on the node of each device. They are those of the calls below. */
    void Install(const NetDeviceContainer &devices);
    Ptr<UstackStack> Install(Ptr<NetDevice> device);

    /** Gives the stacks the addresses NETWORK + first, + first + 1, ... */
    void Assign(const Ipv4Address &network, unsigned prefixLength, uint32_t first = 1);
    void Assign(const Ipv6Address &network, unsigned prefixLength, uint32_t first = 1);

    /** Sets the default router of all stacks. */
    void SetGateway(const Address &gateway);

    /** The stacks that Install() makes from now on draw their secrets from this stream onwards. */
    void SetStream(int64_t stream);

    /** Writes the frames of all stacks to PREFIX-NODE-DEVICE.pcap. */
    void EnablePcap(const std::string &prefix);

    /** Stack i, in the order of Install(). */
    Ptr<UstackStack> Get(std::size_t i) const;

  private:
    ObjectFactory m_factory;
    std::vector<Ptr<UstackStack>> m_stacks;
    int64_t m_stream{-1};
};

} // namespace ns3

#endif
