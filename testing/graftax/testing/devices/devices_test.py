"""Programs on the accelerator that JAX_PLATFORMS names, compared with what TensorFlow computed on a CPU.

`make gpu-test` and `make tpu-test` run them from the installed wheels, and other test runs on the CPU. A device that is
asked for and missing is an error. The artifacts are written by `graftax.tools.artifacts.device_models`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.savedmodel_io import SavedModel, load, save
from graftax.xla_call_module import Module, embed, lift

pytestmark = pytest.mark.accelerator

_DATA = Path(__file__).parents[1] / "testdata/2026_11_23"
_GOLDENS = dict(np.load(_DATA / "goldens.npz"))
_MODEL_SIGNATURES = sorted({name.partition("/")[0] for name in _GOLDENS} - {"stablehlo"})
_WITH_GRADIENT = sorted({name.partition("/")[0] for name in _GOLDENS if "/gradient/" in name})
# What JAX's device reports for a name in JAX_PLATFORMS.
_PLATFORM = {"cuda": "gpu", "rocm": "gpu"}
# (relative to the value, relative to the largest value): accelerators add up in another order and have other
# approximations. Positions, integers and random bits are the same to the bit.
_TOLERANCE = (1e-4, 1e-5)
# Rounding before the last rounding differs: one unit in the last place of the narrow type.
_NARROW_TOLERANCE = {"half/output/bfloat16": 2**-7, "half/output/float16": 2**-10, "half/gradient/x": 2**-6}


def _wanted_platform() -> str:
  name = os.environ.get("JAX_PLATFORMS", "cpu").partition(",")[0]
  return _PLATFORM.get(name, name)


@pytest.fixture(autouse=True)
def device() -> Iterator[jax.Device]:
  """Runs a test on the first device, with full float32 products, which GPUs and TPUs round otherwise."""
  first = jax.devices()[0]
  assert first.platform == _wanted_platform(), f"asked for {os.environ.get('JAX_PLATFORMS')}, got {first}"
  with jax.default_matmul_precision("highest"):
    yield first


@pytest.fixture(scope="module")
def model() -> SavedModel:
  return load(_DATA / "model")


def _of(name: str, kind: str) -> dict[str, np.ndarray]:
  prefix = f"{name}/{kind}/"
  return {key.removeprefix(prefix): value for key, value in _GOLDENS.items() if key.startswith(prefix)}


def _check(found: dict[str, jax.Array], name: str, kind: str, device: jax.Device) -> None:
  expected = _of(name, kind)
  assert found.keys() >= expected.keys()
  for key, value in expected.items():
    assert found[key].devices() == {device}
    rtol, of_largest = _TOLERANCE if value.dtype.kind in "fc" else (0.0, 0.0)
    of_largest = _NARROW_TOLERANCE.get(f"{name}/{kind}/{key}", of_largest)
    largest = np.abs(value).max(initial=0) if value.dtype.kind in "fc" else 0
    np.testing.assert_allclose(
      found[key], value, rtol, of_largest * largest, err_msg=f"{name} {kind} {key} on {device}"
    )


def _weighted_sum(outputs: dict[str, jax.Array]) -> jax.Array:
  """The function that the goldens' gradients are of."""
  flat = [y.astype(jnp.float32).ravel() for y in outputs.values() if jnp.issubdtype(y.dtype, jnp.floating)]
  return sum((y * jnp.cos(jnp.arange(y.size, dtype=jnp.float32))).sum() for y in flat)


@pytest.mark.parametrize("name", _MODEL_SIGNATURES)
def test_signatures_compute_what_tensorflow_computes(model, name, device):
  fn, params = model.convert(name)
  outputs, _ = jax.jit(fn)(params, **_of(name, "input"))
  _check(outputs, name, "output", device)


@pytest.mark.parametrize("name", _WITH_GRADIENT)
def test_gradients_are_those_of_tensorflow(model, name, device):
  fn, params = model.convert(name)
  inputs = _of(name, "input")
  wanted = list(_of(name, "gradient"))

  @jax.jit
  def gradients(values):
    return jax.grad(lambda values: _weighted_sum(fn(params, **(inputs | values))[0]))(values)

  _check(gradients({key: inputs[key] for key in wanted}), name, "gradient", device)


@pytest.mark.parametrize("wrapper", [lift, embed])
def test_a_stablehlo_module_computes_what_tensorflow_computes(wrapper, device):
  function = wrapper(Module.from_bytes((_DATA / "module.mlirbc").read_bytes()))
  inputs = _of("stablehlo", "input")
  outputs = jax.jit(function)(inputs["0"], inputs["1"])
  _check({str(i): y for i, y in enumerate(outputs)}, "stablehlo", "output", device)


def test_a_saved_function_computes_the_same_after_reading(tmp_path, device):
  weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), np.float32)
  save(tmp_path / "m", (lambda params, x: jnp.tanh(x @ params["w"]), rows), {"w": jnp.asarray(weights)})
  serve, params = load(tmp_path / "m").convert("serving_default")
  x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
  (found,) = jax.jit(serve)(params, x=x)[0].values()
  assert found.devices() == {device}
  np.testing.assert_allclose(found, np.tanh(x @ weights), rtol=1e-5)
