"""
A stream that drifts
====================

One pass, a few vectors, and an accuracy that is measured on each block before it is
learned. The concept turns over in the middle: a ball forgets nothing, so the example
starts anew where the accuracy falls.
"""

import matplotlib.pyplot as plt
import numpy as np

from corevec import StreamingBallClassifier

BLOCKS, ROWS, TURN = 60, 200, 30
rng = np.random.default_rng(0)


def blocks():
    for block in range(BLOCKS):
        X = rng.normal(size=(ROWS, 5))
        sign = 1 if block < TURN else -1
        yield X, np.where(sign * X[:, 0] + 0.1 * rng.normal(size=ROWS) > 0, "yes", "no")


def learner():
    return StreamingBallClassifier(C=1.0)


# %%
# One model learns everything; the other is replaced after a fall by 0.25.

keeps, renews = learner(), learner()
accuracy = {"forgets nothing": [], "starts anew": []}
best, restarts = 0.0, []
for number, (X, y) in enumerate(blocks()):
    if number:
        accuracy["forgets nothing"].append(keeps.score(X, y))
        now = renews.score(X, y)
        accuracy["starts anew"].append(now)
        best = max(best, now)
        if now < best - 0.25:
            renews, best = learner(), 0.0
            restarts.append(number)
    for model in (keeps, renews):
        model.partial_fit(X, y, classes=["no", "yes"])
print("started anew at block", restarts)
print(renews.ball_bound_)

# %%
# Accuracy of each block, before it was learned.

figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
for name, values in accuracy.items():
    axes.plot(range(1, BLOCKS), values, label=name)
axes.axvline(TURN, color="0.5", ls=":")
axes.set(xlabel="block", ylabel="accuracy", ylim=(0, 1.02))
axes.legend()
