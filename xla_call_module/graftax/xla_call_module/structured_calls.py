"""`structured`: a module as a function of the pytrees that its author's function took and returned."""

from collections.abc import Callable, Mapping

import jax

from graftax.xla_call_module import errors, trees
from graftax.xla_call_module.embedding import Embedded
from graftax.xla_call_module.lifting import Lifted
from graftax.xla_call_module.signature import KEY_IMPLEMENTATIONS, Signature
from graftax.xla_call_module.trees import MakeNode, PyTree

__all__ = ["Structured", "structured"]


class Structured:
  """A function with the arguments and results of the one that was exported.

  Attributes:
    flat: the function of flat arrays.
    signature: what the exported function takes and returns.
  """

  def __init__(self, flat: Lifted | Embedded, signature: Signature, nodes: Mapping[str, MakeNode]):
    self.flat: Lifted | Embedded = flat
    self.signature: Signature = signature
    self._nodes = dict(nodes)
    self.__name__: str = signature.name
    self.__qualname__ = self.__name__

  def __repr__(self) -> str:
    return f"<{self.signature} of {self.flat!r}>"

  def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
    leaves = trees.flatten(self.signature.in_tree, (args, kwargs))
    results = self.flat(*leaves)
    typed = (_typed(leaf.dtype, value) for leaf, value in zip(self.signature.outputs, results, strict=True))
    return trees.unflatten(self.signature.out_tree, typed, self._nodes)


def _typed(dtype: str, value: jax.Array) -> jax.Array:
  """Returns a result with its dtype: a module returns random keys as their data."""
  if dtype not in KEY_IMPLEMENTATIONS:
    return value
  return jax.random.wrap_key_data(value, impl=KEY_IMPLEMENTATIONS[dtype][0])


def structured(
  function: Lifted | Embedded, *, nodes: Mapping[str, Callable[[bytes, tuple[PyTree, ...]], PyTree]] | None = None
) -> Structured:
  """Returns a lifted or embedded function with the arguments and results of the function that was exported.

  Arguments are passed by position or by name as the author's function took them, and compared with the nesting that
  the module's signature keeps. Nodes of classes that the author registered for pytrees may be arguments if the classes
  are pytrees here. Of results, they become `SavedNode`s, unless `nodes` makes them; a module of a live
  `jax.export.Exported` returns the classes themselves.

  Args:
    function: what `lift` or `embed` returned for a module of a `jax.export.Exported`.
    nodes: what makes nodes of registered classes in results: from the name under which a class is registered for
      serialization to a function of its auxiliary data, as bytes, and its children.

  Raises:
    ArgumentError: the function has no signature. Calls raise it if their arguments do not have the nesting.

  Example:
    >>> import jax, numpy as np
    >>> from graftax.xla_call_module import Module, lift, structured
    >>> def dense(params, x, *, scale):
    ...   return {"y": (x @ params["w"] + params["b"]) * scale}
    >>> params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    >>> exported = jax.export.export(jax.jit(dense))(params, np.ones(3, np.float32), scale=np.float32(2))
    >>> again = structured(lift(Module.from_exported(exported)))
    >>> again(params, np.ones(3, np.float32), scale=2.0)["y"].tolist()
    [6.0, 6.0]
    >>> print(again.signature)
    dense(({'b': *, 'w': *}, *), {'scale': *}) -> {'y': *}
  """
  if not isinstance(function, Lifted | Embedded):
    raise errors.ArgumentError(f"structured: got {function!r}; expected what lift or embed returns.")
  signature = function.module.signature
  if signature is None:
    raise errors.ArgumentError(
      f"structured: {function!r} has flat arrays only. A module has a signature if Module.from_exported created it."
    )
  return Structured(function, signature, nodes or {})
