"""Compares custom calls with the contracts of their targets."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.contracts.compiled import COMPILED, REFINED, WITH_TEXT
from graftax.xla_call_module.contracts.kernels import Contract, CustomCall, contracts, unwritten_results
from graftax.xla_call_module.contracts.tensors import Kind, Mismatch, Pattern, as_kind

__all__ = ["check_called", "check_lifted", "check_module", "is_compiled", "is_kernel", "needs"]

_CUSTOM_CALL = "stablehlo.custom_call"
# Attributes of a call to a kernel. Those with a dot in their name belong to other dialects; `mhlo.backend_config` is
# another place for the settings.
_ATTRIBUTES = frozenset({
  "api_version", "backend_config", "call_target_name", "has_side_effect", "indices_of_shape_operands",
  "operand_layouts", "output_operand_aliases", "result_layouts",
})  # fmt: skip
_TYPED_FFI = 4


def is_kernel(target: str) -> bool:
  """Returns whether a target is a kernel with a contract."""
  return bool(contracts(target))


def is_compiled(target: str) -> bool:
  """Returns whether XLA replaces calls of a target while it compiles, so that no kernel is registered for it."""
  return target in COMPILED


def needs(targets: Collection[str]) -> set[str]:
  """Returns what `initialize` has to prepare before these targets are called."""
  return {contract.initializes for target in targets for contract in contracts(target)} - {""}


def check_lifted(op: ir.Op, operands: Sequence[Any]) -> None:
  """Checks a call of a kernel before JAX operations replace it. Sizes may be open, and old forms are accepted.

  Raises:
    CustomCallError: the call does not fulfil the contract of its target.
  """
  _refusing(op, lambda: _check_kernel(op, operands, is_called=False))


def check_called(op: ir.Op, operands: Sequence[Any]) -> None:
  """Checks a custom call that lifting passes on as it is.

  Raises:
    CustomCallError: its target has no rule, or does not accept its types.
  """
  compiled = COMPILED.get(_target(op))
  if compiled is not None:
    _refusing(op, lambda: compiled(_compiled_call(op, operands)))
  elif any(contract.has_safe_data for contract in contracts(_target(op))):
    _refusing(op, lambda: _check_kernel(op, operands, is_called=True))
  else:
    raise _no_rule(op)


def check_module(
  ops: Iterable[tuple[ir.Function, ir.Op]], allowed: Collection[str] = (), *, is_refined: bool = True
) -> frozenset[str]:
  """Checks all custom calls of a module before it is embedded, and returns their targets.

  Args:
    ops: ops of the module with their functions, the custom calls among them.
    allowed: targets that are not checked.
    is_refined: whether the module is about to be compiled. Otherwise only the targets are checked, because the types
      of a polymorphic module are known when it has been refined.

  Raises:
    CustomCallError: a target has no contract and is not allowed, or a call does not fulfil its contract.
  """
  found = [(function, op) for function, op in ops if op.name == _CUSTOM_CALL]
  types: dict[int, Any] = {}
  if is_refined:
    for function in {id(function): function for function, _ in found}.values():
      _collect_types(function.body, types)
  for function, op in found:
    target = _target(op)
    if target not in allowed:
      _refusing(op, functools.partial(_check_embedded, op, types, is_refined))
      if is_refined and is_kernel(target):
        _refusing(op, functools.partial(_check_written, function, op, types))
  return frozenset(_target(op) for _, op in found)


def _target(op: ir.Op) -> str:
  return str(op.attrs.get("call_target_name", ""))


def _collect_types(region: ir.Region, types: dict[int, Any]) -> None:
  types.update(zip(region.args, region.types, strict=True))
  for op in region.ops:
    types.update(zip(op.results, op.types, strict=True))
    for inner in op.regions:
      _collect_types(inner, types)


def _refusing(op: ir.Op, check: Callable[[], None]) -> None:
  try:
    check()
  except Mismatch as error:
    raise _refusal(op, str(error)) from None


def _refusal(op: ir.Op, reason: str) -> errors.CustomCallError:
  """Returns the error to raise for a custom call that is not called."""
  target = _target(op)
  return errors.CustomCallError(
    f"{op.place} calls {target!r}, but {reason}.", target=target, op=op.name, location=op.location, reason=reason
  )


def _no_rule(op: ir.Op) -> errors.CustomCallError:
  """Returns the error to raise for a custom call whose target has neither a lowering nor a contract."""
  target = _target(op)
  reason = "no rule says what this target accepts, and a kernel that is called with other types may damage the process"
  return errors.CustomCallError(
    f"{op.place} calls {target!r}, but {reason}. If you trust the module, pass allow_custom_calls=[{target!r}], or"
    f" custom_calls={{{target!r}: function}} to lift.",
    target=target,
    op=op.name,
    location=op.location,
    reason=reason,
  )


def _check_embedded(op: ir.Op, types: Mapping[int, Any], is_refined: bool) -> None:
  target = _target(op)
  if contracts(target):
    if is_refined:
      _check_kernel(op, [types.get(number) for number in op.operands], is_called=True)
    return
  check = COMPILED.get(target) or (None if is_refined else REFINED.get(target))
  if check is None and not target.startswith("stablehlo.dynamic_"):
    raise _no_rule(op)
  if check is not None and is_refined:
    check(_compiled_call(op, [types.get(number) for number in op.operands]))


def _check_written(function: ir.Function, op: ir.Op, types: Mapping[int, Any]) -> None:
  """Raises Mismatch if a result is used that the kernel does not write, which would be memory of this process."""
  unwritten = unwritten_results(_call(op, [types.get(number) for number in op.operands]))
  if not unwritten:
    return
  used = _used(function.body)
  for setting, result in unwritten:
    if op.results[result] in used:
      raise Mismatch(f"its result {result} is used, which the kernel does not compute if {setting} is 78 ('N')")


def _used(body: ir.Region) -> set[int]:
  """Returns the values that an op or a region reads or returns."""
  used: set[int] = set()
  pending = [body]
  while pending:
    region = pending.pop()
    used.update(region.returns)
    for op in region.ops:
      used.update(op.operands)
      pending += op.regions
  return used


def _call(op: ir.Op, operands: Sequence[Any]) -> CustomCall:
  return CustomCall(_target(op), _kinds(op, operands), _kinds(op, op.types), _settings(op), _aliases(op))


def _compiled_call(op: ir.Op, operands: Sequence[Any]) -> CustomCall:
  """Returns a call that XLA replaces while it compiles. TensorFlow writes several results as one tuple."""
  types: tuple[Any, ...] = op.types
  if len(types) == 1 and isinstance(types[0], ir.TupleType):
    types = types[0].elements
  text = op.attrs.get("backend_config") if _target(op) in WITH_TEXT and "mhlo.backend_config" not in op.attrs else None
  settings = ir.Attributes() if isinstance(text, str) else _settings(op)
  return CustomCall(
    _target(op), _kinds(op, operands), _kinds(op, types), settings, _aliases(op), text if isinstance(text, str) else ""
  )


def _kinds(op: ir.Op, values: Sequence[Any]) -> tuple[Kind, ...]:
  kinds = [as_kind(value) for value in values]
  if None in kinds:
    raise Mismatch("it has an operand or a result that is not a tensor")
  return tuple(kind for kind in kinds if kind is not None)


def _check_kernel(op: ir.Op, operands: Sequence[Any], *, is_called: bool) -> None:
  """Compares a call with each contract of its target.

  Raises:
    Mismatch: it fulfils none of them.
  """
  if unknown := sorted(name for name in op.attrs if name not in _ATTRIBUTES and "." not in name):
    raise Mismatch(f"it has the attribute {unknown[0]} = {op.attrs[unknown[0]]!r}, which its contract does not have")
  _check_convention(op)
  call = _call(op, operands)
  if is_called and any(None in kind.shape for kind in (*call.operands, *call.results)):
    raise Mismatch("its types have open sizes")
  problems = []
  for contract in contracts(call.target):
    try:
      _check_one(op, call, contract, is_called)
      return
    except Mismatch as error:
      problems.append(str(error))
  raise Mismatch(problems[-1])


def _check_convention(op: ir.Op) -> None:
  """Checks that a call follows XLA's typed FFI, in which the kernel compares types with its own.

  That is version 4 with the settings in `backend_config`. JAX writes version 1 with the settings in
  `mhlo.backend_config`, which XLA does not read in calls of version 4.
  """
  version, own = op.attrs.get("api_version", 1), op.attrs.get("mhlo.backend_config")
  if version == _TYPED_FFI and own is None:
    return
  if version != 1 or not isinstance(own, dict):
    where = "no mhlo.backend_config" if own is None else f"mhlo.backend_config = {own!r}"
    raise Mismatch(f"it has api_version {version!r} and {where}; expected version 4, or 1 with a mhlo.backend_config")


def _check_one(op: ir.Op, call: CustomCall, contract: Contract, is_called: bool) -> None:
  num_old = len(call.operands) - len(contract.operands)
  if not is_called and 0 < num_old <= contract.num_old_scalars:
    if any(kind.shape for kind in call.operands[-num_old:]):
      raise Mismatch(f"its last operand is {call.operands[-1]}; expected a scalar")
    call = CustomCall(call.target, call.operands[:-num_old], call.results, call.config, call.aliases)
  _check_layouts(op, "operand", contract, contract.operands, call.operands)
  _check_layouts(op, "result", contract, contract.results, call.results)
  contract.check(call)


def _settings(op: ir.Op) -> ir.Attributes:
  """Returns the settings of a call, which are in one of two attributes."""
  given = [op.attrs.get(name) for name in ("mhlo.backend_config", "backend_config")]
  found = [config for config in given if isinstance(config, np.ndarray) or config]
  if len(found) > 1:
    raise Mismatch("it has two backend_configs")
  config: ir.Attribute = found[0] if found else ir.Attributes()
  if not isinstance(config, ir.Attributes):
    raise Mismatch(f"its backend_config is {config!r}; expected a dictionary")
  return config


def _aliases(op: ir.Op) -> tuple[tuple[int, int], ...]:
  """Returns the pairs of a result and an operand that share memory."""
  found = []
  for entry in op.attrs.all_fields("output_operand_aliases"):
    result, operand = entry.integers("output_tuple_indices", ()), entry.get("operand_index")
    if entry.get("operand_tuple_indices") or len(result) > 1 or not isinstance(operand, int):
      raise Mismatch(f"its output_operand_alias {entry!r} is of tuples")
    found.append((result[0] if result else 0, operand))
  if len(set(found)) < len(found):
    raise Mismatch("two of its output_operand_aliases are the same")
  return tuple(found)


def _check_layouts(op: ir.Op, what: str, contract: Contract, wanted: Sequence[Pattern], kinds: Sequence[Kind]) -> None:
  layouts = op.attrs.get(f"{what}_layouts")
  for position, (pattern, kind) in enumerate(zip(wanted, kinds, strict=False)):
    row_major = list(range(len(kind.shape)))[::-1]  # from the minor to the major dimension, as in StableHLO
    expected = row_major
    if contract.is_column_major and pattern.is_matrix:
      expected = [*row_major[:2][::-1], *row_major[2:]]
    given = row_major if layouts is None else _layout(layouts, position)
    if given != expected:
      raise Mismatch(f"the layout of {what} {position} is {given}; expected {expected}")


def _layout(layouts: Any, position: int) -> list[int] | None:
  if position >= len(layouts):
    return None
  return [int(axis) for axis in np.asarray(layouts[position]).reshape(-1)]
