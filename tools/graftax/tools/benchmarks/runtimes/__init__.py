"""Run times of networks beside other frameworks and runtimes: `python -m graftax.tools.benchmarks.runtimes --help`.

Each framework is a process of its own, and all are asked in turn for one run, so that load from elsewhere falls on all
alike. Nothing is judged while the machine is busy.

- `networks`: The networks whose run times are compared, built with Keras on either of its backends.
- `written`: Writes the networks as a SavedModel, an ONNX model, a TFLite model and arrays of weights.
- `contestants`: What each framework runs for a network.
- `worker`: The process of a framework: prepares networks, then runs one of them each time it is asked.
- `workers`: The measuring process's side of the workers.
- `machine_load`: How busy the machine is with the work of others.
- `turns`: Asks the workers in turn.
- `comparison`: Medians, spreads and ratios as a table, and as a file for the page of benchmarks.
"""
