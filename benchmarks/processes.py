"""Processes that a measurement starts: asked on stdin, ended whatever happens."""

import contextlib
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
log = logging.getLogger(__name__)
# What a process asked to end may take for its own processes and files.
SECONDS_TO_END = 20
SAYS = "# "
_CHILD_SUBREAPER = 36


def answer_of(module, job, seconds):
    """Return what ``python -m module`` writes for a job; its progress is logged.

    Nothing that it started is left, also after an error, Ctrl-C or too many seconds:
    processes whose parent has ended become children of this one, and are killed.
    """
    _adopt_orphans()
    before = set(below(os.getpid()))
    # A session of its own: Ctrl-C reaches this process only, which ends the other one.
    asked = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    errors, answers = [], []
    # Threads: what it started may hold these open after its end.
    own = ((_listen, asked.stderr, errors), (_keep, asked.stdout, answers))
    readers = [threading.Thread(target=go, args=args) for go, *args in own]
    timer = threading.Timer(seconds, _end, [asked])
    for one in (*readers, timer):
        one.start()
    try:
        asked.stdin.write(json.dumps(job) + "\n")
        asked.stdin.flush()  # and open: its end tells that this process has ended
        code = asked.wait()
    finally:
        timer.cancel()
        _end(asked)
        _kill(set(below(os.getpid())) - before)
        for one in readers:
            one.join()
        for stream in (asked.stdin, asked.stdout, asked.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    if code:
        why = "".join(errors)[-2000:]
        raise RuntimeError(f"{module} failed ({code}, {seconds:.0f} s at most):\n{why}")
    return json.loads(answers[-1])


def say(text):
    """Tell the measuring process, on stderr, how far this one has come."""
    sys.stderr.write(f"{SAYS}{text}\n")
    sys.stderr.flush()


def job_from_parent():
    """Return the job of the measuring process, and end as soon as that one has ended.

    SIGTERM then leaves all blocks of `with` and `finally`, as Ctrl-C does.
    """

    def leave(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    def watch():
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=watch, daemon=True).start()
    return job


def _listen(stream, errors):
    for line in stream:
        if line.startswith(SAYS):
            log.info("  %s", line.removeprefix(SAYS).rstrip())
        else:
            errors.append(line)


def _keep(stream, lines):
    lines += stream


def _end(process):
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill(processes):
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    end = time.monotonic() + SECONDS_TO_END
    for one in processes:  # those of ours are waited for: no zombie stays
        while time.monotonic() < end:
            try:
                if os.waitpid(one, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                break
            time.sleep(0.02)


def _adopt_orphans():
    """Become the parent of those below whose parent ends (Linux; elsewhere nothing)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(process):
    """Return the processes that a process has started, and those they started."""
    parents = {}
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                stat = (one / "stat").read_text()
            except OSError:  # it has ended
                continue
            parents[int(one.name)] = int(stat.rpartition(")")[2].split()[1])
    found, wanted = [], [process]
    while wanted:
        one = wanted.pop()
        own = [child for child, parent in parents.items() if parent == one]
        found += own
        wanted += own
    return found


def command_of(process):
    """Return the command line of a process, nothing if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def high_water(process):
    """Return the peak resident memory of a process in MB, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(one.split()[1]) / 1000 for one in lines if "VmHWM" in one), 0.0)
