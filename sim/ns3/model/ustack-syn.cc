/* SPDX-License-Identifier: BSD-3-Clause */
/* The MSS option of SYNs; see ustack-syn.h. */
#include "ustack-syn.h"

namespace ns3
{

namespace
{

constexpr uint32_t L3_AT = 14;
constexpr uint32_t TCP_BYTES = 20;
constexpr uint32_t TCP_HEADER_MAX = 60;
constexpr uint32_t MSS_BYTES = 4;
constexpr uint8_t PROTOCOL_TCP = 6;
constexpr uint8_t FLAG_SYN = 2;

enum Option
{
    END = 0,
    NOP = 1,
    MSS = 2
};

uint16_t
Get16(const uint8_t* at)
{
    return static_cast<uint16_t>(at[0] << 8 | at[1]);
}

void
Put16(uint8_t* at, uint32_t value)
{
    at[0] = static_cast<uint8_t>(value >> 8);
    at[1] = static_cast<uint8_t>(value);
}

/* RFC 1624: corrects the checksum at `at` for 16 bits that have become `now`. */
void
Correct(uint8_t* at, uint16_t before, uint16_t now)
{
    uint32_t sum = static_cast<uint16_t>(~Get16(at)) + static_cast<uint16_t>(~before) + now;

    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    Put16(at, static_cast<uint16_t>(~sum));
}

/* Where TCP begins, or 0 if the frame carries none, or only a part of a packet. */
uint32_t
FindTcp(const std::vector<uint8_t>& frame)
{
    const uint8_t* ip = frame.data() + L3_AT;
    uint16_t type = Get16(frame.data() + 12);

    if (type == 0x0800 && frame.size() >= L3_AT + 20 + TCP_BYTES && ip[9] == PROTOCOL_TCP &&
        (Get16(ip + 6) & 0x3fff) == 0)
    {
        return L3_AT + (ip[0] & 15) * 4;
    }
    if (type == 0x86dd && frame.size() >= L3_AT + 40 + TCP_BYTES && ip[6] == PROTOCOL_TCP)
    {
        return L3_AT + 40;
    }
    return 0;
}

bool
HasMss(const uint8_t* options, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes && options[at] != END;)
    {
        if (options[at] == MSS)
        {
            return true;
        }
        uint32_t step = options[at] == NOP || at + 1 == bytes ? 1 : options[at + 1];
        at += step > 0 ? step : 1;
    }
    return false;
}

} // namespace

void
UstackInsertMss(std::vector<uint8_t>& frame, uint32_t mtu, bool checksums)
{
    uint32_t tcp_at = FindTcp(frame);

    if (tcp_at == 0 || frame.size() < tcp_at + TCP_BYTES)
    {
        return;
    }
    uint8_t* tcp = frame.data() + tcp_at;
    uint32_t header = (tcp[12] >> 4) * 4;
    if (!(tcp[13] & FLAG_SYN) || header < TCP_BYTES || header + MSS_BYTES > TCP_HEADER_MAX ||
        frame.size() < tcp_at + header || HasMss(tcp + TCP_BYTES, header - TCP_BYTES))
    {
        return;
    }
    uint8_t option[MSS_BYTES] = {MSS, MSS_BYTES};
    bool is_ip6 = frame[L3_AT] >> 4 == 6;
    Put16(option + 2, mtu - (is_ip6 ? 40 : 20) - TCP_BYTES);
    frame.insert(frame.begin() + tcp_at + TCP_BYTES, option, option + MSS_BYTES);

    uint8_t* ip = frame.data() + L3_AT;
    uint8_t* length = ip + (is_ip6 ? 4 : 2);
    uint16_t length_before = Get16(length);
    uint16_t offset_before;
    tcp = frame.data() + tcp_at;
    offset_before = Get16(tcp + 12);
    Put16(length, length_before + MSS_BYTES);
    tcp[12] = static_cast<uint8_t>(tcp[12] + (MSS_BYTES / 4 << 4));
    if (!checksums)
    {
        return;
    }
    if (!is_ip6)
    {
        Correct(ip + 10, length_before, Get16(length));
    }
    Correct(tcp + 16, offset_before, Get16(tcp + 12));
    Correct(tcp + 16, 0, Get16(option));
    Correct(tcp + 16, 0, Get16(option + 2));
    Correct(tcp + 16, 0, MSS_BYTES); /* the length in the pseudo-header */
}

} // namespace ns3
