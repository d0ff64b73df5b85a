"""The pages of the site link to what exists, and all of them are in its table of contents."""

import re
from fnmatch import fnmatch

import pytest
from cleanroom import ROOT
from reference_pages import markdown_of_docstring, missing_names
from stage_pages import BrokenLinkError, page_names, site_text


def test_every_link_of_a_page_leads_to_a_file():
  names = page_names()
  texts = [site_text(path, names) for path in names if path.endswith(".md")]
  assert len(texts) > 30


def test_links_lead_to_pages_or_to_the_repository(tmp_path, monkeypatch):
  monkeypatch.setattr("stage_pages.ROOT", tmp_path)
  (tmp_path / "docs/guides").mkdir(parents=True)
  (tmp_path / "tools").mkdir()
  (tmp_path / "tools/README.md").touch()
  (tmp_path / "tools/demo.py").touch()
  page = tmp_path / "docs/guides/a.md"
  page.write_text(
    "[t](../../tools#run) [d](../../tools/demo.py) [h](https://h.org/x) `[c](no.md)`\n\n```\n[b](no.md)\n```\n"
  )
  names = {"docs/guides/a.md": "guides/a.md", "tools/README.md": "packages/tools.md"}
  with pytest.raises(BrokenLinkError, match=r"a\.md: link to 'no\.md'"):
    site_text("docs/guides/a.md", names)
  page.write_text(page.read_text().replace(" `[c](no.md)`", ""))
  assert site_text("docs/guides/a.md", names) == (
    "[t](../packages/tools.md#run) [d](https://github.com/graftax/graftax/blob/main/tools/demo.py) [h](https://h.org/x)"
    "\n\n```\n[b](no.md)\n```\n"
  )


def test_every_page_is_in_the_table_of_contents():
  index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
  listed = re.findall(r"^(?:[\w ]+ <)?([\w./*-]+)>?$", index, re.MULTILINE)
  pages = [name.rpartition(".")[0] for name in page_names().values()]
  assert [page for page in pages if not any(fnmatch(page, pattern) for pattern in listed)] == ["index"]


def test_a_picture_for_one_color_scheme_is_marked_for_the_theme():
  text = site_text("docs/benchmarks.md", page_names())
  assert "-light.svg){.only-light}" in text
  assert "-dark.svg){.only-dark}" in text
  assert "mode-only" not in text


def test_public_names_that_the_reference_lacks_are_found():
  page = "`````{py:class} graftax.hub_io.HubModule\n````{py:property} graftax.hub_io.HubModule.assets\n"
  missing = missing_names({"reference/graftax.hub_io.md": page})
  assert {"graftax.hub_io.HubModule.folder", "graftax.hub_io.load", "graftax.savedmodel_io.load"} <= set(missing)
  assert not {"graftax.hub_io.HubModule", "graftax.hub_io.HubModule.assets"} & set(missing)


def test_a_docstring_becomes_markdown():
  docstring = (
    "Returns a*b.\n\nArgs:\n  a: the first,\n    of two.\n  b: a `list[int]`.\n\nRaises:\n  ValueError: no.\n\n"
    "Example:\n  >>> f(2, 3)\n  6\n"
  )
  assert markdown_of_docstring(docstring) == (
    "Returns a\\*b.\n\n**Args**\n\n- `a`: the first,\n  of two.\n- `b`: a `list[int]`.\n\n**Raises**\n\n"
    "- `ValueError`: no.\n\n**Example**\n\n```pycon\n>>> f(2, 3)\n6\n```"
  )
