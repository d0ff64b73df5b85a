"""`Module`: a StableHLO module and its calling convention."""

import dataclasses
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import bytecode, errors, expansion, input_checks, ir, jax_versions, mlir, subprocess_reader
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.exported import files, live, saved
from graftax.xla_call_module.exported.fields import ExportedFields
from graftax.xla_call_module.ir import ModuleIR
from graftax.xla_call_module.platforms import canonical
from graftax.xla_call_module.signature import KEY_IMPLEMENTATIONS, Leaf, Signature

__all__ = ["NEWEST_CALL_MODULE_VERSION", "OLDEST_CALL_MODULE_VERSION", "ArgumentSpec", "Module", "check_is_module"]

# What each version of the calling convention added. All of it is in the module or in an attribute, so lifting does not
# ask for the version. Only `rewriting` does: it exports modules of versions before 5 again.
#   2: StableHLO in place of MHLO, with sizes as leading scalars (`dim_args_spec`).
#   3: `platforms`, and with several of them a leading scalar that selects one.
#   4: a portable artifact in place of text.
#   5: `function_list`, TensorFlow functions that the module calls.
#   6: `disabled_checks`, and `platforms` may not be empty.
#   7: `shape_assertion` ops, and "shape_assertions" among the disabled checks.
#   8: the module's attribute `jax.uses_shape_polymorphism`: shapes are refined only if it is there.
#   9: tokens, for effects in order; sizes and the platform are arguments marked `jax.global_constant`
#      (`patterns/platform_cases.py`, `lowerings/custom_call_targets.py`).
#  10: `use_shardy_partitioner`.
OLDEST_CALL_MODULE_VERSION = 2
NEWEST_CALL_MODULE_VERSION = 10


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentSpec:
  """Shape and dtype of an argument or result; an open dimension of a polymorphic module is None."""

  shape: tuple[int | None, ...]
  dtype: np.dtype

  def __str__(self) -> str:
    return str(ir.TensorType(self.shape, self.dtype))


class _Cache(dict[Any, Any]):
  """A dict that becomes empty when its owner is copied or pickled."""

  def __reduce__(self) -> Any:
    return _Cache, ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module:
  """A StableHLO module: its bytes or text, its decoded IR, and its calling convention.

  Attributes:
    data: a portable artifact, MLIR bytecode, or MLIR text.
    ir: the decoded functions.
    inputs: arguments of a call, in order, without platform index, dimension arguments and tokens.
    outputs: results of a call.
    platforms: the platforms that it was lowered for, in lower case ("cpu", "cuda", "rocm", "tpu"); empty if unknown.
    version: the version of the calling convention, 2 to 10; None for a plain module.
    disabled_checks: safety checks that the exporter disabled ("platform", "shape_assertions", "custom_call:NAME").
    kept: positions of the inputs that are parameters of `main`; `jax.export` drops unused arguments.
    dim_args: `(argument, axis)` of dimensions that modules of old versions expect as leading i32 or i64 scalars.
    has_platform_index: whether the first parameter of `main` is the index of the platform.
    function_list: TF functions that the module calls.
    stored_gradient: the module that computes the reverse-mode derivative, or a function that returns it; None if the
      artifact has no gradient.
    signature: names, nesting and shardings of the arguments and results, if the module is of a `jax.export.Exported`.
    plans: cache of `call`.
  """

  data: bytes | str
  ir: ModuleIR
  inputs: tuple[ArgumentSpec, ...]
  outputs: tuple[ArgumentSpec, ...]
  platforms: tuple[str, ...] = ()
  version: int | None = None
  disabled_checks: tuple[str, ...] = ()
  kept: tuple[int, ...] = ()
  dim_args: tuple[tuple[int, int], ...] = ()
  has_platform_index: bool = False
  function_list: tuple[str, ...] = ()
  stored_gradient: "Module | Callable[[], Module] | None" = None
  signature: Signature | None = None
  plans: dict[Any, Any] = dataclasses.field(default_factory=_Cache, init=False)

  @property
  def has_gradient(self) -> bool:
    """Whether the artifact has a gradient function."""
    return self.stored_gradient is not None

  @property
  def gradient(self) -> "Module | None":
    """The gradient function: from arguments and cotangents of the results to cotangents of the arguments."""
    return self.stored_gradient() if callable(self.stored_gradient) else self.stored_gradient

  @property
  def is_polymorphic(self) -> bool:
    """Whether some dimension of the arguments is open until the module is called."""
    return any(None in spec.shape for spec in self.inputs) or bool(self.dim_args)

  @property
  def checks_platform(self) -> bool:
    return bool(self.platforms) and "platform" not in self.disabled_checks

  @property
  def checks_shapes(self) -> bool:
    return "shape_assertions" not in self.disabled_checks

  def __str__(self) -> str:
    arguments = ", ".join(map(str, self.inputs))
    results = ", ".join(map(str, self.outputs))
    where = f" for {'/'.join(self.platforms)}" if self.platforms else ""
    return f"Module({arguments}) -> ({results}){where}"

  __repr__ = __str__

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the module into one file, which `load` reads on every later version of this package.

    The file is a ZIP archive of the StableHLO, as a portable artifact, and of the calling convention and the signature
    as JSON, with the stored derivatives beside it. StableHLO promises that artifacts are read for five years. Custom
    calls are only as old as the library that has them; this package keeps rules for those of JAX since 0.4.30.

    A module of a live `Exported` is written with two orders of derivatives, as it is pickled. Classes of its pytrees
    are written by name; those nodes are `SavedNode`s in results of what `load` returns.

    Args:
      path: where; a file that exists is replaced.

    Raises:
      UnsupportedModuleError: the signature or `function_list` has something that is neither text nor a number.
      VersionError: the module has operations outside of StableHLO, which have no portable form.
    """
    versions = {"graftax-xla-call-module": _version(), "jax": jax_versions.INSTALLED}
    data = saved.write(_to_saved(self, 0), versions)
    path = Path(path)
    partial = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
      with open(partial, "xb") as file:  # `tempfile` makes files that only their owner can read
        file.write(data)
      os.replace(partial, path)
    except BaseException:
      partial.unlink(missing_ok=True)
      raise

  @staticmethod
  def load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    guard: bool = True,
    limits: Limits | None = None,
  ) -> "Module":
    """Returns a module that `save` wrote.

    Args:
      source: the file, or its bytes.
      guard: parse the StableHLO in a helper process first, see `from_bytes`.
      limits: see `from_text`.

    Raises:
      ArgumentError: `source` is neither the name of a file nor bytes.
      DecodeError: the file is damaged, or not what `save` writes.
      VersionError: a newer version of this package wrote the file, in a newer form.
      GuardError: the helper process does not start.

    Example:
      >>> import tempfile
      >>> from graftax.xla_call_module import Module
      >>> module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
      >>> with tempfile.TemporaryDirectory() as folder:
      ...   module.save(f"{folder}/identity.zip")
      ...   Module.load(f"{folder}/identity.zip")
      Module(float32[3]) -> (float32[3])
    """
    if isinstance(source, (str, os.PathLike)):
      data = Path(source).read_bytes()
    else:
      data = input_checks.as_bytes(source, "load")
    return _from_saved(saved.read(data, (limits or Limits()).depth), guard, limits)

  @staticmethod
  def from_text(
    text: str,
    *,
    gradient: "Module | Callable[[], Module] | None" = None,
    guard: bool = False,
    limits: Limits | None = None,
  ) -> "Module":
    """Returns a module from MLIR text of the StableHLO, CHLO, func and sdy dialects.

    Args:
      text: the text of a module, or of one or more functions.
      gradient: the module of the gradient function, or a function that returns it.
      guard: parse the text in a helper process first, see `from_bytes`. Off by default, because text usually comes
        from your own program. Enable it for untrusted text, which could otherwise crash this process.
      limits: how deep regions may be inside each other; by default `Limits()`. `lift` and `embed` check the others.

    Raises:
      ArgumentError: `text` is not a str.
      DecodeError: the text does not parse or verify.
      GuardError: the helper process does not start.

    Example:
      >>> Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
      Module(float32[3]) -> (float32[3])
    """
    input_checks.check_text(text)
    expansion.check_text(text)
    if guard:
      subprocess_reader.check(text.encode(errors="surrogatepass"))
    return _plain(text, mlir.decode_text(text, limits), gradient)

  @staticmethod
  def from_bytes(
    data: bytes,
    *,
    gradient: "Module | Callable[[], Module] | None" = None,
    guard: bool = True,
    limits: Limits | None = None,
  ) -> "Module":
    """Returns a module from a StableHLO portable artifact, MLIR bytecode, or MLIR text in UTF-8.

    Args:
      data: the bytes of the module.
      gradient: the module of the gradient function, or a function that returns it.
      guard: parse the bytes in a helper process first. MLIR's reader can crash on damaged bytes; with the guard, it
        raises DecodeError instead. Disable it for bytes that you wrote yourself.
      limits: see `from_text`.

    Raises:
      ArgumentError: `data` is not bytes.
      DecodeError: the bytes are damaged, truncated or not a module.
      GuardError: the helper process does not start.
      VersionError: the module was written by a newer StableHLO than the installed jaxlib reads.

    Example:
      >>> exported = jax.export.export(jax.jit(lambda x: x * x))(jax.ShapeDtypeStruct((3,), "float32"))
      >>> Module.from_bytes(exported.mlir_module_serialized, guard=False)  # we made these bytes
      Module(float32[3]) -> (float32[3])
    """
    data = input_checks.as_bytes(data, "from_bytes")
    if not bytecode.is_bytecode(data):
      return Module.from_text(input_checks.as_text(data), gradient=gradient, guard=guard, limits=limits)
    return _plain(*_decode(data, guard, limits), gradient)

  @staticmethod
  def from_hlo(
    hlo: bytes,
    *,
    gradient: "Module | Callable[[], Module] | None" = None,
    guard: bool = True,
    limits: Limits | None = None,
  ) -> "Module":
    """Returns a module from a serialized `HloModuleProto`.

    Args:
      hlo: the bytes of the message.
      gradient: the module of the gradient function, or a function that returns it.
      guard: convert the bytes in a helper process first, see `from_bytes`.
      limits: see `from_text`.

    Raises:
      ArgumentError: `hlo` is not bytes.
      DecodeError: the bytes are not an HloModuleProto, or do not convert to StableHLO.
      GuardError: the helper process does not start.
    """
    hlo = input_checks.as_bytes(hlo, "from_hlo")
    if guard:
      subprocess_reader.check_hlo(hlo)
    return Module.from_bytes(mlir.from_hlo(hlo), gradient=gradient, guard=False, limits=limits)

  @staticmethod
  def from_exported(exported: Any, *, guard: bool = True, limits: Limits | None = None) -> "Module":
    """Returns a module from a `jax.export.Exported` or from its serialized bytes, including its gradient if any.

    Args:
      exported: the `Exported`, or the bytes from its `serialize`.
      guard: read serialized bytes in a helper process first, see `from_bytes`.
      limits: see `from_text`.

    Raises:
      ArgumentError: `exported` is neither an `Exported` nor bytes.
      DecodeError: the bytes are not a serialized Exported.
      VersionError: the module was written by a newer StableHLO than the installed jaxlib reads, the file has a newer
        format, or the calling convention is not one of versions 2 to 10.

    Example:
      >>> square = jax.jit(lambda x: x * x)
      >>> exported = jax.export.export(square, platforms=["cpu"])(jax.ShapeDtypeStruct((3,), "float32"))
      >>> Module.from_exported(exported)
      Module(float32[3]) -> (float32[3]) for cpu
    """
    if isinstance(exported, (bytes, bytearray, memoryview)):
      if bytecode.is_bytecode(bytes(exported[:4])):
        raise errors.DecodeError(
          "bytes are not a serialized jax.export.Exported, but MLIR bytecode or a StableHLO portable artifact, such as "
          "`mlir_module_serialized` of an Exported; read them with Module.from_bytes."
        )
      fields = files.read(bytes(exported), (limits or Limits()).depth)
      return _from_fields(fields, guard, limits)
    if not isinstance(exported, jax.export.Exported):
      raise errors.ArgumentError(
        f"Module.from_exported: got {input_checks.described(exported)}; expected what "
        "jax.export.export(jax.jit(function))(*args) returns, or its serialized bytes."
        f"{input_checks.reading_hint(exported)}"
      )
    return _from_live(exported, 0, limits)

  @staticmethod
  def from_call_module(
    *,
    version: int,
    module: bytes,
    platforms: Sequence[str | bytes] = (),
    function_list: Sequence[Any] = (),
    disabled_checks: Sequence[str | bytes] = (),
    dim_args_spec: Sequence[str | bytes] = (),
    has_token_input_output: bool = False,
    use_shardy_partitioner: bool = False,
    Sout: Any = None,
    Tout: Any = None,
    Tin: Any = None,
    gradient: "Module | Callable[[], Module] | None" = None,
    guard: bool = True,
    limits: Limits | None = None,
  ) -> "Module":
    """Returns a module from the attributes of an XlaCallModule node, versions 2 to 10.

    Args:
      version: the node's `version`.
      module: the node's `module`: text up to version 3, a portable artifact from version 4.
      platforms: upper- or lower-case platform names.
      function_list: the TF functions that the module calls: names, or any objects that the `call_tf_function` of `lift`
        accepts.
      disabled_checks: as recorded by the exporter.
      dim_args_spec: `"argument.axis"` entries of versions up to 4.
      has_token_input_output: ignored; tokens are recognized by their type.
      use_shardy_partitioner: ignored; both kinds of sharding annotations are read.
      Sout: ignored; the module has its own signature.
      Tout: ignored.
      Tin: ignored.
      gradient: the node's gradient function as a module.
      guard: parse the module in a helper process first, see `from_bytes`.
      limits: see `from_text`.

    Raises:
      ArgumentError: an attribute has a wrong type.
      VersionError: the version is not supported.
      DecodeError: the module does not parse.

    Example:
      >>> from graftax.xla_call_module.exporting import export_call_module
      >>> node = export_call_module(lambda x: (x + 1,), [jax.ShapeDtypeStruct((3,), "float32")], platforms=["cpu"])
      >>> Module.from_call_module(**node.attributes, guard=False)  # we made this node
      Module(float32[3]) -> (float32[3]) for cpu
    """
    if not isinstance(version, (int, np.integer)):
      raise errors.ArgumentError(f"Module.from_call_module: version={version!r}; expected an integer.")
    _check_version(int(version), "XlaCallModule")
    for name, value in (
      ("platforms", platforms),
      ("function_list", function_list),
      ("disabled_checks", disabled_checks),
      ("dim_args_spec", dim_args_spec),
    ):
      if isinstance(value, (str, bytes)):
        raise errors.ArgumentError(f"Module.from_call_module: {name}={value!r} is one string; expected a sequence.")
    base = Module.from_bytes(module, guard=guard, limits=limits)
    names = tuple(canonical(_text(name)) for name in platforms)
    return _with_convention(
      base,
      version=version,
      platforms=names,
      disabled_checks=tuple(map(_text, disabled_checks)),
      dim_args=tuple(_dim_arg(spec) for spec in dim_args_spec),
      function_list=tuple(function_list),
      stored_gradient=gradient,
    )


def _check_version(version: int, what: str) -> None:
  """Checks the version of a calling convention.

  Raises:
    VersionError: it is not one of those that this package follows.
  """
  if OLDEST_CALL_MODULE_VERSION <= version <= NEWEST_CALL_MODULE_VERSION:
    return
  hint = (
    "version 1 holds MHLO, which jaxlib no longer reads"
    if version < OLDEST_CALL_MODULE_VERSION
    else "export with an older calling convention"
  )
  raise errors.VersionError(
    f"{what} version {version} is not supported; expected {OLDEST_CALL_MODULE_VERSION} to"
    f" {NEWEST_CALL_MODULE_VERSION} ({hint})."
  )


def check_is_module(module: Any, caller: str) -> None:
  """Checks that `module` is a `Module`.

  Raises:
    ArgumentError: it is not; the message says how to create a module from it.
  """
  if isinstance(module, Module):
    return
  if isinstance(module, jax.export.Exported):
    hint = f" Write {caller}(Module.from_exported(exported))."
  elif isinstance(module, (bytes, bytearray, memoryview)):
    hint = " Create one with Module.from_bytes, or Module.from_exported for a serialized jax.export.Exported."
  elif isinstance(module, str):
    hint = " Create one with Module.from_text(text), or with Module.from_bytes(pathlib.Path(name).read_bytes())."
  elif callable(module):
    hint = " JAX functions need no conversion; the attribute `module` of a lifted function is its module."
  else:
    hint = " Create one with Module.from_bytes, from_text, from_hlo, from_exported or from_call_module."
  raise errors.ArgumentError(f"{caller}: got {input_checks.described(module)}; expected a Module.{hint}")


def _decode(data: bytes, guard: bool, limits: Limits | None) -> tuple[bytes, ModuleIR]:
  """Returns the bytes, changed to an older version if the installed jaxlib needs that, and the module in them."""
  bytecode.check_structure(data)
  expansion.check_bytecode(data)
  if not bytecode.is_portable(data):
    return data, _decoded(data, guard, limits)
  current = mlir.current_version()
  readable = bytecode.relabeled(data, current)
  bytecode.check_version(readable, current)
  try:
    return readable, _decoded(readable, guard, limits)
  except errors.DecodeError as error:
    if readable is data:
      raise
    written, read = (".".join(map(str, version)) for version in (bytecode.declared_version(data), current))
    raise errors.VersionError(
      f"module was written by StableHLO {written}, and has something that the installed jaxlib does not know, which"
      f" reads up to {read}: {error} Install a newer jaxlib, or write the module with an older target version."
    ) from error


def _decoded(data: bytes, guard: bool, limits: Limits | None) -> ModuleIR:
  if guard:
    subprocess_reader.check(data)
  return mlir.decode_bytes(data, limits)


def _main(module_ir: ModuleIR) -> ir.Function:
  if "main" not in module_ir.functions:
    raise errors.UnsupportedModuleError(
      f"module {module_ir.name!r} has no function 'main'; it has {', '.join(sorted(map(repr, module_ir.functions)))}."
      " Rename the function to call to 'main'."
    )
  return module_ir.main


def _specs(types: Sequence[ir.Type], what: str) -> tuple[ArgumentSpec, ...]:
  specs = []
  for kind in types:
    if isinstance(kind, ir.TokenType):
      continue
    if not isinstance(kind, ir.TensorType):
      raise errors.UnsupportedModuleError(f"main has a {what} of type {kind}, which has no counterpart in JAX.")
    specs.append(ArgumentSpec(kind.shape, kind.dtype))
  return tuple(specs)


def _plain(data: bytes | str, module_ir: ModuleIR, gradient: Any) -> Module:
  main = _main(module_ir)
  inputs = _specs(main.types, "argument")
  outputs = _specs(main.result_types, "result")
  return Module(data, module_ir, inputs, outputs, kept=tuple(range(len(inputs))), stored_gradient=gradient)


def _with_convention(base: Module, *, dim_args: Any, platforms: Any, **fields: Any) -> Module:
  """Removes the platform index and the dimension arguments from the beginning of the inputs."""
  has_index = len(platforms) > 1
  hidden = has_index + len(dim_args)
  leading = base.inputs[:hidden]
  if len(leading) < hidden or any(spec.shape or spec.dtype.kind not in "iu" for spec in leading):
    raise errors.DecodeError(
      f"main has arguments ({', '.join(map(str, base.inputs))}); for platforms {platforms} and {len(dim_args)}"
      f" dimension arguments its first {hidden} arguments must be integer scalars."
    )
  inputs = base.inputs[hidden:]
  for argument, axis in dim_args:
    if argument >= len(inputs) or axis >= len(inputs[argument].shape):
      raise errors.DecodeError(
        f"dim_args_spec entry '{argument}.{axis}' is not an axis of the arguments ({', '.join(map(str, inputs))})."
      )
  return dataclasses.replace(
    base,
    inputs=inputs,
    kept=tuple(range(len(inputs))),
    dim_args=dim_args,
    platforms=platforms,
    has_platform_index=has_index,
    **fields,
  )


def _is_integer_scalar(kind: ir.Type) -> bool:
  return isinstance(kind, ir.TensorType) and kind.shape == () and kind.dtype.kind in "iu"


def _text(value: str | bytes) -> str:
  try:
    return value.decode() if isinstance(value, bytes) else str(value)
  except UnicodeDecodeError:
    raise errors.DecodeError(
      f"an attribute of XlaCallModule has the text {value[:50]!r}, which is not UTF-8."
    ) from None


def _dim_arg(spec: str | bytes) -> tuple[int, int]:
  match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", _text(spec))
  if match is None:
    raise errors.DecodeError(f"dim_args_spec entry {spec[:50]!r} is not of the form 'argument.axis'.")
  return int(match[1]), int(match[2])


def _from_fields(
  fields: ExportedFields, guard: bool, limits: Limits | None, gradient: Callable[[], Module] | None = None
) -> Module:
  """Returns the module of an exported function; `gradient` replaces the one that is stored with it."""
  _check_version(fields.version, "jax.export.Exported: calling convention")
  data, module_ir = _decode(fields.module, guard, limits)
  main = _main(module_ir)
  platforms = tuple(canonical(name) for name in fields.platforms)
  has_index = len(platforms) > 1
  parameters = [kind for kind in main.types if not isinstance(kind, ir.TokenType)]
  if has_index and not (parameters and _is_integer_scalar(parameters[0])):
    raise errors.DecodeError(
      f"main has arguments ({', '.join(map(str, parameters))}); for platforms {platforms} its first argument must be"
      " an integer scalar."
    )
  taken = parameters[has_index:]
  returned = [kind for kind in main.result_types if not isinstance(kind, ir.TokenType)]
  if len(taken) != len(fields.kept):
    raise errors.DecodeError(
      f"main has {len(taken)} arguments; the Exported declares {len(fields.kept)} for platforms {platforms}."
    )
  declared = fields.signature.outputs
  if len(returned) != len(declared):
    raise errors.DecodeError(f"main has {len(returned)} results; the Exported declares {len(declared)}.")
  kinds = dict(zip(fields.kept, taken, strict=True))
  key_words = {**{name: (words,) for name, (_, words) in KEY_IMPLEMENTATIONS.items()}, **fields.key_words}
  inputs = tuple(_declared(leaf, kinds.get(i), key_words) for i, leaf in enumerate(fields.signature.inputs))
  outputs = tuple(_declared(leaf, kind, key_words) for leaf, kind in zip(declared, returned, strict=True))
  stored = None if fields.gradient is None else _StoredGradient(_from_fields, fields.gradient, guard, limits)
  return Module(
    data,
    module_ir,
    inputs,
    outputs,
    platforms=platforms,
    version=fields.version,
    disabled_checks=fields.disabled_checks,
    kept=fields.kept,
    has_platform_index=has_index,
    stored_gradient=gradient or stored,
    signature=_with_donation(fields, main, has_index),
  )


_DONATED = {"jax.buffer_donor", "tf.aliasing_output"}


def _with_donation(fields: ExportedFields, main: ir.Function, has_index: bool) -> Signature:
  """Returns the signature with the arguments that `main` may overwrite."""
  pairs = zip(main.types, main.attrs, strict=True)
  attrs = [attrs for kind, attrs in pairs if not isinstance(kind, ir.TokenType)][has_index:]
  donated = {i for i, names in zip(fields.kept, attrs, strict=True) if _DONATED & set(names)}
  leaves = (dataclasses.replace(leaf, is_donated=i in donated) for i, leaf in enumerate(fields.signature.inputs))
  return dataclasses.replace(fields.signature, inputs=tuple(leaves))


# Between JAX 0.5 and 0.6 these two exchanged their numbers in files, without a new version of the format.
_EXCHANGED = {"float8_e4m3", "float8_e3m4"}


def _declared(leaf: Leaf, kind: Any, key_words: Mapping[str, tuple[int, ...]]) -> ArgumentSpec:
  """Returns the type of an argument or a result, which must be that of `main`.

  Args:
    leaf: the argument or result.
    kind: its type in `main`; None if `main` lacks it.
    key_words: dtypes of random keys, and the shape of the words of one key.

  Raises:
    DecodeError: `main` has another type.
  """
  shape = tuple(dim if isinstance(dim, int) else None for dim in leaf.shape)
  if leaf.dtype in key_words:
    spec = ArgumentSpec((*shape, *key_words[leaf.dtype]), np.dtype(np.uint32))
  else:
    # `main` has booleans in the place of float0.
    spec = ArgumentSpec(shape, np.dtype(np.bool_) if leaf.dtype == "float0" else jnp.dtype(leaf.dtype))
  if kind is None:
    return spec
  found = kind if isinstance(kind, ir.TensorType) else ir.TensorType((), np.dtype(np.void))
  if {leaf.dtype, found.dtype.name} == _EXCHANGED:
    spec = ArgumentSpec(shape, found.dtype)
  agrees = len(found.shape) == len(spec.shape) and all(
    None in pair or pair[0] == pair[1] for pair in zip(found.shape, spec.shape, strict=True)
  )
  if not agrees or found.dtype != spec.dtype:
    raise errors.DecodeError(f"main has {kind} in the place of {leaf}, as the Exported declares it.")
  return spec


def _from_live(exported: Any, order: int, limits: Limits | None) -> Module:
  """Returns the module of a live `Exported`, which is a derivative of the given order of another."""
  gradient = _LiveGradient(exported, order, limits) if exported.has_vjp() else None
  return _from_fields(live.read(exported), False, limits, gradient)


class _Gradient:
  """Creates the module of a gradient on first use."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._made: Module | None = None

  def __call__(self) -> Module:
    with self._lock:
      if self._made is None:
        self._made = self._make()
      return self._made

  def _make(self) -> Module:
    raise NotImplementedError

  def __deepcopy__(self, memo: Any) -> "_Gradient":
    return self


class _StoredGradient(_Gradient):
  """The gradient that a file stores; `read` makes its module of the arguments."""

  def __init__(self, read: Callable[..., Module], *args: Any):
    super().__init__()
    self._read, self._args = read, args

  def _make(self) -> Module:
    return self._read(*self._args)

  def __reduce__(self) -> Any:
    return _StoredGradient, (self._read, *self._args)


_PICKLED_ORDERS = 2


class _LiveGradient(_Gradient):
  """The gradient of a live Exported, which can derive gradients of any order.

  A pickle has the first two orders. A third raises DerivativeError in the other process, where it would otherwise be
  another derivative than here.
  """

  def __init__(self, exported: Any, order: int, limits: Limits | None):
    super().__init__()
    self._exported, self._order, self._limits = exported, order, limits

  def _make(self) -> Module:
    return _from_live(self._derived(), self._order + 1, self._limits)

  def _derived(self) -> Any:
    try:
      return self._exported.vjp()
    except Exception as error:
      raise errors.DerivativeError(
        f"JAX cannot differentiate the exported function {self._exported.fun_name!r}: {error} Pass gradient='primal' to"
        " differentiate the lifted code instead, which ignores derivatives that the author defined (custom_vjp,"
        " stop_gradient)."
      ) from error

  def __reduce__(self) -> Any:
    if self._order >= _PICKLED_ORDERS:
      return _NoGradient, (_fewer_orders("pickled"),)
    try:
      return _Made, (self(),)
    except errors.DerivativeError as error:
      return _NoGradient, (str(error),)


class _Made(_Gradient):
  """A gradient whose module exists."""

  def __init__(self, module: Module):
    super().__init__()
    self._made = module

  def __reduce__(self) -> Any:
    return _Made, (self._made,)


class _NoGradient(_Gradient):
  """A gradient that could not be pickled; `why` says so if it is used."""

  def __init__(self, why: str):
    super().__init__()
    self._why = why

  def _make(self) -> Module:
    raise errors.DerivativeError(self._why)

  def __reduce__(self) -> Any:
    return _NoGradient, (self._why,)


def _version() -> str:
  from graftax import xla_call_module  # this module is a part of it

  return xla_call_module.__version__


def _to_saved(module: Module, order: int) -> saved.SavedModule:
  """Returns what a file says of a module, which is a derivative of the given order of another."""
  data = module.data
  if isinstance(data, str) or not bytecode.is_portable(data):
    data = mlir.serialize(data, version=".".join(map(str, mlir.current_version())))
  gradient, no_gradient = None, ""
  stored = module.stored_gradient
  if isinstance(stored, _LiveGradient) and order >= _PICKLED_ORDERS:
    no_gradient = _fewer_orders("saved")
  elif stored is not None:
    try:
      found = module.gradient
    except errors.DerivativeError as error:
      no_gradient = str(error)
    else:
      gradient = None if found is None else _to_saved(found, order + 1)
  return saved.SavedModule(
    data=data,
    version=module.version,
    platforms=module.platforms,
    disabled_checks=module.disabled_checks,
    kept=module.kept,
    dim_args=module.dim_args,
    function_list=module.function_list,
    signature=module.signature,
    gradient=gradient,
    no_gradient=no_gradient,
  )


def _fewer_orders(done: str) -> str:
  return (
    f"a {done} module of a live jax.export.Exported has {_PICKLED_ORDERS} orders of derivatives. Send"
    " exported.serialize(vjp_order=...) and call Module.from_exported in the other process, or pass"
    " gradient='primal'."
  )


def _from_saved(found: saved.SavedModule, guard: bool, limits: Limits | None) -> Module:
  gradient: _Gradient | None = None
  if found.gradient is not None:
    gradient = _StoredGradient(_from_saved, found.gradient, guard, limits)
  elif found.no_gradient:
    gradient = _NoGradient(found.no_gradient)
  if found.signature is not None:
    if found.version is None:
      raise errors.DecodeError("a saved module has a signature and no calling convention.")
    fields = ExportedFields(
      signature=found.signature,
      module=found.data,
      platforms=found.platforms,
      version=found.version,
      disabled_checks=found.disabled_checks,
      kept=found.kept,
    )
    return _from_fields(fields, guard, limits, gradient)
  base = Module.from_bytes(found.data, guard=guard, limits=limits)
  if found.version is not None:
    _check_version(found.version, "XlaCallModule")
  return _with_convention(
    base,
    version=found.version,
    platforms=found.platforms,
    disabled_checks=found.disabled_checks,
    dim_args=found.dim_args,
    function_list=found.function_list,
    stored_gradient=gradient,
  )
