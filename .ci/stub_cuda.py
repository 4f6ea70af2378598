"""Makes stubs of the CUDA libraries that PyTorch's wheel for Linux is linked with, so that it runs without them.

Each function of a stub answers "no device". PyTorch then says that CUDA is not available, as on a machine without a GPU
that has the 5 GB of libraries. A wheel that is linked with none of them stays as it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

_OF_CUDA = re.compile(r"lib(cu|nccl|nv)")
# Symbols of CUDA's that carry no version: those of the runtime, which is the library that has them.
_UNVERSIONED = re.compile(r"(cuda|cublas|cudnn|cufft|cusparse|nccl|nvrtc|cupti|cuFile|__cuda|nvshmem|cusolver|cu[A-Z])")
_NO_DEVICE, _SUCCESS = 100, 0


def _read(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _body(name: str) -> str:
    """The definition of one function, in C."""
    if name.startswith("__cudaRegisterFatBinary") and not name.endswith("End"):
        return f"void **{name}(void *x) {{ return nothing; }}"
    if re.match("__cuda(Register|Unregister|Init)", name):
        return f"void {name}(void) {{}}"
    if "GetErrorString" in name or "GetErrorName" in name:
        return f"const char *{name}(int error) {{ return message; }}"
    is_query = name in ("cudaGetLastError", "cudaPeekAtLastError")
    return f"int {name}(void) {{ return {_SUCCESS if is_query else _NO_DEVICE}; }}"


def _asked_of(libraries: list[Path]) -> tuple[set[str], dict[str, dict[str, set[str]]], set[str]]:
    """The libraries that are linked with, their symbols by library and version, and symbols without a version."""
    needed: set[str] = set()
    library_of: dict[str, str] = {}
    for path in libraries:
        needed |= {x for x in re.findall(r"\[(lib[^\]]*)\]", _read("readelf", "-d", "-W", path)) if _OF_CUDA.match(x)}
        library = ""
        for line in _read("readelf", "-V", "-W", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif (found := re.search(r"Name: (\S+)\s+Flags", line)) and _OF_CUDA.match(library):
                library_of[found[1]] = library
    versioned: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    unversioned: set[str] = set()
    for path in libraries:
        for line in _read("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if version in library_of:
                versioned[library_of[version]][version].add(name)
            elif not version and _UNVERSIONED.match(name):
                unversioned.add(name)
    return needed, versioned, unversioned


def main(folder: Path) -> None:
    """Write a stub beside PyTorch's own libraries for each library of CUDA's that they are linked with."""
    needed, versioned, unversioned = _asked_of([path for path in folder.glob("*.so*") if path.is_file()])
    known = {name for versions in versioned.values() for names in versions.values() for name in names}
    for library in sorted(needed):
        versions = versioned.get(library, {})
        lines = ["static void *nothing[8];", 'static const char *message = "a stub: no CUDA device";']
        lines += [_body(name) for names in versions.values() for name in sorted(names)]
        if library.startswith("libcudart"):
            lines += [_body(name) for name in sorted(unversioned - known)]
        command = ["gcc", "-shared", "-fPIC", "-w", "-o", folder / library, f"-Wl,-soname,{library}", "-x", "c", "-"]
        if versions:
            script = folder / f"{library}.map"
            each = (f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in versions.items())
            script.write_text("".join(each))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
