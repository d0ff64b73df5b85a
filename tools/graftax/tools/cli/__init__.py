"""The `graftax` command: options, help and error messages. Its work is in modules that are imported on use.

Exit codes: 0 done, 1 it could not be done (one message, no traceback), 2 wrong usage.

- `application`: the command with all its subcommands.
- `inspect_command`: `graftax inspect`.
- `run_command`: `graftax run`.
- `convert_command`: `graftax convert`.
- `source_command`: `graftax source`.
- `export_command`: `graftax export`.
- `rewrite_command`: `graftax rewrite`.
- `rewrite_options`: its options.
- `facts_commands`: `graftax ops` and `graftax doctor`.
- `options`: options that several commands have.
- `errors`: how the commands report errors.
"""

from graftax.tools.cli.application import app, main

__all__ = ["app", "main"]
