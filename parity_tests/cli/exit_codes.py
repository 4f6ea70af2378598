"""The exit codes of `gradparity`: 0 if all agree, 1 if a candidate disagrees, and 2."""

from __future__ import annotations

COULD_NOT_RUN = 2  # something could not be judged, or a command could not run
