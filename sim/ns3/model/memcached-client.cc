/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of memcached's text protocol; see memcached-client.h. */
#include "memcached-client.h"

#include "ustack-socket-factory.h"

#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MemcachedClient");
NS_OBJECT_ENSURE_REGISTERED(MemcachedClient);

namespace
{
constexpr uint32_t READ_BYTES = 1 << 20;
}

TypeId
MemcachedClient::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MemcachedClient")
            .SetParent<Application>()
            .SetGroupName("Ustack")
            .AddConstructor<MemcachedClient>()
            .AddAttribute("Remote",
                          "The server: an InetSocketAddress or Inet6SocketAddress",
                          AddressValue(),
                          MakeAddressAccessor(&MemcachedClient::m_remote),
                          MakeAddressChecker())
            .AddAttribute("Protocol",
                          "The socket factory",
                          TypeIdValue(UstackSocketFactory::GetTypeId()),
                          MakeTypeIdAccessor(&MemcachedClient::m_protocol),
                          MakeTypeIdChecker())
            .AddAttribute("Requests",
                          "Requests in all, those that store the keys included; 0: no limit",
                          UintegerValue(0),
                          MakeUintegerAccessor(&MemcachedClient::m_requests),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("Outstanding",
                          "Closed loop: requests at the same time",
                          UintegerValue(1),
                          MakeUintegerAccessor(&MemcachedClient::m_outstanding),
                          MakeUintegerChecker<uint32_t>(1, 4096))
            .AddAttribute("Interval",
                          "Open loop: time between requests; 0: closed loop",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&MemcachedClient::m_interval),
                          MakeTimeChecker())
            .AddAttribute("ByHand",
                          "No loop: AskOnce() sends each request",
                          BooleanValue(false),
                          MakeBooleanAccessor(&MemcachedClient::m_byHand),
                          MakeBooleanChecker())
            .AddAttribute("Keys",
                          "Keys of the client",
                          UintegerValue(4),
                          MakeUintegerAccessor(&MemcachedClient::m_keys),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("ValueBytes",
                          "Bytes of a value",
                          UintegerValue(1000),
                          MakeUintegerAccessor(&MemcachedClient::m_valueBytes),
                          MakeUintegerChecker<uint32_t>(1, 1000000))
            .AddTraceSource("Latency",
                            "A reply is complete and right: the time since its request",
                            MakeTraceSourceAccessor(&MemcachedClient::m_latency),
                            "ns3::MemcachedClient::LatencyCallback");
    return tid;
}

MemcachedClient::MemcachedClient()
    : m_random(CreateObject<UniformRandomVariable>())
{
}

MemcachedClient::~MemcachedClient() = default;

int64_t
MemcachedClient::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

uint64_t
MemcachedClient::GetReplies() const
{
    return m_replies;
}

uint64_t
MemcachedClient::GetBytes() const
{
    return m_bytes;
}

uint64_t
MemcachedClient::GetErrors() const
{
    return m_errors;
}

bool
MemcachedClient::IsDone() const
{
    return m_requests > 0 && m_replies == m_requests;
}

void
MemcachedClient::DoDispose()
{
    m_next.Cancel();
    m_socket = nullptr;
    Application::DoDispose();
}

std::string
MemcachedClient::Key(uint32_t key) const
{
    return m_prefix + std::to_string(key);
}

/* Every byte follows from the client and the key. */
std::string
MemcachedClient::Value(uint32_t key) const
{
    std::string value(m_valueBytes, 0);
    uint32_t state = key * 2654435761u + GetNode()->GetId() * 40503u + 1;

    for (char& c : value)
    {
        state = state * 1664525u + 1013904223u;
        c = static_cast<char>(state >> 24);
    }
    return value;
}

void
MemcachedClient::StartApplication()
{
    uint32_t index = 0;

    while (index < GetNode()->GetNApplications() && GetNode()->GetApplication(index) != this)
    {
        index++;
    }
    m_prefix = "n" + std::to_string(GetNode()->GetId()) + "a" + std::to_string(index) + "k";
    m_socket = Socket::CreateSocket(GetNode(), m_protocol);
    m_socket->SetConnectCallback(MakeCallback(&MemcachedClient::Connected, this),
                                 MakeCallback(&MemcachedClient::Failed, this));
    m_socket->SetCloseCallbacks(MakeCallback(&MemcachedClient::Closed, this),
                                MakeCallback(&MemcachedClient::Closed, this));
    m_socket->SetRecvCallback(MakeCallback(&MemcachedClient::Readable, this));
    m_socket->SetSendCallback(MakeCallback(&MemcachedClient::Writable, this));
    if (InetSocketAddress::IsMatchingType(m_remote))
    {
        m_socket->Bind();
    }
    else
    {
        m_socket->Bind6();
    }
    m_socket->Connect(m_remote);
}

void
MemcachedClient::StopApplication()
{
    m_stopped = true;
    m_next.Cancel();
    if (m_socket)
    {
        m_socket->Close();
    }
}

void
MemcachedClient::Connected(Ptr<Socket> socket)
{
    if (m_byHand)
    {
        return;
    }
    if (m_interval.IsZero())
    {
        Fill();
    }
    else
    {
        Ask();
    }
}

void
MemcachedClient::AskOnce()
{
    Ask();
}

void
MemcachedClient::Failed(Ptr<Socket> socket)
{
    m_errors++;
}

void
MemcachedClient::Closed(Ptr<Socket> socket)
{
    if (m_stopped)
    {
        return;
    }
    m_errors += IsDone() ? 0 : 1;
    StopApplication();
}

/* Queues one request; in an open loop the next one follows. */
void
MemcachedClient::Ask()
{
    if (m_requests > 0 && m_asked == m_requests)
    {
        return;
    }
    bool is_set = m_asked < m_keys;
    uint32_t key = is_set ? m_asked : m_random->GetInteger(0, m_keys - 1);

    if (is_set)
    {
        m_out += "set " + Key(key) + " 0 0 " + std::to_string(m_valueBytes) + "\r\n" + Value(key) +
                 "\r\n";
    }
    else
    {
        m_out += "get " + Key(key) + "\r\n";
    }
    m_asked++;
    m_waiting.push_back({key, is_set, Simulator::Now()});
    Flush();
    if (!m_interval.IsZero())
    {
        m_next = Simulator::Schedule(m_interval, &MemcachedClient::Ask, this);
    }
}

void
MemcachedClient::Fill()
{
    while (m_waiting.size() < m_outstanding && (m_requests == 0 || m_asked < m_requests))
    {
        Ask();
    }
}

void
MemcachedClient::Flush()
{
    while (!m_out.empty())
    {
        uint32_t bytes = std::min<uint32_t>(m_out.size(), m_socket->GetTxAvailable());
        int sent = bytes == 0 ? -1
                              : m_socket->Send(Create<Packet>(
                                    reinterpret_cast<const uint8_t*>(m_out.data()), bytes));
        if (sent <= 0)
        {
            return;
        }
        m_out.erase(0, sent);
    }
}

void
MemcachedClient::Writable(Ptr<Socket> socket, uint32_t room)
{
    Flush();
}

void
MemcachedClient::Readable(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv(READ_BYTES, 0))
    {
        if (packet->GetSize() == 0)
        {
            break;
        }
        std::size_t before = m_in.size();
        m_in.resize(before + packet->GetSize());
        packet->CopyData(reinterpret_cast<uint8_t*>(&m_in[before]), packet->GetSize());
    }
    Parse();
}

/*
 * Takes one reply off m_in if it is complete. A wrong one counts as an error. The value is compared
 * when all of it is there.
 */
bool
MemcachedClient::TakeReply(const Request& request)
{
    std::string head = "STORED\r\n";
    std::string rest;

    if (!request.isSet)
    {
        head = "VALUE " + Key(request.key) + " 0 " + std::to_string(m_valueBytes) + "\r\n";
        rest = "\r\nEND\r\n";
    }
    std::size_t size = head.size() + (request.isSet ? 0 : m_valueBytes) + rest.size();
    bool complete = m_in.size() >= size;
    bool right = head.compare(0, m_in.size(), m_in, 0, head.size()) == 0;
    if (right && complete && !request.isSet)
    {
        right = m_in.compare(head.size(), size - head.size(), Value(request.key) + rest) == 0;
    }
    if (!right)
    {
        m_errors++;
        StopApplication();
        return false;
    }
    if (!complete)
    {
        return false;
    }
    m_in.erase(0, size);
    m_bytes += request.isSet ? 0 : m_valueBytes;
    return true;
}

void
MemcachedClient::Parse()
{
    while (!m_in.empty() && m_errors == 0)
    {
        if (m_waiting.empty())
        {
            m_errors++; // a reply to nothing
            return;
        }
        Request request = m_waiting.front();
        if (!TakeReply(request))
        {
            return;
        }
        m_waiting.pop_front();
        m_replies++;
        m_latency(Simulator::Now() - request.sent);
        if (m_interval.IsZero() && !m_byHand)
        {
            Fill();
        }
    }
}

} // namespace ns3
