import jax
import pytest

from graftax.convert.jax2tf.tf_ops.symbols import SizeSource, constraints, size_checks, size_sources


def _shapes(*texts, constraints=()):
  scope = jax.export.SymbolicScope(constraints)
  return [jax.export.symbolic_shape(text, scope=scope) for text in texts]


@pytest.mark.parametrize(
  ("texts", "sources"),
  [
    (["n, 3"], {"n": SizeSource(0, 0)}),
    (["2*n", "n"], {"n": SizeSource(1, 0)}),
    (["2*n + 1"], {"n": SizeSource(0, 0, 2, 1)}),
    (["n - 1"], {"n": SizeSource(0, 0, 1, -1)}),
    (["a + 2*b", "b, a*b"], {"b": SizeSource(1, 0), "a": SizeSource(0, 0, 1, 0, {"b": 2})}),
    (["10 - 2*n"], {"n": SizeSource(0, 0, -2, 10)}),
    (["in, größe"], {"in": SizeSource(0, 0), "größe": SizeSource(0, 1)}),  # a keyword of Python
    (["a*b"], {}),
    (["a + b"], {}),
    (["floordiv(a, 2)", "a + 3"], {"a": SizeSource(1, 0, 1, 3)}),
  ],
)
def test_a_size_is_read_where_it_is_the_only_one_that_is_not_known(texts, sources):
  assert size_sources(_shapes(*texts)) == sources


def test_what_is_checked_is_what_does_not_follow_from_reading():
  shapes = _shapes("n, 2*n", "n, 4", constraints=["n >= 4", "mod(n, 2) == 0"])
  texts = [check.text for check in size_checks(shapes, ["x", "y"], size_sources(shapes))]
  assert texts[:3] == ["n >= 1", "x.shape[1] == 2*n", "y.shape[0] == n"]
  assert set(texts[3:]) >= {"n >= 4", "mod(n, 2) == 0"}


def test_constraints_are_read_from_what_jax_says_of_a_scope():
  assert not constraints(jax.export.SymbolicScope())
  given = ["a >= 4", "b <= 2*a"]
  assert constraints(jax.export.SymbolicScope(given)) == given
