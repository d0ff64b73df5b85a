"""The models, one module for each domain.

Each module has a `define` (`Collector`). A function of the `tensorflow` module, `Layers` and inputs is a model; one of
the `tensorflow` module alone returns the model's function, which holds its weights.
"""
