"""Copy the files that `benchmarks.gpu` reads into a folder: 24 MB in all.

    python -m benchmarks.gpu_data FOLDER

The files hold the smallest exact types, compressed; set COREVEC_DATA to the folder on
the machine that has the GPU.
"""

import shutil
import sys
from pathlib import Path

from benchmarks.datasets._base import data_folders

FILES = ("adult_a9a.npz", "ijcnn1.npz", "mnist.npz", "covtype.npz")


def run(folder):
    """Copy the files, and print their sizes."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    source, total = data_folders()[0], 0
    for name in FILES:
        copy = Path(shutil.copyfile(source / name, Path(folder) / name))
        total += copy.stat().st_size
        print(f"{copy}  {copy.stat().st_size / 1e6:.2f} MB")
    print(f"{total / 1e6:.2f} MB in all")


if __name__ == "__main__":
    run(sys.argv[1])
