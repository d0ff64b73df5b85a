"""The models, one module for each domain.

Each module has a `define` (`Collector`). The functions that it collects are called with the `tensorflow` module and
return the model's function, which holds its weights.
"""
