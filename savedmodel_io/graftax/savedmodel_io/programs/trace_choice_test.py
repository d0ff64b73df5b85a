import inspect
from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.convert import (
  ConversionError,
  InputError,
  RaggedTensor,
  SparseTensor,
)
from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io import load
from graftax.savedmodel_io.errors import AmbiguousFunctionError
from graftax.savedmodel_io.objects.function_spec import FunctionSpec
from graftax.savedmodel_io.objects.functions import ConcreteFunction, RestoredFunction
from graftax.savedmodel_io.objects.type_specs import (
  IndexedSlicesSpec,
  OpaqueTypeSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
)
from graftax.savedmodel_io.programs.trace_choice import choose_trace, plain

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"


def _spec(*dims, dtype=DType.FLOAT):
  return TensorSpec(PartialShape(dims), dtype)


def _function(*traces, args=("x", "training"), defaults=(False,), varargs=None):
  spec = FunctionSpec(args, varargs, None, defaults, (), {}, None, None)
  concrete = tuple(ConcreteFunction(f"trace_{i}", trace, {}, None, ()) for i, trace in enumerate(traces))
  return RestoredFunction("call", spec, concrete)


TWO_MODES = _function((_spec(None), True), (_spec(None), False))
X = np.zeros(3, np.float32)


def _chosen(function, *args, **kwargs):
  return choose_trace(function, args, kwargs)[0].name


def test_a_default_that_is_left_out_counts():
  assert _chosen(TWO_MODES, X) == _chosen(TWO_MODES, x=X) == _chosen(TWO_MODES) == "trace_1"


def test_position_and_name_are_the_same():
  assert (
    _chosen(TWO_MODES, X, True)
    == _chosen(TWO_MODES, X, training=True)
    == _chosen(TWO_MODES, training=True)
    == "trace_0"
  )


def test_shapes_and_dtypes_choose():
  function = _function((_spec(2),), (_spec(3),), (_spec(3, dtype=DType.INT32),), args=("x",), defaults=())
  assert _chosen(function, X) == "trace_1"
  assert _chosen(function, jax.ShapeDtypeStruct((3,), np.int32)) == "trace_2"
  assert _chosen(function, _spec(2)) == "trace_0"


def test_python_numbers_take_the_dtype_of_the_trace():
  function = _function((_spec(dtype=DType.BOOL),), (_spec(),), args=("x",), defaults=())
  assert _chosen(function, 3) == _chosen(function, 3.5) == "trace_1"
  assert _chosen(function, True) == "trace_0"


def test_of_several_traces_that_fit_a_whole_call_the_first_is_taken():
  function = _function((_spec(None),), (TensorSpec(PartialShape(None), DType.FLOAT),), args=("x",), defaults=())
  assert _chosen(function, X) == "trace_0"
  with pytest.raises(AmbiguousFunctionError, match="2 traces fit; pass more specs"):
    _chosen(function)


def test_varargs_are_counted():
  function = _function((_spec(),), (_spec(), _spec()), args=("x",), defaults=(), varargs="rest")
  assert _chosen(function, 1.0) == "trace_0"
  assert _chosen(function, 1.0, 2.0) == "trace_1"


@pytest.mark.parametrize(
  ("args", "kwargs"), [((X.astype(int),), {}), ((X, None), {}), ((X, False, 1), {}), ((), {"y": X}), (({"a": X},), {})]
)
def test_what_fits_no_trace_lists_them_all(args, kwargs):
  with pytest.raises(AmbiguousFunctionError, match=r"'call'\(x, training=False\): no trace fits") as e:
    choose_trace(TWO_MODES, args, kwargs)
  assert str(e.value).count("\n") == 2


def test_the_saved_function_is_chosen_by_name_and_called_by_name():
  model = load(_DATA / "module")
  x = np.ones((1, 2), np.float32)
  fn, params = model.convert("nested", x=jax.ShapeDtypeStruct((1, 2), np.float32))
  by_name, _ = fn(params, x=x)
  by_position, _ = fn(params, x)
  np.testing.assert_array_equal(by_name["y"], by_position["y"])
  with pytest.raises(InputError, match="'training': got True"):
    fn(params, x, training=True)


def test_a_signature_rejects_positional_specs_and_unknown_names():
  model = load(_DATA / "module")
  with pytest.raises(AmbiguousFunctionError, match="by name, got 1 positional"):
    model.convert("serving_default", np.zeros((1, 2), np.float32))
  with pytest.raises(AmbiguousFunctionError, match=r"no inputs \['options'\]"):
    model.convert("serving_default", options=np.zeros((1, 2), np.float32))


def test_composite_specs_become_composite_tensors_of_specs():
  shape = PartialShape((None, None))
  ragged = plain(RaggedTensorSpec(shape, DType.FLOAT, 1, DType.INT64), "r")
  assert isinstance(ragged, RaggedTensor) and [str(s) for s in ragged.components] == ["float32[?]", "int64[?]"]
  assert isinstance(plain(SparseTensorSpec(shape, DType.FLOAT), "s"), SparseTensor)
  slices = plain(IndexedSlicesSpec(shape, DType.FLOAT, DType.INT32, None, PartialShape((None,))), "i")
  assert slices.dense_shape is None
  with pytest.raises(ConversionError, match="'d': .*Dataset.*no JAX counterpart|d: .*Dataset"):
    plain(OpaqueTypeSpec("DatasetSpec", None, 1), "d")


def test_a_composite_argument_chooses_too():
  ragged = RaggedTensorSpec(PartialShape((None, None)), DType.FLOAT, 1, DType.INT64)
  function = _function((ragged,), (_spec(None),), args=("x",), defaults=())
  assert _chosen(function, RaggedTensor.from_lists([[1.0], []])) == "trace_0"
  assert _chosen(function, X) == "trace_1"


def test_a_function_saved_by_itself_takes_its_arguments_by_the_names_of_their_specs():
  concrete = ConcreteFunction("f", (TensorSpec(PartialShape(()), DType.FLOAT, "x"), _spec()), {"b": _spec()}, None, ())
  _, structure = choose_trace(RestoredFunction("f", None, (concrete,)), (), {})
  assert structure.signature == inspect.signature(lambda x, arg1, *, b: None)
