"""The functions that make, fill and delete a lookup table in a loaded SavedModel."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from graftax.convert import LookupTable, StringTable
from graftax.graphdef_ir import DType, Function, Node, Parameter, PartialShape, Result, Tensor, TensorRef
from graftax.savedmodel_io.errors import UnsupportedSavedModelError

__all__ = ["TableFunctions", "table_functions", "table_key"]

_SCALAR = PartialShape(())


@dataclass(frozen=True, slots=True)
class TableFunctions:
  """A table of TensorFlow that cannot be changed, and the functions of its object.

  Attributes:
    maker: the node that makes the empty table.
    key_dtype: element type of the keys.
    value_dtype: element type of the values.
    create: takes nothing, returns the handle.
    initialize: takes the handle, the keys and the values.
    destroy: takes nothing and does nothing: the table is deleted with its handle.
  """

  maker: Node
  key_dtype: DType
  value_dtype: DType
  create: Function
  initialize: Function
  destroy: Function


def table_key(table: LookupTable | StringTable) -> Hashable:
  """Returns what is equal for tables of one name with the same contents."""
  arrays = (table.keys, table.values)
  return (table.name, *(array.dtype.name for array in arrays), *(repr(array.tolist()) for array in arrays))


def table_functions(table: LookupTable | StringTable, number: int) -> TableFunctions:
  """Returns the functions of a table; `number` tells it from the other ones of the model.

  Raises:
    UnsupportedSavedModelError: keys or values are not scalars.
  """
  if table.keys.ndim != 1 or table.values.ndim != 1:
    raise UnsupportedSavedModelError(
      f"table {table.name!r} has keys of shape {list(table.keys.shape)} and values of shape "
      f"{list(table.values.shape)}; only tables from scalars to scalars can be saved"
    )
  key_dtype, value_dtype = DType.from_numpy(table.keys.dtype), DType.from_numpy(table.values.dtype)
  prefix = f"__inference_table_{number}"
  maker = Node(
    "hash_table",
    "HashTableV2",
    attrs={"key_dtype": key_dtype, "value_dtype": value_dtype, "shared_name": f"graftax_table_{number}".encode()},
  )
  handle = Parameter("table", DType.RESOURCE, _SCALAR)
  contents = tuple(Parameter(name, d) for name, d in (("keys", key_dtype), ("values", value_dtype)))
  fill = Node(
    "fill",
    "LookupTableImportV2",
    tuple(TensorRef(p.name) for p in (handle, *contents)),
    attrs={"Tin": key_dtype, "Tout": value_dtype},
  )
  one = Node("one", "Const", attrs={"dtype": DType.INT32, "value": Tensor.from_numpy(np.int32(1))})
  done = (Result("done", TensorRef("one"), DType.INT32),)
  return TableFunctions(
    maker,
    key_dtype,
    value_dtype,
    create=Function(
      f"{prefix}_create",
      (),
      (Result("handle", TensorRef(maker.name), DType.RESOURCE),),
      (maker,),
      control_results=(maker.name,),
      is_stateful=True,
    ),
    initialize=Function(
      f"{prefix}_initialize", (handle, *contents), done, (fill, one), control_results=("fill",), is_stateful=True
    ),
    destroy=Function(f"{prefix}_destroy", (), done, (one,)),
  )
