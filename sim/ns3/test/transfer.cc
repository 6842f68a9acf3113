/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of which every byte is known; see transfer.h. */
#include "transfer.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"

namespace ns3test
{

namespace
{

constexpr uint32_t CHUNK_BYTES = 20000;

Address
WithPort(const Address& host, uint16_t port)
{
    if (Ipv4Address::IsMatchingType(host))
    {
        return InetSocketAddress(Ipv4Address::ConvertFrom(host), port);
    }
    return Inet6SocketAddress(Ipv6Address::ConvertFrom(host), port);
}

Address
AnyWithPort(const Address& host, uint16_t port)
{
    if (Ipv4Address::IsMatchingType(host))
    {
        return InetSocketAddress(Ipv4Address::GetAny(), port);
    }
    return Inet6SocketAddress(Ipv6Address::GetAny(), port);
}

} // namespace

Transfer::Transfer(Ptr<Node> sender, TypeId senderTcp, Ptr<Node> receiver, TypeId receiverTcp,
                   const Address& receiverAddress, uint16_t port, uint64_t bytes, bool both)
    : m_bytes(bytes == 0 ? UINT64_MAX : bytes)
{
    m_side[0].salt = 3;
    m_side[1].salt = 101;
    m_side[0].sending = m_bytes;
    m_side[1].sending = both ? m_bytes : 0;
    m_listener = Socket::CreateSocket(receiver, receiverTcp);
    m_listener->Bind(AnyWithPort(receiverAddress, port));
    m_listener->Listen();
    m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                  MakeCallback(&Transfer::Accept, this));
    Ptr<Socket> socket = Socket::CreateSocket(sender, senderTcp);
    m_side[0].socket = socket;
    if (Ipv4Address::IsMatchingType(receiverAddress))
    {
        socket->Bind();
    }
    else
    {
        socket->Bind6();
    }
    socket->SetConnectCallback(MakeCallback(&Transfer::Start, this),
                               MakeNullCallback<void, Ptr<Socket>>());
    socket->Connect(WithPort(receiverAddress, port));
}

void
Transfer::AlterByte(uint64_t at)
{
    m_alterAt = at;
}

Transfer::Side&
Transfer::SideOf(Ptr<Socket> socket)
{
    return socket == m_side[0].socket ? m_side[0] : m_side[1];
}

void
Transfer::Start(Ptr<Socket> socket)
{
    socket->SetSendCallback(MakeCallback(&Transfer::Room, this));
    socket->SetRecvCallback(MakeCallback(&Transfer::Read, this));
    socket->SetCloseCallbacks(MakeCallback(&Transfer::Closed, this),
                              MakeCallback(&Transfer::Closed, this));
    Pump(SideOf(socket));
}

void
Transfer::Accept(Ptr<Socket> socket, const Address& from)
{
    m_side[1].socket = socket;
    Start(socket);
}

void
Transfer::Room(Ptr<Socket> socket, uint32_t room)
{
    Pump(SideOf(socket));
}

uint8_t
Transfer::Byte(const Side& side, uint64_t at) const
{
    return static_cast<uint8_t>((at * 2654435761u >> 13) + side.salt);
}

void
Transfer::Pump(Side& side)
{
    while (side.sent < side.sending)
    {
        uint32_t room = side.socket->GetTxAvailable();
        uint64_t left = side.sending - side.sent;
        uint32_t len = static_cast<uint32_t>(std::min<uint64_t>({room, left, CHUNK_BYTES}));
        if (len == 0 || (len < CHUNK_BYTES && len < left))
        {
            len = static_cast<uint32_t>(std::min<uint64_t>(left, CHUNK_BYTES)); // asks for room
        }
        std::vector<uint8_t> bytes(len);
        for (uint32_t i = 0; i < len; i++)
        {
            bytes[i] = static_cast<uint8_t>(Byte(side, side.sent + i) ^
                                            (side.sent + i == m_alterAt ? 1 : 0));
        }
        int taken = side.socket->Send(Create<Packet>(bytes.data(), len));
        if (taken <= 0)
        {
            return;
        }
        side.sent += taken;
    }
    if (!side.closed && (side.sending > 0 || side.peerClosed))
    {
        side.closed = true;
        side.socket->Close();
    }
}

void
Transfer::Read(Ptr<Socket> socket)
{
    Side& side = SideOf(socket);
    const Side& other = m_side[&side == &m_side[0] ? 1 : 0];

    while (Ptr<Packet> packet = socket->Recv())
    {
        std::vector<uint8_t> bytes(packet->GetSize());
        if (bytes.empty())
        {
            break;
        }
        packet->CopyData(bytes.data(), bytes.size());
        for (uint8_t byte : bytes)
        {
            side.wrong += byte != Byte(other, side.received) || side.received >= other.sending;
            side.received++;
        }
        m_finished = Simulator::Now();
    }
}

void
Transfer::Closed(Ptr<Socket> socket)
{
    Side& side = SideOf(socket);

    Read(socket);
    side.peerClosed = true;
    Pump(side);
}

bool
Transfer::IsComplete() const
{
    return m_side[1].received == m_side[0].sending && m_side[0].received == m_side[1].sending &&
           Wrong() == 0 && m_side[0].closed && m_side[1].closed;
}

uint64_t
Transfer::Received() const
{
    return m_side[1].received;
}

uint64_t
Transfer::Wrong() const
{
    return m_side[0].wrong + m_side[1].wrong;
}

void
Transfer::Print() const
{
    for (const Side& side : m_side)
    {
        std::printf("  sent %llu, received %llu, wrong %llu, closed %d, closed by the peer %d\n",
                    (unsigned long long)side.sent, (unsigned long long)side.received,
                    (unsigned long long)side.wrong, side.closed, side.peerClosed);
    }
}

Time
Transfer::FinishedAt() const
{
    return m_finished;
}

Ptr<Socket>
Transfer::GetSender() const
{
    return m_side[0].socket;
}

} // namespace ns3test
