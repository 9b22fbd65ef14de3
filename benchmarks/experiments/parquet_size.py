"""A fit of 20 GB of Parquet: seconds, and the peak of resident memory.

200,000,000 rows of 25 float32 columns (20 GB; the file is about as large: random
numbers do not compress) and an int8 label, in row groups of 65,536 rows. Two clouds,
one and a half deviations apart along the first of the columns; the memory budget is
128 MiB. Written to a temporary folder (TMPDIR) first, and removed.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.case import Case
from benchmarks.processes import answer_of
from benchmarks.records import noted

REPEATS = 1
ROW_GROUP, FILES, COLUMNS = 65_536, 20, 25
PARAMS = {"C": 1.0, "kernel": "linear", "tol": 1e-2, "memory_budget": 2**27}
MOST_SECONDS = 3_600


def cases(quick):
    n = 400_000 if quick else 200_000_000
    yield Case("corevec_tol", "parquet_clouds", PARAMS, {"n": n}, probe=probe)


def probe(case, threads):
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), case.data_args["n"])
        job = {"folder": folder, "params": case.params | {"n_jobs": threads}}
        found = answer_of("benchmarks.parquet_process", job, MOST_SECONDS)
    return noted(found)


def write_rows(folder, n):
    """Write the clouds, file by file, one row group at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(COLUMNS)]
    fields = [(name, pa.float32()) for name in names]
    schema = pa.schema([*fields, ("label", pa.int8())])
    for number in range(FILES):
        left = n // FILES
        path = folder / f"part-{number:02d}.parquet"
        # Random numbers: a dictionary or compression would only cost time.
        how = {"compression": "none", "use_dictionary": False}
        with parquet.ParquetWriter(path, schema, **how) as file:
            while left > 0:
                size = min(left, ROW_GROUP)
                X = rng.standard_normal((COLUMNS, size), dtype=np.float32)
                y = rng.integers(0, 2, size, dtype=np.int8)
                X[0] += 1.5 * y
                file.write_table(pa.table([*X, y], schema=schema))
                left -= size
