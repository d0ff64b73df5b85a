"""Rewrites of functions. Each takes a function and returns a new one; none changes what is computed."""

from graftax.graphdef_ir.passes.attribute_binding import bind_attributes
from graftax.graphdef_ir.passes.call_inlining import inline_calls
from graftax.graphdef_ir.passes.control_flow_raising import raise_control_flow
from graftax.graphdef_ir.passes.pruning import prune

__all__ = ["bind_attributes", "inline_calls", "prune", "raise_control_flow"]
