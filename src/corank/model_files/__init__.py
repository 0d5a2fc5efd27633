"""Model files: a container of arrays and JSON, packing of values, what the file of every learner holds."""
