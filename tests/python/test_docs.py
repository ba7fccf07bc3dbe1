"""Pages that are made from the code are up to date."""

import doctest
import pathlib
import re
import subprocess
import sys

import pytest
import quabla as qb

ROOT = pathlib.Path(__file__).parents[2]

# The array functions that a user of the interface finds, name by name.
NAMES = """
    abs all any arange arccos arccosh arcsin arcsinh arctan arctanh array asarray astype atan2 broadcast_to cbrt ceil clip concat cos
    cosh cross cumsum diag diagonal diff dot einsum equal erf erfc exp exp2 expand_dims expm1 eye flip floor fmod full full_like gather
    gelu greater greater_equal hypot interp isfinite isinf isnan kron less less_equal linspace log log10 log1p log2 log_softmax
    logaddexp logical_and logical_not logical_or logsumexp matmul max maximum mean meshgrid min minimum mod moveaxis nan_to_num norm
    not_equal ones ones_like outer pad polyval power prod ravel reciprocal relu remainder repeat reshape roll round scatter_add sigmoid
    sign silu sin sinh softmax softplus split sqrt square squeeze stack std stop_gradient sum swapaxes tan tanh tensordot tile trace
    transpose trapezoid tril triu var where zeros zeros_like
"""


def test_function_table_is_that_of_the_sources():
    run = subprocess.run([sys.executable, ROOT / "tools/docs.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_function_table_shows_every_array_function():
    shown = set(re.findall(r"^\| `(\w+)", (ROOT / "docs/functions.md").read_text(), re.M))
    missing = [name for name in NAMES.split() if name not in shown or not callable(getattr(qb, name))]
    assert not missing


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
