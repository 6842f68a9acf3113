#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plants bugs into copies of the engine's sources and sees the model checker find each of them.

    mutants.py --source DIR --work DIR --rest LIB --tracked LIB --base LIB -- CC ARG...

A mutant is a source file with one place changed. It is compiled like the tracked sources and linked
before them. The checker has to exit with its code for a finding and a matching message when it
explores the named scenarios, and has to find the same again with the printed --replay option.
"""

import argparse
import dataclasses
import re
import subprocess
import sys
from pathlib import Path

FOUND = 3
SECONDS = 10  # at most, of each scenario; most are found in a fraction of the first


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    scenarios: tuple[str, ...]
    says: str  # a regular expression


MUTANTS = [
    # ---- orderings ----
    Mutant(
        "announce-relaxed",
        "epoch.c",
        "kv_u64_store_release(&member->announced, kv_u64_load_acquire(&epoch->clock));",
        "kv_u64_store_relaxed(&member->announced, kv_u64_load_acquire(&epoch->clock));",
        ("grace-announce",),
        "data race",
    ),
    Mutant(
        "clock-read-relaxed",
        "epoch.c",
        "kv_u64_store_release(&member->announced, kv_u64_load_acquire(&epoch->clock));",
        "kv_u64_store_release(&member->announced, kv_u64_load_relaxed(&epoch->clock));",
        ("grace-announce",),
        "data race|was overwritten",
    ),
    Mutant(
        "online-relaxed",
        "epoch.c",
        "kv_u64_store_release(&member->announced, kv_u64_load_relaxed(&epoch->clock));",
        "kv_u64_store_relaxed(&member->announced, kv_u64_load_relaxed(&epoch->clock));",
        ("grace-offline",),
        "data race",
    ),
    Mutant(
        "online-unseen",
        "epoch.c",
        "    kv_u64_fetch_add_acq_rel(&epoch->clock, 1);\n}",
        "}",
        ("grace-online",),
        "data race|was overwritten",
    ),
    Mutant(
        "exchanged-relaxed",
        "index.c",
        "else if (kv_u64_cas_acq_rel(slot, &now, by != 0 ? by : word_empty(head)))",
        "else if (atomic_compare_exchange_strong_explicit(\n"
        "    slot, &now, by != 0 ? by : word_empty(head), memory_order_relaxed,\n"
        "    memory_order_relaxed))",
        ("index-exchange",),
        "data race",
    ),
    Mutant(
        "exchanged-at-relaxed",
        "index.c",
        "if (U_UNLIKELY(!kv_u64_cas_acq_rel(found->slot, &now, by)))",
        "if (U_UNLIKELY(!atomic_compare_exchange_strong_explicit(\n"
        "        found->slot, &now, by, memory_order_relaxed, memory_order_relaxed)))",
        ("index-exchange-at",),
        "data race",
    ),
    # ---- flushes ----
    Mutant(
        "purge-ends-without-grace",
        "flush.c",
        "        kv->purge_retired = kv_epoch_retire(&kv->epoch);\n}",
        "        purge_end(kv);\n}",
        ("flush-purge-get",),
        "not linearizable",
    ),
    Mutant(
        "flushed-item-moves",
        "evict.c",
        "    if (U_UNLIKELY(!kv_generation_may_move(worker->kv, owner->item, head)))\n"
        "        return false;\n",
        "",
        ("flush-relocate",),
        "not linearizable",
    ),
    # ---- the slot that was found ----
    Mutant(
        "exchanged-whatever",
        "index.c",
        "    uint64_t now = found->word;\n",
        "    uint64_t now = kv_u64_load_acquire(found->slot);\n",
        ("index-exchange-at", "index-exchange-at-cut", "grow-exchange-at"),
        "not linearizable|U_ASSERT",
    ),
    Mutant(
        "exchanged-frozen",
        "index.c",
        "    uint64_t now = found->word;\n",
        "    uint64_t now = kv_u64_load_acquire(found->slot) & KV_WORD_FROZEN;\n"
        "    now |= found->word;\n",
        ("grow-exchange-at",),
        "not linearizable",
    ),
    Mutant(
        "exchange-given-up",
        "index.c",
        "        return kv_index_exchange(worker, hash, found->word, item);\n",
        "        return true;\n",
        ("set-twice", "grow-exchange-at"),
        "not linearizable|kv_check|U_ASSERT",
    ),
    # ---- the usage of segments ----
    Mutant(
        "usage-added-after-seal",
        "item_log.c",
        "    kv_segment_add(&worker->kv->segments, index, worker->pending_usage[log]);\n"
        "    worker->pending_usage[log] = 0;\n"
        "    kv_segment_seal(&worker->kv->segments, index);\n",
        "    kv_segment_seal(&worker->kv->segments, index);\n"
        "    kv_segment_add(&worker->kv->segments, index, worker->pending_usage[log]);\n"
        "    worker->pending_usage[log] = 0;\n",
        ("seal-delete",),
        "kv_check|U_ASSERT",
    ),
    Mutant(
        "emptied-unseen",
        "segment.c",
        "    uint64_t before = kv_u64_fetch_sub_seq_cst(&segment->usage, usage);\n",
        "    bool is_open = state_of(segment) == KV_SEGMENT_OPEN;\n"
        "    uint64_t before = kv_u64_fetch_sub_seq_cst(&segment->usage, usage);\n"
        "    if (is_open)\n"
        "        return;\n",
        ("seal-delete",),
        "kv_check",
    ),
    # ---- reclaiming ----
    Mutant(
        "freed-too-early",
        "segment.c",
        "if (segment->retired_at > others)\n            break;",
        "if (segment->retired_at > others + 1)\n            break;",
        ("grace-announce",),
        "data race|was overwritten",
    ),
    Mutant(
        "freed-while-pinned",
        "segment.c",
        "            if (kv_u64_load_seq_cst(&segment->usage) == 0)\n"
        "                make_free(segments, index);\n            moved++;",
        "            make_free(segments, index);\n            moved++;",
        ("grace-pin",),
        "U_ASSERT",
    ),
    # ---- headers of segments ----
    Mutant(
        "floor-unlocked",
        "segment.c",
        "    if (kv_segment_list_count(&segments->free) > floor) {\n"
        "        index = segments->free.tail;",
        "    if (kv_segment_list_count(&segments->free) > 0) {\n"
        "        index = segments->free.tail;",
        ("segment-take",),
        "the reserve was taken",
    ),
    # ---- inserting ----
    Mutant(
        "no-commit",
        "index.c",
        "    if (!kv_u64_cas_acq_rel(&look->head->control, &control,\n"
        "                            kv_control_next(control, look->number + 1))) {",
        "    if (!kv_u64_cas_acq_rel(&look->head->control, &control,\n"
        "                            kv_control_next(control, look->number + 1)) &&\n"
        "        control == look->control) {",
        ("index-insert",),
        "not linearizable|twice",
    ),
    Mutant(
        "pending-is-there",
        "index.c",
        "        if (!is_named)\n            return 0;",
        "",
        ("index-insert",),
        "not linearizable|U_ASSERT",
    ),
    Mutant(
        "slot-comes-back",
        "index.c",
        "    return KV_WORD_VACANT | kv_control_version(kv_u64_load_acquire(&head->control));",
        "    return head ? 0 : kv_control_version(0);",
        ("index-insert-gone",),
        "not linearizable|U_ASSERT",
    ),
    # ---- buckets that leave ----
    Mutant(
        "cut-slot-unseen",
        "index.c",
        "kv_control_pend(control) == number + 1 && chain_slot(index, head, number) == slot;",
        "kv_control_pend(control) == number + 1;",
        ("index-cut-late",),
        "not linearizable|U_ASSERT",
    ),
    Mutant(
        "cut-committed",
        "overflow.c",
        "if (!kv_u64_cas_acq_rel(&head->control, &control, control_after)) {",
        "if (control != control_after &&\n"
        "        kv_u64_load_acquire(&head->control) != control) {",
        ("index-cut-third",),
        "not linearizable|too many atomic",
    ),
    Mutant(
        "cut-not-kept",
        "index.c",
        "if (bucket != head && !kv_overflow_keep(bucket))",
        "if (bucket == U_NULL)",
        ("index-cut-third", "index-cut-third-append"),
        "not linearizable|kv_check",
    ),
    Mutant(
        "bucket-stack-uncounted",
        "overflow.c",
        "return ((was >> 32) + 1) << 32 | link;",
        "return was >> 32 << 32 | link;",
        ("index-buckets",),
        "taken twice",
    ),
    # ---- growing ----
    Mutant(
        "slots-not-frozen",
        "grow.c",
        "uint64_t word = freeze(&bucket->slot[i], KV_WORD_FROZEN);",
        "uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);",
        ("grow-exchange", "grow-unlink"),
        "not linearizable|U_ASSERT",
    ),
    Mutant(
        "moved-before-filled",
        "grow.c",
        "    for (unsigned i = 0; i < 2; i++)\n        child_fill(",
        "    kv_u64_fetch_or_acq_rel(&head->control, KV_CONTROL_MOVED);\n"
        "    for (unsigned i = 0; i < 2; i++)\n        child_fill(",
        ("grow-find",),
        "not linearizable",
    ),
    Mutant(
        "bucket-comes-back-full",
        "grow.c",
        "            kv_u64_store_relaxed(&bucket->slot[slot], 0);\n",
        "            kv_u64_load_relaxed(&bucket->slot[slot]);\n",
        ("grow-helpers-buckets",),
        "is not empty",
    ),
    Mutant(
        "evicted-twice",
        "grow.c",
        "        tail_give_back(worker, power, &tail);\n",
        "        evict_words(worker, words + done, count - done);\n",
        ("grow-helpers-evict",),
        "kv_check|U_ASSERT",
    ),
    # ---- changing ----
    Mutant(
        "published-before-finished",
        "update.c",
        "        done = kv_index_insert(worker, update->key, item);\n",
        "        done = kv_index_insert(worker, update->key, item);\n"
        "    if (!update->found.item)\n        kv_item_cas_set(item, cas + 1);\n",
        ("add-add",),
        "not linearizable",
    ),
    Mutant(
        "touch-unchecked",
        "update.c",
        "    if (!kv_item_status_cas(item, &status, wanted))\n        return false;\n",
        "    kv_item_status_set(item, wanted);\n",
        ("relocate-touch",),
        "not linearizable",
    ),
    Mutant(
        "touch-noted-first",
        "update.c",
        "    if (!kv_item_status_cas(item, &status, wanted))\n        return false;\n",
        "    kv_item_note_exptime(update->worker, item, change->exptime);\n"
        "    if (!kv_item_status_cas(item, &status, wanted))\n        return false;\n"
        "    if (change->exptime != 0)\n        return true;\n",
        ("touch-sweep",),
        "below the bound",
    ),
    Mutant(
        "sweep-reads-old-status",
        "evict.c",
        "sweeps ? kv_item_mark(record, 0) : kv_item_status(record)",
        "kv_item_status(record)",
        ("touch-sweep",),
        "below the bound",
    ),
    Mutant(
        "replaced-unsealed",
        "update.c",
        "    return seal(old) && kv_index_exchange_at(",
        "    return old && kv_index_exchange_at(",
        ("touch-incr",),
        "not linearizable",
    ),
    Mutant(
        "short-accounted-twice",
        "update.c",
        "        kv_count(worker, KV_COUNT_RETRIES, 1);\n        return 0;\n",
        "",
        ("short-set", "short-short"),
        "U_ASSERT|kv_check|not linearizable",
    ),
    Mutant(
        "accounted-twice",
        "update.c",
        "    if (!seal(&update->found) ||"
        " !kv_index_unlink(worker, update->key->hash, update->found.word))\n"
        "        return false;\n"
        "    kv_account_unlinked(worker, update->found.item, KV_REMOVAL_DELETED);",
        "    if (!seal(&update->found))\n        return false;\n"
        "    kv_index_unlink(worker, update->key->hash, update->found.word);\n"
        "    kv_account_unlinked(worker, update->found.item, KV_REMOVAL_DELETED);",
        ("set-delete-get", "relocate-delete"),
        "U_ASSERT|kv_check|not linearizable",
    ),
]


def build(mutant: Mutant, options: argparse.Namespace) -> Path | str:
    """The checker with the bug in it, or what went wrong."""
    text = (options.source / "src/kv" / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"{mutant.file} has the text to change {text.count(mutant.old)} times, not once"
    changed = options.work / f"{mutant.name}.c"
    program = options.work / mutant.name
    changed.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    main = options.source / "test/interleave/interleave_test.c"
    libraries = [options.rest, options.tracked, options.base]
    group = ["-Wl,--start-group", *libraries, "-Wl,--end-group"]
    command = [*options.cc, "-o", program, changed, main, *group]
    result = subprocess.run(command, capture_output=True, text=True)
    return program if result.returncode == 0 else f"does not compile:\n{result.stderr}"


def run(command: list) -> tuple[int, str]:
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout


def finding(output: str) -> str:
    """The message: the last line but the one that says how to repeat the run."""
    return output.strip().splitlines()[-2] if output.count("\n") > 1 else output


def examine(mutant: Mutant, options: argparse.Namespace) -> str | None:
    """None if the bug was found, twice the same; else what went wrong."""
    program = build(mutant, options)
    if isinstance(program, str):
        return program
    status, output = run([program, f"--seconds={SECONDS}", *mutant.scenarios])
    if status != FOUND:
        return f"was not found (exit code {status}):\n{output}"
    message = finding(output)
    if not re.search(mutant.says, message):
        return f"was found as something else: {message}"
    again = re.search(r"^repeat it: (--replay=\S*)$", output, re.MULTILINE)
    if not again:
        return f"no way to repeat the run is printed:\n{output}"
    status, output = run([program, again.group(1)])
    if status != FOUND or finding(output) != message:
        return f"{again.group(1)} does not find it again: {finding(output)}"
    print(f"found  {mutant.name:26} {message}")
    print(f"       {again.group(1)}", flush=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("source", "work", "rest", "tracked", "base"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--only", help="the beginning of a mutant's name", default="")
    parser.add_argument("cc", nargs="+")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    failed = 0
    for mutant in MUTANTS:
        if mutant.name.startswith(options.only):
            trouble = examine(mutant, options)
            if trouble:
                failed += 1
                print(f"FAILED {mutant.name}: {trouble}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
