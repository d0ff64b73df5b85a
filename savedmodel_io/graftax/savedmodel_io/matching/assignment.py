"""Which layer is which, by names or by the order of use. What the evidence does not decide is left out."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from graftax.savedmodel_io.matching.layers import Layer, compatible, likeness
from graftax.savedmodel_io.matching.words import shared

__all__ = ["Pairs", "align_by_use", "likenesses", "pair_by_names"]

# Index of a source layer -> index of a target layer.
Pairs = dict[int, int]

# Alignments that are this near to the best one are as good.
_MARGIN = 0.2
# If a norm is "post attention", it may be the attention's own, or the one of what follows.
_RELATIVE = {"post", "pre", "after", "before", "input"}
_NEIGHBOURS = {"attention", "feedforward"}
# Branches that two programs run in another order are this many layers apart at most.
_REACH = 12


def likenesses(sources: Sequence[Layer], targets: Sequence[Layer]) -> np.ndarray:
  """Returns `[sources, targets]`: how like layers are, or 0 where they are not compatible."""
  found = np.zeros((len(sources), len(targets)))
  for i, source in enumerate(sources):
    for j, target in enumerate(targets):
      if compatible(source, target):
        found[i, j] = likeness(source, target)
  return found


def align_by_use(scores: np.ndarray) -> Pairs:
  """Returns the pairs that all good alignments of two sequences of layers share, and those that are then unique.

  Args:
    scores: `[sources, targets]`, as `likenesses` returns them, both in the order of use.
  """
  through = _through(scores)
  best = through.max(initial=0.0)
  pairs: Pairs = {}
  for i, row in enumerate(through):
    j = int(row.argmax()) if row.size else 0
    if row.size and scores[i, j] > 0 and row[j] >= best - 1e-9:
      rivals = [*np.delete(row, j), *np.delete(through[:, j], i)]
      if max(rivals, default=-np.inf) < best - _MARGIN:
        pairs[i] = j
  _pair_the_rest(scores, pairs)
  return pairs


def _through(scores: np.ndarray) -> np.ndarray:
  """Returns `[sources, targets]`: the score of the best alignment that has the pair, or -inf."""
  if not scores.size:
    return scores
  before = _prefix_scores(scores)
  after = _prefix_scores(scores[::-1, ::-1])[::-1, ::-1]
  return np.where(scores > 0, before[:-1, :-1] + scores + after[1:, 1:], -np.inf)


def _prefix_scores(scores: np.ndarray) -> np.ndarray:
  """Returns `[sources + 1, targets + 1]`: the best score of the first layers of both."""
  best = np.zeros((scores.shape[0] + 1, scores.shape[1] + 1))
  for i, row in enumerate(scores):
    paired = np.where(row > 0, best[i, :-1] + row, 0.0)
    # The best of the row before and of the columns to the left.
    best[i + 1, 1:] = np.maximum.accumulate(np.maximum(best[i, 1:], paired))
  return best


def _pair_the_rest(scores: np.ndarray, pairs: Pairs) -> None:
  """Adds pairs of layers that are not in the same order on both sides, if there is one candidate nearby."""
  while True:
    taken = set(pairs.values())
    anchors = sorted(pairs.items())
    candidates = np.zeros_like(scores)
    for i in set(range(scores.shape[0])) - pairs.keys():
      low = max((j for k, j in anchors if k < i), default=0)
      high = min((j for k, j in anchors if k > i), default=scores.shape[1])
      for j in range(max(0, min(low, high) - _REACH), min(scores.shape[1], max(low, high) + _REACH)):
        if j not in taken:
          candidates[i, j] = scores[i, j]
    new = _mutual(candidates)
    if not new:
      return
    pairs.update(new)


def _mutual(scores: np.ndarray) -> Pairs:
  """Returns the pairs that are each other's best by a margin."""
  pairs: Pairs = {}
  for i, row in enumerate(scores):
    j = int(row.argmax()) if row.size else 0
    if row.size and row[j] > 0:
      rivals = [*np.delete(row, j), *np.delete(scores[:, j], i)]
      if max(rivals, default=0.0) < row[j] - _MARGIN / 2:
        pairs[i] = j
  return pairs


def pair_by_names(sources: Sequence[Layer], targets: Sequence[Layer], scores: np.ndarray) -> Pairs:
  """Returns the pairs that words and numbers in names decide, among layers of the same shapes."""
  pairs: Pairs = {}
  for rows, columns in _components(scores):
    _split([sources[i] for i in rows], rows, [targets[j] for j in columns], columns, pairs)
  return {i: j for i, j in pairs.items() if scores[i, j] > 0}


def _components(scores: np.ndarray) -> list[tuple[list[int], list[int]]]:
  """Returns the sets of layers that only fit each other."""
  found, seen = [], set[int]()
  for start in range(scores.shape[0]):
    if start in seen:
      continue
    rows, columns = {start}, set[int]()
    while True:
      columns = {int(j) for i in rows for j in np.flatnonzero(scores[i] > 0)}
      larger = rows | {int(i) for j in columns for i in np.flatnonzero(scores[:, j] > 0)}
      if larger == rows:
        break
      rows = larger
    seen |= rows
    if columns:
      found.append((sorted(rows), sorted(columns)))
  return found


def _split(
  sources: Sequence[Layer], rows: Sequence[int], targets: Sequence[Layer], columns: Sequence[int], pairs: Pairs
) -> None:
  """Divides layers by words that both sides have, then counts them off."""
  if len(rows) == 1 == len(columns):
    pairs[rows[0]] = columns[0]
    return
  common = frozenset[str]().union(*(layer.words for layer in sources))
  common &= frozenset[str]().union(*(layer.words for layer in targets))
  if any(_RELATIVE & layer.words for layer in (*sources, *targets)):
    common -= _NEIGHBOURS
  for word in sorted(common):
    with_rows = [k for k, layer in enumerate(sources) if word in layer.words]
    with_columns = [k for k, layer in enumerate(targets) if word in layer.words]
    if len(with_rows) != len(with_columns) or (len(with_rows) == len(rows) and len(with_columns) == len(columns)):
      continue
    for inside in (True, False):
      some = [k for k in range(len(rows)) if (k in with_rows) is inside]
      others = [k for k in range(len(columns)) if (k in with_columns) is inside]
      if some and others:
        _split(
          [sources[k] for k in some],
          [rows[k] for k in some],
          [targets[k] for k in others],
          [columns[k] for k in others],
          pairs,
        )
    return
  if len(rows) == len(columns):
    _count_off(sources, rows, targets, columns, pairs)


def _count_off(
  sources: Sequence[Layer], rows: Sequence[int], targets: Sequence[Layer], columns: Sequence[int], pairs: Pairs
) -> None:
  """Pairs layers whose names differ in numbers alone, in the order of these numbers."""
  source_groups, target_groups = _patterns(sources), _patterns(targets)
  if len(source_groups) != len(target_groups):
    return
  if len(source_groups) > 1:
    matched = _match_groups(source_groups, target_groups)
    if matched is None:
      return
  else:
    matched = [(next(iter(source_groups.values())), next(iter(target_groups.values())))]
  for some, others in matched:
    first = sorted(some, key=lambda k: sources[k].numbers)
    second = sorted(others, key=lambda k: targets[k].numbers)
    if len({sources[k].numbers for k in first}) == len({targets[k].numbers for k in second}) == len(first):
      pairs.update({rows[i]: columns[j] for i, j in zip(first, second, strict=True)})


def _patterns(layers: Sequence[Layer]) -> dict[tuple[str, ...], list[int]]:
  groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
  for k, layer in enumerate(layers):
    groups[layer.pattern].append(k)
  return groups


def _match_groups(
  sources: dict[tuple[str, ...], list[int]], targets: dict[tuple[str, ...], list[int]]
) -> list[tuple[list[int], list[int]]] | None:
  """Returns groups of the same size that share most words with each other; None if that is not clear."""
  scores = np.array(
    [
      [
        shared(frozenset(one), frozenset(other)) if len(some) == len(others) else 0.0
        for other, others in targets.items()
      ]
      for one, some in sources.items()
    ]
  )
  matched = _mutual(scores)
  if len(matched) != len(sources):
    return None
  some, others = list(sources.values()), list(targets.values())
  return [(some[i], others[j]) for i, j in matched.items()]
