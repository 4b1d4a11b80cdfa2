"""A file of votes as one fixed batch: what its labels reveal, made private; and the log of a total it must earn."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from darrm.cli.parameters import number, options_named, total_privacy
from darrm_opt.errors import InvalidInput, Rule

if TYPE_CHECKING:
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.questions.cost import CostAnswer
    from darrm_opt.release import ReleaseLog
    from darrm_opt.tables.votes import VoteTable

VOTE_ROWS = 4096  # rows of a file of votes that are read at a time


def read_batch(path: str, K: str | None, classes: str, queries: str, missing: str | None = None) -> VoteTable:
    """Return the votes for each class of each query of a file, whose rows are the queries; the rest is as typed."""
    import numpy as np

    from darrm.cli.vote_files import VoteFile, missing_votes
    from darrm_opt.arguments import whole_number
    from darrm_opt.tables.votes import count_votes

    voters = whole_number(number(K), "K", "a whole number of voters, at least 1")
    labels = whole_number(number(classes), "classes", "at least 2", least=2)
    file = VoteFile(path, voters, labels, missing_votes(missing), "votes")
    counts = [count_votes(table, voters, labels) for table in file.blocks(VOTE_ROWS)]
    if not counts:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    batch = np.concatenate(counts)
    if queries not in ("1", str(len(batch))):
        raise InvalidInput("queries", queries, f"{len(batch)}, the rows of {path}", "Each row is a query.")
    return batch


def batch_cost(found: CostAnswer, leader_share: str, counts: VoteTable, *, unpublished: bool) -> dict[str, Any]:
    """Return what labels of these votes reveal, in numbers that may be published, and what they can earn."""
    from darrm_opt.accounting.propose_test_release import PASS_CHANCE, ptr_epsilon
    from darrm_opt.accounting.published_loss import publish_loss, unpublished_epsilon

    delta, share = found.delta, number(leader_share)
    batch = found.mechanism.batch(len(counts))
    published = publish_loss(batch, counts, delta, leader_share=share)
    labels_cost: dict[str, Any] = {"published": asdict(published), "stated": None}
    with suppress(InvalidInput):  # it does not pay
        test = ptr_epsilon(batch, delta, leader_share=share)
        labels_cost["stated"] = {"epsilon": test.total.epsilon, "delta": test.total.delta, "chance": PASS_CHANCE}
        labels_cost["stated"]["leader_share"] = share
    if unpublished:
        labels_cost["not_for_publication"] = asdict(unpublished_epsilon(batch, counts, delta))
    return labels_cost


def batch_text(found: dict[str, Any]) -> str:
    """Return what `batch_cost` found, in sentences."""
    from darrm_opt.design.report import text_above

    bound, spent = found["published"], found["published"]["spent"]
    lines = [
        (
            # That it is no guarantee stands beside the number: it will be copied from here.
            f"For these votes: ε at most {text_above(bound['epsilon'], '.4g')} at δ = {bound['delta']:g}, with"
            f" {100 * bound['confidence']:.4g} % confidence. That describes these votes and is no guarantee; stating it"
            f" cost ({text_above(spent['epsilon'], '.3g')}, {spent['delta']:g}) more, and costs it again each time."
        )
    ]
    if (stated := found["stated"]) is None:
        lines.append("A test that releases labels for an ε stated beforehand does not pay here.")
    else:
        lines.append(
            f"A test within ({text_above(stated['epsilon'], '.4g')}, {stated['delta']:g}), stated beforehand, passes"
            f" with probability {stated['chance']:g} if {100 * stated['leader_share']:.4g} % of the voters agree on"
            " average."
        )
    # Only where it was asked for by --unpublished.
    if (raw := found.get("not_for_publication")) is not None:
        number = text_above(raw["epsilon"], ".4g")
        lines.append(f"NOT FOR PUBLICATION, as it depends on the votes: ε = {number} at δ = {raw['delta']:g}.")
    return "\n".join(lines)


def open_ptr_log(path: str, mechanism: VoteMechanism, stated: str, leader_share: str, queries: int) -> ReleaseLog:
    """Return the release log of a batch that must earn a stated total; where it is new, the test is chosen here."""
    from darrm_opt.accounting.propose_test_release import check_that_it_pays, propose
    from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
    from darrm_opt.release import ReleaseLog

    epsilon, comma, delta = stated.partition(",")
    if not comma:
        raise InvalidInput("ptr", stated, "ε and δ with a comma between, as in 1.5,1e-5")
    try:
        mechanism.batch(1)
    except InvalidInput as err:
        is_gamma = isinstance(mechanism, NoiseFunctionMechanism)
        held = "a γ" if is_gamma else f"the mechanism {mechanism.name}"
        needed = Rule("needs a vote with Gaussian noise, without a cap")
        raise InvalidInput("ptr", stated, needed, f"The solution holds {held}.") from err
    ours = dict.fromkeys(("total_epsilon", "total_delta", "epsilon", "delta", "budget"), "ptr")
    with options_named(**ours, queries="votes", mechanism="solution"):
        total = total_privacy(epsilon.strip(), delta.strip())
        if Path(path).exists():
            log = ReleaseLog.open_or_create(path, mechanism, budget=total, queries=queries)
            if log.proposal is None:
                raise InvalidInput("release_log", path, "the log of a propose-test-release batch", "Name another file.")
            return log
        share = number(leader_share)
        proposal = propose(mechanism.batch(queries), total, leader_share=share)
        check_that_it_pays(proposal, share)
        return ReleaseLog.open_or_create(path, mechanism, proposal=proposal)
