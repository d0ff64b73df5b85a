"""Programs that raise each public error, and what works instead, for docs/errors.md.

`EXAMPLES` maps an error to its program and its remedy. The programs share the names of `PRELUDE` and run in a temporary
folder; `MODEL` is the digits classifier. Base classes that are not raised themselves have no program, nor have the
errors of `WITHOUT_PROGRAM`, with the reason; their docstrings and remedies explain them.
"""

from collections.abc import Mapping

import graftax.hub_io.errors as hub
import graftax.savedmodel_io.errors as files
import graftax.xla_call_module as stablehlo
from graftax import convert, graphdef_ir, ops_jax
from graftax.graphdef_ir import errors as graphs

__all__ = ["EXAMPLES", "PRELUDE", "WITHOUT_PROGRAM"]

PRELUDE = """
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from google.protobuf import text_format
from graftax import convert, graphdef_ir, hub_io, ops_jax, savedmodel_io, xla_call_module
from graftax.graphdef_ir import graph_from_proto, schema, validate
from graftax.xla_call_module import Module, lift
from graftax.tools.examples.digits import model_path

MODEL = model_path()
images = np.zeros([2, 8, 8, 1], np.float32)


def graph(text):
  return graph_from_proto(text_format.Parse(text, schema.GraphDef()))


def node(name, op, *inputs, **attrs):  # attributes that are types or integers
  fields = [f'name: "{name}" op: "{op}"', *(f'input: "{x}"' for x in inputs)]
  for key, value in attrs.items():
    fields.append(f'attr {{ key: "{key}" value {{ {"i" if isinstance(value, int) else "type"}: {value} }} }}')
  return f"node {{ {' '.join(fields)} }}\\n"


def placeholder(name, dtype="DT_FLOAT"):
  return node(name, "Placeholder", dtype=dtype)


def converted(text, *inputs):
  message = text_format.Parse(text, schema.GraphDef())
  return convert.convert_functional(message.SerializeToString(), inputs=inputs, outputs="y")


def function(text):
  return f"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{ {text} }}"
"""

_LOAD = "model = savedmodel_io.load(MODEL)\n"
_CONVERT = _LOAD + "predict, params = model.convert()\n"

EXAMPLES: Mapping[type[BaseException], tuple[str, str]] = {
  # graphs
  graphdef_ir.ParseError: (
    "graphdef_ir.parse_graph(b'\\x0a\\xff')",
    "`saved_model.pb` holds a SavedModel and not a GraphDef: pass its folder to `savedmodel_io.load`.",
  ),
  graphdef_ir.GraphError: ("", "The message names node and function. Its subclasses say what is wrong."),
  graphdef_ir.GraftaxError: ("", "Catch it to catch all errors of graftax."),
  graphdef_ir.UnsupportedError: ("", "Its subclasses say what is not supported, and what works."),
  graphdef_ir.LimitExceededError: (
    "limits = graphdef_ir.Limits(array_bytes=1000)\ngraphdef_ir.Budget.of(limits).check_array([1000, 1000], 4, 'Fill')",
    "Raise the limit that the message names, if you trust the file.",
  ),
  graphdef_ir.LibraryNotFoundError: (
    "with graphdef_ir.optional_library('acme', 'pip install acme'):\n  import acme",
    "Install the library; `graftax doctor` prints the line for each.",
  ),
  graphdef_ir.UnsafeFileError: (
    "graphdef_ir.ModelFolder.of(MODEL).read('/etc/hosts', 'the vocabulary')",
    "Allow the folder if you trust the model: `load(path, allow_files_in=[folder])`, or `--allow-files-in`.",
  ),
  graphdef_ir.UnreadableFileError: (
    "Path('vocabulary.txt').symlink_to('vocabulary.txt')\n"
    "graphdef_ir.read_regular_file('vocabulary.txt', 'the vocabulary')",
    "Check the permissions of the file.",
  ),
  graphs.TensorError: (
    "proto = schema.TensorProto(dtype=graphdef_ir.DType.FLOAT, tensor_content=b'abc')\n"
    "proto.tensor_shape.dim.add(size=1)\n"
    "graphdef_ir.Tensor.from_proto(proto).numpy()",
    "Repair the program that wrote the constant, or copy the file again.",
  ),
  graphs.ArityError: (
    "validate(graph(placeholder('x') + node('y', 'Neg', T='DT_FLOAT')))",
    "Repair the program that wrote the graph: the op's inputs are in `op_signature(op)`.",
  ),
  graphs.DanglingInputError: (
    "validate(graph(node('y', 'Neg', 'x', T='DT_FLOAT')))",
    "Add the node, or cut the graph with `Graph.subgraph`.",
  ),
  graphs.DuplicateNameError: ("validate(graph(placeholder('x') * 2))", "Give each node a unique name."),
  graphs.CycleError: (
    "validate(graph(node('y', 'Neg', 'y', T='DT_FLOAT')))",
    "Only loops of `Enter`, `Merge`, `Switch`, `NextIteration` and `Exit` may be cycles.",
  ),
  graphs.MissingAttributeError: (
    "validate(graph(node('x', 'Placeholder')))",
    "Set the attribute. `op_signature(op).attrs` has the ones without a default.",
  ),
  graphs.AttributeValueError: (
    "graphdef_ir.op_signature('Neg').input_types({'T': 3})",
    "Set the attribute to a value of the kind that the message names.",
  ),
  graphs.UnboundAttributeError: (
    "graphdef_ir.op_signature('Neg').input_types({'T': graphdef_ir.AttrPlaceholder('T')})",
    "Give the attributes of the function values with `bind_attributes` first.",
  ),
  graphs.NoSuchNodeError: ("graph(placeholder('x')).node('z')", "The message lists similar names."),
  graphs.UnknownOpError: (
    "graphdef_ir.op_signature('AcmeOp')",
    "Pass the op's definition: `extra_ops=` of `parse_graph` and `convert`. See [your own op](guides/custom_op.md).",
  ),
  graphs.TypeMismatchError: (
    "validate(graph(placeholder('x') + node('y', 'LogicalNot', 'x')))",
    "Add a Cast node, or repair the attribute.",
  ),
  graphs.MissingFunctionError: (
    'validate(graph(\'node { name: "y" op: "PartitionedCall" attr { key: "f" value { func { name: "g" } } } \'\n'
    '  \'attr { key: "Tin" value { list { } } } attr { key: "Tout" value { list { } } } }\'))',
    "Keep the function library with the graph.",
  ),
  graphs.FunctionResultError: (
    "signature = schema.OpDef(name='f', output_arg=[schema.OpDef.ArgDef(name='y', type=1)])\n"
    "graphdef_ir.function_from_proto(schema.FunctionDef(signature=signature))",
    "Repair the program that wrote the function: each result of its signature needs a tensor in `ret`.",
  ),
  graphs.RecursiveFunctionError: (
    'f = text_format.Parse(\'signature { name: "f" } node_def { name: "y" op: "f" }\', schema.FunctionDef())\n'
    "recursive = graph_from_proto(schema.GraphDef(library=schema.FunctionDefLibrary(function=[f])))\n"
    "graphdef_ir.inline_calls(recursive.library['f'], recursive.library)",
    "Write the recursion as a loop.",
  ),
  graphs.UnsupportedDTypeError: (
    "graphdef_ir.DType.from_numpy('datetime64[s]')",
    "Cast the array. Resources and variants are handles, which numpy does not have.",
  ),
  graphs.UnsupportedFunctionError: (
    "argument = schema.OpDef.ArgDef(name='x', type=1, number_attr='N')\n"
    "function_def = schema.FunctionDef(signature=schema.OpDef(name='f', input_arg=[argument]))\n"
    "graphdef_ir.function_from_proto(function_def)",
    "Write one parameter for each tensor.",
  ),
  graphs.OutputIndexError: (
    "validate(graph(placeholder('x') + node('y', 'Neg', 'x:1', T='DT_FLOAT')))",
    "Outputs are counted from 0.",
  ),
  graphs.ControlFlowError: ("", "Load the SavedModel instead of a frozen graph, or raise control flow in TensorFlow."),
  graphs.DeadBranchError: (
    "branch = node('s', 'Switch', 'x', 'p', T='DT_FLOAT') + node('y', 'Neg', 's:1', T='DT_FLOAT')\n"
    "converted(placeholder('x') + placeholder('p', 'DT_BOOL') + branch, 'x', 'p')",
    "Ask for the Merge node after the branch instead.",
  ),
  graphs.IrreducibleControlFlowError: (
    "first = placeholder('p', 'DT_BOOL') + node('s', 'Switch', 'x', 'p', T='DT_FLOAT')\n"
    "second = placeholder('q', 'DT_BOOL') + node('t', 'Switch', 'x', 'q', T='DT_FLOAT')\n"
    "merge = node('y', 'Merge', 's:1', 't', T='DT_FLOAT', N=2)\n"
    "converted(placeholder('x') + first + second + merge, 'x', 'p', 'q')",
    "Rewrite the loop with `tf.while_loop` in TensorFlow 2, and export again.",
  ),
  # ops
  ops_jax.UnsupportedOpError: (
    "converted(placeholder('x', 'DT_STRING') + node('y', 'DecodeWav', 'x'), 'x')",
    'The message says it for each op: `SavedModel.split` for text and images, `fallback="tensorflow"` for ops of '
    "other libraries that TensorFlow can compile, or a lowering of yours. `graftax ops NAME` explains an op.",
  ),
  ops_jax.UnsupportedAttrError: (
    "ops_jax.lowering('PrintV2').function(np.array(b'hello', object), output_stream='file://notes.txt')",
    "Export with the value that the message names, or override the lowering.",
  ),
  ops_jax.StaticInputError: (
    "reshape = node('y', 'Reshape', 'x', 'n', T='DT_FLOAT')\n"
    "fn = converted(placeholder('x') + placeholder('n', 'DT_INT32') + reshape, 'x', 'n')\n"
    "jax.jit(fn)(jnp.ones(4), jnp.array([2, 2]))",
    "Pass the value outside of `jit`, as a static argument, or give a bound: [sizes that depend on "
    "data](guides/data_dependent_sizes.md).",
  ),
  ops_jax.InvalidInputError: (
    "fn = converted(placeholder('x') + node('y', 'MatMul', 'x', 'x', T='DT_FLOAT'), 'x')\n"
    "fn(np.ones((2, 3), np.float32))",
    "TensorFlow raises for the same values; the message names node and input.",
  ),
  ops_jax.RegistrationError: (
    "from graftax.ops_jax import register\nregister('Relu')(jnp.abs)",
    "Pass `override=True` to replace a lowering.",
  ),
  ops_jax.MissingBoundError: (
    "fill = node('y', 'Fill', 'n', 'x', T='DT_FLOAT')\n"
    "fn = converted(placeholder('x') + placeholder('n', 'DT_INT32') + fill, 'x', 'n')\n"
    "jax.jit(fn)(np.float32(1), np.int32([3]))",
    "Name a bound for the node or its op in the option `max_sizes`, or call outside of `jit`.",
  ),
  ops_jax.SizeBoundError: (
    "with convert.override_config('max_sizes', {'y': 1}):\n"
    "  fn = converted(placeholder('x') + node('y', 'Where', 'x', T='DT_FLOAT'), 'x')\n"
    "jax.jit(fn)(np.float32([1, 0, 1])).cut()",
    "Raise the bound in `max_sizes`.",
  ),
  # calls
  convert.ConversionError: ("convert.convert(3)", "The message lists what `convert` takes."),
  convert.InputError: (
    _CONVERT + "predict(params, pixels=images)",
    "The message lists the inputs; `model.signatures` shows names, dtypes and shapes.",
  ),
  convert.MissingInputError: (_CONVERT + "predict(params)", "Pass what is missing, such as `rng=jax.random.key(0)`."),
  convert.ParameterError: (
    _CONVERT + "predict({'kernel': 0}, images=images)",
    "Pass the dict that `convert` returned, with the same names.",
  ),
  convert.ForwardModeError: (
    "@jax.custom_vjp\n"
    "def clip(x):\n"
    "  return x\n"
    "\n"
    "clip.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))\n"
    "fn, _ = convert.convert_program(convert.jax_program(clip, [jax.ShapeDtypeStruct((3,), 'float32')]))\n"
    "jax.jvp(lambda x: fn({}, x)[0], (jnp.ones(3),), (jnp.ones(3),))",
    "Use reverse mode, or the option `convert_custom_gradient=False`.",
  ),
  convert.SourceError: (
    "convert.to_source(lambda x: jax.debug.print('{}', x), jnp.ones(3))",
    "Write the part without calls of Python, or without debugging calls.",
  ),
  convert.UnsupportedPrimitiveError: (
    "savedmodel_io.save('m', (jax.lax.linalg.eig, jax.ShapeDtypeStruct((3, 3), 'float32')), lowering='tf_ops')",
    "Use the default lowering, if the consumer runs StableHLO. [Primitives](primitives.md) lists what has a form.",
  ),
  convert.VariableWriteError: (
    "",
    'Use `call_tf(f, variables="explicit")`: [TensorFlow in JAX](guides/call_tf.md). Instead of `jit_for_inference`, '
    "use `jit`, which returns the new values: [faster programs](guides/speed.md#parameters-that-are-not-copied).",
  ),
  # SavedModels
  files.SavedModelError: (
    "",
    "Catch it to catch all errors of SavedModels, checkpoints and hub modules.",
  ),
  files.CheckpointError: (
    "",
    "Its subclasses say what is wrong with the checkpoint.",
  ),
  files.WeightsError: (
    "",
    "Its subclasses say what is wrong with the file of weights.",
  ),
  files.SavedModelNotFoundError: ("savedmodel_io.load('no_such_model')", "Pass the folder that holds saved_model.pb."),
  files.NotASavedModelError: (
    "Path('model.pb').write_bytes(b'no model')\nsavedmodel_io.load('model.pb')",
    "[Formats](formats.md) lists what is read.",
  ),
  files.UnknownSignatureError: (_LOAD + "model.signatures['predict']", "The message lists the signatures."),
  files.UnknownFunctionError: (_LOAD + "model.functions['call']", "The message lists the functions."),
  files.UnknownNameError: (_LOAD + "model.variables['kernel']", "The message lists similar names."),
  files.UnknownTagsError: (
    "savedmodel_io.load(MODEL, tags={'train'})",
    "Pass one of the sets of tags that the message lists.",
  ),
  files.AmbiguousFunctionError: (
    _LOAD + "model.convert('serve', np.zeros([2, 3], np.float32), training=True)",
    "Pass specs that fit one of the traces; `model.functions[name].concrete_functions` lists them.",
  ),
  files.VariableValueError: (
    _LOAD + "model.save('out', {'digits/head/bias': np.zeros(3, np.float32)})",
    "Pass a value of the variable's shape; `cast=True` converts the precision.",
  ),
  files.CastError: (
    "savedmodel_io.load(MODEL, dtype='int8')",
    "Cast to a type of real numbers: float32, bfloat16, float16 or float64.",
  ),
  files.ShardingError: (
    "mesh = jax.make_mesh((1,), ('model',))\n"
    "savedmodel_io.load(MODEL, sharding=savedmodel_io.partition_rules(mesh, [('kernel$', jax.P('model'))])).convert()",
    "End the rules with `('', P())`, which holds for the rest.",
  ),
  files.SaveInputError: (
    "savedmodel_io.save('m', {'f': 3})",
    "The message lists what `save` takes; see [export](guides/export.md).",
  ),
  files.OutputExistsError: (
    "import os\nos.mkdir('out')\nPath('out/notes.txt').touch()\n"
    "savedmodel_io.save('out', (jnp.sin, jax.ShapeDtypeStruct((2,), 'float32')))",
    "Choose another name, or pass `overwrite=True`.",
  ),
  files.MissingFolderError: (
    "Path('notes.txt').touch()\nsavedmodel_io.write_checkpoint('notes.txt/ckpt', {'kernel': np.ones(2)})",
    "Make the folder first, or check its permissions.",
  ),
  files.ParameterNameError: (
    "savedmodel_io.nest({'kernel//0': 1})",
    "Rename one of them with `savedmodel_io.rename` first.",
  ),
  files.MatchError: (
    "savedmodel_io.match({'kernel': np.zeros((2, 3))}, {'steps': np.zeros(1, np.int32)})",
    "Pass the parameters of the model, or decide what is ambiguous with `Matching.choose`.",
  ),
  files.ParameterFileError: (
    "Path('p.safetensors').touch()\nsavedmodel_io.read_safetensors('p.safetensors')",
    "Read the file with the function of its format.",
  ),
  files.UnsafeOpError: (
    "decode = node('file', 'ReadFile', 'path') + node('y', 'DecodeRaw', 'file', out_type='DT_FLOAT')\n"
    "Path('graph.pbtxt').write_text(placeholder('path', 'DT_STRING') + decode)\n"
    "savedmodel_io.load('graph.pbtxt').split(run_head_with='tensorflow')",
    "Leave the head to graftax, or allow the ops with the option that the message names.",
  ),
  files.DTensorError: ("", "Call what the message names first."),
  files.UnsupportedSavedModelError: (
    "Path('model').mkdir()\n"
    "message = schema.SavedModel(saved_model_schema_version=9, meta_graphs=[schema.MetaGraphDef()])\n"
    "Path('model/saved_model.pb').write_bytes(message.SerializeToString())\n"
    "savedmodel_io.load('model')",
    "Export the model again with a newer TensorFlow.",
  ),
  files.DamagedSavedModelError: (
    "Path('model').mkdir()\nPath('model/saved_model.cpb').touch()\nsavedmodel_io.load('model')",
    "Copy or download the model again.",
  ),
  # checkpoints and weights
  files.CheckpointNotFoundError: (
    "savedmodel_io.read_checkpoint('no/ckpt-1')",
    "Pass the prefix, without `.index` or `.data-00000-of-00001`.",
  ),
  files.CheckpointKeyError: (
    "savedmodel_io.write_checkpoint('ckpt', {'kernel': np.ones(2)})\nsavedmodel_io.CheckpointReader('ckpt')['bias']",
    "The message lists similar keys; iterate over the reader for all.",
  ),
  files.TensorValueError: (
    "savedmodel_io.write_checkpoint('ckpt', {'kernel': object()})",
    "Pass arrays, bytes or text.",
  ),
  files.DamagedCheckpointError: (
    "savedmodel_io.write_checkpoint('ckpt', {'kernel': np.ones(2)})\n"
    "Path('ckpt.data-00000-of-00001').write_bytes(bytes(16))\n"
    "savedmodel_io.read_checkpoint('ckpt')['kernel']",
    "Copy or download the checkpoint again. A checksum, a size or an offset is wrong.",
  ),
  files.MissingShardError: (
    "savedmodel_io.write_checkpoint('ckpt', {'kernel': np.ones(2)})\n"
    "Path('ckpt.data-00000-of-00001').unlink()\n"
    "savedmodel_io.read_checkpoint('ckpt')",
    "Copy all `.data-*` files beside the index.",
  ),
  files.CheckpointWriteError: ("", "Free some space, or check permissions. Nothing was replaced."),
  files.UnsupportedCheckpointError: ("", "Write the checkpoint again with TensorFlow 2."),
  files.DamagedWeightsError: (
    "Path('m.keras').touch()\nsavedmodel_io.read_weights('m.keras')",
    "Copy or download the file again.",
  ),
  files.UnsafeWeightsError: (
    "import h5py\n"
    "with h5py.File('m.h5', 'w') as file:\n"
    "  file['kernel'] = h5py.ExternalLink('another.h5', '/kernel')\n"
    "savedmodel_io.read_weights('m.h5')",
    "Do not use the file, unless you know who wrote it.",
  ),
  # hub
  hub.HubError: (
    "",
    "Catch it to catch all errors of handles, downloads and archives.",
  ),
  hub.ArchiveError: (
    "",
    "Its subclasses say what is wrong with the archive.",
  ),
  hub.UnsafeCacheWarning: (
    "",
    "Let only the owner write to the folder, or name a folder of your own in the variable of the message.",
  ),
  hub.DamagedCacheWarning: (
    "",
    "Nothing has to be done: the module is fetched again.",
  ),
  hub.HandleError: ("hub_io.load('https://tfhub.dev/')", "Write OWNER/MODEL/FRAMEWORK/VARIATION, or the address."),
  hub.ModuleNotCachedError: (
    "hub_io.load('https://tfhub.dev/google/yamnet/1', offline=True)",
    "Load it once without `offline=True`, or copy the cache from a machine with a connection.",
  ),
  hub.DamagedArchiveError: (
    "Path('m.tar.gz').write_bytes(b'no archive')\nhub_io.load('m.tar.gz')",
    "Download the archive again.",
  ),
  hub.DownloadError: (
    "hub_io.load('http://example.com/publisher/model/1')",
    "Check the connection, the address and proxies; what was downloaded is kept until the next try.",
  ),
  hub.DigestError: (
    "Path('m.tar').write_bytes(b'another archive')\nhub_io.load('m.tar', sha256='0' * 64)",
    "Do not use the archive, or pass the digest of the version that you mean.",
  ),
  hub.UnsafeArchiveError: (
    "import tarfile\n"
    "with tarfile.open('m.tar', 'w') as archive:\n"
    "  archive.addfile(tarfile.TarInfo('../saved_model.pb'))\n"
    "hub_io.load('m.tar')",
    "Do not use the archive, unless you know who wrote it; then unpack it yourself.",
  ),
  hub.AmbiguousArchiveError: (
    "import tarfile\n"
    "with tarfile.open('m.tar', 'w') as archive:\n"
    "  archive.add(MODEL, 'first')\n"
    "  archive.add(MODEL, 'second')\n"
    "hub_io.load('m.tar')",
    "Unpack the archive and load one of the folders.",
  ),
  hub.UnsupportedHubModuleError: (
    "import shutil\n"
    "shutil.copytree(MODEL, 'module')\n"
    "Path('module/tfhub_module.pb').write_bytes(b'\\x08\\x02')\n"
    "hub_io.load('module')",
    "Export the module again with tensorflow_hub, or use another version of it.",
  ),
  hub.UnsafeCacheError: ("", "Set `TFHUB_CACHE_DIR` to a folder that only you can write to."),
  # StableHLO
  stablehlo.DecodeError: ("Module.from_bytes(b'no module')", "Pass MLIR text, bytecode or a portable artifact."),
  stablehlo.VersionError: (
    "Module.from_call_module(version=99, module=b'')",
    "Install a newer jaxlib, or export for an older StableHLO.",
  ),
  stablehlo.ArgumentError: (
    "lift(Module.from_text(function('return %x : tensor<3xf32>')))(np.ones(4, np.float32))",
    "`module.inputs` describes the arguments. Pass the leaves of a pytree.",
  ),
  stablehlo.LiftError: (
    "savedmodel_io.save('m', (jnp.linalg.eig, jax.ShapeDtypeStruct((3, 3), 'float32')))",
    "`xla_call_module.call` embeds such ops; `error.reason` says why it does not lift.",
  ),
  stablehlo.CustomCallError: (
    "lift(Module.from_text(function('%0 = stablehlo.custom_call @acme(%x) : (tensor<3xf32>) -> tensor<3xf32> '\n"
    "  'return %0 : tensor<3xf32>')))(np.ones(3, np.float32))",
    'Pass `custom_calls={"acme": function}`, or `allow_custom_calls=["acme"]` if the kernel checks its operands.',
  ),
  stablehlo.PlatformError: (
    "exported = jax.export.export(jax.jit(jnp.sin), platforms=['tpu'])(jax.ShapeDtypeStruct((2,), 'float32'))\n"
    "lift(Module.from_exported(exported))(jnp.ones(2))",
    "Export for this platform too, or pass `check_platform=False`.",
  ),
  stablehlo.X64Error: (
    "lift(Module.from_text(function('return %x : tensor<3xf32>').replace('f32', 'f64')))(np.ones(3))",
    '`jax.config.update("jax_enable_x64", True)`, or `x64=` of `lift`.',
  ),
  stablehlo.DerivativeError: (
    "f = xla_call_module.embed(Module.from_text(function('return %x : tensor<3xf32>')))\n"
    "jax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))",
    "Use `lift`, or export with `vjp_order=1`.",
  ),
  stablehlo.ShapeAssertionError: (
    "b, = jax.export.symbolic_shape('b', constraints=['b >= 3'])\n"
    "exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((b,), 'float32'))\n"
    "lift(Module.from_exported(exported))(jnp.ones(2))",
    "Pass arrays of sizes that the exporter allowed.",
  ),
  stablehlo.LimitExceededError: (
    "Module.from_text(function('return %x : tensor<3xf32>'), limits=xla_call_module.Limits(depth=0))",
    "Raise the limit that the message names, if you trust the module.",
  ),
  stablehlo.RefinementError: (
    "b, = jax.export.symbolic_shape('b')\n"
    "argument = jax.ShapeDtypeStruct((b,), 'float32')\n"
    "exported = jax.export.export(jax.jit(jnp.sin))(argument)\n"
    "jax.export.export(jax.jit(xla_call_module.embed(Module.from_exported(exported))))(argument)",
    "Pass arguments whose sizes agree with each other; `lift` names the assertion.",
  ),
  stablehlo.GuardError: ("", "Pass `guard=False` for bytes that you wrote yourself."),
  stablehlo.UnsupportedModuleError: (
    "lift(Module.from_text(function('%0 = func.call @main(%x) : (tensor<3xf32>) -> tensor<3xf32> '\n"
    "  'return %0 : tensor<3xf32>')))(np.ones(3, np.float32))",
    "`xla_call_module.explain(module)` lists every reason.",
  ),
  stablehlo.StableHloError: ("", "Catch it to catch all errors of `xla_call_module`."),
}

# Errors that are raised but have no program, with the reason.
WITHOUT_PROGRAM: Mapping[type[BaseException], str] = {
  convert.VariableWriteError: "needs a function of TensorFlow",
  files.DTensorError: "needs TensorFlow",
  files.CheckpointWriteError: "needs a full disk",
  files.UnsupportedCheckpointError: "needs a checkpoint of a later TensorFlow or of a big-endian machine",
  hub.UnsafeCacheError: "needs a folder of another user",
  stablehlo.GuardError: "needs a Python that does not start",
}
