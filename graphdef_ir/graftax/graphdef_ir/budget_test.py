import pickle

import pytest

from graftax.graphdef_ir import Budget, LimitExceededError, Limits


def test_the_error_names_the_limit_and_what_would_be_enough():
  budget = Budget(Limits(array_bytes=1000))
  with pytest.raises(LimitExceededError, match="Fill node 'x' needs 40000 bytes") as caught:
    budget.check_array((100, 100), 4, "Fill node 'x'")
  error = caught.value
  assert (error.limit, error.needed, error.allowed) == ("array_bytes", 40000, 1000)
  Budget(Limits(**{error.limit: error.needed})).check_array((100, 100), 4, "Fill node 'x'")


def test_the_error_can_be_pickled():
  with pytest.raises(LimitExceededError) as caught:
    Budget(Limits(depth=3)).check_depth(4, "message")
  again = pickle.loads(pickle.dumps(caught.value))
  assert str(again) == str(caught.value)
  assert (again.limit, again.needed, again.allowed) == ("depth", 4, 3)


def test_products_of_sizes_do_not_overflow():
  with pytest.raises(LimitExceededError, match=str(4 * 2**126)):
    Budget().check_array((2**63, 2**63), 4, "x")


def test_known_bytes_add_up():
  budget = Budget(Limits(known_bytes=100))
  budget.spend_known_bytes(60, "a")
  with pytest.raises(LimitExceededError, match="b needs 60 bytes while the function is traced, 120 with those before"):
    budget.spend_known_bytes(60, "b")


def test_larger_programs_may_take_more_steps():
  limits = Limits(steps=10, steps_per_node=2)
  Budget(limits, num_nodes=5).spend_steps(20, "call")
  with pytest.raises(LimitExceededError, match="steps is 18"):
    Budget(limits, num_nodes=4).spend_steps(20, "call")


@pytest.mark.parametrize(
  ("num_bytes", "file_bytes", "limit"),
  [(2001, 10, "unpacked_ratio"), (100, 1, None), (2000, 20, None), (5001, 1000, "unpacked_bytes")],
)
def test_what_a_file_may_unpack_to(num_bytes, file_bytes, limit):
  budget = Budget(Limits(unpacked_bytes=5000, unpacked_ratio=100, unpacked_free_bytes=100))
  if limit is None:
    budget.spend_unpacked_bytes(num_bytes, file_bytes, "chunk")
    return
  with pytest.raises(LimitExceededError) as caught:
    budget.spend_unpacked_bytes(num_bytes, file_bytes, "chunk")
  assert caught.value.limit == limit


@pytest.mark.parametrize("value", [-1, 1.5, True, None])
def test_limits_are_integers_of_at_least_zero(value):
  with pytest.raises(ValueError, match="steps="):
    Limits(steps=value)


def test_a_budget_can_be_shared_by_the_parts_of_a_load():
  limits = Limits(unpacked_bytes=100)
  shared = Budget(limits)
  assert Budget.of(shared) is shared
  assert Budget.of(limits).limits is limits
  assert Budget.of(None).limits == Limits()


def test_members_of_an_archive_are_counted():
  Budget(Limits(archive_members=3)).check_archive_members(3, "a.tar")
  with pytest.raises(LimitExceededError, match="a.tar needs 4 files and folders"):
    Budget(Limits(archive_members=3)).check_archive_members(4, "a.tar")


def test_what_a_call_decodes_is_limited_by_what_it_decodes_from_if_it_is_much():
  budget = Budget(Limits(known_bytes=1000, unpacked_ratio=10))
  budget.spend_decoded_bytes(1000, 1, "image")
  with pytest.raises(LimitExceededError, match="image needs 20 bytes, 1020 with those before it, decoded from 2"):
    budget.spend_decoded_bytes(20, 1, "image")
  budget.spend_decoded_bytes(1, 200, "image")
