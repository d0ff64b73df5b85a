"""Says at the end of a run which device the tests of this folder ran on."""

import collections

import pytest

_FOLDER = "devices"
_outcomes: collections.Counter[str] = collections.Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
  if f"{_FOLDER}/" in report.nodeid and (report.when == "call" or report.outcome != "passed"):
    _outcomes[report.outcome] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
  if not _outcomes:
    return
  import jax

  # A run that failed because there is no such device has none to name. JAX raises either.
  try:
    device = jax.devices()[0]
  except (AssertionError, RuntimeError) as e:
    terminalreporter.write_line(f"no device: {e!r}")
    return
  counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(_outcomes.items()))
  terminalreporter.write_line(f"{counts} on {device} ({device.device_kind})")
