"""Nodes that convert integers below 8 bits at the boundary of a converted function.

TensorFlow's XLA misreads such integers if a function that it compiles takes, captures or returns them
(`jit_compile=True`), in functions that have nothing to do with JAX too: XLA packs them, and TensorFlow does not. A
DeepCopy beside each conversion, which XLA cannot compile, makes that an error of TensorFlow in place of a wrong number.
The name of the node says what to write.
"""

from collections.abc import Sequence

from graftax.graphdef_ir import DType, Node, TensorRef, TensorSpec

__all__ = ["casts", "casts_from_bytes", "casts_to_bytes", "copy_name"]


def casts(
  refs: Sequence[TensorRef], before: Sequence[TensorSpec], after: Sequence[TensorSpec], name: str
) -> tuple[tuple[Node, ...], tuple[TensorRef, ...]]:
  """Returns nodes that convert tensors to other dtypes, and the converted tensors.

  Args:
    refs: the tensors.
    before: their dtypes.
    after: the dtypes of the results. A tensor that has its dtype already needs no node.
    name: the beginning of the names of the nodes.
  """
  nodes = {
    i: Node(f"{name}_{i}", "Cast", (ref,), attrs={"SrcT": old.dtype, "DstT": new.dtype})
    for i, (ref, old, new) in enumerate(zip(refs, before, after, strict=True))
    if old.dtype != new.dtype
  }
  return tuple(nodes.values()), tuple(TensorRef(nodes[i].name) if i in nodes else ref for i, ref in enumerate(refs))


def casts_to_bytes(
  refs: Sequence[TensorRef], before: Sequence[TensorSpec], after: Sequence[TensorSpec], name: str
) -> tuple[tuple[Node, ...], tuple[TensorRef, ...]]:
  """Returns nodes that convert integers below 8 bits to whole bytes, unless XLA compiles them; see `casts`."""
  cast, given = casts(refs, before, after, name)
  copied, found = _copies(given, before, after, name)
  return (*cast, *copied), found


def casts_from_bytes(
  refs: Sequence[TensorRef], before: Sequence[TensorSpec], after: Sequence[TensorSpec], name: str
) -> tuple[tuple[Node, ...], tuple[TensorRef, ...]]:
  """Returns nodes that convert whole bytes to integers below 8 bits, unless XLA compiles them; see `casts`."""
  copied, given = _copies(refs, after, before, name)
  cast, found = casts(given, before, after, name)
  return (*copied, *cast), found


def copy_name(short: DType, whole: DType) -> str:
  """Returns the name of a copy, which TensorFlow's error contains if it compiles the function."""
  return f"jit_compile_misreads_{short.name.lower()}__take_and_return_{whole.name.lower()}_and_cast_in_JAX"


def _copies(
  refs: Sequence[TensorRef], short: Sequence[TensorSpec], whole: Sequence[TensorSpec], name: str
) -> tuple[tuple[Node, ...], tuple[TensorRef, ...]]:
  nodes = {
    i: Node(f"{name}_{i}/{copy_name(old.dtype, new.dtype)}", "DeepCopy", (ref,), attrs={"T": new.dtype})
    for i, (ref, old, new) in enumerate(zip(refs, short, whole, strict=True))
    if old.dtype != new.dtype
  }
  return tuple(nodes.values()), tuple(TensorRef(nodes[i].name) if i in nodes else ref for i, ref in enumerate(refs))
