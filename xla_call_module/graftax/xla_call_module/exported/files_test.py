"""Files that JAX 0.4.30 to 0.12 wrote, compared with what those computed; see tools/artifacts/exported_functions.py."""

import functools
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

from graftax.xla_call_module import DecodeError, Module, StableHloError, VersionError, errors, lift
from graftax.xla_call_module.exported import files, flatbuffer
from graftax.xla_call_module.signature import SavedSharding

_FOLDER = pathlib.Path(__file__).parent.parent / "testdata" / "exported"
_VERSIONS = ("0.4.30", "0.5.3", "0.6.2", "0.7.2", "0.8.2", "0.9.2", "0.11.0", "0.12.0")
_FUNCTIONS = ("symbolic", "loop", "trees", "lapack", "platforms", "shard_map")


@functools.cache
def _data(name):
  return (_FOLDER / f"{name}.jax").read_bytes()


@functools.cache
def _fields(name):
  return files.read(_data(name))


def _arrays(name, kind):
  with np.load(_FOLDER / f"{name}.npz") as stored:
    return [stored[f"{kind}_{i}"] for i in range(sum(key.startswith(kind) for key in stored))]


def _gradients(function, inputs):
  moving = [i for i, x in enumerate(inputs) if x.dtype.kind == "f"]

  def total(values):
    given = dict(zip(moving, values, strict=True))
    results = function(*(given.get(i, x) for i, x in enumerate(inputs)))
    return sum(x.sum() for x in results if x.dtype.kind == "f")

  return jax.grad(total)([inputs[i] for i in moving])


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("function", _FUNCTIONS[:-1])
def test_values_and_derivatives_are_those_of_the_jax_that_wrote_the_file(function, version):
  _check(f"{function}-{version}")


def _check(name, **options):
  lifted, inputs = lift(Module.from_exported(_data(name), guard=False), **options), _arrays(name, "input")
  for found, expected in zip(lifted(*inputs), _arrays(name, "output"), strict=True):
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
  for found, expected in zip(_gradients(lifted, inputs), _arrays(name, "gradient"), strict=True):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


_TWO_DEVICES = """
import jax
from exported_files import _VERSIONS, _check

mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
for version in _VERSIONS:
  for gradient in ("auto", "primal"):
    _check(f"shard_map-{version}", mesh=mesh, gradient=gradient)
"""


def test_programs_for_two_devices_run_on_a_mesh_of_two():
  script = (
    f"import importlib.util, sys\nspec = importlib.util.spec_from_file_location('exported_files', {__file__!r})\n"
  )
  script += (
    "module = sys.modules['exported_files'] = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)"
  )
  paths = os.pathsep.join(path for path in sys.path if path)
  environment = {**os.environ, "PYTHONPATH": paths, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
  done = subprocess.run(
    [sys.executable, "-c", script + _TWO_DEVICES], env=environment, capture_output=True, text=True, timeout=240
  )
  assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("version", _VERSIONS)
def test_signature_says_what_the_function_takes(version):
  symbolic = _fields(f"symbolic-{version}").signature
  assert str(symbolic) == "run((*, *), {}) -> *"
  assert [str(leaf) for leaf in (*symbolic.inputs, *symbolic.outputs)] == [
    "args[0]: float32[b, 3]", "args[1]: float32[3, 2]", "result: float32[b, 2]",
  ]  # fmt: skip
  trees = _fields(f"trees-{version}")
  point = "graftax.test.Point(graftax.test.Scaled(*), *)" if version != "0.4.30" else "{'x': *, 'y': *}"
  assert str(trees.signature.in_tree) == f"(({{'b': [*, *], 'w': *}}, {point}, (None, *)), {{'scale': *}})"
  assert trees.signature.inputs[-1].path == "kwargs['scale']" and trees.kept == (0, 1, 2, 3, 4, 6)
  assert _fields(f"platforms-{version}").platforms == ("cpu", "tpu")
  loop = _fields(f"loop-{version}")
  assert loop.gradient is not None and loop.gradient.gradient is not None and loop.gradient.gradient.gradient is None
  sharded = _fields(f"shard_map-{version}").signature
  assert sharded.num_devices == 2
  if version >= "0.9" or version.startswith("0.1"):
    assert sharded.inputs[0].sharding in [SavedSharding((("d", 2),), (("d",),), kind) for kind in (None, "device")]
  elif version != "0.4.30":
    assert sharded.inputs[0].sharding is not None and sharded.inputs[0].sharding.hlo


@pytest.mark.parametrize("name", ["trees-0.12.0", "symbolic-0.5.3", "shard_map-0.9.2"])
def test_files_are_read_as_jax_reads_them(name):
  pytest.importorskip("flatbuffers")
  try:
    theirs = jax.export.deserialize(bytearray(_data(name)))
  except ValueError as error:  # a node that nobody has registered, or a file that is too old for this JAX
    assert re.search("unregistered|compatibility window", str(error))
    return
  ours = _fields(name)
  assert [(leaf.shape, leaf.dtype) for leaf in ours.signature.inputs] == [
    (tuple(d if isinstance(d, int) else str(d) for d in aval.shape), str(aval.dtype)) for aval in theirs.in_avals
  ]
  assert ours.module == theirs.mlir_module_serialized and ours.signature.num_devices == theirs.nr_devices
  assert ours.version == theirs.calling_convention_version and ours.kept == tuple(theirs.module_kept_var_idx)


def _damaged(random_state, data):
  """Returns a file with one to three changes: of bytes, of offsets and lengths, or of its end."""
  changed = bytearray(data)
  for _ in range(random_state.randint(1, 3)):
    where = random_state.randrange(0, len(changed) - 4)
    match random_state.randrange(4):
      case 0:
        changed[where] = random_state.randrange(256)
      case 1:
        value = random_state.choice([0, 1, 4, 2**31 - 1, 2**32 - 1, len(data), random_state.randrange(len(data))])
        struct.pack_into("<I", changed, where // 4 * 4, value)
      case 2:
        struct.pack_into("<H", changed, where // 2 * 2, random_state.choice([0, 4, 6, 255, 65535]))
      case 3 if random_state.random() < 0.2:
        del changed[random_state.randrange(8, len(changed)) :]
        if len(changed) < 16:
          break
  return bytes(changed)


def _read_damaged(num_files):
  random_state = random.Random(0)
  names = [f"{function}-{version}" for function in _FUNCTIONS for version in _VERSIONS]
  outcomes = {"read": 0, "refused": 0}
  for _ in range(num_files):
    data = _data(random_state.choice(names))
    try:
      files.read(_damaged(random_state, data))
      outcomes["read"] += 1
    except StableHloError:
      outcomes["refused"] += 1
  return outcomes


def test_damaged_files_are_typed_errors():
  outcomes = _read_damaged(500)
  assert outcomes["refused"] > 50 and outcomes["read"] + outcomes["refused"] == 500


@pytest.mark.parametrize(
  "data",
  [
    b"",
    b"\x04",
    bytes(100),
    b"\xff" * 100,
    b"\x04\0\0\0" * 50,
    b"ML\xefR" + bytes(60),
    struct.pack("<I", 4) + bytes(8),
  ],
)
def test_bytes_that_are_no_file_of_jax_are_a_decode_error(data):
  with pytest.raises(StableHloError, match="bytes are not a serialized jax.export.Exported"):
    Module.from_exported(data)


def test_a_portable_artifact_is_for_from_bytes():
  data = jax.export.export(jax.jit(jax.numpy.sin))(np.float32(1)).mlir_module_serialized
  with pytest.raises(StableHloError, match="Module.from_bytes"):
    Module.from_exported(data)
  assert Module.from_bytes(data).inputs[0].shape == ()


def test_module_whose_types_differ_from_the_declared_ones_is_refused():
  data = _data("symbolic-0.12.0")
  assert data.count(b"\x01\0\0\x003\0\0\0") >= 2
  with pytest.raises(StableHloError, match=r"in the place of args\[\d\]: float32\[.*5"):
    Module.from_exported(data.replace(b"\x01\0\0\x003\0\0\0", b"\x01\0\0\x005\0\0\0"), guard=False)


def _with_number(name, field, number):
  """Returns a file in which a 16-bit field has another number."""
  changed = bytearray(_data(name))
  position = flatbuffer.root(bytes(changed), what="a test", max_depth=100)._at(field)
  struct.pack_into("<H", changed, position, number)
  return bytes(changed)


@pytest.mark.parametrize(
  ("field", "number", "message"),
  [
    (0, 13, "has format 13; expected 12 at most"),
    (14, 11, "calling convention version 11 is not supported; expected 2 to 10"),
    (14, 1, "calling convention version 1 is not supported"),
  ],
)
def test_newer_formats_and_calling_conventions_are_refused(field, number, message):
  with pytest.raises(VersionError, match=message):
    Module.from_exported(_with_number("symbolic-0.12.0", field, number), guard=False)


def test_keys_of_a_dict_are_as_many_as_its_children():
  def fail(why):
    raise errors.DecodeError(why)

  leaf = types.SimpleNamespace(number=lambda *_: 0, tables=lambda _: (), strings=lambda _: (), fail=fail)
  node = types.SimpleNamespace(
    number=lambda *_: 4, tables=lambda _: (leaf, leaf), strings=lambda _: ("a", "b", "a"), fail=fail
  )
  with pytest.raises(DecodeError, match="a dict of a tree has 2 children and 3 keys"):
    files._tree(node)


@pytest.mark.parametrize(
  "spec, kind", [((("e",),), None), ((("d",), ("d",)), None), ((("d",),), "no memory")], ids=["name", "twice", "memory"]
)
def test_a_sharding_that_jax_refuses_is_an_argument_error(spec, kind):
  mesh = jax.sharding.Mesh(jax.devices()[:1], "d")
  with pytest.raises(errors.ArgumentError, match="cannot be placed on the mesh|an axis twice"):
    SavedSharding((("d", 1),), spec, kind).on(mesh)
