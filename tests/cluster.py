"""A real Dask cluster on loopback: one scheduler and workers, each its own process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


class Cluster:
    """A scheduler and some workers, started by their commands; killed at the end."""

    def __init__(self, folder: Path, n_workers: int = 2, memory: str = "1.5GB"):
        self.folder, self.memory = folder, memory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-show"
        )
        self._wait_for_scheduler()
        self.workers = [self.add_worker(i) for i in range(n_workers)]

    def add_worker(self, number: int) -> subprocess.Popen[bytes]:
        """Start one more worker; without a nanny, so that a kill is a kill."""
        return self._start(
            "worker",
            self.address,
            *("--nthreads", "1", "--memory-limit", self.memory, "--no-nanny"),
            *("--name", f"w{number}", "--local-directory", str(self.folder)),
        )

    def _start(self, *what: str) -> subprocess.Popen[bytes]:
        # The functions that make rows are imported by name.
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
        name = f"{what[0]}-{time.monotonic_ns()}.log"
        with open(self.folder / name, "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *what, "--no-dashboard"],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _wait_for_scheduler(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while self.scheduler.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"no scheduler after {seconds} s: see {self.folder}")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a process as a power cut would."""
        process.send_signal(signal.SIGKILL)
        process.wait()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                self.kill(process)
