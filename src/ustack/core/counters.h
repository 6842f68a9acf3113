/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters: events worth knowing, every reason for a drop and every bound that was reached. The
 * list has the suffix of the enum constant US_C_... and the public name (us_counter_name()) of
 * each.
 */
#ifndef USTACK_COUNTERS_H
#define USTACK_COUNTERS_H

#define US_COUNTER_LIST(X)                                                                         \
    X(RX_FRAMES, "rx_frames")                                                                      \
    X(RX_BYTES, "rx_bytes")                                                                        \
    X(TX_FRAMES, "tx_frames")                                                                      \
    X(TX_BYTES, "tx_bytes")                                                                        \
    X(DROP_ETH_MALFORMED, "drop_eth_malformed")                                                    \
    X(DROP_ETH_ADDRESS, "drop_eth_address")                                                        \
    X(DROP_ETH_TYPE, "drop_eth_type")                                                              \
    X(DROP_ETH_CHAINED, "drop_eth_chained")                                                        \
    X(DROP_ETH_VLAN, "drop_eth_vlan")                                                              \
    X(ARP_RX, "arp_rx")                                                                            \
    X(ARP_TX_REQUESTS, "arp_tx_requests")                                                          \
    X(ARP_TX_REPLIES, "arp_tx_replies")                                                            \
    X(ARP_CHANGES, "arp_changes")                                                                  \
    X(ARP_CONFLICTS, "arp_conflicts")                                                              \
    X(ARP_EVICTIONS, "arp_evictions")                                                              \
    X(ARP_EVICTIONS_INCOMPLETE, "arp_evictions_incomplete") /* for datagrams only */               \
    X(ARP_EVICTIONS_IN_USE, "arp_evictions_in_use") /* of these, next hops of connections */       \
    X(ARP_TABLE_FULL, "arp_table_full")             /* no entry could be made */                   \
    X(ARP_TIMEOUTS, "arp_timeouts")                                                                \
    X(DROP_ARP_MALFORMED, "drop_arp_malformed")                                                    \
    X(ND_RX, "nd_rx")                                                                              \
    X(ND_TX, "nd_tx")                                                                              \
    X(ND_CONFLICTS, "nd_conflicts")                                                                \
    X(ND_DUPLICATES, "nd_duplicates")                                                              \
    X(ND_TABLE_FULL, "nd_table_full")                                                              \
    X(DROP_ND_MALFORMED, "drop_nd_malformed")                                                      \
    X(DROP_IP_HEADER, "drop_ip_header")                                                            \
    X(DROP_IP_CHECKSUM, "drop_ip_checksum")                                                        \
    X(DROP_IP_ADDRESS, "drop_ip_address")                                                          \
    X(DROP_IP_SOURCE, "drop_ip_source")                                                            \
    X(DROP_IP_FRAGMENT, "drop_ip_fragment")                                                        \
    X(DROP_IP_PROTOCOL, "drop_ip_protocol")                                                        \
    X(DROP_IP_OPTIONS, "drop_ip_options")                                                          \
    X(DROP_IP_EXTENSION, "drop_ip_extension")                                                      \
    X(FRAG_RX, "frag_rx")                                                                          \
    X(FRAG_WHOLE, "frag_whole")                                                                    \
    X(FRAG_TIMEOUTS, "frag_timeouts")                                                              \
    X(FRAG_EVICTIONS, "frag_evictions")                                                            \
    X(DROP_FRAG_OVERLAP, "drop_frag_overlap")                                                      \
    X(DROP_FRAG_COPY, "drop_frag_copy")                                                            \
    X(DROP_FRAG_BOUND, "drop_frag_bound")                                                          \
    X(ICMP_RX_ECHO, "icmp_rx_echo")                                                                \
    X(ICMP_TX_ECHO, "icmp_tx_echo")                                                                \
    X(ICMP_RX_ERRORS, "icmp_rx_errors")                                                            \
    X(ICMP_TX_ERRORS, "icmp_tx_errors")                                                            \
    X(ICMP_TX_LIMITED, "icmp_tx_limited")                                                          \
    X(DROP_ICMP_MALFORMED, "drop_icmp_malformed")                                                  \
    X(DROP_ICMP_CHECKSUM, "drop_icmp_checksum")                                                    \
    X(DROP_ICMP_TYPE, "drop_icmp_type")                                                            \
    X(DROP_ICMP_QUOTE, "drop_icmp_quote")                                                          \
    X(DROP_ICMP_NO_CONN, "drop_icmp_no_conn")                                                      \
    X(DROP_ICMP_SEQUENCE, "drop_icmp_sequence")                                                    \
    X(UDP_RX, "udp_rx")                                                                            \
    X(UDP_TX, "udp_tx")                                                                            \
    X(FRAG_TX, "frag_tx")                                                                          \
    X(DROP_UDP_HEADER, "drop_udp_header")                                                          \
    X(DROP_UDP_CHECKSUM, "drop_udp_checksum")                                                      \
    X(DROP_UDP_NO_PORT, "drop_udp_no_port")                                                        \
    X(DROP_DATAGRAM_QUEUE, "drop_datagram_queue")                                                  \
    X(DROP_DATAGRAM_NO_HOP, "drop_datagram_no_hop")                                                \
    X(TCP_RX_SEGMENTS, "tcp_rx_segments")                                                          \
    X(TCP_RX_BYTES, "tcp_rx_bytes")                                                                \
    X(TCP_FAST_PATH, "tcp_fast_path") /* segments received by header prediction */                 \
    X(TCP_FAST_SENT, "tcp_fast_sent") /* segments sent by the fast path */                         \
    X(TCP_RX_DUP_ACKS, "tcp_rx_dup_acks")                                                          \
    X(TCP_RX_SACK_BLOCKS, "tcp_rx_sack_blocks")                                                    \
    X(TCP_RX_SACK_INVALID, "tcp_rx_sack_invalid")                                                  \
    X(TCP_RX_DSACKS, "tcp_rx_dsacks")                                                              \
    X(TCP_RX_OUT_OF_ORDER, "tcp_rx_out_of_order")                                                  \
    X(TCP_OOO_PRUNED, "tcp_ooo_pruned") /* connections, for want of memory */                      \
    X(TCP_RX_RST, "tcp_rx_rst")                                                                    \
    X(TCP_TX_SEGMENTS, "tcp_tx_segments")                                                          \
    X(TCP_TX_BYTES, "tcp_tx_bytes")                                                                \
    X(TCP_TX_PURE_ACKS, "tcp_tx_pure_acks")                                                        \
    X(TCP_TX_RST, "tcp_tx_rst")                                                                    \
    X(TCP_DELAYED_ACKS, "tcp_delayed_acks")                                                        \
    X(TCP_RETRANSMITS, "tcp_retransmits")                                                          \
    X(TCP_FAST_RETRANSMITS, "tcp_fast_retransmits")                                                \
    X(TCP_PARTIAL_ACKS, "tcp_partial_acks")                                                        \
    X(TCP_RECOVERIES, "tcp_recoveries")                                                            \
    X(TCP_LOST_RETRANSMITS, "tcp_lost_retransmits")                                                \
    X(TCP_TAIL_PROBES, "tcp_tail_probes")                                                          \
    X(TCP_UNDOS, "tcp_undos")                                                                      \
    X(TCP_RACK_TIMEOUTS, "tcp_rack_timeouts")                                                      \
    X(TCP_CC_REDUCTIONS, "tcp_cc_reductions")                                                      \
    X(TCP_ECN_CONNS, "tcp_ecn_conns")                                                              \
    X(TCP_ECN_RX_CE, "tcp_ecn_rx_ce")                                                              \
    X(TCP_ECN_RX_ECE, "tcp_ecn_rx_ece")                                                            \
    X(TCP_ECN_REDUCTIONS, "tcp_ecn_reductions")                                                    \
    X(TCP_SACK_OVERFLOW, "tcp_sack_overflow")                                                      \
    X(TCP_SACK_NO_MEMORY, "tcp_sack_no_memory")                                                    \
    X(TCP_TIMEOUTS, "tcp_timeouts")                                                                \
    X(TCP_TIMEOUTS_DEFERRED, "tcp_timeouts_deferred")                                              \
    X(TCP_WINDOW_PROBES, "tcp_window_probes")                                                      \
    X(SYN_COOKIES_SENT, "syn_cookies_sent")                                                        \
    X(SYN_COOKIES_ACCEPTED, "syn_cookies_accepted")                                                \
    X(SYN_COOKIES_FAILED, "syn_cookies_failed")                                                    \
    X(HALF_OPEN_TIMEOUTS, "half_open_timeouts")     /* handshakes ended after the last SYN-ACK */  \
    X(HALF_OPEN_RESETS, "half_open_resets")         /* handshakes ended by a RST of the peer */    \
    X(HALF_OPEN_EVICTIONS, "half_open_evictions")   /* by peers in TIME-WAIT */                    \
    X(TCP_LISTEN_OVERFLOWS, "tcp_listen_overflows") /* no connection was free */                   \
    X(TCP_PMTU_LOWERED, "tcp_pmtu_lowered")                                                        \
    X(TCP_PMTU_BLACK_HOLES, "tcp_pmtu_black_holes")                                                \
    X(TCP_PMTU_PROBES, "tcp_pmtu_probes")                                                          \
    X(TCP_PMTU_PROBES_FAILED, "tcp_pmtu_probes_failed")                                            \
    X(TCP_PMTU_RAISED, "tcp_pmtu_raised")                                                          \
    X(TCP_KEEPALIVE_PROBES, "tcp_keepalive_probes")                                                \
    X(TCP_KEEPALIVE_TIMEOUTS, "tcp_keepalive_timeouts")                                            \
    X(TCP_R2_TIMEOUTS, "tcp_r2_timeouts")                                                          \
    X(TCP_ORPHAN_TIMEOUTS, "tcp_orphan_timeouts")                                                  \
    X(TCP_USER_TIMEOUTS, "tcp_user_timeouts")                                                      \
    X(TCP_PERSIST_TIMEOUTS, "tcp_persist_timeouts")                                                \
    X(TCP_FIN_WAIT2_TIMEOUTS, "tcp_fin_wait2_timeouts")                                            \
    X(TCP_LINGER_TIMEOUTS, "tcp_linger_timeouts")                                                  \
    X(TCP_CHALLENGE_ACKS, "tcp_challenge_acks")                                                    \
    X(TCP_CHALLENGE_LIMITED, "tcp_challenge_limited")                                              \
    X(TCP_ACCEPTED, "tcp_accepted")                                                                \
    X(TCP_CONNECTED, "tcp_connected")                                                              \
    X(TCP_EXPORTED, "tcp_exported")                                                                \
    X(TCP_IMPORTED, "tcp_imported")                                                                \
    X(TCP_CLOSED_NORMAL, "tcp_closed_normal")                                                      \
    X(TCP_CLOSED_RESET, "tcp_closed_reset")                                                        \
    X(TCP_CLOSED_TIMEOUT, "tcp_closed_timeout")                                                    \
    X(TCP_CLOSED_ABORTED, "tcp_closed_aborted")                                                    \
    X(TCP_NO_MEMORY, "tcp_no_memory")                                                              \
    X(DROP_TCP_HEADER, "drop_tcp_header")                                                          \
    X(DROP_TCP_CHECKSUM, "drop_tcp_checksum")                                                      \
    X(DROP_TCP_NO_PORT, "drop_tcp_no_port")                                                        \
    X(DROP_TCP_NO_ACK, "drop_tcp_no_ack")                                                          \
    X(DROP_TCP_BAD_ACK, "drop_tcp_bad_ack")                                                        \
    X(DROP_TCP_WINDOW, "drop_tcp_window")                                                          \
    X(DROP_TCP_OLD_DATA, "drop_tcp_old_data")                                                      \
    X(DROP_TCP_PAWS, "drop_tcp_paws")                                                              \
    X(DROP_TCP_NO_TIMESTAMP, "drop_tcp_no_timestamp")                                              \
    X(DROP_TCP_RST, "drop_tcp_rst") /* RSTs without effect */                                      \
    X(DROP_TCP_HALF_OPEN, "drop_tcp_half_open")                                                    \
    X(DROP_TCP_LISTEN_LIMIT, "drop_tcp_listen_limit")                                              \
    X(DROP_TCP_NO_ROUTE, "drop_tcp_no_route")                                                      \
    X(DROP_TCP_OOO_MEMORY, "drop_tcp_ooo_memory")                                                  \
    X(DROP_TCP_RX_MEMORY, "drop_tcp_rx_memory")                                                    \
    X(TIME_WAIT_RECYCLED, "time_wait_recycled")                                                    \
    X(TIME_WAIT_REUSED, "time_wait_reused")                                                        \
    X(DROP_TIME_WAIT_RST, "drop_time_wait_rst")                                                    \
    X(DROP_REPLY_QUEUE, "drop_reply_queue")                                                        \
    X(INPUT_CUT_SHORT, "input_cut_short")                                                          \
    X(SEND_QUEUE_FULL, "send_queue_full")                                                          \
    X(ORPHANS_DROPPED, "orphans_dropped")                                                          \
    X(POOL_EMPTY_CONNS, "pool_empty_conns")                                                        \
    X(POOL_EMPTY_BUFFERS, "pool_empty_buffers")                                                    \
    X(POOL_LOW_BUFFERS, "pool_low_buffers") /* blocks refused because the others are reserved */   \
    X(POOL_EMPTY_REFS, "pool_empty_refs")

#define US_COUNTER_ENUM(constant, name) US_C_##constant,

enum us_counter_index {
    US_COUNTER_LIST(US_COUNTER_ENUM) US_COUNTERS /* number of counters */
};

#endif
