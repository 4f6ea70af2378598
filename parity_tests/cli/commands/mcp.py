"""gradparity mcp: what an agent needs of gradparity, as tools of the Model Context Protocol."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from parity_tests.cli.commands.serve import Server
from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.terminal import complain

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = """\
Checks hand-written PyTorch derivatives by an independent oracle, with computed tolerances. Call `check` after each
change of a backward, with options ["--quick"] while you edit. Read the first record of `summary` whose verdict is not
PASS: `wrong` says which gradient is wrong and what it looks like, `smallest` has an input by hand, `to_do` what to try.
`check` judges to first order, unless --only names other checks. At the end run the command `gradparity check` with the
same arguments, which judges second order, forward mode and vmap, too. A pass says that no check found a mistake.
"""


def mcp(context: typer.Context) -> None:
    """Serve an agent by the Model Context Protocol, over stdin and stdout: check, replay, explain, formula, found.

    It needs the protocol's SDK: pip install 'gradparity[mcp]'. Exit codes: 0 the agent has gone, 2 the SDK is missing.
    """
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        complain(f"gradparity mcp needs the protocol's SDK, of version 2: pip install 'gradparity[mcp]' ({error})")
        raise typer.Exit(COULD_NOT_RUN) from error
    server = Server(context.find_root().command)
    if isinstance(context.obj, Interruption):
        context.obj.last_words = server.close
    with contextlib.closing(server):
        protocol(server).run("stdio")


def protocol(server: Server) -> MCPServer:
    """The tools, of which `check` is answered by a server that keeps the oracle of each reference."""
    from mcp.server.mcpserver import MCPServer

    tools = MCPServer("gradparity", instructions=_INSTRUCTIONS)

    @tools.tool()
    def check(kernel: str, reference: str, inputs: str, options: Sequence[str] = ()) -> dict[str, Any]:
        """Check a kernel and its backward against the PyTorch code that it replaces, to first order.

        Args:
            kernel: a function of tensors in a file, "kernel.py:fused_norm", other than that of the reference.
            reference: the PyTorch code, "norm.py:norm", or one of PyTorch's own functions, "torch.nn.functional:silu".
            inputs: the arguments with their axes: "x: (n,d), w: (d)"; "t: (n) integer(0,d)", "w: (d) constant".
            options: of `gradparity check`: "--quick", "--sizes", "d % 2 == 0", "--params", "eps=1e-5", "--dtype",
                "bfloat16", "--only", "forward,vjp".
        """
        answer = server.checked([kernel, "--reference", reference, "--inputs", inputs, *options])
        report = answer["report"] or {}
        facts = {"passed": report.get("passed", False), "summary": report.get("summary", [])}
        return {"exit_code": answer["exit_code"], **facts, "text": answer["text"]}

    @tools.tool()
    def replay(failure: str) -> dict[str, Any]:
        """Judge one failure again, at the arrays of its file: exit code 0 if it is gone, 1 if it is still there.

        Args:
            failure: the .npz file that `replay` of a record of the summary names.
        """
        return _ran("replay", failure)

    @tools.tool()
    def explain(check: str) -> dict[str, Any]:
        """Say what a check catches, with an example, and how to fix it; `check`: its name, such as "vjp"."""
        return _ran("explain", check)

    @tools.tool()
    def formula(operator: str) -> dict[str, Any]:
        """Show PyTorch's own derivative formulas of an operator, and what JAX has; `operator`: such as "tanh"."""
        return _ran("formula", operator)

    @tools.tool()
    def found(words: Sequence[str]) -> dict[str, Any]:
        """Show defects of PyTorch, JAX and packages whose entry has all of these words, such as ["layer_norm"].

        Look here before you blame your own formula where it calls another operator. Exit code 1: no such entry.
        """
        return _ran("found", *words)

    return tools


def _ran(*arguments: str) -> dict[str, Any]:
    """Run a command in a process of its own."""
    command = (sys.executable, "-m", "parity_tests", arguments[0], "--", *arguments[1:])
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return {"exit_code": done.returncode, "text": done.stdout + done.stderr}
