"""Shared parameters of the verbs: a problem, how it is designed, and the use of the cache.

A verb asks for a group by the type of one parameter, ``drawn: Drawn``. All are text until the core reads them:
so the core says what is wrong with a number, in the same words as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import exp, inf
from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import option_of
from darrm.cli.parser import ADVANCED, EVERY_COMMAND, CommandOption, Made, Parameter, Text, parameters_of

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.bagging import Bags
    from darrm_opt.fields import Field
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.problem import Privacy

LARGE_EPSILON = 8.0  # ε of a voter from which a warning says what it means [nats]

PROBLEM = "The problem"


@cache  # one object, wherever an option is declared again
def declared_option(
    name: str, panel: str = "Options", otherwise: str = "", *, words: Text = "", values: Text = ""
) -> CommandOption:
    """Return a declared field (`darrm_opt.fields`) as an option, with its words and metavar unless others are given."""
    # Read when help is shown: the core takes long to import.
    return CommandOption(
        option_of(name),
        words or (lambda: _declared(name).help),
        values or (lambda: _declared(name).metavar),
        panel,
        otherwise,
        alias="--Delta" if name == "Delta" else "",
    )


def _declared(name: str) -> Field:
    from darrm_opt.fields import FIELDS

    return FIELDS[name]


def meaning_of_fresh() -> str:
    """Return what --fresh means."""
    return f"Voters draw new randomness for every query. {_declared('fresh').description}"


AsJson = Annotated[
    bool,
    CommandOption("--json", "Print the answer as JSON on stdout; everything else goes to stderr.", panel=EVERY_COMMAND),
]

Fresh = Annotated[bool, CommandOption("--fresh", meaning_of_fresh)]

_MISSING = CommandOption(
    "--missing",
    "How a missing vote (an empty cell, NaN, null) counts: evenly, for each class in turn; or "
    "class, for the last class, which then means no vote. Add ,value=-1 if -1 is a missing vote "
    "too.",
    "evenly|class[,value=N]",
    ADVANCED,
    "refused",
)

MissingVotes = Annotated[str | None, _MISSING]

StoreUrl = Annotated[
    str | None,
    CommandOption(
        "--url", "URL of the store, as in DARRM_CACHE_URL.", "URL", otherwise="DARRM_CACHE_URL, or the user's cache"
    ),
]

TableFormat = Annotated[
    str | None,
    CommandOption("--format", "Its format.", "csv|parquet|jsonl|sqlite", otherwise="by the file's extension"),
]


def backends() -> str:
    """Return the names of the solvers, whose registry takes long to import."""
    from darrm_opt.design.backends import BACKENDS

    return "|".join(BACKENDS)


def objectives() -> str:
    """Return the forms of an objective."""
    from darrm_opt.design.objective import accepted_objectives

    return accepted_objectives()


QUERIES, VOTES = "The queries", "The votes"

PANELS = {
    **dict.fromkeys(("K", "epsilon", "Delta", "affected", "classes", "m", "target_epsilon", "delta", "fresh"), PROBLEM),
    **dict.fromkeys(("queries", "total_epsilon", "total_delta"), QUERIES),
    "prior": VOTES,
}
"""Headings of options by the fields that they are."""


def warn_of_large(epsilon: float) -> None:
    """Say what a large ε means: it may have been taken for a percentage."""
    if LARGE_EPSILON <= epsilon < inf:
        from darrm.cli.output import say

        factor = f"{exp(min(epsilon, 700)):,.4g}"
        say(
            f"Warning: epsilon = {epsilon:g} nats makes an answer up to {factor} times likelier; "
            "it is not a percentage (10 % would be 0.1). Voters that are not private have epsilon = inf."
        )


def stated_voter(profile: str, points: str | None) -> Any:
    """Return what --profile states, with as many points of a curve as --profile-points says."""
    from darrm_opt.privacy_curves import PrivacyCurve, stated_curve

    stated = stated_curve(profile)
    return replace(stated, points=number(points)) if isinstance(stated, PrivacyCurve) and points else stated


BAGS = {"n": "bags", "subsample_size": "bags", "replacement": "bags", "sampling": "bags", "n_models": "K"}
"""Names for `options_named` where subsamples are named by --bags."""


BAGS_DRAWN = CommandOption(
    "--bags",
    "For voters that are models trained on random subsamples: number of records and sample size, as in "
    "n=10000,size=20; optionally draw=without-replacement or draw=disjoint.",
    "n=…,size=…",
    ADVANCED,
    "no subsampling",
)


def bags_drawn(text: str | None) -> Bags | None:
    """Return the draw that ``n=10000,size=20,draw=disjoint`` stands for; None for nothing.

    >>> bags_drawn("n=200,size=10")
    Bags(n=200, subsample_size=10, replacement=True, sampling='independent')
    """
    if text is None:
        return None
    from darrm_opt.bagging import Bags
    from darrm_opt.errors import InvalidInput

    accepted = "n=COUNT,size=COUNT and perhaps draw=with-replacement|without-replacement|disjoint, separated by commas"
    typed = named_values("bags", text, ("n", "size", "draw"), accepted)
    draw = typed.get("draw", "with-replacement")
    if not {"n", "size"} <= typed.keys() or draw not in _DRAWS:
        raise InvalidInput("bags", text, accepted)
    with options_named(**BAGS):
        return Bags(number(typed["n"]), number(typed["size"]), **_DRAWS[draw])


_DRAWS: dict[str, dict[str, Any]] = {
    "with-replacement": {"replacement": True, "sampling": "independent"},
    "without-replacement": {"replacement": False, "sampling": "independent"},
    "disjoint": {"replacement": False, "sampling": "disjoint"},
}


def named_values(option: str, text: str | None, names: Sequence[str], accepted: str) -> dict[str, str]:
    """Return the values that ``name=value,…`` gives to names, each at most once; none for no text."""
    from darrm_opt.errors import InvalidInput, similar_names

    values: dict[str, str] = {}
    for part in [] if text is None else text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in names:
            alike = similar_names(name, names)
            advice = f"There is no {name!r}{f': did you mean {alike[0]}?' if alike else '.'}" if name else ""
            raise InvalidInput(option, text, accepted, advice)
        if name in values:
            raise InvalidInput(option, text, accepted, f"{name!r} is given twice.")
        values[name] = value
    return values


def schemes() -> str:
    """Return the schemes by which records are drawn anew."""
    from typing import get_args

    from darrm_opt.accounting.sampling import Scheme

    return ", ".join(get_args(Scheme))


def sampling_page() -> str:
    """Return the help about --sampling."""
    from darrm_opt.accounting import sampling

    listed = [line for line in (sampling.__doc__ or "").splitlines() if line.startswith("    ")]
    return "\n".join([_SAMPLING, *listed])


_SAMPLING = """--sampling SCHEME[,NAME=VALUE,…] says how the --records of every query are drawn: --sample of them, anew.

neighbours   add-remove (the default where each record has a coin of its own) or replace-one
labels       labels per sample, such as the tokens of a text: poisson,labels=20
among,times  with random-allocation, in place of --sample: random-allocation,among=100,times=1

Schemes:
"""


SAMPLE: dict[str, CommandOption] = {
    "records": declared_option("records", ADVANCED, "no sampling"),
    "sample": declared_option("sample", ADVANCED),
    "sampling": CommandOption(
        "--sampling", "Sampling scheme: see `darrm help sampling`.", "SCHEME[,…]", ADVANCED, "poisson"
    ),
}
"""How the records of every query are drawn anew, by name."""


def typed_sampling(records: str | None, sample: str | None, sampling: str | None) -> Sampling | None:
    """Return the sampling that was typed; None for nothing.

    >>> typed_sampling("5452", "40", None).words
    '40 of 5,452 records drawn anew for every query, by their own coins'
    """
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.errors import InvalidInput, Rule

    # a sample of an unknown number of records has no rate: what belongs to it would be ignored.
    if records is None:
        for name, text in (("sample", sample), ("sampling", sampling)):
            if text is not None:
                raise InvalidInput(name, text, Rule("needs --records"))
        return None
    scheme, _, rest = (sampling or "poisson").partition(",")
    accepted = f"{schemes()}, and perhaps neighbours and labels, or among and times, separated by commas"
    names = ("neighbours", "labels", "among", "times")
    further = named_values("sampling", rest or None, names, accepted)
    # They are parts of one option: an error about one of them names that option.
    with options_named(**dict.fromkeys(names, "sampling")):
        return Sampling(
            number(records),
            number(sample),
            scheme=cast("Any", scheme),
            neighbours=cast("Any", further.get("neighbours")),
            labels=number(further.get("labels", "1")),
            among=number(further.get("among")),
            times=number(further.get("times", "1")),
        )


Drawn = Annotated[dict[str, Any], Made(lambda: parameters_of(SAMPLE))]  # the options of `SAMPLE`, as typed


PAST = {
    "votes": CommandOption(
        "--votes",
        "Observed votes, instead of --prior: a .csv, .npy or .parquet file with one row of K votes "
        "per query. Results computed from private votes are as sensitive as the votes.",
        "FILE",
        VOTES,
    ),
    "missing": _MISSING,
}
"""Past votes, by name."""

GROUP = CommandOption(
    "--group",
    "A group of identical voters, such as K=5,epsilon=0.5,Delta=1e-4 or K=5,profile=0:0.02,0.1:1e-5; "
    "repeat for each group, instead of --K.",
    "K=…,epsilon=…",
    PROBLEM,
    "one group",
    several=True,
)


def group_fields(typed: Sequence[str]) -> list[dict[str, Any]]:
    """Return the fields of the groups that ``K=5,epsilon=0.5,Delta=1e-4,weight=2`` names."""
    from darrm_opt.errors import InvalidInput
    from darrm_opt.privacy_curves import stated_curve

    accepted = (
        "K=COUNT,epsilon=NATS and perhaps Delta=PROBABILITY and weight=VOTES, separated by commas; in place of "
        "epsilon and Delta, profile=… last, as --profile takes it"
    )
    groups = []
    for text in typed:
        alike, has_profile, points = text.partition(",profile=")
        given = named_values("group", alike, ("K", "epsilon", "Delta", "weight"), accepted)
        needed, further = ({"K"}, {"weight"}) if has_profile else ({"K", "epsilon"}, {"weight", "Delta"})
        if given.keys() - further != needed:
            raise InvalidInput("group", text, accepted)
        try:
            stated = {"profile": stated_curve(points)} if has_profile else {}
        except InvalidInput as err:  # else it would be an option of the same name that is not valid
            raise InvalidInput("group", text, err.accepted, err.advice) from err
        groups.append({name: number(value) for name, value in given.items()} | stated)
    return groups


PROFILE = {
    "profile": CommandOption(
        "--profile",
        "Privacy profile of one voter, instead of --epsilon and --voter-delta: points ε:δ such as "
        "0:0.013,0.1:1e-5; a curve: gaussian(μ), laplace(scale), zcdp(ρ), rdp(α:ε,…) or "
        "dp_sgd(noise multiplier, sampling probability, steps); or a file of lines epsilon,delta.",
        "POINTS|CURVE|FILE",
        PROBLEM,
    ),
    "profile_points": CommandOption(
        "--profile-points",
        "Number of points taken from a curve.",
        "COUNT",
        ADVANCED,
        "5, and 9 where several queries are asked of models trained once",
    ),
}
"""The profile of one voter, by name."""


def _parameters_of_mechanisms() -> list[Parameter]:
    from darrm_opt.mechanisms.base import mechanism_classes

    named: dict[str, list[Any]] = {}
    for mechanism in mechanism_classes().values():
        if mechanism.parameter:
            named.setdefault(mechanism.parameter, []).append(mechanism)
    found = []
    for name, mechanisms in named.items():
        # An option of one name may mean something else to each mechanism.
        meant = {
            meaning: ", ".join(each.name for each in mechanisms if each.meaning == meaning)
            for meaning in dict.fromkeys(each.meaning for each in mechanisms)
        }
        if len(meant) > 1:  # in one clause, which the short help shows in full
            words = ", or ".join(f"{meaning or 'parameter'} ({of})" for meaning, of in meant.items())
        else:
            words = "".join(f"{meaning or name}: the parameter of {of}" for meaning, of in meant.items())
        found.append(Parameter(name, CommandOption(option_of(name), f"{words}.", "NUMBER"), None))
    return [*found, Parameter("check", _CHECK, None)]


_CHECK = CommandOption(
    "--check",
    "Release a class only if the largest count, with its own noise, reaches the threshold; at most cap classes are "
    "released.",
    "sigma=VOTES,threshold=VOTES,cap=COUNT",
    ADVANCED,
    "none",
)


MechanismParameters = Annotated[dict[str, Any], Made(_parameters_of_mechanisms)]
"""An option for the parameter of each mechanism, by its name, and the check of noisy counts."""

CHECKED = dict.fromkeys(("threshold", "check_sigma", "cap"), "check")
"""Names for `options_named` where a check is named by --check."""


def parameter_of(found: type[VoteMechanism], typed: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what was typed of the parameter and the check of a mechanism, by the names of `questions.cost.Cost`."""
    from darrm_opt.errors import InvalidInput, Rule

    for name, text in typed.items():
        if text is not None and name not in ("check", found.parameter):
            advice = f"Its parameter is {option_of(found.parameter)}." if found.parameter else ""
            raise InvalidInput(name, text, Rule(f"is not a parameter of {found.name}"), advice)
    accepted = "sigma=VOTES, threshold=VOTES and perhaps cap=COUNT, separated by commas"
    check = named_values("check", typed["check"], ("sigma", "threshold", "cap"), accepted)
    value = typed.get(found.parameter)
    if check and not (found.has_check and value is not None):
        raise InvalidInput("check", typed["check"], Rule("needs a parameter of a mechanism that has a check"))
    given = {"check_sigma" if name == "sigma" else name: number(text) for name, text in check.items()}
    return given if value is None else {"parameter": number(value), **given}


DISJOINT = "With teachers or models on disjoint data, give --affected 1."

PRIOR = dict.fromkeys(("alpha", "beta", "chances", "counts"), "prior")
"""Names for `options_named` where a prior is named by --prior."""

TOTAL = {"epsilon": "total_epsilon", "delta": "total_delta"}
"""Names for `options_named` where a verb's ε and δ are those of all releases together."""


@contextmanager
def options_named(**options: str) -> Iterator[None]:
    """Report an argument that the core refuses under the name of the option that gave it."""
    from darrm_opt.errors import InvalidInput

    try:
        yield
    except InvalidInput as err:
        if err.argument not in options:
            raise
        raise InvalidInput(options[err.argument], err.value, err.accepted, err.advice) from err


def total_privacy(epsilon: str | None, delta: str | None) -> Privacy:
    """Return the (ε, δ) of all releases together, as typed."""
    from darrm_opt.arguments import field_number, real_number
    from darrm_opt.problem import Privacy

    nats = "a finite number of nats, at least 0"
    total_epsilon = real_number(number(epsilon), "total_epsilon", nats, least=0, below=inf)
    return Privacy(total_epsilon, field_number(number(delta), "total_delta"))


def refuse_missing(**typed: tuple[str | None, str]) -> None:
    """Refuse a command that lacks options, and name all of them: each as typed, with what it accepts."""
    from darrm.cli.output import option_of
    from darrm_opt.errors import InvalidInput

    absent = [name for name, (text, _) in typed.items() if text is None]
    if absent:
        others = " and ".join(filter(None, [", ".join(map(option_of, absent[1:-1])), *map(option_of, absent[1:][-1:])]))
        verb = "is" if len(absent) == 2 else "are"
        advice = f"{others} {verb} missing, too." if others else ""
        raise InvalidInput(absent[0], None, typed[absent[0]][1], advice)


def needed_files(**typed: str | None) -> list[str]:
    """Return the names of files without which nothing works, as typed; refuse a command that lacks some."""
    refuse_missing(**{name: (text, "a file") for name, text in typed.items()})
    return [text for text in typed.values() if text is not None]


def number(text: str | None) -> Any:
    """Return the int or float that ``text`` spells, else the text itself, which the core will refuse by name.

    A whole number may be written with an exponent.

    >>> number("11"), number("1e-4"), number("inf"), number("a"), number(None), number("5e6")
    (11, 0.0001, inf, 'a', None, 5000000)
    """
    from darrm_opt.decimals import number_in

    value = None if text is None else number_in(text)
    if isinstance(value, float) and "." not in (text or "") and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 5e6 is exact
    return text if value is None else value
