"""What notebooks show of a SavedModel: one table in the colors of the notebook."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from graftax.convert import Preflight, Program, preflight
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io.model_parts import ModelParts
from graftax.savedmodel_io.signatures import Signature

__all__ = ["model_table"]

_MOST_SIGNATURES = 10
_MOST_PARAMETERS = 5
_MOST_NAMES = 5


def model_table(model: ModelParts, program: Callable[[Signature], Program]) -> str:
  """Returns the signatures of a model with what each needs, and its largest parameters. Reads no parameter's value.

  Args:
    model: the model.
    program: returns the program of a signature.

  Raises:
    GraftaxError: the model is damaged.
  """
  rows = [
    f"<tr><th><code>{escape(signature.name)}</code></th><td>{_specs(signature.inputs)}</td>"
    f"<td>{_specs(signature.outputs)}</td><td>{_verdict(signature, program)}</td></tr>"
    for signature in list(model.signatures.values())[:_MOST_SIGNATURES]
  ]
  head = "<tr><th>signature</th><th>takes</th><th>returns</th><th>converts</th></tr>"
  functions = "".join(f"<li><code>{escape(str(function))}</code></li>" for function in model.functions.values())
  infos = sorted(model.variables.infos.values(), key=lambda info: -_size(info.shape.dims))
  largest = "".join(
    f"<li><code>{escape(info.name)}: {escape(info.dtype.base.tf_name)}{escape(str(info.shape))}</code></li>"
    for info in infos[:_MOST_PARAMETERS]
  )
  more = f"<li>and {len(infos) - _MOST_PARAMETERS} smaller ones</li>" if len(infos) > _MOST_PARAMETERS else ""
  caption = f"<caption>{escape(model.kind)} <code>{escape(str(model.path))}</code></caption>"
  return (
    f"<table>{caption}{head}{''.join(rows)}</table>"
    + (f"<details><summary>functions</summary><ul>{functions}</ul></details>" if functions else "")
    + (f"<details><summary>{len(infos)} variables</summary><ul>{largest}{more}</ul></details>" if infos else "")
  )


def _specs(specs: Mapping[str, object]) -> str:
  return "<br>".join(f"<code>{escape(name)}: {escape(str(spec))}</code>" for name, spec in specs.items()) or "nothing"


def _verdict(signature: Signature, program: Callable[[Signature], Program]) -> str:
  try:
    found = preflight(program(signature))
  except GraftaxError as e:
    return escape(f"no: {str(e).splitlines()[0]}")
  return "<br>".join(map(escape, _lines(found)))


def _lines(found: Preflight) -> list[str]:
  missing = [op for op in found.unsupported_ops if op not in found.on_host]
  if missing:
    return [f"no: {_names(missing)} without a lowering"]
  if found.on_host or found.unavailable:
    return ["in parts, with split", *found.unavailable]
  lines = ["yes"]
  lines += ["needs rng="] if found.draws_random_numbers else []
  lines += [f"updates {_names(found.updated_variables)}"] if found.updated_variables else []
  return lines


def _names(names: Sequence[str]) -> str:
  more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
  return ", ".join(names[:_MOST_NAMES]) + more


def _size(dims: "tuple[int | None, ...] | None") -> int:
  size = 1
  for dim in dims or ():
    size *= dim or 0
  return size
