"""Every CPU kernel that jaxlib registers is called as its contract says, and with one thing wrong at a time."""

import dataclasses
import subprocess
import sys

import jax
import numpy as np
import pytest
from jaxlib import xla_client

from graftax.xla_call_module import (
  CustomCallError,
  LiftError,
  Module,
  UnsupportedModuleError,
  communication,
  embed,
  lift,
)
from graftax.xla_call_module.attributes import type_spelling
from graftax.xla_call_module.contracts.compiled import COMPILED
from graftax.xla_call_module.contracts.kernels import Contract, contracts, cpu_targets
from graftax.xla_call_module.contracts.tensors import Pattern

_SIZES = {"m": 4, "n": 3, "k": 2, "r": 4, "c": 3, "a": 4, "u": 4, "v": 3, "z": 5}
_SETTINGS = {"low": "1 : i32", "high": "3 : i32", "left": "true", "transpose": "false"}


@dataclasses.dataclass(frozen=True)
class _Text:
  """The parts of the text of a custom call."""

  target: str
  operands: tuple[tuple[tuple[int, ...], str], ...]
  results: tuple[tuple[tuple[int, ...], str], ...]
  settings: dict[str, str]
  layouts: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
  attributes: str = "api_version = 4 : i32"
  returned: tuple[int, ...] | None = None

  @property
  def module(self) -> Module:
    operands, results = ([type_spelling(*kind) for kind in kinds] for kinds in (self.operands, self.results))
    names = [f"%a{i}" for i in range(len(operands))]
    returned = range(len(results)) if self.returned is None else self.returned
    outs = [f"%r#{i}" if len(results) > 1 else "%r" for i in returned]
    kept = ", ".join(results[i] for i in returned)
    left = f"%r:{len(results)} = " if len(results) > 1 else "%r = "
    config = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
    layouts = [
      ", ".join(f"dense<{list(axes)}> : tensor<{len(axes)}xindex>" for axes in group) for group in self.layouts
    ]
    return Module.from_text(f"""module {{
      func.func public @main({", ".join(f"{n}: {t}" for n, t in zip(names, operands, strict=True))})
          -> ({kept}) {{
        {left}stablehlo.custom_call @{self.target}({", ".join(names)}) {{
            {self.attributes}, backend_config = {{{config}}}, operand_layouts = [{layouts[0]}],
            result_layouts = [{layouts[1]}]}} : ({", ".join(operands)}) -> ({", ".join(results)})
        return {", ".join(outs)} : {kept} }} }}""")

  def arrays(self) -> list[np.ndarray]:
    return [_array(*kind) for kind in self.operands]


def _array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
  if np.issubdtype(dtype, np.integer):
    return np.zeros(shape, dtype)
  return (np.eye(*shape[-2:]) * 2 if len(shape) > 1 else np.full(shape, 0.5)).astype(dtype) * np.ones(shape, dtype)


def _valid(target: str, contract: Contract) -> _Text:
  """Returns a call that fulfils a contract, with one batch dimension of 2 where that is possible."""
  elements = {name: dtypes[0].name for name, dtypes in contract.elements.items()}
  batch = (2,) if contract.has_batch else ()

  def kinds(patterns: tuple[Pattern, ...]) -> tuple[tuple[tuple[int, ...], str], ...]:
    return tuple(((*batch, *(_size(text) for text in p.dims)), elements.get(p.element, p.element)) for p in patterns)

  def layouts(patterns: tuple[Pattern, ...]) -> tuple[tuple[int, ...], ...]:
    found = []
    for pattern in patterns:
      axes = list(range(len(batch) + len(pattern.dims)))[::-1]
      if contract.is_column_major and len(pattern.dims) == 2:
        axes[:2] = axes[:2][::-1]
      found.append(tuple(axes))
    return tuple(found)

  settings = {name: _SETTINGS.get(name, f"{ord(allowed[0])} : ui8") for name, allowed in contract.settings.items()}
  both = contract.operands, contract.results
  return _Text(target, kinds(both[0]), kinds(both[1]), settings, (layouts(both[0]), layouts(both[1])))


def _size(text: str) -> int:
  if text.startswith("min("):
    return min(_SIZES[name] for name in text[4:-1].split(","))
  return _SIZES[text[0]] - int(text[2:] or 0) if "-" in text else _SIZES[text]


def _wrong(valid: _Text):
  """Yields descriptions and calls with one thing wrong."""
  for group in ("operands", "results"):
    kinds = getattr(valid, group)
    index = ("operands", "results").index(group)
    for i, (shape, dtype) in enumerate(kinds):
      for what, kind in [
        ("another dtype", (shape, "int8")),
        ("a small size", ((*shape[:-1], 1) if shape and shape[-1] != 1 else (*shape, 1), dtype)),
        ("a large size", (tuple(dim * 20 for dim in shape) or (7,), dtype)),
        ("a scalar", ((), dtype) if shape else ((9,), dtype)),
        ("more dimensions", ((3, *shape), dtype)),
      ]:
        layouts = list(valid.layouts)
        axes = tuple(range(len(kind[0])))[::-1]
        if valid.layouts[index][i] != tuple(range(len(shape)))[::-1] and len(axes) > 1:
          axes = (*axes[:2][::-1], *axes[2:])
        layouts[index] = (*layouts[index][:i], axes, *layouts[index][i + 1 :])
        changed = (*kinds[:i], kind, *kinds[i + 1 :])
        if group == "operands" and _is_free(valid, i, what):
          continue
        yield f"{group} {i} with {what}", dataclasses.replace(valid, **{group: changed}, layouts=tuple(layouts))
    layouts = list(valid.layouts)
    layouts[index] = (*layouts[index], (0,))
    more = (*kinds, ((4,), "float32"))
    yield f"one of {group} too many", dataclasses.replace(valid, **{group: more}, layouts=tuple(layouts))
    if len(kinds) > 1:
      layouts[index] = valid.layouts[index][:-1]
      yield f"one of {group} missing", dataclasses.replace(valid, **{group: kinds[:-1]}, layouts=tuple(layouts))
  for name in valid.settings:
    for value in ("88 : ui8", "76 : i64", "-1 : i32", '"L"', "1.0 : f32", "dense<0> : tensor<2xi32>"):
      yield f"setting {name} = {value}", dataclasses.replace(valid, settings={**valid.settings, name: value})
    rest = {other: value for other, value in valid.settings.items() if other != name}
    yield f"without setting {name}", dataclasses.replace(valid, settings=rest)
  yield "a setting too many", dataclasses.replace(valid, settings={**valid.settings, "more": "1 : i32"})
  unread = f"{valid.attributes}, mhlo.backend_config = {{}}"
  yield "settings that its version does not read", dataclasses.replace(valid, attributes=unread)
  yield "a callee", dataclasses.replace(valid, attributes=f"{valid.attributes}, called_computations = [@main]")
  if any(axes for axes in valid.layouts[0][0]):
    turned = (valid.layouts[0][0][::-1], *valid.layouts[0][1:])
    if turned != valid.layouts[0]:
      yield "another layout", dataclasses.replace(valid, layouts=(turned, valid.layouts[1]))


def _is_free(valid: _Text, operand: int, what: str) -> bool:
  """Returns whether a call may have an operand of another size: fewer reflectors, or a longer vector."""
  if valid.target.endswith(("gqr_ffi", "mqr_ffi")):
    return operand == 1 and what == "a small size"
  is_vector = valid.target == "cpu_csr_sparse_dense_ffi" and operand == 3 and len(valid.operands[3][0]) == 1
  return is_vector and what in ("a small size", "a large size")


_N = "78 : ui8"
_UNWRITTEN = {
  "lapack_sgesdd_ffi": ({"mode": _N}, {2, 3}),
  "lapack_zgesdd_ffi": ({"mode": _N}, {2, 3}),
  "lapack_dgesvd_ffi": ({"mode": _N}, {2, 3}),
  "lapack_cgesvd_ffi": ({"mode": _N}, {2, 3}),
  "lapack_sgeev_ffi": ({"compute_left": _N, "compute_right": _N}, {2, 3}),
  "lapack_dgeev_ffi": ({"compute_left": "86 : ui8", "compute_right": _N}, {3}),
  "lapack_cgeev_ffi": ({"compute_left": _N, "compute_right": "86 : ui8"}, {1}),
  "lapack_sgees_ffi": ({"mode": _N, "sort": _N}, {1}),
  "lapack_zgees_ffi": ({"mode": _N, "sort": _N}, {1}),
}


@pytest.mark.parametrize("target", _UNWRITTEN)
def test_a_result_that_the_kernel_does_not_write_cannot_be_read(target):
  settings, unwritten = _UNWRITTEN[target]
  (contract,) = contracts(target)
  valid = dataclasses.replace(_valid(target, contract), settings=settings)
  for result in range(len(valid.results)):
    module = dataclasses.replace(valid, returned=(result,)).module
    if result in unwritten:
      with pytest.raises(CustomCallError, match=f"its result {result} is used, which the kernel does not compute"):
        embed(module)
    else:
      embed(module)


def registered() -> list[str]:
  import jax.experimental.sparse

  jax.devices()  # registers all others
  return sorted(xla_client.custom_call_targets("cpu"))


def kernels() -> list[str]:
  return [target for target in registered() if contracts(target)]


def test_every_registered_target_has_a_contract_or_is_never_called():
  assert sorted(cpu_targets()) == kernels()
  for target in registered():
    assert contracts(target) or target in COMPILED or target in communication.HOST_CALLBACKS, target


def refused(targets: list[str]) -> None:
  """Lifts and embeds the wrong calls of kernels; run in a child process."""
  for target in targets:
    count = sum(_refused(_valid(target, contract)) for contract in contracts(target))
    print("refused", target, count)


def _refused(valid: _Text) -> int:
  count = 0
  for what, wrong in _wrong(valid):
    specs = [jax.ShapeDtypeStruct(*kind) for kind in wrong.operands]
    for way in (embed, lift):
      print(wrong.target, what, way.__name__, flush=True)
      with (
        jax.enable_x64(True),
        pytest.raises(UnsupportedModuleError, match=f"calls '{wrong.target}', but|calls itself"),
      ):
        jax.eval_shape(way(wrong.module), *specs)
      count += 1
  return count


def accepted(target: str) -> None:
  """Embeds and lifts the valid calls of a target as the first act of a process."""
  for contract in contracts(target):
    valid = _valid(target, contract)
    module = valid.module
    shapes = [result.shape for result in embed(module, x64="enable")(*valid.arrays())]
    try:
      assert shapes == [result.shape for result in lift(module, x64="enable")(*valid.arrays())]
    except LiftError as error:  # JAX does not return all results of these
      assert "are used" in str(error) and not isinstance(error, CustomCallError), error
  print("accepted")


def _run(call: str) -> "subprocess.CompletedProcess[str]":
  # By its path, since installed wheels have no tests.
  code = f"import runpy; globals().update(runpy.run_path({__file__!r})); {call}"
  return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)


def _child(call: str) -> str:
  found = _run(call)
  assert found.returncode == 0, f"{found.stdout[-300:]}\n{found.stderr[-3000:]}"
  return found.stdout


def test_wrong_calls_of_a_few_kernels_are_refused():
  few = ["lapack_sgeqp3_ffi", "cpu_csr_sparse_dense_ffi"]
  assert _child(f"refused({few})").count("refused") == len(few)


@pytest.mark.slow
def test_wrong_calls_of_all_kernels_are_refused():
  assert _child("refused(kernels())").count("refused") == len(kernels())


@pytest.mark.slow
@pytest.mark.parametrize("target", cpu_targets())
def test_a_valid_call_of_each_kernel_is_the_first_act_of_a_process(target):
  assert target in kernels()
  assert "accepted" in _child(f"accepted({target!r})")
