"""The `graftax` command: options, help and error messages. Its work is in modules that are imported on use.

Exit codes: 0 done, 1 it could not be done (one message, no traceback), 2 wrong usage.

- `application`: the command with all its subcommands.
- `inspect_command`, `run_command`, `convert_command`, `source_command`, `export_command`, `rewrite_command`,
  `facts_commands` (`ops` and `doctor`): a subcommand each.
- `options`: options that several commands have; `rewrite_options`: those of `rewrite`.
- `errors`: how errors are reported.
"""

from graftax.tools.cli.application import app, main

__all__ = ["app", "main"]
