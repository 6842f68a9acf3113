/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame header in front of each UDP datagram: protocol.txt, "UDP protocol". */
#include "base/base.h"
#include "base/wire.h"
#include "mcproto/mcproto.h"

/* As it stands in front of a datagram. */
struct udp_header {
    struct u_be16 request_id;
    struct u_be16 sequence;
    struct u_be16 datagrams;
    struct u_be16 reserved;
};

U_STATIC_ASSERT(sizeof(struct udp_header) == MC_UDP_HEADER_BYTES, udp_header_bytes);

int mc_udp_parse(const u_u8 *datagram, u_u32 len, struct mc_udp_frame *frame)
{
    struct udp_header header;

    if (len <= MC_UDP_HEADER_BYTES)
        return 0;
    u_copy(&header, datagram, sizeof(header));
    frame->request_id = u_get_be16(header.request_id);
    frame->sequence = u_get_be16(header.sequence);
    frame->datagrams = u_get_be16(header.datagrams);
    return frame->datagrams == 1;
}

u_u32 mc_udp_datagrams(u_u32 reply_bytes)
{
    u_u32 count = reply_bytes / MC_UDP_PAYLOAD_MAX + (reply_bytes % MC_UDP_PAYLOAD_MAX != 0);

    return u_min32(count, 0xffffu);
}

u_u32 mc_udp_write(u_u8 *out, const struct mc_udp_frame *frame)
{
    struct udp_header header;

    header.request_id = u_be16(frame->request_id);
    header.sequence = u_be16(frame->sequence);
    header.datagrams = u_be16(frame->datagrams);
    header.reserved = u_be16(0);
    u_copy(out, &header, sizeof(header));
    return sizeof(header);
}
