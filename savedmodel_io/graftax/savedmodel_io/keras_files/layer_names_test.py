"""Names of weights that files number: quantized layers, layers that others hold, and layers in wrappers."""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest

from graftax.savedmodel_io import read_weights

_F = np.zeros(2, np.float32)
_I8 = np.zeros(2, np.int8)


def _names(tmp_path, weights, layers=()):
  """Returns the names in a `.keras` file with groups `{path: (name, arrays)}` and layers `(class, config)`."""
  data = io.BytesIO()
  with h5py.File(data, "w") as file:
    for path, (name, arrays) in weights.items():
      group = file.create_group(f"{path}/vars")
      if name is not None:
        group.attrs["name"] = name
      for i, array in enumerate(arrays):
        group[str(i)] = array
  config = {"config": {"layers": [{"class_name": kind, "config": own} for kind, own in layers]}}
  with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
    archive.writestr("config.json", json.dumps(config))
    archive.writestr("model.weights.h5", data.getvalue())
  return sorted(read_weights(tmp_path / "m.keras"))


@pytest.mark.parametrize(
  "kind, arrays, expected",
  [
    ("dense", [_I8, _F], "kernel kernel_scale"),
    ("einsum_dense", [_I8, _F, _F], "bias kernel kernel_scale"),
    ("dense", [_I8, _F, _F, _F], "g_idx kernel kernel_scale kernel_zero"),
    ("embedding", [_I8, _F], "embeddings embeddings_scale"),
    ("dense", [_F, _F], "bias kernel"),
    ("conv2d", [_I8, _F], "0 1"),
  ],
)
def test_integers_in_the_first_weight_mean_a_quantized_layer(tmp_path, kind, arrays, expected):
  assert _names(tmp_path, {f"layers/{kind}": ("q", arrays)}) == [f"q/{name}" for name in expected.split()]


def test_a_layer_at_an_attribute_is_known_by_its_own_name(tmp_path):
  inner = {"layers/block/first": ("dense_7", [_F, _F]), "layers/block/second": ("mine", [_F, _F])}
  assert _names(tmp_path, {"layers/block": ("block", []), **inner}) == [
    *("block/dense_7/bias", "block/dense_7/kernel"),
    *("block/mine/0", "block/mine/1"),
  ]


def test_layers_in_wrappers_are_known_by_the_configuration(tmp_path):
  lstm, dense = {"class_name": "LSTM", "config": {"name": "l"}}, {"class_name": "Dense", "config": {"name": "d"}}
  names = _names(
    tmp_path,
    {
      "layers/bidirectional/forward_layer/cell": (None, [_F, _F, _F]),
      "layers/bidirectional/backward_layer/cell": (None, [_F, _F, _F]),
      "layers/time_distributed/layer": (None, [_F, _F]),
    },
    [("Bidirectional", {"name": "bi", "layer": lstm}), ("TimeDistributed", {"name": "td", "layer": dense})],
  )
  assert names == [
    *(f"bi/backward_layer/cell/{name}" for name in ("bias", "kernel", "recurrent_kernel")),
    *(f"bi/forward_layer/cell/{name}" for name in ("bias", "kernel", "recurrent_kernel")),
    *("td/layer/bias", "td/layer/kernel"),
  ]
