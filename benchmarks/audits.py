"""Audits of whole models, right ones and with planted faults: `python -m benchmarks.audits [MODEL ...]`.

The models are those of `transformers` in small configurations, with random weights: one for each kind of text, vision
and audio model, and state space, mixture of experts and convolution. Each is audited as it is, where nothing may be
wrong. Then each fault is planted in turn, in the module in the middle of those whose result has a gradient; it must be
the first that the audit names, by operator and module, and the only one. It needs `pip install transformers`.

What came of a model is written to `results/audits.json` and `.md` when it has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
import typer
from rich.console import Console
from torch import Tensor, nn

from benchmarks.campaign import RESULTS, Campaign, Stamped, say, stamp, table
from parity_tests.auditing.audit import audit
from parity_tests.auditing.findings import Audit
from parity_tests.auditing.operation import Finding

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Outcome(Stamped):
    """The audits of a model.

    Attributes:
        model: its name.
        step: seconds of one training step, the fastest of five.
        seconds: of its audit, the second one in a process.
        operations: how many there are of each finding.
        accused: the right operations with something wrong.
        found: of each planted fault, whether it is named where it is, and it alone; else what was said.
    """

    model: str
    step: float
    seconds: float
    operations: dict[str, int]
    accused: list[str]
    found: dict[str, str]


TEXT = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
PICTURE = {"image_size": 32, "num_channels": 3}
# The class, the class of its configuration, the configuration, and what it takes.
MODELS: Mapping[str, tuple[str, str, dict[str, Any], str]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", TEXT | {"n_embd": 16, "n_layer": 2, "n_head": 2}, "text"),
    "bert": ("BertForMaskedLM", "BertConfig", TEXT | SMALL, "text"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", TEXT | SMALL | {"num_key_value_heads": 1}, "text"),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        TEXT | SMALL | {"num_key_value_heads": 1, "num_local_experts": 4},
        "text",
    ),
    "mamba": ("MambaForCausalLM", "MambaConfig", TEXT | {"hidden_size": 16, "num_hidden_layers": 2}, "text"),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        TEXT | {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0},
        "text",
    ),
    "vit": ("ViTForImageClassification", "ViTConfig", SMALL | PICTURE | {"patch_size": 8}, "picture"),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        "picture",
    ),
    "convnext": (
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        "picture",
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        TEXT
        | {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "num_mel_bins": 8}
        | {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 16}
        | {"decoder_start_token_id": 1},
        "sound",
    ),
}


def made(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """A model with random weights, in training, and a batch."""
    import transformers  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    cls, config, how, takes = MODELS[name]
    model = getattr(transformers, cls)(getattr(transformers, config)(**how))
    ids = torch.randint(3, 50, (2, 7))
    batches = {
        "text": {"input_ids": ids, "labels": ids},
        "picture": {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])},
        "sound": {"input_features": torch.randn(2, 8, 32), "labels": ids},
    }
    return model.train(), batches[takes]


class Identity(torch.autograd.Function):
    """Returns x; each of the others has another gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return x."""
        ctx.save_for_backward(x)
        return x * 1


class AnotherFactor(Identity):
    """Lacks a factor."""

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:
        """Return c / 2."""
        return c / 2


class OppositeMask(torch.autograd.Function):
    """A mask, of which backward takes the opposite."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the entries above zero."""
        ctx.save_for_backward(x > 0)
        return x * (x > 0)

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:
        """Return c where x is not above zero."""
        return c * ~ctx.saved_tensors[0]


class Swish(torch.autograd.Function):
    """x times its sigmoid, by which backward does not differentiate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return x σ(x)."""
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:
        """Return c σ(x)."""
        return c * ctx.saved_tensors[0].sigmoid()


class Scaled(torch.autograd.Function):
    """Multiplies by a number that changes before backward reads it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: list[float]) -> Tensor:
        """Return x times the number."""
        ctx.scale, y = scale, x * scale[0]
        scale[0] += 1
        return y

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor, None]:
        """Return c times what the number is now."""
        return c * ctx.scale[0], None


def written_over(x: Tensor) -> Tensor:
    """Write over what tanh has saved."""
    y = x.tanh()
    z = y * 1
    y.data.mul_(1.5)
    return z


def overflown(x: Tensor) -> Tensor:
    """Multiply large numbers in float16."""
    y = (x * 0 + 300).half()
    return x + (y * y).float()


def in_sixteen_bits(x: Tensor) -> Tensor:
    """Add the same gradient up 4096 times, as PyTorch does in 16 bits: entry 16 of docs/found.md."""
    bias, ones = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True), torch.ones(4096, 2, dtype=torch.bfloat16)
    y = F.layer_norm(ones, (2,), None, bias)
    return x + y.float().mean() * x.abs().sum().detach()


def compiled_otherwise(x: Tensor) -> Tensor:
    """Add a cosine whose compiled code is that of the sine."""
    from torch._inductor import config, lowering

    sine = {torch.ops.aten.cos.default: lowering.lowerings[torch.ops.aten.sin.default]}
    with mock.patch.dict(lowering.lowerings, sine), config.patch(force_disable_caches=True):
        return torch.compile(lambda x: x + x.cos())(x)


class Fault(NamedTuple):
    """A planted fault.

    Attributes:
        how: makes the wrong result of a module from the right one.
        operator: that is wrong; empty where parameters get no gradient.
        finding: what is said of it.
        compiled: whether it is in compiled code.
    """

    how: Callable[[Tensor], Tensor]
    operator: str
    finding: Finding | None
    compiled: bool = False


FAULTS: Mapping[str, Fault] = {
    "another factor": Fault(AnotherFactor.apply, "AnotherFactorBackward", Finding.DIFFERS),
    "a term is missing": Fault(Swish.apply, "SwishBackward", Finding.DIFFERS),
    "the opposite mask": Fault(OppositeMask.apply, "OppositeMaskBackward", Finding.DIFFERS),
    "a stale number": Fault(lambda x: Scaled.apply(x, [2.0]), "ScaledBackward", Finding.DIFFERS),
    "written over": Fault(written_over, "aten::tanh", Finding.DIFFERS),
    "root of zero": Fault(lambda x: x + (x * 0).sqrt(), "aten::sqrt", Finding.NOT_FINITE),
    "float16 overflows": Fault(overflown, "aten::mul.Tensor", Finding.NOT_FINITE),
    "a known defect": Fault(in_sixteen_bits, "aten::native_layer_norm", Finding.DIFFERS),
    "detached": Fault(Tensor.detach, "", None),
    "compiled otherwise": Fault(compiled_otherwise, "compiled region", Finding.DIFFERS, compiled=True),
}


def middle_of(model: nn.Module, batch: Mapping[str, Tensor]) -> str:
    """The path of the module in the middle of those whose result is one tensor of real numbers with a gradient."""
    names, order = {module: name for name, module in model.named_modules()}, list[str]()

    def note(module: nn.Module, _: Any, y: Any) -> None:
        if isinstance(y, Tensor) and y.requires_grad and y.is_floating_point() and y.ndim > 1 and names[module]:
            order.append(names[module])

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    model(**batch)
    for hook in hooks:
        hook.remove()
    return order[len(order) // 2]


def with_fault(name: str, fault: Fault) -> tuple[Audit, str]:
    """The audit of a model with a fault, and the path of the module that has it."""
    model, batch = made(name)
    path = middle_of(model, batch)
    module = model.get_submodule(path)
    forward, done = module.forward, list[bool]()

    def wrong(*args: Any, **kwargs: Any) -> Tensor:
        y = forward(*args, **kwargs)
        if done:  # a module may run several times
            return y
        done.append(True)
        return fault.how(y)

    module.forward = wrong
    return audit(model, **batch, compiled=fault.compiled), f"{type(model).__name__}.{path}"


def verdict_on(found: Audit, before: Audit, fault: Fault, path: str) -> str:
    """ "named", or what is wrong with what an audit says of a planted fault."""
    if fault.finding is None:
        return "named" if set(found.unreached) > set(before.unreached) else "no parameter is named"
    said = {(each.name, each.finding, each.module) for each in found.faults}
    return (
        "named" if said == {(fault.operator, fault.finding, path)} else f"said of {path}: {sorted(said) or 'nothing'}"
    )


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def audited(name: str) -> Outcome:
    """Audit a model as it is, and with each fault."""
    model, batch = made(name)
    audit(model, **batch)
    steps = [_seconds(lambda: model(**batch).loss.backward()) for _ in range(5)]
    start = time.perf_counter()
    before = audit(model, **batch)
    seconds = time.perf_counter() - start
    counts = {str(each): sum(x.finding is each for x in before.operations) for each in Finding}
    found = {}
    for what, fault in FAULTS.items():
        of, path = with_fault(name, fault)
        found[what] = verdict_on(of, before, fault, path)
    accused = [str(each) for each in before.faults]
    return Outcome(*stamp(), name, round(min(steps), 4), round(seconds, 2), counts, accused, found)


def page(about: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """The text of the page."""
    rows = [
        (
            one.model,
            *(one.operations[str(each)] for each in Finding),
            f"{sum(text == 'named' for text in one.found.values())} of {len(one.found)}",
            f"{1000 * one.step:.0f}",
            f"{one.seconds:.1f}",
            f"{one.seconds / one.step:.0f}",
        )
        for one in outcomes
    ]
    missed = [
        f"- {one.model}, {fault}: {text}" for one in outcomes for fault, text in one.found.items() if text != "named"
    ]
    head = f"| model | {' | '.join(map(str, Finding))} | faults named | step, ms | audit, s | times the step |"
    versions = ", ".join(sorted({one.versions for one in outcomes}))
    return "\n".join(
        [
            "# Audits of whole models",
            "",
            "Written by `python -m benchmarks.audits`, whose docstring says what is audited, and which faults are",
            f"planted. With {versions}.",
            "",
            *table(head, rows),
            "",
            *(
                ["Not named as they should be:", "", *missed]
                if missed
                else ["Every planted fault is named where it is."]
            ),
            "",
        ]
    )


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by model."""
    return Campaign[str, Outcome](path, Outcome, page, "audits", ("model",), items=tuple(MODELS))


@app.command()
def main(
    models: Annotated[list[str] | None, typer.Argument(help="Which; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "audits.json",
) -> None:
    """Audit models as they are, and with planted faults.

    Exit codes: 0 nothing right is accused and each fault is named, 1 otherwise, 2 the run was interrupted.
    """
    unknown = [name for name in models or () if name not in MODELS]
    if unknown:
        raise typer.BadParameter(f"unknown model {unknown[0]!r}; there are {', '.join(MODELS)}")
    torch.set_num_threads(1)  # what else runs on the machine counts less
    console, its = Console(), campaign(out)
    found = ((name, audited(name)) for name in models or MODELS)
    its.keep(found, lambda name, one: say(console, f"{name}: {one.operations}, {one.found}"))
    wrong = any(one.accused or any(text != "named" for text in one.found.values()) for one in its.outcomes)
    raise typer.Exit(its.exit_code(wrong))


if __name__ == "__main__":
    app()
