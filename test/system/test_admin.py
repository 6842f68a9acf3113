# SPDX-License-Identifier: BSD-3-Clause
"""version, verbosity, flush_all, stats, quit."""

import re
import time

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_FORMAT, MISS, STORED, hit, settles, storage, wire_to

BAD_EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"
OK = b"OK\r\n"

# memcached 1.6.45 with its defaults, in its order.
GENERAL = """
pid uptime time version libevent pointer_size rusage_user rusage_system max_connections
curr_connections total_connections rejected_connections connection_structures response_obj_oom
response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free
read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses
get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds
auth_errors bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num
time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes hash_is_expanding
slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_inline_reclaim
slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem
slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running
lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written
log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes
curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active
evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold
moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped
""".split()

SETTINGS = """
maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask
shutdown_command growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix
detail_enabled reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl
auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign slab_automove
slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep
lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled hash_algorithm
lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor
temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit
track_sizes inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate
ext_wbuf_size ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio
ext_drop_unread ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat
ssl_ciphers ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids
memory_file client_flags_size evict_policy
""".split()

NOT_WHOLE_NUMBERS = {
    "version",
    "libevent",
    "rusage_user",
    "rusage_system",
    "slab_reassign_last_busy_status",
}
GAUGES = {"curr_connections", "curr_items", "bytes", "threads", "limit_maxbytes"}


# ---- version, verbosity, flush_all ------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [b"version\r\n", b"version\n", b"version foo\r\n", b"version  \r\n"]
)
def test_version_is_three_small_numbers(wire, line):
    wire.send(line)
    match = re.fullmatch(rb"VERSION (\d+)\.(\d+)\.(\d+)\r\n", wire.line())
    assert match
    assert all(int(part) <= 255 for part in match.groups()) and int(match.group(1)) > 0


@pytest.mark.parametrize(
    "line,reply",
    [
        (b"verbosity 0", OK),
        (b"verbosity 1", OK),
        (b"verbosity 100", OK),
        (b"verbosity 0 foo", OK),
        (b"verbosity 0 noreply", b""),
        (b"verbosity noreply", b""),
        (b"verbosity", BAD_FORMAT),
        (b"verbosity x", BAD_FORMAT),
        (b"verbosity -1", BAD_FORMAT),
        (b"verbosity 0 noreply foo", OK),
    ],
)
def test_verbosity(wire, line, reply):
    wire.say(line + b"\r\n", reply)
    wire.say(b"verbosity 0\r\n", OK)


def test_verbosity_is_shown_and_clamped(wire):
    for level, shown in ((b"1", "1"), (b"2", "2"), (b"9", "2"), (b"0", "0")):
        wire.say(b"verbosity %s\r\n" % level, OK)
        assert wire.stats("settings")["verbosity"] == shown


@pytest.mark.parametrize(
    "line,reply,flushed",
    [
        (b"flush_all", OK, True),
        (b"flush_all 0", OK, True),
        (b"flush_all noreply", b"", True),
        (b"flush_all 0 noreply", b"", True),
        (b"flush_all -1", OK, True),
        (b"flush_all x", BAD_EXPTIME, False),
        (b"flush_all x noreply", b"", False),
        (b"flush_all 1x", BAD_EXPTIME, False),
        (b"flush_all 100", OK, False),
        (b"flush_all 100 noreply", b"", False),
    ],
)
def test_flush_all(wire, line, reply, flushed):
    wire.say(storage(b"set", b"k", b"x"), STORED)
    wire.say(line + b"\r\n", reply)
    wire.say(b"get k\r\n", MISS if flushed else hit(b"k", b"x") + MISS)
    wire.say(storage(b"set", b"k", b"y"), STORED)
    wire.say(b"get k\r\n", hit(b"k", b"y") + MISS)
    wire.say(b"flush_all\r\n", OK)  # takes the place of a delayed one


def test_delayed_flush(wire):
    """It takes effect one second before the time that it names; the last one counts."""
    wire.say(storage(b"set", b"k", b"x"), STORED)
    wire.say(b"flush_all 100\r\nflush_all 2\r\nget k\r\n", OK + OK + hit(b"k", b"x") + MISS)
    time.sleep(1.3)
    wire.say(b"get k\r\n", MISS)


def test_flushed_items_are_counted_and_leave(wire):
    before = wire.stats()
    for number in range(100):
        wire.say(storage(b"set", b"k%d" % number, b"x"), STORED)
    wire.say(b"flush_all\r\n" + b"".join(b"get k%d\r\n" % n for n in range(100)), OK + MISS * 100)
    after = wire.stats()
    assert int(after["get_flushed"]) - int(before["get_flushed"]) == 100
    assert int(after["cmd_flush"]) - int(before["cmd_flush"]) == 1


# ---- stats ------------------------------------------------------------------------------------


def test_general_list_has_memcacheds_names_in_its_order(wire):
    assert list(wire.stats()) == GENERAL


def test_general_list_has_memcacheds_types(wire):
    values = wire.stats()
    for name, value in values.items():
        if name not in NOT_WHOLE_NUMBERS:
            assert re.fullmatch(r"\d+", value), f"{name} is {value!r}"
    for name in ("rusage_user", "rusage_system"):
        assert re.fullmatch(r"\d+\.\d{6}", values[name]), values[name]
    assert values["pointer_size"] == "64" and values["accepting_conns"] == "1"
    assert abs(int(values["time"]) - time.time()) < 5
    assert int(values["uptime"]) < 600


def test_general_list_is_about_this_process(wire, shared_server):
    values = wire.stats()
    assert values["pid"] == str(shared_server.pid)
    assert values["limit_maxbytes"] == str(64 << 20)
    assert values["max_connections"] == "1024"


def test_one_connection_is_counted_once_those_before_are_gone(wire):
    """The server may see a little later that those of other tests are closed."""
    assert settles(lambda: wire.stats()["curr_connections"] == "1")


def test_settings_have_memcacheds_names_in_its_order(wire):
    assert list(wire.stats("settings")) == SETTINGS


def test_settings_have_values(wire, shared_server):
    values = wire.stats("settings")
    for name, value in values.items():
        assert value and " " not in value, f"{name} is {value!r}"
    expected = {
        "maxbytes": str(64 << 20),
        "maxconns": "1024",
        "tcpport": "11211" if shared_server.kind == "unix" else str(shared_server.address[1]),
        "udpport": "0",
        "evictions": "on",
        "item_size_max": "1048576",
        "cas_enabled": "yes",
        "flush_enabled": "yes",
        "tcp_backlog": "1024",
        "domain_socket": shared_server.address if shared_server.kind == "unix" else "NULL",
    }
    assert {name: values[name] for name in expected} == expected


def test_reset_zeroes_counters_and_not_gauges(wire):
    wire.say(
        storage(b"set", b"k", b"x") + b"get k\r\nget z\r\nincr z 1\r\ntouch z 0\r\n",
        STORED + hit(b"k", b"x") + MISS + MISS + b"NOT_FOUND\r\n" * 2,
    )
    before = wire.stats()
    assert int(before["get_hits"]) > 0 and int(before["cmd_set"]) > 0
    wire.say(b"stats reset\r\n", b"RESET\r\n")
    after = wire.stats()
    for name in (
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "cmd_flush",
        "get_hits",
        "get_misses",
        "incr_misses",
        "touch_misses",
        "total_connections",
        "total_items",
        "evictions",
    ):
        assert after[name] == "0", f"{name} is {after[name]}"
    for name in GAUGES:
        assert after[name] == before[name], name
    assert int(after["bytes_read"]) < 200


def test_bytes_are_counted(wire):
    before = wire.stats()
    value = b"v" * 10000
    wire.say(storage(b"set", b"k", value) + b"get k\r\n", STORED + hit(b"k", value) + MISS)
    after = wire.stats()
    assert 10000 <= int(after["bytes_read"]) - int(before["bytes_read"]) <= 10200
    assert 10000 <= int(after["bytes_written"]) - int(before["bytes_written"]) <= 15000


def test_items_and_slabs_belong_together(wire):
    assert wire.stats("slabs")["active_slabs"].isdigit()
    wire.say(storage(b"set", b"k", b"x") + b"get k\r\n", STORED + hit(b"k", b"x") + MISS)
    items, slabs = wire.stats("items"), wire.stats("slabs")
    classes = {name.split(":")[1] for name in items}
    assert classes and classes <= {name.split(":")[0] for name in slabs if ":" in name}
    number = classes.pop()
    for name in (
        "number",
        "age",
        "evicted",
        "evicted_nonzero",
        "evicted_time",
        "outofmemory",
        "tailrepairs",
        "reclaimed",
        "expired_unfetched",
        "evicted_unfetched",
    ):
        assert items[f"items:{number}:{name}"].isdigit(), name
    for name in (
        "chunk_size",
        "chunks_per_page",
        "total_pages",
        "total_chunks",
        "used_chunks",
        "free_chunks",
        "free_chunks_end",
        "get_hits",
        "cmd_set",
        "delete_hits",
        "incr_hits",
        "decr_hits",
        "cas_hits",
        "cas_badval",
        "touch_hits",
    ):
        assert slabs[f"{number}:{name}"].isdigit(), name
    assert int(slabs["total_malloced"]) > 0


def test_sizes_are_disabled(wire):
    wire.say(b"stats sizes\r\n", b"STAT sizes_status disabled\r\nEND\r\n")


def test_conns_shows_this_connection(wire):
    connections = wire.stats("conns")
    name = wire.sock.getsockname()
    here = "tcp:%s:%d" % name if name else f"unix:{wire.sock.getpeername()}"
    shown = [
        name
        for name, value in connections.items()
        if value == here and connections.get(name.replace(":addr", ":state")) == "conn_parse_cmd"
    ]
    assert len(shown) == 1 and shown[0].endswith(":addr"), connections
    number = shown[0].removesuffix(":addr")
    assert connections[f"{number}:state"].startswith("conn_")
    assert connections[f"{number}:secs_since_last_cmd"].isdigit()


@pytest.mark.parametrize("words", [b"foo", b"settingsx", b"1", b"resetx", b"Settings", b"stats"])
def test_unknown_list(wire, words):
    wire.say(b"stats " + words + b"\r\n", b"ERROR\r\n")


# ---- connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"quit\r\n", b"quit\n", b"quit foo\r\n", b"quit noreply\r\n"])
def test_quit_flushes_replies_and_runs_nothing_behind_it(wire, shared_server, line):
    with wire_to(shared_server) as other:
        other.send(storage(b"set", b"k", b"x") + b"get k\r\n" + line + b"delete k\r\nget k\r\n")
        other.ends_with(STORED + hit(b"k", b"x") + MISS)
    wire.say(b"get k\r\n", hit(b"k", b"x") + MISS)


def test_connections_are_counted(wire, shared_server):
    assert settles(lambda: wire.stats()["curr_connections"] == "1")
    before = wire.stats()
    others = [wire_to(shared_server) for _ in range(10)]
    for other in others:
        other.say(b"", b"")
    during = wire.stats()
    assert during["curr_connections"] == "11"
    assert int(during["total_connections"]) == int(before["total_connections"]) + 10
    for other in others:
        other.send(b"quit\r\n")
        other.ends_with(b"")
        other.close()
    assert settles(lambda: wire.stats()["curr_connections"] == "1")
