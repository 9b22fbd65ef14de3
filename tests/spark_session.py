"""A Spark session for tests; without Java they are skipped, and say so."""

from __future__ import annotations

import os
import shutil
import signal
import sys

import pytest

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
}


def session(master="local[2]"):
    """Return the session of this process; skip the tests where there can be none."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master(master)
    for name, value in LOCAL.items():
        builder = builder.config(name, value)
    before = signal.getsignal(signal.SIGINT)
    try:
        return builder.getOrCreate()
    finally:  # Spark's own handler would end the test process at the next Ctrl-C
        signal.signal(signal.SIGINT, before)
