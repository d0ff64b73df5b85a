"""Messages in protobuf's text form, as in `.pbtxt` files."""

import functools
import re
from typing import TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import EncodeError

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.errors import ParseError

__all__ = ["is_text_form", "parse_text_form"]

_Message = TypeVar("_Message", bound=schema.Message)

# A text may begin with comments. Longer ones than this are not looked through.
_MOST_BYTES_BEFORE_FIRST_FIELD = 1 << 16


def is_text_form(message_type: type[schema.Message], data: bytes) -> bool:
  """Returns whether bytes are a message in text form rather than serialized.

  A text begins with the name of a field. The serialized messages of graphs do not: their first byte is a tag, which may
  be a line break, and what follows it are lengths and further tags.
  """
  return _first_field(message_type.DESCRIPTOR).match(data[:_MOST_BYTES_BEFORE_FIRST_FIELD]) is not None


@functools.cache
def _first_field(descriptor: Descriptor) -> re.Pattern[bytes]:
  names = "|".join(field.name for field in descriptor.fields)
  return re.compile(rf"(\s|#[^\n]*\n)*({names})\s*[:{{<]".encode())


def parse_text_form(message_type: type[_Message], data: bytes) -> _Message:
  """Returns the message of a text that may be damaged or hostile. Fields that our schema leaves out are skipped.

  Args:
    message_type: the class of the message, of our schema.
    data: the text, as in a `.pbtxt` file.

  Raises:
    ParseError: the text is not a message of this type.
  """
  from google.protobuf import text_format  # texts are rare, and the parser is slow to import

  message = message_type()
  try:
    # ValueError and TypeError: values that do not fit their fields.
    text_format.Parse(data, message, allow_unknown_field=True)  # type: ignore[type-var]  # ours are duck-typed
    # Serialized messages have at most 100 levels, and what reads them relies on that.
    return message_type.FromString(message.SerializeToString())
  except (text_format.ParseError, schema.DecodeError, EncodeError, ValueError, TypeError, RecursionError) as e:
    raise ParseError(f"{message_type.__name__}: cannot be parsed as a message in text form: {e}") from e
