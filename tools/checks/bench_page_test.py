"""Tests that the page of benchmarks is what the stored results give."""

from graftax.tools.benchmarks.plots import main


def test_page_and_pictures_are_made_from_the_stored_results(capsys):
  assert main(["--check"]) == 0, capsys.readouterr().out
