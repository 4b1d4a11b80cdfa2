"""Driver of the campaigns: options, numbered cases, progress, faults, and the published result.

A campaign defines how to examine the case with a given seed and number, and how to summarise all cases:

    CAMPAIGN = Campaign("soundness", __doc__, "problems", 10_000, examine, lines)

    PYTHONPATH=tests python -m campaigns.soundness --problems 500 --seed 3 --minutes 10 --record FILE --write PAGE

Faults are printed at once. With ``--record`` each case is written as a line of JSON, and recorded cases of the same seed
are not examined again, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import math
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from darrm_opt import __version__

WIDTH = 108  # longest line of prose in a page [characters]


@dataclass(frozen=True)
class Row:
    """Record of one case: plain values, one line of JSON."""

    faults: list[str] = field(default_factory=list)  # in words
    kinds: list[str] = field(default_factory=list)  # categories of the case, such as "status: optimal"
    values: dict[str, float] = field(default_factory=dict)  # numbers by name


@dataclass
class Tally:
    rows: list[Row] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [fault for row in self.rows for fault in row.faults]

    def kinds(self, group: str) -> Counter[str]:
        parts = (kind.partition(": ") for row in self.rows for kind in row.kinds)
        return Counter(name for found, _, name in parts if found == group)

    def values(self, name: str) -> list[float]:
        """Return the numbers of that name, of the cases that have one."""
        return [row.values[name] for row in self.rows if name in row.values]


@dataclass(frozen=True)
class Campaign:
    """Campaign of numbered cases; each has its own random generator, so any case can be examined alone."""

    name: str  # of its module
    doc: str | None  # help
    unit: str  # what a case is, in the plural: the option that says how many
    count: int  # of cases, unless the option says otherwise
    examine: Callable[[int, int], Row]  # the case of a seed and a number
    lines: Callable[[Tally], Iterable[str]]  # the result, as Markdown
    verb: str = ""  # of make, which runs it
    packages: tuple[str, ...] = ()  # whose versions the result names

    def run(self, options: argparse.Namespace) -> Tally:
        """Examine the cases; print faults at once."""
        tally, end, told = Tally(), time.monotonic() + 60 * options.minutes, time.monotonic()
        known = read_record(options.record, options.seed) if options.record else {}
        total = getattr(options, self.unit)
        for number in range(options.first, options.first + total):
            row = known.get(number)
            if row is None:
                if time.monotonic() >= end:
                    break
                row = self.examine(options.seed, number)
                if options.record:
                    line = json.dumps({"seed": options.seed, "number": number, "row": dataclasses.asdict(row)})
                    with options.record.open("a", encoding="utf-8") as file:
                        file.write(f"{line}\n")
            tally.rows.append(row)
            say(*(f"{number}: {fault}" for fault in row.faults))
            if time.monotonic() > told + 30:
                told = time.monotonic()
                sys.stderr.write(f"{len(tally.rows)} of {total}\n")
        return tally

    def main(self, arguments: Sequence[str] | None = None) -> int:
        options = self.options(arguments)
        tally = self.run(options)
        words = f"--{self.unit} {len(tally.rows)} --seed {options.seed}"
        words += f" --first {options.first}" if options.first else ""
        command = f"make {self.verb} ARGS='{words}'" if self.verb else f"python -m campaigns.{self.name} {words}"
        publish(self.name, [*self.lines(tally), "", origin(command, *self.packages)], options.write)
        return int(bool(tally.faults))

    def options(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        return read_options(
            self.doc,
            arguments,
            **{self.unit: self.count},
            seed=0,
            first=(0, "number of the first case"),
            minutes=(math.inf, "time after which no case is begun"),
            record=(Path, "file of cases to go on with, a line of JSON each"),
            write=(Path, "page"),
        )


def read_options(doc: str | None, arguments: Sequence[str] | None, **options: Any) -> argparse.Namespace:
    """Read a campaign's options, each given by its default, or by its type if it has none, alone or with a help text.

    The value of an option whose default is a list are several words.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, option in options.items():
        value, text = option if isinstance(option, tuple) else (option, None)
        if isinstance(value, list):
            parser.add_argument(f"--{name}", type=type(value[0]), nargs="+", default=value, help=text)
        elif isinstance(value, bool):
            parser.add_argument(f"--{name}", action="store_true", help=text)
        else:
            kind, default = (value, None) if isinstance(value, type) else (type(value), value)
            parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    return parser.parse_args(arguments)


def read_record(path: Path, seed: int) -> dict[int, Row]:
    """Return the cases of a seed in a file, by number; a last line that was cut off is removed."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    lines = map(json.loads, whole.splitlines())
    return {line["number"]: Row(**line["row"]) for line in lines if line["seed"] == seed}


def origin(command: str, *packages: str) -> str:
    """Return the last line of a result: its command, date and versions."""
    versions = [f"darrm-opt {__version__}", *(f"{package} {version(package)}" for package in packages)]
    return f"`{command}`, {dt.datetime.now(tz=dt.UTC):%Y-%m-%d}; {', '.join(versions)}."


def listed(counts: Counter[str]) -> str:
    """Return counts as the end of a sentence, the most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) + "."


def shares_within(values: Sequence[float], limits: Iterable[float]) -> str:
    """Return the share of values within each limit."""
    return ", ".join(
        f"{sum(value <= limit for value in values) / len(values):.2%} at most {limit:g}" for limit in limits
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def say(*lines: str) -> None:
    """Print lines at once: a campaign may run for hours."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def publish(name: str, lines: Iterable[str], path: Path | None) -> None:
    """Print a result, prose in lines of `WIDTH`, and put it into a page, if one is given.

    In a page a result stands between ``<!-- result of NAME -->`` and ``<!-- end -->``; at its end, unless it has them.
    """
    wrapped = (line if line.startswith("|") else textwrap.fill(line, WIDTH, break_on_hyphens=False) for line in lines)
    text = "\n".join(wrapped) + "\n"
    sys.stdout.write(text)
    if path:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        block = f"<!-- result of {name} -->\n\n{text}\n<!-- end -->\n"
        place = re.compile(rf"<!-- result of {name} -->\n.*?<!-- end -->\n", re.DOTALL)
        after = place.sub(lambda _: block, before)
        path.write_text(after if place.search(before) else f"{before}{before and chr(10)}{block}", encoding="utf-8")
