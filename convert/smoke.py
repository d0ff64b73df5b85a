"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

import numpy as np

from graftax.convert import ConvertOptions, Variable, get_config, override_config

assert ConvertOptions() is not None
with override_config("strict_shape_check", False):
  assert get_config("strict_shape_check") is False
assert Variable(np.float32([1, 2]), "w", True).name == "w"
