/* SPDX-License-Identifier: BSD-3-Clause */
/* ucached as an ns-3 application; see ucached-server.h. */
#include "ucached-server.h"

#include <cstring>

#include "ucached-worker.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("UcachedServer");
NS_OBJECT_ENSURE_REGISTERED(UcachedServer);

namespace
{

UstackPort*
PortOf(void* ctx)
{
    return static_cast<UstackPort*>(ctx);
}

uint32_t
ReceiveFrame(void* ctx, uint8_t* to, uint32_t room)
{
    UstackPort::Frame frame;

    while (PortOf(ctx)->Receive(frame))
    {
        if (frame.size() <= room)
        {
            std::memcpy(to, frame.data(), frame.size());
            return static_cast<uint32_t>(frame.size());
        }
    }
    return 0;
}

bool
HasRoom(void* ctx)
{
    return PortOf(ctx)->HasRoom();
}

void
SendFrame(void* ctx, const uint8_t* bytes, uint32_t len)
{
    PortOf(ctx)->Send(bytes, len);
}

uint64_t
NowUs()
{
    return static_cast<uint64_t>(Simulator::Now().GetMicroSeconds());
}

} // namespace

TypeId
UcachedServer::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::UcachedServer")
            .SetParent<Application>()
            .SetGroupName("Ustack")
            .AddConstructor<UcachedServer>()
            .AddAttribute("Port",
                          "TCP port",
                          UintegerValue(11211),
                          MakeUintegerAccessor(&UcachedServer::m_port),
                          MakeUintegerChecker<uint16_t>(1))
            .AddAttribute("Connections",
                          "Connections at the same time (-c)",
                          UintegerValue(1024),
                          MakeUintegerAccessor(&UcachedServer::m_connections),
                          MakeUintegerChecker<uint32_t>(1, 1 << 20))
            .AddAttribute("MemoryBytes",
                          "Memory for items (-m)",
                          UintegerValue(64 << 20),
                          MakeUintegerAccessor(&UcachedServer::m_memoryBytes),
                          MakeUintegerChecker<uint64_t>(1 << 20));
    return tid;
}

UcachedServer::UcachedServer()
    : m_config(CreateObject<UstackStack>()),
      m_random(CreateObject<UniformRandomVariable>())
{
}

UcachedServer::~UcachedServer() = default;

void
UcachedServer::DoDispose()
{
    StopApplication();
    m_device = nullptr;
    m_config = nullptr;
    Application::DoDispose();
}

void
UcachedServer::SetDevice(Ptr<NetDevice> device)
{
    m_device = device;
}

void
UcachedServer::SetAddress(const Address& address, unsigned prefixLength)
{
    m_address = address;
    m_prefixLength = prefixLength;
}

void
UcachedServer::SetGateway(const Address& gateway)
{
    m_gateway = gateway;
}

void
UcachedServer::SetStackAttribute(const std::string& name, const AttributeValue& value)
{
    m_config->SetAttribute(name, value);
}

int64_t
UcachedServer::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

void
UcachedServer::EnablePcap(const std::string& prefix)
{
    m_pcap = prefix;
}

uint64_t
UcachedServer::GetCounter(const std::string& name) const
{
    uint64_t value = m_worker ? ucached_worker_counter(m_worker, name.c_str()) : 0;

    NS_ABORT_MSG_IF(value == UINT64_MAX, "UcachedServer::GetCounter(): no counter " << name);
    return value;
}

uint64_t
UcachedServer::GetDroppedFrames() const
{
    return m_frames ? m_frames->GetDropped() : 0;
}

void
UcachedServer::StartApplication()
{
    ucached_device device;
    ucached_worker_config config;
    char error[UCACHED_WORKER_ERROR_MAX];

    NS_ABORT_MSG_UNLESS(m_device, "UcachedServer needs a device: SetDevice()");
    m_frames = Create<UstackPort>(m_device);
    if (!m_pcap.empty())
    {
        m_frames->EnablePcap(m_pcap);
    }
    std::memset(&device, 0, sizeof(device));
    device.ctx = PeekPointer(m_frames);
    device.receive = ReceiveFrame;
    device.has_room = HasRoom;
    device.send = SendFrame;
    m_frames->CopyMac(device.mac);
    device.mtu = m_device->GetMtu();
    device.checksums = UstackPort::ChecksumsAreOn();
    std::memset(&config, 0, sizeof(config));
    config.us = *m_config;
    config.us.point_to_point |= m_frames->IsPointToPoint();
    for (uint8_t& byte : config.us.secret)
    {
        byte = static_cast<uint8_t>(m_random->GetInteger(0, 255));
    }
    NS_ABORT_MSG_UNLESS(UstackAddressFrom(m_address, &config.addr),
                        "UcachedServer needs an address: SetAddress()");
    config.has_gateway = !m_gateway.IsInvalid() && UstackAddressFrom(m_gateway, &config.gateway);
    config.prefix_len = m_prefixLength;
    config.port = m_port;
    config.connections_max = m_connections;
    config.memory_bytes = m_memoryBytes;
    config.item_bytes_max = 1 << 20;
    m_worker = ucached_worker_open(&device, &config, NowUs(), error);
    NS_ABORT_MSG_UNLESS(m_worker, "UcachedServer: " << error);
    m_frames->SetWake(MakeCallback(&UcachedServer::Kick, this));
    Kick();
}

void
UcachedServer::StopApplication()
{
    m_run.Cancel();
    if (m_frames)
    {
        m_frames->Close();
    }
    if (m_worker)
    {
        ucached_worker_close(m_worker, NowUs());
        m_worker = nullptr;
    }
}

void
UcachedServer::Kick()
{
    if (!m_run.IsRunning() || Simulator::GetDelayLeft(m_run) > Time(0))
    {
        m_run.Cancel();
        m_run = Simulator::ScheduleNow(&UcachedServer::Run, this);
    }
}

void
UcachedServer::Run()
{
    uint64_t next_us = ucached_worker_run(m_worker, NowUs());
    Time at = MicroSeconds(next_us);

    m_run = Simulator::Schedule(at > Simulator::Now() ? at - Simulator::Now() : Time(0),
                                &UcachedServer::Run,
                                this);
}

} // namespace ns3
