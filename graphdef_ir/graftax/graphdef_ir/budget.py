"""Limits for work that a file asks for, and the `Budget` that counts it.

A few bytes of a file can ask for any amount of memory or time: a constant that is the length of a `Range`, functions
that call two functions each, a compressed chunk. Everything that unpacks, folds, unrolls, inlines or walks asks the
budget of its load or conversion first, and the budget raises before the work begins:

    >>> budget = Budget(Limits(array_bytes=1000))
    >>> budget.check_array((100, 100), 4, "Fill node 'zeros'")
    Traceback (most recent call last):
    graftax...LimitExceededError: Fill node 'zeros' needs 40000 bytes for an array of shape [100, 100];
    the limit array_bytes is 1000. If you trust the file, raise it with limits=Limits(array_bytes=40000).
"""

import dataclasses
import math
import threading
from collections.abc import Sequence

from graftax.graphdef_ir.errors import LimitExceededError

__all__ = ["Budget", "Limits"]

# That of complex128, the largest type of TensorFlow.
_MAX_ITEMSIZE_BYTES = 16

# See `text_bytes`.
_TEXT_RATIO = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
  """How much memory and time a file may ask for.

  The defaults are far above what trained models need. Arrays that a file stores in full, such as parameters, do not
  count.

  Attributes:
    array_bytes: size of one array whose shape is computed from numbers in the file.
    known_bytes: size of all such arrays together that one call makes at once: values that are known while tracing, and
      results of calls that run node by node.
    array_ratio: `array_bytes` and `known_bytes` are at least as many times the size of all arguments and parameters of
      the call.
    text_bytes: size of all strings together that one call makes on the host, 8 more for each. At least 100 times the
      size of the arguments and constants of the call.
    steps: nodes that one call evaluates while it is traced, beyond `steps_per_node` for each node of the program.
      Entering a function counts as 20 nodes.
    run_steps: the same for a call that runs node by node: outside of `jit`, and on the host.
    walk_steps: nodes that one call evaluates to count the iterations of loops before they run. Beyond it there is no
      error: a loop is compiled as one of unknown length.
    steps_per_node: see `steps`; larger programs may unroll and inline more.
    depth: levels of functions, regions and messages inside each other.
    unpacked_bytes: size of everything that one load decompresses or expands, and of the objects that it makes of small
      records.
    unpacked_ratio: how many times larger than its file that may be, above `unpacked_free_bytes`. Trained weights
      compress to half of their size at best; zeros compress to a thousandth. Of images and other values that a call
      decodes, how many times larger than the encoded values all of them may be, above `known_bytes`.
    unpacked_free_bytes: size up to which `unpacked_ratio` does not matter.
    archive_members: files and folders in one archive.
  """

  array_bytes: int = 1 << 29
  known_bytes: int = 1 << 30
  array_ratio: int = 1000
  text_bytes: int = 1 << 24
  steps: int = 100_000
  run_steps: int = 500_000
  walk_steps: int = 200_000
  steps_per_node: int = 200
  depth: int = 100
  unpacked_bytes: int = 1 << 36
  unpacked_ratio: int = 100
  unpacked_free_bytes: int = 1 << 28
  archive_members: int = 4096

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"Limits: {field.name}={value!r}; expected an integer of at least 0.")


class Budget:
  """What is left of the limits of one load, or of one call of a converted function. Threads may share it.

  Example:
    >>> budget = Budget(Limits(steps=10, steps_per_node=0))
    >>> budget.spend_steps(8, "function 'f'")
    >>> budget.spend_steps(8, "function 'g'")
    Traceback (most recent call last):
    graftax...LimitExceededError: function 'g' ...
  """

  __slots__ = (
    "_array_bytes",
    "_decoded_bytes",
    "_known_allowed",
    "_known_bytes",
    "_lock",
    "_packed_bytes",
    "_steps",
    "_steps_limit",
    "_steps_spent",
    "_text_allowed",
    "_text_bytes",
    "_unpacked_bytes",
    "_walk_steps",
    "limits",
  )

  @classmethod
  def of(cls, limits: "Limits | Budget | None") -> "Budget":
    """Returns a new budget with these limits, or a budget that is shared with another part of the load."""
    return limits if isinstance(limits, Budget) else cls(limits)

  def __init__(
    self, limits: Limits | None = None, *, num_nodes: int = 0, argument_bytes: int = 0, is_traced: bool = True
  ):
    """Creates a budget.

    Args:
      limits: the limits; by default those of `Limits()`.
      num_nodes: the number of nodes of the program, for `steps_per_node`.
      argument_bytes: size of all arguments and parameters of the call, for `array_ratio`.
      is_traced: whether the call is traced. If not, `run_steps` takes the place of `steps`.
    """
    limits = Limits() if limits is None else limits
    self.limits: Limits = limits
    self._steps_limit = "steps" if is_traced else "run_steps"
    self._steps = getattr(limits, self._steps_limit) + limits.steps_per_node * num_nodes
    self._array_bytes = max(limits.array_bytes, limits.array_ratio * argument_bytes)
    self._known_allowed = max(limits.known_bytes, limits.array_ratio * argument_bytes)
    self._known_bytes = self._steps_spent = self._unpacked_bytes = self._walk_steps = 0
    self._decoded_bytes = self._packed_bytes = self._text_bytes = 0
    # Python takes about as long for a byte of a string as JAX for a thousand bytes of an array.
    self._text_allowed = max(limits.text_bytes, _TEXT_RATIO * argument_bytes)
    self._lock = threading.Lock()

  def check_array(self, shape: Sequence[int], itemsize_bytes: int, where: str) -> None:
    """Raises if one array of this shape is too large.

    Args:
      shape: the sizes, which are known and not negative.
      itemsize_bytes: bytes of one element.
      where: the beginning of the error message: what needs the array.

    Raises:
      LimitExceededError: the array has more than `array_bytes`.
    """
    needed = math.prod(shape) * itemsize_bytes
    if needed > self._array_bytes:
      what = f"{needed} bytes for an array of shape {list(shape)}"
      raise _exceeded("array_bytes", needed, self._array_bytes, where, what)

  def may_exceed_array_bytes(self, num_elements: int) -> bool:
    """Returns whether an array of so many elements, of any type, may be too large."""
    return num_elements * _MAX_ITEMSIZE_BYTES > self._array_bytes

  def spend_known_bytes(self, num_bytes: int, where: str) -> None:
    """Counts bytes of memory that a value takes while a call is traced or runs.

    Args:
      num_bytes: size of the value; added to the sum even if this raises.
      where: the beginning of the error message: what has the value.

    Raises:
      LimitExceededError: the sum is above `known_bytes`.
    """
    with self._lock:
      self._known_bytes += num_bytes
      needed = self._known_bytes
    if needed > self._known_allowed:
      what = f"{num_bytes} bytes while the function is traced, {needed} with those before it"
      raise _exceeded("known_bytes", needed, self._known_allowed, where, what)

  def check_text(self, num_bytes: int, where: str) -> None:
    """Raises if strings of so many bytes would be too much, without counting them.

    Args:
      num_bytes: size of the strings that are about to be made, besides those that were counted before.
      where: the beginning of the error message: what makes them.

    Raises:
      LimitExceededError: the sum would be above `text_bytes`.
    """
    needed = self._text_bytes + num_bytes
    if needed > self._text_allowed:
      what = f"{num_bytes} bytes of strings, {needed} with those before them"
      raise _exceeded("text_bytes", needed, self._text_allowed, where, what)

  def spend_text_bytes(self, num_bytes: int, where: str) -> None:
    """Counts bytes of strings that a call made.

    Args:
      num_bytes: size of the strings; not added to the sum if this raises.
      where: the beginning of the error message: what made them.

    Raises:
      LimitExceededError: the sum is above `text_bytes`.
    """
    self.check_text(num_bytes, where)
    with self._lock:
      self._text_bytes += num_bytes

  def spend_steps(self, num_steps: int, where: str) -> None:
    """Counts nodes that are evaluated, or rewritten, while a call is traced.

    Args:
      num_steps: the number of nodes, or work that takes about as long as so many nodes. Added to the sum even if this
        raises.
      where: the beginning of the error message: the function that has them.

    Raises:
      LimitExceededError: the sum is above what `steps` and `steps_per_node` allow.
    """
    # Without the lock two threads may lose a step, which does not matter; this is called for every function.
    self._steps_spent = needed = self._steps_spent + num_steps
    if needed > self._steps:
      what = f"more than {self._steps} steps: calls or branches that multiply, or loops that run node by node"
      raise _exceeded(self._steps_limit, 2 * needed, self._steps, where, what)

  def spend_walk_steps(self, num_steps: int, where: str) -> None:
    """Counts nodes that are evaluated to count the iterations of a loop before it runs.

    Args:
      num_steps: the number of nodes that are about to be evaluated.
      where: the beginning of the error message: the loop.

    Raises:
      LimitExceededError: the sum is above `walk_steps`. The caller compiles a loop of unknown length then.
    """
    self._walk_steps = needed = self._walk_steps + num_steps
    if needed > self.limits.walk_steps:
      what = f"more than {self.limits.walk_steps} steps to count the iterations of loops"
      raise _exceeded("walk_steps", 2 * needed, self.limits.walk_steps, where, what)

  def check_depth(self, depth: int, where: str) -> None:
    """Raises if functions, regions or messages are too deep inside each other.

    Args:
      depth: how many of them are inside each other at this point.
      where: the beginning of the error message: what is nested.

    Raises:
      LimitExceededError: `depth` is above the limit.
    """
    if depth > self.limits.depth:
      raise _exceeded("depth", depth, self.limits.depth, where, f"{depth} levels inside each other")

  def check_archive_members(self, num_members: int, where: str) -> None:
    """Raises if an archive has too many files and folders.

    Args:
      num_members: the number of files and folders that the archive lists.
      where: the beginning of the error message: which archive.

    Raises:
      LimitExceededError: `num_members` is above the limit.
    """
    if num_members > self.limits.archive_members:
      what = f"{num_members} files and folders in one archive"
      raise _exceeded("archive_members", num_members, self.limits.archive_members, where, what)

  def spend_decoded_bytes(self, num_bytes: int, packed_bytes: int, where: str) -> None:
    """Counts bytes that encoded values, such as images, decode to in one call, before they are decoded.

    Up to `known_bytes` they do not matter. Above it `unpacked_ratio` limits all of them to all encoded bytes.

    Args:
      num_bytes: size of the result.
      packed_bytes: size of the encoded value.
      where: the beginning of the error message: what decodes it.

    Raises:
      LimitExceededError: the results are too large for values of this size.
    """
    with self._lock:
      self._decoded_bytes += num_bytes
      self._packed_bytes += packed_bytes
      needed, packed = self._decoded_bytes, self._packed_bytes
    limits = self.limits
    if needed > limits.known_bytes and needed > limits.unpacked_ratio * packed:
      ratio = -(-needed // max(packed, 1))
      what = f"{num_bytes} bytes, {needed} with those before it, decoded from {packed}"
      raise _exceeded("unpacked_ratio", ratio, limits.unpacked_ratio, where, what)

  def spend_unpacked_bytes(self, num_bytes: int, file_bytes: int, where: str) -> None:
    """Counts bytes that a file unpacks or expands to, before they are unpacked.

    Args:
      num_bytes: size of the result.
      file_bytes: size of the file, or of all files of the load, that the result is made from.
      where: the beginning of the error message: what unpacks.

    Raises:
      LimitExceededError: the sum is above `unpacked_bytes`, or too large for a file of this size.
    """
    with self._lock:
      self._unpacked_bytes += num_bytes
      needed = self._unpacked_bytes
    limits = self.limits
    what = f"{needed} bytes when unpacked from {file_bytes}"
    if needed > limits.unpacked_bytes:
      raise _exceeded("unpacked_bytes", needed, limits.unpacked_bytes, where, what)
    if needed > limits.unpacked_free_bytes and needed > limits.unpacked_ratio * file_bytes:
      ratio = -(-needed // max(file_bytes, 1))
      raise _exceeded("unpacked_ratio", ratio, limits.unpacked_ratio, where, what)


def _exceeded(name: str, needed: int, allowed: int, where: str, what: str) -> LimitExceededError:
  return LimitExceededError(
    f"{where} needs {what}; the limit {name} is {allowed}. If you trust the file, raise it with "
    f"limits=Limits({name}={needed}).",
    limit=name,
    needed=needed,
    allowed=allowed,
  )
