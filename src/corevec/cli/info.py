"""``corevec info``: versions, threads, caches."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from corevec.cli.console import OutputOptions
from corevec.cli.errors import ExitCode
from corevec.cli.fitting import in_bytes

_NEEDED = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "typer", "tqdm")
# Optional packages, with the extra that installs them.
_OPTIONAL = {
    "pyarrow": "arrow",
    "matplotlib": "plot",
    "scikit-image": "surface",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "skops": "skops",
}
_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR")


def info(out: OutputOptions) -> ExitCode:
    """Show versions, threads, and the cache of compiled code."""
    import corevec

    versions = {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    cache = _cache(Path(corevec.__file__).parent)
    out.say(f"corevec        {corevec.__version__}  ({Path(corevec.__file__).parent})")
    out.say(f"Python         {platform.python_version()}  ({platform.platform()})")
    for name, found in versions.items():
        extra = _OPTIONAL.get(name)
        missing = f'not installed: pip install "corevec[{extra}]"'
        out.say(f"{name:<14} {found or missing}")
    out.say(f"threads        {_threads()} cores may be used{_set_variables()}")
    out.say(
        f"compiled code  {cache['files']:,} files, {in_bytes(cache['bytes'])} in "
        f"{cache['folder']}"
    )
    out.result(
        command="info",
        version=corevec.__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=versions,
        threads=_threads(),
        environment={n: os.environ[n] for n in _VARIABLES if n in os.environ},
        cache=cache,
    )
    return ExitCode.OK


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _set_variables() -> str:
    found = [f"{n}={os.environ[n]}" for n in _VARIABLES if n in os.environ]
    return f" ({', '.join(found)})" if found else ""


def _cache(package: Path) -> dict[str, Any]:
    """Return the cache of Numba (.nbi and .nbc files): its folder and its size."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or package)
    files = [p for p in folder.rglob("*.nb[ic]") if p.is_file()]
    size = sum(p.stat().st_size for p in files)
    return {"folder": str(folder), "files": len(files), "bytes": size}
