"""The native operators under PyTorch's own test machinery: OpInfo, and the tests that it drives."""
