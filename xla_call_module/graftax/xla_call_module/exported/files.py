"""Reads the files of `jax.export`: `Exported.serialize` of every JAX since 0.4.30.

JAX promises to read a file for six months, and JAX 0.12 refuses those of JAX before 0.8. The versions of the format
only added fields, so one reader reads all of them: a missing field has its default. What was added, in the first of
the versions 0.4.30, 0.5.3, 0.6.2, 0.7.2, 0.8.2, 0.9.2, 0.10.0, 0.11.0 and 0.12.0 of JAX that has it:

| JAX | adds |
| --- | --- |
| 0.5.3 | names and auxiliary data of registered pytree nodes |
| 0.6.2 | typed random keys |
| 0.8.2 | memory spaces; the number of devices has 32 bits and another field |
| 0.9.2 | shardings with the names of mesh axes, in the place of HLO shardings |
| 0.10.0 | arrays, meshes and shardings are stored once, and referred to by number |
| 0.12.0 | the version of JAX that wrote the file |
"""

import re

from graftax.xla_call_module import errors
from graftax.xla_call_module.exported import flatbuffer
from graftax.xla_call_module.exported.fields import ExportedFields
from graftax.xla_call_module.exported.flatbuffer import Table
from graftax.xla_call_module.signature import Leaf, SavedSharding, Signature
from graftax.xla_call_module.trees import Tree, leaf_paths

__all__ = ["read"]

_KINDS = ("leaf", "none", "tuple", "list", "dict", "custom")
_DTYPES = (
  "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
  "complex64", "complex128", "bfloat16", "int4", "uint4", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
  "float8_e5m2", "float8_e5m2fnuz", "float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn",
  "key<fry>", "key<rbg>", "key<urbg>",
)  # fmt: skip
_NEWEST_FORMAT = 12
"""JAX 0.4.30 to 0.7 wrote format 2, JAX 0.8 to 0.11 format 3, and JAX 0.12 writes format 12."""
_CHECKS = ("platform", "custom_call", "shape_assertions")
_DIMENSION = re.compile(r"[\w\s+\-*^(),]{1,2000}")


def read(data: bytes, max_depth: int = 100) -> ExportedFields:
  """Returns the fields of a serialized `jax.export.Exported`.

  Args:
    data: the bytes.
    max_depth: levels of pytrees, and of gradients of gradients.

  Raises:
    DecodeError: the bytes are damaged, or something else.
    VersionError: a newer version of JAX wrote them, in a newer format.
  """
  return _exported(flatbuffer.root(data, what="a serialized jax.export.Exported", max_depth=max_depth))


def _exported(table: Table) -> ExportedFields:
  """The fields of the table: 0 format, 1 name, 2 and 4 trees, 3 and 5 arrays, 6 number of devices of old files, 7 and 8
  shardings, 9 platforms, 10 and 11 effects, 12 disabled checks, 13 module, 14 calling convention, 15 kept arguments,
  16 global constants, 17 gradient, 18 number of devices, 19 to 21 arrays, meshes and shardings that occur,
  22 to 25 which of them the arguments and results have, 26 version of JAX.
  """
  if (written := table.number(0, "u2")) > _NEWEST_FORMAT:
    raise errors.VersionError(
      f"a serialized jax.export.Exported has format {written}; expected {_NEWEST_FORMAT} at most, that of JAX 0.12."
      " Export it with an older JAX, or install a newer graftax-xla-call-module."
    )
  meshes = [_mesh(mesh) for mesh in table.tables(20)]
  shardings = [_named_sharding(sharding, meshes) for sharding in table.tables(21)]
  arrays = [_array(array) for array in table.tables(19)]
  in_tree, out_tree = _tree(_required(table, 2, "arguments")), _tree(_required(table, 4, "results"))
  if in_tree.kind != "tuple" or tuple(child.kind for child in in_tree.children) != ("tuple", "dict"):
    table.fail(f"its arguments are {str(in_tree)[:100]}; expected a pair of a tuple and a dict")
  module = table.data(13)
  if not module:
    table.fail("it has no module")
  gradient = table.table(17)
  inputs = _leaves(table, (3, 7, 22, 24), in_tree, arrays, shardings, meshes)
  outputs = _leaves(table, (5, 8, 23, 25), out_tree, arrays, shardings, meshes)
  signature = Signature(
    name=table.string(1),
    inputs=tuple(_named(inputs, _argument_paths(in_tree))),
    outputs=tuple(_named(outputs, [f"result{path}" for path in leaf_paths(out_tree)])),
    in_tree=in_tree,
    out_tree=out_tree,
    num_devices=table.number(18, "u4") or table.number(6, "u2"),
    ordered_effects=tuple(effect.string(0) for effect in table.tables(10)),
    unordered_effects=tuple(effect.string(0) for effect in table.tables(11)),
    uses_global_constants=bool(table.number(16, "u1")),
    jax_version=table.string(26) or None,
  )
  kept = table.numbers(15, "u2")
  if any(i >= len(inputs) for i in kept) or list(kept) != sorted(set(kept)):
    table.fail(f"arguments {list(kept)[:20]} of {len(inputs)} are used by its module")
  return ExportedFields(
    signature=signature,
    module=module,
    platforms=table.strings(9),
    version=table.number(14, "u2"),
    disabled_checks=tuple(_check(check) for check in table.tables(12)),
    kept=kept,
    gradient=None if gradient is None else _exported(gradient),
  )


def _required(table: Table, field: int, what: str) -> Table:
  found = table.table(field)
  return table.fail(f"it does not say what its {what} are") if found is None else found


def _tree(table: Table) -> Tree:
  kind = table.number(0, "i1")
  if not 0 <= kind < len(_KINDS):
    table.fail(f"a node of a tree has kind {kind}")
  children = tuple(_tree(child) for child in table.tables(1))
  keys = table.strings(2)
  name = _KINDS[kind]
  if (name in ("leaf", "none") and children) or (name == "dict" and not len(set(keys)) == len(keys) == len(children)):
    table.fail(f"a {name} of a tree has {len(children)} children and {len(keys)} keys")
  if name == "custom":
    return Tree("custom", children, name=table.string(3), auxdata=table.data(4))
  return Tree(name, children, keys if name == "dict" else ())  # type: ignore[arg-type]  # `name` is one of _KINDS


def _argument_paths(tree: Tree) -> list[str]:
  positional, named = tree.children
  return [*(f"args{path}" for path in leaf_paths(positional)), *(f"kwargs{path}" for path in leaf_paths(named))]


def _named(leaves: list[Leaf], paths: list[str]) -> list[Leaf]:
  return [Leaf(path, leaf.shape, leaf.dtype, leaf.sharding) for path, leaf in zip(paths, leaves, strict=True)]


def _leaves(
  table: Table,
  fields: tuple[int, int, int, int],
  tree: Tree,
  arrays: list[Leaf],
  shardings: list[SavedSharding],
  meshes: list[tuple[tuple[str, int], ...]],
) -> list[Leaf]:
  """Returns the arrays of the arguments or results.

  Args:
    table: the exported function.
    fields: of arrays, of shardings, of the numbers of arrays, and of the numbers of shardings.
    tree: has one leaf for each.
    arrays: those that the numbers name.
    shardings: those that the numbers name; 0 means that there is none.
    meshes: those that shardings name.
  """
  numbers, places = table.numbers(fields[2], "u4"), table.numbers(fields[3], "u4")
  if any(i >= len(arrays) for i in numbers) or any(i > len(shardings) for i in places):
    table.fail("an argument or result has an array or a sharding that it does not store")
  leaves = [arrays[i] for i in numbers] if numbers else [_array(array) for array in table.tables(fields[0])]
  if places:
    placed = [shardings[i - 1] if i else None for i in places]
  else:
    placed = [_sharding(sharding, meshes) for sharding in table.tables(fields[1])]
  if not len(leaves) == len(placed) == tree.num_leaves:
    table.fail(f"it has {len(leaves)} arrays and {len(placed)} shardings for {tree.num_leaves} leaves of {tree}"[:300])
  return [Leaf("", leaf.shape, leaf.dtype, place) for leaf, place in zip(leaves, placed, strict=True)]


def _array(table: Table) -> Leaf:
  if kind := table.number(0, "i1"):
    table.fail(f"an argument or result is of kind {kind}; expected an array")
  dtype = table.number(2, "i1")
  if not 0 <= dtype < len(_DTYPES):
    table.fail(f"a dtype has number {dtype}; expected one of {len(_DTYPES)}")
  return Leaf("", tuple(_dimension(table, text) for text in table.strings(1)), _DTYPES[dtype])


def _dimension(table: Table, text: str) -> int | str:
  if text.isascii() and text.isdigit() and len(text) < 19:
    return int(text)
  if not _DIMENSION.fullmatch(text) or not re.search(r"[A-Za-z_]", text):
    table.fail(f"a size is {text[:50]!r}")
  return text


_Mesh = tuple[tuple[str, int], ...]


def _mesh(table: Table) -> _Mesh:
  names, sizes = table.strings(1), table.numbers(0, "u4")
  if len(names) != len(sizes):
    table.fail(f"a mesh has {len(names)} names and {len(sizes)} sizes of axes")
  return tuple(zip(names, sizes, strict=True))


def _named_sharding(table: Table, meshes: list[_Mesh]) -> SavedSharding:
  number, own = table.number(3, "u4"), table.table(0)
  if number < len(meshes):
    mesh = meshes[number]
  else:
    mesh = _mesh(_required(table, 0, "meshes")) if own is None else _mesh(own)
  spec = table.table(1)
  entries = () if spec is None else tuple(entry.strings(0) or None for entry in spec.tables(0))
  known = {name for name, _ in mesh}
  if unknown := {name for entry in entries for name in entry or ()} - known:
    table.fail(f"a sharding names the axes {sorted(unknown)[:5]} of the mesh {sorted(known)[:5]}")
  return SavedSharding(mesh, entries, table.string(2) or None)


def _sharding(table: Table, meshes: list[_Mesh]) -> SavedSharding | None:
  named = table.table(2)
  if named is not None:
    return _named_sharding(named, meshes)
  return SavedSharding(hlo=table.data(1)) if table.has(1) else None


def _check(table: Table) -> str:
  kind = table.number(0, "i1")
  if not 0 <= kind < len(_CHECKS):
    table.fail(f"a disabled check has kind {kind}")
  return f"custom_call:{table.string(1)}" if _CHECKS[kind] == "custom_call" else _CHECKS[kind]
