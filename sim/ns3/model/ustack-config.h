/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of UstackStack: one row for each member of struct us_config that is a number. */
#ifndef NS3_USTACK_CONFIG_H
#define NS3_USTACK_CONFIG_H

/* ROW(member, attribute, help) */
#define USTACK_CONFIG_ROWS(ROW)                                                                    \
    ROW(caps, "Caps", "Enum us_cap: offloads of the device")                                       \
    ROW(mtu, "Mtu", "Largest IP packet, bytes; 576..9216, IPv6 from 1280")                         \
    ROW(vlan_id, "VlanId", "1..4094: VLAN tag of all frames (IEEE 802.1Q); 0: no tag")             \
    ROW(ip6_autoconf, "Ip6Autoconf", "Flag: accept router advertisements (RFC 4862)")              \
    ROW(dad_probes, "DadProbes", "Duplicate address detection probes (RFC 4862 5.1); 0..100")      \
    ROW(arp_passive, "ArpPassive", "Flag: another instance announces the addresses")               \
    ROW(reply_to_source_mac, "ReplyToSourceMac", "Flag: share the addresses of another stack")     \
    ROW(point_to_point, "PointToPoint", "Flag: the link has two ends")                             \
    ROW(nagle, "Nagle", "Flag: new connections use Nagle's algorithm; us_conn_set_nodelay()")      \
    ROW(quick_acks, "QuickAcks",                                                                   \
        "Segments ACKed without delay at the start and after a loss; 0..255")                      \
    ROW(conn_max, "ConnMax", "Connections, without the SYN queue and TIME-WAIT; 1..2^24")          \
    ROW(orphans_max, "OrphansMax", "Connections after us_close(); one more resets the oldest")     \
    ROW(half_open_max, "HalfOpenMax",                                                              \
        "SYN queue: handshakes of listeners; 0 only with syn_cookies")                             \
    ROW(time_wait_max, "TimeWaitMax", "Connections in TIME-WAIT; one more replaces the oldest")    \
    ROW(neighbour_max, "NeighbourMax",                                                             \
        "Neighbours remembered, 1..65536; at least conn_max is best")                              \
    ROW(listen_max, "ListenMax", "Listening TCP ports, and as many bound UDP ports; 1..65534")     \
    ROW(datagram_max, "DatagramMax", "UDP datagrams and ICMP messages queued for sending")         \
    ROW(reassembly_max, "ReassemblyMax",                                                           \
        "Datagrams in reassembly, 1..256; one more replaces the oldest")                           \
    ROW(reassembly_bytes, "ReassemblyBytes", "Bytes of one of these; 1500..65535")                 \
    ROW(buffer_bytes, "BufferBytes",                                                               \
        "All send and receive queues together; see us_buffer_reserve()")                           \
    ROW(send_queue_bytes, "SendQueueBytes", "Copied bytes queued on a connection; 1..2^30")        \
    ROW(send_refs_max, "SendRefsMax", "References (us_send_ref()) queued on a connection")         \
    ROW(recv_window_bytes, "RecvWindowBytes", "Largest window offered to a peer; 1024..2^30")      \
    ROW(rto_min_us, "RtoMinUs",                                                                    \
        "Us_config.rto_min_us: RFC 6298 (2.4) says 1 s, Linux uses 200 ms; default 5 ms")          \
    ROW(rto_initial_us, "RtoInitialUs", "Before the first RTT measurement; RFC 6298 (2.1): 1 s")   \
    ROW(rto_max_us, "RtoMaxUs", "At most 600 s")                                                   \
    ROW(backoff_max_us, "BackoffMaxUs", "Once established, the RTO is not doubled beyond this")    \
    ROW(delayed_ack_us, "DelayedAckUs",                                                            \
        "Us_config.delayed_ack_us: RFC 9293 3.8.6.3; at most 500 ms")                              \
    ROW(peer_ack_delay_us, "PeerAckDelayUs",                                                       \
        "Longest ACK delay expected of a peer; at most 500 ms")                                    \
    ROW(time_wait_us, "TimeWaitUs", "Us_config.time_wait_us: 2 MSL")                               \
    ROW(fin_wait2_us, "FinWait2Us", "How long to wait for the peer's FIN after us_close()")        \
    ROW(syn_retries_max, "SynRetriesMax",                                                          \
        "Retransmissions of a SYN before the connection ends; 0..200")                             \
    ROW(syn_ack_retries_max, "SynAckRetriesMax", "Us_config.syn_ack_retries_max")                  \
    ROW(neighbour_lifetime_us, "NeighbourLifetimeUs", "A neighbour in use is verified after this") \
    ROW(reassembly_us, "ReassemblyUs", "From the first fragment to the last")                      \
    ROW(challenge_acks_max, "ChallengeAcksMax",                                                    \
        "Per second (RFC 5961 section 7); a random share stays unused")                            \
    ROW(r2_ms, "R2Ms",                                                                             \
        "Us_config.r2_ms: RFC 9293 3.8.3: limit for unacknowledged data, FINs and window probes")  \
    ROW(orphan_ms, "OrphanMs",                                                                     \
        "The limit after us_close(), where answered window probes don't extend it")                \
    ROW(keepalive, "Keepalive",                                                                    \
        "Flag: new connections send keepalives (RFC 9293 3.8.4: default 0)")                       \
    ROW(keepalive_idle_ms, "KeepaliveIdleMs", "Silence before the first keepalive")                \
    ROW(keepalive_interval_ms, "KeepaliveIntervalMs", "Between unanswered keepalives")             \
    ROW(keepalive_count, "KeepaliveCount", "Unanswered keepalives that end a connection; 1..200")  \
    ROW(user_timeout_ms, "UserTimeoutMs", "Replaces r2_ms; 0: r2_ms applies")                      \
    ROW(persist_ms, "PersistMs",                                                                   \
        "Longest time with a zero window; 0: while the peer answers probes")                       \
    ROW(no_fast_path, "NoFastPath",                                                                \
        "Flag: no header prediction: slower, otherwise the same (debugging)")                      \
    ROW(syn_cookies, "SynCookies", "Us_config.syn_cookies")

#endif
