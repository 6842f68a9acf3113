/* SPDX-License-Identifier: BSD-3-Clause */
/* ucached as an ns-3 application: the code of src/net, src/cache and src/kv on a NetDevice. */
#ifndef NS3_UCACHED_SERVER_H
#define NS3_UCACHED_SERVER_H

#include "ustack-stack.h"

#include "ns3/application.h"

struct ucached_worker;

namespace ns3
{

/**
 * A memcached server. It has a TCP/IP stack of its own on the device, so its node needs none; its
 * congestion control and times are taken from a UstackStack that is only a configuration.
 */
class UcachedServer : public Application
{
  public:
    static TypeId GetTypeId();

    UcachedServer();
    ~UcachedServer() override;

    /** The device, before the application starts. */
    void SetDevice(Ptr<NetDevice> device);

    /** The address and the prefix of its network. */
    void SetAddress(const Address &address, unsigned prefixLength);

    /** The default router. */
    void SetGateway(const Address &gateway);

    /**
     * Attributes of the TCP/IP stack, as in UstackStack: congestion control, ECN, ACKs and times of
     * TCP. Bounds, keepalives, FinWait2Us and PersistMs are the server's own and stay.
     */
    void SetStackAttribute(const std::string &name, const AttributeValue &value);

    /** The stream of random numbers of its secret; returns 1. */
    int64_t AssignStreams(int64_t stream);

    /** Writes all frames to PREFIX-NODE-DEVICE.pcap. */
    void EnablePcap(const std::string &prefix);

    /** A counter of `stats ustack`; fails the simulation if there is none. */
    uint64_t GetCounter(const std::string &name) const;

    /** Frames that the device has not taken. */
    uint64_t GetDroppedFrames() const;

  protected:
    void DoDispose() override;

  private:
    void StartApplication() override;
    void StopApplication() override;
    void Kick();
    void Run();

    Ptr<NetDevice> m_device;
    Ptr<UstackPort> m_frames;
    Ptr<UstackStack> m_config; //!< never attached
    Ptr<UniformRandomVariable> m_random;
    ucached_worker *m_worker{nullptr};
    Address m_address;
    Address m_gateway;
    unsigned m_prefixLength{0};
    uint16_t m_port{0};
    uint32_t m_connections{0};
    uint64_t m_memoryBytes{0};
    EventId m_run;
    std::string m_pcap;
};

} // namespace ns3

#endif
