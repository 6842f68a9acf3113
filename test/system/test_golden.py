# SPDX-License-Identifier: BSD-3-Clause
"""The golden dialogues of test/golden with the server, in one piece and byte by byte."""

import golden
import pytest
from wire import short, wire_to

FILES = [
    "admin.txt",
    "binary.txt",
    "binary_errors.txt",
    "classic.txt",
    "meta.txt",
    "text_errors.txt",
]


def send(wire, request, step):
    """Sends a request; not all of it if the server closes the connection after its beginning."""
    try:
        for at in range(0, len(request), step):
            wire.send(request[at : at + step])
    except (BrokenPipeError, ConnectionResetError):
        pass


def hold(wire, dialogue, step, with_tls):
    for exchange in dialogue:
        if with_tls and exchange.request == b"refresh_certs\r\n":
            exchange = exchange._replace(reply=b"OK\r\n")
        send(wire, exchange.request, step)
        got = wire.exactly(len(exchange.reply))
        where = f"line {exchange.line}: {short(exchange.request)}"
        assert got == exchange.reply, f"{where}: got {short(got)}"
        wire.exactly(exchange.any_bytes)
        if exchange.closes:
            wire.ends_with(b"")
            return
    assert wire.silent(0.1)


@pytest.mark.parametrize("step", [65536, 1])
@pytest.mark.parametrize("name", FILES)
def test_golden(server, name, step):
    for dialogue in golden.dialogues(name):
        with wire_to(server) as wire:
            hold(wire, dialogue, step, server.tls is not None)
