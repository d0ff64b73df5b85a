"""Makes names unique."""


def unique_name(wanted: str, taken: set[str], numbers: dict[str, int] | None = None) -> str:
  """Returns the first of `wanted`, `wanted_1`, `wanted_2`, ... that is not in `taken`, and adds it there.

  Args:
    wanted: the name.
    taken: the names that exist.
    numbers: the number to try next, by wanted name, so that asking for one name many times takes linear time.
  """
  number = numbers.get(wanted, 0) if numbers is not None else 0
  name = f"{wanted}_{number}" if number else wanted
  while name in taken:
    number += 1
    name = f"{wanted}_{number}"
  taken.add(name)
  if numbers is not None:
    numbers[wanted] = number + 1
  return name
