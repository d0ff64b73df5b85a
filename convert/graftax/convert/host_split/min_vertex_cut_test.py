import itertools
import random

from graftax.convert.host_split.min_vertex_cut import narrowest_cut


def _reaches(start, following, ends, closed):
  pending, seen = [start], set()
  while pending:
    place = pending.pop()
    if place in closed or place in seen:
      continue
    if place in ends:
      return True
    seen.add(place)
    pending += following.get(place, ())
  return False


def test_no_smaller_cut_exists():
  generator = random.Random(0)
  for _ in range(100):
    places = range(8)
    following = {p: [q for q in places if q > p and generator.random() < 0.35] for p in places}
    starts, ends = [0, 1, 2], {p for p in places if p == 7 or generator.random() < 0.2}
    cut = narrowest_cut(starts, following, ends)
    assert not any(_reaches(start, following, ends, cut) for start in starts)
    for smaller in itertools.combinations(places, len(cut) - 1) if cut else ():
      assert any(_reaches(start, following, ends, smaller) for start in starts), (following, ends, cut, smaller)


def test_of_equal_cuts_the_first_is_taken():
  assert narrowest_cut(["a"], {"a": ["b"], "b": ["c"]}, {"c"}) == ("a",)


def test_nothing_is_cut_where_no_end_is_reached():
  assert narrowest_cut(["a"], {"a": ["b"]}, set()) == ()
