"""Every public error of every package: one root, pickling, data in place of text, and old names that still work."""

import importlib
import inspect
import pickle
import subprocess
import sys

import pytest
from cleanroom import ROOT
from public_api import public_modules

import graftax.convert as gc
from graftax.graphdef_ir import GraftaxError, Limits, schema
from graftax.ops_jax import InvalidInputError, MissingOp, UnsupportedOpError, lowering
from graftax.ops_jax._core.errors import as_invalid_input
from graftax.xla_call_module import GraftaxError as RootOfModules
from graftax.xla_call_module import StableHloError

_ERRORS = {
  getattr(module, name)
  for names in public_modules().values()
  for module in map(importlib.import_module, names)
  for name in module.__all__
  if inspect.isclass(getattr(module, name)) and issubclass(getattr(module, name), Exception)
}
_LOWEST = ("graphdef_ir/graftax/graphdef_ir", "xla_call_module/graftax/xla_call_module")
# The first one is JAX's. The others are raised by tests.
_OTHERS = {
  "ConversionMismatchError",
  "Difference",
  "InconclusiveDimensionOperation",
  "LostChildError",
  "SilentChildError",
}


def test_there_is_one_root():
  assert len(_ERRORS) > 80
  assert RootOfModules is GraftaxError and issubclass(StableHloError, GraftaxError)
  apart = {e.__name__ for e in _ERRORS if not issubclass(e, (GraftaxError, Warning))}
  assert apart == _OTHERS


@pytest.mark.parametrize("first", ["graphdef_ir", "xla_call_module"])
def test_the_root_is_one_whichever_package_comes_first(first):
  second = {"graphdef_ir": "xla_call_module", "xla_call_module": "graphdef_ir"}[first]
  code = f"from graftax.{first} import errors as a; from graftax.{second} import errors as b; assert "
  code += "a.GraftaxError is b.GraftaxError"
  subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("first", ["graphdef_ir", "xla_call_module"])
def test_one_name_catches_errors_of_limits_of_both_packages(first):
  code = f"import graftax.{first}, pickle; from graftax import graphdef_ir as a, xla_call_module as b; "
  code += (
    "assert issubclass(b.LimitExceededError, a.LimitExceededError) and issubclass(b.LimitExceededError, ValueError); "
  )
  code += "assert not issubclass(a.LimitExceededError, b.StableHloError); "
  code += "assert pickle.loads(pickle.dumps(b.LimitExceededError('', needed=7))).needed == 7"
  subprocess.run([sys.executable, "-c", code], check=True)


def test_both_packages_that_define_the_root_define_it_alike():
  sources = {(ROOT / path / "_error_root.py").read_text(encoding="utf-8") for path in _LOWEST}
  assert len(sources) == 1


def _example(kind):
  """Returns an error of a class with a value for everything that it takes by name."""
  if kind.__name__ == "UnsupportedPrimitiveError":
    return kind("f", {("fft", "no form"): ("a.py:3",)})
  takes = inspect.signature(kind).parameters.values() if inspect.isfunction(kind.__init__) else ()
  names = [parameter.name for parameter in takes if parameter.kind is parameter.KEYWORD_ONLY]
  data = {"ops": [MissingOp("Op", (("node", "main"),), "why", "what to do")], "needed": 7, "allowed": 3}
  error = kind("a message", **{name: data.get(name, name) for name in names})
  error.add_note("a note")
  return error


@pytest.mark.parametrize("kind", sorted(_ERRORS, key=lambda e: (e.__module__, e.__name__)), ids=lambda e: e.__name__)
def test_pickling_keeps_an_error(kind):
  error = _example(kind)
  again = pickle.loads(pickle.dumps(error))
  assert type(again) is kind
  assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("cause", [TypeError("a"), IndexError("b"), KeyError("c"), UnicodeError("d"), ValueError("e")])
def test_pickling_keeps_an_error_that_is_also_of_the_class_of_its_cause(cause):
  error = as_invalid_input(cause, "node 'x'")
  again = pickle.loads(pickle.dumps(error))
  assert type(again) is type(error) and isinstance(again, InvalidInputError) and str(again) == str(error)


def test_an_error_of_a_module_in_a_graph_can_be_pickled():
  with pytest.raises(StableHloError) as caught:
    lowering("XlaCallModule").function(
      _Context(), [], version=9, module=b"damaged", Tout=(), Tin=(), platforms=("CPU",)
    )
  assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


class _Context:
  node_name, function_name = "node", "main"

  class options:
    limits, xlacallmodule_strict_checks, allow_custom_calls = Limits(), True, ()


def test_missing_ops_are_data():
  nodes = [schema.NodeDef(name=name, op="OpOfTheFuture") for name in ("a", "b")]
  with pytest.raises(UnsupportedOpError) as caught:
    gc.convert_functional(schema.GraphDef(node=nodes).SerializeToString(), inputs=[], outputs=["a", "b"])
  (missing,) = caught.value.ops
  assert (missing.op, [node for node, _ in missing.nodes]) == ("OpOfTheFuture", ["a", "b"])
  assert "register" in missing.remedy


def test_the_old_name_of_the_error_for_hub_modules_warns():
  module = importlib.import_module("graftax.hub_io.errors")
  with pytest.warns(DeprecationWarning, match="UnsupportedHubModuleError"):
    assert module.UnsupportedModuleError is module.UnsupportedHubModuleError
  with pytest.raises(AttributeError, match="no attribute 'NoSuchError'"):
    _ = module.NoSuchError


def test_the_old_name_of_lift_error_warns():
  module = importlib.import_module("graftax.xla_call_module")
  with pytest.warns(DeprecationWarning, match="LiftError"):
    assert module.UnsupportedOpError is module.LiftError
