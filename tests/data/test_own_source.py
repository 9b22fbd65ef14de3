"""What a new kind of storage brings: two methods, and the names of its columns."""

import numpy as np

from corevec import CoreVectorClassifier, CoreVectorOneClass
from corevec.data.sources import Source
from corevec.kernels import Rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


class ListOfArrays(Source):
    """Rows in several arrays."""

    columns = ("target",)

    def __init__(self, parts, target):
        super().__init__()
        self.parts, self.target = parts, target
        self.n_rows, self.n_features = len(target), parts[0].shape[1]
        self.dtype = parts[0].dtype

    def take(self, rows):
        values = np.concatenate(self.parts)[rows]
        return Rows(values, np.asarray(rows), {"target": self.target[rows]})

    def block(self, start, stop):
        return self.take(np.arange(start, stop))


def test_a_source_of_two_methods_can_be_fitted():
    source = ListOfArrays([X[:123], X[123:400], X[400:]], Y)
    model = CoreVectorClassifier(random_state=0).fit(source)
    usual = CoreVectorClassifier(random_state=0).fit(X, Y)
    assert model.certificate_.converged
    np.testing.assert_array_equal(model.predict(X), usual.predict(X))
    assert CoreVectorOneClass(C=1.0).fit(source).certificate_.n_verified == len(X)
