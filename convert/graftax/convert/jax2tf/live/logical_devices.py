"""Annotations that split tensors over logical devices."""

import math
from collections.abc import Sequence

import numpy as np

from graftax.convert._tensorflow import TfTensor, import_xla_sharding

__all__ = ["split_to_logical_devices"]


def split_to_logical_devices(tensor: TfTensor, partition_dimensions: Sequence[int] | None) -> TfTensor:
  """Returns a tensor with an XlaSharding annotation, for partitioned computations on several devices.

  Args:
    tensor: a tensor of a graph.
    partition_dimensions: into how many parts each dimension is split. The product is the number of devices of a
      replica. None replicates the tensor.
  """
  sharding = import_xla_sharding()
  if partition_dimensions is None:
    return sharding.replicate(tensor, use_sharding_op=True)
  devices = np.arange(math.prod(partition_dimensions)).reshape(partition_dimensions)
  return sharding.tile(tensor, devices, use_sharding_op=True)
