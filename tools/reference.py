"""Reference pages, generated from verbs, the description of the API, settings and metrics."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from api.observability.metrics import describe
from api.settings import PREFIX, Settings
from darrm.cli import examples_of, load, question_commands, verbs_by_topic
from darrm.cli.output import ExitCode
from darrm.cli.parameters import sampling_page
from darrm.cli.parser import EVERY_COMMAND, Argument, Command, CommandOption, Parameter
from tools.openapi import openapi_text


def commands() -> str:
    """Return the page about ``darrm``."""
    lines = [
        "# The command line",
        "",
        "`darrm COMMAND [OPTIONS]`; `darrm --help` and `darrm COMMAND --help` print this page in parts,",
        "`darrm help COMMAND` prints all of it, `darrm --version` prints the version, and",
        "`darrm --print-completion SHELL` a script for completion in bash, zsh, tcsh, fish or powershell. With",
        "`--json`, which every command has but `mcp`, the answer is JSON on stdout, and all else goes to stderr.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code:d} | {code.meaning} |" for code in ExitCode),
    ]
    lines += ["", "## Samples", "", "```text", sampling_page(), "```"]
    sections = {title: {name: Command.of(load(name)) for name in names} for title, names in verbs_by_topic().items()}
    for title, found in (sections | {"Questions": question_commands()}).items():
        lines += ["", f"## {title}"]
        for name, command in found.items():
            lines += ["", f"### darrm {name}", "", *_verb(command, examples_of(name))]
    return "\n".join(lines) + "\n"


def _verb(command: Command, examples: Iterable[str]) -> Iterator[str]:
    yield _code_as_it_is(inspect.getdoc(command.verb) or "")
    yield from ["", "```text", *examples, "```", ""]
    yield "| option | value | default | what |"
    yield "|---|---|---|---|"
    for parameter in command.parameters:
        if isinstance(parameter.declared, CommandOption) and parameter.declared.panel == EVERY_COMMAND:
            continue
        yield "| " + " | ".join(_cell(cell) for cell in _parameter(parameter)) + " |"


def _parameter(parameter: Parameter) -> tuple[str, str, str, str]:
    declaration = parameter.declared
    if isinstance(declaration, Argument):
        is_required = parameter.default is inspect.Parameter.empty
        return f"*{declaration.metavar}*", "", "needed" if is_required else "", declaration.help
    default = declaration.otherwise or ("" if parameter.default in {None, False, ""} else f"`{parameter.default}`")
    return f"`{declaration.flag}`", declaration.metavar, default, declaration.help


def routes() -> str:
    """Return the page about the HTTP API."""
    document: dict[str, Any] = json.loads(openapi_text())
    schemas = document["components"]["schemas"]
    lines = [
        "# HTTP routes",
        "",
        "Generated from [openapi.json](../openapi.json), the service's `/openapi.json`. How to use them:",
        "[the HTTP API](../api.md). Errors are problem details (RFC 9457), media type `application/problem+json`.",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", *_operation(operation)]
    lines += ["", "## Bodies and answers"]
    for name, schema in sorted(schemas.items()):
        lines += ["", f"### {name}", "", *_schema(schema)]
    return "\n".join(lines) + "\n"


def service() -> str:
    """Return the page about the settings and metrics of the service."""
    lines = [
        "# Settings and metrics",
        "",
        "How to use them: [operating the service](../operating.md). `darrm serve --show-settings` prints the settings",
        "with their values.",
        "",
        "## Settings",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        unset = field.default_factory is not None or field.default in {None, ()}
        value = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        default = "" if unset else f"`{value.lower()}`"
        lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {_cell(field.description or '')} |")
    lines += ["", "## Metrics", "", "| metric | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in describe().items()]
    return "\n".join(lines) + "\n"


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    yield f"**{operation['summary']}.** {_text(operation.get('description', ''))}".rstrip()
    body = operation.get("requestBody", {}).get("content", {})
    for media, content in body.items():
        yield ""
        yield f"Body ({media}): {_type(content['schema'])}"
    if operation.get("parameters"):
        yield ""
        yield "| parameter | in | type | default | what |"
        yield "|---|---|---|---|---|"
        for parameter in operation["parameters"]:
            default = "needed" if parameter.get("required") else _default(parameter["schema"])
            description = parameter.get("description", "")
            kind = _cell(_type(parameter["schema"]))
            yield f"| `{parameter['name']}` | {parameter['in']} | {kind} | {default} | {_cell(description)} |"
    yield ""
    yield "| status | answer | what |"
    yield "|---|---|---|"
    for status, answer in sorted(operation["responses"].items()):
        kinds = ", ".join(_answer(media, content) for media, content in answer.get("content", {}).items())
        yield f"| {status} | {_cell(kinds)} | {_cell(answer.get('description', ''))} |"


def _answer(media: str, content: dict[str, Any]) -> str:
    schema = content.get("schema", {})
    return f"{_type(schema)} ({media})" if "$ref" in schema or "anyOf" in schema else media


def _schema(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("description"):
        yield _text(schema["description"])
        yield ""
    required = set(schema.get("required", ()))
    fields = schema.get("properties", {})
    if not fields:
        yield f"Type: {_type(schema)}"
        return
    yield "| field | type | default | what |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        default = "needed" if name in required else _default(field)
        yield f"| `{name}` | {_cell(_type(field))} | {default} | {_cell(field.get('description', ''))} |"


def _type(schema: dict[str, Any]) -> str:
    """Return a type in words, with its range."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(item)}`" for item in schema["enum"])
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return " or ".join(dict.fromkeys(_type(item) for item in schema[keyword])) + _range(schema)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{_range(schema)}"
    kind = schema.get("type", "anything")
    return (" or ".join(kind) if isinstance(kind, list) else str(kind)) + _range(schema)


_RANGE = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "maxLength": "at most {} characters",
}


def _range(schema: dict[str, Any]) -> str:
    limits = [template.format(schema[name]) for name, template in _RANGE.items() if name in schema]
    return f", {', '.join(limits)}" if limits else ""


def _default(schema: dict[str, Any]) -> str:
    return f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if schema.get("default") is not None else ""


def _text(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _cell(text: str) -> str:
    """Return text for a table cell: on one line, with escaped bars and brackets."""
    text = re.sub(r"\](?= \[)", "\\]", _text(text))  # "[a, b] [unit]" would be a link
    return text.replace("|", "\\|").replace("<", "&lt;")


def _code_as_it_is(text: str) -> str:
    return text.replace("<", "&lt;")
