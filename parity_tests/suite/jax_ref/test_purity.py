"""`import jax_ref` loads no torch, starts no device and changes nothing global; and the probe would notice."""

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jax_ref
from parity_tests.suite.jax_ref._cases import FORMULAS

ROOT = Path(jax_ref.__file__).parents[1]

# A process of its own: here, long since, everything is loaded. No platform by this name exists, so that an import which
# makes an array fails.
PROBE = """
import json, logging, os, sys, threading, warnings
import jax, numpy

def state():
    return {
        "jax config": dict(jax.config.values),
        "numpy errors": numpy.geterr(),
        "numpy printing": numpy.get_printoptions(),
        "numpy random": numpy.random.get_state()[1].tolist(),
        "warnings": [str(x) for x in warnings.filters],
        "environment": dict(os.environ),
        "threads": threading.active_count(),
        "logging": logging.getLogger().level,
    }

before = state()
IMPORTS
after = state()
changed = [name for name in before if repr(before[name]) != repr(after[name])]
others = {"torch", "torch_impl", "parity_tests", "derivation", "flax", "equinox"}
loaded = sorted(others & {name.partition(".")[0] for name in sys.modules})
print(json.dumps({"changed": changed, "loaded": loaded}))
"""


def probe(imports: str, path: Path = ROOT) -> dict[str, list[str]]:
    """What a fresh process has loaded and changed after the imports."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
        "JAX_PLATFORMS": "no_such_platform",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE.replace("IMPORTS", imports)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_import_is_pure():
    assert probe("import jax_ref, jax_ref.aten") == {"changed": [], "loaded": []}


@pytest.mark.slow
def test_the_probe_would_notice(tmp_path):
    """Every kind of trespass at once, after the same import. A torch that is one empty file loads as fast as none."""
    for name in ("torch", "torch_impl", "parity_tests", "derivation", "flax", "equinox"):
        (tmp_path / f"{name}.py").touch()
    trespasses = """
import jax_ref, torch, torch_impl, parity_tests, derivation, flax, equinox
jax.config.update("jax_enable_x64", True)
numpy.seterr(all="raise")
numpy.set_printoptions(precision=3)
numpy.random.seed(0)
warnings.simplefilter("ignore")
os.environ["XLA_FLAGS"] = ""
threading.Thread(target=threading.Event().wait, daemon=True).start()
logging.getLogger().setLevel(0)
"""
    assert probe(trespasses, tmp_path) == {
        "changed": [
            "jax config",
            "numpy errors",
            "numpy printing",
            "numpy random",
            "warnings",
            "environment",
            "threads",
            "logging",
        ],
        "loaded": ["derivation", "equinox", "flax", "parity_tests", "torch", "torch_impl"],
    }


@pytest.mark.slow
def test_the_probe_would_notice_an_array():
    """What would start a device, and on a GPU take most of its memory."""
    with pytest.raises(AssertionError, match="no_such_platform"):
        probe("import jax_ref; jax.numpy.zeros(1)")


@pytest.mark.slow
def test_calls_change_nothing():
    before = repr((jax.config.values, np.geterr()))
    x = np.ones((2, 2))
    jax.jvp(jax.grad(lambda q: jax_ref.attn(q, x, x)[0].sum()), (x,), (x,))
    jax.jvp(lambda q: jax_ref.attn_ad(q, x, x), (x,), (x,))
    assert repr((jax.config.values, np.geterr())) == before


def test_public_names():
    public = {name for name in dir(jax_ref) if not name.startswith("_")}
    assert public - {
        "aten",
        "examples",
        "ffi",
        "functional",
        "gpu",
        "nn",
        "sharded",
    } == {  # packages of their own, there once they are imported
        "attn",
        "attn_ad",
        "attn_jvp",
        "attn_jvp_of_jvp",
        "attn_jvp_of_vjp",
        "attn_primal",
        "attn_vjp",
        "attn_vjp_of_jvp",
        "attn_vjp_of_vjp",
        "dot_product_attention",
        "dot_product_attention_ad",
    }


def test_every_module_is_private():
    """So that the names above, and these packages, are all there is to import."""
    folder = Path(jax_ref.__file__).parent
    modules = {x.stem for x in folder.iterdir() if x.suffix == ".py" or x.is_dir()}
    assert {name for name in modules if not name.startswith("_")} == {
        *("aten", "examples", "ffi", "functional", "gpu", "nn", "sharded")
    }


@pytest.mark.parametrize(
    ("module", "package", "name"),
    [("jax_ref.nn.flax", "flax", "Flax"), ("jax_ref.nn.equinox", "equinox", "Equinox")],
)
def test_a_layer_without_its_library(monkeypatch, module, package, name):
    """The error says what to install; nothing stands in the place of the module afterwards."""
    monkeypatch.setitem(sys.modules, package, None)  # an import of it fails, as if it were not installed
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=rf"{module} needs {name}: pip install 'gradparity\[{package}\]'"):
        importlib.import_module(module)
    assert module not in sys.modules


@pytest.mark.parametrize("name", ["attn", "attn_ad", *FORMULAS])
def test_what_help_shows(name):
    """A name, a docstring and named arguments, also where JAX has wrapped the function."""
    f = getattr(jax_ref, name)
    assert inspect.getdoc(f)
    assert list(inspect.signature(f).parameters)[:3] == ["q", "k", "v"]
