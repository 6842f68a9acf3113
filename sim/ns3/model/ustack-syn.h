/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SYNs of ns-3's TCP have no MSS option, and RFC 9293 3.7.1 makes the peer send segments of 536
 * bytes then. The port adds what ns-3 means: the MTU of the link less the headers.
 */
#ifndef NS3_USTACK_SYN_H
#define NS3_USTACK_SYN_H

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * Inserts an MSS option into an Ethernet frame, if it is a TCP SYN over IPv4 or IPv6 without one
 * and there is room; other frames stay. `checksums`: TCP and IPv4 checksums are corrected.
 */
void UstackInsertMss(std::vector<uint8_t> &frame, uint32_t mtu, bool checksums);

} // namespace ns3

#endif
