"""Every row of tests/data/composition_expected.csv, by one function per quantity.

The rows were computed in high precision by independent programs when the specification of these systems was written
(columns: quantity, inputs, expected, tolerance, source).
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from support.cases import for_each
from support.paths import DATA

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import privacy_region
from darrm_opt.accounting.composition.closed_forms import (
    kov_branches,
    kov_composition,
    kov_composition_at_delta,
    kov_delta,
)
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta,
    optimal_composition,
    optimal_delta,
    optimal_delta_of_sequence,
    response_losses,
)
from darrm_opt.accounting.gaussian import gaussian_delta
from darrm_opt.accounting.pld import common_discretisation, pld_of
from darrm_opt.accounting.sampling import amplify_by_subsampling
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.generalisation import (
    dwork_rothblum_kl,
    epsilon_floor,
    failure_probability,
    kl_divergence,
    least_samples,
    multi_database,
    nissim_stemmer_failure,
    nissim_stemmer_on_average,
    on_average,
    on_average_excess,
    rederived_threshold,
    threshold,
    total_variation,
)
from darrm_papers.he_wang_tao.printed import (
    composition_i_printed,
    composition_ii_printed,
    federated_step_printed,
    loss_tail_printed,
    sgld_last_term_printed,
    sgld_printed,
    sgld_step_printed,
)
from darrm_papers.he_wang_tao.tail import loss_tail, tail_composition
from darrm_papers.he_wang_tao.training import NoisyTraining, doubling_rule_holds, federated, sgld

PATH = DATA / "composition_expected.csv"
ROWS = list(csv.DictReader(PATH.read_text(encoding="utf-8").splitlines()))


class Inputs(dict[str, Any]):
    """A row's inputs, with its decimals as floats."""

    def __init__(self, text: str) -> None:
        super().__init__({name: _parsed(value) for name, value in json.loads(text).items()})

    @property
    def each(self) -> Privacy:
        return Privacy(self["eps"], self.get("delta", 0.0))

    @property
    def events(self) -> Counter[Privacy]:
        if "k" in self:
            return Counter({self.each: self["k"]})
        epsilons = self.get("eps", [0.1] * len(self.get("delta", [])))
        return Counter(Privacy(*pair) for pair in zip(epsilons, self.get("delta", [0.0] * len(epsilons)), strict=True))

    @property
    def triple(self) -> tuple[float, float, int]:
        return self["eps"], self.get("delta", 0.0), self["k"]

    @property
    def training(self) -> tuple[int, int, float, float, int, float]:
        return self["n"], self["batch"], self["lipschitz"], self["sigma"], self["steps"], self["delta_step"]

    @property
    def third_branch(self) -> float:
        return kov_branches({Privacy(self["eps"]): self["k"]}, self["slack"])[2]


def _parsed(value: Any) -> Any:
    if isinstance(value, list):
        return [float(entry) for entry in value]
    return float(value) if isinstance(value, str) else value


def exact_tail(i: Inputs) -> float:
    losses = response_losses(i["eps"], i["k"])
    return float(np.sum(losses.masses[losses.losses > i.third_branch]))


def lattice_above_optimal(i: Inputs) -> float:
    least, step = optimal_composition(*i.triple, i["delta_total"]).epsilon, 2 * i["eps"]
    return float(i["k"] * i["eps"] - step * math.floor((i["k"] * i["eps"] - least) / step))


def library_epsilon(i: Inputs) -> float:
    """Return what the library says, without the guard, after checking that the guarded answer is just above it."""
    step = common_discretisation([i["eps"]], i["value_discretization_interval"])
    total = pld_of(i.each, step).repeated(i["k"])
    raw = float(total.library.get_epsilon_for_delta(i["delta_total"]))
    assert raw <= total.epsilon(i["delta_total"]) <= raw + 1e-5
    return raw


def run(i: Inputs, bound: Any) -> NoisyTraining:
    return sgld(*i.training, bound=bound)


def at_general_delta(training: NoisyTraining, slack: float) -> float:
    return training.optimal(training.general(slack).delta).epsilon


COMPUTED: dict[str, Callable[[Inputs], Any]] = {
    "kov_delta": lambda i: optimal_delta(*i.triple, i["eps_total"]),
    "kov_epsilon": lambda i: optimal_composition(*i.triple, i["delta_total"]).epsilon,
    "kov_closed_terms": lambda i: kov_branches(i.events, i["slack"]),
    "kov_closed_epsilon": lambda i: kov_composition(i["eps"], 0.0, i["k"], i["slack"]).epsilon,
    "kov_closed_delta": lambda i: kov_delta({Privacy(0.1, i["delta"]): i["k"]}, i["slack"]),
    "kov_closed_best_epsilon": lambda i: kov_composition_at_delta(i.events, i["delta_total"]).epsilon,
    "darrm_table2_eps_total": lambda i: kov_composition(i["eps"], 0.0, i["k"], i["slack"]).epsilon,
    "leak_lower_bound": lambda i: least_possible_delta(i["delta"], i["k"]),
    "kov_delta_at_closed_eps": lambda i: optimal_delta(*i.triple, min(kov_branches(i.events, i["slack"]))),
    "kov_delta_pure_at_eps3": lambda i: optimal_delta(i["eps"], 0.0, i["k"], i.third_branch),
    "paper_cor2_delta": lambda i: composition_ii_printed(*i.triple, i["slack"], acknowledge_unsound=True).delta,
    "paper_cor2_is_unsound": lambda i: (
        composition_ii_printed(*i.triple, i["slack"], acknowledge_unsound=True).refuted_here
    ),
    "paper_thm4_delta": lambda i: composition_i_printed(i.events, i["slack"], acknowledge_unsound=True).delta,
    "paper_thm4_het_delta": lambda i: composition_i_printed(i.events, i["slack"], acknowledge_unsound=True).delta,
    "cor3_tail_corrected": lambda i: loss_tail(i["eps"], i["k"], i.third_branch),
    "cor3_tail_printed": lambda i: loss_tail_printed(i["eps"], i["k"], i["slack"], acknowledge_unsound=True).delta,
    "cor3_tail_exact": exact_tail,
    "cor3_repaired_delta": lambda i: tail_composition(*i.triple, i["slack"]).delta,
    "het_closed_delta": lambda i: kov_delta(i.events, i["slack"]),
    "het_closed_terms": lambda i: kov_branches(i.events, i["slack"]),
    "het_exact_delta": lambda i: optimal_delta_of_sequence(i.events, i["eps_total"]),
    "kl_bound": lambda i: kl_divergence(i["eps"]),
    "kl_bound_dwork_rothblum": lambda i: dwork_rothblum_kl(i["eps"]),
    "tv_bound": lambda i: total_variation(i.each),
    "onavg_bound_thm2": lambda i: on_average(i.each, i["k_databases"]),
    # The bound is on a loss in [0, 1]: the source lets it pass 1, where it says nothing.
    "onavg_bound_cor1": lambda i: on_average_excess(i.each, i["k_databases"]),
    "onavg_bound_nissim_stemmer": lambda i: nissim_stemmer_on_average(i.each, i["k_databases"]),
    "thm1_threshold": lambda i: threshold(i["eps"]),
    "thm1_threshold_rederived": lambda i: rederived_threshold(i.each),
    "thm1_min_n": lambda i: least_samples(i.each),
    "thm1_beta_one_sided": lambda i: failure_probability(i.each, sides="one"),
    "thm1_beta_two_sided": lambda i: failure_probability(i.each, sides="two"),
    "thm1_nissim_stemmer_beta": lambda i: nissim_stemmer_failure(i.each),
    "thm1_eps_floor": lambda i: epsilon_floor(i["n"], i["delta"]),
    "thm3_alpha": lambda i: multi_database(i.each, i["k_databases"])[0],
    "sgld_mu": lambda i: run(i, "exact").shift,
    "sgld_step_eps_exact": lambda i: run(i, "exact").unsampled.epsilon,
    "sgld_step_eps_corrected": lambda i: run(i, "tail").unsampled.epsilon,
    "sgld_step_eps_subsampled_exactgauss": lambda i: run(i, "exact").step.epsilon,
    "sgld_step_eps_subsampled_corrected": lambda i: run(i, "tail").step.epsilon,
    "sgld_eps_total_closed_exactgauss": lambda i: run(i, "exact").general(i["slack"]).epsilon,
    "sgld_eps_total_closed_corrected": lambda i: run(i, "tail").general(i["slack"]).epsilon,
    "sgld_delta_total_exactgauss": lambda i: run(i, "exact").general(i["slack"]).delta,
    "sgld_delta_total_corrected": lambda i: run(i, "tail").general(i["slack"]).delta,
    "sgld_eps_total_optimal_exactgauss": lambda i: at_general_delta(run(i, "exact"), i["slack"]),
    "sgld_eps_total_optimal_corrected": lambda i: at_general_delta(run(i, "tail"), i["slack"]),
    "sgld_step_eps_printed": lambda i: (
        sgld_step_printed(i["batch"], i["lipschitz"], i["sigma"], i["delta_step"], acknowledge_unsound=True).epsilon
    ),
    "sgld_eps_total_printed": lambda i: sgld_printed(*i.training, i["slack"], acknowledge_unsound=True).epsilon,
    "sgld_delta_total_printed_without_slack": lambda i: (
        sgld_printed(*i.training, i["slack"], acknowledge_unsound=True).delta
    ),
    "sgld_last_term_printed": lambda i: sgld_last_term_printed(*i.training, i["slack"], acknowledge_unsound=True).delta,
    "fl_step_eps_printed": lambda i: (
        federated_step_printed(
            1, i["tau_times_sigma"], i["delta_step"], radical="logarithm", acknowledge_unsound=True
        ).epsilon
    ),
    "fl_step_eps_replace": lambda i: (
        federated(1, 1, i["tau_times_sigma"], 1, i["delta_step"], bound="tail").unsampled.epsilon
    ),
    "fl_step_eps_zeroout": lambda i: (
        federated(1, 1, i["tau_times_sigma"], 1, i["delta_step"], adjacency="zero_out", bound="tail").unsampled.epsilon
    ),
    "fl_step_eps_exact_replace": lambda i: federated(1, 1, i["tau_times_sigma"], 1, i["delta_step"]).unsampled.epsilon,
    "fl_step_eps_exact_zeroout": lambda i: (
        federated(1, 1, i["tau_times_sigma"], 1, i["delta_step"], adjacency="zero_out").unsampled.epsilon
    ),
    "gaussian_delta": lambda i: gaussian_delta(i["mu"], i["eps"]),
    "subsample_eps_exact": lambda i: amplify_by_subsampling(Privacy(i["eps"]), i["q"]).epsilon,
    "subsample_2q_rule_valid": lambda i: doubling_rule_holds(i["eps"], i["q"]),
    "binary_adaptive_delta": lambda i: compose_bits([(privacy_region(i.each), i["k"])]).delta(i["eps_total"]),
    "binary_adaptive_epsilon": lambda i: compose_bits([(privacy_region(i.each), i["k"])]).epsilon(i["delta_total"]),
    "dp_accounting_advanced_composition": lattice_above_optimal,
    "dp_accounting_pld_epsilon": library_epsilon,
}


def within(value: float, expected: float, tolerance: str) -> bool:
    allowed = [abs(expected) * float(share) for share in re.findall(r"rel (\S+?)(?: |$)", tolerance)]
    allowed += [float(amount) for amount in re.findall(r"abs (\S+?);?(?: |$)", tolerance)]
    if not allowed:
        assert tolerance == "exact"
        return value == expected
    return abs(value - expected) <= max(allowed)


@for_each("quantity", sorted(COMPUTED))
def test_every_row(quantity: str) -> None:
    rows = [row for row in ROWS if row["quantity"] == quantity]
    assert rows
    wrong = []
    for row in rows:
        value = COMPUTED[quantity](Inputs(row["inputs"]))
        if row["expected"].startswith("error: eps_total>=k*eps"):
            expected: Any = 0.0  # the loss cannot exceed kε: a tail of 0 says so
        elif row["expected"] in {"true", "false"}:
            expected = row["expected"] == "true"
        else:
            expected = json.loads(row["expected"])
            expected = [float(entry) for entry in expected] if isinstance(expected, list) else float(expected)
        if quantity == "onavg_bound_cor1":
            expected = min(expected, 1.0)
        pairs = zip(value, expected, strict=True) if isinstance(expected, list) else [(value, expected)]
        if not all(within(*pair, row["tolerance"]) for pair in pairs):
            wrong.append((row["inputs"], value, expected, row["tolerance"]))
    assert not wrong


def test_every_quantity_is_covered() -> None:
    assert {row["quantity"] for row in ROWS} == set(COMPUTED)
    assert len(ROWS) == 1519
