"""
A pipeline with categorical columns
===================================

A data frame of numbers, words and gaps, through scikit-learn's own preprocessing into a
kernel machine. Model and pipeline display themselves in a notebook.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from corevec import CoreVectorClassifier

rng = np.random.default_rng(0)
n = 4000
frame = pd.DataFrame(
    {
        "age": rng.integers(18, 90, n).astype(float),
        "hours": rng.normal(38, 9, n),
        "trade": rng.choice(["baker", "clerk", "smith"], n),
    }
)
pays = frame["hours"] * np.where(frame["trade"] == "smith", 1.4, 1.0)
label = np.where(pays + 0.2 * frame["age"] + rng.normal(0, 4, n) > 52, "high", "low")
frame.loc[rng.random(n) < 0.05, "age"] = np.nan

# %%
# Numbers are filled and scaled, words become columns of their own.

numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
prepared = make_column_transformer(
    (numbers, ["age", "hours"]), (OneHotEncoder(handle_unknown="ignore"), ["trade"])
)
pipe = make_pipeline(prepared, CoreVectorClassifier(C=1, random_state=0))
train, test, y_train, y_test = train_test_split(frame, label, random_state=0)
pipe.fit(train, y_train)
print(f"accuracy {pipe.score(test, y_test):.3f}")
print(pipe[-1].certificate_)

# %%
# What the model answers along the hours, by trade.

hours = np.linspace(15, 60, 200)
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for trade in ("baker", "clerk", "smith"):
    line = pd.DataFrame({"age": 45.0, "hours": hours, "trade": trade})
    values = pipe.decision_function(line[frame.columns])
    axes.plot(hours, -values if pipe.classes_[1] == "low" else values, label=trade)
axes.axhline(0, color="0.5", ls=":")
axes.set(xlabel="hours", ylabel="decision value of high pay, age 45")
axes.legend()

# %%
# The pipeline as a diagram.

pipe
