"""Accepted values of each field, in the words of the core's own errors, and the sizes that requests may have."""

from __future__ import annotations

from typing import get_args

from darrm_opt.accounting.sampling import Scheme
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.certificate import Arithmetic
from darrm_opt.design.solver import Method, Shape
from darrm_opt.design.sweep import MAX_DIGITS, MIN_DIGITS, Parameter
from darrm_opt.planning.baselines import BASELINES, OTHER_BASELINES
from solver_cache.database.jobs import State

MAX_POINTS = 1001
"""Most points of a curve: more than any screen shows."""

MAX_ALLOWANCES = 101
"""Most allowances of one trade-off."""

MAX_GAMMA_LENGTH = 100_001
"""Most entries of a posted γ that are read at all; the server's max_voters is far below."""

ALL_BASELINES = (*BASELINES, *OTHER_BASELINES)
"""Names of the baselines, the default ones first."""


def _choice(names: tuple[str, ...]) -> str:
    *first, final = (f"'{name}'" for name in names)
    return f"{', '.join(first)} or {final}"


ACCEPTED = {
    "K": "a whole number of voters, at least 1",
    "m": "a privacy allowance, a real number above 0",
    "epsilon": "a number of nats, at least 0 (inf: not private)",
    "Delta": "a probability in [0, 1)",
    "delta": "a probability in [0, 1)",
    "affected": "a whole number of voters, at least 1",
    "target_epsilon": "a number of nats, at least 0",
    "objective": "the text of an objective, such as rectangular or shared(2,5)",
    "shape": _choice(get_args(Shape)),
    "method": _choice(get_args(Method)),
    "backend": f"one of {', '.join(BACKENDS)}",
    "points": f"a whole number of points, from 2 to {MAX_POINTS}",
    "baselines": f"a list of names among {', '.join(ALL_BASELINES)}",
    "ms": f"a list of 1 to {MAX_ALLOWANCES} allowances, real numbers above 0",
    "target_epsilons": f"a list of 1 to {MAX_ALLOWANCES} numbers of nats, at least 0",
    "m_from": "a privacy allowance, a real number above 0",
    "m_to": "a privacy allowance, a real number above m_from",
    "m_points": f"a whole number of allowances, from 1 to {MAX_ALLOWANCES}",
    "parameter": f"{_choice(get_args(Parameter))}; of a cost, a number",
    "mechanism": "the name of a mechanism, such as laplace",
    "threshold": "a number of votes",
    "check_sigma": "a number of votes, at least 0",
    "cap": "a whole number of labels, at least 1",
    "records": "a whole number of records, at least 1",
    "sample": "a whole number of records, at least 1, at most all",
    "neighbours": "'add-remove' with poisson, or 'replace-one'",
    "among": "a whole number of queries, at least 1, with random-allocation",
    "times": "a whole number of queries, at least 1, at most among",
    "labels": "a whole number of labels of one sample, at least 1",
    "utility": "a share in (0, 1], or an agreement in (0.5, 1], and not both",
    "agreement": "a probability in (0.5, 1]",
    "digits": f"a whole number of digits, {MIN_DIGITS} to {MAX_DIGITS}",
    "epsilons": f"a list of 1 to {MAX_POINTS} numbers of nats",
    "gamma": "a list of K + 1 probabilities, symmetric",
    "arithmetic": _choice(get_args(Arithmetic)),
    "fresh": "true (fresh randomness in every answer) or false (trained once)",
    "curve": "true or false",
    "least_accuracy": "a probability in [0.5, 1)",
    "time_limit": "null, or seconds above 0",
    "gap": "null, or a number from 0 to below 1",
    "problems": "a list of problems",
    "queries": "a whole number of releases, at least 1",
    "slack": "a probability in [0, 1)",
    "total_epsilon": "a number of nats above 0",
    "total_delta": "a probability in [0, 1)",
    "n": "a number of records, at least 2",
    "subsample_size": "a number of records, at least 1",
    "replacement": "True or False",
    "sampling": f"'independent' or 'disjoint'; with records a scheme: {', '.join(get_args(Scheme))}",
    "id": "64 hexadecimal digits",
    "state": f"one of {', '.join(get_args(State))}",
    "limit": "a whole number, from 1 to 1000",
    "after": "the id of one that is stored",
    "url": "https://HOST[:PORT][/PATH][?QUERY], the host public and found by DNS, without user name, password and "
    "fragment",
    "webhook": "msg_ and 32 hexadecimal digits",
    "tag": "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit",
    "other": "64 hexadecimal digits",
    "classes": "a whole number of classes, 2 to 1000",
    "ties": "'excluded' or 'any'",
    "price": "a number at least 0",
    "abstention": "True or False",
    "groups": "a list of 1 to 8 groups, each an object with K, epsilon and perhaps Delta",
    "prior": "the text of an objective that has a prior, such as shared(2,5) or histogram(9,1,0,2)",
}
"""Accepted values by field."""

_OBJECTIVE_PARAMETERS = {"lower", "upper", "tau", "a", "b", "counts", "measure", "parameters", "scenarios", "seed"}


def field_of(argument: str) -> str:
    """Return the field of a request that holds the core's ``argument``.

    >>> field_of("tau"), field_of("gamma[3]"), field_of("K")
    ('objective', 'gamma', 'K')
    """
    name = argument.partition("[")[0]
    return "objective" if name in _OBJECTIVE_PARAMETERS else name


SAMPLES_ARE_TAKEN = (
    "Samples of the records are taken by /v1/plan without groups, /v1/plurality/options, /v1/cost and /v1/calibrate."
)
"""Advice where a field of a sample is not one of the request."""

OF_VOTERS, OF_GROUPS = "of voters", "of groups"
"""Which of two bodies a plan has: errors of its fields are located behind that."""
