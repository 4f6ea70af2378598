"""Records the samples of all OpInfos, and writes down which operators each calls: opinfo_operators.json.

`python -m parity_tests.sweep.record_opinfos` takes minutes; recordings that are kept from before are used again.
"""

from __future__ import annotations

from rich.progress import track

from parity_tests.harness.report.atomic_file import write_text
from parity_tests.sweep.calls import record_opinfo, units
from parity_tests.sweep.opinfo_operators import FILE, as_json


def recorded_operators(opinfo: str, dtype: str) -> frozenset[str]:
    """Return the operators with a derivative that the samples of an OpInfo call in this dtype, as they are recorded."""
    return frozenset(call.name for call in record_opinfo(opinfo, dtype))


def main() -> None:
    """Write the file anew, whole or not at all."""
    found = {unit: recorded_operators(*unit) for unit in track(units(), description="recording OpInfos")}
    write_text(FILE, as_json(found))


if __name__ == "__main__":
    main()
