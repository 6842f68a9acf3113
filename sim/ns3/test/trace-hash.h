/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash of frames and of the times at which they come. */
#ifndef NS3_USTACK_TEST_TRACE_HASH_H
#define NS3_USTACK_TEST_TRACE_HASH_H

#include <cstdint>
#include <vector>

#include "ns3/packet.h"
#include "ns3/simulator.h"

namespace ns3test
{

/** FNV-1a (64 bits) over the simulation's time, in nanoseconds, and the bytes of each frame. */
class TraceHash
{
  public:
    void Add(ns3::Ptr<const ns3::Packet> packet)
    {
        std::vector<uint8_t> bytes(TIME_BYTES + packet->GetSize());
        int64_t now = ns3::Simulator::Now().GetNanoSeconds();

        for (unsigned i = 0; i < TIME_BYTES; i++)
        {
            bytes[i] = static_cast<uint8_t>(now >> 8 * i);
        }
        packet->CopyData(bytes.data() + TIME_BYTES, packet->GetSize());
        for (uint8_t byte : bytes)
        {
            m_hash = (m_hash ^ byte) * 1099511628211u;
        }
    }

    uint64_t Get() const
    {
        return m_hash;
    }

  private:
    static constexpr unsigned TIME_BYTES = 8;
    uint64_t m_hash{14695981039346656037u};
};

} // namespace ns3test

#endif
