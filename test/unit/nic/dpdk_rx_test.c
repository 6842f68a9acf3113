/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stack gets of a received frame: what the NIC has verified, and chains as segments. */
#include "base/base.h"
#include "base/cksum.h"
#include "dpdk_driver.h"

#define GOOD (RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD)
#define HASH 0x12345678u
#define HEADERS_BYTES 54
#define PAYLOAD_BYTES 100 /* in each mbuf of a chain */

static struct nic *nic[2];

/* The mbufs that the NIC delivers next. */
static struct {
    struct rte_mbuf *mbufs[NIC_BURST_MAX];
    unsigned count;
} arrived;

static uint16_t deliver(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    unsigned count = arrived.count;

    assert_in_range(count, 0, n);
    memcpy(mbufs, arrived.mbufs, count * sizeof(mbufs[0]));
    arrived.count = 0;
    return (uint16_t)count;
}

static int open_nic(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;

    driver_reset();
    assert_int_equal(driver_open(&config, 2, nic), 2);
    driver_bursts(nic[0])->rx_pkt_burst = deliver;
    return 0;
}

static int close_nic(void **state)
{
    driver_close(nic, 2);
    return 0;
}

static struct rte_mempool *pool(void)
{
    return ((struct dpdk_queue *)nic[0])->pool;
}

/* Packets of the queue that are neither free nor kept for the next ones. */
static unsigned in_use(void)
{
    return (unsigned)stat_of(nic[0], "dpdk_pool_in_use");
}

static struct rte_mbuf *mbuf_make(unsigned bytes, uint64_t ol_flags)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool());
    char *data;

    assert_non_null(mbuf);
    data = rte_pktmbuf_append(mbuf, (uint16_t)bytes);
    assert_non_null(data);
    memset(data, 0, bytes);
    mbuf->ol_flags = ol_flags;
    mbuf->hash.rss = HASH;
    return mbuf;
}

static const struct {
    uint64_t ol_flags;
    u_u32 flags;
} verified[] = {
    {0, 0},
    {RTE_MBUF_F_RX_IP_CKSUM_GOOD, US_PKT_IP_CSUM_GOOD},
    {RTE_MBUF_F_RX_IP_CKSUM_NONE, US_PKT_IP_CSUM_GOOD}, /* correct, with no sum in the field */
    {RTE_MBUF_F_RX_IP_CKSUM_BAD, US_PKT_IP_CSUM_BAD},
    {RTE_MBUF_F_RX_L4_CKSUM_GOOD, US_PKT_L4_CSUM_GOOD},
    {RTE_MBUF_F_RX_L4_CKSUM_NONE, US_PKT_L4_CSUM_GOOD},
    {RTE_MBUF_F_RX_L4_CKSUM_BAD, US_PKT_L4_CSUM_BAD},
    {RTE_MBUF_F_RX_RSS_HASH, US_PKT_HASH_VALID},
    {RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_FDIR, 0},
    {GOOD | RTE_MBUF_F_RX_RSS_HASH, US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD | US_PKT_HASH_VALID},
};

static void frames_have_what_the_nic_has_verified(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned before = in_use(), i;

    for (i = 0; i < U_ARRAY_LEN(verified); i++)
        arrived.mbufs[i] = mbuf_make(60 + i, verified[i].ol_flags);
    arrived.count = i;
    assert_int_equal(nic_rx_burst(nic[0], pkts, 4), 4); /* the others wait */
    assert_int_equal(nic_rx_burst(nic[0], pkts + 4, NIC_BURST_MAX - 4), U_ARRAY_LEN(verified) - 4);
    for (i = 0; i < U_ARRAY_LEN(verified); i++) {
        assert_int_equal(pkts[i]->flags, verified[i].flags);
        assert_int_equal(pkts[i]->len, 60 + i);
        assert_null(pkts[i]->next_seg);
        if (verified[i].flags & US_PKT_HASH_VALID)
            assert_int_equal(pkts[i]->rss_hash, HASH);
    }
    assert_int_equal(stat_of(nic[0], "dpdk_rx_csum_good"), 3);
    nic_release(nic[0], pkts, i);
    assert_int_equal(in_use(), before);
}

/* ---- chains ------------------------------------------------------------------------------ */

/* A chain of mbufs of PAYLOAD_BYTES each behind headers; the first mbuf has no tailroom. */
static struct rte_mbuf *chain_of(const u_u8 *headers, unsigned header_bytes, unsigned mbufs,
                                 uint64_t ol_flags)
{
    struct rte_mbuf *head = mbuf_make(0, ol_flags), *last = head;
    unsigned i;

    head->data_off = (uint16_t)(head->buf_len - header_bytes - PAYLOAD_BYTES);
    assert_non_null(rte_pktmbuf_append(head, (uint16_t)(header_bytes + PAYLOAD_BYTES)));
    memcpy(rte_pktmbuf_mtod(head, u_u8 *), headers, header_bytes);
    memset(rte_pktmbuf_mtod_offset(head, u_u8 *, header_bytes), 'a', PAYLOAD_BYTES);
    for (i = 1; i < mbufs; i++) {
        last->next = mbuf_make(PAYLOAD_BYTES, 0);
        last = last->next;
        memset(rte_pktmbuf_mtod(last, u_u8 *), (int)('a' + i), PAYLOAD_BYTES);
    }
    head->nb_segs = (uint16_t)mbufs;
    head->pkt_len = header_bytes + mbufs * PAYLOAD_BYTES;
    return head;
}

/* A TCP segment of IPv4, whose checksums are wrong. */
static struct rte_mbuf *chain_make(unsigned mbufs, uint64_t ol_flags)
{
    static const u_u8 headers[HEADERS_BYTES] = {
        2,    0, 0, 0, 0,  1, 2,    0, 0,  0, 0, 2, 8,  0, /* Ethernet, IPv4, TCP */
        0x45, 0, 0, 0, 0,  0, 0x40, 0, 64, 6, 1, 2, 10, 0, 0, 1,    10,
        0,    0, 2, 0, 80, 0, 81,   0, 0,  1, 0, 0, 0,  0, 0, 0x50, 0x18};
    struct rte_mbuf *head = chain_of(headers, sizeof(headers), mbufs, ol_flags);

    rte_pktmbuf_mtod(head, u_u8 *)[16] = (u_u8)((head->pkt_len - 14) >> 8);
    rte_pktmbuf_mtod(head, u_u8 *)[17] = (u_u8)(head->pkt_len - 14);
    return head;
}

/* Frames in front of a chain, its segments, and frames behind it, in this order. */
static void a_chain_is_received_as_segments(void **state)
{
    enum { MBUFS = 5 };
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned before = in_use(), at = 0, i;

    arrived.mbufs[0] = mbuf_make(60, 0);
    arrived.mbufs[1] = chain_make(MBUFS, GOOD | RTE_MBUF_F_RX_RSS_HASH);
    arrived.mbufs[2] = mbuf_make(61, 0);
    arrived.count = 3;
    while (at < MBUFS + 2) {
        unsigned n = nic_rx_burst(nic[0], pkts + at, 3); /* bursts that end within the chain */

        assert_in_range(n, 1, 3);
        at += n;
        if (at > 1 && at < MBUFS) /* a worker does not sleep on the rest */
            assert_int_equal(nic_wait(nic[0], 3600ull * 1000000), 0);
    }
    assert_int_equal(at, MBUFS + 2);
    assert_int_equal(pkts[0]->len, 60);
    assert_int_equal(pkts[MBUFS + 1]->len, 61);
    for (i = 1; i <= MBUFS; i++) {
        assert_int_equal(pkts[i]->len, HEADERS_BYTES + PAYLOAD_BYTES);
        assert_int_equal(pkts[i]->flags,
                         US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD | US_PKT_HASH_VALID);
        assert_int_equal(pkts[i]->rss_hash, HASH);
        assert_int_equal(pkts[i]->data[40] << 8 | pkts[i]->data[41],
                         0x100 + (i - 1) * PAYLOAD_BYTES); /* the sequence number */
        assert_int_equal(pkts[i]->data[HEADERS_BYTES], 'a' + i - 1);
        assert_int_equal(u_cksum_finish(u_cksum_add(0, pkts[i]->data + 14, 20)), 0);
    }
    assert_int_equal(stat_of(nic[0], "dpdk_rx_segmented"), 1);
    assert_int_equal(stat_of(nic[0], "dpdk_rx_csum_good"), 1); /* of the chain */
    nic_release(nic[0], pkts, at);
    assert_int_equal(in_use(), before);
}

/* The IPv6 header has no checksum; its payload length is set for each segment. */
static void a_chain_of_ip6_is_received_as_segments(void **state)
{
    enum { MBUFS = 3, TCP_AT = 54, IP6_HEADERS_BYTES = TCP_AT + 20 };
    static const u_u8 headers[IP6_HEADERS_BYTES] = {2,
                                                    [5] = 1,
                                                    [6] = 2,
                                                    [11] = 2,
                                                    [12] = 0x86,
                                                    [13] = 0xdd,
                                                    [14] = 0x60,
                                                    [18] = (20 + MBUFS * PAYLOAD_BYTES) >> 8,
                                                    [19] = (20 + MBUFS * PAYLOAD_BYTES) & 0xff,
                                                    [20] = 6,
                                                    [21] = 64,
                                                    [22] = 0xfd,
                                                    [37] = 1,
                                                    [38] = 0xfd,
                                                    [53] = 2,
                                                    [TCP_AT + 6] =
                                                        1, /* the sequence number is 256 */
                                                    [TCP_AT + 12] = 0x50,
                                                    [TCP_AT + 13] = 0x18};
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned before = in_use(), i;

    arrived.mbufs[0] = chain_of(headers, sizeof(headers), MBUFS, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    arrived.count = 1;
    assert_int_equal(nic_rx_burst(nic[0], pkts, NIC_BURST_MAX), MBUFS);
    for (i = 0; i < MBUFS; i++) {
        const u_u8 *data = pkts[i]->data;

        assert_int_equal(pkts[i]->len, IP6_HEADERS_BYTES + PAYLOAD_BYTES);
        assert_int_equal(pkts[i]->flags & US_PKT_L4_CSUM_GOOD, US_PKT_L4_CSUM_GOOD);
        assert_int_equal(data[18] << 8 | data[19], 20 + PAYLOAD_BYTES);
        assert_int_equal(data[TCP_AT + 6] << 8 | data[TCP_AT + 7], 0x100 + i * PAYLOAD_BYTES);
        assert_int_equal(data[IP6_HEADERS_BYTES], 'a' + i);
    }
    nic_release(nic[0], pkts, MBUFS);
    assert_int_equal(in_use(), before);
}

/* With nothing behind the chain a worker does not sleep on the rest of it either. */
static void the_rest_of_a_chain_is_not_slept_on(void **state)
{
    enum { MBUFS = 3 };
    struct us_pkt *pkts[MBUFS];
    unsigned at;

    arrived.mbufs[0] = chain_make(MBUFS, GOOD);
    arrived.count = 1;
    for (at = 0; at < MBUFS; at++) {
        assert_int_equal(nic_rx_burst(nic[0], pkts + at, 1), 1);
        assert_int_equal(nic_wait(nic[0], 0), 0);
        assert_int_equal(stat_of(nic[0], "dpdk_timed_waits"), at == MBUFS - 1);
    }
    nic_release(nic[0], pkts, MBUFS);
}

/* Another protocol, a TCP header that is too short, and headers that exceed the headroom. */
static void a_chain_that_is_no_segment_is_dropped(void **state)
{
    unsigned before = in_use(), i;
    struct us_pkt *pkt;

    for (i = 0; i < 3; i++) {
        struct rte_mbuf *chain = chain_make(2, GOOD);
        u_u8 *data = rte_pktmbuf_mtod(chain, u_u8 *);

        if (i == 0)
            data[23] = 17;
        if (i == 1)
            data[46] = 0x40;
        if (i == 2) {
            data[14] = 0x4f;
            data[14 + 60 + 12] = 0xf0;
            chain->next->data_off += 60; /* enough in front of the second mbuf's bytes */
        }
        arrived.mbufs[0] = chain;
        arrived.count = 1;
        assert_int_equal(nic_rx_burst(nic[0], &pkt, 1), 0);
        assert_int_equal(stat_of(nic[0], "dpdk_rx_chain_drops"), i + 1);
    }
    assert_int_equal(stat_of(nic[0], "dpdk_rx_segmented"), 0);
    assert_int_equal(in_use(), before);
}

/* Wrong checksums, or ones that the NIC has found wrong: dropped as a whole, and counted. */
static void a_wrong_chain_is_dropped(void **state)
{
    static const uint64_t wrong[] = {
        0,
        RTE_MBUF_F_RX_IP_CKSUM_GOOD,
        RTE_MBUF_F_RX_L4_CKSUM_GOOD,
        RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_BAD,
        RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_GOOD,
    };
    unsigned before = in_use(), i;
    struct us_pkt *pkt;

    for (i = 0; i < U_ARRAY_LEN(wrong); i++) {
        arrived.mbufs[0] = chain_make(2, wrong[i]);
        arrived.count = 1;
        assert_int_equal(nic_rx_burst(nic[0], &pkt, 1), 0);
        assert_int_equal(stat_of(nic[0], "dpdk_rx_chain_drops"), i + 1);
    }
    arrived.mbufs[0] = chain_make(2, GOOD);
    arrived.mbufs[0]->pkt_len--; /* not the length in the IP header */
    arrived.count = 1;
    assert_int_equal(nic_rx_burst(nic[0], &pkt, 1), 0);
    assert_int_equal(stat_of(nic[0], "dpdk_rx_chain_drops"), i + 1);
    assert_int_equal(stat_of(nic[0], "dpdk_rx_segmented"), 0);
    assert_int_equal(in_use(), before);
}

/* ---- ownership of packets ---------------------------------------------------------------- */

static unsigned owned; /* buffers of another owner that are in use */

static void count_owned(void *address, void *count)
{
    --*(unsigned *)count;
}

/* The buffers of another queue, and buffers in memory of another owner, are not kept for reuse. */
static void packets_of_others_return_to_them(void **state)
{
    static char memory[2048];
    struct us_pkt *pkts[NIC_BURST_MAX], *other;
    struct rte_mbuf_ext_shared_info *owner;
    uint16_t bytes = sizeof(memory);
    unsigned i;

    assert_int_equal(nic_alloc(nic[1], &other, 1), 1);
    assert_int_equal(nic_alloc(nic[0], pkts, 1), 1);
    owner = rte_pktmbuf_ext_shinfo_init_helper(memory, &bytes, count_owned, &owned);
    owned = 1;
    rte_pktmbuf_attach_extbuf(dpdk_mbuf_of(pkts[0]), memory, RTE_BAD_IOVA, bytes, owner);
    nic_release(nic[0], pkts, 1);
    assert_int_equal(owned, 0);
    nic_release(nic[0], &other, 1);
    assert_int_equal(rte_mempool_in_use_count(((struct dpdk_queue *)nic[1])->pool), 0);
    assert_int_equal(nic_alloc(nic[0], pkts, NIC_BURST_MAX), NIC_BURST_MAX);
    for (i = 0; i < NIC_BURST_MAX; i++) {
        assert_ptr_equal(dpdk_mbuf_of(pkts[i])->pool, pool());
        assert_true(RTE_MBUF_DIRECT(dpdk_mbuf_of(pkts[i])));
    }
    nic_release(nic[0], pkts, NIC_BURST_MAX);
}

/* Frames of this machine's kernel may hold the pseudo-header's sum in place of the checksum. */
static void partial_checksums_are_known_where_they_occur(void **state)
{
    static const u_u8 headers[HEADERS_BYTES] = {
        2,    0, 0, 0,  0, 1, 2,    0, 0,  0, 0, 2, 8,  0, /* Ethernet, IPv4, TCP */
        0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct u_be32 addresses[2];
    struct us_pkt *pkt;
    unsigned i, sum;
    u_u8 *data;

    memcpy(addresses, headers + 26, sizeof(addresses));
    sum = u_cksum_partial(u_cksum_pseudo4(addresses[0], addresses[1], 6, 20));
    for (i = 0; i < 2; i++) {
        driver_reset();
        driver.name = i == 0 ? "net_test" : "net_af_packet";
        assert_int_equal(driver_open(&config, 1, nic), 1);
        driver_bursts(nic[0])->rx_pkt_burst = deliver;
        arrived.mbufs[0] = mbuf_make(HEADERS_BYTES, 0);
        arrived.count = 1;
        data = rte_pktmbuf_mtod(arrived.mbufs[0], u_u8 *);
        memcpy(data, headers, sizeof(headers));
        data[50] = (u_u8)(sum >> 8);
        data[51] = (u_u8)sum;
        assert_int_equal(nic_rx_burst(nic[0], &pkt, 1), 1);
        assert_int_equal(pkt->flags, i == 0 ? 0 : US_PKT_L4_CSUM_GOOD);
        nic_release(nic[0], &pkt, 1);
        driver_close(nic, 1);
    }
}

/* A queue that is closed in the middle of a chain, with a frame behind it. */
static void a_closed_queue_holds_no_frames(void **state)
{
    struct rte_mempool *packets = pool();
    struct rte_mbuf *behind = mbuf_make(60, 0);
    struct us_pkt *pkt;

    arrived.mbufs[0] = chain_make(3, GOOD);
    arrived.mbufs[1] = behind;
    arrived.count = 2;
    assert_int_equal(nic_rx_burst(nic[0], &pkt, 1), 1);
    assert_int_equal(rte_mempool_in_use_count(packets), 4);
    rte_pktmbuf_free(dpdk_mbuf_of(pkt));
    rte_mbuf_refcnt_update(behind, 1);
    nic_close(nic[0]); /* the other one keeps the device open */
    assert_int_equal(rte_mbuf_refcnt_read(behind), 1);
    rte_pktmbuf_free(behind);
    assert_int_equal(rte_mempool_in_use_count(packets), 0);
    nic_close(nic[1]);
    (void)open_nic(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_have_what_the_nic_has_verified, open_nic, close_nic),
        cmocka_unit_test_setup_teardown(a_chain_is_received_as_segments, open_nic, close_nic),
        cmocka_unit_test_setup_teardown(a_chain_of_ip6_is_received_as_segments, open_nic,
                                        close_nic),
        cmocka_unit_test_setup_teardown(the_rest_of_a_chain_is_not_slept_on, open_nic, close_nic),
        cmocka_unit_test_setup_teardown(a_chain_that_is_no_segment_is_dropped, open_nic, close_nic),
        cmocka_unit_test_setup_teardown(a_wrong_chain_is_dropped, open_nic, close_nic),
        cmocka_unit_test_setup_teardown(packets_of_others_return_to_them, open_nic, close_nic),
        cmocka_unit_test(partial_checksums_are_known_where_they_occur),
        cmocka_unit_test_setup_teardown(a_closed_queue_holds_no_frames, open_nic, close_nic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
