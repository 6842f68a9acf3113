/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the lines of the lists are: gauges or counters, and their HELP. The first row that fits
 * holds. A line of a list that is not described here is a counter (docs/administration.md).
 */
#include <string.h>

#include "base/base.h"
#include "metrics_text.h"

#define COUNTER(list, name, help)                                                                  \
    {                                                                                              \
        list, name, false, help                                                                    \
    }
#define GAUGE(list, name, help)                                                                    \
    {                                                                                              \
        list, name, true, help                                                                     \
    }

#define NOT_HERE "Always 0: of memcached's slabs and LRU lists, which this server does not have."

static const struct metrics_name names[] = {
    GAUGE(NULL, "max_connections", "Limit of client connections (-c)."),
    GAUGE(NULL, "curr_connections", "Open client connections."),
    COUNTER(NULL, "total_connections", "Client connections accepted."),
    COUNTER(NULL, "rejected_connections", "Connections refused because of -c."),
    GAUGE(NULL, "connection_structures", "Allocated sessions, open or free."),
    COUNTER(NULL, "read_buf_oom", "Connections closed for lack of memory for a command line."),
    COUNTER(NULL, "cmd_get", "Keys looked up: hits and misses."),
    COUNTER(NULL, "cmd_set", "Values stored or offered: set, add, replace, append, prepend, cas."),
    COUNTER(NULL, "cmd_flush", "Commands flush_all."),
    COUNTER(NULL, "cmd_touch", "Keys touched, found or not: touch and gat."),
    COUNTER(NULL, "cmd_meta", "Meta commands."),
    COUNTER(NULL, "get_hits", "Keys looked up and found."),
    COUNTER(NULL, "get_misses", "Keys looked up and not found."),
    COUNTER(NULL, "get_expired", "Keys looked up whose item had expired."),
    COUNTER(NULL, "get_flushed", "Keys looked up whose item had been flushed."),
    COUNTER(NULL, "delete_misses", "Keys to be deleted and not found."),
    COUNTER(NULL, "delete_hits", "Keys deleted."),
    COUNTER(NULL, "incr_misses", "Keys to be incremented and not found."),
    COUNTER(NULL, "incr_hits", "Keys incremented."),
    COUNTER(NULL, "decr_misses", "Keys to be decremented and not found."),
    COUNTER(NULL, "decr_hits", "Keys decremented."),
    COUNTER(NULL, "cas_misses", "Keys of cas that were not found."),
    COUNTER(NULL, "cas_hits", "Values stored by cas."),
    COUNTER(NULL, "cas_badval", "Values not stored by cas: the item had changed."),
    COUNTER(NULL, "touch_hits", "Keys touched."),
    COUNTER(NULL, "touch_misses", "Keys to be touched and not found."),
    COUNTER(NULL, "store_too_large", "Values not stored: larger than -I."),
    COUNTER(NULL, "store_no_memory", "Values not stored for lack of memory (-M)."),
    COUNTER(NULL, "auth_cmds", "Authentications tried."),
    COUNTER(NULL, "auth_errors", "Authentications refused."),
    COUNTER(NULL, "idle_kicks", "Connections closed by -o idle_timeout."),
    COUNTER(NULL, "bytes_read", "Bytes received from clients."),
    COUNTER(NULL, "bytes_written", "Bytes sent to clients."),
    GAUGE(NULL, "limit_maxbytes", "Limit of memory for items (-m, cache_memlimit), in bytes."),
    GAUGE(NULL, "accepting_conns", "1 while new connections are accepted."),
    COUNTER(NULL, "listen_disabled_num", "Times that accepting stopped because of -c."),
    COUNTER(NULL, "time_in_listen_disabled_us", "Time in which no connection was accepted."),
    GAUGE(NULL, "threads", "Workers (-t)."),
    COUNTER(NULL, "conn_yields", "Times that a connection used up its share of a turn (-R)."),
    GAUGE(NULL, "hash_power_level", "Binary logarithm of the number of buckets of the index."),
    GAUGE(NULL, "hash_bytes", "Memory of the index."),
    GAUGE(NULL, "hash_is_expanding", "1 while the index grows."),
    GAUGE(NULL, "slab_*", NOT_HERE),
    COUNTER(NULL, "slabs_moved", NOT_HERE),
    GAUGE(NULL, "lru_crawler_running", "1 while the crawler scans the table."),
    COUNTER(NULL, "lru_crawler_starts", "Scans of the crawler."),
    COUNTER(NULL, "lru*", NOT_HERE),
    COUNTER(NULL, "moves_*", NOT_HERE),
    COUNTER(NULL, "direct_reclaims", NOT_HERE),
    COUNTER(NULL, "malloc_fails", "Allocations that failed."),
    COUNTER(NULL, "log_worker_dropped", "Lines for watchers that a full buffer dropped."),
    COUNTER(NULL, "log_worker_written", "Lines for watchers written by workers."),
    COUNTER(NULL, "log_watcher_skipped", "Lines that a watcher missed."),
    COUNTER(NULL, "log_watcher_sent", "Lines sent to watchers."),
    GAUGE(NULL, "log_watchers", "Watchers."),
    GAUGE(NULL, "bytes", "Bytes of all items as memcached counts them."),
    GAUGE(NULL, "curr_items", "Items."),
    COUNTER(NULL, "total_items", "Items stored."),
    COUNTER(NULL, "expired_unfetched", "Expired items that were never looked up."),
    COUNTER(NULL, "evicted_unfetched", "Evicted items that were never looked up."),
    COUNTER(NULL, "evicted_active", "Evicted items that had been looked up recently."),
    COUNTER(NULL, "evictions", "Items evicted to make room."),
    COUNTER(NULL, "reclaimed", "Expired items whose memory was reclaimed."),
    COUNTER(NULL, "crawler_reclaimed", "Items reclaimed by the crawler."),
    COUNTER(NULL, "crawler_items_checked", "Items checked by the crawler."),
    GAUGE(NULL, "response_obj_count", NOT_HERE),
    GAUGE(NULL, "response_obj_bytes", NOT_HERE),
    COUNTER(NULL, "response_obj_oom", NOT_HERE),
    GAUGE(NULL, "read_buf_*", NOT_HERE),
    GAUGE(NULL, "reserved_fds", NOT_HERE),
    COUNTER(NULL, "unexpected_napi_ids", NOT_HERE),
    COUNTER(NULL, "round_robin_fallback", NOT_HERE),

    GAUGE("kv", "memory_limit_bytes", "Limit of memory (-m, cache_memlimit)."),
    GAUGE("kv", "memory_used_bytes", "Memory in use, index included."),
    GAUGE("kv", "index_bytes", "Memory of the index."),
    GAUGE("kv", "index_power", "Binary logarithm of the number of buckets."),
    GAUGE("kv", "index_growing", "1 while a larger index is being filled."),
    COUNTER("kv", "index_growths", "Times that the index has grown."),
    GAUGE("kv", "item_bytes", "Memory of items."),
    GAUGE("kv", "items", "Items."),
    COUNTER("kv", "update_retries", "Updates repeated because another worker was faster."),
    GAUGE("kv", "pinned", "Items that send queues refer to."),
    GAUGE("kv", "epoch_lag",
          "Retirements of memory that the slowest worker is behind; grows if a worker hangs."),
    GAUGE("kv", "flushes_behind", "Flushes whose items are not removed yet."),
    GAUGE("kv", "touch_thread", "1 if a thread prefaults memory."),
    GAUGE("kv", "touched_free_bytes", "Prefaulted memory that is free."),
    COUNTER("kv", "touched_ahead", "Segments prefaulted by the thread."),
    COUNTER("kv", "touched_late", "Segments that a worker took before the thread."),
    GAUGE("kv", "uploads_open", "Incomplete values."),
    GAUGE("kv", "upload_item_bytes", "Bytes of items made for incomplete values."),
    GAUGE("kv", "upload_staged_bytes", "Bytes of incomplete values in buffers."),
    COUNTER("kv", "uploads_refused", "Incomplete values given up at their beginning."),
    COUNTER("kv", "uploads_timed_out", "Incomplete values given up without progress."),
    COUNTER("kv", "uploads_evicted", "Incomplete values given up to make room."),

    COUNTER("ustack", "threading", "Threads per worker (--threading)."),
    GAUGE("ustack", "conns_open", "Open TCP connections of the stack."),
    GAUGE("ustack", "half_open", "Handshakes in progress."),
    GAUGE("ustack", "orphans", "Closed connections with data that is not acknowledged."),
    GAUGE("ustack", "time_wait", "Connections in TIME-WAIT."),
    GAUGE("ustack", "neighbours", "Entries of the neighbour table."),
    GAUGE("ustack", "buffer_bytes_used", "Bytes in use of the pool for queues of connections."),
    GAUGE("ustack", "refs_used", "References to items in send queues."),
    GAUGE("ustack", "datagrams_waiting", "Datagrams in queues."),
    GAUGE("ustack", "reassemblies", "Datagrams of which fragments are missing."),
    COUNTER("ustack", "drop_*", "Frames, packets or segments dropped for the reason in the name."),
    COUNTER("ustack", "tcp_retransmits", "TCP segments retransmitted."),
    COUNTER("ustack", "tcp_timeouts", "TCP retransmission timeouts."),
    COUNTER("ustack", "tcp_*", "Events of TCP (docs/stack.md)."),
    COUNTER("ustack", "arp_*", "Events of ARP and of the neighbour table."),
    COUNTER("ustack", "nd_*", "Events of IPv6 neighbour discovery."),
    COUNTER("ustack", "icmp_*", "ICMP messages."),
    COUNTER("ustack", "frag_*", "Fragments and datagrams made of them."),
    COUNTER("ustack", "syn_cookies_*", "SYN cookies."),
    COUNTER("ustack", "half_open_*", "Handshakes that did not complete."),
    COUNTER("ustack", "pool_*", "Times that a pool of the stack had nothing left."),
    COUNTER("ustack", "split_*", "Messages between the two threads of a worker."),
    COUNTER("ustack", "loop_*", "Frames and bursts of the workers' loops."),
    COUNTER("ustack", "loops", "Turns of the workers' loops."),
    COUNTER("ustack", "loops_busy", "Turns that received, sent or changed something."),
    COUNTER("ustack", "cycles_busy", "Time-stamp counter ticks of these turns."),
    COUNTER("ustack", "sleeps", "Sleeps of workers."),

    GAUGE("nic", "*_in_use", "Packets in use of a pool."),
    GAUGE("nic", "dpdk_link_up", "1 if the link is up."),
    GAUGE("nic", "xdp_mtu*", "MTU, in bytes."),
    GAUGE("nic", "xdp_native", "1 if XDP runs in the driver."),
    GAUGE("nic", "xdp_zero_copy", "1 if frames are not copied."),
    GAUGE("nic", "xdp_sockets", "AF_XDP sockets."),
    COUNTER("nic", "backend", "The back end (--io)."),
    COUNTER("nic", "lane_*", "Frames between the threads of a device (docs/backends.md)."),
    COUNTER("nic", "rss_*", "Frames whose queue was compared with the hash of their flow."),
    COUNTER("nic", "*_pool_exhausted", "Times that a pool had no packet left."),
    COUNTER("nic", "*_rx_frames", "Frames received."),
    COUNTER("nic", "*_tx_frames", "Frames sent."),
    COUNTER("nic", "*_rx_bytes", "Bytes received."),
    COUNTER("nic", "*_tx_bytes", "Bytes sent."),

    COUNTER("sock", "loops", "Turns of the workers' loops."),
    COUNTER("sock", "reads", "Receives of kernel sockets."),
    COUNTER("sock", "writes", "Sends of kernel sockets."),
    COUNTER("sock", "accept_pauses", "Times that accepting paused for lack of descriptors."),

    COUNTER("tls", "connections", "Connections with TLS that were opened."),
    COUNTER("tls", "handshake*", "Handshakes, and steps of them that waited (docs/tls.md)."),
    COUNTER("tls", "records_*", "Records with data."),

    COUNTER("*", "sessions_*", "Sessions of connections, by what happened to them."),
    COUNTER("*", "udp_*", "Datagrams of clients and their replies."),
    COUNTER("*", "log_lines_dropped", "Lines for stderr that a full ring dropped."),
    COUNTER("*", "*", "Described in docs/administration.md, docs/stack.md or docs/backends.md."),
};

/* Whether a text fits a pattern, of which the first or the last character may be a *. */
static bool fits(const char *pattern, const char *text)
{
    size_t len = strlen(pattern), text_len = strlen(text);

    if (pattern[0] == '*')
        return text_len >= len - 1 && strcmp(text + text_len - (len - 1), pattern + 1) == 0;
    if (pattern[len - 1] == '*')
        return strncmp(text, pattern, len - 1) == 0;
    return strcmp(text, pattern) == 0;
}

const struct metrics_name *metrics_name_find(const char *list, const char *name)
{
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(names) - 1; i++) {
        bool same_list = names[i].list == NULL || list == NULL ? names[i].list == list
                                                               : fits(names[i].list, list);

        if (same_list && fits(names[i].name, name))
            break;
    }
    return &names[i];
}
