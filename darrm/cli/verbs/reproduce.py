"""Verbs that reproduce papers: ``darrm reproduce``, figures and tables; ``darrm teach``, teachers and their labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, as_json, say
from darrm.cli.parameters import TOTAL, AsJson, number, options_named, total_privacy
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt.literature.darrm.printed import Reproduction
    from darrm_opt.literature.dpbag import AggregatorExperiment, AggregatorResult


def reproduce(
    name: Annotated[
        str | None,
        Argument(
            "NAME",
            "A figure or table of the paper, such as figure-2 or table-1, or of a companion, such as dpbag-labels.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        CommandOption(
            "--output", "Write a .json of each, and its picture as .png, into this folder.", "DIR", otherwise="none"
        ),
    ] = None,
    data: Annotated[
        str | None,
        CommandOption(
            "--data",
            "Folder with the IDX files of MNIST or Fashion-MNIST, for the experiments beside scikit-learn's digits; or "
            "with adult.data, for bagging-figures and sign-sgd.",
            "DIR",
            otherwise="digits alone",
        ),
    ] = None,
    seed: Annotated[
        str, CommandOption("--seed", "Of all that is drawn; the same seed, the same numbers.", "NUMBER")
    ] = "0",
    *,
    every: Annotated[bool, CommandOption("--all", "Reproduce all of them.")] = False,
    listed: Annotated[bool, CommandOption("--list", "Say what there is, and in what sense it is reproduced.")] = False,
    quick: Annotated[bool, CommandOption("--quick", "A small part of it, to see that it works.")] = False,
    json: AsJson = False,
) -> None:
    """Compute figures and tables of the DaRRM paper and its companions again, the paper's numbers beside ours.

    Where a number of the paper is not at hand the output says "not printed here". Experiments run on public data with
    seeded noise: they measure accuracy, and release nothing.
    """
    from darrm_opt.design.report import columns
    from darrm_opt.errors import InvalidInput
    from darrm_opt.literature.darrm import REPRODUCTIONS, canonical
    from darrm_opt.literature.darrm import reproduce as reproduced

    if listed:
        answer(as_json(REPRODUCTIONS) if json else columns_left(list(REPRODUCTIONS.items())))
        return
    if every == (name is not None):
        raise InvalidInput("NAME", name, "a figure or a table, or --all, or --list", "One of them.")
    names = tuple(REPRODUCTIONS) if every else (canonical(str(name)),)
    # Before the first of them: all take hours.
    folder = None if output is None else _folder(output)
    contents = []
    for i, canonical_name in enumerate(names):
        if every:
            say(f"{canonical_name} ({i + 1} of {len(names)})")
        with ProgressDisplay(f"computing {canonical_name}"):
            reproduction = reproduced(canonical_name, data=data, quick=quick, seed=number(seed))
        record = reproduction.content()
        if folder is not None:
            record["files"] = _write_files(folder, reproduction)
        contents.append(record)
        # Each as soon as it is there; JSON is one value, at the end.
        if not json:
            visible_tables = [table for table in reproduction.tables if table.shown]
            tables = [
                f"{table.title}\n{columns([head for head, _ in table.heads], table.written())}"
                for table in visible_tables
            ]
            files = [f"Written: {', '.join(record['files'])}"] if folder is not None else []
            answer("\n\n".join([reproduction.title, *tables, *reproduction.notes, *files]) + ("\n" if every else ""))
    if json:
        answer(as_json(contents if every else contents[0]))


def columns_left(rows: list[tuple[str, str]]) -> str:
    """Return names and what they are, one a line."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {description}" for name, description in rows)


def _folder(output: str) -> Path:
    """Return the folder, made if it is not there."""
    from darrm.cli.files import check_writable
    from darrm_opt.errors import InvalidInput
    from darrm_opt.figures import check_drawable

    check_drawable("png")
    if output == "-":
        check_writable(output, "output")
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise InvalidInput("output", output, "a folder that can be written", f"{err.strerror}.") from err
    check_writable(str(folder / "x.json"), "output")
    return folder


def _write_files(folder: Path, reproduction: Reproduction) -> list[str]:
    from darrm.cli.files import write_json, write_whole
    from darrm_opt.figures import render

    files = [folder / f"{reproduction.name}.json"]
    write_json(files[0], reproduction.content())
    if reproduction.draw is not None:
        files.append(folder / f"{reproduction.name}.png")
        write_whole(files[1], render(reproduction.draw(), "png"))
    return [str(file) for file in files]


def teach(
    data: Annotated[
        str,
        CommandOption(
            "--data", "Data that scikit-learn carries with it: fives and eights, or tumours.", "digits|breast-cancer"
        ),
    ] = "digits",
    labels: Annotated[str, CommandOption("--labels", "Points held out and labelled.", "COUNT")] = "50",
    total_epsilon: Annotated[str, CommandOption("--total-epsilon", "ε of all labels together.", "NATS")] = "2",
    total_delta: Annotated[
        str, CommandOption("--total-delta", "δ of all labels together, in (0, 1).", "PROBABILITY")
    ] = "1e-4",
    chunks: Annotated[
        str, CommandOption("--chunks", "Teachers, each trained on its own part of the data.", "COUNT")
    ] = "25",
    partitions: Annotated[
        str,
        CommandOption("--partitions", "How often DPBag divides the data: as many votes move with one record.", "COUNT"),
    ] = "5",
    model: Annotated[str, CommandOption("--model", "What a teacher is.", "naive-bayes|logistic|tree")] = "naive-bayes",
    seed: Annotated[
        str, CommandOption("--seed", "Decides which points are held out; noise is never seeded.", "NUMBER")
    ] = "0",
    *,
    json: AsJson = False,
) -> None:
    """Train teachers on real data and label points privately: SAA, DPBag, GNMax and γ_opt, one budget.

    The data are public, so everything is shown, what would have to stay with the owner of private data included: each
    record's own loss, and where the source's stopping rule would have ended.
    """
    from darrm_opt.literature.dpbag import load_dataset, run_experiment

    total = total_privacy(total_epsilon, total_delta, allow_zero_delta=False)
    split = load_dataset(data, number(labels), seed=number(seed))
    with (
        options_named(n_chunks="chunks", n_partitions="partitions", **TOTAL),
        ProgressDisplay("training teachers and labelling"),
    ):
        result = run_experiment(split, total, model=model, n_chunks=number(chunks), n_partitions=number(partitions))
    content = _experiment_to_dict(result)
    answer(as_json(content) if json else _text(content))


def _text(content: dict[str, Any]) -> str:
    from darrm_opt.design.report import columns, text_above

    rows = [
        [
            aggregator["name"],
            next(f"{name} = {aggregator[name]:.4g}" for name in ("lambda", "sigma", "utility") if name in aggregator),
            text_above(aggregator["epsilon"], ".6f"),
            f"{aggregator['accuracy']:.3f}",
            f"{aggregator['expected_accuracy']:.3f}",
        ]
        for aggregator in content["aggregators"]
    ]
    # Of DPBag alone; the data are public here, so what is for the owner may be shown.
    owner = next(
        aggregator["for_the_owner_only"] for aggregator in content["aggregators"] if "for_the_owner_only" in aggregator
    )
    records = owner["epsilon_of_records"]
    total, label_count = content["total"], owner["labels_by_the_stopping_rule_of_the_source"]
    head = (
        f"{content['data']}: {content['teachers']} teachers on {content['records']} "
        f"records label {content['labels']} points,"
    )
    lines = [
        f"{head} ({total['epsilon']:g}, {total['delta']:g})-DP for each aggregator by itself.",
        f"Without noise their majority is right on {content['accuracy_without_noise']:.3f}.",
        "",
        columns(["aggregator", "noise", "ε spent", "right", "expected"], rows),
        "",
        f"stopping   {content['stopping']}",
        (
            f"records    by DPBag's own account one record lost between {records['least']:.4g} and "
            f"{records['largest']:.4g} nats"
        ),
        f"           (median {records['median']:.4g}), and its stopping rule would have released {label_count} labels.",
        f"           {owner['warning']}",
    ]
    return "\n".join(lines)


def _experiment_to_dict(experiment: AggregatorExperiment) -> dict[str, Any]:
    """Return an experiment as plain data: the data, the budget, and a row for each aggregator."""
    return {
        "data": experiment.data.name,
        "records": len(experiment.data.y),
        "labels": len(experiment.data.truth),
        "teachers": experiment.n_chunks,
        "partitions": experiment.n_partitions,
        "total": {"epsilon": experiment.total.epsilon, "delta": experiment.total.delta},
        "stopping": "the number of labels is fixed before the data are looked at, and paid for in advance",
        "accuracy_without_noise": experiment.teachers_accuracy,
        "aggregators": [_aggregator_to_dict(result) for result in experiment.results],
    }


def _aggregator_to_dict(result: AggregatorResult) -> dict[str, Any]:
    import numpy as np

    guarantee = result.guarantee
    row: dict[str, Any] = {
        "name": result.name,
        result.noise[0]: result.noise[1],
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "basis": guarantee.basis,
        "accuracy": result.accuracy,
        "expected_accuracy": result.expected_accuracy,
        "labels": result.labels.tolist(),
    }
    # Computed from the votes, so no guarantee: under a name that says whom it is for.
    if result.loss is not None and result.records is not None:
        row["for_the_owner_only"] = {
            "warning": result.loss.warning,
            "epsilon_of_this_dataset": result.loss.epsilon,
            "epsilon_of_records": dict(
                zip(("least", "median", "largest"), np.quantile(result.records, (0, 0.5, 1)).tolist(), strict=True)
            ),
            "labels_by_the_stopping_rule_of_the_source": result.leaking_labels,
        }
    return row
