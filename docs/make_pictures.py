"""Make the picture of the HTML report that the README shows: `python docs/make_pictures.py`.

It judges the README's own example by a few checks, so that the failure is on the first screen of the page, writes the
report as a page, and takes a picture of it with headless Chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PICTURE = DOCS / "pictures" / "report.png"
SIZE = "1000,920"  # in pixels: down to the heat maps of the first failure
CHECKS = ("forward", "vjp", "vjp_partial", "jvp", "vjp_of_vjp", "purity", "compile")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def example() -> str:
    """Return the source of the README's first example: the class and the spec."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)^report = ", readme, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit("README.md has no example in Python whose last lines begin with 'report = '")
    return found[1]


def browser() -> str:
    """Return the path of the browser.

    Raises:
        SystemExit: there is none.
    """
    paths = [path for name in BROWSERS if (path := shutil.which(name))]
    if not paths:
        raise SystemExit(f"no browser takes the picture; install one of {', '.join(BROWSERS)}")
    return paths[0]


def main() -> None:
    """Judge the example and take the picture of its report."""
    program = browser()
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(example(), "README.md", "exec"), names)
    report = names["crosscheck"](names["TanhLinear"].apply, names["spec"], checks=CHECKS)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        report.to_html(page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
        subprocess.run([program, *options, f"--screenshot={PICTURE}", page.as_uri()], check=True)


if __name__ == "__main__":
    main()
