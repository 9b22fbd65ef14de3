"""
A stream that drifts
====================

One pass in bounded memory, and an accuracy that is measured on each block before it is
learned. The concept changes twice. Without ``forget=`` all rows weigh alike; with it
a row counts half after so many others.
"""

import matplotlib.pyplot as plt
import numpy as np

from corevec import StreamingClassifier

BLOCKS, ROWS, TURNS = 60, 200, (20, 40)
rng = np.random.default_rng(0)


def blocks():
    for block in range(BLOCKS):
        X = rng.normal(size=(ROWS, 5))
        turn = sum(block >= turn for turn in TURNS)
        value = (X[:, 0], -X[:, 0], X[:, 1])[turn]
        yield X, np.where(value + 0.3 * rng.normal(size=ROWS) > 0, "yes", "no")


# %%
# Three half-lives.

learners = {
    "forgets nothing": StreamingClassifier(kernel="linear", budget=100),
    "forget=1000": StreamingClassifier(kernel="linear", budget=100, forget=1000),
    "forget=200": StreamingClassifier(kernel="linear", budget=100, forget=200),
}
accuracy = {name: [] for name in learners}
for number, (X, y) in enumerate(blocks()):
    for name, model in learners.items():
        if number:
            accuracy[name].append(model.score(X, y))
        model.partial_fit(X, y, classes=["no", "yes"])
for name, values in accuracy.items():
    print(f"{name:16s} mean accuracy {np.mean(values):.3f}")

# %%
# Accuracy of each block, before it was learned.

figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
for name, values in accuracy.items():
    axes.plot(range(1, BLOCKS), values, label=name)
for turn in TURNS:
    axes.axvline(turn, color="0.5", ls=":")
axes.set(xlabel="block", ylabel="accuracy", ylim=(0, 1.02))
axes.legend()
