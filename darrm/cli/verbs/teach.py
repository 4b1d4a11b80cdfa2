"""Verb ``darrm teach``: teachers on real data, and their private labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, as_json
from darrm.cli.parameters import TOTAL, AsJson, number, options_named, total_privacy
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.literature.dpbag import AggregatorExperiment, AggregatorResult


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
