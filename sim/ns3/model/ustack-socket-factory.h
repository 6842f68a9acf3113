/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes UstackSockets: the TypeId that applications take as their Protocol. */
#ifndef NS3_USTACK_SOCKET_FACTORY_H
#define NS3_USTACK_SOCKET_FACTORY_H

#include "ustack-stack.h"

#include "ns3/socket-factory.h"

namespace ns3
{

/** Aggregated to a node together with its UstackStack. */
class UstackSocketFactory : public SocketFactory
{
  public:
    static TypeId GetTypeId();

    /** The stack of its sockets. */
    void SetStack(Ptr<UstackStack> stack);

    Ptr<Socket> CreateSocket() override;

  protected:
    void DoDispose() override;

  private:
    Ptr<UstackStack> m_stack;
};

} // namespace ns3

#endif
