# SPDX-License-Identifier: BSD-3-Clause
"""The performance contract: the least and the desired value of each row."""

from typing import NamedTuple, Optional


SCALE_CORES = tuple(2 ** power for power in range(1, 9))  # as far as the machine has them


class Promise(NamedTuple):
    """A bound on the value of a row, or on its ratio to another row of the same rounds."""
    case: str
    what: str
    against: Optional[str]  # a name of the row's ratios; none: the value
    must: Optional[float]
    aim: Optional[float]
    at_most: bool = False

    def measured(self, rows):
        """The value or ratio, or None without a measurement."""
        row = next((row for row in rows if row["case"] == self.case), None)
        if not row:
            return None
        return row["ratio"].get(self.against) if self.against else row["value"]

    def verdict(self, rows):
        """"aim", "must", "no", or "not measured"."""
        figure = self.measured(rows)
        if figure is None:
            return "not measured"
        for name, bound in (("aim", self.aim), ("must", self.must)):
            if bound is not None and (figure <= bound if self.at_most else figure >= bound):
                return name
        return "no"


PROMISES = (
    Promise("get_vhost", "GETs/s, times memcached on kernel TCP", "memcached", 10, 16),
    Promise("get_vhost", "of the frames that the link echoes", "frame_limit", None, 1 / 3),
    Promise("get_memif", "GETs/s, times memcached on kernel TCP", "memcached", 8, 12),
    Promise("cycles_per_get", "busy cycles of the server's core per GET", None, 900, 500, True),
    Promise("zipf_vhost_cycles", "busy cycles per request, 1 M keys, zipf, 10 % SET", None, 1060,
            530, True),
    Promise("sock_depth1", "kernel sockets, times memcached", "memcached", 1.0, 1.2),
    Promise("sock_depth16", "16 pipelined, times memcached", "memcached", 1.5, 2.5),
    Promise("get_vhost_tls", "GETs/s with TLS, of those without", "get_vhost", 0.45, 0.52),
    Promise("get_vhost_tls", "GETs/s with TLS, times memcached -Z", "memcached -Z", 30, 40),
    Promise("sock_tls_depth1", "kernel sockets with TLS, times memcached -Z", "memcached -Z", 1.3,
            None),
    Promise("sock_tls_depth16", "the same, 16 pipelined", "memcached -Z", 10, None),
    Promise("sock_tls_handshakes", "full handshakes per second of processor time", None, 5000,
            None),
    Promise("sock_tls_values", "values of 1 MB with TLS, of those without", "sock_values", 0.6,
            None),
    Promise("xdp_get", "AF_XDP on veth, times memcached there", "memcached_veth", 1.5, 3),
    *(promise for cores in SCALE_CORES for promise in (
        Promise(f"scale_{cores}", f"GETs on {cores} cores, times one core", "1 core", 0.9 * cores,
                0.97 * cores),
        Promise(f"scale_{cores}_set10", f"the same, 10 % SET, on {cores} cores", "1 core",
                0.9 * cores, 0.97 * cores))),
    Promise("metrics_on_vhost", "GETs/s with --metrics, of those without", "metrics_off_vhost",
            0.98, 1.0),
    Promise("latency_server_p50", "the server's median of large gets, of ucload's", "ucload", 0.9,
            None),
    Promise("latency_server_p99", "the same, p99", "ucload", 0.9, None),
    Promise("idle_100k", "beside 100 k idle connections: of get_vhost", "get_vhost", 0.95, 1.0),
    Promise("idle_conn_bytes", "memory of an idle connection, bytes", None, 1024, 512, True),
    Promise("item_overhead_bytes", "memory beyond key and value, bytes", None, 56, 40, True),
    Promise("engine_get_1t", "the engine alone, M GETs/s", None, 15, 30),
    Promise("engine_get_2t", "two threads, times one", "1t", 1.9, 2.0),
    Promise("miss_zipf_1pct", "misses: memcached's, times ours", "memcached", 1.0, None),
    Promise("miss_zipf_10pct", "misses: memcached's, times ours", "memcached", 1.0, None),
    Promise("miss_etc", "misses: memcached's, times ours", "memcached", 1.0, None),
    Promise("miss_scan", "misses: memcached's, times ours", "memcached", 1.0, None),
    Promise("latency_half_load", "memcached's p50, times our p99", "memcached_p50", 1.0, 3.0),
)


def table(rows):
    """
    (case, what, must, aim, measured, met) as texts, for each promise but those of more cores than
    were measured.
    """
    cases = {row["case"] for row in rows}

    def text(promise, bound):
        return "-" if bound is None else f"{'<=' if promise.at_most else '>='} {round(bound, 3):g}"

    def figure(promise):
        value = promise.measured(rows)
        return "-" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.3g}"

    return [(p.case, p.what, text(p, p.must), text(p, p.aim), figure(p), p.verdict(rows))
            for p in PROMISES if not p.case.startswith("scale_") or p.case in cases]


HEADS = ("row", "what", "must", "aim", "measured", "met")
