"""
Which columns matter: a learned metric
======================================

Friedman's function uses five of ten columns. A Gaussian kernel with one width for all
columns measures distances in the other five as well; a learned metric gives each column
a factor, and leaves those out.
"""

from sklearn.datasets import make_friedman1
from sklearn.metrics import root_mean_squared_error

from corevec import CoreVectorRegressor, explain, methods
from corevec.plots import ImportanceDisplay, WaterfallDisplay

X, y = make_friedman1(3_000, noise=1.0, random_state=0)
X_test, y_test = make_friedman1(3_000, noise=0.0, random_state=1)

models = {}
for metric in ("isotropic", "learned"):
    cells = methods.Cells(500, tune=True, metric=metric)
    model = CoreVectorRegressor(tube=0.0, random_state=0, method=cells).fit(X, y)
    error = root_mean_squared_error(y_test, model.predict(X_test))
    print(f"{metric:9}  error {error:.2f}")
    models[metric] = model

# %%
# The metric is one factor per column. Its share of the variance is the importance of
# the column to the model.

model = models["learned"]
display = ImportanceDisplay.from_estimator(model)
display.ax_.set_title("Five of ten columns matter", loc="left")

# %%
# The importances speak of all rows. What each column adds to *one* prediction is told
# by exact Shapley values: they sum to the prediction.

found = explain(model, X_test[:1])
print(f"prediction {model.predict(X_test[:1])[0]:.2f}, true value {y_test[0]:.2f}")
WaterfallDisplay.from_explanation(found)
