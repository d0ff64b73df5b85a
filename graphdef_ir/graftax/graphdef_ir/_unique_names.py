"""Names that nobody has yet."""


def unique_name(wanted: str, taken: set[str]) -> str:
  """`wanted`, or `wanted_1`, `wanted_2`, ...: the first that is not `taken`; adds it there."""
  name, number = wanted, 1
  while name in taken:
    name, number = f"{wanted}_{number}", number + 1
  taken.add(name)
  return name
