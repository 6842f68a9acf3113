/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of an ns3::NetDevice, as Ethernet frames in memory: what UstackStack and UcachedServer
 * receive and send. ns-3 hands over packets without their link-layer header, so the port builds one
 * from the addresses; to send, it takes it off again.
 */
#ifndef NS3_USTACK_PORT_H
#define NS3_USTACK_PORT_H

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ns3/callback.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/pcap-file-wrapper.h"
#include "ns3/simple-ref-count.h"
#include "ns3/traced-callback.h"

namespace ns3
{

/** Ethernet frames of one NetDevice, with back-pressure from its transmit queue. */
class UstackPort : public SimpleRefCount<UstackPort>
{
  public:
    /** An Ethernet frame. */
    using Frame = std::vector<uint8_t>;

    /** Frames received beyond this many are dropped and counted. */
    static constexpr std::size_t RX_MAX = 65536;

    /** Registers for all packets of the device, which belongs to a node. */
    explicit UstackPort(Ptr<NetDevice> device);

    /** Called when a frame has arrived, or when the device takes frames again. */
    void SetWake(Callback<void> wake);

    /** Stops receiving; no callback follows. */
    void Close();

    /** Takes the oldest received frame; false if there is none. */
    bool Receive(Frame &frame);

    /** Frames received and not taken. */
    std::size_t Received() const;

    /** Whether the device takes a frame now; if not, the wake callback follows. */
    bool HasRoom();

    /** Sends a frame; it is lost, and counted, if the device refuses it. */
    void Send(const uint8_t *bytes, uint32_t len);

    /** The device's address. */
    void CopyMac(uint8_t mac[6]) const;

    /** Whether the link has no address resolution (PointToPointNetDevice). */
    bool IsPointToPoint() const;

    /** The device. */
    Ptr<NetDevice> GetDevice() const;

    /** Whether checksums are to be computed: the global value ChecksumEnabled. */
    static bool ChecksumsAreOn();

    /** Writes received and sent frames to PREFIX-NODE-DEVICE.pcap. */
    void EnablePcap(const std::string &prefix);

    /** Frames that the device has refused, and that came while RX_MAX were waiting. */
    uint64_t GetDropped() const;

    TracedCallback<Ptr<const Packet>> m_tx; //!< frames sent
    TracedCallback<Ptr<const Packet>> m_rx; //!< frames received

  private:
    void Take(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t protocol,
              const Address &from, const Address &to, NetDevice::PacketType type);
    void Dequeued(Ptr<const Packet> packet);
    void Trace(const uint8_t *bytes, uint32_t len, bool sent);

    Ptr<NetDevice> m_device;
    Ptr<Node> m_node;
    Ptr<Object> m_queue; //!< the device's TxQueue, or null
    Callback<void> m_wake;
    std::deque<Frame> m_received;
    Ptr<PcapFileWrapper> m_pcap;
    uint64_t m_dropped{0};
    bool m_stalled{false}; //!< HasRoom() has returned false
};

} // namespace ns3

#endif
