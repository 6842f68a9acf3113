/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of a server's way through a datagram: frame header, protocol by the first byte, requests
 * until the end, and a reply cut into datagrams again.
 */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "mcproto/mcproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Bytes that the first request of a payload takes, 0: stop. */
static size_t take(const u_u8 *buf, u_u32 len, enum mc_protocol protocol)
{
    struct mc_request req;
    int binary = protocol == MC_PROTOCOL_BINARY;
    enum mc_outcome outcome = binary ? mc_parse_binary(buf, len, &req) : mc_parse(buf, len, &req);
    size_t value = 0;

    check(req.line_bytes <= len, "the request is in the datagram");
    if (outcome == MC_MORE || req.close)
        return 0;
    if (outcome == MC_MALFORMED)
        value = req.discard_bytes;
    else if (binary)
        value = req.value_bytes;
    else if (mc_command_has_value(req.command))
        value = (size_t)req.value_bytes + 2;
    check(req.line_bytes > 0, "something is used up");
    return req.line_bytes + value;
}

/* Sends a reply of so many bytes, each datagram with its header. */
static void check_reply(const struct mc_udp_frame *request, u_u32 bytes)
{
    struct mc_udp_frame frame = *request;
    u_u32 left = bytes;
    u_u32 i;

    frame.datagrams = mc_udp_datagrams(bytes);
    for (i = 0; i < frame.datagrams; i++) {
        struct mc_udp_frame back;
        u_u8 out[MC_UDP_HEADER_BYTES + 1] = {0};
        frame.sequence = i;
        check(mc_udp_write(out, &frame) == MC_UDP_HEADER_BYTES, "length of the header");
        check(mc_udp_parse(out, sizeof out, &back) == (frame.datagrams == 1), "one datagram only");
        check(back.request_id == request->request_id && back.sequence == i &&
                  back.datagrams == frame.datagrams,
              "the header comes back");
        check(left > 0, "no datagram is empty");
        left -= left < MC_UDP_PAYLOAD_MAX ? left : MC_UDP_PAYLOAD_MAX;
    }
    check(left == 0 || frame.datagrams == 0xffff, "all of the reply is sent");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct mc_udp_frame frame;
    enum mc_protocol protocol;

    if (!mc_udp_parse(data, (u_u32)len, &frame)) {
        check(len <= MC_UDP_HEADER_BYTES || data[4] != 0 || data[5] != 1, "a reason to drop it");
        return 0;
    }
    check_reply(&frame, frame.sequence * 4u);
    data += MC_UDP_HEADER_BYTES;
    len -= MC_UDP_HEADER_BYTES;
    protocol = mc_protocol_detect(data[0]);
    while (len > 0) {
        size_t used = take(data, (u_u32)len, protocol);
        if (used == 0 || used > len)
            break;
        data += used;
        len -= used;
    }
    return 0;
}
