import re

import pytest

from graftax.graphdef_ir import Node, op_signature, outside_access
from graftax.graphdef_ir._op_table import names
from graftax.graphdef_ir.outside_access import _REACHES

# Words in the names of ops, inputs and attributes that tell of files, addresses and code.
_TELLING = re.compile(
  r"file|(^|_)path|_dir$|directory|prefix|pattern|address|urls?$|host|^token$|Py_?Func|socket|server|topic|checkpoint|"
  r"library|descriptor_source|driver|(^|_)call_target|graph_def|command|Abort|Remote|Rpc|Snapshot|CustomCall",
)
# Ops without state in which such a word means something else.
_HARMLESS = re.compile(
  r"CTC\w+|CudnnRNN\w+|ConvertToSparseCore\w+|CopyHost|HostConst|_HostCast|_?Fused\w+|_MklNativeFusedConv2D|_QuantizedMatMul"
  r"|(Static)?Regex(FullMatch|Replace)|ShardedFile(name|spec)|TPUReplicateMetadata|XlaSparse\w+|ConfigureTPU\w*"
  r"|IndexFlatMapDataset|EditDistance|SdcaOptimizer\w*|StringNGrams|Experimental\w+|GetStatsFromList\w+|Sparse\w+"
  r"|SortListOf\w+|UpperBound|CrossReplicaSum|Unicode\w+|DebugGradient\w+|DecodeProtoV2|EncodeProto|TensorStrided\w*"
  r"|FakeParam|SymbolicGradient|SnapshotN?|Snapshot|_XlaHost\w+|TPUPartitionedInput\w*|Ragged\w+|DTensor\w*"
)


def _telling(op: str) -> list[str]:
  signature = op_signature(op)
  words = [op, *(arg.name for arg in signature.inputs), *signature.attrs]
  return [word for word in words if _TELLING.search(word)]


def test_every_op_whose_signature_tells_of_files_or_code_is_judged():
  unjudged = {
    op: words
    for op in sorted(names())
    if (words := _telling(op))
    and not _HARMLESS.fullmatch(op)
    and outside_access(Node("n", op), is_stateful=op_signature(op).is_stateful) is None
  }
  assert not unjudged


def test_the_listed_ops_exist():
  known = set(names())
  # XlaCustomCall and SnapshotNestedDatasetReader are those of older releases.
  assert set(_REACHES) - known <= {"XlaCustomCall", "SnapshotNestedDatasetReader", "TPUPartitionedCall"}


@pytest.mark.parametrize("op", ["SomeOpOfALibrary", "TPUExecute", "FileSystemSetConfiguration", "WorkerHeartbeat"])
def test_ops_with_state_that_are_not_known_are_refused(op):
  assert outside_access(Node("n", op), is_stateful=True) == "has effects that may reach beyond the program"


@pytest.mark.parametrize(
  "op", ["HashTableV2", "LookupTableFindV2", "RandomUniform", "ReadVariableOp", "While", "Assert"]
)
def test_ops_with_state_of_the_program_are_allowed(op):
  assert outside_access(Node("n", op), is_stateful=op_signature(op).is_stateful) is None


@pytest.mark.parametrize(
  ("op", "attribute", "harmless", "names_file"),
  [
    ("PrintV2", "output_stream", b"stderr", b"file:///var/log/x"),
    ("DecodeProtoV2", "descriptor_source", b"local://", b"/var/lib/descriptors"),
    ("EncodeProto", "descriptor_source", b"bytes://\n\x01", b"relative"),
  ],
)
def test_an_attribute_may_name_a_file(op, attribute, harmless, names_file):
  for value, expected in ((harmless, None), (names_file, "reads or writes files"), (3, "reads or writes files")):
    assert outside_access(Node("n", op, attrs={attribute: value}), is_stateful=False) == expected
  assert outside_access(Node("n", op), is_stateful=False) is None
