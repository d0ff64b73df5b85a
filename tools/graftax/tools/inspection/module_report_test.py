import io
import os
import pathlib

import jax
import numpy as np
import pytest
from rich.console import Console

import graftax.xla_call_module
from graftax.savedmodel_io import write_safetensors
from graftax.tools.errors import CommandError
from graftax.tools.inputs.module_files import input_names
from graftax.tools.inspection.model_view import print_report
from graftax.tools.inspection.module_report import report_module
from graftax.tools.inspection.weights_report import report_weights
from graftax.xla_call_module import Module

_ADD = (
  "module { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> { "
  "%0 = stablehlo.add %a, %a : tensor<2xf32>\n return %0 : tensor<2xf32> } }"
)


def test_a_file_of_jax_export_shows_what_it_takes_and_how_to_run_it(tmp_path):
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.float32)
  exported = jax.export.export(jax.jit(lambda tree: tree["x"].sum(1)), platforms=["cpu", "tpu"])({"x": spec})
  path = tmp_path / "program.jax"
  path.write_bytes(exported.serialize())
  report = report_module(str(path))
  assert report is not None
  assert (report.kind, report.plan, report.platforms) == ("file of jax.export", "lift", ("cpu", "tpu"))
  assert report.inputs[0].shape == (None, 3) and report.outputs[0].shape == (None,)
  text = io.StringIO()
  print_report(report, Console(file=text, width=100), num_rows=None)
  assert "float32[?, 3]" in text.getvalue() and "Module.from_exported" in text.getvalue()
  assert report.to_json()["inputs"][0]["shape"] == (None, 3)
  line = report.works[0].removeprefix("in JAX: ")
  (total,) = eval(line, {"graftax": graftax, "pathlib": pathlib})(np.ones((2, 3), np.float32))
  np.testing.assert_array_equal(total, [3, 3])


def test_text_and_what_does_not_lift_are_shown(tmp_path):
  (tmp_path / "m.mlir").write_text(_ADD)
  report = report_module(str(tmp_path / "m.mlir"))
  assert report is not None and (report.kind, report.plan, report.problems) == ("StableHLO module", "lift", ())
  call = _ADD.replace("stablehlo.add %a, %a", "stablehlo.custom_call @unknown(%a)").replace(
    ": tensor<2xf32>\n", ": (tensor<2xf32>) -> tensor<2xf32>\n"
  )
  (tmp_path / "c.mlir").write_text(call)
  report = report_module(str(tmp_path / "c.mlir"))
  assert report is not None and report.plan != "lift"
  assert any("unknown" in problem for problem in report.problems)


def test_a_file_of_module_save_is_shown_and_other_archives_are_refused(tmp_path):
  path = tmp_path / "m.zip"
  Module.from_text(_ADD).save(path)
  report = report_module(str(path))
  assert report is not None and (report.kind, report.plan) == ("file of Module.save", "lift")
  assert f"Module.load({str(path)!r})" in report.works[0]
  np.savez(tmp_path / "arrays.npz", x=np.zeros(2))
  with pytest.raises(CommandError, match="a zip archive"):
    report_module(str(tmp_path / "arrays.npz"))


def test_other_files_are_named(tmp_path):
  (tmp_path / "x").write_bytes(b"\x93NUMPY")
  with pytest.raises(CommandError, match="x is an array of NumPy"):
    report_module(str(tmp_path / "x"))
  assert report_module(str(tmp_path)) is None
  assert report_module(str(tmp_path / "frozen.pb")) is None
  (tmp_path / "table").write_bytes(bytes(40) + bytes.fromhex("57fb808b247547db"))
  assert report_module(str(tmp_path / "table")) is None  # a checkpoint in format 1


def test_arguments_have_different_names_whatever_their_paths_are():
  keys = ("X_input_2", "x", "x+")  # the third would be named as the second, and then as the first
  exported = jax.export.export(jax.jit(lambda tree: [tree[key] for key in keys]))({key: np.float32(0) for key in keys})
  assert input_names(Module.from_exported(bytes(exported.serialize()))) == [
    "args_0_x_input_2", "args_0_x", "args_0_x_input_2_input_2",
  ]  # fmt: skip


def test_of_a_file_that_may_be_a_checkpoint_only_the_end_is_read(tmp_path):
  with (tmp_path / "table").open("wb") as file:
    if os.name == "posix":
      file.seek(2**32)  # without blocks on the disk
    file.write(bytes.fromhex("57fb808b247547db"))
  assert report_module(str(tmp_path / "table")) is None
  (tmp_path / "short").touch()
  with pytest.raises(CommandError, match="short cannot be read as StableHLO"):
    report_module(str(tmp_path / "short"))


def test_safetensors_are_weights(tmp_path):
  write_safetensors(tmp_path / "p.safetensors", {"w": np.zeros((2, 3), np.float32)})
  report = report_weights(str(tmp_path / "p.safetensors"))
  assert report is not None and report.kind == "safetensors"
  assert [(p.name, p.shape, p.size_bytes) for p in report.parameters] == [("w", (2, 3), 24)]
