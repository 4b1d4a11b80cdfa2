"""More private than any voter: m < 1.

Eleven private voters answer with fresh randomness, each answer 1-DP; the released bit should be more private than any
of them: m = 0.2, 0.5, 0.8. One voter with added noise wastes the other ten; γ uses them all, with more effect if a
record influences only one of them. At the end, a plan for many such releases.
"""

from __future__ import annotations

import numpy as np

from darrm_opt import Privacy, PrivateVote, Problem, plan, solve, verify
from darrm_opt.accuracy import disagreement
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import IndependentVoters

K, EPSILON = 11, 1.0
VOTES = IndependentVoters(0.5, 50)


def main() -> None:
    """Design for several m, and release one bit."""
    print(f"{K} voters, each answer {EPSILON:g}-DP; how often the released bit is the majority that was voted:")
    print("     m   record reaches all   record reaches one   one voter, noise added")
    for m in (0.2, 0.5, 0.8):
        everywhere = solve(Problem.from_allowance(K=K, m=m, epsilon=EPSILON), "rectangular agreement")
        disjoint = solve(Problem.from_allowance(K=K, m=m, epsilon=EPSILON, affected=1), "rectangular agreement")
        alone = one_voter(m)
        accuracies = [1 - disagreement(noise, VOTES) for noise in (everywhere.noise, disjoint.noise, alone)]
        print(f"   {m:3.1f}   {accuracies[0]:18.3f}   {accuracies[1]:18.3f}   {accuracies[2]:22.3f}")

    problem = Problem.from_allowance(K=K, m=0.5, epsilon=EPSILON, affected=1)
    solution = solve(problem)
    bit, margin = PrivateVote(solution).release([1] * 9 + [0] * 2), solution.certificate.margin
    print(f"released at m = 0.5: {bit}, proved with margin {margin:.1e}")

    total, mechanisms = Privacy(0.8, 1e-5), ("majority", "optimal")
    advice = plan(K, Privacy(EPSILON), 4, total, affected=1, fresh=True, mechanisms=mechanisms).advice
    print(f"Four such answers within (0.8, 1e-5): {advice}")


def one_voter(m: float) -> NoiseFunction:
    """Return what is left of one voter's answer, drawn at random, once it is noisy enough; proved like any other γ.

    An ε-DP answer that is replaced by a coin with probability 1 − s has odds up to (1 + s·t)/(1 − s·t), t = tanh(ε/2),
    which is e^(mε) for s = tanh(mε/2)/t.
    """
    share = np.tanh(m * EPSILON / 2) / np.tanh(EPSILON / 2)
    l = np.arange(K + 1)
    noise = NoiseFunction(share * (1 - 1e-9) * np.abs(2 * l - K) / K, K)
    verify(Problem.from_allowance(K=K, m=m, epsilon=EPSILON), noise)
    return noise


if __name__ == "__main__":
    main()
