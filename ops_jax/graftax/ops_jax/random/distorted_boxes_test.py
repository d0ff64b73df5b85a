"""Random crops around objects: their distribution against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import lowering
from graftax.testing.raw_ops import NodeContext, raw_op

pytestmark = pytest.mark.tensorflow

_BOXES = np.array([[[0.1, 0.2, 0.6, 0.7], [0.5, 0.5, 0.9, 0.8]]], np.float32)
_NUM = 600


@pytest.mark.slow  # TensorFlow draws one crop at a time; finds wrong distributions of crops
@pytest.mark.parametrize(
  ("size", "attrs"),
  [
    ((40, 60, 3), {"aspect_ratio_range": [0.5, 2.0], "area_range": [0.1, 0.8]}),
    ((60, 20, 3), {"aspect_ratio_range": [0.75, 1.33], "area_range": [0.05, 1.0]}),
    ((30, 30, 1), {"aspect_ratio_range": [0.9, 1.1], "area_range": [0.3, 0.4], "max_attempts": 2}),
  ],
)
def test_crops_have_the_distribution_of_tensorflow(size, attrs):
  stats = pytest.importorskip("scipy.stats")
  inputs = [np.array(size, np.int32), _BOXES, np.array(0.5, np.float32)]
  case = raw_op("SampleDistortedBoundingBoxV2", inputs, attrs)
  # With seeds TensorFlow draws the same crops in each run, so that no run is unlucky.
  seeded = raw_op("SampleDistortedBoundingBoxV2", inputs, {**attrs, "seed": 3, "seed2": 4})
  keys = jax.random.split(jax.random.key(0), _NUM)
  begin, extent, box = jax.device_get(
    jax.jit(jax.vmap(lambda key: case.run(*inputs, context=NodeContext(key=key))))(keys)
  )
  wanted = [seeded.oracle(seeded.inputs) for _ in range(_NUM)]
  expected = [np.array([np.asarray(draw[i]) for draw in wanted]) for i in range(3)]
  assert (begin.dtype, extent.dtype, box.shape) == (np.int32, np.int32, (_NUM, 1, 1, 4))
  np.testing.assert_array_equal(begin[:, 2], expected[0][:, 2])
  np.testing.assert_array_equal(extent[:, 2], expected[1][:, 2])
  for got, want in ((begin, expected[0]), (extent, expected[1])):
    for axis in (0, 1):
      # The exact probability overflows for some pairs of 600 draws, which warns.
      assert stats.ks_2samp(got[:, axis], want[:, axis], method="asymp").pvalue > 1e-3
  rows = np.concatenate([begin[:, :2], begin[:, :2] + extent[:, :2]], 1) / np.array(size[:2] * 2, np.float32)
  np.testing.assert_allclose(box[:, 0, 0], rows, rtol=1e-6)


def test_the_whole_image_is_the_object_only_if_allowed():
  run = lowering("SampleDistortedBoundingBox").function
  context, size = NodeContext(key=jax.random.key(1)), np.array([9, 9, 3], np.int64)
  with jax.enable_x64(True):
    begin, _, _ = run(context, size, np.zeros((1, 0, 4), np.float32), use_image_if_no_bounding_boxes=True)
  assert begin.dtype == np.int64
  with pytest.raises(GraftaxError, match="no bounding boxes"):
    run(context, size, np.zeros((1, 0, 4), np.float32))
