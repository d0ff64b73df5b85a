"""Variables on devices. What needs several devices runs in child processes, where JAX makes eight of the CPU."""

import mmap
import os
import re
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from graftax.convert import split_trainable
from graftax.savedmodel_io import (
  CheckpointReader,
  load,
  nest,
  partition_rules,
  read_orbax,
  read_safetensors,
  save,
  unnest,
  write_checkpoint,
  write_orbax,
  write_safetensors,
)
from graftax.savedmodel_io.checkpoint import bundle_reader, pieces
from graftax.savedmodel_io.errors import DamagedCheckpointError, ShardingError
from graftax.savedmodel_io.variables.sharding import _read_together
from graftax.testing.child_process import Child, serve

_DATA = Path(__file__).parents[1] / "testdata"
_KERAS = _DATA / "2026_11_21/keras_export"
_PARTITIONED = _DATA / "2026_11_21/tf1_partitioned"
_RULES = [
  ("kernel", PartitionSpec(None, "model")),
  ("embedding", PartitionSpec(("data", "model"))),
  ("bias", PartitionSpec()),
]


def _one_device() -> jax.sharding.Sharding:
  return SingleDeviceSharding(jax.devices()[0])


def _apply(params: Any, ids: jax.Array) -> jax.Array:
  return jnp.tanh(params["embedding"][ids] @ params["dense"]["kernel"] + params["dense"]["bias"])


def _values() -> dict[str, Any]:
  rng = np.random.default_rng(0)
  dense = {"kernel": rng.standard_normal((256, 4096), np.float32), "bias": rng.standard_normal(4096, np.float32)}
  return {"dense": dense, "embedding": rng.standard_normal((8192, 256), np.float32)}


def _write_model(folder: Path) -> Path:
  save(folder, (_apply, jax.ShapeDtypeStruct((3,), np.int32)), _values())
  return folder


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_values_on_one_device_are_those_of_the_file(dtype):
  plain, placed = load(_KERAS, dtype=dtype).variables, load(_KERAS, dtype=dtype, sharding=_one_device()).variables
  for name, value in plain.items():
    if value.dtype == np.int64:
      assert isinstance(placed[name], np.ndarray)  # 64-bit types are off
      continue
    assert isinstance(placed[name], jax.Array)
    assert placed[name].dtype == value.dtype
    np.testing.assert_array_equal(placed[name], value)


def test_integers_of_64_bits_are_placed_if_jax_holds_them():
  with jax.enable_x64(True):
    value = load(_DATA / "2026_11_21/module", sharding=_one_device()).variables["frozen"]
  assert isinstance(value, jax.Array)
  assert value.dtype == np.int64


def test_a_converted_function_runs_and_knows_what_is_trained():
  x = np.random.default_rng(0).standard_normal((3, 2), np.float32)
  fn, params = load(_KERAS).convert()
  placed_fn, placed = load(_KERAS, sharding=_one_device()).convert()
  assert all(isinstance(value, jax.Array) for value in placed.values())
  expected = fn(params, features=x)[0]["output_0"]
  np.testing.assert_allclose(placed_fn(placed, features=x)[0]["output_0"], expected, rtol=1e-6)
  trainable, rest = split_trainable(placed, placed_fn.variables)
  assert (list(trainable), list(rest)) == tuple(list(part) for part in split_trainable(params))
  assert jax.eval_shape(placed_fn, placed_fn.variables, features=x)[0]["output_0"].shape == (3, 1)


def test_programs_with_placed_variables_are_written(tmp_path):
  from graftax.savedmodel_io import write_saved_model

  model = load(_KERAS, sharding=_one_device())
  write_saved_model(tmp_path / "m", {"serve": model.program("serve"), "again": model.program("serve")})
  variables = load(_KERAS).variables
  for name, value in load(tmp_path / "m").variables.items():
    np.testing.assert_array_equal(value, variables[name])


def test_names_of_a_dict_may_be_nested_and_none_leaves_a_variable_in_the_file():
  flat = {name: _one_device() if "kernel" in name else None for name in load(_KERAS).variables}
  for tree in (flat, nest(flat)):
    variables = load(_KERAS, sharding=tree).variables
    assert {name for name in variables if isinstance(variables[name], jax.Array)} == {
      name for name in variables if "kernel" in name
    }


@pytest.mark.parametrize(
  ("sharding", "message"),
  [
    ("model", "sharding='model': expected a jax.sharding.Sharding"),
    ({"no/such": None}, "sharding names the variable 'no/such'"),
    ({}, r"variable 'sequential/norm/gamma' \[2\]: sharding has no entry for it"),
    (lambda name, shape: PartitionSpec(), r"sharding is PartitionSpec|sharding is P\(\)"),
    (lambda name, shape: NamedSharding(_mesh(), PartitionSpec(None, None, "model")), "does not fit its shape"),
    ("rules", r"variable 'sequential/norm/gamma' \[2\]: no rule fits among \['kernel'\]"),
  ],
)
def test_shardings_that_do_not_fit_raise(sharding, message):
  if sharding == "rules":
    sharding = partition_rules(_mesh(), [("kernel", PartitionSpec())])
  with pytest.raises(ShardingError, match=message):
    load(_KERAS, sharding=sharding).variables["sequential/norm/gamma"]


@pytest.mark.parametrize("rule", [("(", PartitionSpec()), ("w", "model"), ("w", PartitionSpec("no axis")), "w"])
def test_rules_of_another_form_raise(rule):
  with pytest.raises(ShardingError, match="expected .regular expression, PartitionSpec"):
    partition_rules(_mesh(), [rule])


def _mesh() -> jax.sharding.Mesh:
  return jax.make_mesh((1,), ("model",), axis_types=(AxisType.Auto,))


def test_checksums_of_what_is_read_whole_are_verified(tmp_path):
  folder = _write_model(tmp_path / "m")
  with open(folder / "variables/variables.data-00000-of-00001", "r+b") as f:
    f.seek(100)
    f.write(b"\x01\x02")
  damaged = next(name for name in unnest(_values()) if not _is_sound(folder, name))
  for verify in (None, True):
    with pytest.raises(DamagedCheckpointError, match="its checksum is"):
      load(folder, sharding=_one_device(), verify=verify).variables[damaged]
  assert load(folder, sharding=_one_device(), verify=False).variables[damaged].ndim


def _is_sound(folder: Path, name: str) -> bool:
  try:
    load(folder).variables[name]
  except DamagedCheckpointError:
    return False
  return True


@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7), (3, 1 << 20)])
def test_parts_are_copied_as_numpy_slices_them(tmp_path, shape):
  value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
  write_checkpoint(tmp_path / "c", {"before": np.zeros(3, np.int8), "value": value})
  for region in (tuple(slice(0, n) for n in shape), tuple(slice(n // 3, n - n // 4) for n in shape)):
    for dtype in (np.dtype(np.float32), np.dtype(jnp.bfloat16)):
      for verify in (True, False):
        got = CheckpointReader(tmp_path / "c").read_region("value", region, verify=verify, dtype=dtype, copy=True)
        assert not isinstance(got.base, np.memmap)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, value[(*region, ...)].astype(dtype))


@pytest.mark.parametrize(
  "options", [{}, {"dtype": jnp.bfloat16}, {"sharding": "one"}, {"verify": True, "sharding": "one"}]
)
def test_progress_moves_within_large_variables(tmp_path, options):
  calls = []
  if options.get("sharding") == "one":
    options = {**options, "sharding": _one_device()}
  load(_write_model(tmp_path / "m"), **options, progress=lambda *call: calls.append(call)).convert()
  sizes = {name: value.nbytes for name, value in unnest(_values()).items()}
  done = [0, *(num_bytes for num_bytes, _ in calls)]
  assert max(np.diff(done)) == pieces.PIECE_BYTES < sizes["embedding"]
  assert min(np.diff(done)) > 0
  assert done[-1] == sum(sizes.values())
  assert {total for _, total in calls} == {sum(sizes.values())}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of what the disk has read is Linux's")
@pytest.mark.parametrize(
  ("name", "region", "most_bytes"),
  [
    ("embedding", (slice(0, 4096), slice(0, 256)), 1.05 * 4096 * 256 * 4),
    ("dense/kernel", (slice(0, 256), slice(1024, 1536)), 256 * 2 * mmap.PAGESIZE),  # the pages of 2 KB of each row
  ],
)
def test_the_disk_reads_no_more_than_the_pages_of_a_part(tmp_path, name, region, most_bytes):
  reader = CheckpointReader(_write_model(tmp_path / "m") / "variables/variables")
  _forget(reader.path_prefix)
  key = next(key for key in reader if reader.shape(key) == unnest(_values())[name].shape)
  before = _disk_bytes()
  reader.read_ahead(key, region)
  part = reader.read_region(key, region, verify=False, copy=True)
  assert _disk_bytes() - before <= most_bytes  # 0 if the file system is in memory
  np.testing.assert_array_equal(part, unnest(_values())[name][region])


@pytest.mark.parametrize(
  ("boxes", "expected"),
  [
    ([((0, 4), (0, 2)), ((0, 4), (2, 4))], [((0, 4), (0, 4)), None]),  # columns that are adjacent
    ([((0, 4), (0, 2)), ((0, 4), (4, 6))], [((0, 4), (0, 2)), ((0, 4), (4, 6))]),  # columns of others lie between
    ([((0, 1 << 29),), ((1 << 29, 1 << 30),)], [None, None]),  # 2 GiB each
    ([((0, 1 << 27),), ((1 << 27, 1 << 28),)], [((0, 1 << 28),), None]),
    ([()], [()]),
  ],
)
def test_adjacent_boxes_of_a_process_are_read_together_unless_they_are_huge(boxes, expected):
  assert _read_together(tuple(boxes), itemsize=4) == expected


def _forget(prefix: str) -> None:
  """Has the system read the checkpoint from the disk again."""
  with open(f"{prefix}.data-00000-of-00001", "rb") as file:
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _disk_bytes() -> int:
  """Returns how many bytes the disk has read for this process."""
  found = re.search(r"^read_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
  assert found
  return int(found[1])


def test_eight_devices_read_their_own_part(tmp_path, monkeypatch):
  _set_num_devices(monkeypatch, 8)
  with Child(__name__, {"check": "eight", "folder": str(_write_model(tmp_path / "m"))}, {}) as child:
    _expect_passed(child)


def _check_eight_devices(folder: str) -> None:
  mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
  expected = unnest(_values())
  num_bytes = _count_bytes()
  for dtype in (np.float32, jnp.bfloat16):
    num_bytes.clear()
    fn, params = load(folder, dtype=dtype, sharding=partition_rules(mesh, _RULES)).convert()
    assert sum(num_bytes) == sum(value.nbytes for value in expected.values())  # each byte once for eight devices
    for name, value in expected.items():
      assert params[name].dtype == dtype
      for shard in params[name].addressable_shards:
        np.testing.assert_array_equal(shard.data, value[shard.index].astype(dtype))
    assert {shard.data.shape for shard in params["dense/kernel"].addressable_shards} == {(256, 1024)}
    assert {shard.data.shape for shard in params["embedding"].addressable_shards} == {(1024, 256)}
  _check_shardings_under_jit(folder, mesh)
  _check_partitioned(mesh)
  _check_files_of_other_libraries(folder, mesh)


def _check_shardings_under_jit(folder: str, mesh: jax.sharding.Mesh) -> None:
  ids = np.array([5, 8000, 77], np.int32)
  plain_fn, plain = load(folder).convert()
  fn, params = load(folder, sharding=partition_rules(mesh, _RULES)).convert()

  @jax.jit
  def step(params):
    def loss(params):
      return jnp.sum(fn(params, ids=ids)[0]["output_0"] ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

  _, unchanged = jax.jit(fn)(params, ids=ids)
  new = step(params)
  for name, value in params.items():
    assert unchanged[name].sharding.is_equivalent_to(value.sharding, value.ndim)
    # XLA chooses that of the new bias, which each device had as a whole.
    assert name == "dense/bias" or new[name].sharding.is_equivalent_to(value.sharding, value.ndim)
  np.testing.assert_allclose(
    jax.jit(fn)(params, ids=ids)[0]["output_0"], plain_fn(plain, ids=ids)[0]["output_0"], rtol=1e-5, atol=1e-5
  )


def _check_partitioned(mesh: jax.sharding.Mesh) -> None:
  """Of a tensor that is stored as slices, only the parts of slices that a device needs are read."""
  plain = load(_PARTITIONED, "serve").variables
  num_bytes = _count_bytes()
  split = NamedSharding(mesh, PartitionSpec("data"))

  def choose(name: str, shape: tuple[int, ...]) -> NamedSharding:
    return split if shape and shape[0] % 2 == 0 else NamedSharding(mesh, PartitionSpec())

  placed = load(_PARTITIONED, "serve", sharding=choose).variables
  for name, value in plain.items():
    num_bytes.clear()
    np.testing.assert_array_equal(placed[name], value)
    assert sum(num_bytes) == value.nbytes
  rows = CheckpointReader(_DATA / "2026_11_21/partitioned_v2/model.ckpt")
  num_bytes.clear()
  box = rows.read_region("rows", (slice(1, 2), slice(0, 1)), verify=False, dtype=np.dtype(np.float16), copy=True)
  np.testing.assert_array_equal(box, rows["rows"][1:2, :1])
  assert num_bytes == [4]


def _check_files_of_other_libraries(folder: str, mesh: jax.sharding.Mesh) -> None:
  """Sharded parameters are written and come back with other shardings and in another dtype."""
  choose = partition_rules(mesh, _RULES)
  _, params = load(folder, sharding=choose).convert()
  split = partition_rules(mesh, [("kernel", PartitionSpec("model", "data")), ("", PartitionSpec())])
  for write, read in ((write_orbax, read_orbax), (write_safetensors, read_safetensors)):
    path = f"{folder}-{write.__name__}"
    write(path, params)
    for sharding, dtype in ((choose, np.float32), (split, jnp.bfloat16)):
      found = read(path, sharding=sharding, dtype=dtype)
      for name, value in unnest(_values()).items():
        assert found[name].sharding == sharding(name, value.shape)
        np.testing.assert_array_equal(found[name], value.astype(dtype))


def _count_bytes() -> list[int]:
  """Returns a list that gets the number of bytes of each part of a mapped file that the reader reads."""
  counted: list[int] = []
  copy, cast, checksum = pieces.copy_in_pieces, pieces.cast_in_pieces, pieces.checksum_in_pieces

  def copy_and_count(mapped, view, *rest):
    counted.append(view.nbytes)
    return copy(mapped, view, *rest)

  def cast_and_count(mapped, start, stop, *rest):
    counted.append(stop - start)
    return cast(mapped, start, stop, *rest)

  def checksum_and_count(mapped, start, stop, *rest):
    counted.append(stop - start)
    return checksum(mapped, start, stop, *rest)

  bundle_reader.copy_in_pieces, bundle_reader.cast_in_pieces = copy_and_count, cast_and_count
  bundle_reader.checksum_in_pieces = checksum_and_count
  return counted


@pytest.mark.slow  # two processes that wait for each other; finds what differs if a process has a part of the devices
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of mapped pages is Linux's")
def test_two_processes_read_the_parts_of_their_own_devices(tmp_path, monkeypatch):
  _set_num_devices(monkeypatch, 4)
  folder = _write_model(tmp_path / "m")
  _forget(f"{folder}/variables/variables")
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = probe.getsockname()[1]
  request = {"check": "two", "folder": str(folder), "port": port}
  children = (Child(__name__, {**request, "process": process}, {}) for process in range(2))
  with next(children) as first, next(children) as second:
    _expect_passed(first)
    _expect_passed(second)


def _expect_passed(child: Child) -> None:
  problem = child.receive(300)
  assert problem is None, f"in the child:\n{problem}"


def _check_one_of_two_processes(folder: str, port: int, process: int) -> None:
  jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
  mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
  pieces._release = lambda mapped, first, last: None  # pages that were read stay, and the kernel counts them
  rules = [("embedding", PartitionSpec(("data", "model"))), ("kernel", PartitionSpec("data", "model"))]
  load(_KERAS, sharding=NamedSharding(mesh, PartitionSpec())).convert()  # so that no library is read below
  before = _disk_bytes()
  for dtype in (None, jnp.bfloat16):
    model = load(folder, dtype=dtype, sharding=partition_rules(mesh, [*rules, ("", PartitionSpec())]))
    fn, params = model.convert()
    large = [params["embedding"], params["dense/kernel"]]
    shards = {(a, str(s.index)): s.data.size * 4 for a, x in enumerate(large) for s in x.addressable_shards}
    assert sum(shards.values()) * 2 == sum(x.size for x in large) * 4
    most_bytes = 1.05 * (sum(shards.values()) + params["dense/bias"].size * 4)
    assert _mapped_bytes(folder) < most_bytes
    assert _disk_bytes() - before < most_bytes
    for shard in params["embedding"].addressable_shards:
      expected = _values()["embedding"][shard.index].astype(params["embedding"].dtype)
      np.testing.assert_array_equal(shard.data, expected)
    del model
  total = jax.jit(lambda params: jnp.sum(params["embedding"].astype(jnp.float32)))(params)
  assert np.isfinite(total)
  ids = np.array([5, 8000, 77], np.int32)
  result = jax.jit(lambda p: fn(p, ids=ids)[0]["output_0"], out_shardings=NamedSharding(mesh, PartitionSpec()))(params)
  plain_fn, plain = load(folder, dtype=jnp.bfloat16).convert()
  expected = plain_fn(plain, ids=ids)[0]["output_0"]
  np.testing.assert_allclose(result.addressable_data(0), expected, rtol=0.02, atol=0.02)


def _mapped_bytes(folder: str) -> int:
  """Returns how much of the checkpoint this process has touched."""
  text = Path("/proc/self/smaps").read_text()
  regions = re.findall(rf"{re.escape(folder)}\S*\.data\S*\n(?:.*\n)*?Rss:\s+(\d+) kB", text)
  assert regions
  return max(map(int, regions)) * 1024


def _set_num_devices(monkeypatch: pytest.MonkeyPatch, num_devices: int) -> None:
  flag = f"--xla_force_host_platform_device_count={num_devices}"
  monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} {flag}")


def main() -> None:
  request, answer = serve()
  try:
    if request["check"] == "eight":
      _check_eight_devices(request["folder"])
    else:
      _check_one_of_two_processes(request["folder"], request["port"], request["process"])
    answer(None)
    if request["check"] == "two":
      jax.distributed.shutdown()  # waits for the other process, which dies if the first one is gone
  except BaseException:
    answer(traceback.format_exc())
  os._exit(0)
