"""A generated learning-to-rank set: queries of about 100 rows, grades 0 to 4.

A row's relevance is a function of 6 of 20 columns (a product, a bump, two monotone
terms), or of 6 directions where `rotated`: trees see the former, kernels do not care.
Plus an effect of its query that no column shows, plus noise;
cut at fixed thresholds, so that half of the rows have grade 0 and 2 % grade 4, as in
the published web search sets (MSLR-WEB). The effect stands for what such grades have:
an easy query has many good rows, a hard one few. Columns of a query are shifted
together, too.

`y` has two columns, the grade and the query; the error is 1 - NDCG@10, the mean over
the queries with two grades or more.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import ndcg_score

from benchmarks.datasets._base import Dataset

CUTS = (0.5, 0.8, 0.93, 0.98)  # shares of the rows below grades 1, 2, 3, 4


@dataclass(frozen=True)
class RankingDataset(Dataset):
    """Rows with (grade, query) in `y_train` and `y_test`."""

    def error(self, predicted, truth):
        """Return 1 - NDCG@10."""
        return 1 - ndcg_at_10(truth[:, 0], truth[:, 1], predicted)


def ndcg_at_10(grades, query, scores):
    """Return the mean NDCG@10 with gains 2^grade - 1, as web search uses them."""
    order = np.argsort(query, kind="stable")
    starts = np.flatnonzero(np.diff(query[order], prepend=-1))
    found = []
    for rows in np.split(order, starts[1:]):
        gains = 2.0 ** grades[rows] - 1
        if len(np.unique(gains)) > 1:
            found.append(ndcg_score([gains], [scores[rows]], k=10))
    return float(np.mean(found))


def load(n, d=20, seed=0, n_test=20_000, rows_per_query=100, rotated=False):
    rng = np.random.default_rng(seed)
    total = n + n_test
    query = np.repeat(np.arange(total // rows_per_query), rows_per_query)
    shift = 0.5 * rng.normal(size=(query[-1] + 1, d))
    X = rng.normal(size=(total, d)) + shift[query]
    relevance = X[:, 0] * X[:, 1] + 2 * np.exp(-(X[:, 2] ** 2) - X[:, 3] ** 2)
    relevance += X[:, 4] + np.tanh(2 * X[:, 5])
    effect = rng.normal(size=query[-1] + 1)
    relevance += effect[query] + 0.5 * rng.normal(size=total)
    grade = np.searchsorted(np.quantile(relevance, CUTS), relevance)
    y = np.stack([grade, query], axis=1).astype(np.float64)
    if rotated:
        X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = X.astype(np.float32)
    note = "error is 1 - NDCG@10"
    return RankingDataset(X[:n], y[:n], X[n:], y[n:], note=note)
