/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of counters and gauges; see stats.h. */
#include "ustack/stack.h"
#include "ustack/tcp.h"

/* In the order of enum us_counter_index, then the gauges in the order of enum stats_gauge. */
static const char *const stats_names[] = {"rx_frames",
                                          "rx_bytes",
                                          "tx_frames",
                                          "tx_bytes",
                                          "drop_eth_malformed",
                                          "drop_eth_address",
                                          "drop_eth_type",
                                          "drop_eth_chained",
                                          "drop_eth_vlan",
                                          "arp_rx",
                                          "arp_tx_requests",
                                          "arp_tx_replies",
                                          "arp_changes",
                                          "arp_conflicts",
                                          "arp_evictions",
                                          "arp_timeouts",
                                          "drop_arp_malformed",
                                          "nd_rx",
                                          "nd_tx",
                                          "nd_conflicts",
                                          "nd_duplicates",
                                          "nd_table_full",
                                          "drop_nd_malformed",
                                          "drop_ip_header",
                                          "drop_ip_checksum",
                                          "drop_ip_address",
                                          "drop_ip_source",
                                          "drop_ip_fragment",
                                          "drop_ip_protocol",
                                          "drop_ip_options",
                                          "drop_ip_extension",
                                          "frag_rx",
                                          "frag_whole",
                                          "frag_timeouts",
                                          "frag_evictions",
                                          "drop_frag_overlap",
                                          "drop_frag_copy",
                                          "drop_frag_bound",
                                          "icmp_rx_echo",
                                          "icmp_tx_echo",
                                          "icmp_rx_errors",
                                          "icmp_tx_errors",
                                          "icmp_tx_limited",
                                          "drop_icmp_malformed",
                                          "drop_icmp_checksum",
                                          "drop_icmp_type",
                                          "drop_icmp_quote",
                                          "drop_icmp_no_conn",
                                          "drop_icmp_sequence",
                                          "udp_rx",
                                          "udp_tx",
                                          "frag_tx",
                                          "drop_udp_header",
                                          "drop_udp_checksum",
                                          "drop_udp_no_port",
                                          "drop_datagram_queue",
                                          "drop_datagram_no_hop",
                                          "tcp_rx_segments",
                                          "tcp_rx_bytes",
                                          "tcp_fast_path",
                                          "tcp_fast_sent",
                                          "tcp_rx_dup_acks",
                                          "tcp_rx_sack_blocks",
                                          "tcp_rx_sack_invalid",
                                          "tcp_rx_dsacks",
                                          "tcp_rx_out_of_order",
                                          "tcp_rx_rst",
                                          "tcp_tx_segments",
                                          "tcp_tx_bytes",
                                          "tcp_tx_pure_acks",
                                          "tcp_tx_rst",
                                          "tcp_delayed_acks",
                                          "tcp_retransmits",
                                          "tcp_fast_retransmits",
                                          "tcp_partial_acks",
                                          "tcp_recoveries",
                                          "tcp_lost_retransmits",
                                          "tcp_tail_probes",
                                          "tcp_undos",
                                          "tcp_rack_timeouts",
                                          "tcp_cc_reductions",
                                          "tcp_ecn_conns",
                                          "tcp_ecn_rx_ce",
                                          "tcp_ecn_rx_ece",
                                          "tcp_ecn_reductions",
                                          "tcp_sack_overflow",
                                          "tcp_sack_no_memory",
                                          "tcp_timeouts",
                                          "tcp_window_probes",
                                          "syn_cookies_sent",
                                          "syn_cookies_accepted",
                                          "syn_cookies_failed",
                                          "tcp_pmtu_lowered",
                                          "tcp_pmtu_black_holes",
                                          "tcp_pmtu_probes",
                                          "tcp_pmtu_probes_failed",
                                          "tcp_pmtu_raised",
                                          "tcp_keepalive_probes",
                                          "tcp_keepalive_timeouts",
                                          "tcp_user_timeouts",
                                          "tcp_persist_timeouts",
                                          "tcp_fin_wait2_timeouts",
                                          "tcp_linger_timeouts",
                                          "tcp_challenge_acks",
                                          "tcp_challenge_limited",
                                          "tcp_accepted",
                                          "tcp_connected",
                                          "tcp_closed_normal",
                                          "tcp_closed_reset",
                                          "tcp_closed_timeout",
                                          "tcp_closed_aborted",
                                          "tcp_no_memory",
                                          "drop_tcp_header",
                                          "drop_tcp_checksum",
                                          "drop_tcp_no_port",
                                          "drop_tcp_no_ack",
                                          "drop_tcp_bad_ack",
                                          "drop_tcp_window",
                                          "drop_tcp_old_data",
                                          "drop_tcp_paws",
                                          "drop_tcp_no_timestamp",
                                          "drop_tcp_rst",
                                          "drop_tcp_half_open",
                                          "drop_tcp_listen_limit",
                                          "drop_tcp_no_route",
                                          "drop_tcp_ooo_memory",
                                          "drop_tcp_rx_memory",
                                          "time_wait_recycled",
                                          "time_wait_reused",
                                          "drop_time_wait_rst",
                                          "drop_reply_queue",
                                          "input_cut_short",
                                          "send_queue_full",
                                          "pool_empty_conns",
                                          "pool_empty_buffers",
                                          "pool_empty_refs",
                                          "conns_open",
                                          "half_open",
                                          "time_wait",
                                          "neighbours",
                                          "buffer_bytes_used",
                                          "refs_used",
                                          "datagrams_waiting",
                                          "reassemblies"};

/* What is counted right now instead of since the beginning. */
enum stats_gauge {
    GAUGE_CONNS_OPEN,
    GAUGE_HALF_OPEN,
    GAUGE_TIME_WAIT,
    GAUGE_NEIGHBOURS,
    GAUGE_BUFFER_BYTES_USED,
    GAUGE_REFS_USED,
    GAUGE_DATAGRAMS_WAITING,
    GAUGE_REASSEMBLIES,
    GAUGES
};

U_STATIC_ASSERT(U_ARRAY_LEN(stats_names) == (unsigned)US_COUNTERS + (unsigned)GAUGES,
                stats_names_complete);

unsigned us_counter_count(void)
{
    return U_ARRAY_LEN(stats_names);
}

const char *us_counter_name(unsigned index)
{
    return index < U_ARRAY_LEN(stats_names) ? stats_names[index] : "";
}

u_u64 us_counter(const struct us_stack *stack, unsigned index)
{
    if (index < US_COUNTERS)
        return stack->counters[index];
    switch (index - US_COUNTERS) {
    case GAUGE_CONNS_OPEN:
        return stack->conn_pool.used;
    case GAUGE_HALF_OPEN:
        return stack->half_open;
    case GAUGE_TIME_WAIT:
        return stack->tw_pool.used;
    case GAUGE_NEIGHBOURS:
        return stack->neighbours.pool.used;
    case GAUGE_BUFFER_BYTES_USED:
        return (u_u64)stack->block_pool.used * US_BLOCK_BYTES;
    case GAUGE_REFS_USED:
        return stack->ref_pool.used;
    case GAUGE_DATAGRAMS_WAITING:
        return stack->dgrams.pool.used;
    case GAUGE_REASSEMBLIES:
        return stack->frags.pool.used;
    default:
        return 0;
    }
}
