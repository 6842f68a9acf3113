/* SPDX-License-Identifier: BSD-3-Clause */
/* libustack on a node; see ustack-stack.h. */
#include "ustack-stack.h"

#include <cstring>
#include <sys/mman.h>

#include "ustack-config.h"
#include "ustack-socket-factory.h"
#include "ustack-socket.h"

#include "ns3/enum.h"
#include "ns3/log.h"
#include "ns3/mac48-address.h"
#include "ns3/object-vector.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("UstackStack");
NS_OBJECT_ENSURE_REGISTERED(UstackStack);

namespace
{

constexpr unsigned BURST = 32;
constexpr uint32_t HEADERS_MAX = 18;

/* Queues of a connection that no attribute says otherwise: for 100 Mbit/s and 160 ms. */
constexpr uint32_t CONNECTIONS = 256;
constexpr uint32_t QUEUE_BYTES = 2 << 20;

us_config
Defaults()
{
    us_config config;

    std::memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    us_config_fit(&config, CONNECTIONS, QUEUE_BYTES);
    return config;
}

} // namespace

TypeId
UstackStack::GetTypeId()
{
    const us_config defaults = Defaults();
#define ROW(member, name, help)                                                                    \
    .AddAttribute(name,                                                                            \
                  help,                                                                            \
                  UintegerValue(defaults.member),                                                  \
                  MakeUintegerAccessor(static_cast<u_u32 UstackStack::*>(&us_config::member)),     \
                  MakeUintegerChecker<uint32_t>())
    static TypeId tid =
        TypeId("ns3::UstackStack")
            .SetParent<Object>()
            .SetGroupName("Ustack")
            .AddConstructor<UstackStack>() USTACK_CONFIG_ROWS(ROW)
            .AddAttribute("CongestionControl",
                          "Congestion control of new connections",
                          EnumValue(US_CC_CUBIC),
                          MakeEnumAccessor(static_cast<u_u32 UstackStack::*>(&us_config::cc)),
                          MakeEnumChecker(US_CC_RENO, "Reno", US_CC_CUBIC, "Cubic", US_CC_DCTCP,
                                          "Dctcp"))
            .AddAttribute("Ecn",
                          "Explicit congestion notification, RFC 3168",
                          EnumValue(US_ECN_ACCEPT),
                          MakeEnumAccessor(static_cast<u_u32 UstackStack::*>(&us_config::ecn)),
                          MakeEnumChecker(US_ECN_OFF, "Off", US_ECN_ACCEPT, "Accept",
                                          US_ECN_REQUEST, "Request"))
            .AddAttribute("SocketList",
                          "Sockets with a connection or a listening port",
                          ObjectVectorValue(),
                          MakeObjectVectorAccessor(&UstackStack::m_sockets),
                          MakeObjectVectorChecker<UstackSocket>())
            .AddTraceSource("Tx",
                            "An Ethernet frame was given to the device",
                            MakeTraceSourceAccessor(&UstackStack::m_txTrace),
                            "ns3::Packet::TracedCallback")
            .AddTraceSource("Rx",
                            "An Ethernet frame was received",
                            MakeTraceSourceAccessor(&UstackStack::m_rxTrace),
                            "ns3::Packet::TracedCallback");
#undef ROW
    return tid;
}

UstackStack::UstackStack()
    : us_config(Defaults()),
      m_random(CreateObject<UniformRandomVariable>())
{
}

UstackStack::~UstackStack()
{
    if (m_memory)
    {
        munmap(m_memory, m_bytes);
    }
}

void
UstackStack::NotifyNewAggregate()
{
    Ptr<Node> node = GetObject<Node>();

    if (node && !m_node)
    {
        m_node = node;
        Ptr<UstackSocketFactory> factory = CreateObject<UstackSocketFactory>();
        factory->SetStack(this);
        node->AggregateObject(factory);
    }
    Object::NotifyNewAggregate();
}

void
UstackStack::DoDispose()
{
    m_turn.Cancel();
    m_timer.Cancel();
    if (m_port)
    {
        m_port->Close();
        m_port = nullptr;
    }
    for (const Ptr<UstackSocket>& socket : std::vector<Ptr<UstackSocket>>(m_sockets))
    {
        socket->Detach();
    }
    m_sockets.clear();
    m_node = nullptr;
    Object::DoDispose();
}

uint64_t
UstackStack::NowUs() const
{
    return static_cast<uint64_t>(Simulator::Now().GetMicroSeconds());
}

int64_t
UstackStack::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

void
UstackStack::Attach(Ptr<NetDevice> device)
{
    NS_ABORT_MSG_IF(m_stack, "UstackStack has one device: it is attached already");
    m_port = Create<UstackPort>(device);
    m_port->CopyMac(mac);
    for (uint8_t& byte : secret)
    {
        byte = static_cast<uint8_t>(m_random->GetInteger(0, 255));
    }
    mtu = device->GetMtu();
    point_to_point |= m_port->IsPointToPoint();
    if (!UstackPort::ChecksumsAreOn())
    {
        caps |= US_CAP_RX_CSUM | US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM;
        m_rxCaps = US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
    }
    if (const char* error = us_config_error(this))
    {
        NS_ABORT_MSG("UstackStack: " << error);
    }
    m_bytes = us_memory_bytes(this);
    m_memory = mmap(nullptr, m_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    NS_ABORT_MSG_IF(m_memory == MAP_FAILED, "UstackStack: no memory");
    m_stack = us_create(this, m_memory, m_bytes, NowUs());
    m_out.resize(mtu + HEADERS_MAX);
    m_port->m_tx.ConnectWithoutContext(MakeCallback(&TracedCallback<Ptr<const Packet>>::operator(),
                                                    &m_txTrace));
    m_port->m_rx.ConnectWithoutContext(MakeCallback(&TracedCallback<Ptr<const Packet>>::operator(),
                                                    &m_rxTrace));
    m_port->SetWake(MakeCallback(&UstackStack::Kick, this));
}

bool
UstackStack::IsAttached() const
{
    return m_stack != nullptr;
}

bool
UstackAddressFrom(const Address& from, us_addr* to)
{
    std::memset(to, 0, sizeof(*to));
    if (Ipv4Address::IsMatchingType(from))
    {
        to->family = US_IP4;
        Ipv4Address::ConvertFrom(from).Serialize(to->bytes);
        return true;
    }
    if (Ipv6Address::IsMatchingType(from))
    {
        to->family = US_IP6;
        Ipv6Address::ConvertFrom(from).Serialize(to->bytes);
        return true;
    }
    return false;
}

Address
UstackAddressTo(const us_addr& from)
{
    if (from.family == US_IP4)
    {
        return Ipv4Address::Deserialize(from.bytes);
    }
    return Ipv6Address::Deserialize(from.bytes);
}

namespace
{

us_addr
CheckedAddress(const Address& address)
{
    us_addr to;

    NS_ABORT_MSG_UNLESS(UstackAddressFrom(address, &to), "an Ipv4Address or Ipv6Address is needed");
    return to;
}

} // namespace

void
UstackStack::AddAddress(const Address& address, unsigned prefixLength)
{
    us_addr addr = CheckedAddress(address);
    int rc = us_addr_add(Now(), &addr, prefixLength);

    NS_ABORT_MSG_IF(rc != US_OK, "UstackStack::AddAddress(): " << us_strerror(rc));
    if (m_address.IsInvalid())
    {
        m_address = address;
    }
    Kick();
}

void
UstackStack::SetGateway(const Address& address)
{
    us_addr addr = CheckedAddress(address);
    int rc = us_gateway_set(Now(), &addr);

    NS_ABORT_MSG_IF(rc != US_OK, "UstackStack::SetGateway(): " << us_strerror(rc));
}

void
UstackStack::AddNeighbour(const Address& address, const Address& mac)
{
    us_addr addr = CheckedAddress(address);
    uint8_t bytes[6];

    Mac48Address::ConvertFrom(mac).CopyTo(bytes);
    int rc = us_neighbour_add(Now(), &addr, bytes);
    NS_ABORT_MSG_IF(rc != US_OK, "UstackStack::AddNeighbour(): " << us_strerror(rc));
}

Address
UstackStack::GetAddress() const
{
    return m_address;
}

void
UstackStack::EnablePcap(const std::string& prefix)
{
    NS_ABORT_MSG_UNLESS(m_port, "UstackStack::EnablePcap(): there is no device yet");
    m_port->EnablePcap(prefix);
}

uint64_t
UstackStack::GetCounter(const std::string& name) const
{
    for (unsigned i = 0; m_stack && i < us_counter_count(); i++)
    {
        if (name == us_counter_name(i))
        {
            return us_counter(m_stack, i);
        }
    }
    NS_ABORT_MSG("UstackStack::GetCounter(): no counter " << name);
    return 0;
}

const char*
UstackStack::Check() const
{
    return m_stack ? us_check(m_stack) : nullptr;
}

uint64_t
UstackStack::GetDroppedFrames() const
{
    return m_port ? m_port->GetDropped() : 0;
}

us_stack*
UstackStack::Now()
{
    NS_ABORT_MSG_UNLESS(m_stack, "UstackStack: Attach() a device first");
    us_now(m_stack, NowUs());
    return m_stack;
}

void
UstackStack::Hold(Ptr<UstackSocket> socket)
{
    socket->m_index = m_sockets.size();
    m_sockets.push_back(socket);
}

void
UstackStack::Release(UstackSocket* socket)
{
    std::size_t index = socket->m_index;
    Ptr<UstackSocket> keep = m_sockets[index]; // until the list is as it should be

    m_sockets[index] = m_sockets.back();
    m_sockets[index]->m_index = index;
    m_sockets.pop_back();
}

/* ---- the loop ---- */

void
UstackStack::Kick()
{
    if (m_stack && !m_turn.IsRunning())
    {
        m_turn = Simulator::ScheduleNow(&UstackStack::Turn, this);
    }
}

void
UstackStack::Turn()
{
    Input();
    Output();
    Sleep();
}

void
UstackStack::Input()
{
    do
    {
        std::vector<UstackPort::Frame> frames(std::min<std::size_t>(m_port->Received(), BURST));
        us_pkt pkts[BURST];
        us_pkt* list[BURST];
        unsigned n = 0;
        us_event event;

        std::memset(pkts, 0, sizeof(pkts));
        while (n < frames.size() && m_port->Receive(frames[n]))
        {
            pkts[n].data = frames[n].data();
            pkts[n].len = static_cast<u_u32>(frames[n].size());
            pkts[n].flags = m_rxCaps;
            list[n] = &pkts[n];
            n++;
        }
        unsigned done = us_input(m_stack, list, n, NowUs()); // a burst always fits
        NS_ASSERT(done == n);
        while (us_next_event(m_stack, &event))
        {
            UstackSocket::Dispatch(this, event);
        }
    } while (m_port->Received() > 0);
}

void
UstackStack::Output()
{
    us_pkt pkt;
    us_pkt* list = &pkt;

    std::memset(&pkt, 0, sizeof(pkt));
    while (m_port->HasRoom())
    {
        pkt.data = m_out.data();
        pkt.room = mtu + HEADERS_MAX;
        if (us_output(m_stack, &list, 1, NowUs()) == 0)
        {
            return;
        }
        m_port->Send(pkt.data, pkt.len);
    }
}

/* Frames that the device does not take stay in the stack: its wake callback follows. */
void
UstackStack::Sleep()
{
    uint64_t deadline = us_timer_deadline(m_stack);

    if (us_deadline(m_stack) == 0 && m_port->HasRoom())
    {
        Kick();
    }
    if (m_timer.IsRunning() && m_timerUs <= deadline)
    {
        return; // it runs a turn, which sets the next one
    }
    m_timer.Cancel();
    if (deadline == US_NEVER)
    {
        return;
    }
    m_timerUs = deadline;
    m_timer = Simulator::Schedule(MicroSeconds(deadline) - Simulator::Now() > Time(0)
                                      ? MicroSeconds(deadline) - Simulator::Now()
                                      : Time(0),
                                  &UstackStack::Kick,
                                  this);
}

} // namespace ns3
