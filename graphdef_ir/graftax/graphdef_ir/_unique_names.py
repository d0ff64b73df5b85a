"""Makes names unique."""


def unique_name(wanted: str, taken: set[str]) -> str:
  """Returns the first of `wanted`, `wanted_1`, `wanted_2`, ... that is not in `taken`, and adds it there."""
  name, number = wanted, 1
  while name in taken:
    name, number = f"{wanted}_{number}", number + 1
  taken.add(name)
  return name
