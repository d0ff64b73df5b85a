"""How the commands report errors."""

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

__all__ = ["reports_errors"]

# Set to anything but "" or "0", unexpected errors end with a traceback.
_TRACEBACK = "GRAFTAX_TRACEBACK"

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def reports_errors(command: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
  """Shows an error as one message. For unexpected errors it says how to get the traceback."""

  @functools.wraps(command)
  def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
    from graftax.graphdef_ir.errors import GraftaxError
    from graftax.tools.console import remarks
    from graftax.tools.errors import place_in_user_code

    try:
      return command(*args, **kwargs)
    except BrokenPipeError:
      raise  # the reader of our output is gone; click ends quietly
    except (GraftaxError, OSError) as e:
      text = _message(e)
    except (typer.Exit, typer.Abort, typer.BadParameter):
      raise  # already reported, or wrong usage
    except Exception as e:
      if os.environ.get(_TRACEBACK, "0") not in ("", "0"):
        raise
      cause = place_in_user_code(e) or "an error of JAX or a bug in graftax"
      text = f"{type(e).__name__}: {_message(e)}\n({cause}; set {_TRACEBACK}=1 in the environment for the traceback)"
    remarks().print(f"error: {text}", style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)

  return wrapped


def _message(error: Exception) -> str:
  from graftax.tools.errors import notes_of

  return "\n".join([str(error) or type(error).__name__, *notes_of(error)])
