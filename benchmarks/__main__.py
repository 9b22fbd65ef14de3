"""`python -m benchmarks NAME`: run experiments, then write their report."""

import argparse
import logging
import os
from pathlib import Path

NAMES = (
    "an experiment, all, list, report, papers (write their pages) or papers/NAME "
    "(measure what the page of a paper shows)"
)
log = logging.getLogger("benchmarks")
HERE = Path(__file__).parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", help=NAMES)
    parser.add_argument("--quick", action="store_true", help="tiny, to see it run")
    parser.add_argument("--repeats", type=int, help="fits per case")
    parser.add_argument("--out", type=Path, help="folder of the CSV files")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="solvers to run, separated by commas")
    parser.add_argument("--sets", help="data sets to run, separated by commas")
    parser.add_argument(
        "--fresh-peers", action="store_true", help="measure slow peers again"
    )
    return parser.parse_args()


def pin_threads(threads):
    """Set the thread counts that libraries read once, when first imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


def main():
    arguments = parse_arguments()
    pin_threads(arguments.threads)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    out = arguments.out or HERE / "results" / ("quick" if arguments.quick else "")

    # Imported only now: NumPy, Numba and BLAS read the thread variables on import.
    from benchmarks import experiments, harness, papers, report

    if arguments.name == "list":
        for name, module in experiments.EXPERIMENTS.items():
            log.info("%-22s %s", name, module.__doc__.splitlines()[0])
        return
    if arguments.name == "report":
        report.write_all(out)
        return
    if arguments.name == "papers":
        papers.main()
        return
    settings = harness.Settings(
        out=out,
        threads=arguments.threads,
        repeats=arguments.repeats,
        quick=arguments.quick,
        only=frozenset(arguments.only.split(",")) if arguments.only else None,
        sets=frozenset(arguments.sets.split(",")) if arguments.sets else None,
        fresh_peers=arguments.fresh_peers,
    )
    kind, _, paper = arguments.name.partition("/")
    names = papers.experiments_of(paper) if kind == "papers" else [arguments.name]
    for module in (one for name in names for one in experiments.choose(name)):
        harness.run_experiment(module, settings)
        report.write(out / f"{harness.experiment_name(module)}.csv")
    if kind == "papers" and not arguments.quick:
        papers.main()


if __name__ == "__main__":
    main()
