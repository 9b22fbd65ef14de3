"""The clock, the compile clock and the memory of this process."""

import os
import resource
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

from numba.core import event

STATUS = Path("/proc/self/status")
# On a machine with other work wall-clock seconds say nothing: with this variable fits
# are timed in seconds of the processor, summed over the threads; their notes say so.
IN_PROCESSOR_TIME = os.environ.get("COREVEC_BENCH_CLOCK") == "processor"
clock = time.process_time if IN_PROCESSOR_TIME else time.perf_counter


class Timer:
    """Seconds inside a `with` block, and how many of them Numba was compiling.

    `processor` has those of all threads on a processor: fewer than `seconds` where the
    machine had other work, and the process waited.

    Numba fires `numba:compile` only when a function is not in its disk cache, so
    loading a cached function (milliseconds) is not counted as compiling.
    """

    def __enter__(self):
        self._listener = event.TimingListener()
        self._install = event.install_listener("numba:compile", self._listener)
        self._install.__enter__()
        self._start, self._used = clock(), time.process_time()
        return self

    def __exit__(self, *_):
        self.processor = time.process_time() - self._used
        self.seconds = clock() - self._start
        self._install.__exit__(None, None, None)
        self.compiling = self._listener.duration if self._listener.done else 0.0


def status_mb(field):
    """Return a size of /proc/self/status (VmHWM, VmRSS, RssAnon) in MB."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"{STATUS} has no field {field!r}")


def reset_peak_rss():
    """Start a new peak; where Linux does not allow it the old peak stays."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_rss_mb():
    """Return the peak resident memory of this process, its data included."""
    if STATUS.exists():
        return status_mb("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def collected_warnings():
    """Yield a list that holds the text of each distinct warning at the end."""
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for warning in caught:
        text = f"{warning.category.__name__}: {warning.message}"
        if text not in texts:
            texts.append(text)
