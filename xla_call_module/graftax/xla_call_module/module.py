"""`Module`: a StableHLO module and its calling convention."""

import dataclasses
import functools
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import bytecode, errors, expansion, input_checks, ir, jax_versions, mlir, subprocess_reader
from graftax.xla_call_module.artifacts import decode
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.calling_convention import (
  NEWEST_CALL_MODULE_VERSION,
  OLDEST_CALL_MODULE_VERSION,
  ArgumentSpec,
  argument_specs,
  attribute_text,
  check_version,
  declared_spec,
  dimension_argument,
  is_integer_scalar,
  main_function,
  signature_with_donation,
)
from graftax.xla_call_module.exported import files, live, saved
from graftax.xla_call_module.exported.fields import ExportedFields
from graftax.xla_call_module.ir import ModuleIR
from graftax.xla_call_module.platforms import canonical
from graftax.xla_call_module.signature import KEY_IMPLEMENTATIONS, Signature
from graftax.xla_call_module.stored_gradients import (
  NUM_STORED_ORDERS,
  Gradient,
  LiveGradient,
  NoGradient,
  StoredGradient,
  fewer_orders,
)

__all__ = ["NEWEST_CALL_MODULE_VERSION", "OLDEST_CALL_MODULE_VERSION", "ArgumentSpec", "Module", "check_is_module"]


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
    return _plain(*decode(data, guard, limits), gradient)

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
    check_version(int(version), "XlaCallModule")
    for name, value in (
      ("platforms", platforms),
      ("function_list", function_list),
      ("disabled_checks", disabled_checks),
      ("dim_args_spec", dim_args_spec),
    ):
      if isinstance(value, (str, bytes)):
        raise errors.ArgumentError(f"Module.from_call_module: {name}={value!r} is one string; expected a sequence.")
    base = Module.from_bytes(module, guard=guard, limits=limits)
    names = tuple(canonical(attribute_text(name)) for name in platforms)
    return _with_convention(
      base,
      version=version,
      platforms=names,
      disabled_checks=tuple(map(attribute_text, disabled_checks)),
      dim_args=tuple(dimension_argument(spec) for spec in dim_args_spec),
      function_list=tuple(function_list),
      stored_gradient=gradient,
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


def _plain(data: bytes | str, module_ir: ModuleIR, gradient: Any) -> Module:
  main = main_function(module_ir)
  inputs = argument_specs(main.types, "argument")
  outputs = argument_specs(main.result_types, "result")
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


def _from_fields(
  fields: ExportedFields, guard: bool, limits: Limits | None, gradient: Callable[[], Module] | None = None
) -> Module:
  """Returns the module of an exported function; `gradient` replaces the one that is stored with it."""
  check_version(fields.version, "jax.export.Exported: calling convention")
  data, module_ir = decode(fields.module, guard, limits)
  main = main_function(module_ir)
  platforms = tuple(canonical(name) for name in fields.platforms)
  has_index = len(platforms) > 1
  parameters = [kind for kind in main.types if not isinstance(kind, ir.TokenType)]
  if has_index and not (parameters and is_integer_scalar(parameters[0])):
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
  inputs = tuple(declared_spec(leaf, kinds.get(i), key_words) for i, leaf in enumerate(fields.signature.inputs))
  outputs = tuple(declared_spec(leaf, kind, key_words) for leaf, kind in zip(declared, returned, strict=True))
  stored = None if fields.gradient is None else StoredGradient(_from_fields, fields.gradient, guard, limits)
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
    signature=signature_with_donation(fields, main, has_index),
  )


def _from_live(exported: Any, order: int, limits: Limits | None) -> Module:
  """Returns the module of a live `Exported`, which is a derivative of the given order of another."""
  read = functools.partial(_from_live, limits=limits)
  gradient = LiveGradient(read, exported, order) if exported.has_vjp() else None
  return _from_fields(live.read(exported), False, limits, gradient)


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
  if isinstance(stored, LiveGradient) and order >= NUM_STORED_ORDERS:
    no_gradient = fewer_orders("saved")
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


def _from_saved(found: saved.SavedModule, guard: bool, limits: Limits | None) -> Module:
  gradient: Gradient[Module] | None = None
  if found.gradient is not None:
    gradient = StoredGradient(_from_saved, found.gradient, guard, limits)
  elif found.no_gradient:
    gradient = NoGradient(found.no_gradient)
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
    check_version(found.version, "XlaCallModule")
  return _with_convention(
    base,
    version=found.version,
    platforms=found.platforms,
    disabled_checks=found.disabled_checks,
    dim_args=found.dim_args,
    function_list=found.function_list,
    stored_gradient=gradient,
  )
