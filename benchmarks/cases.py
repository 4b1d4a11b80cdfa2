"""What is measured and what is wanted of it: one `Case` a row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

SUITES = {
    "quick": "Cases of less than a minute each.",
    "slowest": "What took longest once, each beside its goal or its peer: records that affect some of the voters, a "
    "loose tolerance, large K, classes, groups, a start with a store, a server's start, and designs of which each is "
    "new (processor time of the server and its processes).",
    "engine": "Single designs, and the peer that builds every row at K = 21. Designs of milliseconds are timed warm: "
    "the median of up to 50 solves of one problem in one process.",
    "profiles": "Voters that state several points of a privacy profile; processor time.",
    "scale": "Large K.",
    "classes": "Votes among classes, each program from start to end. The peer of labels draws NumPy's noise, which is "
    "not exact: what a draw takes at least.",
    "service": "The HTTP service under load; time is for one request, and needs wrk and Linux.",
}
"""Names of the suites and what is in them."""

EPSILON = 0.1  # ε of one voter [nats] where a case does not say it
MU = 0.0325  # μ of the Gaussian voters that state several points: they are (0.1, 1e-5)-DP
ALLOWANCES = (3, 10, 20, 50)  # m, as far as below K/2: from there on no noise is needed

OBJECTIVES = ("rectangular", "shared(1,1) agreement")


MIN_THROUGHPUT = 0.9
"""Share of the bare route's requests that the service should answer in a second of a processor.

The service answers before its router, which takes more than half of the bare route's time, and spends what that saves
on what protects it: limits on the wire, middleware (id, host, site, key, rate, metrics, response cache) and the log.
"""


@dataclass(frozen=True)
class Solve:
    """Design one γ.

    Attributes:
        K, m, Delta: the problem; δ = 1 − (1−Δ)^m.
        objective, shape, method, tolerance: as `darrm_opt.solve` takes them.
        cold: time everything from the import of darrm_opt on; else what is imported or compiled on first use is
            loaded by a small solve that is not timed.
        delta: δ of the release instead.
        points: voters state this many points of gaussian(`MU`), of which (ε, Δ) is the last; 0: that one alone.
        repeats: solves in one process, of which the median counts.
        epsilon: of one voter [nats].
        affected: voters that one record can influence; None: all.
    """

    K: int
    m: float
    Delta: float
    objective: str = "rectangular"
    shape: str = "free"
    method: str = "auto"
    tolerance: float = 1e-6
    cold: bool = False
    delta: float | None = None
    points: int = 0
    repeats: int = 1
    epsilon: float = EPSILON
    affected: int | None = None


@dataclass(frozen=True)
class Profile:
    """Evaluate the exact privacy profile of a designed γ at many ε′ (the design is not timed)."""

    K: int
    m: float
    Delta: float
    objective: str = "rectangular"
    values: int = 400


@dataclass(frozen=True)
class Total:
    """Account for many releases of a designed γ by the exact recursion on its bits (the design is not timed).

    Attributes:
        K, m, Delta: the problem, as in `Solve`; the voters are fresh.
        queries: releases.
        total_delta: allowed in total [probability].
    """

    K: int
    m: float
    Delta: float
    queries: int
    total_delta: float = 1e-2


@dataclass(frozen=True)
class Command:
    """Run a program from start to end; a first word "darrm" or "python" stands for those of this interpreter."""

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Load:
    """Ask a server for one stored answer as fast as it gives it, or for what `figure` says (`benchmarks.load`).

    Attributes:
        server: the service, or a bare FastAPI route that returns the same bytes.
        figure: what is reported: the processor time that the server takes for one request, which other programs of
            the machine hardly change; the 99th percentile of the wait for one; the processor time for a small design
            that is new, with its processes; or that of its start, with the memory at rest.
        busy: while every solver process is solving.
    """

    server: Literal["service", "bare"] = "service"
    figure: Literal["processor", "p99", "fresh", "start"] = "processor"
    busy: bool = False


Job = Solve | Profile | Total | Command | Load


@dataclass(frozen=True)
class Wanted:
    """What a case should show; None where nothing is asked.

    Attributes:
        seconds: most time [s].
        memory: largest peak of resident memory [GB].
        gap: largest gap of the solution.
        complete: a certificate with nothing but rounding between bound and value.
        faster: the peer takes at least this many times as long.
        within: it takes at most this many times as long as the peer.
        exponent: growth from the peer's K to its own, as a power of K, at most.
    """

    seconds: float | None = None
    memory: float | None = None
    gap: float | None = None
    complete: bool = False
    faster: float | None = None
    within: float | None = None
    exponent: float | None = None


@dataclass(frozen=True)
class Case:
    """One row: a job, what is wanted of it, and the peer that it is measured beside.

    Attributes:
        name: unique; what the table calls it.
        suite: one of `SUITES`.
        job: what is measured.
        wanted: what it should show.
        peer: what it is compared with in the same run, turn by turn.
        repeats: most turns; fewer if the budget runs out.
        peer_repeats: turns in which the peer runs too; None: all.
        limit: most time for one run of the job [s], start of the process included.
        peer_limit: the same for the peer [s].
        warm: whether a command runs once before it is measured.
    """

    name: str
    suite: str
    job: Job
    wanted: Wanted
    peer: Job | None = None
    repeats: int = 3
    peer_repeats: int | None = None
    limit: float = 60.0
    peer_limit: float = 120.0
    warm: bool = True


def all_cases() -> tuple[Case, ...]:
    """Return every case, smaller ones first within a suite: what a spent budget leaves out are the largest."""
    return (*quick(), *slowest(), *engine(), *profiles(), *scale(), *classes(), *service())


def quick() -> Iterator[Case]:
    """Yield the cases of less than a minute."""
    yield from _commands()
    for K, faster in ((11, 20), (15, 100)):
        for objective in OBJECTIVES:
            yield Case(
                name=f"K={K}, Δ=1e-5, m=3, {objective}: cuts against enumerate",
                suite="quick",
                job=Solve(K, 3, 1e-5, objective, method="cuts"),
                wanted=Wanted(faster=faster),
                peer=Solve(K, 3, 1e-5, objective, method="enumerate"),
                repeats=5 if K == 11 else 3,
            )
    first_solve = Wanted(seconds=2, memory=1, gap=1e-8, complete=True)
    yield from _table(35, 1e-5, first_solve, suite="quick", repeats=5, cold=True)
    yield from _table(35, 1e-5, Wanted(seconds=0.1, gap=1e-9, complete=True), suite="quick", repeats=5)
    yield from _table(101, 0.0, Wanted(seconds=0.2, gap=1e-9), suite="quick", repeats=5)
    yield from _table(101, 1e-5, Wanted(seconds=1, gap=1e-9, complete=True), suite="quick", repeats=5)


SLOWEST = (
    *((Solve(201, 3, 0.1, affected=affected), Wanted(seconds=3)) for affected in (1, 2, 25, 50, 100)),
    (Solve(201, 3, 0.1), Wanted(seconds=5)),
    *((Solve(301, 3, 0.1, affected=affected), Wanted(seconds=6)) for affected in (1, 2, 37, 75, 150)),
    (Solve(1001, 3, 0.01), Wanted(seconds=40, gap=1e-6)),
    (Solve(2001, 1.5, 0.0, epsilon=0.01), Wanted(seconds=40, gap=1e-6)),
    (Solve(5001, 3, 0.0), Wanted(seconds=120, gap=1e-6)),
)
"""Single designs and what is wanted of them."""

LONGEST = (
    ("solve --classes 3 --K 101 --affected 1 --target-epsilon 1 --delta 1e-5 --no-cache", 3),
    ("solve --classes 3 --K 400 --affected 1 --target-epsilon 1 --delta 1e-5 --no-cache", 15),
    ("plan --group K=28,epsilon=0.1 --group K=27,epsilon=0.5 --total-epsilon 0.6", 15),
)
"""Commands, and their most time [s]."""


def slowest() -> Iterator[Case]:
    """Yield what took longest once, of designs, commands and the service."""
    for job, wanted in SLOWEST:
        affected = "" if job.affected is None else f", {job.affected} affected"
        yield Case(
            name=f"one design: K={job.K}, Δ={_short_text(job.Delta)}, m={job.m:g}, ε={job.epsilon:g}{affected}",
            suite="slowest",
            job=job,
            wanted=wanted,
            repeats=1,
            limit=150,
        )
    loose = Solve(301, 1.5, 0.0, epsilon=3.0, tolerance=1e-3)
    yield Case(
        name="K=301, Δ=0, m=1.5, ε=3: tolerance 1e-3 against 1e-6",
        suite="slowest",
        job=loose,
        wanted=Wanted(seconds=1, faster=1),
        peer=replace(loose, tolerance=1e-6),
    )
    for command, seconds in LONGEST:
        words = ("darrm", *command.split())
        yield Case(
            name=f"`darrm {command}`",
            suite="slowest",
            job=Command(words),
            wanted=Wanted(seconds=seconds),
            repeats=1,
            warm=False,
        )
    start = ("darrm", "solve", "--K", "11", "--m", "3", "--epsilon", f"{EPSILON:g}")
    yield Case(
        name=f"`{' '.join(start)} --cache` against `--no-cache`",
        suite="slowest",
        job=Command((*start, "--cache")),
        wanted=Wanted(within=1.3),
        peer=Command((*start, "--no-cache")),
        repeats=15,
    )
    yield Case(
        name="`darrm serve`: processor time until it answers, and memory at rest",
        suite="slowest",
        job=Load(figure="start"),
        wanted=Wanted(seconds=1.5, memory=85 * 2**20 / 1e9),
    )
    yield Case(
        name="`GET /v1/gamma` of 1,000 new γ for K=11, by 50 clients at once",
        suite="slowest",
        job=Load(figure="fresh"),
        wanted=Wanted(seconds=2 / 150),
        repeats=1,
    )


ENGINE = (
    (Solve(11, 3, 1e-5, repeats=50), Wanted(seconds=0.0015, gap=1e-9, complete=True)),
    (Solve(35, 3, 1e-5, repeats=30), Wanted(seconds=0.006, gap=1e-9, complete=True)),
    (Solve(101, 3, 1e-5, repeats=15), Wanted(seconds=0.02, gap=1e-9, complete=True)),
    (Solve(101, 3, 0.2, delta=0.1), Wanted(seconds=3, complete=True)),
    (Solve(101, 3, 0.1), Wanted(seconds=3, complete=True)),
    (Solve(61, 3, 0.5), Wanted(seconds=3, complete=True)),
    (Solve(301, 3, 1e-5, tolerance=1e-7, repeats=3), Wanted(seconds=0.2, gap=1e-7)),
    (Solve(1001, 3, 1e-6, tolerance=1e-7), Wanted(seconds=1.5, gap=1e-7)),
    (Solve(2001, 3, 1e-6), Wanted(seconds=6, gap=1e-6)),
    (Solve(5001, 20, 1e-6, tolerance=1e-5), Wanted(seconds=60, memory=2, gap=1e-5)),
    (Solve(5001, 3, 1e-6, tolerance=1e-5), Wanted(seconds=60, memory=2, gap=1e-5)),
)
"""Single designs and what is wanted of them."""


def engine() -> Iterator[Case]:
    """Yield single designs, the profile of one, the total of another, and the peer that builds every row."""
    for job, wanted in ENGINE:
        delta = "" if job.delta is None else f", δ={job.delta:g}"
        yield Case(
            name=f"one design: K={job.K}, Δ={_short_text(job.Delta)}{delta}, m={job.m:g}",
            suite="engine",
            job=job,
            wanted=wanted,
            repeats=1 if job.K > 1001 else 3,
        )
    yield Case(
        name="K=101, Δ=1e-5, m=3: privacy profile at 400 values of ε′",
        suite="engine",
        job=Profile(101, 3, 1e-5),
        wanted=Wanted(seconds=0.3),
    )
    for Delta in (0.0, 1e-5):
        yield Case(
            name=f"K=11, Δ={_short_text(Delta)}, m=3: total of 100 releases by every account",
            suite="engine",
            job=Total(11, 3, Delta, 100),
            wanted=Wanted(seconds=0.5),
        )
    for objective in OBJECTIVES:
        yield Case(
            name=f"K=21, Δ=1e-5, m=5, {objective}: against all 1,184,040 rows in one program",
            suite="engine",
            job=Solve(21, 5, 1e-5, objective, repeats=50),
            wanted=Wanted(faster=4000),
            peer=Solve(21, 5, 1e-5, objective, method="enumerate"),
            peer_repeats=1,
        )


STATED = ((11, 8, 0.1), (35, 5, 1), (101, 3, 10))  # K, points of a voter's profile, and the processor time wanted [s]


def profiles() -> Iterator[Case]:
    """Yield single designs for voters that state a profile, and the peer that builds every row."""
    for K, points, seconds in STATED:
        for m in (1, 3):
            yield Case(
                name=f"one design: K={K}, {points} points of gaussian({MU}), m={m}",
                suite="profiles",
                job=Solve(K, m, 1e-5, points=points, repeats=5 if K < 101 else 1),
                wanted=Wanted(seconds=seconds, gap=1e-6),
                repeats=1,
            )
    yield Case(
        name=f"K=11, 2 points of gaussian({MU}), m=1: against all 167,960 rows in one program",
        suite="profiles",
        job=Solve(11, 1, 1e-5, points=2, repeats=20),
        wanted=Wanted(faster=15),
        peer=Solve(11, 1, 1e-5, method="enumerate", points=2),
        peer_repeats=1,
    )


def scale() -> Iterator[Case]:
    """Yield the large cases."""
    yield from _table(101, 1e-2, Wanted(seconds=10, complete=True))
    yield from _table(301, 1e-5, Wanted(seconds=2, gap=1e-7), tolerance=1e-7)
    yield from _profiles()
    yield from _table(1001, 1e-6, Wanted(seconds=3), shape="monotone")
    yield from _table(1001, 0.0, Wanted(seconds=10, memory=1))
    large = Wanted(seconds=20, memory=1, gap=1e-7, exponent=3.2)
    yield from _table(1001, 1e-6, large, tolerance=1e-7, growth_from=101)
    yield from _table(5001, 1e-6, Wanted(seconds=60, memory=2), shape="monotone")
    yield from _table(2001, 1e-6, Wanted(seconds=60, memory=2, gap=1e-6))


CLASS_COMMANDS = (
    ("cost gnmax --K 250 --classes 10 --queries 1000 --total-epsilon 2 --total-delta 1e-5", 1.5),
    ("cost gnmax --K 250 --classes 10 --queries 2500 --total-epsilon 2 --total-delta 1e-5", 2.5),
    ("plan --K 250 --classes 10 --queries 1000 --total-epsilon 2 --total-delta 1e-5 --price 5 --prior beta(8,2)", 8),
    ("solve --K 50 --classes 3 --target-epsilon 1 --delta 1e-5 --no-cache", 3),
    ("solve --K 30 --classes 4 --target-epsilon 1 --delta 1e-5 --no-cache", 3),
)
"""Commands about classes, one vote affected, and their most time [s]."""

COUNTS = "import numpy as np; counts = np.tile(np.array([200, 20, 10, 10, 10, 0, 0, 0, 0, 0]), (200_000, 1))"
"""Votes of 250 voters in 200,000 queries."""

LABELS = f"""{COUNTS}
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.randomness import SystemRandomness
NoisyMaximum(250, 10, 72.0).draw_many(counts, SystemRandomness())"""

NORMAL_LABELS = f"""{COUNTS}
import darrm_opt.mechanisms.noisy_maximum
(counts + np.random.default_rng().normal(0, 72, counts.shape)).argmax(axis=1)"""


def classes() -> Iterator[Case]:
    """Yield commands about votes among classes, and labels."""
    for command, seconds in CLASS_COMMANDS:
        words = command.split()
        yield Case(
            name=f"`darrm {command}`",
            suite="classes",
            job=Command(("darrm", *words, *(() if words[0] == "cost" else ("--affected", "1")))),
            wanted=Wanted(seconds=seconds),
        )
    yield Case(
        name="200,000 labels of 10 classes, exact discrete Gaussian noise of σ = 72, against NumPy's normal noise",
        suite="classes",
        job=Command(("python", "-c", LABELS)),
        wanted=Wanted(seconds=20, within=4),
        peer=Command(("python", "-c", NORMAL_LABELS)),
    )


def service() -> Iterator[Case]:
    """Yield the service under load."""
    yield Case(
        name="`GET /v1/gamma` of a stored γ against a bare FastAPI route with its bytes: processor time for a request",
        suite="service",
        job=Load(),
        wanted=Wanted(within=1 / MIN_THROUGHPUT),
        peer=Load("bare"),
        repeats=3,
        limit=120,
    )
    yield Case(
        name="`GET /v1/gamma` of a stored γ, all solver processes at work, against none: 99th percentile",
        suite="service",
        job=Load(figure="p99", busy=True),
        wanted=Wanted(within=10),
        peer=Load(figure="p99"),
        limit=180,
    )


def _table(
    K: int,
    Delta: float,
    wanted: Wanted,
    *,
    suite: str = "scale",
    shape: str = "free",
    tolerance: float = 1e-6,
    repeats: int = 1,
    cold: bool = False,
    growth_from: int | None = None,
) -> Iterator[Case]:
    """Yield one demand at every allowance and objective."""
    for m in ALLOWANCES:
        if m < K / 2:
            for objective in OBJECTIVES:
                job = Solve(K, m, Delta, objective, shape, tolerance=tolerance, cold=cold)
                name = f"K={K}, Δ={_short_text(Delta)}, {shape}, m={m}, {objective}"
                if growth_from is not None:
                    name += f": growth from K={growth_from}"
                yield Case(
                    name=f"{name}: first solve of a process" if cold else name,
                    suite=suite,
                    job=job,
                    wanted=wanted,
                    peer=None if growth_from is None else replace(job, K=growth_from),
                    repeats=repeats,
                    limit=max(30.0, 2 * (wanted.seconds or 0.0)),
                )


def _profiles() -> Iterator[Case]:
    for m in ALLOWANCES:
        for objective in OBJECTIVES:
            yield Case(
                name=f"K=101, Δ=1e-5, privacy profile at 400 values of ε′, m={m}, {objective}",
                suite="scale",
                job=Profile(101, m, 1e-5, objective),
                wanted=Wanted(seconds=10),
            )


def _commands() -> Iterator[Case]:
    """Yield `darrm solve` beside an interpreter that does nothing but load what every solve needs."""
    solve, peer = ("solve", "--K", "11", "--m", "3", "--epsilon", f"{EPSILON:g}"), "import numpy, highspy"
    for options in ((), ("--voter-delta", "1e-5")):
        yield Case(
            name=f"`{' '.join(('darrm', *solve, *options))}` against `python -c '{peer}'`",
            suite="quick",
            job=Command(("darrm", *solve, *options)),
            wanted=Wanted(within=1.2),
            peer=Command(("python", "-c", peer)),
            repeats=15,
        )


def _short_text(Delta: float) -> str:
    """Return 1e-5 for 1e-05."""
    return f"{Delta:.0e}".replace("e-0", "e-") if Delta else "0"
