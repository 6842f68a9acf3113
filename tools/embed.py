#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a C header with the bytes of a file: embed.py NAME INPUT OUTPUT."""

import sys


def main() -> None:
    name, source, target = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    with open(target, "w", encoding="ascii") as file:
        file.write("/* SPDX-License-Identifier: BSD-3-Clause */\n")
        file.write(f"static const unsigned char {name}[] __attribute__((aligned(8))) = {{\n")
        for at in range(0, len(data), 16):
            file.write("".join(f"{byte}," for byte in data[at : at + 16]) + "\n")
        file.write("};\n")


if __name__ == "__main__":
    main()
