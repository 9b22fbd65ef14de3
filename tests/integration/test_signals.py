"""A few interrupts and kills; ``tests/torture_signals.py`` does hundreds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "torture_signals.py"


@pytest.mark.slow
def test_interrupts_and_kills_leave_whole_models_and_files():
    command = [sys.executable, str(SCRIPT), "--interrupts", "12", "--kills", "3"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert sum(n for what, n in seen.items() if "files left" not in what) == 15
