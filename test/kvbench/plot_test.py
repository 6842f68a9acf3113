#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The charts of bench/: well-formed SVG, axes with round numbers, every row where it belongs."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import plot_engine  # noqa: E402
import svg  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def row(case, value, **compared_to):
    return {"case": case, "value": value, "compared_to": compared_to}


def texts(document):
    return [element.text for element in ElementTree.fromstring(document).iter(f"{SVG}text")]


class Axis(unittest.TestCase):
    def test_round_numbers(self):
        self.assertEqual(svg.Axis([0, 10], (0, 100), False).ticks(), [0, 2, 4, 6, 8, 10])
        self.assertEqual(svg.Axis([3, 700], (0, 100), True).ticks(),
                         [5, 10, 20, 50, 100, 200, 500])

    def test_places(self):
        self.assertEqual(svg.Axis([0, 10], (0, 100), False).at(5), 50)
        self.assertAlmostEqual(svg.Axis([1, 100], (0, 100), True).at(10), 50)

    def test_one_value(self):
        for is_log in (False, True):
            self.assertTrue(svg.Axis([7], (0, 100), is_log).ticks())

    def test_negative_values(self):
        axis = svg.Axis([-5, 5], (0, 100), True)
        self.assertEqual(axis.at(0), 50)

    def test_short_numbers(self):
        self.assertEqual([svg.short(n) for n in (0.05, 20, 1500, 2e6, 3e9)],
                         ["0.05", "20", "1.5k", "2M", "3G"])


class Chart(unittest.TestCase):
    def test_well_formed(self):
        text = svg.line_chart("a < b & c", "x", "y", {"<1>": [(1, 2), (3, 4)], "two": [(1, 1)]})
        self.assertIn("a < b & c", texts(text))
        self.assertIn("<1>", texts(text))
        self.assertEqual(len(ElementTree.fromstring(text).findall(f"{SVG}circle")), 3)

    def test_nothing_to_draw(self):
        with self.assertRaises(ValueError):
            svg.line_chart("t", "x", "y", {})


class Charts(unittest.TestCase):
    def test_from_rows(self):
        rows = [row("miss_zipf_1pct", 0.4, s3fifo=0.4, memcached=0.5),
                row("miss_zipf_0_5pct", 0.5, s3fifo=0.5, memcached=0.6),
                row("miss_zipf_1pct_items", 100), row("miss_zipf_10pct", None),
                row("engine_get_1t", 20, mutexes=10, batch_1=15),
                row("engine_get_2t", 40, mutexes=15, batch_1=30, **{"1t": 20}),
                row("engine_get_latency_p50", 20, mutexes=30),
                row("engine_get_latency_max", 900, mutexes=800),
                row("item_overhead_bytes", 40)]
        charts = dict(plot_engine.charts(rows))
        self.assertEqual(sorted(charts), ["latency_engine_get.svg", "miss_zipf.svg",
                                          "rate_engine_get.svg"])
        self.assertLessEqual({"s3fifo", "memcached"}, set(texts(charts["miss_zipf.svg"])))
        rate = texts(charts["rate_engine_get.svg"])
        self.assertLessEqual({"engine", "mutexes", "batch_1", "1", "2"}, set(rate))
        self.assertNotIn("1t", rate)
        self.assertLessEqual({"p50", "max"}, set(texts(charts["latency_engine_get.svg"])))

    def test_points_are_in_order(self):
        rows = [row(f"miss_x_{n}pct", 1 / int(n), a=1 / int(n)) for n in ("10", "2", "1")]
        (_, text), = plot_engine.charts(rows)
        places = [float(circle.get("cx"))
                  for circle in ElementTree.fromstring(text).findall(f"{SVG}circle")]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
