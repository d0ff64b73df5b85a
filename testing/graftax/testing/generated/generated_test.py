"""The generator itself, and samples of its cases."""

import numpy as np
import pytest

from graftax.ops_jax import supported_ops
from graftax.testing.generated.case import CaseId
from graftax.testing.generated.compare import differences
from graftax.testing.generated.deviations import DEVIATIONS
from graftax.testing.generated.draw import STYLES
from graftax.testing.generated.recipes import ops_with_recipes
from graftax.testing.generated.run import Runner, draw_case
from graftax.testing.generated.worker import answer, run_isolated

pytestmark = pytest.mark.tensorflow

# A few ops of each domain whose cases compile fast.
_SAMPLE = (
  "AddV2 Cumsum Equal GatherV2 LeakyRelu MatMul MatrixDiagV3 OneHot PadV2 ReverseSequence SegmentSum SelectV2 Softmax "
  "SparseReorder StridedSlice Sum TopKV2 Transpose"
)


@pytest.mark.parametrize("op", _SAMPLE.split())
def test_sampled_cases_equal_tensorflow(op: str):
  runner = Runner()
  answers = [answer(CaseId(op, 0, values), runner) for values in range(len(STYLES))]
  assert any(not found.rejected for found in answers)
  assert [found for found in answers if found.differences] == []


@pytest.mark.slow
def test_one_structure_of_every_eighth_op_equals_tensorflow():
  cases = [CaseId(op, 0, values) for op in ops_with_recipes()[::8] for values in range(len(STYLES))]
  assert [found for found in run_isolated(cases) if found.differences] == []


def test_an_id_draws_the_same_case_again():
  first, second = (draw_case(CaseId.parse("GatherV2/7/2")) for _ in range(2))
  assert str(first) == str(second)
  assert str(first) != str(draw_case(CaseId.parse("GatherV2/7/3")))


def test_every_recipe_draws_inputs_for_an_op_with_a_lowering():
  assert set(ops_with_recipes()) <= set(supported_ops())
  for op in ops_with_recipes():
    for structure in range(3):
      draw_case(CaseId(op, structure, 2))


def test_deviations_are_of_ops_with_recipes_and_say_why():
  for deviation in DEVIATIONS:
    assert set(deviation.ops.split()) <= set(ops_with_recipes())
    assert len(deviation.reason) > 20


def test_a_wrong_number_a_wrong_dtype_and_a_missing_nan_are_differences():
  want = np.array([1.0, np.nan, np.inf], np.float32)
  assert differences("AddV2", "value", [want.copy()], [want]) == []
  for wrong in (want * 1.001, want.astype(np.float64), want[:2], np.array([1, 0, np.inf], np.float32)):
    assert differences("AddV2", "value", [wrong], [want])
  assert differences("AddV2", "value", [np.array([1 + 2j])], [np.array([1 + 3j])])
