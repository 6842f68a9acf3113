/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes UstackSockets; see ustack-socket-factory.h. */
#include "ustack-socket-factory.h"

#include "ustack-socket.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(UstackSocketFactory);

TypeId
UstackSocketFactory::GetTypeId()
{
    static TypeId tid = TypeId("ns3::UstackSocketFactory")
                            .SetParent<SocketFactory>()
                            .SetGroupName("Ustack")
                            .AddConstructor<UstackSocketFactory>();
    return tid;
}

void
UstackSocketFactory::SetStack(Ptr<UstackStack> stack)
{
    m_stack = stack;
}

Ptr<Socket>
UstackSocketFactory::CreateSocket()
{
    Ptr<UstackSocket> socket = CreateObject<UstackSocket>();

    NS_ABORT_MSG_UNLESS(m_stack && m_stack->IsAttached(), "the node's UstackStack has no device");
    socket->SetStack(m_stack);
    return socket;
}

void
UstackSocketFactory::DoDispose()
{
    m_stack = nullptr;
    SocketFactory::DoDispose();
}

} // namespace ns3
