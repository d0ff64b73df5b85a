"""Writes models as source, with their values, derivatives and the sizes of the compiled programs."""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.convert import to_source
from graftax.graphdef_ir import GraftaxError
from graftax.testing.harness.children import answer_cases
from graftax.testing.harness.errors import error_text
from graftax.testing.pytrees import Json, Leaf
from graftax.testing.written_models.run_written import flattened, gradients, instructions, write_arrays
from graftax.testing.written_models.subjects import Subject, subject

__all__ = ["write"]

_MAX_DETAIL = 1000


def write(given: Subject, folder: Path) -> dict[str, Json]:
  """Writes a model into a folder, and returns facts about the text."""
  jax.config.update("jax_enable_x64", given.x64)
  if given.params:
    source = to_source(given.function, given.params, *given.inputs)
  else:
    source = to_source(functools.partial(given.function, {}), *given.inputs)
  (folder / "model.py").write_text(source.text, encoding="utf-8")

  inputs = [np.asarray(x) for x in given.inputs]
  compiled = jax.jit(given.function).lower(given.params, *inputs).compile()
  results = {f"value/{i}": leaf for i, leaf in enumerate(jax.tree.leaves(compiled(given.params, *inputs)))}
  if given.gradient:
    of_params, of_inputs = gradients(given.function, given.params, inputs)
    if given.params:
      whole = {name: of_params.get(name) for name in given.params}
      nested = flattened(source.parameters(whole))
      results |= {f"gradient/params/{k}": v for k, v in nested.items() if v is not None}
    results |= {f"gradient/inputs/{k}": v for k, v in of_inputs.items()}
  _store(folder / "results.npz", results)
  _store(folder / "params.npz", flattened(source.parameters(given.params)) if source.tree else {})
  _store(folder / "constants.npz", source.constants)
  _store(folder / "inputs.npz", {str(i): x for i, x in enumerate(inputs)})
  facts = {
    "x64": given.x64,
    "has_gradient": given.gradient,
    "has_parameters": bool(source.tree),
    "has_constants": bool(source.constants),
    "lines": len(source.text.splitlines()),
    "functions": sum(line.startswith("def ") for line in source.text.splitlines()),
    "recovered": source.recovered,
    "instructions": instructions(compiled),
  }
  (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
  return facts


def _store(path: Path, arrays: dict[str, Leaf]) -> None:
  write_arrays(str(path), {name: np.asarray(array) for name, array in arrays.items()})


def main() -> None:
  """Runs the child process, which writes models one after the other."""
  answer_cases(_run)


def _run(request: Json, _: Callable[[Any], None]) -> Iterator[Any]:
  for name, folder in request["models"]:
    try:
      with subject(name, Path(request["modules"])) as given:
        yield write(given, Path(folder))
    except Exception as e:
      yield {"error": error_text(e, _MAX_DETAIL), "refused": isinstance(e, GraftaxError)}
    jax.clear_caches()
