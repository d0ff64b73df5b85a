"""Parameters in the shapes that other programs take them in.

- `nesting`: dicts of parameters by name as nested dicts, and back.
- `renaming`: parameters under other names, with a report of what fits.
"""
