import itertools
import random

from graftax.convert.host_parts.min_vertex_cut import minimum_vertex_cut


def _reaches(start, following, ends, closed):
  pending, seen = [start], set()
  while pending:
    vertex = pending.pop()
    if vertex in closed or vertex in seen:
      continue
    if vertex in ends:
      return True
    seen.add(vertex)
    pending += following.get(vertex, ())
  return False


def test_no_smaller_cut_exists():
  generator = random.Random(0)
  for _ in range(100):
    vertices = range(8)
    following = {p: [q for q in vertices if q > p and generator.random() < 0.35] for p in vertices}
    starts, ends = [0, 1, 2], {p for p in vertices if p == 7 or generator.random() < 0.2}
    cut = minimum_vertex_cut(starts, following, ends)
    assert not any(_reaches(start, following, ends, cut) for start in starts)
    for smaller in itertools.combinations(vertices, len(cut) - 1) if cut else ():
      assert any(_reaches(start, following, ends, smaller) for start in starts), (following, ends, cut, smaller)


def test_of_equal_cuts_the_first_is_taken():
  assert minimum_vertex_cut(["a"], {"a": ["b"], "b": ["c"]}, {"c"}) == ("a",)


def test_nothing_is_cut_where_no_end_is_reached():
  assert minimum_vertex_cut(["a"], {"a": ["b"]}, set()) == ()
