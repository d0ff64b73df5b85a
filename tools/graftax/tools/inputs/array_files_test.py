import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.tools.errors import ArrayFileError
from graftax.tools.inputs.array_files import check_output_path, fit_to_spec, read_inputs, save_outputs


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  np.save("x.npy", np.arange(3))
  np.savez("xy.npz", x=np.arange(3), y=np.ones(2))
  np.savez("one.npz", only=np.arange(4))
  return tmp_path


@pytest.mark.parametrize(
  ("arguments", "names"),
  [
    (["x=x.npy"], {"x": 3}),
    (["xy.npz"], {"x": 3, "y": 2}),
    (["a=xy.npz:y"], {"a": 2}),
    (["xy.npz:y"], {"y": 2}),
    (["y=xy.npz"], {"y": 2}),
    (["a=one.npz"], {"a": 4}),
    (["a=x.npy", "b=xy.npz:y"], {"a": 3, "b": 2}),
    ([], {}),
  ],
)
def test_inputs_come_from_all_spellings(folder, arguments, names):
  assert {name: array.size for name, array in read_inputs(arguments).items()} == names


def test_strings_come_from_lines_and_whole_files(folder):
  (folder / "lines.txt").write_text("one\ntwo\n")
  (folder / "image.jpg").write_bytes(b"\xff\xd8\n")
  read = read_inputs(["text=lines.txt", "image=image.jpg", "x=x.npy"], text=["text", "image"])
  vector, scalar, column = (TensorSpec(PartialShape(shape), DType.STRING) for shape in ((None,), (), (None, 1)))
  assert fit_to_spec("text", read["text"], vector)[0].tolist() == [b"one", b"two"]
  assert fit_to_spec("text", read["text"], column)[0].tolist() == [[b"one"], [b"two"]]
  assert fit_to_spec("image", read["image"], scalar)[0].item() == b"\xff\xd8\n"
  with pytest.raises(ArrayFileError, match=r"strings of shape \[2\]; expected string\[\]"):
    fit_to_spec("text", read["text"], scalar)
  with pytest.raises(ArrayFileError, match="the file holds int; expected strings"):
    fit_to_spec("text", read["x"], vector)


def test_strings_are_saved_unless_they_end_with_zero(folder):
  save_outputs(folder / "s.npy", {"s": np.array([b"a", b""], object)})
  assert np.load(folder / "s.npy").tolist() == [b"a", b""]
  with pytest.raises(ArrayFileError, match="ends with a zero byte"):
    save_outputs(folder / "t.npy", {"t": np.array([b"a\0"], object)})


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["x=missing.npy"], "no such file 'missing.npy'"),
    (["x=text.npy"], "not a .npy or .npz file of numbers"),
    (["x=pickled.npy"], "not a .npy or .npz file of numbers"),
    (["x=empty.npy"], "not a .npy or .npz file of numbers"),
    (["x=text.npy"], r"begins with b'1 2 3'. Write one with numpy.save"),
    (["x=pickled.npy"], "holds Python objects, which are not read"),
    (["x=empty.npy"], "it is empty"),
    (["x.npy"], "expected NAME=x.npy"),
    (["xy.npz:z"], r"no array 'z'; it has \['x', 'y'\]"),
    (["x=x.npy", "xy.npz"], "'x' is given twice"),
  ],
)
def test_what_is_no_input_raises(folder, arguments, message):
  (folder / "text.npy").write_text("1 2 3")
  (folder / "empty.npy").write_bytes(b"")
  np.save("pickled.npy", np.array([{}]), allow_pickle=True)
  with pytest.raises(ArrayFileError, match=message) as e:
    read_inputs(arguments)
  assert "trust" not in str(e.value)


def test_arrays_are_fitted_to_the_dtype_with_a_remark():
  spec = TensorSpec(PartialShape((None,)), DType.FLOAT)
  same, remark = fit_to_spec("x", np.zeros(2, np.float32), spec)
  assert (same.dtype, remark) == (np.float32, None)
  fitted, remark = fit_to_spec("x", np.zeros(2, np.float64), spec)
  assert (fitted.dtype, remark) == (np.float32, "input 'x': float64 was converted to float32")


def test_arrays_that_do_not_fit_raise():
  with pytest.raises(ArrayFileError, match=r"shape \[2, 2\]; expected float32\[\?\]"):
    fit_to_spec("x", np.zeros((2, 2), np.float32), TensorSpec(PartialShape((None,)), DType.FLOAT))
  with pytest.raises(ArrayFileError, match="float64, which does not turn into int32"):
    fit_to_spec("x", np.zeros(2), TensorSpec(PartialShape((None,)), DType.INT32))
  with pytest.raises(ArrayFileError, match="the file holds float; expected strings"):
    fit_to_spec("x", np.zeros(2), TensorSpec(PartialShape((None,)), DType.STRING))


def test_outputs_are_saved_under_their_names(folder):
  assert save_outputs(folder / "y.npz", {"file": np.arange(2), "b c": np.float32(1.5)}) == []
  with np.load(folder / "y.npz") as saved:
    assert saved["file"].tolist() == [0, 1]
    assert saved["b c"].dtype == np.float32


def test_types_that_numpy_cannot_save_are_widened(folder):
  outputs = {
    "a": np.array([1.5, 3.0], jnp.bfloat16),
    "b": np.array([-8, 7], jnp.int4),
    "c": np.array([0, 15], jnp.uint4),
  }
  remarks = save_outputs(folder / "y.npz", outputs)
  assert remarks[0] == "output 'a': bfloat16 was saved as float32"
  with np.load(folder / "y.npz") as saved:
    assert saved["a"].dtype == np.float32
    for name, value in outputs.items():
      np.testing.assert_array_equal(saved[name], value.astype(np.float32))


def test_one_output_may_go_to_npy(folder):
  check_output_path(folder / "y.npy", ["y"])
  save_outputs(folder / "y.npy", {"y": np.arange(2)})
  assert np.load(folder / "y.npy").tolist() == [0, 1]
  with pytest.raises(ArrayFileError, match="holds one array"):
    check_output_path(folder / "y.npy", ["y", "z"])
  with pytest.raises(ArrayFileError, match="unknown suffix '.csv'"):
    check_output_path(folder / "y.csv", ["y"])
