"""Which operators of ATen a formula may call: those that compute tensors from tensors and numbers, and nothing else.

A derivatives.yaml is data, and may be a stranger's. What an operator may do is read from its schema: no argument may be
text other than one of a few known choices, a storage or a generator; the results are tensors; nothing is written to but
the first argument of an operator like `mul_`, which `calling` allows on tensors that the formula has made. The lists
below are what a schema does not say. That ATen itself holds for every argument is not promised.
"""

from __future__ import annotations

import functools

import torch

# Types of a schema, without `Optional[...]` and `List[...]`
_TYPES = frozenset(
    (
        *("Tensor", "int", "SymInt", "float", "number", "bool", "complex", "str", "Device"),
        *("ScalarType", "Layout", "MemoryFormat"),
    )
)
# Arguments of these names are text that chooses one of a few ways to compute
CHOICES = frozenset(
    (
        *("UPLO", "approximate", "driver", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode", "padding"),
        *("padding_mode", "padding_side", "reduce", "rounding_mode", "side"),
    )
)
# They give a number that says how a tensor is stored
READ = frozenset(("_nested_get_ragged_idx",))
# Made of sizes and numbers alone; `empty` is not among them, which shows what memory held before
FACTORIES = frozenset(
    (
        *(
            "arange",
            "eye",
            "full",
            "linspace",
            "logspace",
            "ones",
            "scalar_tensor",
            "tril_indices",
            "triu_indices",
            "zeros",
        ),
    )
)
# Their entries are not computed: they are what memory held before
UNINITIALISED = frozenset(
    (
        *("empty_like", "new_empty", "new_empty_strided", "empty_permuted", "empty_quantized", "resize", "resize_as"),
        *("resize_as_sparse", "resize_", "resize_as_", "resize_as_sparse_", "_resize_output", "_resize_output_"),
    )
)
# They change what a tensor is, or is part of, and not its entries
STATE = frozenset(
    (
        *("set", "set_", "set_data", "requires_grad_", "retain_grad", "detach_", "sparse_resize", "sparse_resize_"),
        *("sparse_resize_and_clear", "sparse_resize_and_clear_", "_copy_from", "_copy_from_and_resize"),
        *("_coalesced", "_coalesced_", "_fw_primal", "_make_dual", "_make_dual_copy"),
        *(
            "_unpack_dual",
            "_fw_primal_copy",
            "pin_memory",
            "_pin_memory",
            "batch_norm_update_stats",
            "_test_warn_in_autograd",
        ),
    )
)
# They take a tensor for a pointer to something else, or for sizes and strides that they do not check
OPAQUE = frozenset(
    (
        *("_nested_view_from_buffer", "_nested_view_from_buffer_copy", "_sparse_coo_tensor_with_dims_and_tensors"),
        *("_sparse_coo_tensor_unsafe", "_sparse_compressed_tensor_unsafe", "_sparse_bsc_tensor_unsafe"),
        *("_sparse_bsr_tensor_unsafe", "_sparse_csc_tensor_unsafe", "_sparse_csr_tensor_unsafe"),
    )
)
_OPAQUE_FAMILIES = ("fbgemm_", "_wrapped_")
# They draw random numbers, though PyTorch does not mark them so
RANDOM = frozenset(("gru", "lstm", "rnn_relu", "rnn_tanh", "_cudnn_rnn", "miopen_rnn"))
# The argument by which batch norms write to running statistics, though their schemas do not say so
_MOVING = frozenset(("momentum", "exponential_average_factor"))

_TEXT = "takes text, such as the name of a file or a message; write the formula without it"
_NO_TENSOR = "does not make tensors of tensors; write the formula with operators that do"
_MEMORY = "gives entries that nobody has computed; use at::zeros or at::zeros_like"
_OF_STATE = "may change what belongs to somebody else; write the formula with operators that only compute tensors"
_WRITES = "writes to its arguments; use an operator that returns what it computes"
_DRAWS = "draws random numbers; a derivative must be the same at each call"


@functools.cache
def refusal(overload: torch._ops.OpOverload) -> str | None:
    """Why a formula must not call this overload, and what to write instead; None if it may."""
    schema = overload._schema
    namespace, _, name = schema.name.partition("::")
    if namespace != "aten":
        return "is no operator of ATen; only those, by at::, are evaluated without a build"
    types = [_bare(str(one.real_type)) for one in schema.arguments]
    texts = [a.name for a, kind in zip(schema.arguments, types, strict=True) if kind == "str"]
    if any(text not in CHOICES for text in texts):
        return _TEXT
    if name in UNINITIALISED or name.startswith(("empty", "_empty")):
        return _MEMORY
    # A backward operator of attention is marked, too, but repeats the numbers of a seed that it is given
    seeded = torch.Tag.nondeterministic_seeded in overload.tags and not name.endswith("_backward")
    if seeded or name in RANDOM or "Generator" in types:
        return _DRAWS
    moving = any(one.name in _MOVING for one in schema.arguments)
    if moving or name in STATE or name in OPAQUE or name.startswith(_OPAQUE_FAMILIES):
        return _OF_STATE
    if any(kind not in _TYPES for kind in types) or ("Tensor" not in types and name not in FACTORIES):
        return _NO_TENSOR
    made = {_bare(str(one.type)) for one in schema.returns}
    if made != {"Tensor"} and name not in READ:
        return _NO_TENSOR
    return _WRITES if schema.is_mutable and not writes_to_first(overload) else None


def writes_to_first(overload: torch._ops.OpOverload) -> bool:
    """True of an operator that writes to its first argument, and to nothing else, and returns it: `mul_`."""
    written = [one.alias_info is not None and one.alias_info.is_write for one in overload._schema.arguments]
    return written[:1] == [True] and not any(written[1:]) and overload._schema.name.endswith("_")


def _bare(kind: str) -> str:
    """`Optional[List[Optional[Tensor]]]` without what is around `Tensor`."""
    while kind.startswith(("Optional[", "List[")):
        kind = kind.partition("[")[2].removesuffix("]")
    return kind
