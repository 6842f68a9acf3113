/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash against the published RSS vectors, and which fields of a frame are hashed. */
#include <arpa/inet.h>

#include "base/prng.h"
#include "nic/rss.h"
#include "nic_testing.h"

/* The key of the published vectors. */
static const uint8_t vector_key[40] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct {
    int family;
    const char *from;
    uint16_t from_port;
    const char *to;
    uint16_t to_port;
    uint32_t by_addresses;
    uint32_t by_all;
} vectors[] = {
    {AF_INET, "66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178},
    {AF_INET, "199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea},
    {AF_INET, "24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a},
    {AF_INET, "38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f},
    {AF_INET, "153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2},
    {AF_INET6, "3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d},
    {AF_INET6, "3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf},
    {AF_INET6, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024,
     0x4b61e985, 0x02d1feef},
};

static uint32_t hash_input(const uint8_t *key, const struct nic_rss_flow *flow)
{
    size_t bytes = flow->is_ip6 ? 16 : 4;
    uint8_t input[36];
    size_t used = 2 * bytes;

    memcpy(input, flow->from.addr, bytes);
    memcpy(input + bytes, flow->to.addr, bytes);
    if (flow->has_ports) {
        input[used++] = (uint8_t)(flow->from.port >> 8);
        input[used++] = (uint8_t)flow->from.port;
        input[used++] = (uint8_t)(flow->to.port >> 8);
        input[used++] = (uint8_t)flow->to.port;
    }
    return nic_rss_toeplitz(key, input, used);
}

static struct nic_rss_flow vector_flow(unsigned i)
{
    struct nic_rss_flow flow = {.is_ip6 = vectors[i].family == AF_INET6};

    assert_int_equal(inet_pton(vectors[i].family, vectors[i].from, flow.from.addr), 1);
    assert_int_equal(inet_pton(vectors[i].family, vectors[i].to, flow.to.addr), 1);
    flow.from.port = vectors[i].from_port;
    flow.to.port = vectors[i].to_port;
    return flow;
}

static void published_vectors(void **state)
{
    unsigned i;

    for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct nic_rss_flow flow = vector_flow(i);

        assert_int_equal(hash_input(vector_key, &flow), vectors[i].by_addresses);
        flow.has_ports = true;
        assert_int_equal(hash_input(vector_key, &flow), vectors[i].by_all);
    }
}

static void choose_key(unsigned seed)
{
    uint8_t secret[NIC_RSS_SECRET_BYTES] = {(uint8_t)seed, (uint8_t)(seed >> 8)};

    nic_rss_key_choose(secret);
}

static void compare_with_toeplitz(struct u_prng *prng)
{
    unsigned i, n;

    for (n = 0; n < 2000; n++) {
        struct nic_rss_flow flow = {.is_ip6 = n & 1, .has_ports = n & 2};

        for (i = 0; i < 16; i++) {
            flow.from.addr[i] = (uint8_t)u_prng_next(prng);
            flow.to.addr[i] = (uint8_t)u_prng_next(prng);
        }
        flow.from.port = (uint16_t)u_prng_next(prng);
        flow.to.port = (uint16_t)u_prng_next(prng);
        assert_int_equal(nic_rss_hash(&flow), hash_input(nic_rss_key, &flow));
    }
}

static void the_hash_is_toeplitz_with_the_key_in_use(void **state)
{
    struct u_prng prng;
    unsigned seed;

    u_prng_seed(&prng, 1);
    compare_with_toeplitz(&prng); /* before nic_rss_key_choose() */
    for (seed = 0; seed < 10; seed++) {
        choose_key(seed);
        compare_with_toeplitz(&prng);
    }
}

static struct nic_rss_flow client_flow(bool is_ip6)
{
    struct nic_rss_flow flow = {.is_ip6 = is_ip6,
                                .has_ports = true,
                                .from = {.addr = {192, 168, 7, 1}},
                                .to = {.addr = {192, 168, 7, 2}, .port = 11211}};

    return flow;
}

/* With any key, one client's connections are distributed over the lanes as the table is. */
static void connections_spread_over_lanes(void **state)
{
    unsigned seed, lanes, i;

    for (seed = 0; seed < 200; seed++) {
        struct nic_rss_flow flow = client_flow(seed & 1);

        choose_key(seed);
        for (lanes = 2; lanes <= 16; lanes++) {
            unsigned counts[16] = {0};

            for (i = 0; i < 128; i++) {
                flow.from.port = (uint16_t)(32768 + i);
                counts[nic_rss_lane(nic_rss_hash(&flow), lanes)]++;
            }
            for (i = 0; i < lanes; i++)
                assert_in_range(counts[i], 128 / lanes, 128 / lanes + 1);
        }
        for (i = 0; i < 4; i++) { /* likewise for a few consecutive ports */
            flow.from.port = (uint16_t)(40000 + i);
            lanes |= 1u << (16 + nic_rss_lane(nic_rss_hash(&flow), 4));
        }
        assert_int_equal(lanes >> 16, 15);
    }
}

/* Connections chosen to share a lane with one key are distributed with another key. */
static void a_peer_cannot_choose_its_lane(void **state)
{
    unsigned worst = 0;
    unsigned seed;

    for (seed = 1; seed < 100; seed++) {
        struct nic_rss_flow flows[200];
        unsigned counts[4] = {0};
        unsigned n = 0, i;

        choose_key(0);
        for (i = 0; n < 200; i++) {
            struct nic_rss_flow flow = client_flow(i & 1);

            flow.from.port = (uint16_t)(1024 + i / 2);
            if (nic_rss_lane(nic_rss_hash(&flow), 4) == 0)
                flows[n++] = flow;
        }
        choose_key(seed);
        for (i = 0; i < 200; i++)
            counts[nic_rss_lane(nic_rss_hash(&flows[i]), 4)]++;
        for (i = 0; i < 4; i++)
            worst = counts[i] > worst ? counts[i] : worst;
    }
    assert_true(worst < 180);
}

/* ---- frames ------------------------------------------------------------------------------ */

static uint8_t frame[256];
static size_t frame_len;

static void put(const void *bytes, size_t n)
{
    assert_true(frame_len + n <= sizeof(frame));
    memcpy(frame + frame_len, bytes, n);
    frame_len += n;
}

static void put16(unsigned value)
{
    const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};

    put(bytes, 2);
}

static void start(unsigned ether_type)
{
    static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};

    frame_len = 0;
    put(macs, sizeof(macs));
    put16(ether_type);
}

/* 10.0.0.1 to 10.0.0.2 or in reverse. `words` are additional 32-bit words of header. */
static void put_ip4(unsigned protocol, unsigned fragment, bool back, unsigned words)
{
    uint8_t ip[60] = {(uint8_t)(0x45 + words)};

    ip[6] = (uint8_t)(fragment >> 8);
    ip[7] = (uint8_t)fragment;
    ip[8] = 64;
    ip[9] = (uint8_t)protocol;
    ip[12] = ip[16] = 10;
    ip[15] = back ? 2 : 1;
    ip[19] = back ? 1 : 2;
    put(ip, 20 + 4 * words);
}

static void put_ip6(unsigned next, bool back)
{
    uint8_t ip[40] = {0x60};

    ip[6] = (uint8_t)next;
    ip[7] = 64;
    ip[8] = ip[24] = 0xfd;
    ip[23] = back ? 2 : 1;
    ip[39] = back ? 1 : 2;
    put(ip, sizeof(ip));
}

static void put_ports(unsigned from, unsigned to)
{
    put16(from);
    put16(to);
    put16(0);
    put16(0);
}

static enum nic_rss_kind classify(struct nic_rss_flow *flow)
{
    struct us_pkt pkt = {.data = frame, .len = (u_u32)frame_len};

    memset(flow, 0, sizeof(*flow));
    return nic_rss_classify(&pkt, flow);
}

static void expect_flow(unsigned from, unsigned to, unsigned from_port, unsigned to_port)
{
    struct nic_rss_flow flow;

    assert_int_equal(classify(&flow), NIC_RSS_FLOW);
    assert_int_equal(flow.from.addr[flow.is_ip6 ? 15 : 3], from);
    assert_int_equal(flow.to.addr[flow.is_ip6 ? 15 : 3], to);
    assert_int_equal(flow.has_ports, from_port != 0);
    assert_int_equal(flow.from.port, from_port);
    assert_int_equal(flow.to.port, to_port);
}

static void expect_kind(enum nic_rss_kind kind)
{
    struct nic_rss_flow flow;

    assert_int_equal(classify(&flow), kind);
}

static void tcp_and_udp_have_ports(void **state)
{
    start(0x0800);
    put_ip4(6, 0x4000, false, 0);
    put_ports(1000, 2000);
    expect_flow(1, 2, 1000, 2000);
    start(0x0800);
    put_ip4(17, 0, true, 10); /* the longest header there is */
    put_ports(53, 54);
    expect_flow(2, 1, 53, 54);
    start(0x86dd);
    put_ip6(6, false);
    put_ports(1000, 2000);
    expect_flow(1, 2, 1000, 2000);
    start(0x0800);
    put_ip4(47, 0, false, 0); /* GRE: no ports */
    put_ports(1, 2);
    expect_flow(1, 2, 0, 0);
}

static void a_tag_and_extension_headers_are_skipped(void **state)
{
    static const uint8_t padding[16] = {60, 1};
    static const uint8_t options[8] = {17, 0};

    start(0x8100);
    put16(7);
    put16(0x0800);
    put_ip4(6, 0, false, 0);
    put_ports(1000, 2000);
    expect_flow(1, 2, 1000, 2000);

    start(0x86dd);
    put_ip6(0, false);
    put(padding, sizeof(padding));
    put(options, sizeof(options));
    put_ports(9, 10);
    expect_flow(1, 2, 9, 10);

    start(0x86dd);
    put_ip6(43, false);
    put(options, sizeof(options)); /* as a routing header */
    put_ports(9, 10);
    expect_flow(1, 2, 9, 10);
}

/* Of more extension headers than the stack takes the last ones are payload. */
static void extension_headers_are_bounded(void **state)
{
    static const uint8_t options[8] = {60, 0};
    static const uint8_t last[8] = {6, 0};
    unsigned headers, i;

    for (headers = 8; headers <= 9; headers++) {
        start(0x86dd);
        put_ip6(60, false);
        for (i = 1; i < headers; i++)
            put(options, sizeof(options));
        put(last, sizeof(last));
        put_ports(1000, 2000);
        if (headers == 8)
            expect_flow(1, 2, 1000, 2000);
        else
            expect_flow(1, 2, 0, 0);
    }
}

/* Only the first fragment of a datagram has its ports. */
static void expect_fragment(bool is_first)
{
    struct nic_rss_flow flow;

    assert_int_equal(classify(&flow), NIC_RSS_FRAGMENT);
    assert_int_equal(flow.is_first, is_first);
    assert_int_equal(flow.has_ports, is_first);
    assert_int_equal(flow.from.port, is_first ? 1000 : 0);
    assert_int_equal(flow.to.port, is_first ? 2000 : 0);
}

static void fragments_are_classified(void **state)
{
    static const uint8_t first[8] = {6, 0, 0, 1};
    static const uint8_t second[8] = {6, 0, 0, 9}; /* from the eighth byte on */
    static const uint8_t later[8] = {60, 0, 0, 8}; /* in front of options that were cut */
    static const uint8_t atomic[8] = {6, 0, 0, 0};

    start(0x0800);
    put_ip4(6, 0x2000, false, 0); /* the first: more follow */
    put_ports(1000, 2000);
    expect_fragment(true);
    start(0x0800);
    put_ip4(6, 0x0001, false, 0); /* the last */
    put_ports(1000, 2000);
    expect_fragment(false);
    start(0x86dd);
    put_ip6(44, false);
    put(first, sizeof(first));
    put_ports(1000, 2000);
    expect_fragment(true);
    start(0x86dd);
    put_ip6(44, false);
    put(second, sizeof(second));
    put_ports(1000, 2000);
    expect_fragment(false);
    start(0x86dd);
    put_ip6(44, false);
    put(later, sizeof(later));
    put_ports(0xffff, 0xffff);
    expect_fragment(false);
    start(0x86dd);
    put_ip6(44, false);
    put(atomic, sizeof(atomic)); /* RFC 6946: a fragment that is whole */
    put_ports(1000, 2000);
    expect_flow(1, 2, 1000, 2000);
}

/* All bits of the identification tell datagrams of the same hosts apart. */
static void identifications_are_whole(void **state)
{
    static const uint8_t first[8] = {6, 0, 0, 1, 0x12, 0x34, 0x56, 0x78};
    struct nic_rss_flow flow;

    start(0x86dd);
    put_ip6(44, false);
    put(first, sizeof(first));
    put_ports(1000, 2000);
    assert_int_equal(classify(&flow), NIC_RSS_FRAGMENT);
    assert_int_equal(flow.ident, 0x12345678);
    start(0x0800);
    put_ip4(17, 0x2000, false, 0);
    frame[18] = 0x12;
    frame[19] = 0x34;
    assert_int_equal(classify(&flow), NIC_RSS_FRAGMENT);
    assert_int_equal(flow.ident, 0x1234);
}

/* nic_rss_classify() sets has_ports also for a frame without ports. */
static void ports_of_an_earlier_frame_are_forgotten(void **state)
{
    struct us_pkt pkt = {.data = frame};
    struct nic_rss_flow flow;

    start(0x0800);
    put_ip4(47, 0, false, 0);
    put_ports(1, 2);
    pkt.len = (u_u32)frame_len;
    memset(&flow, 0, sizeof(flow));
    flow.has_ports = true;
    assert_int_equal(nic_rss_classify(&pkt, &flow), NIC_RSS_FLOW);
    assert_false(flow.has_ports);
}

/* All types of errors quote a packet, unknown ones of IPv6 included. */
static void icmp_errors_of_all_types_are_recognized(void **state)
{
    static const uint8_t types4[] = {3, 4, 11, 12};
    static const uint8_t types6[] = {1, 2, 3, 4, 127};
    unsigned i;

    for (i = 0; i < sizeof(types4); i++) {
        uint8_t icmp[8] = {types4[i]};

        start(0x0800);
        put_ip4(1, 0, false, 0);
        put(icmp, sizeof(icmp));
        put_ip4(6, 0, true, 0);
        put_ports(11211, 4000);
        expect_flow(1, 2, 4000, 11211);
    }
    for (i = 0; i < sizeof(types6); i++) {
        uint8_t icmp[8] = {types6[i]};

        start(0x86dd);
        put_ip6(58, false);
        put(icmp, sizeof(icmp));
        put_ip6(6, true);
        put_ports(11211, 4000);
        expect_flow(1, 2, 4000, 11211);
    }
}

static void an_icmp_error_goes_to_the_lane_of_its_flow(void **state)
{
    static const uint8_t too_big4[8] = {3, 4};
    static const uint8_t too_big6[8] = {2, 0};
    static const uint8_t echo4[8] = {8, 0};
    static const uint8_t echo6[8] = {128, 0};

    start(0x0800);
    put_ip4(1, 0, false, 0);
    put(too_big4, 8);
    put_ip4(6, 0, true, 0);
    put_ports(11211, 4000);
    expect_flow(1, 2, 4000, 11211);
    start(0x86dd);
    put_ip6(58, false);
    put(too_big6, 8);
    put_ip6(6, true);
    put_ports(11211, 4000);
    expect_flow(1, 2, 4000, 11211);
    start(0x0800);
    put_ip4(1, 0, false, 0);
    put(echo4, 8);
    put_ip4(6, 0, true, 0);
    put_ports(11211, 4000);
    expect_flow(1, 2, 0, 0);
    start(0x86dd); /* data of an echo request that looks like a quote is none */
    put_ip6(58, false);
    put(echo6, 8);
    put_ip6(6, true);
    put_ports(11211, 4000);
    expect_flow(1, 2, 0, 0);
    start(0x0800); /* about a fragment that is not the first: it has no ports */
    put_ip4(1, 0, false, 0);
    put(too_big4, 8);
    put_ip4(6, 0x0001, true, 0);
    put_ports(11211, 4000);
    expect_flow(1, 2, 0, 0);
    start(0x0800); /* a quote without ports: the addresses of the message are used */
    put_ip4(1, 0, false, 0);
    put(too_big4, 8);
    put16(0x4500);
    expect_flow(1, 2, 0, 0);
}

static void discovery_is_for_all(void **state)
{
    static const uint8_t types[] = {130, 133, 134, 135, 136, 137, 143};
    unsigned i;

    start(0x0806);
    put16(1);
    expect_kind(NIC_RSS_BROADCAST);
    for (i = 0; i < sizeof(types); i++) {
        uint8_t icmp[8] = {types[i]};

        start(0x86dd);
        put_ip6(58, false);
        put(icmp, sizeof(icmp));
        expect_kind(NIC_RSS_BROADCAST);
    }
}

static void malformed_frames_have_no_flow(void **state)
{
    static const uint8_t port_bytes[4] = {3, 232, 7, 208};
    struct nic_rss_flow flow;
    unsigned i;

    start(0x88cc);
    expect_kind(NIC_RSS_OTHER);
    start(0x8100);
    put16(7);
    expect_kind(NIC_RSS_OTHER);
    start(0x0800);
    put_ip4(6, 0, false, 0);
    frame[14] = 0x44; /* a header of 16 bytes */
    expect_kind(NIC_RSS_OTHER);
    frame[14] = 0x65; /* another version */
    expect_kind(NIC_RSS_OTHER);
    frame[14] = 0x4f; /* longer than the frame */
    expect_kind(NIC_RSS_OTHER);
    start(0x86dd);
    put_ip6(0, false);
    put_ports(0x11ff, 0); /* an extension header longer than the frame */
    expect_kind(NIC_RSS_OTHER);
    start(0x0800);
    put_ip4(6, 0, false, 0);
    for (i = 0; i < 4; i++) { /* truncated before or within the ports */
        assert_int_equal(classify(&flow), NIC_RSS_FLOW);
        assert_false(flow.has_ports);
        put(&port_bytes[i], 1);
    }
    assert_int_equal(classify(&flow), NIC_RSS_FLOW);
    assert_true(flow.has_ports);
}

/*
 * Every length of every frame above, and random bytes: no read beyond the end (AddressSanitizer).
 */
static void nothing_is_read_beyond_the_end(void **state)
{
    struct u_prng prng;
    unsigned n, i;

    u_prng_seed(&prng, 7);
    for (n = 0; n < 20000; n++) {
        size_t len = u_prng_next(&prng) % 120;
        uint8_t *bytes = test_malloc(len + 1);
        struct us_pkt pkt = {.data = bytes, .len = (u_u32)len};
        struct nic_rss_flow flow = {0};

        start(n & 1 ? 0x0800 : 0x86dd);
        if (n & 1)
            put_ip4(n & 2 ? 6 : 1, 0, false, 0);
        else
            put_ip6(n & 2 ? 0 : 58, false);
        for (i = (unsigned)frame_len; i < 120; i++)
            frame[i] = (uint8_t)u_prng_next(&prng);
        memcpy(bytes, frame, len);
        assert_in_range(nic_rss_classify(&pkt, &flow), NIC_RSS_FLOW, NIC_RSS_OTHER);
        test_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(the_hash_is_toeplitz_with_the_key_in_use),
        cmocka_unit_test(connections_spread_over_lanes),
        cmocka_unit_test(a_peer_cannot_choose_its_lane),
        cmocka_unit_test(tcp_and_udp_have_ports),
        cmocka_unit_test(a_tag_and_extension_headers_are_skipped),
        cmocka_unit_test(extension_headers_are_bounded),
        cmocka_unit_test(fragments_are_classified),
        cmocka_unit_test(identifications_are_whole),
        cmocka_unit_test(ports_of_an_earlier_frame_are_forgotten),
        cmocka_unit_test(icmp_errors_of_all_types_are_recognized),
        cmocka_unit_test(an_icmp_error_goes_to_the_lane_of_its_flow),
        cmocka_unit_test(discovery_is_for_all),
        cmocka_unit_test(malformed_frames_have_no_flow),
        cmocka_unit_test(nothing_is_read_beyond_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
