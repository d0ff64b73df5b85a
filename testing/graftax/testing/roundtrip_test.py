"""Tests every case of `roundtrip_cases` through `jax.export` and back: values, batching and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.testing.roundtrip_cases import CASES, Case, arguments
from graftax.xla_call_module import Module, lift

_TOLERANCE = {"value": 2e-5, "vmap": 4e-5, "jvp": 2e-4, "grad": 2e-4, "vmap of grad": 4e-4, "second order": 1e-3}


def _lifted(case: Case):
  specs = [jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype) for a in arguments(case)]
  return lift(Module.from_exported(jax.export.export(jax.jit(case.function))(*specs)), gradient="primal")


def _everything(case: Case, function, args):
  """Returns one jitted function that computes everything to compare, so that a case needs one compilation per side."""
  inexact = [i for i, a in enumerate(args) if np.asarray(a).dtype == np.float32]
  moving = [args[i] for i in inexact]
  tangents = [np.cos(x * 3 + 1).astype(np.float32) for x in moving]

  def full(args, *values):
    merged = list(args)
    for i, value in zip(inexact, values, strict=True):
      merged[i] = value
    return function(*merged)

  weights = [np.random.default_rng(1).normal(size=out.shape) for out in jax.eval_shape(function, *args)]

  def run(args, moving):
    def total(*values):
      outs = zip(full(args, *values), weights, strict=True)
      return sum((jnp.real(o) * w.astype(np.float32)).sum() for o, w in outs if jnp.issubdtype(o.dtype, jnp.inexact))

    def along(*values):
      return sum((a * t).sum() for a, t in zip(jax.grad(total, positions)(*values), tangents, strict=True))

    positions = tuple(range(len(moving)))
    found = {"value": function(*args)}
    batches = [jnp.stack([x, x * 0.9]) for x in moving]
    if moving and case.batches:
      found["vmap"] = jax.vmap(lambda *values: full(args, *values))(*batches)
    if moving and case.order:
      found["jvp"] = jax.jvp(total, moving, tangents)
      found["grad"] = jax.grad(total, positions)(*moving)
      found["vmap of grad"] = jax.vmap(jax.grad(total, positions))(*batches)
    if moving and case.order > 1:
      found["second order"] = jax.grad(along, positions)(*moving)
    return found

  return jax.jit(run)(args, moving)


# Each case compiles both sides with all derivatives, so every fourth has to do for a quick run.
_MARKED_CASES = [
  pytest.param(case, id=case.name, marks=() if index % 4 == 0 else pytest.mark.slow) for index, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", _MARKED_CASES)
def test_exported_function_comes_back_with_every_transformation(case):
  args = arguments(case)

  def reference(*a):
    return tuple(jax.tree.leaves(case.function(*a)))

  got, want = _everything(case, _lifted(case), args), _everything(case, reference, args)
  assert got.keys() == want.keys()
  for what, expected in want.items():
    tolerance = _TOLERANCE[what] * case.loose
    for a, b in zip(jax.tree.leaves(got[what]), jax.tree.leaves(expected), strict=True):
      assert a.shape == b.shape and a.dtype == b.dtype, what
      kind = np.complex128 if a.dtype.kind == "c" else np.float64
      np.testing.assert_allclose(
        np.asarray(a).astype(kind), np.asarray(b).astype(kind), tolerance, tolerance, err_msg=what
      )


def test_there_are_at_least_80_cases():
  assert len({case.name for case in CASES}) >= 80


def _cost(function, args):
  compiled = jax.jit(function).lower(*args).compile()
  text = compiled.as_text()
  return text.count(" = "), (compiled.cost_analysis() or {}).get("flops", 0.0)


# On a CPU, these are lifted in another form, which is faster and has more instructions.
_OTHER_FORMS = ("depthwise_conv",)


@pytest.mark.slow
def test_compiled_code_costs_what_the_original_costs():
  same, above = [], []
  for case in CASES:
    args = arguments(case)
    lifted, original = _cost(_lifted(case), args), _cost(case.function, args)
    if lifted == original:
      same.append(case.name)
    if case.name in _OTHER_FORMS:
      assert lifted[1] <= original[1]
    elif any(ours > 1.05 * theirs for ours, theirs in zip(lifted, original, strict=True)):
      above.append((case.name, lifted, original))
  assert above == []
  assert len(same) >= 0.9 * len(CASES)


@pytest.mark.parametrize(
  "transform", [jax.jit, jax.checkpoint, jax.jacfwd, jax.jacrev, jax.hessian], ids=lambda t: t.__name__
)
def test_other_transformations_apply(transform):
  case = next(case for case in CASES if case.name == "tanh_sigmoid")
  (x,) = arguments(case)
  got, want = (jax.jit(transform(lambda x, f=f: f(x)))(x) for f in (lambda x: _lifted(case)(x)[0], case.function))
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_train_step_of_flax_and_optax_comes_back():
  nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")

  class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
      x = nn.LayerNorm()(nn.relu(nn.Conv(4, (3, 3))(x)))
      x = nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
      return nn.Dense(3)(x)

  net, optimizer = Net(), optax.adamw(1e-2)
  x = np.random.default_rng(0).normal(size=(2, 6, 6, 1)).astype(np.float32)
  labels = np.array([0, 2], np.int32)
  params = net.init(jax.random.key(0), x)
  leaves, tree = jax.tree.flatten((params, optimizer.init(params)))

  def step(leaves, x, labels):
    params, state = jax.tree.unflatten(tree, leaves)

    def loss(p):
      return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, x), labels).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradient, state, params)
    return jax.tree.leaves((optax.apply_updates(params, updates), state)), value

  exported = jax.export.export(jax.jit(step))(leaves, x, labels)
  lifted = lift(Module.from_exported(exported), gradient="primal")
  got = lifted(*leaves, x, labels)
  want = jax.tree.leaves(jax.jit(step)(leaves, x, labels))
  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
  batched = jax.vmap(lambda x: lifted(*leaves, x, labels)[-1])(np.stack([x, x + 1]))
  np.testing.assert_allclose(batched[0], want[-1], rtol=1e-5)
