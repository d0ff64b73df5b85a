"""Uses of the packages by a typed program: mypy checks them against the installed wheels. Never run.

A wheel without `py.typed` would make its names `Any`, which `assert_type` refuses.
"""

from collections.abc import Callable
from typing import Any, assert_type

import graftax.hub_io
import graftax.tools.cli
from graftax import convert, graphdef_ir, ops_jax, savedmodel_io, testing, xla_call_module


def use() -> Callable[[], None]:
  assert_type(xla_call_module.Module.from_bytes(b""), xla_call_module.Module)
  assert_type(graphdef_ir.parse_graph(b""), graphdef_ir.Graph)
  assert_type(ops_jax.lowering("AddV2"), ops_jax.Lowering | None)
  assert_type(convert.split_trainable({}), tuple[dict[str, Any], dict[str, Any]])
  assert_type(savedmodel_io.load("model"), savedmodel_io.SavedModel)
  assert_type(graftax.hub_io.__all__, list[str])
  assert_type(testing.__all__, list[str])
  return graftax.tools.cli.main
