"""Ranking of mechanisms: the prior that its options name, and its table under a law of votes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from darrm.cli.output import ProgressDisplay, answer, as_json
from darrm.cli.parameters import BAGS, QuestionOptions, WorthOptions, bags_drawn, number, options_named

if TYPE_CHECKING:
    from darrm_opt.planning import Option, Plan
    from darrm_opt.planning.question import Question
    from darrm_opt.problem import VoterGroup
    from darrm_opt.tables.priors import PastVotes, Ties

VOTE_ROWS = 65_536
"""Rows of a file of votes that are read at a time."""

DISJOINT = "Where teachers or models have disjoint parts of the data, a record moves 1."

PRIOR = dict.fromkeys(("alpha", "beta", "chances", "counts"), "prior")
"""Names for `options_named` where a prior is named by --prior."""


@contextmanager
def question_named(*, sampled: bool = False) -> Iterator[None]:
    """Report what the ranking refuses under the name of the option that gave it; ``sampled``: there are --records."""
    with options_named(
        **(BAGS | {"sampling": "sampling"} if sampled else BAGS),
        **PRIOR,
        lower="prior",
        measure="prior",
        objective="prior",
        target_epsilon="total_epsilon",
        epsilon="total_epsilon",
    ):
        yield


def class_count(options: QuestionOptions, *, sampled: bool = False) -> int:
    """Return the number of classes; ``sampled``: voters share a sample of the records, where a record reaches one."""
    from darrm_opt.arguments import whole_number
    from darrm_opt.errors import InvalidInput

    accepted = "a whole number of classes, at least 2"
    classes = whole_number(number(options.classes), "classes", accepted, least=2)
    if classes > 2 and options.affected is None and not sampled:
        raise InvalidInput("affected", None, "how many votes one record can move", DISJOINT)
    return classes


def ranked_plan(options: QuestionOptions, doing: str, shown: Callable[[Option], str], **further: Any) -> Plan:
    """Return the ranking of a question as typed."""
    from darrm_opt.planning import plan

    sampled = further.get("sampling") is not None
    classes = class_count(options, sampled=sampled)
    total, bags, voter = options.total, bags_drawn(options.bags), options.voter
    with ProgressDisplay(doing) as display, question_named(sampled=sampled):
        return plan(
            number(options.K),
            voter,
            number(options.queries),
            total,
            number(options.affected),
            vote_prior(options, classes),
            classes=classes,
            ties=cast("Ties", options.ties),  # checked there
            price=number(options.price),
            fresh=options.fresh,
            progress=lambda option: display.update(shown(option)),
            bags=bags,
            **further,
        )


def vote_prior(options: QuestionOptions, classes: int) -> Any:
    """Return how votes fall: a text, an objective or a prior; None where nothing is said."""
    from darrm_opt.errors import InvalidInput, Rule

    if options.votes is None:
        if options.missing is not None:
            raise InvalidInput("missing", options.missing, Rule("needs --votes"))
        return options.prior
    if options.prior is not None:
        raise InvalidInput("prior", options.prior, Rule("cannot be combined with --votes"), "The votes are the prior.")
    if classes > 2 or options.price != "0":
        return past_votes(options, options.K, classes)
    from darrm.cli.vote_files import blocks, missing_votes
    from darrm_opt.design.objective import histogram
    from darrm_opt.priors import vote_histogram

    filled = missing_votes(options.missing)
    return histogram(vote_histogram(blocks(options.votes, _voters(options.K), VOTE_ROWS, None, filled)).counts)


def past_votes(options: WorthOptions, K: str | None, classes: int) -> PastVotes:
    """Return the votes of the file that --votes names, which need no protection."""
    import numpy as np

    from darrm.cli.vote_files import blocks, missing_votes
    from darrm_opt.errors import InvalidInput
    from darrm_opt.tables.priors import PastVotes

    path = options.votes
    filled = missing_votes(options.missing)
    tables = [] if path is None else list(blocks(path, _voters(K), VOTE_ROWS, classes, filled))
    if not tables:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    return PastVotes.of_votes(np.concatenate(tables), classes)


def _voters(K: str | None) -> int:
    from darrm_opt.arguments import whole_number

    return whole_number(number(K), "K", "a whole number of voters, at least 1")


def default_prior_text(question: Question) -> str:
    """Return how to judge by votes of one's own, where the prior is the default."""
    from darrm_opt.planning.question import DEFAULT_PRIORS
    from darrm_opt.tables.priors import parse_prior

    # As it is printed: "dirichlet(1)" is dirichlet(1.0).
    defaults = {text if text == "rectangular" else str(parse_prior(text)) for text in DEFAULT_PRIORS}
    if question.prior_text not in defaults:
        return ""
    return " (the default; --votes FILE judges by past votes of your own, which often agree more)"


def show_options(found: Plan, output: str | None, *, json: bool, groups: Sequence[VoterGroup] = ()) -> None:
    """Print every option under a law of votes, and say what was written."""
    from darrm_opt.design.report import columns, count_text, guarantee, text_above
    from darrm_opt.questions.plan import plan_record
    from darrm_opt.tables.priors import PastVotes

    if json:
        answer(as_json(plan_record(found, groups)))
        return
    question, law, best = found.question, found.question.vote_law, found.options[0]
    options = [option for option in found.options if option.fits]
    # Shares are rounded to nearest, being expectations; ε, which is proved, is rounded up.
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
    prior = f"the prior {question.prior_text}"
    if isinstance(law.objective.prior, PastVotes):
        prior = "the law of the votes given"
    votes = prior if law.samples is None else f"{law.samples:,} votes drawn from {prior}"
    votes += default_prior_text(question)
    voters = f"Voters {'; '.join(map(str, groups))}" if groups else f"{question.K} voters"
    lines = [
        (
            f"{voters}, {question.classes} classes, {count_text(question.queries, 'query', 'queries')}, "
            f"{guarantee(question.total)} in all. Shares are expectations under {votes}; ε is proved."
        ),
        columns(heads, rows),
        f"utility    per query: right{f' − {question.price:g} × wrong' if question.price else ''}",
        *([f"advice     {found.advice}"] if groups else []),
    ]
    lines += [
        "gap        no table of the same (ε, δ) each has a utility above "
        f"{option.utility + option.gap:.9f} (gap {option.gap:.1e})"
        for option in options
        if option.gap is not None and option.utility is not None
    ]
    # A table of options looks like an answer even where none of them says anything.
    if best.accuracy is not None and best.accuracy < question.least_accuracy:
        lines.append(
            f"useless    the best has accuracy {best.accuracy:.4f}, below --least-accuracy {question.least_accuracy:g} "
            f"(a class at random: {1 / question.classes:.4g}): ask fewer queries, allow a larger total, or give the "
            "--prior of your votes"
        )
    if question.sampling is not None:
        lines.append(f"sampled    {question.sampling.words} ({question.sampling.neighbours})")
    # The next command in full: it has to be for the same votes, log and freshness as this plan.
    if output is not None and best.mechanism is not None:
        ask = "" if question.sampling is None else " --ask 'python my_model.py'"
        fresh = " --fresh" if groups and question.fresh else ""
        way = f"darrm label --solution {shlex.quote(output)} --release-log releases.log --output labels.csv{fresh}{ask}"
        votes_file = "" if ask else " VOTES"
        lines.append(f"written    {best.name.replace('_', ' ')}: release at most {question.queries} with it:")
        lines.append(f"           {way}{votes_file}")
    answer("\n".join(lines))
