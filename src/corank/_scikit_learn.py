"""What learners and encoders take from scikit-learn; commands that fit nothing have `_stand_ins` in
its place.
"""

from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
    is_regressor,
)
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = [
    "BaseEstimator",
    "ConvergenceWarning",
    "DataConversionWarning",
    "OneToOneFeatureMixin",
    "RegressorMixin",
    "TransformerMixin",
    "available_if",
    "check_is_fitted",
    "is_regressor",
    "validate_data",
]
