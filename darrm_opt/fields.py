"""Fields of questions: name, symbol, unit, range and description, each declared once for every interface.

The service builds its types from this list and enforces the ranges, the command line takes help and metavars from it,
and the core its error texts. A question may narrow a range or add words (`Field.of`) but declares no field of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from darrm_opt.decimals import number_in

Kind = Literal["whole", "real", "text", "choice", "flag", "list", "object"]


@dataclass(frozen=True)
class Field:
    """Field of a question.

    >>> FIELDS["Delta"].accepted, FIELDS["points"].accepted
    ('a probability in [0, 1)', 'a whole number of points from 2 to 1,001')
    >>> FIELDS["total_epsilon"].description
    'ε of all releases together [nats].'
    """

    name: str  # in Python, JSON and, with hyphens, on the command line
    words: str  # description, with the unit in brackets
    kind: Kind = "real"
    unit: str = ""  # of the number, or of each number of a list
    symbol: str = ""  # in equations
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    at_most: str = ""  # the field that bounds it from above
    items: tuple[int, int] | None = None  # minimum and maximum length of a list
    longest: int | None = None  # maximum length of a text [characters]
    infinite: bool = False  # whether "inf" is accepted
    noun: str = ""  # noun of `accepted`, if the unit does not give it
    says: str = ""  # `accepted` itself, if noun and range do not give it
    otherwise: str = ""  # the default, in words
    short: str = ""  # its name on a form, if its words do not begin with one
    example: Any = field(default=None, hash=False)

    def of(self, **changes: Any) -> Field:
        """Return the field with another range or other words, for one question."""
        return replace(self, **changes)

    @property
    def limits(self) -> dict[str, float]:
        """Range of its numbers, by the names of `least`, `above`, `most` and `below`."""
        named = {name: getattr(self, name) for name in ("least", "above", "most", "below")}
        return {name: limit for name, limit in named.items() if limit is not None}

    @property
    def label(self) -> str:
        """Its name on a form, with its symbol."""
        if self.short:
            return self.short
        name = re.split(r" \[|[;:,]", self.words)[0]
        return f"{name} {self.symbol}".rstrip() if self.symbol[-1:] not in name else name

    @property
    def is_advanced(self) -> bool:
        """Whether few need it: a help text and a form have it last."""
        return self.name in ADVANCED_NAMES

    @property
    def description(self) -> str:
        """Description, unit and default."""
        return f"{self.words}{f'; {self.otherwise}' if self.otherwise else ''}."

    @property
    def help(self) -> str:
        """Description and range for a help text, with options in place of field names."""
        words = re.sub(r"(?<!\")\b[a-z]+_[a-z_]+\b", _option_of_field, self.words)
        words = words.replace(f" [{self.unit}]", "")
        is_clause = self.kind == "real" and not {";", ":"} & {*words}
        return f"{words},{self._range.removeprefix(',')}." if is_clause and self._range else f"{words}."

    @property
    def accepted(self) -> str:
        """Accepted values, in words."""
        return self.says or f"{self.noun or self._noun}{self._range}"

    @property
    def metavar(self) -> str:
        """Placeholder of the value in a help text."""
        if self.kind == "whole":
            return "COUNT"
        return {"nats": "NATS", "probability": "PROBABILITY", "s": "SECONDS", "votes": "VOTES"}.get(
            self.unit, "NUMBER" if self.kind == "real" else "TEXT"
        )

    @property
    def _noun(self) -> str:
        if self.kind == "whole":
            return f"a whole number of {self.unit}" if self.unit else "a whole number"
        if self.kind == "flag":
            return "true or false"
        return _NOUNS.get(self.unit, "a number")

    @property
    def _range(self) -> str:
        least, above, most, below = self.least, self.above, self.most, self.below
        lower, upper = above if least is None else least, below if most is None else most
        if lower is not None and upper == 1:
            return f" in {'(' if least is None else '['}{lower:g}, {upper:g}{')' if most is None else ']'}"
        if least is not None and most is not None:
            return f" from {_number(least)} to {_number(most)}"
        parts = [
            f" above {_number(above)}"
            if above is not None
            else f", at least {_number(least)}"
            if least is not None
            else "",
            f", at most {_number(most)}"
            if most is not None
            else f", below {_number(below)}"
            if below is not None
            else "",
        ]
        return "".join(parts)


def _option_of_field(name: re.Match[str]) -> str:
    return f"--{name[0].replace('_', '-')}" if name[0] in FIELDS else name[0]


ADVANCED_NAMES = frozenset(
    "targets shape method backend time_limit gap ties price arithmetic least_accuracy slack threshold "  # noqa: SIM905
    "check_sigma cap n subsample_size replacement records sample sampling neighbours labels among times digits m_from "
    "m_to m_points".split()
)


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


_NOUNS = {"nats": "a number of nats", "probability": "a probability", "s": "seconds", "votes": "a number of votes"}

MAX_TARGET_EPSILON = 500.0
"""Largest target ε [nats]: e^500 is well within the range of doubles, and such a release has no privacy."""

MAX_POINTS = 1001
MAX_ALLOWANCES = 101
MAX_QUERIES = 10**9

MAX_GAMMA_LENGTH = 100_001  # maximum length of a γ that is read; the server's max_voters is far below
MAX_TEXT = 20_000  # maximum length of an objective or prior, which may list thousands of counts [characters]

FRESH = (
    "Voters are fresh if, given the data, each draws new independent randomness for every query, so that (ε, Δ) is the "
    "privacy of one answer; otherwise they were trained once, and (ε, Δ) is the privacy of the whole voter."
)
"""Meaning of ``fresh``, as shown on the command line, the web page and in the documentation."""


def _field(name: str, words: str, kind: Kind = "real", interval: str = "(,)", symbol: str = "", **more: Any) -> Field:
    """Return a field: its unit is taken from its words, and ``interval`` is its range, such as "[0, 1)"."""
    unit = re.search(r"\[(\w+)\]", words) if kind in ("whole", "real", "list") else None
    low, high = (number_in(end.strip()) for end in interval[1:-1].split(","))
    lower, upper = "least" if interval[0] == "[" else "above", "most" if interval[-1] == "]" else "below"
    limits: dict[str, Any] = {lower: low, upper: high}
    return Field(name, words, kind, unit[1] if unit else "", symbol, **limits, **more)


_DECLARED = (
    # Voters, and the privacy of one release.
    _field("K", "Number of voters [voters]", "whole", "[1,)", "K", example=11),
    _field(
        "epsilon",
        "ε of one voter [nats]; inf: the voter is not private",
        "real",
        "[0,)",
        "ε",
        infinite=True,
        says="a number of nats, at least 0 (inf: not private)",
        example=0.1,
    ),
    _field(
        "Delta",
        "Δ, failure probability of one voter [probability]",
        "real",
        "[0, 1)",
        "Δ",
        example=1e-5,
        short="Δ of one voter",
    ),
    _field(
        "profile",
        "Privacy profile of one voter, instead of epsilon and Delta: points [ε [nats], δ [probability]] that "
        'hold at once, or a curve: {"gaussian": {"mu": μ}}, {"laplace": {"scale": b}}, {"zcdp": {"rho": ρ}}, '
        '{"rdp": [[α, ε], …]} or {"dp_sgd": {"noise_multiplier": σ, "sampling_probability": q, "steps": T}}; as text '
        "0:0.013,0.1:1e-5 or gaussian(0.0325). m has no meaning with it",
        "object",
        longest=1000,
        says="points [epsilon, delta], or a curve such as {'gaussian': {'mu': 0.0325}}",
        example=[[0, 0.013], [0.1, 1e-5]],
    ),
    _field(
        "affected",
        "Number of voters that one record can influence [voters]",
        "whole",
        "[1,)",
        "s",
        at_most="K",
        otherwise="by default all",
        short="Affected voters",
    ),
    _field(
        "m",
        "Privacy allowance: the release may cost m times one voter's ε. Omit it with target_epsilon",
        "real",
        "(0,)",
        "m",
        noun="a privacy allowance, a real number",
        example=3,
    ),
    _field(
        "target_epsilon",
        "ε of the release [nats]; required if epsilon is 0 or inf, for which m is undefined",
        "real",
        f"[0, {MAX_TARGET_EPSILON}]",
        "mε",
    ),
    _field(
        "delta",
        "δ, failure probability of the release [probability]",
        "real",
        "[0, 1)",
        "δ",
        otherwise="by default 1 − (1−Δ)^m, or Δ where there is no m",
        short="δ of the release",
    ),
    _field(
        "targets",
        "Several (ε, δ) that the release satisfies at once, instead of target_epsilon and delta: pairs [ε [nats], "
        "δ [probability]]; as text 0.1:0.05,0.5:1e-5",
        "object",
        longest=1000,
        says="pairs [epsilon, delta] of which none implies another",
        example=[[0.1, 0.05], [0.5, 1e-5]],
        short="Several (ε, δ)",
    ),
    _field(
        "fresh",
        FRESH.rstrip("."),
        "flag",
        says="true (fresh randomness in every answer) or false (trained once)",
        short="Fresh voters",
    ),
    _field("classes", "Number of classes [classes]", "whole", "[2,)", "C", example=3),
    _field(
        "groups",
        "The voters, in groups of equal privacy",
        "list",
        items=(1, 8),
        says="a list of 1 to 8 groups, each an object with K, epsilon and perhaps Delta",
    ),
    _field("weight", "Weight of one vote in the plurality [votes]", "real", "(0,)"),
    # a design.
    _field(
        "objective",
        "Prior for which γ is optimal, perhaps with a measure of utility",
        "text",
        longest=MAX_TEXT,
        says="the text of an objective, such as rectangular or shared(2,5)",
        example="rectangular",
        short="Prior",
    ),
    _field(
        "prior",
        "Prior, the assumed distribution of the votes",
        "text",
        longest=MAX_TEXT,
        says="the text of an objective that has a prior, such as shared(2,5) or histogram(9,1,0,2)",
        example="shared(2,5)",
    ),
    _field(
        "shape",
        "free: any γ; monotone: γ never decreases as the majority grows, at a small loss of utility",
        "choice",
        short="Shape of γ",
    ),
    _field("method", "Method of the search; the answer is the same", "choice"),
    _field("backend", "LP solver; the answer is the same", "choice", says="the name of a solver"),
    _field(
        "time_limit",
        "Maximum search time [s]; the best answer found by then is returned, with its proof",
        "real",
        "(0,)",
    ),
    _field("gap", "Gap at which the solve may end", "real", "[0, 1)"),
    _field("ties", "Votes with tied leaders: excluded, or any leader counts as right", "choice"),
    _field(
        "price",
        "Penalty for a wrong label, where a right one counts 1 [labels]",
        "real",
        "[0,)",
        example=0.5,
        short="Price of a wrong label",
    ),
    _field("abstention", "Whether the release may withhold the class", "flag", short="May withhold the class"),
    _field(
        "gamma",
        "γ(0..K) [probability]; exactly symmetric, γ(l) = γ(K−l)",
        "list",
        "[0, 1]",
        "γ",
        items=(2, MAX_GAMMA_LENGTH),
        says="a list of K + 1 probabilities, symmetric",
    ),
    _field(
        "arithmetic",
        "Doubles with a proven error bound, or ball arithmetic: slower, and independent",
        "choice",
        short="Arithmetic",
    ),
    # a total over many releases.
    _field("queries", "Number of releases Q [releases]", "whole", f"[1, {MAX_QUERIES}]", "Q", example=100),
    _field(
        "total_epsilon",
        "ε of all releases together [nats]",
        "real",
        f"(0, {MAX_TARGET_EPSILON}]",
        "ε",
        example=1.0,
        short="Total ε",
    ),
    _field(
        "total_delta", "δ of all releases together [probability]", "real", "[0, 1)", "δ", example=1e-5, short="Total δ"
    ),
    _field("slack", "δ′ of the closed form [probability]", "real", "[0, 1)", "δ′"),
    _field(
        "least_accuracy",
        "Minimum useful accuracy [probability]",
        "real",
        "(, 1)",
        says="a probability from 1/classes to below 1",
    ),
    # a mechanism.
    _field(
        "mechanism",
        "Name of the mechanism",
        "text",
        longest=100,
        says="the name of a mechanism, such as laplace",
        example="laplace",
    ),
    _field("parameter", "Its parameter: σ or scale of noise in votes, rate of selection in nats per vote, or similar"),
    _field("threshold", "Least noisy count for which a class is released, with parameter [votes]"),
    _field("check_sigma", "σ of the noise on the count that is checked [votes]", "real", "[0,)", "σ"),
    _field("cap", "Maximum number of released classes [labels]", "whole", "[1,)"),
    _field("curve", "Whether to return ε over δ and over the number of releases too: about 20 accounts", "flag"),
    # Voters that are trained on random subsamples.
    _field(
        "n",
        "Records in the dataset, of which each voter's model is trained on a subsample [records]",
        "whole",
        "[2,)",
        "n",
    ),
    _field("subsample_size", "Records drawn for one model, with n [records]", "whole", "[1,)"),
    _field("replacement", "Whether a subsample may contain a record twice", "flag", short="With replacement"),
    # Records that are drawn anew for every query.
    _field(
        "records", "Number of records; every query uses a fresh, secret sample of them [records]", "whole", "[1,)", "n"
    ),
    _field(
        "sample",
        "Sample size of one query, or of each voter with each-voter [records]",
        "whole",
        "[1,)",
        "s",
        at_most="records",
        short="Sample size",
    ),
    _field(
        "sampling",
        "Scheme by which the records, or the subsamples of the voters, are drawn",
        "choice",
        longest=100,
        short="Sampling",
    ),
    _field(
        "neighbours",
        "add-remove (the default with poisson, and possible there only) or replace-one",
        "choice",
        longest=100,
        says="'add-remove' with poisson, or 'replace-one'",
        short="Neighbours",
    ),
    _field("labels", "Labels per sample [labels], such as the tokens of a text", "whole", "[1,)", "T"),
    _field("among", "Queries in a row that share each record, with random-allocation [releases]", "whole", "[1,)", "t"),
    _field(
        "times",
        "Number of those queries that use the record [releases]; by default 1",
        "whole",
        "[1,)",
        "k",
        at_most="among",
    ),
    # Curves, and the inverse question.
    _field("points", "Number of points, evenly spaced [points]", "whole", f"[2, {MAX_POINTS}]"),
    _field("baselines", "Baselines to compare γ_opt with", "list", items=(0, 20), says="a list of names of baselines"),
    _field(
        "ms",
        "Privacy allowances, each above 0",
        "list",
        "(0,)",
        items=(1, MAX_ALLOWANCES),
        says=f"a list of 1 to {MAX_ALLOWANCES} allowances, real numbers above 0",
    ),
    _field("m_from", "Least allowance of a range", "real", "(0,)", noun="a privacy allowance, a real number"),
    _field(
        "m_to", "Largest allowance of a range", "real", "(0,)", says="a privacy allowance, a real number above m_from"
    ),
    _field(
        "m_points",
        "Number of allowances in the range, evenly spaced",
        "whole",
        f"[1, {MAX_ALLOWANCES}]",
        noun="a whole number of allowances",
    ),
    _field(
        "target_epsilons",
        "ε of the release, instead of allowances [nats]",
        "list",
        f"[0, {MAX_TARGET_EPSILON}]",
        items=(1, MAX_ALLOWANCES),
        says=f"a list of 1 to {MAX_ALLOWANCES} numbers of nats, at least 0",
    ),
    _field(
        "epsilons",
        "Values of ε at which to compute δ, of either sign [nats]; instead of points",
        "list",
        f"[-{MAX_TARGET_EPSILON}, {MAX_TARGET_EPSILON}]",
        "ε′",
        items=(1, MAX_POINTS),
        says=f"a list of 1 to {MAX_POINTS} numbers of nats within ±{MAX_TARGET_EPSILON:g}",
    ),
    _field("utility", "Target share of the noiseless utility; or give agreement", "real", "(0, 1]", noun="a share"),
    _field(
        "agreement",
        "Target probability that the released bit is the majority [probability], under the prior; "
        "it is then the measure of the objective",
        "real",
        "(0.5, 1]",
    ),
    _field("digits", "Significant digits of the number", "whole", "[2, 10]", noun="a whole number of digits"),
)

FIELDS = {field.name: field for field in _DECLARED}
