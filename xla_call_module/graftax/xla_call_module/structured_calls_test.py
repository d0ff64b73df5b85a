import collections
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import ArgumentError, Module, SavedNode, embed, lift, structured

_FOLDER = pathlib.Path(__file__).parent / "testdata" / "exported"
_Pair = collections.namedtuple("_Pair", ["left", "right"])


class _Scaled:
  def __init__(self, value, factor):
    self.value, self.factor = value, factor


jax.tree_util.register_pytree_node(_Scaled, lambda s: ((s.value,), s.factor), lambda factor, c: _Scaled(c[0], factor))


def _stored(name):
  with np.load(_FOLDER / f"{name}.npz") as arrays:
    return [[arrays[f"{kind}_{i}"] for i in range(9) if f"{kind}_{i}" in arrays] for kind in ("input", "output")]


def _run(params, pair, *, scale):
  return {"sum": pair.left.value * scale + params["b"][0], "pair": _Pair(params["w"], (None, [scale]))}


_ARGS = ({"w": np.ones(2, np.float32), "b": [np.float32(1)]}, _Pair(_Scaled(np.arange(2, dtype=np.float32), 3), None))


@pytest.mark.parametrize("make", [lift, embed])
def test_live_export_takes_and_returns_the_classes_of_its_author(make):
  module = Module.from_exported(jax.export.export(jax.jit(_run))(*_ARGS, scale=np.float32(2)))
  for known in (module, pickle.loads(pickle.dumps(module))):
    function = structured(make(known))
    found = function(*_ARGS, scale=2.0)
    assert jax.tree.structure(found) == jax.tree.structure(_run(*_ARGS, scale=2.0))
    np.testing.assert_array_equal(found["sum"], [1, 3])
  gradient = jax.grad(lambda params: function(params, _ARGS[1], scale=2.0)["sum"].sum())(_ARGS[0])
  assert jax.tree.map(float, gradient["b"]) == [2.0]


@pytest.mark.parametrize(
  ("args", "kwargs", "message"),
  [
    (_ARGS, {}, r"argument\[1\]: got a dict with the keys \[\]; the module takes \{'scale': \*\}"),
    (_ARGS[:1], {"scale": 1.0}, r"argument\[0\]: got a tuple of 1; the module takes \("),
    ((_ARGS[0], 1.0), {"scale": 1.0}, r"argument\[0\]\[1\]: got a float"),
    (
      ({**_ARGS[0], "c": 1}, _ARGS[1]),
      {"scale": 1.0},
      r"argument\[0\]\[0\]: got a dict with the keys \[\"'b'\", \"'c'\"",
    ),
    ((_ARGS[0], _Pair(_Scaled(1.0, 4), None)), {"scale": 1.0}, r"argument\[0\]\[1\]\[0\]: got a _Scaled"),
    ((_ARGS[0], _Pair(_ARGS[1].left, 1)), {"scale": 1.0}, r"argument\[0\]\[1\]\[1\]: got a int; the module takes None"),
  ],
)
def test_other_nesting_is_an_error_that_says_where(args, kwargs, message):
  module = Module.from_exported(jax.export.export(jax.jit(_run))(*_ARGS, scale=np.float32(2)))
  with pytest.raises(ArgumentError, match=message):
    structured(lift(module))(*args, **kwargs)


def test_file_with_registered_nodes_is_called_without_their_classes():
  (b, n, w, x, y, unused, scale), (z, a, out, total) = _stored("trees-0.9.2")
  module = Module.from_exported((_FOLDER / "trees-0.9.2.jax").read_bytes(), guard=False)
  point = SavedNode("graftax.test.Point", b'["x", "y"]', (SavedNode("graftax.test.Scaled", b"2.0", (x,)), y))
  found = structured(lift(module))({"w": w, "b": [b, n]}, point, (None, unused), scale=scale)
  assert found["out"].name == "graftax.test.Point" and found["none"] is None
  (inner,) = found["more"]
  assert list(inner) == ["z", "a"]
  np.testing.assert_allclose(found["out"].children[0].children[0], out, rtol=1e-6)
  np.testing.assert_array_equal(inner["z"], z)
  assert (int(inner["a"]), int(found["out"].children[1])) == (int(a), int(total))
  # Classes of the caller: as arguments they only need to be pytrees, for results something has to make them.
  nodes = {
    "graftax.test.Point": lambda aux, children: _Pair(*children),
    "graftax.test.Scaled": lambda aux, children: _Scaled(children[0], float(aux)),
  }
  again = structured(lift(module), nodes=nodes)(
    {"w": w, "b": [b, n]}, _Pair(_Scaled(x, 2.0), y), (None, unused), scale=scale
  )
  assert again["out"].left.factor == 4.0
  np.testing.assert_allclose(again["out"].left.value, out, rtol=1e-6)
  with pytest.raises(ArgumentError, match=r"got a SavedNode; the module takes graftax.test.Point\("):
    structured(lift(module))({"w": w, "b": [b, n]}, SavedNode("other", b"", (1, y)), (None, unused), scale=scale)


def test_random_keys_are_taken_and_returned_as_keys():
  def run(key):
    return jax.random.split(key)[1], jax.random.uniform(key)

  module = Module.from_exported(jax.export.export(jax.jit(run))(jax.eval_shape(lambda: jax.random.key(0))))
  key, drawn = structured(lift(module))(jax.random.key(3))
  assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) and str(module.signature.inputs[0].dtype) == "key<fry>"
  wanted, value = run(jax.random.key(3))
  np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(wanted))
  assert float(drawn) == float(value)


def test_module_without_a_signature_is_named():
  module = Module.from_text("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
  with pytest.raises(ArgumentError, match="has flat arrays only"):
    structured(lift(module))
  with pytest.raises(ArgumentError, match="expected what lift or embed returns"):
    structured(jnp.sin)


def test_embedded_module_of_two_platforms_exports_the_code_of_both():
  def run(x):
    return jax.lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos)

  x = np.arange(3, dtype=np.float32)
  function = embed(
    Module.from_exported(jax.export.export(jax.jit(run), platforms=["cpu", "tpu"])(x)), gradient="primal"
  )
  np.testing.assert_allclose(function(x)[0], np.sin(x), rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(function)(x[None])[0][0], np.sin(x), rtol=1e-6)
  both = Module.from_exported(jax.export.export(jax.jit(function), platforms=["cpu", "tpu"])(x))
  np.testing.assert_allclose(lift(both, platform="cpu")(x)[0], np.sin(x), rtol=1e-6)
  np.testing.assert_allclose(lift(both, platform="tpu")(x)[0], np.cos(x), rtol=1e-6)
