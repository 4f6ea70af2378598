"""The first file of a solution's process, or of the nursery of many; run by its path, with descriptors."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import sys
from pathlib import Path

_PACKAGE = "gradparity_guest"


def main() -> None:
    """Answer requests until nobody sends any more: of a solution over two pipes, of a nursery over a socket."""
    descriptors, *further = sys.argv[1:]
    sys.argv[:] = [""]
    known = {*sys.path}
    sys.path += [path for path in further if path not in known]
    faulthandler.enable()
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    first, *second = map(int, descriptors.split(","))
    if not second:
        sys.path[:] = further  # the user's own order
        importlib.import_module(f"{_PACKAGE}.nursing").nurse(first)
        return
    wire = importlib.import_module(f"{_PACKAGE}.wire")
    importlib.import_module(f"{_PACKAGE}.serving").serve(wire.Channel(first, *second))


if __name__ == "__main__":
    main()
