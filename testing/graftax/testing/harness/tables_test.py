"""Tables in Markdown."""

from graftax.testing.harness.tables import count, table


def test_columns_of_numbers_are_aligned_to_the_right():
  assert table(["kind", "cases"], [("rnn", 3)], num_left=1).splitlines() == [
    "| kind | cases |",
    "| --- | ---: |",
    "| rnn | 3 |",
  ]
  assert table(["a", "b"], []).splitlines()[1] == "| --- | --- |"


def test_counts_are_of_all():
  assert count([True, False, True]) == "2 of 3"
