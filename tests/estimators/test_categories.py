"""Frames with columns of categories: encoded inside, remembered, the same later."""

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

from corevec import (
    CoreVectorClassifier,
    CoreVectorRegressor,
    certify,
    explain,
    formats,
    methods,
)
from corevec.exceptions import InvalidInputError

pd = pytest.importorskip("pandas")


def trades(n, seed=0, noise_columns=0):
    """Return a frame of numbers and words, and pay by trade."""
    rng = np.random.default_rng(seed)
    trade = rng.choice(["smith", "baker", "clerk"], n)
    frame = pd.DataFrame({"hours": rng.normal(size=n), "trade": trade})
    frame["trade"] = frame["trade"].astype("category")
    frame["age"] = rng.normal(size=n)
    for c in range(noise_columns):
        frame[f"noise {c}"] = rng.normal(size=n)
    slope = pd.Series(trade).map({"smith": 2.0, "baker": -1.0, "clerk": 0.5})
    return frame, slope.to_numpy() * np.sin(2 * frame["hours"].to_numpy())


def by_hand(frame):
    """The same columns by scikit-learn's encoder."""
    codes = OneHotEncoder(sparse_output=False, dtype=float)
    codes.fit(np.array([["baker"], ["clerk"], ["smith"]], dtype=object))
    codes.handle_unknown = "ignore"
    own = codes.transform(frame[["trade"]].to_numpy(dtype=object))
    return np.column_stack([frame["hours"], own, frame["age"]])


@pytest.mark.parametrize("method", ["exact", methods.Cells(100)])
def test_categories_are_those_of_a_one_hot_encoder(method, tmp_path):
    frame, y = trades(300)
    new = trades(80, seed=1)[0]
    asked = {"gamma": 0.5, "tube": 0.0, "method": method, "random_state": 0}
    model = CoreVectorRegressor(**asked).fit(frame, y)
    plain = CoreVectorRegressor(**asked).fit(by_hand(frame), y)
    assert model.categories_ == {"trade": ["baker", "clerk", "smith"]}
    names = ["hours", "trade=baker", "trade=clerk", "trade=smith", "age"]
    assert list(model.feature_names_in_) == names
    expected = plain.predict(by_hand(new))
    np.testing.assert_array_equal(model.predict(new), expected)
    # Words of another kind, and the codes themselves.
    words = new.assign(trade=new["trade"].astype(object))
    np.testing.assert_array_equal(model.predict(words), expected)
    codes = pd.DataFrame(by_hand(new), columns=names)
    np.testing.assert_array_equal(model.predict(codes), expected)
    assert certify(model, frame, y).primal == pytest.approx(model.certificate_.primal)
    formats.save(model, tmp_path / "model.cvm")
    loaded = formats.load(tmp_path / "model.cvm")
    np.testing.assert_array_equal(loaded.predict(new), expected)


def test_few_rows_and_other_orders_of_categories_give_the_same_columns():
    frame, y = trades(200)
    model = CoreVectorRegressor(method="exact").fit(frame, y)
    one = frame[frame["trade"] == "smith"].head(3)
    one = one.assign(trade=one["trade"].cat.remove_unused_categories())
    whole = model.predict(frame)[one.index]
    np.testing.assert_allclose(model.predict(one), whole, rtol=1e-9)


def test_a_category_that_the_fit_did_not_see_is_none_of_those_it_saw():
    frame, y = trades(200)
    model = CoreVectorRegressor(method="exact", gamma=0.5).fit(frame, y)
    new = frame.head(5).assign(trade=pd.Categorical(["sailor"] * 5))
    plain = CoreVectorRegressor(method="exact", gamma=0.5).fit(by_hand(frame), y)
    expected = plain.predict(by_hand(new))
    assert not by_hand(new)[:, 1:4].any()
    np.testing.assert_array_equal(model.predict(new), expected)


def test_polars_categories_are_encoded_too():
    pl = pytest.importorskip("polars")
    frame, y = trades(200)
    table = pl.from_pandas(frame.assign(trade=frame["trade"].astype(str)))
    kind = pl.Enum(["clerk", "baker", "smith"])
    models = [
        CoreVectorRegressor(method="exact").fit(X, y)
        for X in (
            frame,
            *(
                table.with_columns(pl.col("trade").cast(t))
                for t in (kind, pl.Categorical)
            ),
        )
    ]
    found = [one.predict(table) for one in models]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("when", ["fit", "predict"])
def test_a_missing_category_is_an_error(when):
    frame, y = trades(60)
    gaps = frame.copy()
    gaps.loc[[7, 9], "trade"] = None
    model = CoreVectorClassifier().fit(frame, y > 0)
    called = model.predict if when == "predict" else lambda X: model.fit(X, y > 0)
    with pytest.raises(InvalidInputError, match="'trade' has no category in 2 of 60"):
        called(gaps)


def test_columns_of_one_name_are_refused():
    frame, y = trades(60)
    frame["trade=smith"] = 1.0
    with pytest.raises(InvalidInputError, match="two columns 'trade=smith'"):
        CoreVectorRegressor().fit(frame, y)


def test_categories_that_are_numbers_stay_numbers():
    frame, y = trades(60)
    grade = np.arange(60) % 3
    frame = frame[["hours"]].assign(grade=pd.Categorical(grade))
    model = CoreVectorRegressor(method="exact").fit(frame, y)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "categories_")


def test_a_fit_without_categories_forgets_them():
    frame, y = trades(60)
    model = CoreVectorRegressor(method="exact").fit(frame, y)
    model.fit(by_hand(frame), y)
    assert not hasattr(model, "categories_")
    assert model.predict(by_hand(frame)).shape == (60,)


def test_the_codes_of_a_column_share_one_factor_of_the_metric():
    frame, y = trades(1500, noise_columns=6)
    new, truth = trades(500, seed=1, noise_columns=6)
    asked = {"tube": 0.0, "random_state": 0}
    method = methods.Cells(300, tune=True, metric="learned")
    model = CoreVectorRegressor(method=method, **asked).fit(frame, y)
    codes = [
        c for c, name in enumerate(model.feature_names_in_) if name.startswith("trade=")
    ]
    factors = model.metric_[codes]
    assert np.all(factors == factors[0])
    assert len(np.unique(model.metric_)) == 1 + model.n_features_in_ - 3
    plain = CoreVectorRegressor(method=methods.Cells(300, tune=True), **asked)
    assert model.score(new, truth) > plain.fit(frame, y).score(new, truth)


def test_shapley_values_of_categories_are_of_their_column():
    frame, y = trades(150)
    model = CoreVectorRegressor(method="exact").fit(frame, y)
    found = explain(model, frame.head(2), background=frame.head(9))
    assert sorted(found.names) == ["age", "hours", "trade"]
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(frame.head(2)), atol=1e-9)
