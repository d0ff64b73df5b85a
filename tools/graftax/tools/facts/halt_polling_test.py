import pytest

from graftax.tools.facts.halt_polling import halt_polling_advice


@pytest.mark.parametrize(
  ("driver", "nanoseconds", "is_advised"),
  [
    ("haltpoll\n", "0\n", True),
    ("haltpoll\n", "200000\n", False),
    ("intel_idle\n", "0\n", False),
    ("haltpoll\n", "", False),
  ],
)
def test_polling_is_advised_where_cores_can_poll_and_do_not(driver, nanoseconds, is_advised, tmp_path):
  paths = [tmp_path / "driver", tmp_path / "nanoseconds"]
  for path, text in zip(paths, (driver, nanoseconds), strict=True):
    path.write_text(text)
  assert halt_polling_advice(*paths).startswith("echo 200000 | sudo tee /sys/") == is_advised


def test_a_system_that_does_not_say_needs_no_advice(tmp_path):
  assert halt_polling_advice(tmp_path / "missing", tmp_path / "missing") == ""
