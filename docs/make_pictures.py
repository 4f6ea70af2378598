"""Make the picture of an HTML report: `python docs/make_pictures.py`.

It judges the example of judge_function.md with a mistake by a few checks, so that the failure is on the first screen of
the page, writes the report as a page, and takes a picture of it with headless Chromium.
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
RIGHT, WRONG = "y_bar * (1 - y * y)", "y_bar * (1 - y)"
SIZE = "1000,920"  # in pixels: down to the heat maps of the first failure
CHECKS = ("forward", "vjp", "vjp_partial", "jvp", "vjp_of_vjp", "purity", "compile")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def example() -> str:
    """Return the source of the first example of judge_function.md, the class and the spec, with a mistake."""
    page = (DOCS / "judge_function.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)^report = ", page, re.DOTALL | re.MULTILINE)
    if found is None or RIGHT not in found[1]:
        raise SystemExit(f"judge_function.md has no example in Python with {RIGHT} before 'report = '")
    return found[1].replace(RIGHT, WRONG)


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
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example(), "judge_function.md", "exec"), names)
    report = names["crosscheck"](names["TanhLinear"].apply, names["spec"], checks=CHECKS)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        report.to_html(page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
        subprocess.run([program, *options, f"--screenshot={PICTURE}", page.as_uri()], check=True)


if __name__ == "__main__":
    main()
