# SPDX-License-Identifier: BSD-3-Clause
"""The ring of libmemcached's weighted ketama, as a hasher of pymemcache's HashClient."""

import bisect
import hashlib

DEFAULT_PORT = ":11211"
DIGESTS = 40  # of a server, with four points each


class Ketama:
    """Nodes are "HOST:PORT"; HOST and HOST:11211 are the same."""

    def __init__(self):
        self.nodes, self.points, self.owners = [], [], []

    def _changed(self):
        points = []
        for node in self.nodes:
            name = node.removesuffix(DEFAULT_PORT)
            for number in range(DIGESTS):
                digest = hashlib.md5(f"{name}-{number}".encode()).digest()
                points += [(int.from_bytes(digest[at : at + 4], "little"), node)
                           for at in (0, 4, 8, 12)]  # fmt: skip
        points.sort()
        self.points = [point for point, _ in points]
        self.owners = [node for _, node in points]

    def add_node(self, node):
        if node not in self.nodes:
            self.nodes.append(node)
            self._changed()

    def remove_node(self, node):
        self.nodes.remove(node)
        self._changed()

    def get_node(self, key):
        """The node of the first point not below the hash of the key; None without nodes."""
        key = key if isinstance(key, bytes) else key.encode()
        at = int.from_bytes(hashlib.md5(key).digest()[:4], "little")
        if not self.points:
            return None
        return self.owners[bisect.bisect_left(self.points, at) % len(self.points)]
