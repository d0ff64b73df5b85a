"""Symbolic shapes of arguments, without TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.convert import ConversionError, jax2tf, jax_program
from graftax.convert.jax2tf.live.arguments import ArgumentSpec
from graftax.convert.jax2tf.polymorphic_shapes import symbolic_specs

A, B = jax.ShapeDtypeStruct((2, 3), np.float32), jax.ShapeDtypeStruct((3, 4), np.float32)


def shapes(function, args, kwargs, specs, constraints=()):
  args, kwargs = symbolic_specs(function, args, kwargs, specs, constraints)
  return jax.tree.map(lambda spec: str(spec.shape), (args, kwargs))


def test_shapes_of_results_can_be_shapes_of_arguments():
  spec, shape = jax2tf.eval_polymorphic_shape(lambda a, b: {"x": a @ b}, polymorphic_shapes=["a, b", "b, c"])(A, B)
  assert (str(spec["x"].shape), shape) == ("(a, c)", {"x": "(a, c)"})
  _, shape = jax2tf.eval_polymorphic_shape(lambda x: x["x"].T, polymorphic_shapes=[shape])(spec)
  assert shape == "(c, a)"


def test_arguments_are_named_by_a_mapping():
  def function(first, *rest, scale):
    return first, rest, scale

  found = shapes(function, (A, A, B), {"scale": {"x": A}}, {"rest": ["n, _", "_, m"], "scale": "n, ..."})
  assert found == (("(2, 3)", "(n, 3)", "(3, m)"), {"scale": {"x": "(n, 3)"}})
  assert shapes(function, (A, A, A), {"scale": A}, {"rest": "n, ..."})[0] == ("(2, 3)", "(n, 3)", "(n, 3)")
  with pytest.raises(ValueError, match=r"shapes for \['other'\]; the call has the arguments \['first', 'rest', 'scale"):
    shapes(function, (A, A), {"scale": A}, {"other": "n, ..."})
  with pytest.raises(ValueError, match=r"\['rest'\]: got 1 shapes for 2 arguments"):
    shapes(function, (A, A, A), {"scale": A}, {"rest": ["n, ..."]})


def test_names_mean_the_same_in_all_arguments():
  (first,), kwargs = symbolic_specs(lambda a, *, b: a, (A,), {"b": A}, {"a": "n, _", "b": "n, _"}, ["n >= 4"])
  assert first.shape[0] == kwargs["b"].shape[0]
  assert first.shape[0] > 3


def test_keyword_arguments_are_static_without_a_mapping():
  assert shapes(lambda a, *, b: a, (A,), {"b": A}, "n, ...") == (("(n, 3)",), {"b": "(2, 3)"})


@pytest.mark.parametrize(
  ("specs", "constraints", "message"),
  [
    (["b, 4"], (), "different size 4 for known dimension"),
    (["b, )"], (), "expecting one of"),
    ([3], (), "polymorphic shape spec should be None or a string"),
    (["b, ...", None], (), "pytree structure error: different lengths of tuple"),
    (["a, b"], ["a + b"], "Constraint parsing error"),
  ],
)
def test_specifications_that_do_not_fit_raise(specs, constraints, message):
  with pytest.raises(ValueError, match=message):
    shapes(lambda a: a, (A,), {}, specs, constraints)


@pytest.mark.parametrize("specs", [None, "b, ..."])
def test_unknown_sizes_without_a_name_are_said(specs):
  unknown = ArgumentSpec((None, None), np.dtype(np.float32))
  with pytest.raises(ConversionError, match="unexpected placeholder") as raised:
    shapes(lambda a: a, (unknown,), {}, specs)
  assert "unknown sizes: (None, None). Name each of them with polymorphic_shapes" in str(raised.value)


def test_poly_shape_is_a_deprecated_spelling():
  with pytest.warns(DeprecationWarning, match="PolyShape is deprecated"):
    shape = jax2tf.PolyShape("b", ...)
  assert (str(shape), isinstance(shape, tuple)) == ("(b, ...)", True)
  assert shapes(lambda a: a, (A,), {}, [shape]) == (("(b, 3)",), {})
  assert shapes(lambda a, b: a, (A, B), {}, shape)[0] == ("(b, 3)", "(b, 4)")
  with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="Invalid polymorphic shape element: None"):
    jax2tf.PolyShape(None)


@pytest.mark.parametrize(
  ("args", "specs", "want"),
  [
    ((A, None), "n, _", ("(n, 3)", None)),
    ((A, None), ["n, _", None], ("(n, 3)", None)),
    ((None, A), ["m, ...", "n, _"], (None, "(n, 3)")),
    (({"x": A, "mask": None},), ["n, _"], ({"x": "(n, 3)", "mask": None},)),
    (({"x": A, "mask": None},), [{"x": "n, _", "mask": None}], ({"x": "(n, 3)", "mask": None},)),
    (((A, None, [None, B]),), [("n, _", None, [None, None])], (("(n, 3)", None, [None, "(3, 4)"]),)),
  ],
)
def test_none_among_arguments_stays_none(args, specs, want):
  # Before: "zip() argument 2 is shorter than argument 1".
  assert shapes(lambda *args: args, args, {}, specs)[0] == want


def test_symbolic_sizes_of_different_scopes_raise_with_the_arguments_and_what_to_write():
  (a,), (b,) = jax.export.symbolic_shape("n"), jax.export.symbolic_shape("n")
  specs = [jax.ShapeDtypeStruct((dim, 3), np.float32) for dim in (a, b)]
  with pytest.raises(
    ConversionError, match=r"'x' of shape \(n, 3\) and 'y' of shape \(n, 3\) .*symbolic_shape\(\"a, b"
  ):
    jax_program(lambda x, y: x + y, specs)
