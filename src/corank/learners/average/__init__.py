"""The average of many closed-form models: what AutoRanker and AutoRegressor fit."""
