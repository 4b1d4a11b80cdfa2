"""Kill `darrm label` repeatedly, and compare the release log with the labels.

Each trial labels one file of votes. The process is killed by SIGKILL at random moments, chosen by the growth of the log
and a random delay, and restarted with the same command until it ends by itself. Then every row must have been released
exactly once: the log holds each block of the job once, its bits are the labels, and it has spent as much as an
undisturbed job, one release a row. With ``--classes`` the votes are among classes and released by Confident-GNMax with
a cap; then the log counts the labels among the answers, which are as many as the cap allows.

    PYTHONPATH=tests python -m campaigns.kill_label --trials 100
    PYTHONPATH=tests python -m campaigns.kill_label --trials 10 --classes 4
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.darrm_runner import start

from campaigns.driver import read_options, say
from darrm_opt import Problem, solve
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.plurality import ABSTENTION
from darrm_opt.record import solution_record
from darrm_opt.release import ReleaseLog

K = 5


@dataclass(frozen=True)
class Trial:
    """Outcome of a job that was killed."""

    kills: int  # while it worked
    resumed: int  # labels that its last run found in the release log
    faults: tuple[str, ...]  # at its end, in words


def kill_and_resume(
    folder: Path, *, rows: int, block: int, kills: int, seed: int, suffix: str = "csv", classes: int | None = None
) -> Trial:
    """Label ``rows`` rows in an empty folder, killing the process up to that many times.

    Args:
        folder: where everything is written.
        rows: labels wanted.
        block: rows that are charged together.
        kills: most kills.
        seed: of votes and moments.
        suffix: format of the labels.
        classes: of the votes; None: bits, released by a γ.
    """
    rng = np.random.default_rng(seed)
    np.save(folder / "votes.npy", rng.integers(0, classes or 2, (rows, K), dtype=np.uint8))
    if classes is None:
        record = solution_record(solve(Problem.from_allowance(K=K, m=2, epsilon=0.5)))
    else:  # nearly every second check passes, so that the cap is reached on the way
        record = NoisyMaximum(K, classes, 1.0, threshold=3.0, check_sigma=1.0, cap=rows // 4).record()
    (folder / "solution.json").write_text(json.dumps(record))
    command = [*("label", "votes.npy", "--solution", "solution.json", "--release-log", "log"), "--json"]
    command += ["--queries", str(2 * rows), "--output", f"labels.{suffix}", "--block", str(block)]
    kill_count = 0
    for _ in range(kills):
        process = start(*command, cwd=folder)
        target_lines = _lines(folder) + int(rng.integers(0, max(2, rows // block // kills)))
        while process.poll() is None and _lines(folder) < target_lines:
            time.sleep(0.001)
        time.sleep(float(rng.random()) * 0.01)
        process.kill()
        process.communicate()
        if process.returncode == 0:
            break
        kill_count += 1
    answer = {"resumed": rows}
    if not (folder / f"labels.{suffix}").exists() or (folder / f".labels.{suffix}.job").exists():
        process = start(*command, cwd=folder)
        stdout, stderr = process.communicate(timeout=300)
        if process.returncode:
            return Trial(kill_count, 0, (f"ended with {process.returncode}: {stderr}",))
        answer = json.loads(stdout)
    return Trial(kill_count, int(answer["resumed"]), _faults(folder, f"labels.{suffix}", rows, block, classes))


def _faults(folder: Path, output: str, rows: int, block: int, classes: int | None) -> tuple[str, ...]:
    faults = []
    log = ReleaseLog(folder / "log")
    labels = _labels(folder / output)
    names = sorted(log.ids, key=lambda name: int(name.partition("/")[2]))
    if [int(name.partition("/")[2]) for name in names] != list(range(-(-rows // block))):
        faults.append(f"the log holds the blocks {names}")
    if len({name.partition("/")[0] for name in names}) != 1:
        faults.append("the log holds several jobs")
    bits = [bit for name in names for bit in _stored_bits(log, name)]
    if bits != labels:
        faults.append("the labels are not the bits in the log")
    if len(labels) != rows:
        faults.append(f"{len(labels)} labels for {rows} rows")
    if log.spent != rows:
        faults.append(f"{log.spent} releases are charged for {rows} rows")
    if classes is not None:
        released = sum(label != ABSTENTION for label in labels)
        if not released == log.labels == log.mechanism.cap:
            faults.append(f"{released} labels left, {log.labels} are counted, the cap is {log.mechanism.cap}")
    if files := [path.name for path in folder.glob(".*")]:
        faults.append(f"{files} are left behind")
    return tuple(faults)


def _lines(folder: Path) -> int:
    path = folder / "log"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _stored_bits(log: ReleaseLog, name: str) -> list[int]:
    bits = log.stored(name)
    return [] if bits is None else [int(bit) for bit in bits]


def _labels(path: Path) -> list[int]:
    if path.suffix == ".npy":
        return [int(bit) for bit in np.load(path)]
    head, *lines = path.read_text().splitlines()
    return [int(line) for line in lines] if head == "label" else []


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, arguments, trials=100, rows=4000, block=10, kills=6, seed=0, classes=int)
    kills, faulty = 0, 0
    for number in range(options.trials):
        sizes = {name: getattr(options, name) for name in ("rows", "block", "kills", "classes")}
        with tempfile.TemporaryDirectory() as folder:
            suffix = ("csv", "npy")[number % 2]
            trial = kill_and_resume(Path(folder), seed=options.seed + number, suffix=suffix, **sizes)
        kills, faulty = kills + trial.kills, faulty + bool(trial.faults)
        say(*(f"trial {number}: {fault}" for fault in trial.faults))
    say(f"{options.trials} jobs, {kills} kills, {faulty} jobs with a fault")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
