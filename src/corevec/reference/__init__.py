"""Reference solvers of the papers, written from the publications, for comparison.

Short, literal, one file per solver; they share kernels and sources with the rest of the
package, and no solver.
"""

from corevec.reference.bvm import BallVectorMachine
from corevec.reference.lasvm import LASVM
from corevec.reference.pegasos import Pegasos
from corevec.reference.simple_svm import SimpleSVM
from corevec.reference.smo import SMO

__all__ = ["BallVectorMachine", "LASVM", "Pegasos", "SMO", "SimpleSVM"]
