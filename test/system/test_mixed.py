# SPDX-License-Identifier: BSD-3-Clause
"""Many clients at once, mixed operations, every reply checked (mixed_load.py)."""

import os

import mixed_load
import pytest
from wire import settles

pytestmark = pytest.mark.long

LONG = bool(os.environ.get("UCACHED_LONG"))
CLIENTS = 200
OPERATIONS = 1_000_000 if LONG else 300_000

# Nothing may be evicted: the keys and values of all clients take less than this, megabytes.
MEMORY = "4096"


@pytest.mark.limit(1200 if LONG else 300)
@pytest.mark.server_args("-m", MEMORY)
def test_mixed_operations_of_many_clients(server):
    def load():
        return mixed_load.run(server.address, clients=CLIENTS, operations=OPERATIONS)

    seconds = server.space.run(load)
    assert settles(lambda: server.stats()["curr_connections"] == "1")
    stats = server.stats()
    print(f"{OPERATIONS} operations in {seconds:.1f} s")
    assert stats["evictions"] == "0"
    assert int(stats["curr_items"]) <= CLIENTS * 50
