"""Random problems over every estimator, judged by an independent evaluator.

``make torture``, or in ``tests/``: ``python -m torture --problems 10000 --seed 0``.
"""
