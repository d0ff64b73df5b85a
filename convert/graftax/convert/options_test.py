import dataclasses
import threading

import pytest

from graftax.convert import ConvertOptions, Limits, current_options, get_config, override_config, update_config


def test_overrides_nest_and_end_with_their_block():
  with override_config("strict_dtype_check", True):
    with override_config("strict_shape_check", False):
      assert (get_config("strict_dtype_check"), get_config("strict_shape_check")) == (True, False)
    assert get_config("strict_shape_check") is True
  assert current_options() == ConvertOptions()


def test_an_override_ends_also_when_the_block_fails():
  with pytest.raises(RuntimeError), override_config("strict_dtype_check", True):
    raise RuntimeError
  assert get_config("strict_dtype_check") is False


def test_override_config_is_invisible_to_other_threads():
  seen = []
  with override_config("strict_shape_check", False):
    thread = threading.Thread(target=lambda: seen.append(get_config("strict_shape_check")))
    thread.start()
    thread.join()
  assert seen == [True]


def test_update_config_is_seen_by_other_threads():
  seen = []
  update_config("strict_shape_check", False)
  try:
    thread = threading.Thread(target=lambda: seen.append(get_config("strict_shape_check")))
    thread.start()
    thread.join()
  finally:
    update_config("strict_shape_check", True)
  assert seen == [False]


@pytest.mark.parametrize(
  "call", [get_config, lambda n: update_config(n, 1), lambda n: override_config(n, 1).__enter__()]
)
def test_an_unknown_option_raises_with_the_known_ones(call):
  with pytest.raises(ValueError, match=r"'strict_shape_chek'.*Did you mean 'strict_shape_check'"):
    call("strict_shape_chek")


def test_help_describes_every_option():
  lines = ConvertOptions.__doc__.splitlines()
  for option in dataclasses.fields(ConvertOptions):
    assert sum(line.startswith(f"  {option.name}: ") for line in lines) == 1, option.name


def test_limits_are_an_option():
  with override_config("limits", Limits(steps=7)):
    assert current_options().limits == Limits(steps=7)
  with pytest.raises(ValueError, match=r"'limits' is a graftax.convert.Limits; got 7"):
    update_config("limits", 7)
