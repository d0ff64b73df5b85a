import types

import pytest

from graftax.convert.structures.named_tuples import as_named_tuple, attribute_value


@pytest.mark.parametrize(
  "names", [("_in", "field_in"), ("_values", "values"), ("_1", "field_1"), ("__in", "_in"), ("a", "_b")]
)
def test_fields_lead_back_to_their_attributes(names):
  value = types.SimpleNamespace(**{name: position for position, name in enumerate(names)})
  found = as_named_tuple("Pair", vars(value))
  assert [attribute_value(value, field, None) for field in found._fields] == [0, 1]


def test_a_field_is_not_taken_for_an_attribute_with_a_shorter_name():
  assert attribute_value(types.SimpleNamespace(x=1), "fieldx", None) is None
