"""`graftax source`: a signature as Python without graftax, with parameters and a check."""

import ast
import dataclasses
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from graftax.convert import MissingInputError, Source, to_source
from graftax.hub_io import load
from graftax.savedmodel_io import SavedModel, write_safetensors
from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.tools.console import progress
from graftax.tools.shape_options import SYMBOLIC, example_size, input_shapes

__all__ = ["CHECK_FILE", "MODEL_FILE", "SignatureSource", "WrittenSource", "signature_source", "write_source"]

# Any in this module: nested parameters and results.

MODEL_FILE = "model.py"
CHECK_FILE = "check.py"
_PARAMETERS_FILE = "params.safetensors"
# The first line of every text of `to_source`.
_FIRST_LINE = '"""Written by graftax."""'
_HOW_TO_REPLACE = "pass --force"
_TEMPLATES = files("graftax.tools") / "source_templates"


@dataclasses.dataclass(frozen=True, slots=True)
class WrittenSource:
  """Source on disk.

  Attributes:
    folder: where.
    num_lines: of model.py.
    num_functions: in model.py; or classes.
  """

  folder: Path
  num_lines: int
  num_functions: int


@dataclasses.dataclass(frozen=True, slots=True)
class SignatureSource:
  """A signature as source.

  Attributes:
    source: what is written.
    signature: its name.
    function: the converted signature.
    variables: the parameters of `function`.
    arguments: a shape and dtype for each input; open sizes are symbols.
    keys: a random key by the name of its argument, if the signature draws random numbers.
  """

  source: Source
  signature: str
  function: Callable[..., Any]
  variables: Mapping[str, Any]
  arguments: Mapping[str, jax.ShapeDtypeStruct]
  keys: Mapping[str, Any]


def write_source(
  handle: str | os.PathLike[str],
  out: Path,
  *,
  signature: str | None,
  tags: Sequence[str] | None,
  batch: str,
  shapes: Sequence[str],
  constraints: Sequence[str] = (),
  style: Literal["jax", "nnx"] = "jax",
  force: bool,
  load_options: Mapping[str, Any] | None = None,
) -> WrittenSource:
  """Writes a folder with model.py, its parameters and a check; see the command's help.

  Raises:
    GraftaxError: the model cannot be read or converted, or is not source.
  """
  replaces = MODEL_FILE if force else None
  check_new_folder(out, replaces=replaces, how_to_replace=_HOW_TO_REPLACE)
  _check_ours(out)
  bar = progress()
  with bar:
    bar.add_task(f"reading {handle}", total=None)
    model = load(handle, tags or None, **(load_options or {}))
    if Path(model.path).resolve().is_relative_to(out.resolve()):
      raise OutputExistsError(f"{out} holds the model {model.path!r} itself; choose another folder to write to.")
    bar.add_task("writing source", total=None)
    found = signature_source(model, signature, batch=batch, shapes=shapes, constraints=constraints, style=style)
    examples = {name: _example(spec, seed) for seed, (name, spec) in enumerate(found.arguments.items())}
    outputs = jax.tree.leaves(jax.jit(found.function)(found.variables, **examples, **found.keys)[0])
    with new_folder(out, replaces=replaces, how_to_replace=_HOW_TO_REPLACE) as folder:
      _write(folder, found, examples, outputs, _readme(str(handle), found, outputs, style), style)
  lines = found.source.text.splitlines()
  return WrittenSource(out, len(lines), sum(line.startswith(("def ", "class ")) for line in lines))


def signature_source(
  model: SavedModel,
  signature: str | None = None,
  *,
  batch: str = SYMBOLIC,
  shapes: Sequence[str] = (),
  constraints: Sequence[str] = (),
  style: Literal["jax", "nnx"] = "jax",
) -> SignatureSource:
  """Returns a signature as source; arguments as in `write_source`.

  Raises:
    GraftaxError: the signature cannot be converted, or is not source.
  """
  signature = model.default_entry if signature is None else signature
  inputs = model.signatures[signature].inputs
  arguments: dict[str, Any] = dict(input_shapes(inputs, batch=batch, shapes=shapes, constraints=constraints))
  fn, variables = model.convert(signature)
  keys: dict[str, Any] = {}
  try:
    source = to_source(fn, dict(variables), style=style, **arguments)
  except MissingInputError:
    keys = {fn.rng_name: jax.random.key(0)}
    source = to_source(fn, dict(variables), style=style, **arguments, **keys)
  return SignatureSource(source, signature, fn, variables, arguments, keys)


def _check_ours(out: Path) -> None:
  """Returns if a folder may be replaced: it is empty, there is none, or `write_source` wrote it."""
  if not out.is_dir() or not any(out.iterdir()):
    return
  with (out / MODEL_FILE).open(encoding="utf-8", errors="replace") as file:
    ours = file.readline().rstrip() == _FIRST_LINE
  if not ours or not all((out / name).is_file() for name in (CHECK_FILE, _PARAMETERS_FILE)):
    raise OutputExistsError(
      f"{out} exists already, and its {MODEL_FILE} is not one that this command wrote, so it is something else and is "
      "not replaced; choose another name."
    )


def _write(
  folder: Path,
  found: SignatureSource,
  examples: Mapping[str, np.ndarray],
  outputs: Sequence[Any],
  readme: str,
  style: str,
) -> None:
  source = found.source
  (folder / MODEL_FILE).write_text(source.text, encoding="utf-8")
  imports = "from flax import nnx\n" if style == "nnx" else ""
  target = "inputs" if style == "nnx" else "arguments"
  key = f"    {target}.append(jax.random.key(0))  # the model draws random numbers\n" if found.keys else ""
  check = _template(CHECK_FILE).format(imports=imports, call=_template(f"call_{style}.py").format(key=key))
  (folder / CHECK_FILE).write_text(check, encoding="utf-8")
  (folder / "params.py").write_text(_template("params.py"), encoding="utf-8")
  (folder / "README.md").write_text(readme, encoding="utf-8")
  parameters = {path: np.asarray(array) for path, array in _leaves(source.parameters(found.variables))}
  write_safetensors(folder / _PARAMETERS_FILE, parameters, metadata={"format": "jax"})
  if source.constants:
    write_safetensors(folder / "constants.safetensors", source.constants, metadata={"format": "jax"})
  stored = {f"input/{value.dtype.name}/{name}": value for name, value in examples.items()}
  results = [np.asarray(value) for value in outputs]
  stored |= {f"output/{value.dtype.name}/{i}": value for i, value in enumerate(results)}
  np.savez(folder / "example.npz", allow_pickle=False, **stored)


def _template(name: str) -> str:
  return (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")


def _leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
  """Returns what nested dicts and lists hold, with its path; positions in lists are `[0]`, `[1]` and so on."""
  if isinstance(tree, Mapping):
    return [leaf for key, inner in tree.items() for leaf in _leaves(inner, f"{path}/{key}" if path else str(key))]
  if isinstance(tree, list):
    return [leaf for i, inner in enumerate(tree) for leaf in _leaves(inner, f"{path}/[{i}]")]
  return [(path, tree)]


def _example(spec: jax.ShapeDtypeStruct, seed: int) -> np.ndarray:
  """Returns an array of random numbers; open sizes are small."""
  rng = np.random.default_rng(seed)
  shape = [size if isinstance(size, int) else example_size(str(size)) for size in spec.shape]
  if spec.dtype.kind == "b":
    return rng.integers(0, 2, shape).astype(bool)
  if spec.dtype.kind in "iu":
    return rng.integers(0, 2, shape).astype(spec.dtype)
  return rng.normal(size=shape).astype(spec.dtype)


def _readme(handle: str, found: SignatureSource, outputs: Sequence[Any], style: str) -> str:
  source = found.source
  inputs = "\n".join(f"- `{_shown(name)}`: {_type(spec)}" for name, spec in found.arguments.items())
  held = {"weights": _PARAMETERS_FILE} if source.tree else {}
  held |= {"constants": "constants.safetensors"} if source.constants else {}
  arrays = dict(_leaves(source.parameters(found.variables)))
  names = "\n".join(
    f"| `{_shown(new)}` | {_type(arrays[new])} | {_trained(found.variables, old)} | `{_shown('/'.join(old))}` |"
    for new, old in _leaves(source.tree)
  )
  return _template("README_nnx.md" if style == "nnx" else "README.md").format(
    model=_shown(Path(handle).name),
    signature=_shown(found.signature),
    inputs=inputs,
    results="\n".join(f"- {_type(result)}" for result in outputs),
    arguments=", ".join([*(held if style == "jax" else ()), *_argument_names(source)]),
    files=", ".join(f'params.load("{file}")' for file in held.values()),
    names=names,
    jax=importlib.metadata.version("jax"),
  )


def _type(value: Any) -> str:
  """Returns the dtype and the shape of an array, as `float32[batch, 3]`."""
  return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"


def _trained(variables: Mapping[str, Any], path: Sequence[str]) -> str:
  """Returns whether the original model trains a parameter; parameters that were constants are not."""
  return "yes" if getattr(variables.get("/".join(path)), "trainable", False) else "no"


def _shown(name: str) -> str:
  """Returns a name for code in Markdown: what would end the code, its cell of a table or its line is its number."""
  return "".join(c if c.isprintable() and c not in "`|" else f"<U+{ord(c):04X}>" for c in name)


def _argument_names(source: Source) -> list[str]:
  """Returns the names that the text gives the arguments after parameters and constants."""
  for node in ast.walk(ast.parse(source.text)):
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == source.name:
      calls = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "__call__"]
      function = calls[0] if isinstance(node, ast.ClassDef) else node
      return [argument.arg for argument in function.args.args if argument.arg not in ("self", "params", "constants")]
  raise AssertionError(f"internal: the text does not define {source.name}")
