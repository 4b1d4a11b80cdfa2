"""Grid file: the problems whose γ are to be precomputed.

    objective = ["rectangular", "shared(1,1) agreement"]     # what stands at the top is for every part

    [[grid]]
    K = [11, 35]
    epsilon = 0.1
    Delta = [0, 1e-5]
    m = { from = 1, to = 5, step = 1 }
    delta = "1-(1-Delta)^m"          # what it is without the line, too
    where = "m < (K+1)/2"            # else no noise is needed

A file without ``[[grid]]`` is one part. Quantities are those of a problem (K, m or target_epsilon, epsilon, Delta,
delta, affected), each a value, a list, a range or a formula of the others (`axes`); every combination for which
``where`` holds is a problem, for each ``objective`` and ``shape``.

With ``classes`` the problems are tables for so many classes, of voters that are not private: of the quantities K,
classes, target_epsilon, delta and affected, and the price of a wrong label, for each ``prior``; ``ties`` and
``abstention`` are as for `darrm solve --classes`.

Voters may state a ``profile`` in the place of epsilon and Delta: what --profile takes, as a text, a list of points, an
object of a curve, or a list of them. Of a curve, points are chosen for the δ of each problem.

    profile = ["gaussian(0.0325)", "0:0.013,0.1:1e-5"]
    target_epsilon = [0.1, 0.3]

With ``groups`` they are tables for groups of voters, one for each attendance: every group has its own K, an axis that
may begin at 0, where nobody of the group takes part. Formulas and ``where`` call them K1, K2, ….

    classes = 3
    target_epsilon = 1
    groups = [{ K = [0, 1, 2], epsilon = 0.1 }, { K = { from = 1, to = 4, step = 1 }, epsilon = 0.5, Delta = 1e-5 }]
    where = "K1 + K2 >= 3"
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, cast, get_args

from darrm_opt.decimals import double_in
from darrm_opt.design.objective import as_objective
from darrm_opt.design.solver import check_choice
from darrm_opt.errors import InvalidInput, Rule, similar_names
from darrm_opt.privacy_curves import GROUP_POINTS, PrivacyCurve, profile_problem, stated_curve, stated_profile
from darrm_opt.problem import NOT_PRIVATE, Privacy, Problem, VoterGroup
from darrm_opt.record import DesignSpec
from darrm_opt.tables.objective import PluralityObjective, Truth, as_table_objective
from darrm_opt.tables.priors import Ties, parse_prior
from darrm_opt.tables.record import TableSpec
from darrm_opt.voters import PrivacyProfile
from solver_cache.model import Spec
from solver_cache.precompute.axes import Axis, Expression, located, parse, read_axis, read_texts

QUANTITIES = ("K", "classes", "epsilon", "Delta", "affected", "price", "m", "target_epsilon", "delta")
"""In the order in which they vary, the last fastest: neighbours differ only in their target, as warm starts need."""

_OTHERS = ("profile", "objective", "shape", "where", "prior", "ties", "abstention", "groups")

_REJECTED = {
    "with groups": ("K", "epsilon", "Delta", "m", "profile", "shape", "prior"),
    "with classes": ("objective", "shape", "epsilon", "Delta", "m", "profile"),
    "without classes": ("prior", "ties", "abstention", "price"),
    "with a profile": ("epsilon", "Delta", "m"),
}
"""Names that a kind of part does not have. Rejected rather than ignored: a grid takes hours, and mistakes show late."""


@dataclass(frozen=True)
class GroupAxis:
    """Voters of a group, whose number varies."""

    voter: Privacy
    weight: float  # of one vote


@dataclass(frozen=True)
class Part:
    """One table of a grid file."""

    path: str  # location in the file; empty for a file of one part
    axes: tuple[tuple[str, Axis], ...]  # ordered so that formulas come after what they use
    objectives: tuple[Any, ...]  # objectives; priors of tables; texts for groups
    shapes: tuple[Any, ...]  # shapes of γ; for tables, abstention
    where: Expression | None  # filter of combinations
    ties: Ties = "excluded"
    groups: tuple[GroupAxis, ...] = ()  # voters whose numbers K1, K2, … are axes
    profiles: tuple[PrivacyProfile | PrivacyCurve | None, ...] = (None,)  # None: (ε, Δ)

    @property
    def size(self) -> int:
        """Number of combinations, before ``where``."""
        others = len(self.objectives) * len(self.shapes) * len(self.profiles)
        return math.prod(len(axis.values) for _, axis in self.axes) * others

    def sample(self, count: int) -> Iterator[Any]:
        """Yield the problems among ``count`` evenly spaced combinations, after ``where``."""
        size = self.size
        for place in range(min(count, size)):
            index, values = place * size // min(count, size), dict[str, float]()
            index, objective = divmod(index, len(self.objectives))
            index, shape = divmod(index, len(self.shapes))
            index, profile = divmod(index, len(self.profiles))
            for name, axis in reversed(self.axes):
                index, step = divmod(index, len(axis.values))
                values[name] = step
            for name, axis in self.axes:  # formulas come after what they use
                value = axis.values[int(values[name])]
                with located(_join(self.path, name)):
                    values[name] = value(values) if isinstance(value, Expression) else value
            if self._includes(values):
                yield self._spec(values, self.objectives[objective], self.shapes[shape], self.profiles[profile])

    def specs(self) -> Iterator[Any]:
        """Yield every `DesignSpec` or `TableSpec`; those that differ only in their target are neighbours."""
        for further in itertools.product(self.objectives, self.shapes, self.profiles):
            for values in self._points(0, {}):
                yield self._spec(values, *further)

    def _points(self, depth: int, values: dict[str, float]) -> Iterator[dict[str, float]]:
        if depth == len(self.axes):
            if self._includes(values):
                yield dict(values)
            return
        name, axis = self.axes[depth]
        with located(_join(self.path, name)):
            steps = tuple(axis.at(values))
        for value in steps:
            values[name] = value
            yield from self._points(depth + 1, values)
        values.pop(name, None)

    def _includes(self, values: Mapping[str, float]) -> bool:
        with located(_join(self.path, "where")):
            return self.where is None or bool(self.where(values))

    def _spec(
        self, values: Mapping[str, float], objective: Any, shape: Any, profile: PrivacyProfile | PrivacyCurve | None
    ) -> Spec:
        arguments: dict[str, Any] = {
            name: _whole_number(value) if name[0] == "K" or name in {"affected", "classes"} else value
            for name, value in values.items()
        }
        try:
            if self.groups or "classes" in arguments:
                return _table_spec(arguments, self.groups, objective, self.ties, abstention=shape)
            if profile is not None:
                return DesignSpec(
                    profile_problem(statement=profile, **{"target_epsilon": None} | arguments), objective, shape
                )
            return DesignSpec(Problem.from_allowance(**{"m": None} | arguments), objective, shape)
        except InvalidInput as err:
            point = ", ".join(f"{name} = {value:g}" for name, value in values.items())
            advice = f"At {point}; {objective}. {err.advice}".rstrip()
            raise InvalidInput(_join(self.path, err.argument), err.value, err.accepted, advice) from err


@dataclass(frozen=True)
class Grid:
    """Problems of a grid file."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Number of combinations, before ``where``."""
        return sum(part.size for part in self.parts)

    def specs(self) -> Iterator[Any]:
        """Yield every specification of every part."""
        for part in self.parts:
            yield from part.specs()


def read_grid(path: str | Path, options: Mapping[str, Any] | None = None) -> Grid:
    """Return the grid in a file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "It is not UTF-8 text"
        raise InvalidInput("GRID", str(path), "a readable file", f"{reason}.") from err
    try:
        loads = json.loads if path.suffix.lower() == ".json" else tomllib.loads
        content = loads(text, parse_float=double_in)
    except (ValueError, RecursionError) as err:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise InvalidInput("GRID", str(path), f"a file in {kind}", f"{str(err).removesuffix('.')}.") from err
    return grid_of(content, options)


def grid_of(content: Any, options: Mapping[str, Any] | None = None) -> Grid:
    """Return the grid that plain data describes.

    >>> grid = grid_of({"K": [5, 7], "epsilon": 0.1, "Delta": 1e-5, "m": {"from": 1, "to": 2, "step": 0.5}})
    >>> [(spec.problem.K, spec.problem.m) for spec in grid.specs()]
    [(5, 1.0), (5, 1.5), (5, 2.0), (7, 1.0), (7, 1.5), (7, 2.0)]
    """
    if not isinstance(content, Mapping):
        raise InvalidInput("GRID", content, "a mapping of quantities")
    tables = content.get("grid")
    if tables is None:
        return Grid((_part({**content, **(options or {})}, ""),))
    if not (isinstance(tables, list) and tables and all(isinstance(table, Mapping) for table in tables)):
        raise InvalidInput("grid", tables, "tables, [[grid]]")
    common = {name: value for name, value in content.items() if name != "grid"}
    for name, value in common.items():
        _check_name(name, value, "")
    return Grid(tuple(_part({**common, **table, **(options or {})}, f"grid[{i}]") for i, table in enumerate(tables)))


def _part(content: Mapping[str, Any], path: str) -> Part:
    for name, value in content.items():
        _check_name(name, value, path)
    _check_quantities(content, path)
    groups, stated = _groups(content, path) if "groups" in content else ((), {})
    stated |= {name: (content[name], _join(path, name)) for name in QUANTITIES if name in content}
    # A formula may use any quantity of the part; `_order` rejects cycles.
    names = set(stated)
    axes = {name: read_axis(value, place, names) for name, (value, place) in stated.items()}
    ordered, where = tuple((name, axes[name]) for name in _order(axes, path)), _where(content, path, names)
    if not groups and "classes" not in content:
        objectives = _parsed(content, path, "objective", "rectangular", as_objective)
        shapes = _parsed(content, path, "shape", "free", str)  # checked with each question
        return Part(path, ordered, objectives, shapes, where, profiles=_profiles(content, path))
    objective, parse = ("objective", str) if groups else ("prior", parse_prior)
    objectives = _parsed(content, path, objective, "dirichlet(1)", parse)
    ties = content.get("ties", "excluded")
    check_choice(_join(path, "ties"), ties, get_args(Ties))
    return Part(path, ordered, objectives, _abstention(content, path), where, ties, groups)


def _check_quantities(content: Mapping[str, Any], path: str) -> None:
    """Reject a part without a name that it needs, or with one that it does not have."""
    if "groups" in content:
        needed, kinds = ["target_epsilon"], ["with groups"]
    elif "classes" in content:
        needed, kinds = ["K", "target_epsilon"], ["with classes"]
    elif "profile" in content:
        needed, kinds = ["K", "target_epsilon"], ["without classes", "with a profile"]
    else:
        needed, kinds = ["K", "epsilon"], ["without classes"]
    for name in needed:
        if name not in content:
            raise InvalidInput(_join(path, name), None, "a value, a list, a range or a formula")
    for kind in kinds:
        for name in _REJECTED[kind]:
            if name in content:
                raise InvalidInput(_join(path, name), content[name], f"no {name} {kind}")
    if "without classes" in kinds and ("m" in content) == ("target_epsilon" in content):
        raise InvalidInput(_join(path, "m"), content.get("m"), "exactly one of m and target_epsilon")


def _groups(content: Mapping[str, Any], path: str) -> tuple[tuple[GroupAxis, ...], dict[str, tuple[Any, str]]]:
    """Return the groups, and their numbers of voters with their places, as quantities of the part."""
    tables, where = content["groups"], _join(path, "groups")
    if not (isinstance(tables, list) and tables and all(isinstance(table, Mapping) for table in tables)):
        raise InvalidInput(where, tables, "a list of tables { K, epsilon, Delta } or { K, profile }")
    groups = []
    for i, table in enumerate(tables):
        inside, own = f"{where}[{i}]", "profile" if "profile" in table else "epsilon"
        if not {"K", own} <= table.keys() <= {"K", "weight", own, *(["Delta"] if own == "epsilon" else [])}:
            raise InvalidInput(inside, dict(table), "K, epsilon or a profile, and optionally Delta and weight")
        epsilon = math.inf if table.get("epsilon") == "inf" else table.get("epsilon")
        try:
            # Checked here, where the path of the group is known.
            voter = (
                stated_profile(table["profile"], points=GROUP_POINTS)
                if own == "profile"
                else Privacy(cast("float", epsilon), table.get("Delta", 0.0))
            )
            groups.append(GroupAxis(voter, table.get("weight", 1.0)))
        except InvalidInput as err:
            raise InvalidInput(_join(inside, err.argument), err.value, err.accepted, err.advice) from err
    return tuple(groups), {f"K{i + 1}": (table["K"], f"{where}[{i}].K") for i, table in enumerate(tables)}


def _table_spec(
    values: dict[str, Any], groups: Sequence[GroupAxis], objective: Any, ties: Ties, *, abstention: bool
) -> TableSpec:
    target = Privacy(values["target_epsilon"], values.get("delta", 0.0))
    affected, price = values.get("affected"), values.get("price", 0.0)
    if not groups:
        moved = 1 if affected is None else affected
        alike = Problem(values["K"], NOT_PRIVATE, target, moved, classes=values["classes"], abstention=abstention)
        return TableSpec(alike, PluralityObjective(objective, ties, price))
    present = [(axis, K) for i, axis in enumerate(groups, 1) if (K := values[f"K{i}"]) != 0]
    if not present:
        raise InvalidInput("groups", "nobody", "an attendance of at least one voter", "Exclude it with `where`.")
    voters = [VoterGroup(K, axis.voter) for axis, K in present]
    if affected is not None:  # at most all voters
        affected = min(affected, sum(K for _, K in present))
    problem = Problem(
        groups=voters, target=target, affected=affected, classes=values.get("classes", 2), abstention=abstention
    )
    goal = as_table_objective(objective, price, ties, [axis.weight for axis, _ in present])
    if isinstance(goal, Truth) and len(goal.chances) == len(groups):
        chances = tuple(a for i, a in enumerate(goal.chances, 1) if values[f"K{i}"] != 0)
        goal = Truth(chances, goal.price)
    return TableSpec(problem, goal)


def _profiles(content: Mapping[str, Any], path: str) -> tuple[PrivacyProfile | PrivacyCurve | None, ...]:
    stated = content.get("profile")
    if stated is None:
        return (None,)
    # a list of pairs is one profile; any other list holds several
    is_several = isinstance(stated, list) and not all(
        isinstance(item, list) and all(isinstance(number, int | float) for number in item) for item in stated
    )
    with located(_join(path, "profile")):
        return tuple(map(stated_curve, stated if is_several else [stated]))


def _parsed(
    content: Mapping[str, Any], path: str, name: str, default: str, parse: Callable[[str], Any]
) -> tuple[Any, ...]:
    """Return the texts under a name, parsed."""
    with located(_join(path, name)):
        return tuple(map(parse, read_texts(content.get(name, default), _join(path, name))))


def _abstention(content: Mapping[str, Any], path: str) -> tuple[bool, ...]:
    given = content.get("abstention", False)
    values = given if isinstance(given, list) else [given]
    if not values or not all(isinstance(value, bool) for value in values):
        raise InvalidInput(_join(path, "abstention"), given, "true, false, or a list of them")
    return tuple(values)


def _where(content: Mapping[str, Any], path: str, names: set[str]) -> Expression | None:
    text = content.get("where")
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidInput(_join(path, "where"), text, "a condition such as 'm < (K+1)/2'")
    with located(_join(path, "where")):
        return parse(text, names)


def _order(axes: Mapping[str, Axis], path: str) -> list[str]:
    """Return the quantities in an order that satisfies formulas, else in that of `QUANTITIES`."""
    sorter = TopologicalSorter({name: axis.names for name, axis in axes.items()})
    try:
        sorter.prepare()
    except CycleError as err:
        cycle = " -> ".join(map(str, err.args[1]))
        raise InvalidInput(path or "GRID", cycle, "formulas without circular references") from err
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=_place)
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return order


def _place(name: str) -> tuple[int, str]:
    """Return the sort key of a quantity, slowest first; group sizes as K."""
    return QUANTITIES.index(name if name in QUANTITIES else "K"), name


def _check_name(name: str, value: Any, path: str) -> None:
    if name not in QUANTITIES and name not in _OTHERS:
        names = (*QUANTITIES, *_OTHERS)
        alike = similar_names(name, names)
        advice = f"Did you mean {', '.join(alike)}?" if alike else f"There are {', '.join(names)}."
        raise InvalidInput(_join(path, name), value, Rule("is not a parameter of a grid"), advice)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _whole_number(value: float) -> float:
    """Return a whole value as an int, such as a count from a formula or a range."""
    return int(value) if math.isfinite(value) and value == int(value) else value
