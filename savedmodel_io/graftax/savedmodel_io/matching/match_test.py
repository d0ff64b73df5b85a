"""`match` against parameters that were placed by hand, and `check` against placements that are wrong."""

import dataclasses
import pickle

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from graftax.savedmodel_io import Recipe, match, rename
from graftax.savedmodel_io.errors import MatchError

_RNG = np.random.default_rng(0)


def _random(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _names(matching):
  return {new: placement.recipe.names for new, placement in matching.placed.items()}


# --- by names


def test_numbers_in_names_are_counted_and_not_sorted_as_text():
  params = {f"block_{k}/kernel": _random(3, 5) for k in range(11)}
  target = {"layers": {str(k + 1): {"w": np.zeros((5, 3))} for k in range(11)}}
  matching = match(params, target)
  assert matching.is_complete
  assert _names(matching)["layers/11/w"] == ("block_10/kernel",)
  placed = matching.apply()
  for k in range(11):
    np.testing.assert_array_equal(placed["layers"][str(k + 1)]["w"], params[f"block_{k}/kernel"].T)


def test_a_square_kernel_is_ambiguous_unless_others_of_its_name_tell_the_layout():
  square = {"a/kernel": _random(4, 4), "a/bias": _random(4)}
  alone = match(square, {"x": {"weight": np.zeros((4, 4)), "bias": np.zeros(4)}})
  assert list(alone.ambiguous) == ["x/weight"]
  assert [option.before for option in alone.ambiguous["x/weight"].options] == [(), (("transpose", (1, 0)),)]
  with pytest.raises(MatchError, match="1 parameters of the target have no value, such as 'x/weight'"):
    alone.apply()
  np.testing.assert_array_equal(alone.choose("x/weight", 1).apply()["x"]["weight"], square["a/kernel"].T)
  target = {"x": {"weight": np.zeros((4, 4)), "bias": np.zeros(4)}, "y": {"weight": np.zeros((2, 4))}}
  both = match({**square, "b/kernel": _random(4, 2)}, target)
  assert both.is_complete
  np.testing.assert_array_equal(both.apply()["x"]["weight"], square["a/kernel"].T)


def test_equal_shapes_with_names_that_say_nothing_are_ambiguous():
  params = {"first/kernel": _random(3, 5), "second/kernel": _random(3, 5)}
  matching = match(params, {"alpha": {"w": np.zeros((3, 5))}, "omega": {"w": np.zeros((3, 5))}})
  assert not matching.placed
  assert {name: len(way.options) for name, way in matching.ambiguous.items()} == {"alpha/w": 2, "omega/w": 2}
  assert matching.unused == ("first/kernel", "second/kernel")
  decided = match(
    params, {"alpha": {"w": np.zeros((3, 5))}, "omega": {"w": np.zeros((3, 5))}}, table={"second/kernel": "alpha/w"}
  )
  assert _names(decided)["alpha/w"] == ("second/kernel",)


def test_what_has_no_place_is_reported():
  params = {"d/kernel": _random(3, 5), "d/bias": _random(5), "left/over": _random(7)}
  matching = match(params, {"d": {"kernel": np.zeros((3, 5))}, "more": np.zeros(9), "steps": np.zeros(3, np.int32)})
  assert (matching.missing, matching.unused, matching.kept) == (("more",), ("d/bias", "left/over"), ("steps",))
  assert str(matching).splitlines() == [
    "1 of 2 parameters of the target placed",
    "  d/kernel -> d/kernel (names)",
    "1 without a value: more",
    "2 not used: d/bias, left/over",
    "1 kept: steps",
  ]
  placed = matching.apply(partial=True)
  np.testing.assert_array_equal(placed["more"], np.zeros(9))
  assert placed["steps"].dtype == np.int32


def test_the_table_is_what_rename_takes():
  params = {"dense/kernel": _random(3, 5), "dense/bias": _random(5)}
  target = {"fc": {"kernel": np.zeros((3, 5)), "bias": np.zeros(5)}}
  renamed, report = rename(params, match(params, target).table, target)
  assert report.is_complete
  np.testing.assert_array_equal(renamed["fc/kernel"], params["dense/kernel"])


def test_layouts_of_convolutions_and_heads():
  params = {
    "conv/kernel": _random(3, 3, 4, 8),
    "dw/depthwise_kernel": _random(3, 3, 8, 2),
    "mha/query/kernel": _random(8, 2, 3),
    "mha/attention_output/kernel": _random(2, 3, 8),
  }
  target = {
    "conv": {"weight": np.zeros((8, 4, 3, 3))},
    "depthwise": {"weight": np.zeros((16, 1, 3, 3))},
    "attn": {"q": {"weight": np.zeros((6, 8))}, "out": {"weight": np.zeros((8, 6))}},
  }
  placed = match(params, target).apply()
  x = _random(1, 6, 6, 4)
  same = jax.lax.conv_general_dilated(
    x, params["conv/kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
  )
  other = jax.lax.conv_general_dilated(
    x, placed["conv"]["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC")
  )
  np.testing.assert_allclose(other, same, rtol=1e-5, atol=1e-5)
  # TensorFlow's output channel 2 * c + m is channel c by [..., c, m].
  np.testing.assert_array_equal(placed["depthwise"]["weight"][5, 0], params["dw/depthwise_kernel"][:, :, 2, 1])
  np.testing.assert_array_equal(placed["attn"]["q"]["weight"], params["mha/query/kernel"].reshape(8, 6).T)
  np.testing.assert_array_equal(placed["attn"]["out"]["weight"], params["mha/attention_output/kernel"].reshape(6, 8).T)


# --- by both functions


def _gated(params, x):
  for k in range(2):
    gate, up = x @ params[f"block_{k}/gate/kernel"], x @ params[f"block_{k}/up/kernel"]
    x = x + (jax.nn.silu(gate) * up) @ params[f"block_{k}/down/kernel"]
  return x


def _other_gated(tree, x):
  for layer in tree["layers"]:
    second = layer["one"] @ x.T  # first the one that TensorFlow's side uses last
    first = layer["two"] @ x.T
    x = x + (layer["six"] @ (jax.nn.silu(first) * second)).T
  return x


_GATED = {f"block_{k}/{name}/kernel": _random(6, 6) for k in range(2) for name in ("gate", "up", "down")}
_GATED_TARGET = {"layers": [{name: np.zeros((6, 6), np.float32) for name in ("one", "two", "six")} for _ in range(2)]}


def test_a_run_decides_transposes_and_which_of_two_parallel_layers_is_which():
  x = _random(3, 6)
  matching = match(_GATED, _GATED_TARGET, fn=_gated, target_fn=_other_gated, args=(x,))
  assert matching.is_complete, str(matching)
  assert _names(matching)["layers/1/one"] == ("block_1/up/kernel",)
  assert all("run" in placement.evidence for placement in matching.placed.values())
  assert matching.check(_gated, _other_gated, x).is_equal
  np.testing.assert_allclose(_other_gated(matching.apply(), x), _gated(_GATED, x), rtol=1e-4, atol=1e-4)


def test_parallel_layers_stay_ambiguous_if_no_run_can_tell():
  def differs(tree, x):
    return jnp.tanh(_other_gated(tree, 2 * x))

  matching = match(_GATED, _GATED_TARGET, fn=_gated, target_fn=differs, args=(_random(3, 6),))
  assert {"layers/0/one", "layers/0/two"} <= matching.ambiguous.keys()


@pytest.mark.parametrize("by_heads", [False, True])
def test_fused_projections_are_tried_in_both_orders(by_heads):
  heads, size = 2, 3
  names = ("query", "key", "value")
  params = {f"mha/{name}/kernel": _random(4, heads, size) for name in names}
  params |= {f"mha/{name}/bias": _random(heads, size) for name in names}
  params["mha/out/kernel"] = _random(heads, size, 4)

  def attend(q, k, v):
    return jnp.einsum("hts,shd->thd", jax.nn.softmax(jnp.einsum("thd,shd->hts", q, k)), v)

  def fn(params, x):
    parts = [jnp.einsum("td,dhk->thk", x, params[f"mha/{n}/kernel"]) + params[f"mha/{n}/bias"] for n in names]
    return jnp.einsum("thk,hkd->td", attend(*parts), params["mha/out/kernel"])

  def target_fn(tree, x):
    y = x @ tree["qkv"]["kernel"] + tree["qkv"]["bias"]
    y = y.reshape(-1, heads, 3, size).swapaxes(1, 2) if by_heads else y.reshape(-1, 3, heads, size)
    return attend(*y.swapaxes(0, 1)).reshape(-1, heads * size) @ tree["out"]["kernel"]

  target = {"qkv": {"kernel": np.zeros((4, 18)), "bias": np.zeros(18)}, "out": {"kernel": np.zeros((6, 4))}}
  assert set(match(params, target).ambiguous) == {"qkv/kernel", "qkv/bias"}
  x = _random(5, 4)
  matching = match(params, target, fn=fn, target_fn=target_fn, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(target_fn(matching.apply(), x), fn(params, x), rtol=1e-4, atol=1e-5)


def _norms(params, x):
  for k in range(3):
    x = jnp.tanh(x @ params[f"dense_{k}/kernel"] + params[f"dense_{k}/bias"])
  return x


def _other_norms(tree, x):
  for k in range(3):
    x = jnp.tanh(tree[f"l{k}"]["bias"] + x @ tree[f"l{k}"]["kernel"])
  return x


def test_check_says_after_which_layer_two_models_differ_first():
  params = {f"dense_{k}/kernel": _random(4, 4) for k in range(3)} | {f"dense_{k}/bias": np.zeros(4) for k in range(3)}
  target = {f"l{k}": {"kernel": np.zeros((4, 4)), "bias": np.zeros(4)} for k in range(3)}
  x = _random(3, 4)
  matching = match(params, target, fn=_norms, target_fn=_other_norms, args=(x,))
  assert matching.check(_norms, _other_norms, x).is_equal
  # The biases are all 0, so only parameters with noise tell that two of them are in the wrong place.
  placed = {**matching.placed, "l1/bias": matching.placed["l2/bias"], "l2/bias": matching.placed["l1/bias"]}
  wrong = dataclasses.replace(matching, placed=placed)
  assert wrong.check(_norms, _other_norms, x, perturb=False).is_equal
  comparison = wrong.check(_norms, _other_norms, x)
  assert not comparison.is_equal
  assert comparison.first is not None and comparison.first.target == "l1" and comparison.first.difference > 1e-3
  assert str(comparison).splitlines()[1].startswith("first after l1 (of dense_1): ")

  def changed(tree, x):
    return _other_norms({**tree, "l2": {**tree["l2"], "bias": tree["l2"]["bias"] + 1}}, x)

  assert matching.check(_norms, changed, x).first.target == "l2"


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_run_that_cannot_tell_is_no_evidence(tokens):
  def fn(params, x):
    return jax.nn.softmax((x @ params["aa/kernel"]) @ (x @ params["bb/kernel"]).T) @ (x @ params["vv/kernel"])

  def target_fn(tree, x):
    second = x @ tree["foo"]["kernel"]
    return jax.nn.softmax((x @ tree["bar"]["kernel"]) @ second.T) @ (x @ tree["baz"]["kernel"])

  params = {f"{name}/kernel": _random(4, 4) for name in ("aa", "bb", "vv")}
  target = {name: {"kernel": _random(4, 4)} for name in ("foo", "bar", "baz")}
  # The softmax of one token is 1, whatever the query and the key are.
  matching = match(params, target, fn=fn, target_fn=target_fn, args=(_random(tokens, 4),))
  if tokens == 1:
    assert {"foo/kernel", "bar/kernel"} <= matching.ambiguous.keys()
  else:
    assert matching.is_complete, str(matching)
    assert _names(matching)["bar/kernel"] == ("aa/kernel",)


def _attend_with_merged_heads(query, key, value):
  scores = jax.nn.softmax(jnp.einsum("nhd,mhd->hnm", query, key))
  return jnp.einsum("hnm,mhd->nhd", scores, value).reshape(-1, 8)


_PROJECTIONS = ("query", "key", "value")


def _fused_by_heads(tree, x):
  y = (x @ tree["qkv"]["kernel"]).reshape(-1, 2, 3, 4)
  return _attend_with_merged_heads(*y.transpose(2, 0, 1, 3)) @ tree["out"]["kernel"]


def _apart(tree, x):
  parts = [(x @ tree[name]["kernel"]).reshape(-1, 2, 4) for name in _PROJECTIONS]
  return _attend_with_merged_heads(*parts) @ tree["out"]["kernel"]


_APART = {name: {"kernel": _random(8, 8)} for name in _PROJECTIONS} | {"out": {"kernel": _random(8, 6)}}
_TOGETHER = {"qkv": {"kernel": _random(8, 24)}, "out": {"kernel": _random(8, 6)}}


def _flat(tree):
  return {f"{name}/kernel": layer["kernel"] for name, layer in tree.items()}


def _of_flat(function):
  return lambda params, x: function({name.split("/")[0]: {"kernel": value} for name, value in params.items()}, x)


def test_merged_heads_go_into_a_fused_kernel_by_a_run_alone():
  assert "qkv/kernel" in match(_flat(_APART), _TOGETHER).ambiguous
  x = _random(5, 8)
  matching = match(_flat(_APART), _TOGETHER, fn=_of_flat(_apart), target_fn=_fused_by_heads, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(_fused_by_heads(matching.apply(), x), _apart(_APART, x), rtol=1e-4, atol=1e-5)


def test_a_fused_kernel_is_taken_apart_by_a_run_alone():
  params = _flat(_TOGETHER) | {"qkv/bias": _random(24)}
  target = {**_APART, **{name: {**_APART[name], "bias": _random(8)} for name in _PROJECTIONS}}
  names = {f"{name}/{kind}" for name in _PROJECTIONS for kind in ("kernel", "bias")}
  assert names <= match(params, target).ambiguous.keys()
  x = _random(5, 8)
  matching = match(_flat(_TOGETHER), _APART, fn=_of_flat(_fused_by_heads), target_fn=_apart, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(_apart(matching.apply(), x), _fused_by_heads(_TOGETHER, x), rtol=1e-4, atol=1e-5)


def test_placements_that_a_run_contradicts_are_not_complete():
  params = {f"dense_{k}/kernel": _random(4, 4) for k in (1, 2)} | {"o/kernel": _random(4, 3)}

  def apply(activation):
    def fn(tree, x):
      x = activation(activation(x @ tree["dense_1/kernel"]) @ tree["dense_2/kernel"])
      return x @ tree["o/kernel"]

    return fn

  args = (_random(3, 4),)
  assert match(params, params, fn=apply(jnp.tanh), target_fn=apply(jnp.tanh), args=args).is_complete
  matching = match(params, params, fn=apply(jnp.tanh), target_fn=apply(jax.nn.relu), args=args)
  assert not matching.is_complete
  assert set(matching.contradicted) == matching.placed.keys()
  assert "3 placed, but a run gives other outputs: " in str(matching)


@pytest.mark.parametrize("order", ["uvw", "vwu", "wvu"])
def test_three_parallel_layers_in_any_order_are_told_apart_by_a_run(order):
  params = {f"{name}/kernel": _random(4, 4) for name in ("aa", "bb", "cc", "dd")}
  target = {name: np.zeros((4, 4)) for name in "uvwz"}

  def fn(params, x):
    gated = jax.nn.silu(x @ params["aa/kernel"]) * (x @ params["bb/kernel"]) * jnp.tanh(x @ params["cc/kernel"])
    return gated @ params["dd/kernel"]

  def target_fn(tree, x):
    one, other, third = (x @ tree[name] for name in order)
    return (jnp.tanh(one) * jax.nn.silu(other) * third) @ tree["z"]

  matching = match(params, target, fn=fn, target_fn=target_fn, args=(_random(5, 4),))
  assert matching.is_complete, str(matching)
  assert [_names(matching)[name][0] for name in order] == ["cc/kernel", "aa/kernel", "bb/kernel"]


# --- models of libraries


def test_a_module_of_nnx_with_batch_normalization():
  class Block(nnx.Module):
    def __init__(self, rngs):
      self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
      self.norm = nnx.BatchNorm(4, use_running_average=True, rngs=rngs)
      self.drop = nnx.Dropout(0.5, rngs=rngs)

  params = {
    "c/kernel": _random(3, 3, 3, 4), "c/bias": _random(4), "bn/gamma": _random(4), "bn/beta": _random(4),
    "bn/moving_mean": _random(4), "bn/moving_variance": np.ones(4, np.float32),
  }  # fmt: skip
  matching = match(params, Block(nnx.Rngs(0)))
  assert matching.is_complete, str(matching)
  assert matching.kept  # keys and counts of the dropout
  module = matching.apply()
  assert isinstance(module, Block)
  np.testing.assert_array_equal(module.norm.mean[...], params["bn/moving_mean"])


def test_parameters_and_state_of_haiku():
  def forward(x, train):
    return hk.BatchNorm(True, True, 0.9)(hk.Linear(4)(x), is_training=train)

  x = _random(2, 3)
  network = hk.transform_with_state(forward)
  params = {"d/kernel": _random(3, 4), "d/bias": _random(4), "n/gamma": _random(4), "n/beta": _random(4)}
  params |= {"n/moving_mean": _random(4), "n/moving_variance": np.ones(4, np.float32)}
  matching = match(params, network.init(jax.random.key(0), x, True))
  assert matching.is_complete, str(matching)
  outputs, _ = network.apply(*matching.apply(), None, x, False)
  normal = (x @ params["d/kernel"] + params["d/bias"] - params["n/moving_mean"]) / np.sqrt(1 + 1e-5)
  np.testing.assert_allclose(outputs, normal * params["n/gamma"] + params["n/beta"], rtol=1e-4, atol=1e-5)


def test_a_module_of_equinox_and_its_state():
  class Net(eqx.Module):
    dense: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self):
      self.dense = eqx.nn.Linear(3, 4, key=jax.random.key(0))
      self.norm = eqx.nn.BatchNorm(4, "batch", mode="ema")

  params = {"d/kernel": _random(3, 4), "d/bias": _random(4), "n/gamma": _random(4), "n/beta": _random(4)}
  params |= {"n/moving_mean": _random(4), "n/moving_variance": np.ones(4, np.float32)}
  matching = match(params, eqx.nn.make_with_state(Net)())
  assert matching.is_complete, str(matching)
  module, state = matching.apply()
  np.testing.assert_array_equal(module.dense.weight, params["d/kernel"].T)
  mean, variance = state.get(module.norm.ema_state_index)
  np.testing.assert_array_equal((mean, variance), (params["n/moving_mean"], params["n/moving_variance"]))


# --- errors


def test_errors_are_typed():
  with pytest.raises(MatchError, match="the target, a dict, has no arrays of floating-point numbers"):
    match({"a": _random(1)}, {"n": np.zeros(2, np.int32)})
  with pytest.raises(MatchError, match="only one of fn and target_fn is given"):
    match({"a": _random(1)}, {"n": np.zeros(1)}, fn=_norms)
  matching = match({"a/kernel": _random(2, 3)}, {"a": {"kernel": np.zeros((2, 3))}})
  with pytest.raises(MatchError, match="params lacks 'a/kernel'"):
    matching.apply({})
  with pytest.raises(MatchError, match="'a/kernel' with option 0: expected one of none, nothing is ambiguous"):
    matching.choose("a/kernel", 0)
  with pytest.raises(MatchError, match="the target has no parameter 'b'"):
    matching.target_shape("b")
  assert isinstance(pickle.loads(pickle.dumps(MatchError("x"))), MatchError)


@pytest.mark.parametrize(
  ("table", "message"),
  [
    ({"nope": "d/weight"}, "no parameter has the name of the row 'nope' of table"),
    ({"d/kernel": "d/wait"}, "maps 'd/kernel' to 'd/wait', which is not a parameter .* such as 'd/weight'"),
    ({"d/kernel": "d/weight"}, r"maps 'd/kernel' of shape \(4, 5\) to 'd/weight' of shape \(3, 4\)"),
    ({"step": "d/weight"}, "maps 'step' to 'd/weight', but match places arrays of floating-point numbers alone"),
  ],
)
def test_rows_of_the_table_that_fit_nothing_are_refused(table, message):
  params = {"d/kernel": _random(4, 5), "step": np.zeros((3, 4), np.int32)}
  with pytest.raises(MatchError, match=message):
    match(params, {"d": {"weight": np.zeros((3, 4))}}, table=table)


def test_a_row_of_the_table_for_a_target_of_counters_is_refused():
  with pytest.raises(MatchError, match="'d/wait', which is not a parameter .* has no parameters that are learned"):
    match({"d/kernel": _random(4, 5)}, {"count": np.zeros(3)}, table={"d/kernel": "d/wait"})


def test_a_row_of_the_table_is_for_a_whole_kernel():
  parts = ("query", "key", "value")
  target = {name: {"kernel": np.zeros((4, 4))} for name in parts}
  with pytest.raises(MatchError, match=r"of shape \(4, 12\) to 'query/kernel' of shape \(4, 4\)"):
    match({"qkv/kernel": _random(4, 12)}, target, table={"qkv/kernel": "query/kernel"})
  params = {f"{name}/kernel": _random(4, 4) for name in parts}
  together = {"qkv": {"kernel": np.zeros((4, 12))}}
  assert not match(params, together, table={"key/kernel": None}).placed


@pytest.mark.parametrize("shape", [(5, 4), (20,), (40, 5)])
def test_parameters_of_another_shape_than_those_matched_are_refused(shape):
  matching = match({"d/kernel": _random(4, 5)}, {"d": {"weight": np.zeros((5, 4))}})
  with pytest.raises(MatchError, match="'d/kernel' has shape"):
    matching.apply({"d/kernel": _random(*shape)})


@pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
def test_numbers_that_are_too_large_for_the_target_are_refused(as_array):
  matching = match({"d/kernel": _random(4, 5)}, {"d": {"weight": np.zeros((5, 4), np.float16)}})
  kernel = np.full((4, 5), 65504, np.float32)
  kernel[0, 1], kernel[0, 2] = -np.inf, np.nan  # these are what they were
  placed = matching.apply({"d/kernel": as_array(kernel)})
  np.testing.assert_array_equal(placed["d"]["weight"], kernel.T.astype(np.float16))
  traced = jax.jit(matching.apply)({"d/kernel": kernel})  # whose numbers are not looked at
  np.testing.assert_array_equal(traced["d"]["weight"], kernel.T.astype(np.float16))
  kernel[0, 0] = 65536
  with pytest.raises(
    MatchError, match=r"'d/weight' .* float16, .* 65504; 1 of the 20 numbers of d/kernel \| transpose"
  ):
    matching.apply({"d/kernel": as_array(kernel)})
  wide = match({"d/kernel": kernel}, {"d": {"weight": jax.ShapeDtypeStruct((5, 4), jnp.bfloat16)}})
  assert np.asarray(wide.apply()["d"]["weight"], np.float32)[0, 0] == 65536


def test_arrays_of_the_same_name_are_refused():
  twice = {"x/y": {"kernel": np.zeros((4, 5))}, "x": {"y": {"kernel": np.zeros((4, 5))}}}
  with pytest.raises(MatchError, match="2 arrays of the name 'x/y/kernel'"):
    match({"x/y/kernel": _random(4, 5)}, twice)


def test_recipes_are_readable():
  recipe = Recipe(("q", "k"), (("reshape", (4, 6)),), 1, (("transpose", (1, 0)),))
  assert str(recipe) == "q + k | reshape(4, 6) | concatenate(1) | transpose(1, 0)"
  made = recipe.make({"q": np.arange(24.0).reshape(4, 2, 3), "k": np.zeros((4, 2, 3))})
  np.testing.assert_array_equal(made[:6], np.arange(24.0).reshape(4, 6).T)


def test_the_first_layer_that_differs_is_named_though_the_next_one_cannot_be_compared():
  rng = np.random.default_rng(0)
  shapes = {"a/kernel": (4, 5), "b/kernel": (5, 6), "c/kernel": (6, 3)}
  params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
  target = {name[0]: {"kernel": np.zeros(shape, np.float32)} for name, shape in shapes.items()}

  def fn(params, x):
    return jnp.tanh(jnp.tanh(x @ params["a/kernel"]) @ params["b/kernel"]) @ params["c/kernel"]

  def target_fn(target, x):
    y = jnp.tanh(1.1 * x @ target["a"]["kernel"])
    # What comes out of this product has another size.
    y = jnp.concatenate([y, y]) @ target["b"]["kernel"]
    return jnp.tanh(y[: len(x)]) @ target["c"]["kernel"]

  x = rng.normal(size=(2, 4)).astype(np.float32)
  found = match(params, target).check(fn, target_fn, x, perturb=False)
  assert not found.is_equal and found.first is not None and found.first.target == "a" and not found.alone
  assert [layer.difference is None for layer in found.layers] == [False, True, False]
