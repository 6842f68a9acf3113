/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets of UstackStack behind ns3::Socket, so that ns-3's applications run over libustack. */
#ifndef NS3_USTACK_SOCKET_H
#define NS3_USTACK_SOCKET_H

#include <deque>

#include "ustack-stack.h"

#include "ns3/socket.h"
#include "ns3/traced-value.h"

namespace ns3
{

/**
 * A TCP socket: a listening port or a connection. Like TcpSocketBase it queues a packet as a whole
 * or not at all, closes its side by itself if ShutdownSend() was called and the peer has closed,
 * and reports room by the send callback.
 *
 * TTL, hop limit, and the DSCP of type of service and traffic class apply from Connect() on; of a
 * listening socket, to the connections it accepts, from their first packet after the handshake on.
 * SetIpTos() and SetIpv6Tclass() on a connection take effect with the next Send().
 */
class UstackSocket : public Socket
{
  public:
    static TypeId GetTypeId();

    UstackSocket();
    ~UstackSocket() override;

    /** The stack that it belongs to; UstackSocketFactory sets it. */
    void SetStack(Ptr<UstackStack> stack);

    enum SocketErrno GetErrno() const override;
    enum SocketType GetSocketType() const override;
    Ptr<Node> GetNode() const override;
    int Bind(const Address &address) override;
    int Bind() override;
    int Bind6() override;
    int Close() override;
    int ShutdownSend() override;
    int ShutdownRecv() override;
    int Connect(const Address &address) override;
    int Listen() override;
    uint32_t GetTxAvailable() const override;
    int Send(Ptr<Packet> p, uint32_t flags) override;
    int SendTo(Ptr<Packet> p, uint32_t flags, const Address &toAddress) override;
    uint32_t GetRxAvailable() const override;
    Ptr<Packet> Recv(uint32_t maxSize, uint32_t flags) override;
    Ptr<Packet> RecvFrom(uint32_t maxSize, uint32_t flags, Address &fromAddress) override;
    int GetSockName(Address &address) const override;
    int GetPeerName(Address &address) const override;
    bool SetAllowBroadcast(bool allowBroadcast) override;
    bool GetAllowBroadcast() const override;
    void SetIpTtl(uint8_t ipTtl) override;
    void SetIpv6HopLimit(uint8_t ipHopLimit) override;

    /** us_conn_get_info(); false if there is no connection. */
    bool GetInfo(::us_conn_info *info) const;

    /** Ends the connection by a RST. */
    void Abort();

    /** For UstackStack: passes an event on to its socket. */
    static void Dispatch(UstackStack *stack, const us_event &event);

    /** For UstackStack: the instance ends. */
    void Detach();

  private:
    friend class UstackStack;

    void Accepted(us_conn *conn);
    void Received(const us_event &event);
    void PeerClosed();
    void Ended(us_close_reason reason);
    void Changed();
    void SetHeader();
    int Fail(enum SocketErrno error) const;

    Ptr<UstackStack> m_stack;
    us_conn *m_conn{nullptr};
    std::size_t m_index{0}; //!< in the stack's list
    uint16_t m_port{0};     //!< local
    bool m_listening{false};
    bool m_connected{false};
    bool m_shutdownSend{false};
    bool m_shutdownRecv{false};
    bool m_closing{false}; //!< Close() was called
    bool m_peerClosed{false};
    bool m_held{false}; //!< us_recv_keep() was called
    uint32_t m_rcvBufSize{0};
    std::deque<Ptr<Packet>> m_received;
    uint32_t m_receivedBytes{0};
    mutable enum SocketErrno m_errno { ERROR_NOTERROR };

    bool m_watch{true};
    TracedValue<uint32_t> m_cwnd{0};
    TracedValue<uint32_t> m_ssthresh{0};
    TracedValue<Time> m_rtt{Time(0)};
    TracedValue<uint32_t> m_state{US_TCP_CLOSED};
};

} // namespace ns3

#endif
