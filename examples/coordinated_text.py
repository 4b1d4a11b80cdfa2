"""Private text from an ensemble of language models that sample words with shared randomness.

Each of 100 voters derives a distribution of the next word from its own records. Voters that sample independently pick
one of 20 plausible words, so votes scatter and the noise decides; with shared randomness (`coordinated_votes`) voters
with similar distributions pick the same word. The model is a stub: replace `next_word_law`.

    python examples/coordinated_text.py        # no network, no model
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from darrm_opt import Privacy
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.release import PrivateVote, ReleaseCounter, coordinated_votes

VOTERS, WORDS, PLAUSIBLE, LABELS = 100, 1000, 20, 40
TOTAL = Privacy(3.0, 1e-5)  # of all labels together, where a record is one voter's


def next_word_law(voter: int, written: list[int]) -> NDArray[np.float64]:
    """Return the stub's law of the next word: the plausible ones, each voter with leanings of its own."""
    leaning = np.random.default_rng([voter, *written]).normal(scale=0.3, size=PLAUSIBLE)
    law = np.full(WORDS, 1e-6)
    first = 7 * len(written) % WORDS
    law[(first + np.arange(PLAUSIBLE)) % WORDS] = np.exp(leaning)
    law /= law.sum()
    return law


def write(*, shared: bool) -> float:
    """Return the share of plausible words in a private text of `LABELS` words."""
    mechanism = mechanism_class("gnmax").calibrated(VOTERS, WORDS, TOTAL, LABELS)
    vote, written, plausible = PrivateVote(mechanism, ReleaseCounter(LABELS)), list[int](), 0
    own = np.random.default_rng(1)
    for place in range(LABELS):
        laws = np.array([next_word_law(voter, written) for voter in range(VOTERS)])
        # Fresh bits of the operating system for each word; voters in other processes share a PublicRandomness.
        votes = coordinated_votes(laws) if shared else [own.choice(WORDS, p=law) for law in laws]
        word = vote.release(votes)
        assert word is not None  # noqa: S101 - for the type checker: this mechanism never abstains
        plausible += (word - 7 * place) % WORDS < PLAUSIBLE
        written.append(word)
    return plausible / LABELS


def main() -> None:
    """Write both texts within the same total."""
    print(f"{LABELS} words of {VOTERS} voters within ({TOTAL.epsilon:g}, {TOTAL.delta:g})")
    print(f"plausible, drawn apart            {write(shared=False):.2f}")
    print(f"plausible, shared randomness      {write(shared=True):.2f}")


if __name__ == "__main__":
    main()
