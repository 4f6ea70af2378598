"""What holds under fault, as a table: what was tried, what is told, and with which exit code or exception it ends.

A line for each fault that is quick to try in this process; where nothing is said of an exit code, it is 2. What needs a
process, a signal or a folder is in the other files, and what anybody may have written to a file in `test_replay.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec
from parity_tests.suite.faults._run import SINE, check
from parity_tests.suite.marks import slow_after

FORM = '; write the axes of each input and output by name, such as "(n,d),(m,d)->(n,m)", with "()" for a scalar'

SIGNATURES = [  # and the character that the mistake is at
    ("(n)→(n)", 4, "write \"->\" for '→'"),
    ("(n)=>(n)", 4, "write \"->\" for '=>'"),
    ("(n)-(n)", 4, "write \"->\" for '-'"),
    ("(n)—>(n)", 4, "write \"->\" for '—>'"),
    ("(n)-->(n)", 4, "write \"->\" for '-->'"),
    ("(n)", 4, 'there is no "->" between inputs and outputs'),
    ("(n)->(n)->(n)", 9, 'there is a second "->"'),
    ("->(n)", 1, "there is no input"),
    ("(n)->", 6, "there is no output"),
    ("n->(n)", 1, 'write parentheses around the axes of an argument, "(n)"'),
    ("(n)->n", 6, 'write parentheses around the axes of an argument, "(n)"'),
    ("[n]->[n]", 1, "write \"(\" for '['"),
    ("(n->(n)", 1, "this parenthesis is not closed"),
    ("(n)->(n", 6, "this parenthesis is not closed"),
    ("(n)(d)->(n)", 4, "write a comma between two arguments"),
    ("(n),->(n)", 4, "there is no argument after this comma"),
    ("(n d)->(n)", 2, "write a comma between the axes 'n d'"),
    ("(n,)->(n)", 4, "there is a comma without an axis"),
    ("(n,...)->(n)", 4, "'...' stands for leading axes, and must come first"),
    ("(n)->(2n)", 7, "'2n' is neither a name nor a number; name the axis, and say how long it is by OpSpec(sizes="),
    ("(n-1)->(n)", 2, "'n-1' is neither a name nor a number; name the axis, and say how long it is by OpSpec("),
    ("(²)->(²)", 2, "'²' is neither a name nor a number"),
    ("(99999999999999)->(n)", 2, "an axis of size 99999999999999 fits no memory"),
    ("(-1)->(-1)", 2, "'-1' is neither a name nor a number"),
    ("(1.5)->(1.5)", 2, "'1.5' is neither a name nor a number"),
    ("(1e3)->(n)", 2, "'1e3' is neither a name nor a number"),
    ("(n)->(٣)", 7, "'٣' is neither a name nor a number"),
]

KINDS = [  # of fields of a spec: a TypeError
    ({"signature": 3}, 'signature must be text, such as "(n,d)->(n)", got 3'),
    ({"sizes": 3}, 'sizes must be text, such as "n <= m", got 3'),
    ({"domains": "positive"}, 'domains must be a dictionary, such as {"x": "positive"}, got \'positive\''),
    ({"domains": {3: "positive"}}, 'the keys of domains must be names, such as {"x": "positive"}, got 3'),
    ({"params": 3}, 'params must be a dictionary, such as {"eps": 1e-5}, got 3'),
    ({"kinks": {"x": "a"}}, "kinks[\"x\"] must be a sequence of numbers, such as (-1.0, 1.0), got 'a'"),
    ({"kinks": {"x": ("a",)}}, "kinks[\"x\"] must be a sequence of numbers, such as (-1.0, 1.0), got ('a',)"),
    ({"kinks": {"x": 1.0}}, 'kinks["x"] must be a sequence of numbers, such as (-1.0, 1.0), got 1.0'),
    ({"conventions": ["x"]}, 'conventions must be a dictionary, such as {"x": "the reason"}, got [\'x\']'),
    ({"conventions": {"x": 3}}, 'conventions["x"] must be text, got 3'),
    ({"equations": 3}, 'equations must be a dictionary, such as {"x_bar": "equation (3)"}, got 3'),
    ({"constants": "x"}, "constants must be a sequence of names; write constants=('x',)"),
    ({"constants": 3}, 'constants must be a sequence of names, such as ("mask",), got 3'),
    ({"input_names": "x"}, "input_names must be a sequence of names; write input_names=('x',)"),
    ({"input_names": (3,)}, 'input_names must be a sequence of names, such as ("x", "y"); 3 is none'),
    ({"dtypes": 3}, 'dtypes must be a sequence of names, such as ("float64",), got 3'),
    ({"signature": None, "inputs": 3}, "inputs must be a sequence of arrays; write inputs=(x,), got int"),
    (
        {"signature": None, "inputs": np.ones(3)},
        "inputs must be a sequence of arrays; write inputs=(x,), got ndarray",
    ),
]

NO_RULE = "is no rule; write comparisons of axes and integers, separated by commas"
AN_ARRAY = "give arrays of float64, float32, bfloat16, float16, complex128, complex64 or of integers"
VALUES = [  # of fields of a spec: a ValueError
    ({"input_names": ("x", "y")}, "2 input_names for 1 inputs"),
    ({"input_names": ("",)}, "input_names has an empty name"),
    ({"signature": "(n),(n)->(n)", "input_names": ("x", "x")}, "input_names has 'x' twice; the names must differ"),
    ({"output_names": ("y", "z")}, "2 output_names for 1 outputs"),
    ({"signature": "(n)->(n),(n)", "output_names": ("y", "y")}, "output_names has 'y' twice; the names must differ"),
    ({"domains": {"y": "real"}}, "domains names 'y'; the inputs are x"),
    ({"domains": {"x": "postive"}}, "unknown domain 'postive'; there are real, extended, positive"),
    ({"kinks": {"y": (0.0,)}}, "kinks names 'y'; the inputs are x"),
    ({"kinks": {"x": (float("nan"),)}}, 'kinks["x"] must be places of finite numbers, got nan'),
    ({"kinks": {"x": (0.0, float("-inf"))}}, 'kinks["x"] must be places of finite numbers, got -inf'),
    ({"kinks": {"x": (10**400,)}}, 'kinks["x"] must be places of finite numbers, got 1000'),
    ({"constants": ("y",)}, "constants names 'y'; the inputs are x"),
    ({"constants": ("x",)}, "no input is differentiated; an operator without one has no derivative"),
    ({"dtypes": ()}, "dtypes is empty, so nothing would be compared"),
    ({"dtypes": ("float8",)}, "unknown dtype 'float8'; there are float64, float32"),
    ({"dtypes": ("int32",)}, "unknown dtype 'int32'; there are float64, float32"),
    ({"sizes": ""}, NO_RULE),
    ({"sizes": "n >"}, NO_RULE),
    ({"sizes": "n = -1"}, NO_RULE),
    ({"sizes": "n = 1.5"}, NO_RULE),
    ({"sizes": "n = 3 // 0"}, NO_RULE),
    ({"sizes": "n = 9**9**9"}, NO_RULE),
    ({"sizes": "n % 7 = 0"}, NO_RULE),
    ({"sizes": "__import__('os').getpid() = n"}, NO_RULE),
    ({"sizes": "k = 3"}, "names the axis 'k'; the axes are n"),
    ({"sizes": "n = n + 1"}, "defines the axis 'n' by itself, or a second time"),
    ({"sizes": "n > 5, n < 3"}, "no sizes near n = 4 keep to the rules"),
    ({"inputs": (np.ones(3),)}, "or inputs, not both"),
    ({"signature": None}, "or inputs, not neither"),
    ({"signature": None, "inputs": ()}, "inputs is empty; an operator without inputs has no derivative"),
    ({"signature": None, "inputs": (np.array([1, 2]),)}, "no input is differentiated"),
    ({"signature": None, "inputs": (np.array([True]),)}, "no input is differentiated"),
]

ENTRIES = [  # of fields: a TypeError, of what is in them
    ({"name": ""}, "OpSpec: name must be a non-empty string, got ''"),
    ({"name": None}, "OpSpec: name must be a non-empty string, got None"),
    ({"name": b"op"}, "OpSpec: name must be a non-empty string, got b'op'"),
    ({"primal": None}, "primal must be a JAX function, got NoneType"),
    ({"primal": 3}, "primal must be a JAX function, got int"),
    ({"vjp": 3}, "vjp must be a JAX function, got int"),
    ({"tolerance": 1e-5}, "unexpected keyword argument 'tolerance'"),
    ({"dtypes": (torch.float64,)}, 'dtypes must be a sequence of names, such as ("float64",); torch.float64 is none'),
    ({"domains": {"x": 3}}, "a domain is a name, a Domain or a sampler (generator, shape) -> array, got 3"),
    ({"domains": {"x": None}}, "a domain is a name, a Domain or a sampler (generator, shape) -> array, got None"),
    ({"domains": {"x": (0, 1)}}, "a domain is a name, a Domain or a sampler (generator, shape) -> array, got (0, 1)"),
    ({"signature": None, "inputs": {"x": np.ones(3)}}, "inputs must be a sequence of arrays; write inputs=(x,), got"),
    ({"signature": None, "inputs": (1.0,)}, f"the input x is float; {AN_ARRAY}"),
    ({"signature": None, "inputs": ("abc",)}, f"the input x is str; {AN_ARRAY}"),
    ({"signature": None, "inputs": ([1.0, 2.0],)}, f"the input x.0 is float; {AN_ARRAY}"),
    ({"signature": None, "inputs": (np.array([2**70]),)}, f"the input x is object; {AN_ARRAY}"),
    ({"signature": None, "inputs": (np.ones(3, ">f8"),)}, f"the input x is >f8; {AN_ARRAY}"),
    ({"signature": None, "inputs": (np.array(["2020"], "M8"),)}, f"the input x is datetime64[Y]; {AN_ARRAY}"),
]

NUMPY = "it gives an array of JAX's to NumPy (at case.py:8, in <lambda>); the oracle must be written in JAX: write jnp"
VALUE = (
    "it asks for the value of an array of JAX's, which has none while it is traced (at case.py:8, in <lambda>); "
    "write jnp.where in place of an if, and leave out float() and int()"
)
PRIMALS = [
    ("lambda x: np.sin(x)", NUMPY),
    ("lambda x: np.asarray(x) * 2", NUMPY),
    ("lambda x: float(x[0])", VALUE),
    ("lambda x: x if x[0] > 0 else -x", VALUE),
    ("lambda x: x[int(x[0]):]", VALUE),
    ("lambda x: torch.sin(x)", "the primal must be written in JAX: the oracle is to be independent of PyTorch"),
    ("lambda x: 1 / 0", "ZeroDivisionError: division by zero (at case.py:8, in <lambda>)"),
    ("lambda x: 'a'", "it must return an array or a tuple of arrays, not ['str']"),
    ("lambda x: None", "it must return an array or a tuple of arrays, not ['NoneType']"),
    ("lambda x: 3", "it must return an array or a tuple of arrays, not ['int']"),
    ("lambda x: (y for y in [x])", "it must return an array or a tuple of arrays, not ['generator']"),
    ("lambda x: ()", "primal returns nothing; it must return an array or a tuple of arrays"),
    ("lambda x: x > 0", "primal returns integers only, which have no derivative"),
    ("lambda x: jnp.sin(x).astype(jnp.float32)", "primal returns float32 for output 0 although its inputs are float64"),
    ("lambda x: jnp.sum(x)", "primal returns shape () for output 0, but its signature has (n)"),
    ("lambda x: np.ones(4)", "primal returns shape (4,) for output 0 (n), where axis n is 1"),
    ("lambda x: (x, x)", "primal returns 2 outputs, but its signature has 1"),
    ("lambda x: torch.ones(4)", "Cannot interpret 'torch.float32' as a data type"),
    ("lambda x: x.__setitem__(0, 1)", "JAX arrays are immutable and do not support in-place item assignment"),
    ("lambda: 1", "takes 0 positional arguments but 1 was given"),
    ("lambda x, y: x", "missing 1 required positional argument: 'y'"),
    ("lambda *, x: x", "takes 0 positional arguments but 1 was given"),
    ("lambda x: next(iter(()))", "StopIteration"),
    ("lambda x: (_ for _ in ()).throw(SystemExit(0))", "SystemExit: 0 (at case.py:8, in <genexpr>)"),
    ("lambda x: (_ for _ in ()).throw(MemoryError())", "MemoryError"),
]

FORMULAS = [  # as they are written in the case, and what is told
    ("vjp=lambda x, w: jnp.sum(w)", "Could not judge: op: vjp returns shape () for x_bar"),
    ("vjp=lambda x, w: (w, w)", "Could not judge: op: vjp returns 2 results, expected 1"),
    ("vjp=lambda x: x", "oracle, vjp, f64: ERROR: TypeError: <lambda>() takes 1 positional argument but 2 were given"),
    ("vjp=lambda x, w: 1 / 0", "oracle, vjp, f64: ERROR: ZeroDivisionError: division by zero (at case.py:8)"),
    ("vjp=lambda x, w: None", "oracle, vjp, f64: MISMATCH: x_bar: explicit formula against autodiff of the primal"),
    ("vjp=lambda x, w: w * x", "oracle, vjp, f64: MISMATCH: x_bar: explicit formula against autodiff of the primal"),
    ("jvp=lambda x, t: t", "oracle, vjp, f64: MISMATCH: ⟨vjp, p⟩: ⟨w, jvp⟩"),
    ("vjp=lambda x, w: w * jnp.nan", "oracle, vjp, f64: UNRESOLVED"),
    (
        "vjp=lambda x, w: (w * jnp.cos(x)).astype(jnp.float32)",
        "Could not judge: the JAX function computes in float32 (primitive 'convert_element_type') although its",
    ),
    (
        "conventions={'z': 'why'}",
        "Could not judge: op: conventions names 'z'; the inputs are x, the outputs are output",
    ),
    ("conventions={'x_bar': 'why'}", "conventions names 'x_bar'; the inputs are x, the outputs are output"),
    ("equations={'x': '(1)'}", "equations names 'x'; the results are output, x_bar, output_dot, and those of second"),
    ("equations={'x_bar_dot': '(1)'}", 'written with their map, such as "vjp_of_vjp/x_bar"'),
    ("equations={'jvp_of_jvp/x_bar': '(1)'}", "equations names 'jvp_of_jvp/x_bar'; the results are output, x_bar"),
    ("equations={'vpj/x_bar': '(1)'}", "equations names 'vpj/x_bar'; the results are output, x_bar, output_dot"),
    ("params={'x': 2.0}", "got multiple values for argument 'x'"),
    ("params={'s': 2.0}", "got an unexpected keyword argument 's'"),
]

GIVEN = [  # inputs that are given, and what is told
    ("np.array([np.nan])", "the oracle's value is NaN at all of the inputs that were given"),
    ("np.array([1.0, np.nan])", "1 of 2 entries of the oracle's values are NaN at the inputs that were given"),
    ("np.array([1.0, np.inf])", "1 of 2 entries of the oracle's values are NaN at the inputs that were given"),
    ("np.zeros((0, 3))", "every output of the oracle is empty at every sample"),
    ("torch.ones(3, device='meta')", "its inputs cannot be drawn: NotImplementedError: Cannot copy out of meta tensor"),
]

SAMPLERS = [
    ("1 / 0", "ZeroDivisionError: division by zero (at case.py:8, in <lambda>)"),
    ("{}['no']", "KeyError: 'no' (at case.py:8, in <lambda>)"),
    ("np.zeros(3)", "the domain '<lambda>' drew an array of shape (3,), asked for (4,)"),
    ("'abc'", "the sampler '<lambda>' drew <U3; draw real numbers, integers or booleans"),
    ("None", "the sampler '<lambda>' drew object; draw real numbers, integers or booleans"),
    ("rng.normal(size=s) * 1j", "the sampler '<lambda>' drew complex128; draw real numbers, integers or booleans"),
    ("0.5", "the domain '<lambda>' drew an array of shape (), asked for (4,)"),
    ("(i for i in s)", "the sampler '<lambda>' drew object; draw real numbers, integers or booleans"),
]

NO_CANDIDATES = [
    (
        'candidates = {1: torch.sin, "1": torch.cos}',
        'the keys of candidates must be their names, such as {"mine": f}, got 1',
    ),
    ('candidates = {"": torch.sin}', "the keys of candidates must be their names, such as {\"mine\": f}, got ''"),
    ("candidates = {}", "no candidate is given, so nothing would be judged"),
    ("candidates = []", "no candidate is given, so nothing would be judged"),
    ("candidates = 3", "`candidates` must be a list, or a dictionary with names, got 3"),
    ('candidates = {"oracle": torch.sin}', "candidate 'oracle': the rows of the oracle itself have this name"),
    ("candidate = 3", "candidate 'int' must be callable on tensors, got int"),
    ("candidates = [torch.sin, 3]", "candidate 'int' must be callable on tensors, got int"),
    (
        "class Sine(torch.autograd.Function): pass\ncandidate = Sine",
        "candidate 'Sine' is the autograd.Function itself; give its apply: Sine.apply",
    ),
    ("candidate = jnp.sin", "candidate 'sin' is a function of JAX arrays; wrap it: JaxCandidate(sin)"),
    (
        'candidate = torch.sin\nlimits = ["jvp"]',
        'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got [\'jvp\']',
    ),
    (
        'candidate = torch.sin\nlimits = "jvp"',
        'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got \'jvp\'',
    ),
    ('candidate = torch.sin\nlimits = {"jvp": 3}', 'limits["jvp"] must be the reason, as text, got 3'),
    ('candidate = torch.sin\nlimits = {"vpj": "why"}', "unknown check 'vpj' (did you mean 'vjp'?)"),
]

IT_RAISES = "case.py:10, in candidate)"
CANDIDATES = [  # the body of a candidate for sin, and what is told of it: exit code 1
    ("yield torch.sin(x)", "returned generator where a tensor, or a tuple of tensors, is expected"),
    ("return {'y': torch.sin(x)}", "returned dict where a tensor"),
    ("return None", "returned NoneType where a tensor"),
    ("return 'a'", "returned str where a tensor"),
    ("return 1.0", "returned float where a tensor"),
    ("return np.sin(x.detach().numpy())", "returned ndarray where a tensor"),
    ("return ()", "returned 0 outputs, expected 1"),
    ("return torch.sin(x), x", "returned 2 outputs, expected 1"),
    ("return torch.sin(x).sum()", "output  has shape (), the oracle's is (4,)"),
    ("return torch.sin(x)[None]", "output  has shape (1, 4), the oracle's is (4,)"),
    ("return torch.sin(x).float()", "output  is torch.float32 on cpu, its inputs are torch.float64 on cpu"),
    ("return torch.sin(x).int()", "output  is torch.int32 on cpu, its inputs are torch.float64 on cpu"),
    ("return torch.sin(x) * 1j", "output  is torch.complex128 on cpu, its inputs are torch.float64 on cpu"),
    ("return torch.sin(x).to('meta')", "output  is torch.float64 on meta, its inputs are torch.float64 on cpu"),
    ("return torch.sin(x).to_sparse()", "returned a tensor that is sparse_coo, where a dense one is expected"),
    ("return torch.sin(x).detach()", "output has no grad_fn (detached, or computed under no_grad)"),
    ("return torch.nn.Parameter(torch.sin(x))", "output has no grad_fn (detached, or computed under no_grad)"),
    ("with torch.inference_mode(): return torch.sin(x)", "output has no grad_fn (detached, or computed under no_grad)"),
    ("return x", "looks like  output = x"),
    (
        "return x.sin_()",
        "raises RuntimeError: a leaf Variable that requires grad is being used in an in-place operation",
    ),
    ("return torch.sin(x) + torch.rand(())", "output  4/4 entries wrong"),
    ("raise SystemExit(0)", f"raises SystemExit: 0 (at {IT_RAISES}"),
    ("raise GeneratorExit", f"raises GeneratorExit:  (at {IT_RAISES}"),
    ("raise StopIteration", f"raises StopIteration:  (at {IT_RAISES}"),
    ("raise MemoryError", f"raises MemoryError:  (at {IT_RAISES}"),
    ("raise BaseException('b')", f"raises BaseException: b (at {IT_RAISES}"),
    ("raise ExceptionGroup('g', [ValueError('a')])", "raises ExceptionGroup: g (1 sub-exception)"),
    ("raise type('E', (Exception,), {'__str__': lambda e: 5})", "raises E: its message cannot be printed"),
    ("raise RuntimeError('a' * 10**6)", f"aaaaaaaaaa... (at {IT_RAISES}"),
    ("raise RuntimeError('a\\n' * 10**4)", f"raises RuntimeError: a (at {IT_RAISES}"),
    ("assert False", f"raises AssertionError:  (at {IT_RAISES}"),
    ("return torch.empty(10**15)", "can't allocate memory"),
]

RIGHT = [  # the body of a right candidate for sin
    "return [torch.sin(x)]",
    "return (torch.sin(x),)",
    "return torch.stack([torch.sin(x)] * 2, -1)[..., 0]",
    "return torch.sin(x)[None].expand(3, *x.shape)[1]",
    "return torch.sin(x).requires_grad_()",
    "return torch.sin(x).as_subclass(type('T', (torch.Tensor,), {}))",
]


@pytest.mark.parametrize(("signature", "character", "mistake"), SIGNATURES)
def test_the_mistake_in_a_signature_is_pointed_at(signature: str, character: int, mistake: str) -> None:
    with pytest.raises(ValueError, match="is not a gufunc signature") as refusal:
        OpSpec("op", primal=jnp.sin, signature=signature)
    start = f"signature {signature!r} is not a gufunc signature, at character {character}: {mistake}"
    assert str(refusal.value).startswith(start)
    assert str(refusal.value).endswith(FORM)


def refused(fields: dict[str, Any], error: type[Exception], told: str) -> None:
    """A spec with these fields raises it."""
    with pytest.raises(error, match=re.escape(told)) as refusal:
        OpSpec(**{"name": "op", "primal": lambda x: jnp.sin(x), "signature": "(n)->(n)", **fields})
    assert type(refusal.value) is error


@pytest.mark.parametrize(("fields", "told"), KINDS, ids=repr)
def test_a_field_of_a_wrong_kind(fields: dict[str, Any], told: str) -> None:
    refused(fields, TypeError, f"OpSpec op: {told}")


@pytest.mark.parametrize(("fields", "told"), VALUES, ids=repr)
def test_a_field_of_a_wrong_value(fields: dict[str, Any], told: str) -> None:
    refused(fields, ValueError, told)


@pytest.mark.parametrize(("fields", "told"), ENTRIES, ids=repr)
def test_a_field_with_a_wrong_entry(fields: dict[str, Any], told: str) -> None:
    refused(fields, TypeError, told)


@pytest.mark.parametrize(("primal", "told"), PRIMALS)
def test_a_primal_that_cannot_be_traced(tmp_path: Path, primal: str, told: str) -> None:
    ran = check(tmp_path, f"spec = OpSpec('op', {primal}, '(n)->(n)')\ncandidate = torch.sin\n")
    assert ran.code == 2
    last = ran.printed.splitlines()[-1]
    assert last.startswith("Could not judge: op: primal ")
    assert told in last
    assert "Tracer" not in ran.printed or "torch" in primal
    assert "raceback" not in ran.printed


SPECS = [  # as the case writes it, and what is told
    *((f"OpSpec('op', lambda x: jnp.sin(x), '(n)->(n)', {field})", told) for field, told in FORMULAS),
    *((f"OpSpec('op', jnp.sin, inputs=({array},))", told) for array, told in GIVEN),
]


@pytest.mark.parametrize(("spec", "told"), SPECS)
def test_a_formula_or_inputs_that_cannot_judge(tmp_path: Path, spec: str, told: str) -> None:
    ran = check(tmp_path, f"spec = {spec}\ncandidate = torch.sin\n")
    assert ran.code == 2
    assert told in ran.printed
    assert "raceback" not in ran.printed


@pytest.mark.parametrize(("sampler", "told"), SAMPLERS)
def test_a_sampler_that_does_not_draw(tmp_path: Path, sampler: str, told: str) -> None:
    domains = f"{{'x': lambda rng, s: {sampler}}}"
    ran = check(tmp_path, f"spec = OpSpec('op', jnp.sin, '(n)->(n)', domains={domains})\ncandidate = torch.sin\n")
    assert ran.code == 2
    assert ran.printed.splitlines()[-1] == f"Could not judge: op: its inputs cannot be drawn: {told}"
    assert "raceback" not in ran.printed


@pytest.mark.parametrize(("text", "told"), NO_CANDIDATES, ids=lambda x: x if "=" in x else "")
def test_what_is_no_candidate(tmp_path: Path, text: str, told: str) -> None:
    ran = check(tmp_path, SINE + text)
    assert ran.code == 2
    (line,) = ran.printed.splitlines()
    assert line.startswith(f"gradparity: {tmp_path}/case.py: {told}")


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(("body", "told"), slow_after(10, CANDIDATES))
def test_a_wrong_candidate(tmp_path: Path, body: str, told: str) -> None:
    ran = check(tmp_path, f"{SINE}def candidate(x):\n    {body}\n")
    assert ran.code == 1
    assert told in ran.below
    assert "ERROR" not in ran.printed
    assert "raceback" not in ran.printed


@pytest.mark.parametrize("body", RIGHT)
def test_a_right_candidate(tmp_path: Path, body: str) -> None:
    ran = check(tmp_path, f"{SINE}def candidate(x):\n    {body}\n")
    assert ran.code == 0, ran.printed
