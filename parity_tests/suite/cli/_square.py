"""A case file of one operator, and the command line in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from parity_tests.cli.app import app

SPEC = """\
import numpy as np
import torch
from parity_tests import OpSpec

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
"""
FUNCTION = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, output_bar):
        (x,) = ctx.saved_tensors
        return {gradient}
"""
RIGHT = SPEC + FUNCTION.format(gradient="2 * x * output_bar") + "\ncandidate = Square.apply\n"
WRONG = SPEC + FUNCTION.format(gradient="x * output_bar") + "\ncandidate = Square.apply\n"


def gradparity(*args: str) -> Result:
    """In this process: another one takes seconds to start; `test_guard.py` has that."""
    here = ("--no-isolate",) if args and args[0] in ("run", "check") and "--help" not in args else ()
    return CliRunner().invoke(app, [*args, *here])


QUICK = ("--only", "vjp", "--dtype", "float64")
