# SPDX-License-Identifier: BSD-3-Clause
"""What every server in a guest must do."""

import random

SIZES = [1, 100, 1000, 1400, 1447, 1448, 1449, 2900, 8000, 20000, 65000, 100000, 1000000]
CONNECTIONS = 8  # enough for each of two workers to get some
ROUND_TRIPS = 50


def check_values(server, sizes=SIZES):
    """Values of all sizes come back as they were stored, over several connections."""
    rng = random.Random(1)
    connections = [server.connect() for _ in range(CONNECTIONS)]
    for number, size in enumerate(sizes):
        value = rng.randbytes(size)
        writer, reader = (connections[(number + at) % CONNECTIONS] for at in (0, 1))
        writer.send(b"set k%d 0 0 %d\r\n" % (number, size) + value + b"\r\n")
        assert writer.line() == b"STORED\r\n", size
        reader.send(b"get k%d\r\n" % number)
        assert reader.line() == b"VALUE k%d 0 %d\r\n" % (number, size)
        assert reader.exactly(size + 2) == value + b"\r\n", size
        assert reader.line() == b"END\r\n"
    for connection in connections:
        connection.close()


def check_sleeps(server):
    """Frames end sleeps, by an interrupt or, until one has come, by a nap."""
    before = int(server.stats("ustack")["sleeps_overslept"])
    with server.connect() as connection:
        for _ in range(ROUND_TRIPS):
            assert connection.ask(b"get nothing\r\n") == b"END\r\n"
    overslept = int(server.stats("ustack")["sleeps_overslept"]) - before
    assert overslept < ROUND_TRIPS // 2, server.stats("ustack")
