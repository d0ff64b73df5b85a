"""Models that are written as Python: files of other kinds, and names that Python does not have."""

from pathlib import Path

import jax
import numpy as np

from graftax.convert import to_source
from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io import load
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.models import graph_model, write_graph_model
from graftax.testing.hostile.grammar.protos import add, const
from graftax.testing.hostile.grammar.readers import example
from graftax.testing.hostile.registry import Attempt, Box, Template, family, find_template, templates
from graftax.testing.pytrees import Leaf

_KIND = "source"
_NAMES = (
  "x",
  "jnp",
  "\uff4a\uff4e\uff50",
  "a\u00b2",
  "1",
  "class",
  'a"""\nimport os',
  "model",
  "params",
  "\u00a7value\u00a70",
  "\u2028",
  "",
  "a b",
  "a_b",
)


def _run(path: Path) -> dict[str, Leaf]:
  """Writes every signature of a model as Python, and calls it."""
  model = load(path)
  results: dict[str, Leaf] = {}
  for name, signature in model.signatures.items():
    fn, params = model.convert(signature)
    inputs = {key: example(spec) for key, spec in signature.inputs.items()}
    if any(value is None or value.dtype == object for value in inputs.values()):
      continue
    written = to_source(fn, dict(params), **inputs)
    first = [written.parameters(params)] * bool(written.tree) + [written.constants] * bool(written.constants)
    outputs = written.function()(*first, *inputs.values())
    results[name] = {"text": written.text, "outputs": jax.tree.map(np.asarray, outputs)}
  return results


def _written(write: Template, draw: Draw, box: Box) -> Attempt:
  """Returns the attempt to write what another template wrote as Python."""
  write(draw, box)
  path = box.model / "graph.pb"
  return Attempt(lambda: _run(path if path.exists() else box.model), memory_mib=1100)


def _writers() -> dict[str, Template]:
  """Returns the templates of SavedModels and graphs."""
  kinds = ("saved_model", "graph_file", "tracing", "tf1_control_flow")
  return {f"{kind}_{name}": find_template(kind, name) for kind, name in templates(kinds)}


family(_KIND, _writers(), _written)


def names(draw: Draw, box: Box) -> Attempt:
  given = list(dict.fromkeys(draw.pick(*_NAMES) for _ in range(2)))
  model = graph_model(
    lambda graph: _sum(graph, len(given)), {f"x{i}": (DType.FLOAT, (2,)) for i in range(len(given))}, "out"
  )
  signature = model.meta_graphs[0].signature_def["serving_default"]
  for i, name in enumerate(given):
    signature.inputs[name].CopyFrom(signature.inputs[f"x{i}"])
    del signature.inputs[f"x{i}"]
  write_graph_model(box.model, model)
  return Attempt(lambda: _run(box.model), "loaded")


def _sum(graph: schema.GraphDef, count: int) -> None:
  const(graph.node, "large", np.arange(40, dtype=np.float32).reshape(20, 2))
  add(graph.node, "all", "AddN", *(f"x{i}" for i in range(count)), N=count, T=DType.FLOAT)
  add(graph.node, "out", "Mul", "all", "large", T=DType.FLOAT)
