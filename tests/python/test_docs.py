"""Pages that are made from the code are up to date."""

import doctest
import pathlib
import re
import subprocess
import sys

import pytest
import quabla as qb

ROOT = pathlib.Path(__file__).parents[2]


def test_function_table_is_that_of_the_sources():
    run = subprocess.run([sys.executable, ROOT / "tools/docs.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_type_stub_names_what_the_package_has():
    stub = (ROOT / "python/quabla/__init__.pyi").read_text()
    named = set(re.findall(r"\bas (\w+)", stub)) | set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
    builtin = {"abs", "all", "any", "max", "min", "pow", "round", "sum"}  # attributes outside __all__
    assert named == set(qb.__all__) | builtin
    assert (ROOT / "python/quabla/py.typed").is_file()


TRANSFORMS = (
    "Compiler checkpoint custom_jvp custom_vjp explain grad hessian jacobian jit jvp value_and_grad vjp vmap ShapeDtype"
)
TREE = "flatten flatten_with_path leaves map register register_dataclass structure unflatten"
DOCUMENTED = {name: getattr(qb, name) for name in TRANSFORMS.split()} | {
    "tree." + n: getattr(qb.tree, n) for n in TREE.split()
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_of_a_transform_prints_what_it_shows(name):
    test = doctest.DocTestParser().get_doctest(DOCUMENTED[name].__doc__, {"qb": qb}, name, None, None)
    assert test.examples
    assert not doctest.DocTestRunner(verbose=False).run(test).failed
