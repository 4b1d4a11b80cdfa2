"""Options for queries among three or more classes, as `darrm plurality --compare`, `plan` and `compare` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from darrm.cli.output import ProgressDisplay, answer
from darrm.cli.parameters import TOTAL, number, options_named, total_privacy

if TYPE_CHECKING:
    from darrm_opt.planning import Plan
    from darrm_opt.plurality import PluralityObjective, PluralityPrior, PluralityProblem
    from darrm_opt.problem import Privacy

DEFAULT_PRIOR = "dirichlet(1)"
"""Law of votes where none is given."""

VOTE_ROWS = 65_536
"""Rows of a file of votes that are read at a time."""

NEAR_CHANCE = 0.5
"""Share by which a mechanism has to be right more often than a class at random."""

DISJOINT = "Where teachers or models have disjoint parts of the data, a record moves 1."


def several_classes(classes: str | None, price: str) -> bool:
    """Return whether votes are among three or more classes, so that another designer answers.

    Raises:
        InvalidInput: not a number of classes, or a price of wrong classes where there are two.
    """
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import whole_number

    accepted = "a whole number of classes, at least 2"
    is_plurality = classes is not None and whole_number(number(classes), "classes", accepted, least=2) > 2
    if price != "0" and not is_plurality:
        raise InvalidInput("price", price, "nothing with two classes", "There every answer is a class.")
    return is_plurality


def answer_options(
    K: str | None,
    classes: str | None,
    queries: str,
    total_epsilon: str | None,
    total_delta: str | None,
    affected: str | None,
    *,
    prior: str | None,
    votes: str | None,
    price: str,
    unused: dict[str, Any],
    json: bool,
) -> None:
    """Design every mechanism for queries among three or more classes, and print the options.

    Args:
        K: voters, as typed, like what follows.
        classes: C.
        queries: Q.
        total_epsilon: ε of all answers together.
        total_delta: δ of all answers together.
        affected: votes that one record can move; has to be said.
        prior: how votes fall; None: `DEFAULT_PRIOR`.
        votes: a file of past votes instead.
        price: cost of a wrong label.
        unused: options of two classes, by name, that were typed.
        json: whether the answer is JSON.

    Raises:
        InvalidInput: a number is out of its range, or an option that two classes alone have.
    """
    from darrm_opt.errors import InvalidInput
    from darrm_opt.planning import plan
    from darrm_opt.plurality import PluralityObjective

    for name, value in unused.items():
        raise InvalidInput(name, value, "nothing with three or more classes", "There the voters are not private.")
    if affected is None:
        raise InvalidInput("affected", None, "how many votes one record can move", DISJOINT)
    law = vote_law(prior, votes, K, classes)
    total = total_privacy(total_epsilon, total_delta)
    with ProgressDisplay("designing releases"), options_named(**TOTAL, target_epsilon="total_epsilon"):
        found = plan(
            number(K),
            None,
            number(queries),
            total,
            number(affected),
            PluralityObjective(law, price=number(price)),
            classes=number(classes),
        )
    show_options(found, None, json=json)


def vote_law(prior: str | None, path: str | None, K: str | None, classes: str | None) -> PluralityPrior:
    """Return the prior of a text, or of a file of votes that need no protection; `DEFAULT_PRIOR` for neither."""
    import numpy as np

    from darrm.cli.vote_files import blocks
    from darrm_opt.errors import InvalidInput
    from darrm_opt.plurality import PastVotes, parse_prior
    from darrm_opt.problem import whole_number

    if path is None:
        with options_named(alpha="prior", beta="prior", chances="prior", counts="prior"):
            return parse_prior(prior or DEFAULT_PRIOR)
    if prior is not None:
        raise InvalidInput("prior", prior, "nothing beside --votes", "The votes are the prior.")

    voters = whole_number(number(K), "K", "a whole number of voters, at least 1")
    class_count = whole_number(number(classes), "classes", "a whole number of classes, at least 2", least=2)
    tables = list(blocks(path, voters, VOTE_ROWS, class_count))
    if not tables:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    return PastVotes.of_votes(np.concatenate(tables), class_count)


def show_options(found: Plan, output: str | None, *, json: bool) -> None:
    """Print every option, and write the best one for `darrm label`."""
    from darrm.cli.files import write_json
    from darrm.cli.report import as_json, columns, count_text, guarantee, text_above
    from darrm_opt.answers.plurality import options_to_dict
    from darrm_opt.mechanisms.base import planned_fields

    question, law, best = found.question, found.question.vote_law, found.options[0]
    options = [option for option in found.options if option.fits]
    if output is not None and best.mechanism is not None:
        write_json(output, best.mechanism.record() | planned_fields(question.queries, question.total))
    if json:
        answer(as_json(options_to_dict(found)))
        return
    rows = [
        [
            option.name.replace("_", " "),
            *(f"{share:.4f}" for share in (option.right, option.wrong, option.abstained, option.utility)),
            "" if option.spent is None else text_above(option.spent.epsilon, ".4f"),
            ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in option.parameters.items()),
        ]
        for option in options
    ]
    heads = ["mechanism", "right", "wrong", "abstained", "utility", "ε", "parameters"]
    prior = str(law.objective.prior)
    votes = f"the prior {prior}" if law.samples is None else f"{law.samples:,} votes drawn from the prior {prior}"
    lines = [
        (
            f"{question.K} voters, {question.classes} classes, {count_text(question.queries, 'query', 'queries')}, "
            f"{guarantee(question.total)} in all."
        ),
        columns(heads, rows),
        (f"utility    right − {question.price:g}·wrong, a query; shares are expectations under {votes}, ε is proved"),
    ]
    lines += [
        "gap        no table of the same (ε, δ) each has a utility above "
        f"{option.utility + option.gap:.9f} (gap {option.gap:.1e})"
        for option in options
        if option.gap is not None and option.utility is not None
    ]
    if best.right is not None and best.right < (1 + NEAR_CHANCE) / question.classes:
        lines.append(
            f"useless    the best is right about as often as a class at random (1/{question.classes}): "
            "ask fewer queries, allow a larger total, or give the --prior of your votes"
        )
    if question.total.delta == 0:
        lines.append("left out   Gaussian noise (gnmax), which no total δ of 0 allows: --total-delta 1e-9 includes it")
    if output is not None:
        lines.append(
            f"written    {best.name.replace('_', ' ')}: "
            f"release at most {question.queries} with it (darrm label --queries)"
        )
    answer("\n".join(lines))


def show_estimate(
    problem: PluralityProblem, total: Privacy, queries: int, objective: PluralityObjective, *, json: bool
) -> None:
    """Print what an optimum that has no table would take, and the utilities of the mechanisms that need none."""
    from darrm.cli.report import as_json
    from darrm_opt.answers.plurality import options_to_dict, table_seconds
    from darrm_opt.planning import plan
    from darrm_opt.tables.problem import MAX_PARTITIONS, THREE_PARTS_TOO_MANY, partition_count

    with ProgressDisplay("estimating"):
        found = plan(problem.K, None, queries, total, problem.affected, objective, classes=problem.classes)
    partitions = partition_count(problem.K, problem.classes) if problem.K < THREE_PARTS_TOO_MANY else None
    seconds = None if partitions is None else table_seconds(partitions, problem)
    if json:
        blank = dict.fromkeys(("utility", "upper_bound", "gap"))
        utilities = {option.name: option.utility for option in found.options if option.fits}
        rates = {
            option.name: option.parameters["rate"] if "rate" in option.parameters else 1 / value
            for option in found.options
            for value in option.parameters.values()
            if option.mechanism is not None and option.mechanism.parameter in option.parameters
        }
        estimate = {"partitions": partitions, "seconds": seconds}
        answer(as_json(options_to_dict(found) | blank | {"estimate": estimate, "utilities": utilities, "rates": rates}))
        return
    show_options(found, None, json=False)
    size_text = (
        "far more" if partitions is None or seconds is None else f"{partitions:,}, some {seconds / 86400:,.0f} days"
    )
    answer(f"optimal    not made: tables have at most {MAX_PARTITIONS:,} partitions, and these votes {size_text}")
