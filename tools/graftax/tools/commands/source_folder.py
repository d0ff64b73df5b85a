"""`graftax source`: a signature as Python without graftax, with parameters and a check."""

import ast
import dataclasses
import functools
import importlib.metadata
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from graftax.convert import AnnotatedFunction, ConversionError, MissingInputError, Source, Split, to_source
from graftax.graphdef_ir import GraftaxError, UnsupportedError
from graftax.hub_io import load
from graftax.savedmodel_io import SavedModel, read_host_parts, write_host_parts, write_safetensors
from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.tools.console import progress
from graftax.tools.errors import CommandError
from graftax.tools.inputs.host_examples import example_inputs, has_text, stored_array
from graftax.tools.inputs.numeric_examples import numeric_examples
from graftax.tools.inputs.open_sizes import open_sizes_advice
from graftax.tools.inputs.shape_options import SYMBOLIC, input_shapes
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["CHECK_FILE", "MODEL_FILE", "SignatureSource", "WrittenSource", "signature_source", "write_source"]

MODEL_FILE = "model.py"
CHECK_FILE = "check.py"
HOST_FOLDER = "host"
# The arguments of `to_source`.
_RESERVED = frozenset(("fn", "style", "name", "host"))
_PARAMETERS_FILE = "params.safetensors"
# The first line of every text of `to_source`.
_FIRST_LINE = '"""Written by graftax."""'
_HOW_TO_REPLACE = "pass --force"
_TEMPLATES = files("graftax.tools.commands") / "source_templates"


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
    split: the parts of the signature, if some of them run on the host; `function` then has no strings.
    examples: example inputs of a signature that is split.
  """

  source: Source
  signature: str
  function: Callable[..., Any]
  variables: Mapping[str, Leaf]
  arguments: Mapping[str, jax.ShapeDtypeStruct]
  keys: Mapping[str, Leaf]
  split: Split | None = None
  examples: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


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
  host: Literal["graftax"] | None = None,
  inputs: Sequence[str] = (),
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
    found = signature_source(
      model,
      signature,
      batch=batch,
      shapes=shapes,
      constraints=constraints,
      style=style,
      host=host,
      inputs=inputs,
    )
    with new_folder(out, replaces=replaces, how_to_replace=_HOW_TO_REPLACE) as folder:
      if found.split is not None:
        _write_split(folder, found, found.split, str(handle), style)
      else:
        compiled = jax.jit(found.function)
        examples, results = numeric_examples(
          found.arguments, lambda inputs: compiled(found.variables, **inputs, **found.keys)[0]
        )
        readme = _readme(str(handle), found, results, style)
        _write(folder, found, examples, jax.tree.leaves(results), readme, style)
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
  host: Literal["graftax"] | None = None,
  inputs: Sequence[str] = (),
) -> SignatureSource:
  """Returns a signature as source; arguments as in `write_source`.

  Raises:
    GraftaxError: the signature cannot be converted, or is not source.
  """
  signature = model.default_entry if signature is None else signature
  entry = model.signatures[signature]
  in_parts = functools.partial(
    _split_source, model, signature, sizes=(batch, shapes, constraints), style=style, host=host, inputs=inputs
  )
  if has_text(entry):
    return in_parts(model.split(signature))
  arguments: dict[str, Leaf] = dict(input_shapes(entry.inputs, batch=batch, shapes=shapes, constraints=constraints))
  try:
    fn, variables = model.convert(signature)
  except (UnsupportedError, ConversionError):
    split = _split(model, signature)
    if split is None:
      raise
    return in_parts(split)
  if inputs:
    raise CommandError(f"--input: nothing of signature {signature!r} runs on the host, so inputs are made up.")
  # Inputs are passed by position if one has the name of an argument of `to_source`.
  called = _by_position(fn, list(arguments)) if _RESERVED & set(arguments) else fn
  args, kwargs = (arguments.values(), {}) if called is not fn else ((), arguments)
  keys: dict[str, Leaf] = {}
  try:
    try:
      source = to_source(called, dict(variables), *args, style=style, **kwargs)
    except MissingInputError:
      keys = {fn.rng_name: jax.random.key(0)}
      source = to_source(called, dict(variables), *args, style=style, **kwargs, **keys)
  except Exception as e:
    # Sizes that JAX cannot decide look to a lowering like inputs that do not fit.
    if advice := open_sizes_advice(e, lambda inputs: fn(variables, **inputs, **keys), arguments):
      e.add_note(advice)
    raise
  return SignatureSource(source, signature, fn, variables, arguments, keys)


def _by_position(fn: AnnotatedFunction, names: Sequence[str]) -> Callable[..., Any]:
  """Returns a converted function that takes its inputs by position."""

  def call(params: Mapping[str, Leaf], *arrays: Leaf, **keys: Leaf) -> PyTree:
    return fn(params, **dict(zip(names, arrays, strict=True)), **keys)

  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  shown = ["params", *(name if name.isidentifier() else f"x{i}" for i, name in enumerate(names))]
  signature = inspect.Signature([inspect.Parameter(name, kind) for name in dict.fromkeys(shown)])
  call.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
  call.variables = fn.variables  # type: ignore[attr-defined]  # whether they are trained
  return call


def _split(model: SavedModel, signature: str) -> Split | None:
  """Returns the parts of a signature that cannot be converted; None if it cannot be split either."""
  try:
    return model.split(signature)
  except GraftaxError:
    return None


def _split_source(
  model: SavedModel,
  signature: str,
  split: Split,
  *,
  sizes: tuple[str, Sequence[str], Sequence[str]],
  style: Literal["jax", "nnx"],
  host: Literal["graftax"] | None,
  inputs: Sequence[str],
) -> SignatureSource:
  """Returns a signature that runs on the host in parts; `sizes` are the options for sizes, which it does not have."""
  examples: dict[str, Leaf] = {}
  if host is not None:
    batch, shapes, constraints = sizes
    if batch != SYMBOLIC or shapes or constraints:
      raise CommandError(
        "--batch, --shape, --constraint: sizes of a model with parts for the host are those of --input."
      )
    reserved = sorted(_RESERVED & set(model.signatures[signature].inputs))
    if reserved:
      raise CommandError(f"inputs named {reserved} cannot be passed to the source of a model with parts for the host.")
    examples = _examples(model, signature, split, inputs)
  keys: dict[str, Leaf] = {}
  try:
    source = to_source(split, host=host, style=style, **examples)
  except MissingInputError:
    keys = {split.head.inputs.free_name("rng"): jax.random.key(0)}
    source = to_source(split, host=host, style=style, **examples, **keys)
  return SignatureSource(source, signature, split.body, split.params, {}, keys, split, examples)


def _examples(model: SavedModel, signature: str, split: Split, inputs: Sequence[str]) -> dict[str, np.ndarray]:
  """Returns inputs that the head runs on."""
  examples = example_inputs(model.signatures[signature], inputs)
  try:
    split.head(**examples)
  except GraftaxError as e:
    raise CommandError(f"the head does not run on the example inputs. Pass --input NAME=FILE for others. {e}") from e
  return examples


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
  outputs: Sequence[PyTree],
  readme: str,
  style: str,
) -> None:
  imports = "from flax import nnx\n" if style == "nnx" else ""
  target = "inputs" if style == "nnx" else "arguments"
  key = f"    {target}.append(jax.random.key(0))  # the model draws random numbers\n" if found.keys else ""
  call = _template(f"call_{style}.py").format(key=key)
  check = _template(CHECK_FILE).format(imports=imports, call=call, compare=_template("compare.py"))
  stored = [stored_array("input", name, value) for name, value in examples.items()]
  stored += [stored_array("output", str(i), np.asarray(value)) for i, value in enumerate(outputs)]
  _write_files(folder, found, check, readme, dict(stored))


def _write_split(folder: Path, found: SignatureSource, split: Split, handle: str, style: str) -> None:
  """Writes source with parts for the host, which are a folder of their own."""
  source = found.source
  assert source.host is not None
  write_host_parts(folder / HOST_FOLDER, source.host)
  # Such as a file that it reads, which is not in the new folder.
  read_host_parts(folder / HOST_FOLDER).head(**found.examples)
  key = next(iter(found.keys.values()), None)
  results = jax.jit(split.body)(split.params, *split.head(**found.examples), rng=key)
  outputs = {name: np.asarray(value) for name, value in split.tail(results).items()}
  held = "model.Model(*trees)" if style == "nnx" else "*trees"
  passed = "" if key is None else "jax.random.key(0), "
  call = f"    results = model.{source.run}({held}, host, {passed}**inputs)"
  check = _template("check_host.py").format(call=call, compare=_template("compare.py"))
  stored = [stored_array("input", name, value) for name, value in found.examples.items()]
  stored += [stored_array("output", name, value) for name, value in outputs.items()]
  _write_files(folder, found, check, _host_readme(handle, found, outputs, style), dict(stored))


def _write_files(
  folder: Path, found: SignatureSource, check: str, readme: str, stored: Mapping[str, np.ndarray]
) -> None:
  source = found.source
  (folder / MODEL_FILE).write_text(source.text, encoding="utf-8")
  (folder / CHECK_FILE).write_text(check, encoding="utf-8")
  (folder / "params.py").write_text(_template("params.py"), encoding="utf-8")
  (folder / "README.md").write_text(readme, encoding="utf-8")
  parameters = {path: np.asarray(array) for path, array in _leaves(source.parameters(found.variables))}
  frozen = [new for new, old in _leaves(source.tree) if _trained(found.variables, old) == "no"]
  metadata = {"format": "jax", "not_trained": json.dumps(frozen)}
  write_safetensors(folder / _PARAMETERS_FILE, parameters, metadata=metadata)
  if source.constants:
    write_safetensors(folder / "constants.safetensors", source.constants, metadata={"format": "jax"})
  np.savez(folder / "example.npz", allow_pickle=False, **stored)


def _template(name: str) -> str:
  return (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")


def _leaves(tree: PyTree, path: str = "") -> list[tuple[str, Leaf]]:
  """Returns what nested dicts and lists hold, with its path; positions in lists are `[0]`, `[1]` and so on."""
  if isinstance(tree, Mapping):
    return [leaf for key, inner in tree.items() for leaf in _leaves(inner, f"{path}/{key}" if path else str(key))]
  if isinstance(tree, list):
    return [leaf for i, inner in enumerate(tree) for leaf in _leaves(inner, f"{path}/[{i}]")]
  return [(path, tree)]


def _readme(handle: str, found: SignatureSource, outputs: PyTree, style: str) -> str:
  source = found.source
  held = _held_files(source)
  return _template("README_nnx.md" if style == "nnx" else "README.md").format(
    model=_shown(Path(handle).name),
    signature=_shown(found.signature),
    inputs="\n".join(f"- `{_shown(name)}`: {_type(spec)}" for name, spec in found.arguments.items()),
    results="\n".join(_result_lines(outputs)),
    arguments=", ".join([*(held if style == "jax" else ()), *_argument_names(source)]),
    files=", ".join(f'params.load("{file}")' for file in held.values()),
    names=_parameter_table(found),
    jax=importlib.metadata.version("jax"),
  )


def _host_readme(handle: str, found: SignatureSource, outputs: Mapping[str, np.ndarray], style: str) -> str:
  source = found.source
  assert source.host is not None
  loaded = ", ".join(f'params.load("{file}")' for file in _held_files(source).values())
  inputs = ", ".join(f"{name}={name}" if name.isidentifier() else f"**{{{name!r}: ...}}" for name in found.examples)
  key = ["jax.random.key(0)"] if found.keys else []
  arguments = [f"model.Model({loaded})"] if style == "nnx" else [loaded] if loaded else []
  arrays = [
    f"- `{array.name}`: {array.dtype}[{', '.join(map(str, array.shape))}]"
    + ("" if array.value is None else f", always {list(array.value)}; it is in the text")
    for array in source.host.arrays
  ]
  return _template("README_host.md").format(
    model=_shown(Path(handle).name),
    signature=_shown(found.signature),
    name=source.name,
    run=source.run,
    imports="import jax\n" if key else "",
    needs="jax, numpy and flax" if style == "nnx" else "jax and numpy",
    arguments=", ".join([*arguments, "host", *key, _shown(inputs)]),
    inputs_passed=_shown(inputs),
    inputs="\n".join(f"- `{_shown(name)}`: {_type(value)}" for name, value in found.examples.items()),
    host_ops="\n".join(f"- {part}: {_shown(', '.join(names))}" for part, names in source.host.ops.items() if names),
    arrays="\n".join(arrays) or "none",
    results="\n".join(f"- `{_shown(name)}`: {_type(value)}" for name, value in outputs.items()),
    names=_parameter_table(found),
    jax=importlib.metadata.version("jax"),
  )


def _held_files(source: Source) -> dict[str, str]:
  """Returns the files of parameters and of constants, by the names of the variables that hold them."""
  held = {"weights": _PARAMETERS_FILE} if source.tree else {}
  return held | ({"constants": "constants.safetensors"} if source.constants else {})


def _result_lines(outputs: PyTree) -> list[str]:
  """Returns a line for each result, with its name if it has one."""
  leaves = jax.tree_util.tree_leaves_with_path(outputs)
  names = ["/".join(str(getattr(step, "key", getattr(step, "idx", step))) for step in path) for path, _ in leaves]
  return [f"- `{_shown(name)}`: {_type(leaf)}" for name, (_, leaf) in zip(names, leaves, strict=True)]


def _parameter_table(found: SignatureSource) -> str:
  source = found.source
  arrays = dict(_leaves(source.parameters(found.variables)))
  return "\n".join(
    f"| `{_shown(new)}` | {_type(arrays[new])} | {_trained(found.variables, old)} | `{_shown('/'.join(old))}` |"
    for new, old in _leaves(source.tree)
  )


def _type(value: Leaf) -> str:
  """Returns the dtype and the shape of an array, as `float32[batch, 3]`."""
  return f"{'strings' if value.dtype == object else value.dtype.name}[{', '.join(map(str, value.shape))}]"


def _trained(variables: Mapping[str, Leaf], path: Sequence[str]) -> str:
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
