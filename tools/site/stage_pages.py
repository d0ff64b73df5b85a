"""Puts the pages of the site into a folder for Sphinx: `.venv/bin/python tools/site/stage_pages.py FOLDER`.

Most pages are the Markdown files of the tree, whose links are changed to those of the site: a link to a file that is a
page leads to the page, and a link to any other file to the repository. A link to a file that does not exist is an
error. The pages of the reference are made from docstrings by `reference_pages.py`.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import reference_pages

__all__ = ["BrokenLinkError", "MissingNameError", "page_names", "site_text", "stage"]

ROOT = Path(__file__).resolve().parents[2]
_REPOSITORY = "https://github.com/graftax/graftax/blob/main/"
_CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>\]\(|<img src=\"|^\[[^\]]+\]: )(?P<target>[^)\s\"]+)", re.MULTILINE)
_IMAGES = (".svg", ".png")
# A picture for one color scheme, as GitHub marks it and as the theme does.
_OF_A_SCHEME = re.compile(r"(!\[[^\]]*\]\([^)#]+)#gh-(light|dark)-mode-only\)")
# Pages outside of docs/, by their names in the site.
_ELSEWHERE = {
  "README.md": "start.md",
  "ARCHITECTURE.md": "concepts/architecture.md",
  "CONTRIBUTING.md": "project/contributing.md",
  "STABILITY.md": "project/stability.md",
  "third_party/README.md": "project/dependencies.md",
  "tools/packaging/umbrella/README.md": "packages/graftax.md",
  "xla_call_module/LIMITATIONS.md": "packages/xla_call_module_limitations.md",
  "testing/DIFFERENTIAL.md": "packages/testing_differential.md",
}
# Pages with a wide table have no list of headings beside it.
_WIDE = ("ops.md", "op_sources.md")
_WITHOUT_HEADINGS = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
_PACKAGES = ("xla_call_module", "graphdef_ir", "ops_jax", "convert", "savedmodel_io", "hub_io", "testing", "tools")


class BrokenLinkError(Exception):
  """A page links to a file that does not exist."""


class MissingNameError(Exception):
  """The reference lacks a public name."""


def page_names() -> dict[str, str]:
  """Returns the name of each page in the site, by the path of its file in the tree."""
  docs = (path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".ipynb"))
  readmes = {f"{package}/README.md": f"packages/{package}.md" for package in _PACKAGES}
  return _ELSEWHERE | readmes | {path.as_posix(): path.relative_to("docs").as_posix() for path in docs}


def site_text(path: str, names: dict[str, str]) -> str:
  """Returns the text of a Markdown file with the links of the site.

  Args:
    path: the file, from the root of the tree.
    names: names of all pages.

  Raises:
    BrokenLinkError: a link leads to no file of the tree.
  """
  text = (ROOT / path).read_text(encoding="utf-8")

  def replaced(link: re.Match[str]) -> str:
    return link["before"] + _site_target(path, link["target"], names)

  linked = "".join(part if is_code else _LINK.sub(replaced, part) for part, is_code in _parts(text))
  return _OF_A_SCHEME.sub(r"\1){.only-\2}", linked)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
  """Yields the parts of a text, and whether each is a block of code."""
  end = 0
  for block in _CODE.finditer(text):
    yield text[end : block.start()], False
    yield block[0], True
    end = block.end()
  yield text[end:], False


def _site_target(path: str, target: str, names: dict[str, str]) -> str:
  if re.match(r"[a-z]+:", target) or target.startswith("#"):
    return target
  file, _, anchor = target.partition("#")
  found = os.path.normpath(os.path.join(os.path.dirname(path), file))
  if not (ROOT / found).exists():
    raise BrokenLinkError(f"{path}: link to {target!r}, which does not exist")
  readme = f"{found}/README.md"
  page = names.get(found) or names.get(readme)
  if page is None and found.endswith(_IMAGES):  # pictures are where they are in docs/
    page = os.path.relpath(found, "docs")
  if page is None:
    return _REPOSITORY + found + (f"#{anchor}" if anchor else "")
  relative = os.path.relpath(page, os.path.dirname(names[path]) or ".")
  return relative + (f"#{anchor}" if anchor else "")


def stage(folder: Path) -> int:
  """Writes all pages to a folder and returns their number."""
  shutil.rmtree(folder, ignore_errors=True)
  names = page_names()
  pages = {name: site_text(path, names) if path.endswith(".md") else "" for path, name in names.items()}
  reference = reference_pages.pages()
  missing = reference_pages.missing_names(reference)
  if missing:
    raise MissingNameError(f"the reference lacks public names: {', '.join(missing)}")
  pages |= reference
  for name, text in pages.items():
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text((_WITHOUT_HEADINGS if name in _WIDE else "") + text, encoding="utf-8")
  for path in (ROOT / "docs").rglob("*"):
    if path.suffix in (*_IMAGES, ".ipynb"):
      target = folder / path.relative_to(ROOT / "docs")
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(path, target)
  shutil.copyfile(Path(__file__).with_name("conf.py"), folder / "conf.py")
  (folder / "static").mkdir()
  for name in ("site.css", "filter_tables.js"):
    shutil.copyfile(Path(__file__).with_name(name), folder / "static" / name)
  return len(pages)


if __name__ == "__main__":
  print(f"{stage(Path(sys.argv[1]))} pages")
