import pytest

from graftax.tools.codegen.error_examples import EXAMPLES
from graftax.tools.codegen.generate_error_index import message_of, public_errors
from graftax.tools.codegen.generated_file import REPOSITORY

# Explained by their docstrings alone.
_WITHOUT_REMEDY = {"InconclusiveDimensionOperation"}


def test_every_public_error_is_on_the_page_with_what_works():
  page = (REPOSITORY / "docs/errors.md").read_text(encoding="utf-8")
  errors = [error for error in public_errors() if f"`{public_errors()[error]}.{error.__name__}`" not in page]
  assert errors == [], "run python -m graftax.tools.codegen.generate_error_index"
  assert {e.__name__ for e in public_errors()} - {e.__name__ for e in EXAMPLES} - _BASES <= _WITHOUT_REMEDY


# Base classes, and warnings, whose subclasses or texts say what works.
_BASES = {
  "ArchiveError", "CheckpointError", "DamagedCacheWarning", "HubError", "SavedModelError", "UnsafeCacheWarning",
  "WeightsError", "AttributeValueError", "FunctionResultError", "RecursiveFunctionError", "TensorError",
  "UnboundAttributeError", "UnsupportedDTypeError", "UnsupportedFunctionError", "UnsupportedModuleError",
}  # fmt: skip


@pytest.mark.slow  # 10 s; texts of messages are tested beside the code that raises them
def test_the_programs_raise_their_errors():
  wrong = {
    e.__name__: raised
    for e, (program, _) in EXAMPLES.items()
    if program and type(raised := message_of(program)) is not e
  }
  assert wrong == {}
