"""Regular expressions on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import SOME, WORDS, check

_RAW = tf.raw_ops


@pytest.mark.parametrize(
  ("pattern", "rewrite"),
  [
    (r"[!\"#$%&()*+,-./:;<=>?@\[\\\]^_`{|}~']", ""),
    (r"(\w)(\w*)", r"\2\1-\0\\"),
    (r"x*", "-"),
    (r"\b", "|"),
    (r"(?i)[[:punct:]]|[é-ÿ]", r" \0 "),
    (r"(a)|b", r"[\1]"),
    (r"^|$", "#"),
  ],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_regular_expressions_replace_as_re2_does(pattern, rewrite, everywhere):
  check(lambda x: tf.strings.regex_replace(x, pattern, rewrite, replace_global=everywhere), SOME)


def test_patterns_can_be_inputs_and_malformed():
  check(lambda x, pattern: _RAW.RegexReplace(input=x, pattern=pattern, rewrite="."), SOME, tf.constant("[aeiou]+"))
  check(lambda x, pattern: _RAW.RegexFullMatch(input=x, pattern=pattern), SOME, tf.constant(r"\w+"))
  check(lambda x: tf.strings.regex_replace(x, "(", ""), WORDS)
