"""The models that are written: of the zoo, of keras.applications, and modules of StableHLO."""

import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from graftax.convert import MissingInputError
from graftax.savedmodel_io import load
from graftax.testing.differential.oracle import Oracle
from graftax.testing.keras_applications import APPLICATIONS, HEAVY, export_model
from graftax.testing.pytrees import Leaf, PyTree
from graftax.testing.tensorflow_programs.catalogue import installed_models
from graftax.testing.written_models.run_written import is_inexact
from graftax.testing.zoo.saving import saved_copies
from graftax.xla_call_module import Module, lift

__all__ = ["Subject", "subject", "subject_names"]


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
  """A JAX function that is written.

  Attributes:
    function: of parameters and arrays.
    params: its parameters, by name.
    inputs: arrays.
    gradient: whether derivatives are compared.
    x64: whether `jax_enable_x64` is on.
  """

  function: Callable[..., Any]
  params: dict[str, Leaf]
  inputs: list[Leaf]
  gradient: bool
  x64: bool = False


def subject_names(modules: Path | None, num_modules: int) -> list[str]:
  """Returns the names of all models.

  Args:
    modules: a folder with modules of StableHLO, as `stablehlo_conformance` runs them.
    num_modules: how many of them are written, evenly spread.
  """
  found = [f"zoo/{name}" for name in installed_models()]
  found += [f"keras/{a.name}" for a in APPLICATIONS if a.name not in HEAVY]
  if modules is not None:
    paths = [path for path in sorted(modules.glob("*.mlir")) if _INPUTS.search(path.read_text(encoding="utf-8"))]
    found += [f"stablehlo/{paths[i * len(paths) // num_modules].stem}" for i in range(min(num_modules, len(paths)))]
  return found + [f"keras/{a.name}" for a in APPLICATIONS if a.name in HEAVY]


@contextmanager
def subject(name: str, modules: Path | None) -> Iterator[Subject]:
  """Yields a model by name."""
  kind, _, rest = name.partition("/")
  jax.config.update("jax_enable_x64", kind == "stablehlo")
  if kind == "stablehlo":
    assert modules is not None
    yield _module((modules / f"{rest}.mlir").read_text(encoding="utf-8"))
  elif kind == "keras":
    with tempfile.TemporaryDirectory() as folder:
      yield _application(rest, Path(folder))
  else:
    case = installed_models()[rest]
    with saved_copies() as copies, jax.enable_x64(case.x64):
      oracle = Oracle(case)
      copies.converter.convert(oracle.function, oracle.specs(case.inputs))
      function, params = copies.loaded[0].convert("serve")
      leaves, structure = jax.tree.flatten(case.inputs)

      def predict(params: PyTree, *leaves: Leaf, **rng: Leaf) -> PyTree:
        return function(params, *jax.tree.unflatten(structure, leaves), **rng)[0]

      gradient = bool({"grad", "param_grad"} & set(case.checks))
      yield _with_key(Subject(predict, dict(params), leaves, gradient, case.x64), function.rng_name)


def _with_key(given: Subject, rng_name: str) -> Subject:
  """Gives a model that draws random numbers a key, as the data of one."""
  try:
    jax.eval_shape(given.function, given.params, *given.inputs)
  except MissingInputError:

    def keyed(params: PyTree, *arrays: Array) -> PyTree:
      return given.function(params, *arrays[:-1], **{rng_name: jax.random.wrap_key_data(arrays[-1])})

    return dataclasses.replace(given, function=keyed, inputs=[*given.inputs, jax.random.key_data(jax.random.key(0))])
  return given


def _application(name: str, folder: Path) -> Subject:
  (application,) = [a for a in APPLICATIONS if a.name == name]
  export_model(dataclasses.replace(application, gradient=False), folder)
  function, params = load(folder / "model").convert("serve")
  (input_name,) = function.structured_inputs[1]
  images = np.load(folder / "expected.npz")["images"]

  def predict(params: PyTree, images: Array) -> PyTree:
    return function(params, **{input_name: images})[0]

  return Subject(predict, dict(params), [images], name not in HEAVY)


_INPUTS = re.compile(r"^ *(%\w+)(?::\d+)? = call @inputs\(\) : \(\) -> (.*)$", re.MULTILINE)
_MAIN = "func.func public @main()"
_CHECK = re.compile(r"^ *stablehlo\.custom_call @check\..*\n", re.MULTILINE)


def _module(text: str) -> Subject:
  """Returns a module of StableHLO as a function of its inputs, without its checks."""
  text = _CHECK.sub("", text)
  found = _INPUTS.search(text)
  assert found is not None
  name, types = found[1], _types(found[2])
  results = re.compile(r"(func\.func public @main\(\)) -> .*? (?=\{$)", re.MULTILINE)
  given = results.sub(rf"\1 -> ({', '.join(types)}) ", text)
  used = ", ".join([f"{name}#{i}" for i in range(len(types))] if len(types) > 1 else [name])
  given = re.sub(r"^ *return .*?$", f"    return {used} : {', '.join(types)}", given, count=1, flags=re.MULTILINE)
  inputs = jax.jit(lift(Module.from_text(given)))()
  arguments = ", ".join(f"%given{i}: {t}" for i, t in enumerate(types))
  head, _, body = text.partition(_MAIN)
  body = _INPUTS.sub("", body, count=1)
  main, separator, others = body.partition("\n  }\n")
  for i in range(len(types)):
    main = main.replace(f"{name}#{i}", f"%given{i}")
  main = re.sub(rf"{re.escape(name)}(?![\w#])", "%given0", main)
  function = lift(Module.from_text(f"{head}func.func public @main({arguments}){main}{separator}{others}"))
  return Subject(
    lambda _, *arrays: function(*arrays), {}, list(inputs), gradient=any(is_inexact(x) for x in inputs), x64=True
  )


def _types(text: str) -> Sequence[str]:
  return re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", text)
