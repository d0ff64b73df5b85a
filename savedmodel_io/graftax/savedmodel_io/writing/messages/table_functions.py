"""The functions that make, fill, save, restore and delete a lookup table in a loaded SavedModel."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from graftax.convert import LookupTable, StringTable
from graftax.graphdef_ir import (
  AttrValue,
  DType,
  Function,
  Node,
  Parameter,
  PartialShape,
  Result,
  Tensor,
  TensorRef,
)
from graftax.graphdef_ir.op_traits import traits_of
from graftax.savedmodel_io.errors import UnsupportedSavedModelError

__all__ = ["TableFunctions", "table_functions", "table_key"]

_SCALAR = PartialShape(())
_HANDLE = Parameter("table", DType.RESOURCE, _SCALAR)
_ONE = Node("one", "Const", attrs={"dtype": DType.INT32, "value": Tensor.from_numpy(np.int32(1))})
_DONE = (Result("done", TensorRef(_ONE.name), DType.INT32),)


@dataclass(frozen=True, slots=True)
class TableFunctions:
  """A table of TensorFlow, and the functions of its object.

  Attributes:
    maker: the node that makes the empty table.
    dtypes: element types of the keys and the values.
    create: takes nothing, returns the handle.
    initialize: of a constant table, takes the handle, the keys and the values; of one that can change, does nothing.
    destroy: takes nothing and does nothing: the table is deleted with its handle.
    save: of a table that can change, takes the handle and returns the keys and the values; None for a constant one.
    restore: of a table that can change, takes the keys, the values and the handle; None for a constant one.
  """

  maker: Node
  dtypes: tuple[DType, DType]
  create: Function
  initialize: Function
  destroy: Function
  save: Function | None = None
  restore: Function | None = None


def table_key(table: LookupTable | StringTable) -> Hashable:
  """Returns what is equal for tables of one name with the same contents."""
  arrays = (table.keys, table.values)
  return (table.name, table.maker, *(array.dtype.name for array in arrays), *(repr(array.tolist()) for array in arrays))


def table_functions(table: LookupTable | StringTable, number: int) -> TableFunctions:
  """Returns the functions of a table; `number` tells it from the other ones of the model.

  Raises:
    UnsupportedSavedModelError: keys are not scalars, the values of a constant table are not scalars, or the table is of
      another kind, such as a DenseHashTable.
  """
  traits = traits_of(table.maker)
  is_mutable = traits.makes in ("table", "anonymous_table") and not traits.is_constant_table
  if traits.marks_buckets or not (is_mutable or traits.is_constant_table):
    raise UnsupportedSavedModelError(
      f"table {table.name!r} is made by {table.maker or 'an op that is not known'}; only hash tables and mutable hash "
      "tables can be saved. Copy the model with SavedModel.save, or leave out the functions that use the table."
    )
  if table.keys.ndim != 1 or table.values.ndim != 1 and not is_mutable:
    raise UnsupportedSavedModelError(
      f"table {table.name!r} has keys of shape {list(table.keys.shape)} and values of shape "
      f"{list(table.values.shape)}; only tables from scalars to scalars can be saved"
    )
  dtypes = DType.from_numpy(table.keys.dtype), DType.from_numpy(table.values.dtype)
  prefix = f"__inference_table_{number}"
  maker = _maker(table, dtypes, number, is_mutable)
  create = Function(
    f"{prefix}_create",
    (),
    (Result("handle", TensorRef(maker.name), DType.RESOURCE),),
    (maker,),
    control_results=(maker.name,),
    is_stateful=True,
  )
  contents = tuple(Parameter(name, dtype) for name, dtype in zip(("keys", "values"), dtypes, strict=True))
  return TableFunctions(
    maker,
    dtypes,
    create=create,
    initialize=_nothing(f"{prefix}_initialize")
    if is_mutable
    else _filling(f"{prefix}_initialize", (_HANDLE, *contents), _DONE),
    destroy=_nothing(f"{prefix}_destroy"),
    save=_saving(f"{prefix}_save", dtypes) if is_mutable else None,
    restore=_filling(f"{prefix}_restore", (*contents, _HANDLE), ()) if is_mutable else None,
  )


def _maker(table: LookupTable | StringTable, dtypes: tuple[DType, DType], number: int, is_mutable: bool) -> Node:
  attrs: dict[str, AttrValue] = {
    "key_dtype": dtypes[0],
    "value_dtype": dtypes[1],
    "shared_name": f"graftax_table_{number}".encode(),
  }
  if not is_mutable:
    return Node("hash_table", "HashTableV2", attrs=attrs)
  if table.values.ndim == 1:
    return Node("hash_table", "MutableHashTableV2", attrs=attrs)
  return Node(
    "hash_table", "MutableHashTableOfTensorsV2", attrs=attrs | {"value_shape": PartialShape(table.values.shape[1:])}
  )


def _nothing(name: str) -> Function:
  return Function(name, (), _DONE, (_ONE,))


def _filling(name: str, parameters: tuple[Parameter, ...], results: tuple[Result, ...]) -> Function:
  """Returns a function that replaces the contents of a table by `keys` and `values`."""
  dtypes = {parameter.name: parameter.dtype for parameter in parameters}
  fill = Node(
    "fill",
    "LookupTableImportV2",
    tuple(map(TensorRef, (_HANDLE.name, "keys", "values"))),
    attrs={"Tin": dtypes["keys"], "Tout": dtypes["values"]},
  )
  nodes = (fill, _ONE) if results else (fill,)
  return Function(name, parameters, results, nodes, control_results=(fill.name,), is_stateful=True)


def _saving(name: str, dtypes: tuple[DType, DType]) -> Function:
  """Returns a function from a table to its keys and values."""
  attrs: dict[str, AttrValue] = {"Tkeys": dtypes[0], "Tvalues": dtypes[1]}
  export = Node("export", "LookupTableExportV2", (TensorRef(_HANDLE.name),), attrs=attrs)
  results = (
    Result("keys", TensorRef(export.name, 0), dtypes[0]),
    Result("values", TensorRef(export.name, 1), dtypes[1]),
  )
  return Function(name, (_HANDLE,), results, (export,), control_results=(export.name,), is_stateful=True)
