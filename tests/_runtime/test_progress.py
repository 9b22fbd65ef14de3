"""Progress records rounds, hands their state to listeners, and knows the budget."""

from dataclasses import replace

import pytest

from corevec._runtime import Progress, RoundState, StopReason

ROUND = {"core": 1, "gap": 0.5}


def test_every_listener_gets_the_record_and_the_state():
    told = []
    progress = Progress(10, listeners=[lambda *given: told.append(given)])
    progress.record(**ROUND)
    state = RoundState(lambda: "functions")
    progress.record(state, **ROUND)
    assert [record["round"] for record, _ in told] == [1, 2]
    assert [given for _, given in told] == [None, state]
    assert progress.history == [record for record, _ in told]
    assert progress.spent() is None


def test_a_listener_that_returns_true_stops_the_fit():
    progress = Progress(10, listeners=[lambda *_: True, lambda *_: None])
    progress.record(**ROUND)
    assert progress.spent() is StopReason.INTERRUPT


@pytest.mark.parametrize(
    ("budget", "reason"), [({"max_iter": 1}, "max_iter"), ({"max_time": 0}, "max_time")]
)
def test_a_budget_is_spent_after_a_round(budget, reason):
    progress = Progress(10, **budget)
    progress.record(**ROUND)
    assert progress.spent() == reason


def test_states_are_changed_for_the_rounds_inside_only():
    """The innermost change comes first: its solver runs inside the others."""
    shown = []
    progress = Progress(10, listeners=[lambda _, state: shown.append(state)])

    def appended(letter):
        def change(state):
            return replace(state, functions=lambda: state.functions() + letter)

        return change

    state = RoundState(lambda: "f")
    with progress.showing(appended("a")):
        with progress.showing(appended("b")):
            progress.record(state, **ROUND)
        progress.record(state, **ROUND)
    progress.record(state, **ROUND)
    assert [one.functions() for one in shown] == ["fba", "fa", "f"]
