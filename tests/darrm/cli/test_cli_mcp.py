"""``darrm mcp``: the tools over stdio, by the client of the SDK of the protocol."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest
from support.darrm_runner import PROGRAM
from support.paths import ROOT

from darrm.cli.verbs.mcp import LEFT_OUT, tool_verbs, tools, words_of
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

ASKED: list[tuple[str, dict[str, Any]]] = [
    ("design", {"K": 5, "m": 2, "epsilon": 0.5}),
    ("cost", {"mechanism": "laplace", "K": 5, "classes": 3, "scale": 4, "queries": 2, "delta": 0}),
    ("audit", {"subject": "permute_and_flip", "K": 5, "rate": 0.5, "total_epsilon": 0.9}),
    ("audit", {"content": "votes_0,votes_1,chance_0,chance_1\n1,0,0.6,0.4\n0,1,0.4,0.6\n", "total_epsilon": 0.41}),
    ("plan", {"K": 5, "epsilon": 0.5, "fresh": True, "queries": 2, "total_epsilon": 2, "total_delta": 1e-3}),
    ("verify", {"content": '{"K": 3, "m": 1, "epsilon": 0.1, "gamma": [1, 1, 1, 1]}'}),
    ("tradeoff", {"K": 5, "epsilon": 0.5, "ms": "1,2"}),
    ("cost", {"mechanism": "laplace", "K": 5, "scale": -4, "queries": 2, "delta": 0}),
    ("audit", {"subject": "os:getcwd", "K": 5, "total_epsilon": 0.9}),
    ("audit", {"command": "true", "K": 5, "total_epsilon": 0.9}),
    ("nothing", {}),
]


def test_the_tools_answer_over_stdio() -> None:
    anyio = pytest.importorskip("anyio")
    mcp, client_module = pytest.importorskip("mcp"), pytest.importorskip("mcp.client.client")
    stdio = pytest.importorskip("mcp.client.stdio")
    command, *words = PROGRAM
    started = mcp.StdioServerParameters(
        command=command, args=[*words, "mcp"], env={"PYTHONPATH": str(ROOT), "DARRM_CACHE_URL": "memory"}
    )
    answers: list[Any] = []

    async def ask() -> None:
        async with client_module.Client(stdio.stdio_client(started)) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [*tool_verbs()]
            assert all(tool.description and tool.input_schema["properties"] for tool in listed.tools)
            for tool, arguments in ASKED:
                answers.append(await client.call_tool(tool, arguments))

    anyio.run(ask)
    design, cost, refuted, table, plan, verified, tradeoff, *refused = answers
    assert [each.is_error for each in answers] == [False] * 7 + [True] * 4
    assert tradeoff.structured_content["m"] == [1, 2]
    assert len(design.structured_content["gamma"]) == 6
    assert cost.structured_content["epsilon"] == pytest.approx(
        LaplaceMaximum(5, 3, 4.0).epsilon(2, 0.0), rel=1e-12
    )  # in another process
    assert refuted.structured_content["private"] is False
    assert "refuted" in refuted.content[0].text
    assert table.structured_content["private"] is True
    assert plan.structured_content["verdict"]
    assert verified.structured_content["private"] is False
    for each, said in zip(refused, ["--scale", "must be one of", "takes no command", "no tool"], strict=True):
        assert said in each.content[0].text


def test_no_tool_accepts_a_file_or_a_program() -> None:
    named = {name for schema in tools().values() for name in schema["properties"]}
    assert not named & {*LEFT_OUT, "file"}
    assert sys.executable not in str(tools())


def test_the_types_and_ranges_of_a_tool_are_those_of_the_fields() -> None:
    for tool in ("plan", "design", "tradeoff"):
        properties = tools()[tool]["properties"]
        assert {**properties["K"], "description": ""} == {"type": "integer", "minimum": 1, "description": ""}
        assert properties["epsilon"]["anyOf"] == [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]
    assert tools()["plan"]["properties"]["prior"]["type"] == "string"


def test_necessary_arguments_of_a_tool_are_required() -> None:
    required = {tool: schema["required"] for tool, schema in tools().items()}
    assert required["verify"] == ["content"]
    assert required["cost"] == ["mechanism"]
    assert required["table"] == ["group"]
    assert required["calibrate"] == ["total_epsilon", "K", "mechanism"]
    assert all(set(names) <= tools()[tool]["properties"].keys() for tool, names in required.items())


def test_arguments_become_words_of_the_command() -> None:
    words, given = words_of("plan", {"K": 5, "fresh": True, "Delta": 1e-5, "epsilon": None})
    assert (sorted(words[1:]), given) == (["--K=5", "--fresh", "--json", "--voter-delta=1e-05"], "")
    assert words_of("verify", {"content": "[1]"}) == (["verify", "--json", "--", "-"], "[1]")
    assert words_of("design", {"group": ["K=2", "K=3"]})[0][1:] == ["--group=K=2", "--group=K=3", "--json"]
    with pytest.raises(ValueError, match="takes no output"):
        words_of("design", {"output": "x"})
