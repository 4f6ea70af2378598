"""Whether a candidate asks for a GPU: where there is none, only one of its branches runs."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

OTHER_BRANCH = "the candidate asks whether its input is on a GPU: the other branch has not run"
_OF_TENSORS = ("is_cuda", "is_cpu", "is_xpu", "is_mps")
_OF_PYTORCH = ((torch.cuda, "is_available"), (torch.cuda, "device_count"), (torch.accelerator, "is_available"))
_OURS = ("parity_tests.harness.", "torch.")


def asks_for_gpu(call: Callable[[], object]) -> bool:
    """Call a function, and return whether code that is neither PyTorch's nor the harness's asks for a GPU meanwhile.

    It asks if it reads `x.is_cuda` or the like, calls `torch.cuda.is_available()` or the like, or reads `x.device` in a
    function that has the word "cuda" in it: `device=x.device` alone puts a new tensor where the input is. What the call
    raises says nothing. PyTorch is as before afterwards; while the call runs, other threads see it watched, too.
    """
    questions = _Questions()
    with contextlib.suppress(Exception), questions.watched():
        call()
    return questions.asked


def text_asks_for_gpu(text: str) -> bool:
    """Return whether the text of a Python file has what `asks_for_gpu` looks for, of a file that does not run here."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # it could not be loaded, which is told elsewhere
        return False
    return any(_asks(node) for node in ast.walk(tree))


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        cuda = isinstance(node.value, ast.Attribute | ast.Name) and ast.unparse(node.value).endswith("cuda")
        return node.attr in _OF_TENSORS or (cuda and node.attr in ("is_available", "device_count"))
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    words = any(isinstance(x, ast.Constant) and isinstance(x.value, str) and "cuda" in x.value for x in sides)
    return words and any("device" in ast.unparse(x) for x in sides)


class _Questions:
    """The questions about a GPU that a candidate has asked.

    Attributes:
        asked: has a candidate asked for a GPU?
    """

    def __init__(self) -> None:
        self.asked = False

    def _note(self, decides: Callable[[CodeType], bool] = lambda code: True) -> None:
        """Note a question that was asked two calls above, if a candidate's code is there."""
        frame = sys._getframe(2)
        name = frame.f_globals.get("__name__")
        if not str(name).startswith(_OURS) and name != "torch" and decides(frame.f_code):
            self.asked = True

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """A block in which questions are noted: those of a backward, too, which no mode of PyTorch sees."""
        with contextlib.ExitStack() as stack:
            for name in _OF_TENSORS:
                stack.enter_context(_replaced(torch.Tensor, name, property(self._reading(name, lambda code: True))))
            device = property(self._reading("device", lambda code: _has_word(code, "cuda")))
            stack.enter_context(_replaced(torch.Tensor, "device", device))
            for module, name in _OF_PYTORCH:
                stack.enter_context(_replaced(module, name, self._calling(getattr(module, name))))
            yield

    def _reading(self, name: str, decides: Callable[[CodeType], bool]) -> Callable[[torch.Tensor], Any]:
        own = getattr(torch.Tensor, name)

        def read(x: torch.Tensor) -> Any:
            self._note(decides)
            return own.__get__(x, type(x))

        return read

    def _calling(self, function: Callable) -> Callable:
        def called(*args: Any, **kwargs: Any) -> Any:
            self._note()
            return function(*args, **kwargs)

        return called


def _has_word(code: CodeType, word: str) -> bool:
    """True if a function has a word among its constants or names, its docstring apart."""
    flag = getattr(inspect, "CO_HAS_DOCSTRING", code.co_flags)  # before Python 3.13 None stands where there is none
    texts = [x for x in code.co_consts[1 if code.co_flags & flag else 0 :] if isinstance(x, str)]
    return any(word in text for text in (*texts, *code.co_names))


@contextlib.contextmanager
def _replaced(holder: Any, name: str, value: object) -> Iterator[None]:
    """A block in which an attribute is another one; one that was inherited is inherited again afterwards."""
    own = vars(holder).get(name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(holder, name)
        else:
            setattr(holder, name, own)
