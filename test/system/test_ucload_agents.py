# SPDX-License-Identifier: BSD-3-Clause
"""ucload distributed over agents: one result, and a clear end whatever happens to one of them."""

import contextlib
import json
import re
import signal
import socket
import struct
import subprocess
import threading

import pytest
from wire import settles

HELLO = b"\0\0\0\x0c\x01ucload\r\n\0\0\0\x01"


class Agent:
    """A process `ucload --agent` at a free port."""

    def __init__(self, ucload_path):
        self.process = subprocess.Popen([ucload_path, "--agent", "127.0.0.1:0"],
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.name = re.search(r"agent at (127\.0\.0\.1:\d+)", line)[1]

    def connect(self):
        host, port = self.name.split(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture
def agents(ucload_path):
    with contextlib.ExitStack() as stack:
        started = [Agent(ucload_path) for _ in range(2)]
        for agent in started:
            stack.callback(agent.close)
        yield started


@pytest.fixture
def command(ucload_path, agents, server_sock):
    """The coordinator's command line."""
    host, port = server_sock.address
    names = ",".join(agent.name for agent in agents)
    return [ucload_path, f"-s{host}:{port}", f"--agents={names}", "--json"]


def run(command, *args):
    return subprocess.run([*command, *args], capture_output=True, text=True, timeout=60)


def result_of(done):
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == result["refused"] == 0
    return result


def test_results_are_merged(command, server_sock):
    """The server counts what the agents count together; several runs of the same agents."""
    for _ in range(2):
        before = int(server_sock.stats()["cmd_get"])
        result = result_of(run(command, "-V", "-n5001", "-c7", "-t2", "-m", "get=8,set=1,cas=1"))
        assert result["requests"] == 5001 and result["misses"] == 0
        assert result["latency_us"]["count"] == 5001
        assert result["get_latency_us"]["count"] == result["get"]
        counted = int(server_sock.stats()["cmd_get"]) - before
        assert counted == result["get"] + result["gets"]
    assert len(result["series"]) == 1 and result["cpu_seconds"] > 0
    assert int(server_sock.stats()["total_items"]) >= 2000  # each run has stored each key


def test_keys_and_connections_are_shared(command, server_sock):
    """The server counts each key once, and no more connections than without agents."""
    first, before = server_sock.stats(), server_sock.stats()
    result_of(run(command, "-n100", "-c7", "-k1001", "--idle=3"))
    after = server_sock.stats()
    assert int(after["cmd_set"]) - int(before["cmd_set"]) == 1001
    connections = [int(stats["total_connections"]) for stats in (first, before, after)]
    assert connections[2] - connections[1] - (connections[1] - connections[0]) == 7 + 3


def test_an_open_loop_is_shared(command):
    done = run(command, "-r300", "-T1", "-w0.1")
    assert done.returncode in (0, 75), done.stderr  # a busy machine may be late
    assert json.loads(done.stdout)["offered_per_second"] == 300


def test_a_goal(command, server_sock):
    """Each rate of the search is a request to all agents; no rate meets this goal."""
    before = int(server_sock.stats()["cmd_get"])
    result = result_of(run(command, "--slo=p50<1ns", "-T0.1"))
    assert result["slo_rate"] == 0
    assert int(server_sock.stats()["cmd_get"]) > before


def test_an_interrupt_ends_all(command, server_sock):
    client = subprocess.Popen([*command, "-T60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    try:
        assert settles(lambda: int(server_sock.stats()["cmd_get"]) > 100)
        client.send_signal(signal.SIGINT)
        out, err = client.communicate(timeout=40)
    finally:
        client.kill()
    assert client.returncode == 0, err
    assert json.loads(out)["requests"] > 0


def test_a_lost_agent_is_named(command, agents, server_sock):
    """The run ends; the other agent gives up its load, and is there for the next run."""
    client = subprocess.Popen([*command, "-T60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    try:
        assert settles(lambda: int(server_sock.stats()["cmd_get"]) > 100)
        agents[1].process.kill()  # its process of the run ends with it
        _, err = client.communicate(timeout=60)
    finally:
        client.kill()
    assert client.returncode == 1
    assert f"agent {agents[1].name}: the connection was lost" in err
    result_of(run([*command[:2], f"--agents={agents[0].name}", "--json"], "-n100"))


def test_a_lost_coordinator(command, server_sock):
    """Agents end their load and accept another coordinator."""
    client = subprocess.Popen([*command, "-T60"], stdout=subprocess.DEVNULL)
    try:
        assert settles(lambda: int(server_sock.stats()["cmd_get"]) > 100)
    finally:
        client.kill()
        client.wait()
    assert settles(lambda: int(server_sock.stats()["curr_connections"]) <= 2)
    assert result_of(run(command, "-n1000"))["requests"] == 1000


def test_errors_name_the_agent(command, agents, ucload_path):
    names = "|".join(re.escape(agent.name) for agent in agents)  # the first that answers
    done = run([ucload_path, "-s127.0.0.1:1", *command[2:]])
    assert done.returncode == 69, done.stderr
    assert re.match(rf"ucload: agent ({names}): cannot connect to 127\.0\.0\.1:1: "
                    "Connection refused", done.stderr), done.stderr
    done = run(command, "--tls", "--ca=/nonexistent")
    assert done.returncode == 64 and re.search(rf"agent ({names}): --tls", done.stderr), done.stderr


def test_one_coordinator_at_a_time(command, agents):
    with agents[1].connect() as sock:
        sock.sendall(HELLO)
        assert sock.recv(100, socket.MSG_WAITALL | socket.MSG_PEEK)[:5] == HELLO[:5]
        done = run(command, "-n100")
        assert done.returncode == 69
        assert f"agent {agents[1].name}: it has another coordinator" in done.stderr
    result_of(run(command, "-n100"))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 40,
        HELLO[:-1] + b"\x09",  # another version
        HELLO + b"\0\0\0\x05\x02hello",
        HELLO + struct.pack(">IBIIII", 22, 2, 0, 1, 1, 0) + b"ucload",  # no end of a word
        HELLO + struct.pack(">IBIIII", 23, 2, 0, 1, 1, 0) + b"ucload\0",  # no --agents
        HELLO + struct.pack(">IBIIII", 23, 2, 7, 1, 1, 0) + b"ucload\0",  # agent 7 of 1
        HELLO + struct.pack(">IBddd", 24, 4, 1, 1, 1),
        HELLO + b"\0\0\0\0\x03",
        HELLO + b"\0\x01\0\0\x02",  # a part
    ],
)
def test_garbage(command, agents, sent):
    """Only its sender is refused."""
    with agents[0].connect() as sock:
        with contextlib.suppress(OSError):  # the agent may close it at once
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    assert result_of(run(command, "-n100"))["requests"] == 100


@pytest.mark.parametrize(
    "answer, words",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not answer as an agent"),
        (HELLO[:-1] + b"\x09", "it speaks version 9 of the protocol"),
        (HELLO, "the connection was lost"),
        (HELLO + b"\0\0\0\x01\x06x", "it sends an invalid answer"),
        (HELLO + b"\0\0\0\x06\x08\x01\x1bno\r\n", ".no.."),
    ],
)
def test_agents_that_are_none(command, agents, answer, words):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                with sock:
                    sock.sendall(answer)
                    sock.recv(len(HELLO), socket.MSG_WAITALL)
                    sock.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        name = f"127.0.0.1:{listener.getsockname()[1]}"
        done = run([*command[:2], f"--agents={agents[0].name},{name}"])
        thread.join()
    assert done.returncode in (64, 69) and f"agent {name}: " in done.stderr, done.stderr
    assert words in done.stderr, done.stderr


@pytest.mark.parametrize(
    "args, words",
    [
        (["--agents=127.0.0.1"], "is not HOST:PORT"),
        (["--agents=a:1,b:1", "-c1"], "needs a connection"),
        (["--agents=" + ",".join(["a:1"] * 65), "-c100"], "there are more than 64"),
        (["--agents=a:1", "--io=tap"], "kernel sockets"),
        (["--agents=a:1", "--replay=x"], "--replay"),
        (["--agent=127.0.0.1:0", "-c3", "-t2"], "the coordinator gives"),
        (["--agent=127.0.0.1"], "is not HOST:PORT"),
    ],
)
def test_wrong_options(ucload_path, args, words):
    done = run([ucload_path], *args)
    assert done.returncode in (64, 69) and words in done.stderr, done.stderr
