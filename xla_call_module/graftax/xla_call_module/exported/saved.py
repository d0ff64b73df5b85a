"""The form in which `Module.save` writes modules: an archive of StableHLO, with the calling convention as JSON.

It is a ZIP file without compression, so that nothing in it is larger than the file:

- `module.json`: the convention and the signature; `format` is the number of this form.
- `module.mlirbc`: the StableHLO, as a portable artifact.
- `gradient/module.json` and `gradient/module.mlirbc`, with `gradient/gradient/...` inside: stored derivatives.

Fields may be added. A reader ignores fields that it does not know, unless `format` is newer than its own.
"""

import base64
import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp

from graftax.xla_call_module import errors
from graftax.xla_call_module.signature import KEY_IMPLEMENTATIONS, Leaf, SavedSharding, Signature
from graftax.xla_call_module.trees import Tree

__all__ = ["SavedModule", "read", "write"]

# What a file of JSON holds, before anything of it is checked.
_Json: TypeAlias = Any

_FORMAT = 1
_DATE = (2026, 1, 1, 0, 0, 0)  # of all entries, so that equal modules are equal files
_KINDS = ("leaf", "none", "tuple", "list", "dict", "custom")
_CONVENTION, _ARTIFACT, _GRADIENT = "module.json", "module.mlirbc", "gradient/"


@dataclasses.dataclass(frozen=True, slots=True)
class SavedModule:
  """What a file says of a module.

  Attributes:
    data: the StableHLO, a portable artifact.
    version: the version of the calling convention, or None.
    platforms: what it was lowered for.
    disabled_checks: safety checks that the exporter disabled.
    kept: positions of the inputs that are parameters of `main`.
    dim_args: `(argument, axis)` of dimensions that are leading scalars.
    function_list: names of TF functions that the module calls.
    signature: names, nesting and shardings, or None.
    gradient: the stored derivative, or None.
    no_gradient: why a derivative that exists is not in the file; "" otherwise.
  """

  data: bytes
  version: int | None
  platforms: tuple[str, ...]
  disabled_checks: tuple[str, ...]
  kept: tuple[int, ...]
  dim_args: tuple[tuple[int, int], ...]
  function_list: tuple[str, ...]
  signature: Signature | None
  gradient: "SavedModule | None" = None
  no_gradient: str = ""


def write(module: SavedModule, written_by: Mapping[str, str]) -> bytes:
  """Returns the bytes of a file.

  Args:
    module: what it says.
    written_by: versions of what wrote it, for people who read the file.

  Raises:
    UnsupportedModuleError: the signature has something that JSON cannot hold.
  """
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
    _write_into(archive, "", module, written_by)
  return buffer.getvalue()


def _write_into(archive: zipfile.ZipFile, folder: str, module: SavedModule, written_by: Mapping[str, str]) -> None:
  convention = {
    "format": _FORMAT,
    "written_by": dict(written_by),
    "version": module.version,
    "platforms": module.platforms,
    "disabled_checks": module.disabled_checks,
    "kept": module.kept,
    "dim_args": module.dim_args,
    "function_list": module.function_list,
    "signature": None if module.signature is None else _signature_as_json(module.signature),
    "no_gradient": module.no_gradient,
  }
  for name, data in (
    (_CONVENTION, json.dumps(convention, indent=1, default=_refuse).encode()),
    (_ARTIFACT, module.data),
  ):
    archive.writestr(zipfile.ZipInfo(folder + name, _DATE), data)
  if module.gradient is not None:
    _write_into(archive, folder + _GRADIENT, module.gradient, written_by)


def _refuse(value: object) -> Any:
  raise errors.UnsupportedModuleError(
    f"the module cannot be saved: its signature or function_list has {value!r}, a {type(value).__name__}; expected"
    " text and numbers."
  )


def _signature_as_json(signature: Signature) -> dict[str, _Json]:
  return {
    **{field.name: getattr(signature, field.name) for field in dataclasses.fields(signature)},
    "inputs": [_leaf_as_json(leaf) for leaf in signature.inputs],
    "outputs": [_leaf_as_json(leaf) for leaf in signature.outputs],
    "in_tree": _tree_as_json(signature.in_tree),
    "out_tree": _tree_as_json(signature.out_tree),
  }


def _leaf_as_json(leaf: Leaf) -> dict[str, _Json]:
  if not _is_readable(leaf.dtype):
    raise errors.UnsupportedModuleError(
      f"the module cannot be saved: {leaf.path} is {leaf.dtype}; expected an array or a random key of JAX's own"
      " implementations."
    )
  found: dict[str, _Json] = {"path": leaf.path, "shape": leaf.shape, "dtype": leaf.dtype, "is_donated": leaf.is_donated}
  if leaf.sharding is not None:
    sharding = leaf.sharding
    found["sharding"] = {
      "axes": sharding.axes,
      "spec": sharding.spec,
      "memory_kind": sharding.memory_kind,
      "hlo": base64.b64encode(sharding.hlo).decode(),
    }
  return found


def _tree_as_json(tree: Tree) -> dict[str, _Json]:
  found: dict[str, _Json] = {"kind": tree.kind}
  if tree.children:
    found["children"] = [_tree_as_json(child) for child in tree.children]
  if tree.kind == "dict":
    wrong = [key for key in tree.keys if type(key) not in (str, int, bool)]
    found["keys"] = [_refuse(key) for key in wrong] or tree.keys
  if tree.kind == "custom":
    found |= {"name": tree.name, "auxdata": base64.b64encode(tree.auxdata or b"").decode()}
  return found


def read(data: bytes, max_depth: int) -> SavedModule:
  """Returns what a file says.

  Args:
    data: the bytes of the file.
    max_depth: levels of pytrees, and of gradients of gradients.

  Raises:
    DecodeError: the bytes are damaged, or something else.
    VersionError: a newer version of this package wrote them, in a newer form.
  """
  try:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
      entries = {info.filename: info for info in archive.infolist()}
      if any(info.compress_type != zipfile.ZIP_STORED for info in entries.values()):
        raise errors.DecodeError("a saved module has compressed entries, which Module.save does not write.")
      if sum(info.file_size for info in entries.values()) > len(data):
        raise errors.DecodeError("the entries of a saved module are larger than the file, or lie in each other.")
      return _Reader(archive, frozenset(entries), max_depth).module("", 0)
  except (zipfile.BadZipFile, EOFError, OSError, OverflowError, NotImplementedError, RuntimeError, ValueError) as error:
    if isinstance(error, errors.StableHloError):
      raise
    raise errors.DecodeError(
      f"{len(data)} bytes are not what Module.save writes: {str(error).rstrip('.')}. Module.from_exported reads files "
      "of jax.export, and Module.from_bytes StableHLO."
    ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Reader:
  archive: zipfile.ZipFile
  names: frozenset[str]
  max_depth: int

  def module(self, folder: str, depth: int) -> SavedModule:
    self._check_depth(depth)
    found = _Fields(self._json(folder + _CONVENTION))
    if found.number("format") > _FORMAT:
      raise errors.VersionError(
        f"a saved module has form {found.number('format')}; expected {_FORMAT} at most. Install a newer"
        " graftax-xla-call-module."
      )
    members = found.value("signature", dict, None)
    signature = None if members is None else self._signature(_Fields(members))
    kept = found.numbers("kept")
    if signature is not None and (sorted(set(kept)) != list(kept) or (kept and kept[-1] >= len(signature.inputs))):
      raise errors.DecodeError(f"arguments {list(kept)[:20]} of {len(signature.inputs)} are used by a saved module.")
    gradient = self.module(folder + _GRADIENT, depth + 1) if folder + _GRADIENT + _CONVENTION in self.names else None
    return SavedModule(
      data=self._bytes(folder + _ARTIFACT),
      version=found.value("version", int, None),
      platforms=found.texts("platforms"),
      disabled_checks=found.texts("disabled_checks"),
      kept=kept,
      dim_args=tuple(_pair(entry) for entry in found.value("dim_args", list, [])),
      function_list=found.texts("function_list"),
      signature=signature,
      gradient=gradient,
      no_gradient=found.text("no_gradient"),
    )

  def _check_depth(self, depth: int) -> None:
    if depth > self.max_depth:
      raise errors.LimitExceededError(
        f"a saved module is more than {self.max_depth} levels deep. Pass limits=Limits(depth=...) if you trust it."
      )

  def _bytes(self, name: str) -> bytes:
    if name not in self.names:
      raise errors.DecodeError(f"a saved module has no entry {name[:100]!r}; it has {sorted(self.names)[:10]}.")
    return self.archive.read(name)

  def _json(self, name: str) -> _Json:
    data = self._bytes(name)
    try:
      return json.loads(data)
    except RecursionError:
      raise errors.DecodeError(f"the entry {name[:100]!r} of a saved module is nested too deeply.") from None

  def _signature(self, found: "_Fields") -> Signature:
    inputs, outputs = (tuple(map(_leaf, found.value(name, list))) for name in ("inputs", "outputs"))
    in_tree, out_tree = (self._tree(found.value(name, dict), 0) for name in ("in_tree", "out_tree"))
    is_call = in_tree.kind == "tuple" and [child.kind for child in in_tree.children] == ["tuple", "dict"]
    if not is_call or (in_tree.num_leaves, out_tree.num_leaves) != (len(inputs), len(outputs)):
      raise errors.DecodeError(
        f"a saved signature takes {str(in_tree)[:100]} and returns {str(out_tree)[:100]}, with {len(inputs)} and"
        f" {len(outputs)} arrays."
      )
    return Signature(
      name=found.text("name"),
      inputs=inputs,
      outputs=outputs,
      in_tree=in_tree,
      out_tree=out_tree,
      num_devices=found.number("num_devices", 1),
      ordered_effects=found.texts("ordered_effects"),
      unordered_effects=found.texts("unordered_effects"),
      uses_global_constants=found.value("uses_global_constants", bool, False),
      jax_version=found.value("jax_version", str, None),
    )

  def _tree(self, value: _Json, depth: int) -> Tree:
    self._check_depth(depth)
    found = _Fields(value)
    kind = found.text("kind")
    children = tuple(self._tree(child, depth + 1) for child in found.value("children", list, []))
    keys = tuple(found.value("keys", list, []))
    if any(type(key) not in (str, int, bool) for key in keys):
      raise errors.DecodeError(f"a saved signature has the keys {str(keys)[:100]}; expected text and numbers.")
    is_wrong = kind not in _KINDS or (kind in ("leaf", "none") and children)
    # True equals 1, as a key too.
    if is_wrong or (kind == "dict" and not len(set(keys)) == len(keys) == len(children)):
      raise errors.DecodeError(f"a node of a saved signature is {kind[:50]!r} with {len(children)} children.")
    auxdata = _decoded(found.text("auxdata")) if kind == "custom" else None
    return Tree(kind, children, keys, found.text("name"), auxdata)  # type: ignore[arg-type]  # `kind` is one of _KINDS


_REQUIRED: _Json = object()


@dataclasses.dataclass(frozen=True, slots=True)
class _Fields:
  """An object of JSON whose members are compared with the expected types."""

  members: _Json

  def __post_init__(self) -> None:
    if not isinstance(self.members, dict):
      raise errors.DecodeError(f"a saved module has {str(self.members)[:100]!r} in the place of an object.")

  def value(self, name: str, kind: type, default: _Json = _REQUIRED) -> _Json:
    found = self.members.get(name)
    if found is None and default is not _REQUIRED:
      return default
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
      raise errors.DecodeError(f"{name!r} of a saved module is {str(found)[:100]!r}; expected a {kind.__name__}.")
    return found

  def text(self, name: str) -> str:
    return str(self.value(name, str, ""))

  def number(self, name: str, default: _Json = _REQUIRED) -> int:
    return int(self.value(name, int, default))

  def texts(self, name: str) -> tuple[str, ...]:
    return tuple(_all(name, self.value(name, list, []), str))

  def numbers(self, name: str) -> tuple[int, ...]:
    return _natural(name, self.value(name, list, []))


def _all(name: str, values: Sequence[_Json], *kinds: type) -> Sequence[_Json]:
  if any(type(value) not in kinds for value in values):
    raise errors.DecodeError(f"{name!r} of a saved module is {str(values)[:100]}; expected {kinds[0].__name__}s.")
  return values


def _natural(name: str, values: Sequence[_Json]) -> tuple[int, ...]:
  if any(value < 0 for value in _all(name, values, int)):
    raise errors.DecodeError(f"{name!r} of a saved module is {str(values)[:100]}; expected numbers of at least 0.")
  return tuple(values)


def _pair(entry: _Json) -> tuple[int, int]:
  if not isinstance(entry, list) or len(entry) != 2:
    raise errors.DecodeError(f"a dimension argument of a saved module is {str(entry)[:100]!r}; expected two numbers.")
  first, second = _natural("dim_args", entry)
  return first, second


def _decoded(text: str) -> bytes:
  return base64.b64decode(text, validate=True)


def _leaf(value: _Json) -> Leaf:
  found = _Fields(value)
  dtype = found.text("dtype")
  if not _is_readable(dtype):
    raise errors.DecodeError(f"a dtype of a saved module is {dtype[:50]!r}; expected one of JAX, such as 'float32'.")
  shape = _all("shape", found.value("shape", list), int, str)
  if any(isinstance(size, int) and not 0 <= size < 1 << 63 for size in shape):
    raise errors.DecodeError(f"a shape of a saved module is {str(shape)[:100]}; expected sizes from 0 to 2**63 - 1.")
  sharding = found.value("sharding", dict, None)
  return Leaf(
    path=found.text("path"),
    shape=tuple(shape),
    dtype=dtype,
    sharding=None if sharding is None else _sharding(_Fields(sharding)),
    is_donated=found.value("is_donated", bool, False),
  )


def _is_readable(dtype: str) -> bool:
  """Returns whether a dtype is one of arrays, of JAX's random keys, or of what has no derivative."""
  if dtype == "float0" or dtype in KEY_IMPLEMENTATIONS:
    return True
  if not dtype.isidentifier():  # numpy also reads texts of structured dtypes, and fails in other ways there
    return False
  try:
    found = jnp.dtype(dtype)
  except (TypeError, ValueError):
    return False
  return found.name == dtype and (dtype == "bool" or bool(jnp.issubdtype(found, jnp.number)))


def _sharding(found: _Fields) -> SavedSharding:
  axes = []
  for entry in found.value("axes", list, []):
    if not isinstance(entry, list) or [type(part) for part in entry] != [str, int]:
      raise errors.DecodeError(f"an axis of a saved mesh is {str(entry)[:100]!r}; expected a name and a size.")
    axes.append((entry[0], entry[1]))
  spec = []
  for entry in found.value("spec", list, []):
    if not isinstance(entry, list | None):
      raise errors.DecodeError(f"an axis of a saved sharding is {str(entry)[:100]!r}; expected names or null.")
    spec.append(None if entry is None else tuple(_all("spec", entry, str)))
  kind = found.value("memory_kind", str, None)
  return SavedSharding(tuple(axes), tuple(spec), kind, _decoded(found.text("hlo")))
