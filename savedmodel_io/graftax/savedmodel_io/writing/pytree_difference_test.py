import jax
import pytest

from graftax.savedmodel_io.writing.pytree_difference import first_difference

_EXPECTED = {"dense": {"kernel": 1, "bias": 2}, "layers": [3, (4, None)]}


@pytest.mark.parametrize(
  ("found", "text"),
  [
    ({"dense": {"kernel": 1, "bais": 2}, "layers": [3, (4, None)]},
     "params['dense'] has the unknown keys ['bais'] and lacks the keys ['bias']"),
    ({"dense": _EXPECTED["dense"]}, "params lacks the keys ['layers']"),
    ({**_EXPECTED, "step": 1}, "params has the unknown keys ['step']"),
    ({**_EXPECTED, "dense": 1}, "params['dense'] is a leaf; expected a dict"),
    ({**_EXPECTED, "layers": [[3], (4, None)]}, "params['layers'][0] is a list; expected a leaf"),
    ({**_EXPECTED, "layers": [3, [4, None]]}, "params['layers'][1] is a list; expected a tuple"),
    ({**_EXPECTED, "layers": [3, (4, 5)]}, "params['layers'][1][1] is a leaf; expected None"),
    ({**_EXPECTED, "layers": None}, "params['layers'] lacks the keys [0, 1]"),
    ([], "params lacks the keys ['dense', 'layers']"),
    ({**_EXPECTED, **dict.fromkeys("abcdefg", 0)},
     "params has the unknown keys ['a', 'b', 'c', 'd', 'e'] and 2 others"),
  ],
)  # fmt: skip
def test_the_first_difference_is_named_by_its_path(found, text):
  assert first_difference(found, _EXPECTED, "params") == text
  assert jax.tree.structure(found) != jax.tree.structure(_EXPECTED)


def test_equal_structures_and_prefixes_have_no_difference():
  assert first_difference(jax.tree.map(str, _EXPECTED), _EXPECTED, "params") is None
  assert first_difference({"dense": True, "layers": [True, True]}, _EXPECTED, "params", is_prefix=True) is None
  assert first_difference(True, _EXPECTED, "params", is_prefix=True) is None
