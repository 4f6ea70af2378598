"""The tests of torch_impl: what each implementation promises by itself, before any oracle judges its values."""
