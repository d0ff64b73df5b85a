"""Results of benchmarks that are kept in docs/benchmarks, one JSON file for each run.

They have the form of what `python -m graftax.tools.benchmarks` writes, without the single runs.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["StoredBenchmark", "StoredRun", "store", "stored_runs"]


@dataclasses.dataclass(frozen=True, slots=True)
class StoredBenchmark:
  """Medians of one benchmark.

  Attributes:
    name: its name on the command line.
    title: what is measured.
    medians: by contestant and quantity: `time` in seconds, `peak_memory` and `extra_memory` in bytes.
    date: the day, if it is not that of the run.
    load: what else the machine did, if it is not that of the run.
    source: the page of measurements with details, if it is not that of the run.
  """

  name: str
  title: str
  medians: Mapping[str, Mapping[str, float]]
  date: str | None = None
  load: str | None = None
  source: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredRun:
  """One run of several benchmarks.

  Attributes:
    name: the name of its file.
    title: a heading.
    date: the day.
    command: the command that measures again, or None if none in this repository does.
    source: the page of measurements with details, or None.
    machine: processors, load and versions.
    benchmarks: the results.
  """

  name: str
  title: str
  date: str
  command: str | None
  source: str | None
  machine: Mapping[str, object]
  benchmarks: tuple[StoredBenchmark, ...]

  @property
  def load(self) -> str:
    """What else the machine did: words, or the load that the system showed."""
    load = self.machine.get("load", "unknown")
    if isinstance(load, (list, tuple)):
      return f"{load[0]:.1f} processes waited for {self.machine.get('num_processors')} cores"
    return str(load)

  @property
  def versions(self) -> str:
    """The versions of Python and libraries."""
    libraries = self.machine.get("libraries", {})
    assert isinstance(libraries, dict)
    python = [f"Python {self.machine['python']}"] if "python" in self.machine else []
    return ", ".join([*python, *(f"{library} {version}" for library, version in libraries.items())])


def stored_runs(folder: Path) -> list[StoredRun]:
  """Returns the runs of a folder, by their names."""
  return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> StoredRun:
  content = json.loads(path.read_text(encoding="utf-8"))
  known = {field.name for field in dataclasses.fields(StoredBenchmark)}
  benchmarks = ({name: value for name, value in row.items() if name in known} for row in content["benchmarks"])
  return StoredRun(
    name=path.stem,
    title=content["title"],
    date=content["date"],
    command=content["command"],
    source=content.get("source"),
    machine=content["machine"],
    benchmarks=tuple(StoredBenchmark(**row) for row in benchmarks),
  )


def store(results: Iterable[Mapping[str, object]], machine: Mapping[str, object], date: str, folder: Path) -> Path:
  """Keeps the medians of a run in a folder and returns the file, which replaces one of the same day."""
  kept = [{name: row[name] for name in ("name", "title", "medians")} for row in results]
  head = {"title": f"All benchmarks, {date}", "date": date, "command": "python -m graftax.tools.benchmarks"}
  content = {**head, "machine": machine, "benchmarks": kept}
  path = folder / f"{date}-make-bench.json"
  path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
  return path
