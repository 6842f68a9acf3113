# SPDX-License-Identifier: BSD-3-Clause
"""Auto-discovery: the list of a pool's servers on the wire, and a client that follows it."""

import signal

import pytest
from wire import settles, wire_to

KEYS = [f"key-{number}" for number in range(1000)]





def payload(version, nodes):
    """What is between CONFIG and END, and the length that CONFIG names."""
    text = f"{version}\n{' '.join(nodes)}\n"
    return f"{len(text)}\r\n{text}\r\nEND\r\n".encode()


def node(server):
    host, port = server.address
    return f"{host}|{host}|{port}"


def write(path, version, servers):
    path.write_text("".join(f"{line}\n" for line in (version, *map(node, servers))))


@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_auto_discovery_on_the_wire(start_server, tmp_path, kind):
    """Both commands, and that SIGHUP reads the file again: in the sandbox, too."""
    path = tmp_path / "servers"
    path.write_text("7\none.example|10.0.0.1|11211\ntwo.example||11212\n")
    server = start_server(kind, "-o", f"cluster_file={path}")
    nodes = ["one.example|10.0.0.1|11211", "two.example||11212"]
    with wire_to(server) as wire:
        wire.say(b"config get cluster\r\n", b"CONFIG cluster 0 " + payload(7, nodes))
        wire.say(b"get AmazonElastiCache:cluster\r\n",
                 b"VALUE AmazonElastiCache:cluster 0 " + payload(7, nodes))  # fmt: skip
        path.write_text("8\nthree.example|fd00::3|11213\n")
        server.signal(signal.SIGHUP)
        nodes = ["three.example|fd00::3|11213"]
        wanted = b"CONFIG cluster 0 " + payload(8, nodes)
        assert settles(lambda: wire.replies(b"config get cluster\r\n") == wanted)
        path.write_text("8\nfour.example|fd00::4|11214\n")  # the version has not grown
        server.signal(signal.SIGHUP)
        assert settles(lambda: "version 8 has to become greater than 8" in server.log())
        wire.say(b"config get cluster\r\n", wanted)


def test_auto_discovery_is_off_by_default(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(b"config get cluster\r\nget AmazonElastiCache:cluster\r\n", b"ERROR\r\nEND\r\n")


def test_wrong_file_is_named(start_server, tmp_path):
    path = tmp_path / "servers"
    path.write_text("one.example|10.0.0.1|11211\n")
    with pytest.raises(Exception, match="line 1: .* is not a version") as failure:
        start_server("sock", "-o", f"cluster_file={path}")
    assert str(path) in str(failure.value)


def test_auto_discovery_by_a_client(start_server, tmp_path):
    """django-elastipymemcache follows a pool that grows and shrinks, without a restart."""
    from django_elastipymemcache.client import AWSElastiCacheClient

    path = tmp_path / "servers"
    servers = [start_server("sock") for _ in range(2)]
    write(path, 1, servers)
    servers.append(start_server("sock", "-o", f"cluster_file={path}"))
    host, port = servers[-1].address
    client = AWSElastiCacheClient(f"{host}:{port}", discovery_interval=0.01)
    for key in KEYS:
        assert client.set(key, key, noreply=False)
    counts = [int(server.stats()["curr_items"]) for server in servers]
    assert counts[2] == 0 and min(counts[:2]) > 0 and sum(counts) == len(KEYS)

    def reads_from(wanted):
        client.get(KEYS[0])  # which asks for the list when its interval has passed
        return len(client.clients) == wanted

    write(path, 2, servers)
    servers[-1].signal(signal.SIGHUP)
    assert settles(lambda: reads_from(3))
    for key in KEYS:  # those that moved are missing, none is wrong
        assert client.get(key) in (None, key.encode())
        assert client.set(key, key, noreply=False)
    assert int(servers[2].stats()["curr_items"]) > 0
    write(path, 3, servers[1:])
    servers[-1].signal(signal.SIGHUP)
    assert settles(lambda: reads_from(2))
    client.close()
