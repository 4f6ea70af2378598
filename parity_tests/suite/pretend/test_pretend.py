"""The device "pretend", whose memory the host cannot read: what is judged on it is judged as on the CPU."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from parity_tests.suite.pretend import built, strangers
from parity_tests.suite.rotation import rotating
from torch_impl.native.build import toolchain_missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}"),
]

CASE = Path(strangers.__file__)
KERNEL = """
import torch


def made(factor):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            assert (x.device.type, w.device.type) == ("pretend", "pretend")
            ctx.save_for_backward(x, w)
            return x * torch.tanh(w)

        @staticmethod
        def backward(ctx, y_bar):
            x, w = ctx.saved_tensors
            return factor * y_bar * torch.tanh(w), y_bar * x * (1 - torch.tanh(w) ** 2)

    return lambda x, w: Product.apply(x, w)


right, wrong = made(1), made(1.01)
"""
# 20 operators of the collection: elementwise, sums, products, indices, factorizations; four in a process.
OPERATORS = (
    ("gelu", "silu", "clamp", "mean"),
    ("var", "logsumexp", "p_norm", "linear"),
    ("layer_norm", "rms_norm", "softmax", "cross_entropy"),
    ("huber", "embedding", "gather", "scatter_add"),
    ("cumsum", "sort", "cholesky", "attention"),
)
# The device has less memory than that check needs.
NO_ROOM = "SKIPPED no room for offsets of 2^31 entries: pretend: out of memory"


def found(*arguments: object, **environment: str) -> Any:
    """What a module of this folder prints."""
    module, *rest = arguments
    done = built.run("-W", "ignore", "-m", f"parity_tests.suite.pretend.{module}", *rest, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Checked:
    """`gradparity check` on the strangers: the exit code, and what is told of a candidate, a check and a dtype."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        arguments = ("-m", "parity_tests", "check", CASE, *options, "--failures", "failures", "--json", "report.json")
        done = built.run(*arguments, folder=folder, **environment)
        assert (folder / "report.json").exists(), done.stderr
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.code = done.returncode
        self.rows = {_key(row): row for row in report["rows"]}
        self.failures = {_key(failure): failure for failure in report["failures"]}

    def told(self, *key: str) -> str:
        """The verdict, the reason and the first finding of a row."""
        wrong = self.failures[key]["wrong"][0] if key in self.failures else {"label": "", "pattern": ""}
        return " ".join((self.rows[key]["verdict"], self.rows[key]["reason"], wrong["label"], wrong["pattern"]))


def _key(record: dict[str, Any]) -> tuple[str, ...]:
    return record["candidate"], record["check"], record["dtype"]


def test_what_asks_most_of_a_device_is_judged_as_on_the_cpu():
    report = found("verdicts", "few", "attn_function")
    assert report == {"rows": {"PASS": 10}, "differ": {}}


@rotating(3, by="name")
@pytest.mark.parametrize("name", ["attn_composite", "attn_function"])
def test_every_check_of_attn_is_as_on_the_cpu(name: str):
    report = found("verdicts", "every", name)
    assert {key: told[1][: len(NO_ROOM)] for key, told in report["differ"].items()} == {
        f"attn, {name}, int32_offsets, float64": NO_ROOM
    }
    assert sum(report["rows"].values()) > 100
    assert report["rows"]["PASS"] > 90


@rotating(3, turn=2)
def test_the_native_operator_runs_on_it_too():
    """But for PyTorch's own opcheck, which knows few devices."""
    differ = found("verdicts", "every", "attn_native")["differ"]
    reasons = {key.split(", ")[2]: told[1] for key, told in differ.items()}
    assert set(reasons) == {"int32_offsets", "opcheck"}
    assert reasons["opcheck"].startswith("UNSUPPORTED NotImplementedError: autograd_registration_check")
    assert reasons["int32_offsets"].startswith(NO_ROOM)


@rotating(5)
@pytest.mark.parametrize("names", OPERATORS, ids=" ".join)
def test_right_and_wrong_operators_are_judged_as_on_the_cpu(names: tuple[str, ...]):
    report = found("verdicts", "collection", *names)
    assert report["differ"] == {}
    assert report["rows"]["MISMATCH"] >= 2 * len(names)
    assert report["rows"]["PASS"] >= 25 * len(names)


@pytest.fixture(scope="module")
def strangers_checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """On the second of the devices, in one format."""
    options = ("--device", "pretend:1", "--only", "forward,vjp,leaks", "--dtype", "float32")
    found = Checked(tmp_path_factory.mktemp("strangers"), *options)
    assert found.code == 1
    assert {row["device"] for row in found.rows.values()} == {"pretend:1"}
    return found


@pytest.mark.parametrize(
    ("candidate", "check", "told"),
    [
        ("right", "vjp", r"PASS"),
        ("right", "leaks", r"PASS"),
        ("wrong", "vjp", r"MISMATCH  w_bar \d+/\d+ entries wrong"),
        ("over_the_cpu", "vjp", r"PASS"),
        ("reads_on_the_host", "forward", r"PASS"),
        ("reads_on_the_host", "vjp", r"MISMATCH crashed \(SIGSEGV\) at sample .* in string_at, called by strangers"),
        ("by_numpy", "vjp", r"MISMATCH  vjp raises TypeError: can't convert pretend:1 device type tensor to numpy"),
        ("mixes_devices", "vjp", r"MISMATCH  vjp raises RuntimeError: Expected all tensors to be on the same device"),
        ("keeps_memory", "vjp", r"PASS"),
        # No tensor is left alive: on the CPU, whose memory PyTorch does not count, nothing would show it.
        ("keeps_memory", "leaks", r"MISMATCH  memory of the device grows by \d+ bytes over 50 calls"),
        ("in_jax", "vjp", r"UNSUPPORTED JAX \S+ is not used on pretend"),
    ],
)
def test_a_stranger(strangers_checked: Checked, candidate: str, check: str, told: str):
    assert re.match(told, strangers_checked.told(candidate, check, "float32"))


def test_a_failure_is_replayed_on_the_device(tmp_path: Path):
    Checked(tmp_path, "--device", "pretend", "--only", "vjp", "--dtype", "float32")
    (file,) = (tmp_path / "failures").glob("product-wrong-vjp-float32-*.npz")
    replayed = built.run("-m", "parity_tests", "replay", file, "--case", CASE, folder=tmp_path)
    assert replayed.returncode == 1, replayed.stderr
    assert (
        "wrong disagrees with the oracle   [vjp, all_axes_differ, shrunk (n=1), float32, pretend, seed 0]"
        in replayed.stdout
    )
    script = built.run(file.with_suffix(".py"), folder=tmp_path)
    assert (script.returncode, "w_bar: they differ" in script.stdout) == (1, True), script.stderr


def test_a_device_without_float64(tmp_path: Path):
    """The device is asked for a number, and not known by name. What is judged in one format is judged in the next."""
    options = ("--device", "pretend", "--only", "vjp,leaks", "--dtype", "float64", "--dtype", "float32")
    found = Checked(tmp_path, *options, PRETEND_WITHOUT_FLOAT64="1")
    lacks = "pretend has no float64: the pretend device has no Double"
    assert found.told("right", "vjp", "float64").strip() == f"UNSUPPORTED {lacks}"
    assert found.told("right", "vjp", "float32").startswith("PASS")
    assert found.told("right", "leaks", "float32").startswith("PASS")
    assert ("right", "leaks", "float64") not in found.rows
    assert found.told("wrong", "vjp", "float32").startswith("MISMATCH  w_bar")
    assert found.failures["wrong", "vjp", "float32"]["judge"] == f"no Taylor rate, since {lacks}"


def test_nothing_else_needs_float64_there():
    report = found("verdicts", "narrow", "attn_function", PRETEND_WITHOUT_FLOAT64="1")
    assert report["differ"] == {}
    assert report["rows"]["PASS"] > 45


def test_solutions_in_processes_of_their_own_run_on_it(tmp_path: Path):
    """Theirs have the device, too: their memory is not read by the host either, but by copies."""
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "reference.py").write_text("def reference(x, w):\n    return x * w.tanh()\n", encoding="utf-8")
    for name, verdict in (("right", "PASS"), ("wrong", "MISMATCH: x_bar")):
        options = ("--untrusted", "--reference", "reference.py:reference", "--inputs", "x: (n), w: (n)")
        options += ("--device", "pretend", "--only", "forward,vjp", "--dtype", "float32", "--seed", "0")
        done = built.run("-m", "parity_tests", "check", f"kernel.py:{name}", *options, folder=tmp_path)
        assert f"reference, {name}, forward, float32, pretend: PASS" in done.stdout, done.stderr
        assert f"reference, {name}, vjp, float32, pretend: {verdict}" in done.stdout


def test_transfers_are_counted():
    """None by attn or its derivatives; of a backward that goes over the CPU one each way, and so again of its own."""
    assert found("transfers") == {
        "attn_composite": [0, 0],
        "attn_function": [0, 0],
        "right": [0, 0],
        "over_the_cpu": [2, 2],
    }


@pytest.mark.parametrize(("device", "code"), [("cpu", 0), ("pretend", -signal.SIGSEGV)])
def test_the_host_cannot_read_its_memory(device: str, code: int):
    text = f"import ctypes, torch; x = torch.ones(3, device='{device}'); ctypes.string_at(x.data_ptr(), 12)"
    assert built.run("-c", text).returncode == code


def test_the_devices_that_there_are_are_told():
    done = built.run("-m", "parity_tests", "run", "--device", "pretend:2")
    assert done.returncode == 2
    assert re.search(r"device pretend:2 cannot be judged here: PyTorch .* sees 2 of PRETEND", done.stderr)
    assert done.stderr.strip().endswith("available: cpu, pretend")
    assert "judge on pretend" in built.run("-m", "parity_tests", "doctor").stdout
