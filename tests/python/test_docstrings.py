"""Every public function says what it does, with an example that runs."""

import doctest

import pytest
import quabla as qb

BUILTIN_NAMES = ["abs", "all", "any", "max", "min", "pow", "round", "sum"]


def functions():
    for name in sorted({*qb.__all__, *BUILTIN_NAMES}):
        f = getattr(qb, name)
        if callable(f) and not isinstance(f, type):
            yield name, f


FUNCTIONS = dict(functions())
TRANSFORMS = ("grad", "jit", "jvp", "value_and_grad", "vjp", "vmap")


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in TRANSFORMS])
def test_the_example_of_a_function_prints_what_it_shows(name):
    doc = FUNCTIONS[name].__doc__
    assert doc and len(doc.strip()) > 20
    examples = doctest.DocTestParser().get_doctest(doc, {"qb": qb}, name, None, None)
    assert examples.examples, f"{name} has no example"
    result = doctest.DocTestRunner(verbose=False, optionflags=doctest.REPORT_NDIFF).run(examples)
    assert not result.failed


def test_functions_that_take_an_array_first_are_methods():
    elsewhere = {"array", "asarray", "full", "ones", "zeros", "arange", "linspace", "eye", "concat", "stack", "einsum", "meshgrid", "where",
                 "polyval", "full_like", "ones_like", "zeros_like", "devices", "get_num_threads", "set_num_threads"}  # fmt: skip
    for name in FUNCTIONS:
        if name not in elsewhere and name not in TRANSFORMS:
            for cls in (qb.Tensor, qb.TraceTensor):
                assert hasattr(cls, name), f"{cls.__name__}.{name}"
