"""The processes of the pack, each started when it is first asked."""

from __future__ import annotations

import os

from benchmarks.run import Worker, cores

PATIENCE = 10.0  # seconds to give a device back
PRETEND = "pretend"  # a device that the tests compile, whose memory the host cannot read


class Processes:
    """Processes by their modules, for a device. Left as a block, or by `end`, all of them are ended."""

    def __init__(self, device: str, tiny: bool) -> None:
        self.arguments = (device, *(["tiny"] if tiny else []))
        kind = device.partition(":")[0]
        # Triton chooses when it is imported; both frameworks are to have room for their arrays on one GPU.
        self.environment = {
            "TRITON_INTERPRET": "0" if kind == "cuda" else "1",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        if kind == PRETEND:
            from parity_tests.suite.pretend import built  # which imports PyTorch

            paths = str(built.package()), os.environ.get("PYTHONPATH", "")
            self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.started: dict[str, Worker] = {}

    def __getitem__(self, module: str) -> Worker:
        if module not in self.started:
            worker = Worker(module, len(cores()), *self.arguments, environment=self.environment)
            self.started[module] = worker
        return self.started[module]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        """The next order finds new ones."""
        for worker in self.started.values():
            worker.end(PATIENCE)
        self.started.clear()
