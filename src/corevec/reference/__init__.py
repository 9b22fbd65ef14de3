"""Reference solvers of the papers, written from the publications, for comparison.

Short, literal, one file per solver; they share kernels and sources with the rest of the
package, and no solver.

Users find the five classifiers of ``__all__``. The other names are the parts that they
consist of, which tests compare with slow twins, and the base class that model files ask
for.
"""

from corevec.reference._base import ReferenceClassifier as ReferenceClassifier
from corevec.reference._free_rows import FreeRows as FreeRows
from corevec.reference._kernel_rows import KernelRows as KernelRows
from corevec.reference._lasvm_rows import Expansion as Expansion
from corevec.reference.bvm import Ball as Ball
from corevec.reference.bvm import BallVectorMachine
from corevec.reference.lasvm import LASVM
from corevec.reference.pegasos import Pegasos
from corevec.reference.simple_svm import SimpleSVM
from corevec.reference.smo import SMO
from corevec.reference.smo import Box as Box
from corevec.reference.smo import Descent as Descent

__all__ = ["BallVectorMachine", "LASVM", "Pegasos", "SMO", "SimpleSVM"]
