"""Past votes as a prior, and the options that a refusal of the planner names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from darrm.cli.parameters import BAGS, TOTAL, PastOptions, options_named

if TYPE_CHECKING:
    from darrm_opt.questions.plan import ReleasePlan
    from darrm_opt.tables.priors import PastVotes

VOTE_ROWS = 65_536
"""Rows of a file of votes that are read at a time."""

DISJOINT = "Where teachers or models have disjoint parts of the data, a record moves 1."

PRIOR = dict.fromkeys(("alpha", "beta", "chances", "counts"), "prior")
"""Names for `options_named` where a prior is named by --prior."""


@contextmanager
def question_named(*, sampled: bool = False, total: bool = True) -> Iterator[None]:
    """Report what a planner refuses under the name of the option that gave it.

    ``sampled``: there are --records; ``total``: ε is that of all releases, and no longer a voter's.
    """
    prior = dict.fromkeys((*PRIOR, "lower", "measure", "objective"), "prior")
    drawn = BAGS | ({"sampling": "sampling"} if sampled else {})
    with options_named(**drawn, **prior, **(TOTAL | {"target_epsilon": "total_epsilon"} if total else {})):
        yield


def vote_prior(past: PastOptions, asked: ReleasePlan) -> Any:
    """Return how votes fall, by the file that --votes names, if any: as the question has it, or an objective."""
    from darrm_opt.errors import InvalidInput, Rule

    if past.votes is None:
        if past.missing is not None:
            raise InvalidInput("missing", past.missing, Rule("needs --votes"))
        return asked.prior
    if asked.groups is not None:
        raise InvalidInput("votes", past.votes, Rule("cannot be combined with --group"), "Give a --prior.")
    if asked.prior is not None:
        raise InvalidInput("prior", asked.prior, Rule("cannot be combined with --votes"), "The votes are the prior.")
    if asked.classes > 2 or asked.price > 0:
        return past_votes(past, asked.voters, asked.classes)
    from darrm.cli.vote_files import blocks, missing_votes
    from darrm_opt.design.objective import histogram
    from darrm_opt.priors import vote_histogram

    filled = missing_votes(past.missing)
    return histogram(vote_histogram(blocks(past.votes, asked.voters, VOTE_ROWS, None, filled)).counts)


def past_votes(past: PastOptions, K: int, classes: int) -> PastVotes:
    """Return the votes of the file that --votes names, which need no protection."""
    import numpy as np

    from darrm.cli.vote_files import blocks, missing_votes
    from darrm_opt.errors import InvalidInput
    from darrm_opt.tables.priors import PastVotes

    path = past.votes
    filled = missing_votes(past.missing)
    tables = [] if path is None else list(blocks(path, K, VOTE_ROWS, classes, filled))
    if not tables:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    return PastVotes.of_votes(np.concatenate(tables), classes)
