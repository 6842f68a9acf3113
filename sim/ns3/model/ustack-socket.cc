/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets of UstackStack; see ustack-socket.h. */
#include "ustack-socket.h"

#include "ns3/boolean.h"
#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("UstackSocket");
NS_OBJECT_ENSURE_REGISTERED(UstackSocket);

namespace
{

constexpr unsigned ECN_BITS = 2; // of the type of service and the traffic class, RFC 3168 section 5

Address
SocketAddress(const us_addr& addr, uint16_t port)
{
    Address host = UstackAddressTo(addr);

    if (addr.family == US_IP4)
    {
        return InetSocketAddress(Ipv4Address::ConvertFrom(host), port);
    }
    return Inet6SocketAddress(Ipv6Address::ConvertFrom(host), port);
}

bool
ParseSocketAddress(const Address& from, us_addr* addr, uint16_t* port)
{
    if (InetSocketAddress::IsMatchingType(from))
    {
        InetSocketAddress to = InetSocketAddress::ConvertFrom(from);
        *port = to.GetPort();
        return UstackAddressFrom(to.GetIpv4(), addr);
    }
    if (Inet6SocketAddress::IsMatchingType(from))
    {
        Inet6SocketAddress to = Inet6SocketAddress::ConvertFrom(from);
        *port = to.GetPort();
        return UstackAddressFrom(to.GetIpv6(), addr);
    }
    return false;
}

} // namespace

TypeId
UstackSocket::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::UstackSocket")
            .SetParent<Socket>()
            .SetGroupName("Ustack")
            .AddConstructor<UstackSocket>()
            .AddAttribute("RcvBufSize",
                          "Received bytes that wait for Recv() before the window closes",
                          UintegerValue(128 * 1024),
                          MakeUintegerAccessor(&UstackSocket::m_rcvBufSize),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("TraceWindow",
                          "Trace each congestion window, which the fast path leaves out",
                          BooleanValue(true),
                          MakeBooleanAccessor(&UstackSocket::m_watch),
                          MakeBooleanChecker())
            .AddTraceSource("CongestionWindow",
                            "The congestion window, bytes",
                            MakeTraceSourceAccessor(&UstackSocket::m_cwnd),
                            "ns3::TracedValueCallback::Uint32")
            .AddTraceSource("SlowStartThreshold",
                            "The slow start threshold, bytes",
                            MakeTraceSourceAccessor(&UstackSocket::m_ssthresh),
                            "ns3::TracedValueCallback::Uint32")
            .AddTraceSource("RTT",
                            "The smoothed round-trip time",
                            MakeTraceSourceAccessor(&UstackSocket::m_rtt),
                            "ns3::TracedValueCallback::Time")
            .AddTraceSource("State",
                            "enum us_tcp_state",
                            MakeTraceSourceAccessor(&UstackSocket::m_state),
                            "ns3::TracedValueCallback::Uint32");
    return tid;
}

UstackSocket::UstackSocket() = default;
UstackSocket::~UstackSocket() = default;

void
UstackSocket::SetStack(Ptr<UstackStack> stack)
{
    m_stack = stack;
}

int
UstackSocket::Fail(enum SocketErrno error) const
{
    m_errno = error;
    return -1;
}

enum Socket::SocketErrno
UstackSocket::GetErrno() const
{
    return m_errno;
}

enum Socket::SocketType
UstackSocket::GetSocketType() const
{
    return NS3_SOCK_STREAM;
}

Ptr<Node>
UstackSocket::GetNode() const
{
    return m_stack ? m_stack->GetObject<Node>() : nullptr;
}

/* ---- opening ---- */

int
UstackSocket::Bind(const Address& address)
{
    us_addr addr;

    if (!ParseSocketAddress(address, &addr, &m_port))
    {
        return Fail(ERROR_INVAL);
    }
    return 0; // a listening port accepts on all addresses of its stack
}

int
UstackSocket::Bind()
{
    m_port = 0;
    return 0;
}

int
UstackSocket::Bind6()
{
    return Bind();
}

int
UstackSocket::Listen()
{
    if (m_conn || m_listening)
    {
        return Fail(ERROR_INVAL);
    }
    if (us_listen(m_stack->Now(), m_port, this) != US_OK)
    {
        return Fail(ERROR_ADDRINUSE);
    }
    m_listening = true;
    m_stack->Hold(this);
    return 0;
}

int
UstackSocket::Connect(const Address& address)
{
    us_addr addr;
    uint16_t port;
    int error;

    if (m_conn || m_listening)
    {
        return Fail(ERROR_ISCONN);
    }
    if (!ParseSocketAddress(address, &addr, &port))
    {
        return Fail(ERROR_INVAL);
    }
    m_conn = us_connect(m_stack->Now(), &addr, port, m_port, this, &error);
    if (!m_conn)
    {
        return Fail(error == US_ERR_NO_ROUTE ? ERROR_NOROUTETOHOST : ERROR_ADDRNOTAVAIL);
    }
    us_conn_watch_cwnd(m_stack->Now(), m_conn, m_watch);
    SetHeader();
    m_stack->Hold(this);
    m_stack->Kick();
    return 0;
}

/* ---- sending ---- */

uint32_t
UstackSocket::GetTxAvailable() const
{
    return m_conn && !m_closing ? us_send_room(m_stack->Now(), m_conn) : 0;
}

int
UstackSocket::Send(Ptr<Packet> p, uint32_t flags)
{
    if (!m_conn || m_closing || m_shutdownSend)
    {
        return Fail(m_conn ? ERROR_SHUTDOWN : ERROR_NOTCONN);
    }
    us_stack* stack = m_stack->Now();
    uint32_t size = p->GetSize();
    if (size > us_send_room(stack, m_conn))
    {
        us_request_sendable(stack, m_conn);
        return Fail(ERROR_MSGSIZE);
    }
    std::vector<uint8_t> bytes(size);
    p->CopyData(bytes.data(), size);
    SetHeader();
    long taken = us_send(stack, m_conn, bytes.data(), size);
    m_stack->Kick();
    if (taken <= 0 && size > 0)
    {
        return Fail(ERROR_AGAIN);
    }
    NotifyDataSent(static_cast<uint32_t>(taken));
    return static_cast<int>(taken);
}

int
UstackSocket::SendTo(Ptr<Packet> p, uint32_t flags, const Address& toAddress)
{
    return Send(p, flags);
}

/* ---- receiving ---- */

uint32_t
UstackSocket::GetRxAvailable() const
{
    return m_receivedBytes;
}

Ptr<Packet>
UstackSocket::Recv(uint32_t maxSize, uint32_t flags)
{
    Ptr<Packet> packet;

    if (m_received.empty())
    {
        m_errno = m_peerClosed ? ERROR_NOTERROR : ERROR_AGAIN;
        return m_peerClosed ? Create<Packet>() : nullptr;
    }
    packet = m_received.front();
    m_received.pop_front();
    if (packet->GetSize() > maxSize)
    {
        m_received.push_front(packet->CreateFragment(maxSize, packet->GetSize() - maxSize));
        packet = packet->CreateFragment(0, maxSize);
    }
    m_receivedBytes -= packet->GetSize();
    if (m_held && m_conn && m_receivedBytes <= m_rcvBufSize / 2)
    {
        m_held = false;
        us_recv_resume(m_stack->Now(), m_conn);
        m_stack->Kick();
    }
    return packet;
}

Ptr<Packet>
UstackSocket::RecvFrom(uint32_t maxSize, uint32_t flags, Address& fromAddress)
{
    Ptr<Packet> packet = Recv(maxSize, flags);

    GetPeerName(fromAddress);
    return packet;
}

void
UstackSocket::Received(const us_event& event)
{
    uint32_t room = m_rcvBufSize > m_receivedBytes ? m_rcvBufSize - m_receivedBytes : 0;
    uint32_t len = m_shutdownRecv ? event.len : std::min<uint32_t>(event.len, room);

    if (len < event.len)
    {
        m_held = true;
        us_recv_keep(m_stack->Now(), m_conn, event.data + len, event.len - len);
    }
    if (m_shutdownRecv || len == 0)
    {
        return;
    }
    m_received.push_back(Create<Packet>(event.data, len));
    m_receivedBytes += len;
    NotifyDataRecv();
}

/* ---- closing ---- */

int
UstackSocket::Close()
{
    if (m_listening)
    {
        m_listening = false;
        us_unlisten(m_stack->Now(), m_port);
        m_stack->Release(this);
        return 0;
    }
    if (m_conn && !m_closing)
    {
        m_closing = true;
        us_close(m_stack->Now(), m_conn);
        m_stack->Kick();
    }
    return 0;
}

int
UstackSocket::ShutdownSend()
{
    m_shutdownSend = true;
    if (m_conn && !m_closing)
    {
        Close();
    }
    return 0;
}

int
UstackSocket::ShutdownRecv()
{
    m_shutdownRecv = true;
    m_received.clear();
    m_receivedBytes = 0;
    return 0;
}

void
UstackSocket::Abort()
{
    if (m_conn)
    {
        us_abort(m_stack->Now(), m_conn);
        m_stack->Kick();
    }
}

void
UstackSocket::PeerClosed()
{
    m_peerClosed = true;
    if (m_shutdownSend)
    {
        Close();
    }
    if (!m_closing)
    {
        NotifyNormalClose();
    }
}

void
UstackSocket::Ended(us_close_reason reason)
{
    bool was_connected = m_connected;

    m_conn = nullptr;
    m_connected = false;
    m_state = US_TCP_CLOSED;
    m_stack->Release(this);
    if (!was_connected)
    {
        m_errno = reason == US_CLOSE_REFUSED ? ERROR_SHUTDOWN : ERROR_NOTCONN;
        NotifyConnectionFailed();
    }
    else if (reason != US_CLOSE_NORMAL)
    {
        NotifyErrorClose();
    }
    else if (!m_peerClosed || m_closing)
    {
        NotifyNormalClose();
    }
}

void
UstackSocket::Detach()
{
    m_conn = nullptr;
    m_listening = false;
}

/* ---- events ---- */

void
UstackSocket::Accepted(us_conn* conn)
{
    Ptr<UstackSocket> socket = CopyObject<UstackSocket>(Ptr<UstackSocket>(this));
    us_stack* stack = m_stack->Now();
    ::us_conn_info info;

    us_conn_get_info(stack, conn, &info);
    Address from = SocketAddress(info.remote, info.remote_port);
    socket->m_conn = conn;
    socket->m_listening = false;
    socket->m_connected = true;
    us_conn_set_user(conn, PeekPointer(socket));
    socket->SetHeader();
    m_stack->Hold(socket);
    if (!NotifyConnectionRequest(from))
    {
        socket->Abort();
        return;
    }
    us_conn_watch_cwnd(stack, conn, m_watch);
    NotifyNewConnectionCreated(socket, from);
}

void
UstackSocket::Changed()
{
    ::us_conn_info info;

    if (!GetInfo(&info))
    {
        return;
    }
    m_cwnd = info.cwnd_bytes;
    m_ssthresh = info.ssthresh_bytes;
    m_rtt = MicroSeconds(info.srtt_us);
    m_state = info.state;
}

void
UstackSocket::Dispatch(UstackStack* stack, const us_event& event)
{
    Ptr<UstackSocket> socket = static_cast<UstackSocket*>(event.user);

    if (!socket)
    {
        return; // UDP and references are not used
    }
    socket->Changed();
    switch (event.type)
    {
    case US_EV_ACCEPTED:
        socket->Accepted(event.conn);
        break;
    case US_EV_CONNECTED:
        socket->m_connected = true;
        socket->NotifyConnectionSucceeded();
        if (socket->m_conn)
        {
            socket->NotifySend(socket->GetTxAvailable());
        }
        break;
    case US_EV_DATA:
        socket->Received(event);
        break;
    case US_EV_PEER_CLOSED:
        socket->PeerClosed();
        break;
    case US_EV_SENDABLE:
        socket->NotifySend(socket->GetTxAvailable());
        break;
    case US_EV_CLOSED:
        socket->Ended(event.reason);
        break;
    case US_EV_CWND:
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
    case US_EV_NONE:
        break;
    }
}

/* ---- inspection ---- */

bool
UstackSocket::GetInfo(::us_conn_info* info) const
{
    if (!m_conn)
    {
        return false;
    }
    us_conn_get_info(m_stack->Now(), m_conn, info);
    return true;
}

int
UstackSocket::GetSockName(Address& address) const
{
    ::us_conn_info info;
    us_addr addr;

    if (GetInfo(&info))
    {
        address = SocketAddress(info.local, info.local_port);
        return 0;
    }
    if (!UstackAddressFrom(m_stack->GetAddress(), &addr))
    {
        return Fail(ERROR_INVAL);
    }
    address = SocketAddress(addr, m_port);
    return 0;
}

int
UstackSocket::GetPeerName(Address& address) const
{
    ::us_conn_info info;

    if (!GetInfo(&info))
    {
        return Fail(ERROR_NOTCONN);
    }
    address = SocketAddress(info.remote, info.remote_port);
    return 0;
}

bool
UstackSocket::SetAllowBroadcast(bool allowBroadcast)
{
    return !allowBroadcast;
}

bool
UstackSocket::GetAllowBroadcast() const
{
    return false;
}

void
UstackSocket::SetIpTtl(uint8_t ipTtl)
{
    Socket::SetIpTtl(ipTtl);
    SetHeader();
}

void
UstackSocket::SetIpv6HopLimit(uint8_t ipHopLimit)
{
    Socket::SetIpv6HopLimit(ipHopLimit);
    SetHeader();
}

/* SetIpTos() and SetIpv6Tclass() are not virtual: Send() looks for what they have set. */
void
UstackSocket::SetHeader()
{
    ::us_conn_info info;

    if (!GetInfo(&info))
    {
        return;
    }
    bool ip4 = info.remote.family == US_IP4;
    uint8_t ttl = ip4 ? GetIpTtl() : GetIpv6HopLimit();
    uint8_t tos = ip4 ? GetIpTos() : GetIpv6Tclass();
    if (ttl > 0)
    {
        us_conn_set_ttl(m_conn, ttl);
    }
    us_conn_set_dscp(m_conn, tos >> ECN_BITS);
}

} // namespace ns3
