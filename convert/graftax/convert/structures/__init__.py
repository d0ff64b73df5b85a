"""Nested inputs and outputs, and the composite tensors in them."""
