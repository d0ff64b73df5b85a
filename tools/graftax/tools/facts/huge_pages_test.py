import pytest

from graftax.tools.facts.huge_pages import huge_pages_advice

_ADVICE = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"


@pytest.mark.parametrize(
  ("environment", "libc", "modes", "wanted"),
  [
    ({}, ("glibc", "2.36"), "always [madvise] never", _ADVICE),
    ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"}, ("glibc", "2.35"), "always [madvise] never", _ADVICE),
    ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, ("glibc", "2.36"), "always [madvise] never", ""),
    ({}, ("glibc", "2.36"), "always madvise [never]", ""),
    ({}, ("glibc", "2.36"), "[always] madvise never", ""),
    ({}, ("glibc", "2.31"), "always [madvise] never", ""),
    ({}, ("", ""), "always [madvise] never", ""),
  ],
)
def test_large_pages_are_advised_where_they_are_possible_and_not_asked_for(environment, libc, modes, wanted, tmp_path):
  kernel = tmp_path / "enabled"
  kernel.write_text(modes + "\n")
  assert huge_pages_advice(environment, libc, kernel) == wanted


def test_a_system_that_does_not_say_needs_no_advice(tmp_path):
  assert huge_pages_advice({}, ("glibc", "2.36"), tmp_path / "missing") == ""
