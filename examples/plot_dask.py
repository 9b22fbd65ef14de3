"""
Rows of Dask
============

The same estimator on a Dask array: each partition is looked at where it lies, and the
certificate is measured on all of them. ``pip install "corevec[dask]"``.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from corevec import CoreVectorClassifier

rng = np.random.default_rng(0)
rows = 4 * rng.random((40_000, 2))
X = da.from_array(rows, chunks=(10_000, 2))
y = da.floor(X).sum(axis=1).astype(int) % 2

model = CoreVectorClassifier(C=1000, gamma=0.37, random_state=0).fit(X, y)
print(model.certificate_)
lazy = model.predict(X)
print(lazy)
print(f"{float((lazy == y).mean()):.2%} right")

# %%
# What every round sent to the partitions, and received.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
rounds = np.arange(1, len(model.history_) + 1)
for shift, name in ((-0.2, "bytes_sent"), (0.2, "bytes_received")):
    sizes = [entry.get(name, 0) / 1e6 for entry in model.history_]
    axes.bar(rounds + shift, sizes, width=0.35, label=name.replace("_", " "))
axes.set(xlabel="round", ylabel="MB", xticks=rounds)
axes.legend()
