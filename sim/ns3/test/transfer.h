/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender and a receiver of a stream of which every byte is known. */
#ifndef NS3_USTACK_TEST_TRANSFER_H
#define NS3_USTACK_TEST_TRANSFER_H

#include "ns3/network-module.h"

namespace ns3test
{

using namespace ns3;

/** Sends bytes over a connection in one or both directions and checks all that arrives. */
class Transfer
{
  public:
    /** The sender opens the connection; both send `bytes` if both is true. 0: without end. */
    Transfer(Ptr<Node> sender, TypeId senderTcp, Ptr<Node> receiver, TypeId receiverTcp,
             const Address &receiverAddress, uint16_t port, uint64_t bytes, bool both = false);

    /** Alters one byte that is sent: it must be noticed. */
    void AlterByte(uint64_t at);

    /** Whether all bytes arrived, in order and right, and both sides have closed. */
    bool IsComplete() const;

    /** Bytes that arrived at the receiver. */
    uint64_t Received() const;

    /** Bytes that were wrong, or beyond the end. */
    uint64_t Wrong() const;

    /** Prints what both sides have done. */
    void Print() const;

    /** When the last byte arrived. */
    Time FinishedAt() const;

    /** The sender's socket. */
    Ptr<Socket> GetSender() const;

  private:
    struct Side {
        Ptr<Socket> socket;
        uint64_t sent{0};
        uint64_t received{0};
        uint64_t sending{0};
        uint64_t wrong{0};
        bool closed{false};
        bool peerClosed{false};
        uint8_t salt{0};
    };

    void Start(Ptr<Socket> socket);
    void Accept(Ptr<Socket> socket, const Address &from);
    void Room(Ptr<Socket> socket, uint32_t room);
    void Read(Ptr<Socket> socket);
    void Closed(Ptr<Socket> socket);
    void Pump(Side &side);
    Side &SideOf(Ptr<Socket> socket);
    uint8_t Byte(const Side &side, uint64_t at) const;

    Ptr<Socket> m_listener;
    Side m_side[2]; //!< 0: the one that opens
    uint64_t m_bytes;
    uint64_t m_alterAt{UINT64_MAX};
    Time m_finished;
};

} // namespace ns3test

#endif
