"""Private in-context learning: an ensemble of prompts, each query with a fresh and secret sample of the examples.

For every query a coin decides for each private example whether it is sampled, and another assigns it to one of K
prompts. ``predict(texts, query)`` answers each prompt: here a stub that looks for common words; below it, the loop
that would call a language model. Release only the labels: never the sample, the prompts or the answers.

    python examples/prompt_ensemble.py        # no network, no model
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.planning import design_within_total
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseLog, Sample

Text = tuple[str, int]  # a private example: its text and its class
Predict = Callable[[Sequence[Text], str], int]  # from the examples of one prompt, and the query, to a class

TOPICS = ["goal match team coach", "market stock bank price", "star planet orbit light", "film actor scene song"]
K, RECORDS, DRAWN, QUERIES, TOTAL = 10, 5000, 80, 200, Privacy(3.0, 1e-5)


def stub_predict(texts: Sequence[Text], query: str) -> int:
    """Return the class whose examples share most words with the query; 0 for a prompt without examples."""
    words, score = set(query.split()), Counter[int]()
    for text, label in texts:
        score[label] += len(words & set(text.split()))
    return score.most_common(1)[0][0] if score else 0


def model_predict(complete: Callable[[str], str], names: Sequence[str]) -> Predict:
    """Return the same by a language model: ``complete`` returns what it writes behind a prompt."""

    def predict(texts: Sequence[Text], query: str) -> int:
        shots = "".join(f"Text: {text}\nClass: {names[label]}\n\n" for text, label in texts)
        answer = complete(f"{shots}Text: {query}\nClass:").strip().lower()
        return next((place for place, name in enumerate(names) if answer.startswith(name.lower())), 0)

    return predict


def label(queries: Sequence[str], texts: Sequence[Text], classes: int, predict: Predict, log_path: Path) -> list[int]:
    """Return a private class for each query, all of them together within `TOTAL`."""
    sampling = Sampling(len(texts), DRAWN)
    best = design_within_total(K, classes, TOTAL, len(queries), prior="beta(8,2)", sampling=sampling)
    assert best.mechanism is not None  # noqa: S101 - for the type checker: the voters are not private
    log = ReleaseLog.open_or_create(log_path, best.mechanism, budget=TOTAL, queries=len(queries), sampling=sampling)
    vote, sampler = PrivateVote(best.mechanism, log), EnsembleSampler(sampling, K)
    labels = []
    for number, query in enumerate(queries):

        def ask(sample: Sample, query: str = query) -> list[int]:
            return [predict([texts[record] for record in share], query) for share in sample.shares]

        labels.append(vote.release_sampled(sampler, ask, f"query {number}") or 0)
    spent = log.cost(log.spent, TOTAL.delta)
    print(f"{best.name}: {log.spent} labels are ({spent.epsilon:.3f}, {spent.delta:g})-DP")
    return labels


def main() -> None:
    """Label made-up texts of four topics by the stub."""
    rng = np.random.default_rng(1)

    def write(topic: int) -> str:
        words = [
            rng.choice(TOPICS[topic].split() if rng.random() < 0.5 else ["the", "of", "new", "one"]) for _ in range(8)
        ]
        return " ".join(words)

    topics = rng.integers(len(TOPICS), size=RECORDS + QUERIES).tolist()
    written = [(write(topic), topic) for topic in topics]
    texts, asked = written[:RECORDS], written[RECORDS:]
    with tempfile.TemporaryDirectory() as folder:
        labels = label([text for text, _ in asked], texts, len(TOPICS), stub_predict, Path(folder) / "log")
    right = np.mean([found == topic for found, (_, topic) in zip(labels, asked, strict=True)])
    print(f"right {right:.3f}")


if __name__ == "__main__":
    main()
