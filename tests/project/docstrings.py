"""Omissions of public docstrings: parameters, return values, errors, units.

griffe reads the Google style for these checks and for the reference pages.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

from griffe import Docstring, DocstringSectionKind, Parser

UNITS = {
    "epsilon": "[nats]",
    "epsilons": "[nats]",
    "eps": "[nats]",
    "target_epsilon": "[nats]",
    "total_epsilon": "[nats]",
    "delta": "[probability]",
    "Delta": "[probability]",
    "deltas": "[probability]",
    "total_delta": "[probability]",
    "slack": "[probability]",
    "seconds": "[s]",
    "retry_after": "[s]",
}
"""Names whose description must carry their unit."""

OURS = {"darrm", "darrm_opt", "solver_cache", "darrm_client", "api", "darrm_papers", "tools"}

OF_TESTS = {"support", "campaigns"}
"""Packages of the tests, whose modules are imported only where a text names them."""

RETURNED = r"\b(return|returns|yield|whether)\b|; False"
"""How a sentence describes the return value if there is no section for it."""

NAMED = (DocstringSectionKind.parameters, DocstringSectionKind.attributes)

SHARED = {"timeout"}  # parameters of many methods, described by their class


def modules(package: str) -> Iterator[ModuleType]:
    """Yield a package and all modules below it."""
    top = importlib.import_module(package)
    yield top
    for info in pkgutil.walk_packages(top.__path__, f"{package}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


@cache
def _names() -> dict[str, list[Any]]:
    """Return our modules by all suffixes of their dotted names, and the classes that they define."""
    named: dict[str, list[Any]] = {}
    for package in sorted(OURS):
        for module in modules(package):
            parts = module.__name__.split(".")
            for name in (".".join(parts[start:]) for start in range(len(parts))):
                named.setdefault(name, []).append(module)
            for name, thing in vars(module).items():
                if inspect.isclass(thing) and thing.__module__ == module.__name__:
                    named.setdefault(name, []).append(thing)
    return named


def resolves(dotted: str, module: ModuleType | None = None) -> bool:
    """Return whether a dotted name resolves: from ``module``, one of our modules or classes, or the standard library.

    >>> resolves("design.privacy_profile.ProfileSearch"), resolves("design.profile")
    (True, False)
    """
    parts = dotted.split(".")
    starts: list[tuple[Any, list[str]]] = [(module, parts)]
    starts += [(owner, parts[n:]) for n in range(1, len(parts) + 1) for owner in _names().get(".".join(parts[:n]), ())]
    if parts[0] in sys.stdlib_module_names:
        starts.append((importlib.import_module(parts[0]), parts[1:]))
    if parts[0] in OF_TESTS:
        starts.append(_imported(parts))
    return any(_leads(thing, names) for thing, names in starts)


def _imported(parts: list[str]) -> tuple[ModuleType, list[str]]:
    """Return the longest module of a dotted name, and the other parts."""
    for n in range(len(parts), 1, -1):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(".".join(parts[:n])), parts[n:]
    return importlib.import_module(parts[0]), parts[1:]


def _leads(thing: Any, names: Sequence[str]) -> bool:
    for name in names:
        if hasattr(thing, name):
            thing = getattr(thing, name)
        else:  # an attribute of instances: its type is not resolved
            bodies = [inspect.getsource(base) for base in getattr(thing, "__mro__", ()) if _is_ours(base)]
            return any(re.search(rf"^ +(self\.)?{name}(:| =)", body, re.MULTILINE) for body in bodies)
    return True


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in OURS


def own(module: ModuleType) -> tuple[str, ...]:
    """Return the names of the classes and functions that a module defines for others."""
    return tuple(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", None) == module.__name__
        and (inspect.isclass(thing) or inspect.isfunction(thing))
    )


def public(module: ModuleType, names: Sequence[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a module's ``__all__`` or ``names`` that have a docstring, with the methods of classes."""
    for name in module.__all__ if names is None else names:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield f"{module.__name__}.{name}", thing
        if inspect.isclass(thing) and not issubclass(thing, Enum):
            for method, member in _members(thing).items():
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not method.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                    yield f"{module.__name__}.{name}.{method}", function


def _members(thing: type) -> dict[str, Any]:
    """Return the members of a class, including those inherited from our classes."""
    return {name: member for base in reversed(_our_bases(thing)) for name, member in vars(base).items()}


def _our_bases(thing: type) -> list[type]:
    """Return a class and those of ours from which it inherits."""
    return [base for base in thing.__mro__ if base.__module__.partition(".")[0] in OURS]


def lacks(thing: Any) -> Iterator[str]:
    """Yield the omissions of the docstring of a class, function or property."""
    text = inspect.getdoc(thing.fget if isinstance(thing, property) else thing) or ""
    if not text or (inspect.isclass(thing) and thing.__doc__ is None):
        yield "a docstring"
    elif not isinstance(thing, property):
        sections = Docstring(text).parse(Parser.google, warnings=False)
        yield from _of_parameters(thing, text, sections)
        if inspect.isfunction(thing):
            yield from _of_outcomes(thing, text, sections)


def _of_parameters(thing: Any, text: str, sections: Any) -> Iterator[str]:
    descriptions = _inherited_descriptions(thing) | _descriptions(sections)
    parameters = _parameters(thing)
    # a function's only parameter, or one named in the text or by the class, needs no separate line
    known = set() if inspect.isclass(thing) else SHARED
    undescribed = [name for name in parameters if name not in {*descriptions, *known} and f"`{name}`" not in text]
    if undescribed and (len(parameters) > 1 or inspect.isclass(thing)):
        yield f"Args: {', '.join(undescribed)}"
    for name in parameters:
        if UNITS.get(name, "") not in descriptions.get(name, text):
            yield f"{UNITS[name]} for {name}"


def _descriptions(sections: Any) -> dict[str, str]:
    return {
        item.name.split(" ")[0].strip("*"): item.description for s in sections if s.kind in NAMED for item in s.value
    }


def _inherited_descriptions(thing: Any) -> dict[str, str]:
    """Return the descriptions of the parameters of a method in the base classes."""
    owner = getattr(sys.modules[thing.__module__], thing.__qualname__.rpartition(".")[0], None)
    texts = [
        inspect.getdoc(getattr(base, thing.__name__)) or ""
        for base in (_our_bases(owner)[1:] if inspect.isclass(owner) else ())
        if thing.__name__ in vars(base)
    ]
    parsed = [Docstring(text).parse(Parser.google, warnings=False) for text in reversed(texts)]
    return {name: said for sections in parsed for name, said in _descriptions(sections).items()}


def _of_outcomes(function: Callable[..., Any], text: str, sections: Any) -> Iterator[str]:
    returns = inspect.signature(function).return_annotation
    kinds = {section.kind for section in sections}
    silent = DocstringSectionKind.returns not in kinds and not re.search(RETURNED, text, re.IGNORECASE)
    if silent and returns not in {None, "None", "NoReturn", "Self"}:
        yield "Returns"
    stated = {str(item.annotation) for s in sections if s.kind is DocstringSectionKind.raises for item in s.value}
    if missing := [
        name for name in sorted(_raised_errors(function)) if not _covers(stated, name, inspect.unwrap(function))
    ]:
        yield f"Raises: {', '.join(missing)}"


def _parameters(thing: Any) -> list[str]:
    """Return the parameters that must be described: of a function, or of a constructor."""
    if inspect.isclass(thing):
        if is_dataclass(thing):
            annotations = vars(thing).get("__annotations__", {})  # inherited parameters are described there
            return [
                field.name for field in fields(thing) if field.name in annotations and not field.name.startswith("_")
            ]
        if "__init__" not in vars(thing) or getattr(thing, "_is_protocol", False):
            return []
        signature = inspect.signature(vars(thing)["__init__"])
    else:
        signature = inspect.signature(thing)
    names = [name for name in signature.parameters if name not in {"self", "cls"} and not name.startswith("_")]
    # callers do not construct errors, they read their attributes
    return [] if inspect.isclass(thing) and issubclass(thing, Exception) else names


def _covers(stated: set[str], name: str, function: Any) -> bool:
    """Return whether an error is a documented one or a subclass of one."""
    kind = function.__globals__.get(name)
    return name in stated or "DarrmError" in stated or bool(kind and stated & {base.__name__ for base in kind.__mro__})


def _raised_errors(function: Callable[..., Any]) -> set[str]:
    """Return the errors that a function raises by name in its own scope."""
    function = inspect.unwrap(function)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    names = set()
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = getattr(node.exc.func, "id", getattr(node.exc.func, "attr", ""))
            if name[:1].isupper():
                names.add(name)
    return names
