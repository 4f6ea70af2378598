"""`gradparity mcp`: an agent that follows the protocol judges a kernel, and reads what is wrong."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from parity_tests.cli.app import app
from parity_tests.cli.commands.serve import Server
from parity_tests.suite.cli.test_serve import KERNEL, REFERENCE

pytest.importorskip("mcp.server.mcpserver", reason="it needs the extra mcp")
pytestmark = pytest.mark.slow  # the quick tests run without the extra


def _asked(*calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """The names of the tools, and the answers to calls, of a process that a client has started."""
    import anyio
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    async def asked() -> tuple[list[str], list[Any]]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "gradparity", "mcp"])
        async with Client(server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
        return names, [json.loads(answer.content[0].text) for answer in answers]

    return anyio.run(asked)


def test_an_agent_judges_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    for name, factor in (("right", "1.0"), ("wrong", "2.0")):
        (tmp_path / f"{name}.py").write_text(KERNEL.replace("BEFORE", "pass").replace("FACTOR", factor))
    given = {"reference": f"{tmp_path}/reference.py:norm", "inputs": "x: (n,d), w: (d)"}
    given["options"] = ["--quick", "--only", "forward,vjp", "--dtype", "float32", "--failures", f"{tmp_path}/failures"]
    kernels = [("check", {"kernel": f"{tmp_path}/{name}.py:f", **given}) for name in ("right", "wrong", "none")]
    asked = (("explain", {"check": "vjp"}), ("found", {"words": ["kron", "transposed"]}))
    names, (right, wrong, none, explained, known) = _asked(*kernels, *asked)
    assert names == ["check", "replay", "explain", "formula", "found"]
    assert (right["exit_code"], right["passed"]) == (0, True), right["text"]
    assert (wrong["exit_code"], wrong["passed"]) == (1, False), wrong["text"]
    assert wrong["summary"][0]["wrong"][0]["label"] == "x_bar"
    assert (none["exit_code"], none["summary"]) == (2, [])
    assert "no such file" in none["text"]
    assert explained["exit_code"] == 0
    assert "vjp" in explained["text"]
    assert known["exit_code"] == 0
    assert known["text"].startswith("25. PyTorch: `kron` of a transposed matrix\n")


def test_each_tool_says_what_its_arguments_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    monkeypatch.setattr(logging, "basicConfig", lambda **options: None)  # which the SDK sets for the whole process

    from parity_tests.cli.commands.mcp import protocol

    server = Server(typer.main.get_command(app))
    tools = {tool.name: tool for tool in anyio.run(protocol(server).list_tools)}
    server.close()
    assert set(tools["check"].input_schema["properties"]) == {"kernel", "reference", "inputs", "options"}
    assert tools["check"].input_schema["required"] == ["kernel", "reference", "inputs"]
    assert all(tool.description for tool in tools.values())
