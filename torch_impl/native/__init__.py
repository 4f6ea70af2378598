"""attn as a native operator, with PyTorch's own codegen: two yaml files and csrc/ are all that is specific to it."""
