"""Describes nested inputs and outputs, and the composite tensors in them."""
