/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libustack on an ns-3 node: the instance (struct us_stack), its device, and the loop that carries
 * frames and events between them. The virtual clock of the simulator is the stack's.
 */
#ifndef NS3_USTACK_STACK_H
#define NS3_USTACK_STACK_H

#include <map>
#include <vector>

#include "ustack-port.h"

#include "ns3/address.h"
#include "ns3/event-id.h"
#include "ns3/ipv4-address.h"
#include "ns3/ipv6-address.h"
#include "ns3/object.h"
#include "ns3/random-variable-stream.h"

#include "ustack/ustack.h"

namespace ns3
{

class UstackSocket;

/**
 * The TCP/IP stack of a node. Aggregated to the Node by UstackHelper. Every member of struct
 * us_config but mac and secret is an attribute: CongestionControl (cc), Ecn, and numbers of the
 * member's name in camel case, with its unit. They apply until Attach().
 */
class UstackStack : public Object, public us_config
{
  public:
    /** The type, with all attributes and trace sources. */
    static TypeId GetTypeId();

    UstackStack();
    ~UstackStack() override;

    /** Makes the instance on a device of this node. Fails the simulation if the configuration is
     * refused; the message names the attribute. */
    void Attach(Ptr<NetDevice> device);

    /** Whether Attach() was called. */
    bool IsAttached() const;

    /** Adds an address; destinations with the same prefix are on the link. */
    void AddAddress(const Address &address, unsigned prefixLength);

    /** Sets the default router of the address's family. */
    void SetGateway(const Address &address);

    /** Adds a neighbour whose MAC address is known. */
    void AddNeighbour(const Address &address, const Address &mac);

    /** The first address that was added, as Ipv4Address or Ipv6Address. */
    Address GetAddress() const;

    /** Assigns the stream of the random numbers that the secret is made of. Returns 1. */
    int64_t AssignStreams(int64_t stream);

    /** Writes all frames to PREFIX-NODE-DEVICE.pcap. */
    void EnablePcap(const std::string &prefix);

    /** A counter of libustack by its name; fails the simulation if there is none. */
    uint64_t GetCounter(const std::string &name) const;

    /** us_check(): a phrase that names a violated invariant, or null. */
    const char *Check() const;

    /** Frames that the device has not taken, or that came too fast. */
    uint64_t GetDroppedFrames() const;

    /** For UstackSocket: the instance, at the present time. */
    us_stack *Now();

    /** For UstackSocket: runs the loop soon. */
    void Kick();

    /** For UstackSocket: a connection or listener begins, or has ended. */
    void Hold(Ptr<UstackSocket> socket);
    void Release(UstackSocket *socket);

  protected:
    void NotifyNewAggregate() override;
    void DoDispose() override;

  private:
    void Turn();
    void Input();
    void Output();
    void Sleep();
    uint64_t NowUs() const;

    Ptr<UstackPort> m_port;
    Ptr<Node> m_node;
    Ptr<UniformRandomVariable> m_random;
    us_stack *m_stack{nullptr};
    void *m_memory{nullptr};
    unsigned long m_bytes{0};
    std::vector<Ptr<UstackSocket>> m_sockets; //!< with a connection or listener
    std::vector<uint8_t> m_out;               //!< the frame to be filled
    Address m_address;
    EventId m_turn;  //!< as soon as possible
    EventId m_timer; //!< at m_timerUs
    uint64_t m_timerUs{0};
    uint32_t m_rxCaps{0}; //!< flags of received frames
    TracedCallback<Ptr<const Packet>> m_txTrace;
    TracedCallback<Ptr<const Packet>> m_rxTrace;
};

/** Fills *to from an Ipv4Address or Ipv6Address; false if it is neither. */
bool UstackAddressFrom(const Address &from, us_addr *to);

/** An Ipv4Address or Ipv6Address. */
Address UstackAddressTo(const us_addr &from);

} // namespace ns3

#endif
