"""Verb ``darrm mcp``: verbs of this command as tools for assistants, by the Model Context Protocol on stdio.

A tool takes what its verb takes, by the names of the options, and runs it in a process of its own; its answer is what
``--json`` prints. Nothing that a verb can do to files or programs is offered: what it reads it is given as text.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from darrm.cli import VERBS, load
from darrm.cli.parser import Command, CommandOption, choices

TOOLS = {"plan": "plan", "design": "solve", "verify": "verify", "cost": "cost", "audit": "audit"}
"""Tools by verbs that say more than a question; any other declared question is a tool of its own (`tool_verbs`)."""

LEFT_OUT = {"command", "pairs", "output", "plot", "votes", "solution", "cache", "unpublished", "checker", "json"}
"""Parameters that read or write files, run programs, or tell what is not for publication."""

GIVEN = {"verify": "file", "audit": "subject"}
"""Argument of a verb whose file a tool is given as text, by the name of `CONTENT`."""

CONTENT = "content"

MAX_SECONDS = 300.0  # time after which a tool is stopped [s]

INSTRUCTIONS = (
    "Design, prove and account for private votes: K voters, each (epsilon, Delta)-differentially private or not (inf), "
    "and one released label. Every epsilon and delta in an answer is proved, unless it says otherwise. Ask plan "
    "first where it is open which mechanism to use; cost says what a mechanism costs or which parameter fits; verify "
    "proves an answer again; audit tests a claim about somebody else's vote."
)


def mcp() -> None:
    """Offer plan, design, verify, cost and audit to an assistant, by the Model Context Protocol on stdin and stdout.

    For programs that start it themselves: name `darrm mcp` as a server in their settings. It serves until its input
    ends, answers from this machine alone, and neither reads nor writes a file. It needs the extra `mcp`.
    """
    from darrm_opt.optional_packages import require

    require("mcp", "darrm mcp")
    require("anyio", "darrm mcp").run(_serve)


@cache
def tool_verbs() -> dict[str, str]:
    """Return the verb of each tool: those of `TOOLS`, and every question that no other verb answers."""
    from darrm.cli.verbs.question import question_verbs

    return TOOLS | {path: path for path in question_verbs(VERBS)}


def command_of(tool: str) -> Command:
    """Return the verb of a tool."""
    from darrm.cli.verbs.question import question_command

    verb = tool_verbs()[tool]
    return Command.of(load(verb)) if verb in VERBS else cast("Command", question_command(verb))


def _json_type(option: CommandOption, name: str) -> dict[str, Any]:
    """Return the type of an option's value in JSON: of a declared number with its range, else as it is typed."""
    from darrm_opt.fields import FIELDS

    if option.several:
        return {"type": "array", "items": {"type": "string"}}
    if (words := choices(option)) is not None:
        return {"enum": words}
    field = option.field or FIELDS.get(name)
    if field is not None and field.kind in ("text", "choice"):
        return {"type": "string"}
    if field is None or field.kind not in ("whole", "real"):
        return {"type": ["number", "string"]}
    names = {"least": "minimum", "above": "exclusiveMinimum", "most": "maximum", "below": "exclusiveMaximum"}
    number: dict[str, Any] = {"type": "integer" if field.kind == "whole" else "number"}
    number |= {names[limit]: value for limit, value in field.limits.items()}
    return {"anyOf": [number, {"enum": ["inf"]}]} if field.infinite else number


def _required(verb: str) -> list[str]:
    """Return the parameters of a tool without which its verb, or its question, is refused."""
    from darrm.cli.question_options import COMPOSED
    from darrm_opt.questions.registry import QUESTIONS

    if verb in VERBS:
        needed = [each.name for each in Command.of(load(verb)).parameters if each.default is inspect.Parameter.empty]
        return [CONTENT if name == GIVEN.get(verb) else name for name in needed]
    absent = [each.name for each in QUESTIONS[verb].stated() if each.default is dataclasses.MISSING]
    return [option for name in absent for option in COMPOSED.get(name, {name: None})]


@cache
def tools() -> dict[str, dict[str, Any]]:
    """Return what each tool does, and the schema of its arguments."""
    found = {}
    for tool, verb in tool_verbs().items():
        properties: dict[str, Any] = {}
        for each in command_of(tool).parameters:
            # What is offered is what can do no harm: a tool is called by a program that reads untrusted text.
            if each.name in LEFT_OUT or not isinstance(each.declared, CommandOption):
                continue
            kind = {"type": "boolean"} if each.is_flag else _json_type(each.declared, each.name)
            description = f"{each.declared.help} [{each.declared.metavar or 'flag'}]"
            properties[each.name] = kind | {"description": description}
        if verb == "cost":
            properties["mechanism"] = {"type": "string", "description": "The mechanism, such as laplace; or bagging."}
        if verb == "audit":
            properties["subject"] = {"type": "string", "description": "The name of a mechanism."}
        if verb in GIVEN:
            properties[CONTENT] = {"type": "string", "description": "The file's text, in place of its name."}
        # Closed: a misspelled name is an error, and not a default.
        found[tool] = {
            "type": "object",
            "properties": properties,
            "required": _required(verb),
            "additionalProperties": False,
        }
    return found


def words_of(tool: str, arguments: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the words of the command that a tool runs, and its standard input."""
    known, verb = tools()[tool]["properties"], tool_verbs()[tool]
    flags = {each.name: each.flags for each in command_of(tool).parameters}
    words, given = [verb, "--json"], ""
    for name, value in arguments.items():
        if name not in known:
            raise ValueError(f"{tool} takes no {name}; it takes {', '.join(known)}")
        if value is None:
            continue
        if name == CONTENT:
            # By standard input: a tool is never given the name of a file.
            words, given = [*words, "--", "-"], str(value)
        elif not flags[name]:
            if verb == "audit":
                from darrm_opt.mechanisms import mechanism_names

                # Else the argument of `audit` could name a file, or a function to import.
                if value not in mechanism_names():
                    raise ValueError(f"{name} must be one of {', '.join(mechanism_names())}")
            words += ["--", str(value)]
        elif isinstance(value, bool):
            words[1:1] = [flags[name][0]] if value else flags[name][1:]
        else:
            # In one word with its value, before "--": a value that begins with a dash stays a value.
            words[1:1] = [f"{flags[name][0]}={each}" for each in (value if isinstance(value, list) else [value])]
    return words, given


async def _serve() -> None:
    from darrm_opt._version import __version__
    from darrm_opt.optional_packages import require

    server, stdio, types = (require(f"mcp.{name}", "darrm mcp") for name in ("server", "server.stdio", "types"))

    async def list_tools(context: Any, request: Any) -> Any:  # noqa: ARG001 — the protocol's
        about = {tool: inspect.getdoc(command_of(tool).verb) or "" for tool in tool_verbs()}
        found = tools().items()
        return types.ListToolsResult(
            tools=[types.Tool(name=tool, description=about[tool], input_schema=schema) for tool, schema in found]
        )

    async def call_tool(context: Any, request: Any) -> Any:  # noqa: ARG001 — the protocol's
        # Text for the reader and data for the program; an error has text alone.
        said, content = await _run(request.name, request.arguments or {})
        text = types.TextContent(type="text", text=said)
        return types.CallToolResult(content=[text], structured_content=content, is_error=content is None)

    made = server.Server(
        "darrm", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
    async with stdio.stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


async def _run(tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return what a tool says, and its answer; None where it has none."""
    from darrm_opt.optional_packages import require

    if tool not in tool_verbs():
        return f"There is no tool {tool!r}: there are {', '.join(tool_verbs())}.", None
    try:
        words, given = words_of(tool, arguments)
    except ValueError as err:
        return str(err), None
    anyio = require("anyio", "darrm mcp")  # that of the SDK
    program = [sys.executable, "-c", "from darrm.cli import main; main()", *words]
    with anyio.move_on_after(MAX_SECONDS) as scope:
        done = await anyio.run_process(program, input=given.encode(), check=False)
    if scope.cancelled_caught:
        return f"{tool} was stopped after {MAX_SECONDS:g} s: ask for less.", None
    said, answer = done.stderr.decode().strip(), done.stdout.decode().strip()
    return "\n".join(filter(None, (answer, said))), json.loads(answer) if answer else None
