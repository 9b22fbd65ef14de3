"""A script in a process of its own, which can ask for its peak of anonymous memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# RssAnon leaves out the page cache, into which the file's own pages go. `watch` is the
# target of a thread; the script sets `running` to False at its end.
WATCH = """
import json, sys, threading, time

def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(l.split()[1]) / 1024 for l in lines if l.startswith("RssAnon"))

peak, running = [0.0], True
def watch():
    while running:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)
"""


def told_by(script: str, *arguments: object, seconds: float = 240) -> Any:
    """Return what the script prints last, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])
