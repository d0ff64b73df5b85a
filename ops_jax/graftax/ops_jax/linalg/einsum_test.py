"""Einsum against TensorFlow."""

import re

import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.linalg.einsum import einsum, xla_einsum
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects


def _values(*shape, dtype=np.float64, seed=0):
  values = np.random.default_rng(seed).uniform(-2, 2, shape)
  return (values * (1 + 1j) if np.dtype(dtype).kind == "c" else values).astype(dtype)


_ONE = [
  ("ij->ji", (2, 3)),
  ("ij->i", (2, 3)),
  ("ij->", (2, 3)),
  ("ii->i", (3, 3)),
  ("ii->", (3, 3)),
  ("iij->ij", (3, 3, 2)),
  ("i->ii", (3,)),
  ("ij->jii", (2, 3)),
  ("ij->iijj", (2, 3)),
  ("i->iii", (2,)),
  ("...ij->...ji", (2, 4, 3)),
  ("...ij->...", (2, 4, 3)),
  ("...i->...ii", (2, 3)),
  ("i...->i...i", (2, 3)),
  ("...ii->...i", (2, 3, 3)),
  ("->", ()),
  ("...->...", (2, 3)),
]
_TWO = [
  ("ij,jk->ik", (2, 3), (3, 4)),
  ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
  ("abcd,acde->abe", (2, 3, 4, 5), (2, 4, 5, 6)),
  ("abc,cd->abd", (2, 3, 4), (4, 5)),
  ("abc,cde->abde", (2, 3, 4), (4, 5, 6)),
  ("aecd,abcd->acbe", (2, 3, 4, 5), (2, 6, 4, 5)),
  ("i,j->ij", (3,), (4,)),
  ("i,i->", (3,), (3,)),
  ("i,->i", (3,), ()),
  ("ij,ij->ij", (2, 3), (2, 3)),
  ("ii,j->ij", (3, 3), (2,)),
  ("i,i->ii", (3,), (3,)),
  ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
  ("...ij,jk->...ik", (5, 2, 3), (3, 2)),
  ("ij...,jk...->ik...", (2, 3, 1), (3, 4, 5)),
  ("...i,...i->...", (2, 3), (2, 3)),
  ("...ij,...jk->ik", (2, 3), (3, 2)),
  ("BTNH,BSNH->BNTS", (2, 3, 2, 4), (2, 5, 2, 4)),
  ("ab,bc->c", (2, 3), (3, 4)),
  ("ij,kl->", (2, 3), (2, 3)),
  ("ij,jk->ik", (0, 3), (3, 4)),
  ("ij,jk->ik", (2, 0), (0, 4)),
]


@pytest.mark.parametrize(("equation", "shape"), _ONE)
def test_one_operand(equation, shape):
  check_raw_op("Einsum", [[_values(*shape)]], {"equation": equation}, grad=True)


@pytest.mark.parametrize(("equation", "first", "second"), _TWO)
def test_two_operands(equation, first, second):
  check_raw_op("Einsum", [[_values(*first), _values(*second, seed=1)]], {"equation": equation}, grad=True)


@pytest.mark.parametrize(
  "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.complex64, np.complex128, np.int32, np.int64]
)
def test_dtypes(dtype):
  inputs = [_values(2, 3, 4, dtype=dtype), _values(2, 4, 5, dtype=dtype, seed=1)]
  check_raw_op("Einsum", [inputs], {"equation": "bij,bjk->bik"}, grad=dtype == np.complex128)


@pytest.mark.parametrize(
  ("equation", "shapes"),
  [
    ("ij,jk->ik", [(2, 3), (4, 5)]),
    ("ij,jk->ik", [(2, 1), (3, 5)]),
    ("ij->ji", [(2,)]),
    ("i->i", [(2, 3)]),
  ],
)
def test_equations_that_do_not_fit_raise(equation, shapes):
  check_raw_op_rejects("Einsum", [[_values(*s) for s in shapes]], {"equation": equation}, match=equation)


@pytest.mark.parametrize(
  ("equation", "shapes"),
  [("ij->ik", [(2, 3)]), ("i,i->i", [(2,)]), ("ij", [(2, 3)]), ("...ij,...jk->ik", [(2, 2, 3), (2, 3, 2)])],
)
def test_malformed_equations_raise(equation, shapes):
  with pytest.raises(InvalidInputError, match=re.escape(equation)):
    einsum([_values(*s) for s in shapes], equation=equation)


def test_spaces_are_skipped():
  np.testing.assert_array_equal(einsum([_values(2, 3, dtype=np.float32)], equation="i j -> j i").shape, (3, 2))


def test_xla_einsum_is_einsum():
  a, b = _values(2, 3, dtype=np.float32), _values(3, 4, dtype=np.float32)
  np.testing.assert_allclose(xla_einsum(a, b, equation="ab,bc->ac"), a @ b, rtol=1e-5)
