"""Variables and lookup tables.

- `lookup_tables`: Lookup tables as constants of the converted program: LookupTableFind, LookupTableSize,
  LookupTableExport.
- `ref_variables`: TF1 reference variables: VariableV2, Assign, AssignAdd, AssignSub.
- `variable_updates`: Parts of variables, read and updated: ResourceGather, ResourceScatterUpdate, ScatterNdUpdate,
  StridedSliceAssign.
- `variables`: Resource variables: VarHandleOp, ReadVariableOp, AssignVariableOp. The evaluator carries the values.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "lookup_tables",
  "ref_variables",
  "variable_updates",
  "variables",
)
