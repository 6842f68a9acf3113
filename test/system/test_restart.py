# SPDX-License-Identifier: BSD-3-Clause
"""Items that outlive a server in the file of -e, and when they do not."""

import os
import pathlib
import signal
import stat
import subprocess
import time

import pytest
from wire import STORED

HUGE_PAGE = 2 << 20
SIZES = [2**power for power in range(1, 20)]


@pytest.fixture
def memory_file(tmp_path):
    """A path on tmpfs for -e."""
    shm = pathlib.Path("/dev/shm")
    path = (shm if os.access(shm, os.W_OK) else tmp_path) / f"ucached-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def start(start_server, memory_file):
    """Starts a server on the file; -m 64 unless the arguments say otherwise."""

    def start_on_file(*args):
        return start_server("sock", "-e", str(memory_file), "-I", "4m", *args)

    return start_on_file


def end(server, number=signal.SIGTERM):
    server.signal(number)
    assert server.wait() == 0


def value_of(key, size):
    return (f"{key}," * (size // (len(key) + 1) + 1))[:size].encode()


def store(connection, key, value, flags=0, exptime=0):
    command = f"set {key} {flags} {exptime} {len(value)}\r\n".encode()
    assert connection.ask(command + value + b"\r\n") == STORED


def fetch(connection, key):
    """(flags, cas, value), or None."""
    line = connection.ask(f"gets {key}\r\n".encode())
    if line == b"END\r\n":
        return None
    _, _, flags, length, cas = line.split()
    value = connection.exactly(int(length) + 2)[:-2]
    assert connection.line() == b"END\r\n"
    return int(flags), int(cas), value


def ttl(connection, key):
    return int(connection.ask(f"mg {key} t\r\n".encode()).split()[1][1:])


def store_sizes(connection):
    for size in (*SIZES, 1 << 20, 3 << 20):
        store(connection, f"size{size}", value_of(f"size{size}", size), flags=size)


def expect_sizes(connection):
    for size in (*SIZES, 1 << 20, 3 << 20):
        flags, _, value = fetch(connection, f"size{size}")
        assert flags == size
        assert value == value_of(f"size{size}", size)


def expect_cold(server, reason):
    """An empty server, which says once why it has not restored the items."""
    lines = [line for line in server.log().splitlines() if "no items restored" in line]
    assert len(lines) == 1 and reason in lines[0], server.log()
    assert server.stats()["curr_items"] == "0"
    settings = server.stats("settings")
    assert settings["restored_items"] == "0"
    with server.connect() as connection:
        assert fetch(connection, "size2") is None
        store_sizes(connection)
        expect_sizes(connection)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_items_outlive_the_server(start, memory_file, number):
    server = start()
    with server.connect() as connection:
        store_sizes(connection)
        store(connection, "short", b"x", exptime=4)
        store(connection, "long", b"y", exptime=500)
        cas = fetch(connection, "long")[1]
        with server.connect() as watcher:
            watcher.ask(b"watch mutations\n")
            end(server, number)
    megabytes = memory_file.stat().st_blocks * 512 >> 20
    assert f"saved; the file takes {megabytes} MB of its file system" in server.log()
    assert stat.S_IMODE(memory_file.stat().st_mode) == 0o600
    memory_file.chmod(0o644)
    time.sleep(4.1)  # times to live run on

    server = start()
    assert stat.S_IMODE(memory_file.stat().st_mode) == 0o600
    settings = server.stats("settings")
    assert settings["memory_file"] == str(memory_file)
    assert int(settings["restored_items"]) == len(SIZES) + 4
    assert abs(int(settings["restored_from"]) - time.time()) < 600
    assert "restored" in server.log()
    assert int(server.stats()["uptime"]) < 60
    with server.connect() as connection:
        expect_sizes(connection)
        assert fetch(connection, "short") is None
        assert fetch(connection, "long") == (0, cas, b"y")
        assert 400 < ttl(connection, "long") <= 496
        store(connection, "next", b"z")
        assert fetch(connection, "next")[1] > cas
    end(server)


def test_delayed_flush_outlives_the_server(start):
    server = start()
    with server.connect() as connection:
        store(connection, "key", b"x")
        assert connection.ask(b"flush_all 2\r\n") == b"OK\r\n"
        end(server)
    time.sleep(3)
    server = start()
    with server.connect() as connection:
        assert fetch(connection, "key") is None


def fill_and_save(start):
    server = start()
    with server.connect() as connection:
        store_sizes(connection)
        end(server)


def test_killed_server_leaves_nothing(start):
    fill_and_save(start)
    server = start()
    server.signal(signal.SIGKILL)
    server.wait()
    expect_cold(start(), "has not saved it")


def test_sigint_saves_nothing(start):
    server = start()
    with server.connect() as connection:
        store_sizes(connection)
        end(server, signal.SIGINT)
    expect_cold(start(), "has not saved it")


@pytest.mark.parametrize("mode, restored", [(b"", 0), (b" graceful", 1)])
def test_shutdown_that_saves(start, mode, restored):
    server = start("-A")
    with server.connect() as connection:
        store(connection, "key", b"x")
        connection.send(b"shutdown%s\r\n" % mode)
        assert server.wait() == 0
    assert start().stats("settings")["restored_items"] == str(restored)


@pytest.mark.parametrize("at", [0, 100, 8 * HUGE_PAGE + 5, -1000])
def test_changed_file_is_not_restored(start, memory_file, at):
    fill_and_save(start)
    with open(memory_file, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))
    expect_cold(start(), "it")


@pytest.mark.parametrize("length", [1, HUGE_PAGE, 5 * HUGE_PAGE])
def test_truncated_file_is_not_restored(start, memory_file, length):
    fill_and_save(start)
    os.truncate(memory_file, length)
    expect_cold(start(), "it")


def test_copied_file_is_restored(start, memory_file, tmp_path):
    fill_and_save(start)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "--sparse=always", "-p", memory_file, copy], check=True, timeout=60)
    memory_file.unlink()
    subprocess.run(["cp", "--sparse=always", "-p", copy, memory_file], check=True, timeout=60)
    server = start()
    with server.connect() as connection:
        expect_sizes(connection)


@pytest.mark.parametrize("megabytes", [20, 500])
def test_another_memory_limit(start, megabytes):
    fill_and_save(start)
    server = start("-m", str(megabytes))
    assert server.stats()["limit_maxbytes"] == str(megabytes << 20)
    with server.connect() as connection:
        expect_sizes(connection)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["-m", "5000"], "memory limit"),
        (["-C"], "cas"),
        (["-f", "2"], "size classes"),
        (["--evict=clock"], "policy"),
    ],
)
def test_other_settings_start_cold(start, args, reason):
    fill_and_save(start)
    expect_cold(start(*args), reason)


def run_refused(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return done.stderr


def test_file_of_another_server_is_refused(start, ucached_path, memory_file):
    server = start()
    with server.connect() as connection:
        store_sizes(connection)
    error = run_refused([ucached_path, "--io=sock", "-l", "127.0.0.1", "-p", "-1",
                         "-e", memory_file])  # fmt: skip
    assert "another server uses the file" in error
    with server.connect() as connection:
        expect_sizes(connection)


def test_empty_meta_file_is_refused(ucached_path, memory_file):
    meta = pathlib.Path(f"{memory_file}.meta")
    meta.touch()
    try:
        error = run_refused([ucached_path, "--io=sock", "-p", "-1", "-e", memory_file])
    finally:
        meta.unlink()
    assert "empty" in error
    assert not memory_file.exists()


def test_meta_file_of_memcached_is_removed(start, memory_file):
    """memcached would take the file for its own."""
    meta = pathlib.Path(f"{memory_file}.meta")
    meta.write_text("of memcached")
    server = start()
    assert not meta.exists() and f"removing {meta}" in server.log()


def test_what_is_no_file_is_refused(ucached_path, memory_file):
    os.mkfifo(memory_file, 0o640)
    error = run_refused([ucached_path, "--io=sock", "-p", "-1", "-e", memory_file])
    assert "not a regular file" in error
    assert stat.S_IMODE(memory_file.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_file_belongs_to_the_server(start, memory_file):
    memory_file.touch()
    os.chown(memory_file, 1, 1)
    start()
    assert memory_file.stat().st_uid == 0
    assert stat.S_IMODE(memory_file.stat().st_mode) == 0o600


def test_full_file_system_is_refused(ucached_path, start_server, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", mount], check=True,
                   timeout=60)  # fmt: skip
    try:
        error = run_refused([ucached_path, "--io=sock", "-p", "-1", "-e", mount / "file"])
        assert "too little space" in error
        server = start_server("sock", "-m", "16", "-e", str(mount / "file"))
        server.stop()
    finally:
        subprocess.run(["umount", mount], check=True, timeout=60)
