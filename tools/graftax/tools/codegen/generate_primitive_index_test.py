from graftax.tools.codegen import generate_primitive_index


def test_the_page_of_primitives_is_current():
  assert generate_primitive_index.main(["--check"]) == 0
