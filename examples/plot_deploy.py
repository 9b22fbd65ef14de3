"""
Compress, and deploy without Python
===================================

A fitted ``SVC`` with hundreds of support vectors becomes a model of thirty, and that a
graph of ONNX, which runs wherever ONNX does. ``pip install "corevec[onnx]"``.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from corevec import compress
from corevec.formats import save_onnx
from corevec.plots import ModelSizeDisplay

X, y = make_moons(6000, noise=0.25, random_state=0)
X_test, y_test = make_moons(4000, noise=0.25, random_state=1)
slow = SVC(C=10, gamma=1.0).fit(X, y)
quick = compress(slow, n_vectors=30, random_state=0)
same = np.mean(quick.predict(X_test) == slow.predict(X_test))
print(f"{len(slow.support_)} vectors become 30; {same:.2%} of the answers are the same")

# %%
# The graph, run by onnxruntime.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "moons.onnx"
    save_onnx(quick, path)
    print(f"{path.stat().st_size:,} bytes")
    session = onnxruntime.InferenceSession(path)
answers = session.run(None, {session.get_inputs()[0].name: X_test.astype("float32")})
print(f"{np.mean(answers[0].ravel() == quick.predict(X_test)):.2%} as in Python")

# %%
# How few vectors are enough?

ModelSizeDisplay.from_estimator(slow, X_test, y_test, sizes=[4, 8, 16, 32, 64])
