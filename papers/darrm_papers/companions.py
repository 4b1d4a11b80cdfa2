"""Reproductions of the companion papers: Bagging, DPBag, He–Wang–Tao, and PATE as Bagging compares itself with it.

Numbers are printed ones beside ours, with the verdict in words; experiments are of digits size, on scikit-learn's
digits, and measure accuracy without releasing anything.

Sources: H. Liu, J. Jia, N. Z. Gong, "On the Intrinsic Differential Privacy of Bagging". J. Jordon, J. Yoon,
M. van der Schaar, "Differentially Private Bagging", NeurIPS 2019, and its supplement. F. He, B. Wang, D. Tao, "Tighter
Generalization Bounds for Iterative Differentially Private Learning Algorithms".
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.bagging import bagging_guarantee, draw_subsamples
from darrm_opt.design.solver import solve
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SeededRandomnessForTestsOnly
from darrm_papers.darrm.printed import CLASSES, VOTERS, Cell, Reproduction, Table, one_table, rounds_to
from darrm_papers.darrm.teachers import find_images
from darrm_papers.dpbag import (
    DATASETS,
    BundledData,
    load_dataset,
    overspending_label_count,
    run_experiment,
    split,
    teacher,
)
from darrm_papers.he_wang_tao import printed as hwt
from darrm_papers.he_wang_tao.training import federated, sgld
from darrm_papers.moments_accountant import moments_epsilon, saa_label_budget

BAGGING = (
    *((2, 60_000, 300, "0.005", "0.005"), (2, 60_000, 500, "0.0083", "0.0083"), (2, 60_000, 1000, "0.017", "0.017")),
    *((2, 60_000, 5000, "0.083", "0.08"), (2, 60_000, 10_000, "0.167", "0.154")),
    *((3, 50_000, 1000, "0.02", "0.02"), (3, 50_000, 5000, "0.1", "0.095"), (3, 50_000, 10_000, "0.2", "0.181")),
    *((3, 50_000, 20_000, "0.4", "0.33"), (3, 50_000, 30_000, "0.6", "0.45")),
    *((4, 60_000, 500, "0.008", "0.008"), (4, 60_000, 1000, "0.017", "0.017"), (4, 60_000, 5000, "0.08", "0.08")),
    *((5, 50_000, 1000, "0.02", "0.02"), (5, 50_000, 10_000, "0.2", "0.18")),
)
"""Tables 2 to 5 of the Bagging paper: table, n (which the tables imply), k, and ε and δ as printed; N = 1."""

LABELS = {50: (11, 85, 211), 100: (43, 338, 843), 150: (95, 759, 1897), 250: (264, 2108, 5269)}
"""Labels of SAA by chunks, as DPBag and its supplement print them for ε = 1, 3 and 5."""

PRINTED_DELTA, TRUE_DELTA = 1e-5, 1e-3  # δ that is printed beside these counts, and the one that they follow from


def bagging_tables() -> Reproduction:
    """Return the budget columns of Tables 2 to 5 of the Bagging paper."""
    rows: list[tuple[Cell, ...]] = []
    for table, n, k, epsilon, delta in BAGGING:
        ours = bagging_guarantee(n, k)
        # The printed texts, not numbers: they say to how many digits the paper rounded.
        agree = rounds_to(ours.epsilon, epsilon) and rounds_to(ours.delta, delta)
        rows.append((table, n, k, float(epsilon), ours.epsilon, float(delta), ours.delta, "yes" if agree else "no"))
    heads = (
        *(("table", "d"), ("n", "d"), ("k", "d"), ("paper ε", "g"), ("ours", ".9f"), ("paper δ", "g")),
        *(("ours ", ".9f"), ("agree", "")),
    )
    return one_table(
        "bagging-tables",
        "Bagging, Tables 2 to 5: the privacy of one model of k of n records, drawn with replacement",
        "accounting",
        Table("Theorem 2, N = 1; n follows from the tables", heads, tuple(rows)),
        "All agree after rounding. The printed δ = 0.18 at k = 10000 is 0.1813: (0.2, 0.18) is not quite met; "
        "for a hard δ = 0.18 the largest k is 9922.",
        "ε may be 0 at the same δ: the draw alone is what differs, by its total variation (`darrm cost bagging`).",
        "Accuracies in these tables depend on training; bagging-figures has them at digits size.",
    )


def dpbag_labels() -> Reproduction:
    """Return how many labels SAA releases within ε = 1, 3 and 5, as DPBag and its supplement print them."""
    rows: list[tuple[Cell, ...]] = []
    for chunks, counts in LABELS.items():
        for epsilon, paper in zip((1, 3, 5), counts, strict=True):
            lam = 2 / chunks
            ours = overspending_label_count(epsilon, TRUE_DELTA, lam)
            # Both δ: the counts follow from one of them, and the other is printed beside them.
            spent = moments_epsilon(paper, lam, TRUE_DELTA)
            stated = moments_epsilon(paper, lam, PRINTED_DELTA)
            strict, strictest = (saa_label_budget(epsilon, delta, lam) for delta in (TRUE_DELTA, PRINTED_DELTA))
            rows.append(
                (chunks, epsilon, paper, ours, "yes" if ours == paper else "no", spent, stated, strict, strictest)
            )
    heads = (
        *(("chunks", "d"), ("ε", "d"), ("paper", "d"), ("ours", "d"), ("agree", ""), ("ε spent, δ = 1e-3", ".4f")),
        *(("ε spent, δ = 1e-5", ".4f"), ("within ε, 1e-3", "d"), ("within ε, 1e-5", "d")),
    )
    return one_table(
        "dpbag-labels",
        "DPBag, Table 2 and the supplement's label tables: labels of SAA (and DPBag-) by the moments accountant",
        "accounting",
        Table("λ = 2/chunks, orders 1 to 80", heads, tuple(rows)),
        "All 12 counts are exact at δ = 1e-3. At the printed δ = 1e-5 the same rule gives two thirds of them, "
        "and the printed counts cost 1.25 to 1.31 times ε.",
        "The printed loop releases the query that crosses ε: each count is one more than fits, and costs more "
        "than ε at either δ.",
    )


def dpbag_teachers(*, data: str | None = None, quick: bool = False, seed: int = 0) -> Reproduction:  # noqa: ARG001
    """Return the accuracy of each aggregator's labels, all of them within one total; the data are scikit-learn's own.

    The data are public, so what would have to stay with the owner of private data is shown too.
    """
    total, labels, chunks, partitions = Privacy(2.0, 1e-4), *((6, 5, 2) if quick else (50, 25, 5))
    rows: list[tuple[Cell, ...]] = []
    lost: list[tuple[Cell, ...]] = []
    for name in DATASETS:
        split = load_dataset(name, labels, seed=seed)
        source = SeededRandomnessForTestsOnly(seed)
        found = run_experiment(split, total, n_chunks=chunks, n_partitions=partitions, source=source)
        rows.append((name, "majority, not private", "", math.inf, found.teachers_accuracy, found.teachers_accuracy))
        for each in found.results:
            noise = f"{each.noise[0]} = {each.noise[1]:.4g}"
            rows.append((name, each.name, noise, each.guarantee.epsilon, each.accuracy, each.expected_accuracy))
            if each.records is not None:
                shares = np.quantile(each.records, (0, 0.5, 1)).tolist()
                lost.append((name, *shares, each.leaking_labels))
    heads = (("data", ""), ("aggregator", ""), ("noise", ""), ("ε spent", ".6f"), ("right", ".3f"), ("expected", ".3f"))
    losses = (("data", ""), ("least", ".4g"), ("median", ".4g"), ("largest", ".4g"), ("labels, source's rule", "d"))
    return Reproduction(
        "dpbag-teachers",
        f"DPBag: {chunks} teachers label {labels} points, ({total.epsilon:g}, {total.delta:g})-DP for each aggregator",
        "experiment",
        (
            Table("Share of labels that are right", heads, tuple(rows)),
            Table("ε that DPBag's own account says a record lost: not differential privacy", losses, tuple(lost)),
        ),
        ("The number of labels is fixed before the data are looked at, and every label is paid for in advance.",),
        {"labels": labels, "teachers": chunks, "partitions": partitions, "seed": seed},
    )


def pate_column() -> Reproduction:
    """Return what the labels of PATE cost that Bagging compares itself with: Confident-GNMax, 250 teachers."""
    mechanism = mechanism_class("gnmax").of(250, 10, 40.0, threshold=200.0, check_sigma=150.0)
    rows: list[tuple[Cell, ...]] = []
    for queries in (100, 300, 1000):
        # Without a cap: every check may pass, since nothing is assumed of the votes.
        cost = mechanism.cost(queries, 1e-5)
        rows.append((queries, None, cost.epsilon, cost.account))
    return one_table(
        "pate-column",
        "Bagging, Tables 4 and 5, the column PATE: Confident-GNMax, 250 teachers, T = 200, σ₁ = 150, σ₂ = 40, C = 10",
        "accounting",
        Table(
            "ε at δ = 1e-5 for any votes: every query is checked, and every label leaves",
            (("queries", "d"), ("paper", ".3f"), ("ours", ".4f"), ("account", "")),
            tuple(rows),
        ),
        "The paper's ε is by the votes of its own teachers, which are not at hand, and not for publication, as "
        "it depends on private data. `darrm cost gnmax --votes FILE` states one that may be published.",
    )


def hwt_composition() -> Reproduction:
    """Return the composition theorems of He, Wang and Tao at DaRRM's settings, beside what is true."""
    rows: list[tuple[Cell, ...]] = []
    theorems: tuple[tuple[str, Any], ...] = (
        ("I", lambda e, d, k, s: hwt.composition_i_printed({Privacy(e, d): k}, s, acknowledge_unsound=True)),
        ("II", lambda e, d, k, s: hwt.composition_ii_printed(e, d, k, s, acknowledge_unsound=True)),
        ("III", lambda e, d, k, s: hwt.composition_iii_printed(e, d, k, s, acknowledge_unsound=True)),
        ("V", lambda e, d, k, s: hwt.composition_v_printed({Privacy(e, d): k}, s, acknowledge_unsound=True)),
    )
    for queries in (20, 50, 100):
        epsilon, delta = 3 * VOTERS["mnist"].epsilon, 3e-4
        for name, theorem in theorems:
            try:
                made = theorem(epsilon, delta, queries, 1e-4)
            except InvalidInput:  # III has no tail where its ε is kε or more
                continue
            # Below this total δ a mechanism that shows everything with its δ has no ε at all.
            leak = -math.expm1(queries * math.log1p(-delta))
            ours = optimal_composition(epsilon, delta, queries, made.delta).epsilon if made.delta > leak else math.inf
            verdict = "refuted here" if made.refuted_here else "false elsewhere"
            rows.append((queries, name, made.epsilon, made.delta, made.exact_delta, ours, verdict))
    heads = (
        *(("k", "d"), ("theorem", ""), ("printed ε", ".4f"), ("printed δ", ".6f"), ("exact δ at that ε", ".6f")),
        *(("least ε at the printed δ", ".4f"), ("verdict", "")),
    )
    return one_table(
        "hwt-composition",
        "He, Wang, Tao: composition theorems I, II, III and V at (0.2676, 3e-4), slack 1e-4",
        "accounting",
        Table("k releases, by the theorems as printed and by the optimal composition", heads, tuple(rows)),
        "Where a printed δ is below 1 − (1−δ)^k, no ε is enough: a mechanism that leaks with its δ refutes it. "
        "Where it is not, the optimal composition has a smaller ε at the same δ.",
        "IV, for δ = 0, holds with its radical over the first term: `kov_composition`.",
    )


def hwt_training() -> Reproduction:
    """Return Theorems 7 (SGLD) and 8 (federated learning) of He, Wang and Tao, as printed and corrected."""
    rows: list[tuple[Cell, ...]] = []
    settings = ((60_000, 128, 0.1, 1000, 1e-5), (60_000, 128, 0.05, 1000, 1e-5), (1000, 1, 1.0, 100, 1e-6))
    for records, batch, sigma, steps, delta in settings:
        # Corrected at the same step δ and slack; its total δ is larger, and is stated beside its ε.
        made = hwt.sgld_printed(records, batch, 1.0, sigma, steps, delta, delta, acknowledge_unsound=True)
        run = sgld(records, batch, 1.0, sigma, steps, delta)
        rows.append(("7, SGLD", records, batch, sigma, steps, made.epsilon, made.delta, *_corrected_total(run, delta)))
    for clients, cohort, sigma, rounds, delta in ((10_000, 100, 1.0, 500, 1e-6), (1000, 1, 1.0, 100, 1e-6)):
        made = hwt.federated_printed(clients, cohort, sigma, rounds, delta, delta, acknowledge_unsound=True)
        run = federated(clients, cohort, sigma, rounds, delta)
        rows.append(
            ("8, federated", clients, cohort, sigma, rounds, made.epsilon, made.delta, *_corrected_total(run, delta))
        )
    heads = (
        *(("theorem", ""), ("N", "d"), ("batch", "d"), ("σ", "g"), ("T", "d"), ("printed ε", ".4f")),
        *(("printed δ", ".3g"), ("corrected ε", ".4f"), ("at δ", ".3g")),
    )
    return one_table(
        "hwt-training",
        "He, Wang, Tao: Theorems 7 (SGLD) and 8 (agnostic federated learning), L = 1, replace-one",
        "accounting",
        Table("T steps, as printed and by the optimal composition of corrected steps", heads, tuple(rows)),
        "Both are refuted end to end (their counterexamples: `darrm_papers.he_wang_tao.printed`). A "
        "larger ε beside a printed one is not a loss: the printed one is false, or holds for other neighbours.",
    )


def _corrected_total(run: Any, slack: float) -> tuple[float, float]:
    total = run.general(slack)
    return run.optimal(total.delta).epsilon, total.delta


NUMERIC = (0, 2, 4, 10, 11, 12)
"""Columns of adult.data that are numbers; the last column is the income, and "?" is a value like others."""


def binary_data(folder: str | None, held_out: int, seed: int) -> BundledData:
    """Return fives against eights, or incomes above 50K, with a pool held out: of scikit-learn's digits, or of files.

    ``folder``: with adult.data as the UCI repository has it, or with the IDX files of MNIST or Fashion-MNIST; None for
    the digits.
    """
    if folder is None:
        return load_dataset("digits", held_out, seed=seed)
    adult = Path(folder) / "adult.data"
    if adult.is_file():
        name, (X, y) = "adult", _read_adult(adult)
    else:
        images = find_images(folder)[0]
        is_asked = np.isin(images.train_labels, CLASSES)
        name, y = images.name, (images.train_labels[is_asked] == CLASSES[1]).astype(np.int64)
        X = images.train[is_asked].astype(np.float64) / 16
    if held_out >= len(y):
        raise InvalidInput("data", folder, f"more than {held_out} records of two classes", f"There are {len(y)}.")
    return split(name, X, y, held_out, seed)


def _read_adult(path: Path) -> tuple[Array, NDArray[np.int64]]:
    """Return scaled numbers and indicators of the other columns, and whether the income is above 50K."""
    rows = [[cell.strip() for cell in line.split(",")] for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if len(row) > 1]
    if not rows or {len(row) for row in rows} != {15}:
        raise InvalidInput("data", str(path), "15 columns in every line of adult.data")
    columns = [[row[place] for row in rows] for place in range(14)]
    try:
        numbers = np.array([[float(cell) for cell in columns[place]] for place in NUMERIC]).T
    except ValueError as err:
        raise InvalidInput("data", str(path), "numbers in the columns of adult.data that are some", f"{err}.") from err
    spread = numbers.std(axis=0)
    others = [np.array(columns[place]) for place in range(14) if place not in NUMERIC]
    indicators = [(column == value).astype(np.float64) for column in others for value in sorted(set(column.tolist()))]
    X = np.column_stack([(numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1), *indicators])
    return X, np.array([row[14].startswith(">50K") for row in rows], dtype=np.int64)


def bagging_figures(*, data: str | None = None, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return the claims of Figures 1 and 2 of the Bagging paper, at digits size or on data from files."""
    shown = binary_data(data, 100, seed)
    n, draws = len(shown.y), 180
    rows: list[tuple[Cell, ...]] = []
    for replacement in (True, False):
        for models in (1, 3) if quick else (1, 3, 9):
            # The same number of drawn records for all of them: what is compared is one large subsample with several
            # small ones.
            k = draws // models
            privacy = bagging_guarantee(n, k, models, replacement=replacement)
            right = [
                # Accuracy on public data, of which nothing is released: seeded, so that it can be repeated.
                _bagged_accuracy(shown, k, models, SeededRandomnessForTestsOnly(run), replacement=replacement)
                for run in range(seed, seed + (2 if quick else 20))
            ]
            how = "with" if replacement else "without"
            rows.append((how, models, k, privacy.delta, float(np.mean(right)), float(np.std(right))))
    heads = (
        *(("replacement", ""), ("models N", "d"), ("k", "d"), ("δ", ".4f")),
        *(("accuracy", ".3f"), ("over draws, ±", ".3f")),
    )
    return one_table(
        "bagging-figures",
        "Bagging, Figures 1 and 2: accuracy of N models at the same N·k, with replacement and without",
        "experiment",
        Table(f"Two classes of {shown.name}, n = {n}, N·k = {draws}, naive Bayes", heads, tuple(rows)),
        "The paper's claims: at the same N·k one model is at least as accurate as smaller ones, and drawing "
        "with or without replacement makes next to no difference. Its figures print no numbers.",
        settings={"data": shown.name, "seed": seed},
    )


def _bagged_accuracy(data: BundledData, k: int, models: int, source: RandomSource, *, replacement: bool) -> float:
    votes = np.zeros(len(data.truth))
    for rows in draw_subsamples(len(data.y), k, models, replacement=replacement, source=source):
        if len(set(data.y[rows].tolist())) < 2:
            votes += data.y[rows][0]
            continue
        votes += teacher("naive-bayes").fit(data.X[rows], data.y[rows]).predict(data.pool)
    return float(((2 * votes > models) == data.truth).mean())


def sign_sgd(*, data: str | None = None, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return sign-SGD by private majorities, at digits size or from files: what DaRRM's earlier version trains."""
    from darrm_opt.baselines import subsampling
    from darrm_opt.noise import NoiseFunction
    from darrm_opt.problem import Problem
    from darrm_opt.release import PrivateVote, randomised_signs, release_signs

    K, rounds, voter, m = 11, 10 if quick else 40, Privacy(0.5), 3
    problem = Problem.from_allowance(K=K, m=m, epsilon=voter.epsilon)
    plain, none = NoiseFunction(np.ones(K + 1)), NoiseFunction(np.zeros(K + 1))
    # One γ for all rounds and weights: each sign is a release of its own, and the ε in the table is that of one.
    noises = {"γ_opt": solve(problem).noise, "γ_Sub": subsampling(K, m), "none": plain, "a fair coin": none}
    rows: list[tuple[Cell, ...]] = []
    for name, noise in noises.items():
        right = []
        for run in range(seed, seed + (2 if quick else 10)):
            shown, source = binary_data(data, 100, run), SeededRandomnessForTestsOnly(run)
            # a test on public data: seeded coins, and no log that charges them.
            vote = PrivateVote(NoiseFunctionMechanism(noise), source=source)
            mean = shown.X.mean(axis=0)
            parts = np.array_split(np.random.default_rng(run).permutation(len(shown.y)), K)
            clients = [(np.c_[shown.X[part] - mean, np.ones(len(part))] / 16, shown.y[part]) for part in parts]
            weights = np.zeros(shown.X.shape[1] + 1)
            for number in range(rounds):
                gradients = [X.T @ (1 / (1 + np.exp(-X @ weights)) - y) for X, y in clients]
                # Clients are ε-DP by flipping their own signs; the server's γ protects the majority once more.
                sent = [randomised_signs(-gradient, voter.epsilon, source) for gradient in gradients]
                weights += 0.3 / (1 + number / 10) * release_signs(vote, sent)
            predicted = np.c_[shown.pool - mean, np.ones(len(shown.pool))] @ weights > 0
            right.append(float((predicted == shown.truth).mean()))
        # a plain majority of K voters costs ⌈K/2⌉ε (docs/proofs.md, "Closed forms of the baselines").
        epsilon = {"none": math.ceil(K / 2) * voter.epsilon, "a fair coin": 0.0}.get(name, problem.target.epsilon)
        rows.append((name, epsilon, float(np.mean(right)), float(np.std(right))))
    heads = (
        *(("noise", ""), ("ε of one sign, one record at all clients", ".2f")),
        *(("accuracy", ".3f"), ("over runs, ±", ".3f")),
    )
    title = f"Two classes of {shown.name}: {K} clients, ε = {voter.epsilon:g} a sign, {rounds} rounds"
    return one_table(
        "sign-sgd",
        "DaRRM, earlier version: sign-SGD of private clients by private majorities",
        "experiment",
        Table(title, heads, tuple(rows)),
        "The setting is ours: that of the earlier version is not at hand, nor are its numbers. A round "
        "releases a sign for each weight; the ε is that of one.",
        'For "none" the ε is that of half the clients: a record moves a sign only if it changes a majority.',
        settings={"data": shown.name, "K": K, "m": m, "rounds": rounds, "seed": seed},
    )


def reproduce_companion(name: str, *, data: str | None = None, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return one item of `darrm.COMPANIONS`, computed again."""
    experiments = {"bagging-figures": bagging_figures, "dpbag-teachers": dpbag_teachers, "sign-sgd": sign_sgd}
    if name in experiments:
        return experiments[name](data=data, quick=quick, seed=seed)
    accounts = (bagging_tables, pate_column, dpbag_labels, hwt_composition, hwt_training)
    makers = {account.__name__.replace("_", "-"): account for account in accounts}
    if name not in makers:
        raise InvalidInput("NAME", name, "one of " + ", ".join((*makers, *experiments)))
    return makers[name]()
