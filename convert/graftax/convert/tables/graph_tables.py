"""Turns lookup tables into constants, also tables that a graph creates and fills itself."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from graftax.convert.evaluation.known_values import known_values
from graftax.convert.program import Capture, Program, StringTable, UnavailableCapture, UnsafeCapture
from graftax.convert.tables.text_files import TableFileError, read_table_file
from graftax.graphdef_ir import (
  DType,
  Function,
  FunctionLibrary,
  GraftaxError,
  Graph,
  ModelFolder,
  Node,
  OpSignatures,
  Parameter,
  TensorRef,
  UnsafeFileError,
  traits_of,
)
from graftax.ops_jax import InvalidInputError, LookupTable, ResourceHandle

__all__ = [
  "capture_tables",
  "filled_table",
  "fills_of",
  "graph_filled_tables",
  "table_capture",
  "table_dtypes",
  "table_makers",
  "with_tables",
]

_NO_FILES = ModelFolder()


def table_capture(
  name: str, keys: np.ndarray, values: np.ndarray, maker: str = "HashTableV2"
) -> LookupTable | UnavailableCapture:
  """Returns a table as a constant, or as a `StringTable`, which JAX cannot hold.

  Args:
    name: the name of the table in messages.
    keys: `[n, ...]`.
    values: `[n, ...]`.
    maker: the op that makes the table.

  Raises:
    InvalidInputError: there are not as many keys as values.

  Example:
    >>> table_capture("ages", np.array([1, 2]), np.array([30.0, 40.0])).maker
    'HashTableV2'
  """
  if not keys.ndim or not values.ndim or len(keys) != len(values):
    raise InvalidInputError(
      f"table {name!r}: keys of shape {keys.shape} and values of shape {values.shape}; expected as many keys as values."
    )
  strings = [what for what, array in (("keys", keys), ("values", values)) if array.dtype == object]
  if strings:
    return StringTable(f"table {name!r} has string {' and '.join(strings)}", name, keys, values, maker)
  return LookupTable(name, keys=keys, values=values, maker=maker)


def filled_table(
  name: str,
  initializer: Function,
  captures: Sequence[Capture],
  library: FunctionLibrary,
  signatures: OpSignatures,
  maker: str = "HashTableV2",
  dtypes: tuple[DType, DType] = (DType.STRING, DType.INT64),
  folder: ModelFolder = _NO_FILES,
) -> LookupTable | UnavailableCapture:
  """Returns the table that a function fills, with the keys and values that the function computes or reads from a file.

  Args:
    name: the name of the table in messages.
    initializer: a function without inputs that fills this table and no other one.
    captures: the values that the function closes over.
    library: the functions that it calls.
    signatures: signatures of all ops.
    maker: the op that makes the table.
    dtypes: the dtypes of keys and values, for a table that is filled from a file.
    folder: the files that may be read.
  """
  fills = [node for node in initializer.nodes if traits_of(node.op).fills]
  return _filled(name, maker, dtypes, fills, _Surroundings(initializer, captures, library, signatures, folder))


def graph_filled_tables(graph: Graph, folder: ModelFolder) -> dict[str, LookupTable | UnavailableCapture]:
  """Returns, by the name of the node that creates it, each table that nodes of the graph fill.

  Tables that only an initializer fills are among them even if the graph has none: nothing can be found in them.

  Args:
    graph: the graph.
    folder: the files that may be read.
  """
  function = Function("graph", (), (), graph.nodes)
  tables, _ = _tables_of(_Surroundings(function, (), graph.library, graph.signatures, folder))
  return tables


def with_tables(program: Program) -> Program:
  """Returns the program with each table that its function creates turned into a capture.

  Tables that can change and that the function does not fill are left as they are.
  """
  tables, filling = _tables_of(
    _Surroundings(program.function, program.captures, program.library, program.signatures, program.folder)
  )
  return capture_tables(program, tables, filling)


def table_makers(function: Function) -> list[Node]:
  """Returns the nodes of a function that create tables."""
  return [node for node in function.nodes if traits_of(node.op).makes == "table"]


def capture_tables(program: Program, tables: Mapping[str, Capture], filling: Collection[str] = ()) -> Program:
  """Returns the program with captures in place of nodes that create tables.

  Args:
    program: the program.
    tables: the captures by the names of the nodes.
    filling: the names of nodes that fill these tables; they are left out.
  """
  if not tables:
    return program
  function = program.function
  taken = {node.name for node in function.nodes} | {parameter.name for parameter in function.parameters}
  parameters = {name: _free(f"{name}/table", taken) for name in tables}
  renamed = {TensorRef(name): TensorRef(parameter) for name, parameter in parameters.items()}
  nodes = tuple(
    dataclasses.replace(
      node,
      inputs=tuple(renamed.get(ref, ref) for ref in node.inputs),
      control_inputs=tuple(c for c in node.control_inputs if c not in tables and c not in filling),
    )
    for node in function.nodes
    if node.name not in tables and node.name not in filling
  )
  results = tuple(dataclasses.replace(r, ref=renamed.get(r.ref, r.ref)) for r in function.results)
  made = tuple(Parameter(parameter, DType.RESOURCE) for parameter in parameters.values())
  control_results = tuple(name for name in function.control_results if name not in filling and name not in tables)
  return dataclasses.replace(
    program,
    function=dataclasses.replace(
      function, parameters=(*function.parameters, *made), results=results, nodes=nodes, control_results=control_results
    ),
    captures=(*program.captures, *tables.values()),
  )


def fills_of(maker: Node, function: Function) -> list[Node]:
  """Returns the nodes of a function that fill the table that one of its nodes creates."""
  handles = {TensorRef(maker.name)}
  for node in function.nodes:
    if traits_of(node.op).is_alias:
      handles.update(TensorRef(node.name, i) for i, ref in enumerate(node.inputs) if ref in handles)
  return [node for node in function.nodes if traits_of(node.op).fills and node.inputs[0] in handles]


def table_dtypes(maker: Node) -> tuple[DType, DType]:
  """Returns the dtypes of keys and values of the table that a node makes."""
  found = (maker.attrs.get("key_dtype"), maker.attrs.get("value_dtype"))
  key, value = (dtype if isinstance(dtype, DType) else DType.STRING for dtype in found)
  return key, value


@dataclasses.dataclass(frozen=True, slots=True)
class _Surroundings:
  """A function that fills tables, and what is needed to compute their contents.

  Attributes:
    function: the function.
    captures: the values that it closes over.
    library: the functions that it calls.
    signatures: signatures of all ops.
    folder: the files that may be read.
  """

  function: Function
  captures: Sequence[Capture]
  library: FunctionLibrary
  signatures: OpSignatures
  folder: ModelFolder


def _tables_of(surroundings: _Surroundings) -> tuple[dict[str, LookupTable | UnavailableCapture], set[str]]:
  """Returns tables by the names of the nodes that create them, and the names of the nodes that fill tables."""
  makers = table_makers(surroundings.function)
  fills = {maker.name: fills_of(maker, surroundings.function) for maker in makers}
  tables = {
    maker.name: _filled(maker.name, maker.op, table_dtypes(maker), fills[maker.name], surroundings)
    for maker in makers
    if fills[maker.name] or traits_of(maker.op).is_constant_table
  }
  return tables, {node.name for nodes in fills.values() for node in nodes}


def _filled(
  name: str, maker: str, dtypes: tuple[DType, DType], fills: Sequence[Node], surroundings: _Surroundings
) -> LookupTable | UnavailableCapture:
  if not fills:
    return UnavailableCapture(
      f"table {name!r} is not filled in this graph; a frozen graph has a table's initializer only if that was among "
      "the nodes to keep"
    )
  if len(fills) != 1:
    return UnavailableCapture(f"table {name!r} is filled from {len(fills)} places")
  # The table does not exist yet, so its handle is only a name.
  bound = [ResourceHandle(name, "table") if isinstance(c, UnavailableCapture) else c for c in surroundings.captures]
  try:
    contents = known_values(
      surroundings.function, fills[0].inputs[1:], bound, surroundings.library, surroundings.signatures
    )
    if traits_of(fills[0].op).fills == "file":
      contents = list(read_table_file(fills[0], contents[0], dtypes, surroundings.folder))
    return table_capture(name, contents[0], contents[1], maker)
  except UnsafeFileError as e:
    return UnsafeCapture(f"table {name!r} cannot be filled: {e}", UnsafeFileError(f"table {name!r}: {e}"))
  except TableFileError as e:
    return UnavailableCapture(f"table {name!r} cannot be filled: {e}")
  except GraftaxError as e:
    return UnavailableCapture(
      f"table {name!r} is filled with values that cannot be computed during conversion ({_first_line(e)})"
    )


def _first_line(error: Exception) -> str:
  return str(error).partition("\n")[0]


def _free(name: str, taken: set[str]) -> str:
  while name in taken:
    name += "_"
  taken.add(name)
  return name
