"""Whether idle cores of a virtual machine wait before they are handed back, without which small operations are slow."""

from pathlib import Path

__all__ = ["halt_polling_advice"]

_DRIVER = Path("/sys/devices/system/cpu/cpuidle/current_driver")
_NANOSECONDS = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
# What a host of KVM polls by default.
_ENOUGH = 200_000


def halt_polling_advice(driver: Path = _DRIVER, nanoseconds: Path = _NANOSECONDS) -> str:
  """Returns the command that makes idle cores wait for work; "" if they wait already or have another driver.

  Args:
    driver: the file in which Linux says what idle cores do.
    nanoseconds: the file with how long they wait before they halt.
  """
  try:
    waits = driver.read_text(encoding="utf-8").strip() == "haltpoll"
    polled = int(nanoseconds.read_text(encoding="utf-8"))
  except (OSError, ValueError):
    return ""
  return f"echo {_ENOUGH} | sudo tee {_NANOSECONDS}" if waits and polled == 0 else ""
