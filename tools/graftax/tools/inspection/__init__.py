"""`graftax inspect`: what a model holds, as plain data and as tables.

- `model_report`: what a SavedModel holds and whether it converts, as plain data.
- `model_view`: a report as tables.
- `html`: a report as one page.
- `model_comparison`: what two models differ in.
- `module_report`: what a file of StableHLO holds.
- `weights_report`: what a file of weights holds.
- `abstract_trace`: traces a program on shapes alone.
- `scope_costs`: what the scopes of a traced function compute and move.
"""
