from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import DType, PartialShape
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.variables.variables import VariableInfo, Variables, with_unique_names

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"


def _infos(*names: str) -> list[VariableInfo]:
  return [
    VariableInfo("", name, DType.FLOAT, PartialShape(()), True, path=("at", str(i)), node_id=i)
    for i, name in enumerate(names)
  ]


def _names(*names: str, first: tuple[int, ...] = ()) -> list[str]:
  return [info.name for info in with_unique_names(_infos(*names), first=first)]


def test_names_that_differ_stay_as_they_are():
  assert _names("b", "a") == ["b", "a"]


def test_equal_names_are_counted():
  assert _names("w", "w", "b", "w") == ["w", "w_1", "b", "w_2"]


def test_the_variable_that_functions_use_keeps_the_plain_name():
  assert _names("w", "w", "w", first=(2,)) == ["w_1", "w_2", "w"]


def test_numbers_pass_over_names_that_are_taken():
  assert _names("w", "w", "w_1", "w") == ["w", "w_2", "w_1", "w_3"]
  assert _names("w_1", "w_1", "w", "w") == ["w_1", "w_1_1", "w", "w_2"]


def test_a_variable_without_a_name_takes_its_path():
  assert _names("", "at/0") == ["at/0_1", "at/0"]


_A = VariableInfo("a", "a", DType.INT32, PartialShape((None, 3)), True, checkpoint_key="a")


@pytest.fixture
def reader():
  return CheckpointReader(_DATA / "sharded/ckpt")


def test_values_are_views_of_the_checkpoint(reader):
  variables = Variables([_A], reader)
  assert variables["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
  assert not variables["a"].flags.owndata
  assert variables.read("a", (slice(0, 1), slice(1, 3))).tolist() == [[1, 2]]
  assert list(variables) == ["a"] and len(variables) == 1 and "a" in variables


def test_a_variable_without_a_value_is_known_but_not_listed(reader):
  variables = Variables([_A, replace(_A, name="lost", checkpoint_key=None)], reader)
  assert list(variables) == ["a"] and "lost" not in variables
  assert variables.info("lost").dtype == DType.INT32
  with pytest.raises(DamagedSavedModelError, match="variable 'lost': the checkpoint holds no value"):
    variables["lost"]


@pytest.mark.parametrize(
  "change", [{"dtype": DType.FLOAT}, {"shape": PartialShape((2, 4))}, {"shape": PartialShape(())}]
)
def test_a_checkpoint_of_another_model_is_found_at_once(reader, change):
  with pytest.raises(DamagedSavedModelError, match=r"checkpoint's tensor 'a' is int32 \[2, 3\].*different models"):
    Variables([replace(_A, **change)], reader)


def test_reference_types_are_values(reader):
  assert Variables([replace(_A, dtype=DType.INT32_REF)], reader)["a"].dtype == np.int32


def test_a_key_that_the_checkpoint_lacks_is_found_at_once(reader):
  with pytest.raises(DamagedSavedModelError, match="variable 'a': the checkpoint has no tensor 'gone'"):
    Variables([replace(_A, checkpoint_key="gone")], reader)
