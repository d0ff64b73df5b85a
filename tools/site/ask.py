"""Searches the site for what users ask: `.venv/bin/python tools/site/ask.py`, after `make docs`; needs Chromium.

For each question of `questions.toml` the site's own search runs in a browser. Printed are the place of the page among
the results, and whether it has the words of the answer. The seconds are an estimate of a reader's time: 4 to type, 1
for each result above the page, 1 for each heading above the section, and 1 for every 4 words of the section above the
answer.
"""

import functools
import html
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
import urllib.parse
from pathlib import Path

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[2]
_SITE = _ROOT / "build/docs/html"
# A reader looks no further down.
_MOST_RESULTS = 10
_LINK = re.compile(r'<li[^>]*><a href="([^"#?]*)\.html')


class _Quiet(http.server.SimpleHTTPRequestHandler):
  def log_message(self, *args: object) -> None:
    pass


def found_pages(query: str, port: int, profile: str) -> list[str]:
  """Returns the pages that the site's search finds, best first."""
  address = f"http://localhost:{port}/search.html?q={urllib.parse.quote(query)}"
  command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
  command += ["--virtual-time-budget=15000", "--dump-dom", address]
  dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
  pages = (page.removeprefix("./") for page in _LINK.findall(dom))
  return list(dict.fromkeys(pages))


def seconds_to_read(page: str, answer: str) -> int | None:
  """Returns how long a reader needs to find an answer on a page, or None if it is not there."""
  source = (_SITE / f"{page}.html").read_text(encoding="utf-8")
  article = re.search(r"<article.*?</article>", source, re.DOTALL)
  assert article is not None
  marked = re.sub(r"<h[1-4][^>]*>", " \x01 ", article[0])
  text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", marked)))
  place = text.find(answer)
  if place < 0:
    return None
  before = text[:place].split("\x01")
  return len(before) - 1 + len(before[-1].split()) // 4


def main() -> int:
  questions = tomllib.loads((Path(__file__).with_name("questions.toml")).read_text(encoding="utf-8"))["question"]
  server = http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(_Quiet, directory=str(_SITE)))
  threading.Thread(target=server.serve_forever, daemon=True).start()
  answered = 0
  print("| question | typed | page | result | s |\n| --- | --- | --- | --: | --: |")
  with tempfile.TemporaryDirectory() as profile:
    for question in questions:
      pages = found_pages(question["query"], server.server_port, profile)[:_MOST_RESULTS]
      shown = f"| {question['asked']} | {question['query']}"
      for place, page in enumerate(pages):
        reading = seconds_to_read(page, question["answer"]) if page in question["pages"] else None
        if reading is not None:
          answered += 1
          print(f"{shown} | {page} | {place + 1} | {4 + place + reading} |", flush=True)
          break
      else:
        print(f"{shown} | {question['pages'][0]} | no | |", flush=True)
  print(f"\n{answered} of {len(questions)} answered")
  return 0 if answered >= 0.95 * len(questions) else 1


if __name__ == "__main__":
  sys.exit(main())
