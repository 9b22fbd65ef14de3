"""gamma and C by cross-validation: estimators that choose their own parameters.

==============  =============================================================
module          holds
==============  =============================================================
estimators      the public classes and their parameters
base            how they run: checks, grid, folds, refit, attributes
refitted        methods of the best estimator
grid            which candidates there are, and which lie beside which
halving         the rounds: coarse before fine, samples before all rows
folds           the splits, and the score of a prediction
shared_matrix   scores of a fold from one kernel matrix for all folds and C
separate_fits   scores from a fit per fold, where there is no such matrix
table           ``cv_results_``
==============  =============================================================
"""

from corevec.estimators.search.estimators import (
    CoreVectorClassifierCV,
    CoreVectorRegressorCV,
)

__all__ = ["CoreVectorClassifierCV", "CoreVectorRegressorCV"]
