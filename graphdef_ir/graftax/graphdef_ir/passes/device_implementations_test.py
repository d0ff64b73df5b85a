"""The choice among implementations of a function for several devices."""

import pytest

from graftax.graphdef_ir import Function, FunctionLibrary, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.passes.device_implementations import implementations_for_cpu


def _function(name, dtype=DType.FLOAT, **attrs):
  result = Result("y", TensorRef("body"), dtype)
  return Function(name, (Parameter(f"{name}_x", dtype),), (result,), (Node("body", "Neg"),), attrs=attrs)


_ANY = _function("any", api_implements=b"draw")
_CPU = _function("cpu", api_implements=b"draw", api_preferred_device=b"CPU")


def _chosen(*functions):
  library = FunctionLibrary({function.name: function for function in functions})
  return implementations_for_cpu([functions[0].name], library)


def test_the_function_calls_the_implementation_for_cpus():
  function = _chosen(_ANY, _CPU)["any"]
  assert function.name == "any" and function.parameters == _ANY.parameters and function.attrs == _ANY.attrs
  assert [(node.op, node.inputs) for node in function.nodes] == [("cpu", (TensorRef("any_x"),))]
  assert function.results == (Result("y", TensorRef("cpu"), DType.FLOAT),)


@pytest.mark.parametrize(
  "functions",
  [
    (_ANY,),
    (_function("plain"), _CPU),
    (_CPU, _function("gpu", api_implements=b"draw", api_preferred_device=b"GPU")),
    (_ANY, _function("gpu", api_implements=b"draw", api_preferred_device=b"GPU")),
    (_ANY, _function("cpu", api_implements=b"other", api_preferred_device=b"CPU")),
    (_ANY, _function("cpu", DType.INT32, api_implements=b"draw", api_preferred_device=b"CPU")),
    (_ANY, _function("cpu", api_implements=b"draw", api_preferred_device=b"CPU", forward_function_name=b"f")),
  ],
  ids=["alone", "of no API", "for CPUs already", "for GPUs", "of another API", "of another type", "of a tape"],
)
def test_functions_without_another_implementation_stay(functions):
  assert _chosen(*functions) == {}
