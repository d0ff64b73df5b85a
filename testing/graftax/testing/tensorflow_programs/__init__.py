"""The TensorFlow programs that all suites draw on: functions with inputs and checks, as `ConversionCase`s.

- `catalogue`: all of them; listing them does not import TensorFlow.
- `functions`: functions of one array, for transformations of calls.
- `layers`: layers with random weights, of which models are made.
- `cases`: programs of a few ops, by what they show.
- `models`: small models of known architectures, by domain.
"""
