"""A good call of every public function, and values that are no good anywhere. Data for tests that go over all functions.

GOOD: {name: (positional arguments, keywords)} of array functions. MORE: the same for all else, the names with their module.
"""

import io
import math

import numpy as np
import quabla as qb

X, Y = qb.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), qb.array([[1.0, 0.5, 2.0], [3.0, 0.25, 1.0]])
V, SQUARE, MASK = (
    qb.array([0.5, 1.0, 2.0]),
    qb.array([[2.0, 1.0], [1.0, 3.0]]),
    qb.array([[True, False, True], [False, False, True]]),
)

ONE = """
    exp expm1 exp2 log log1p log2 log10 sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh erf erfc floor
    ceil round sign abs neg square reciprocal relu sigmoid softplus silu gelu isfinite isnan isinf nan_to_num ravel transpose
    stop_gradient squeeze tril triu zeros_like ones_like array asarray
"""
TWO = """
    add sub mul div power pow maximum minimum fmod mod remainder floor_divide hypot atan2 logaddexp greater greater_equal less less_equal
    equal not_equal outer kron
"""
OVER = "sum mean max min prod any all norm var std logsumexp"
# A good call of each function: (positional arguments, keywords).
GOOD = {name: ((X,), {}) for name in ONE.split()}
GOOD |= {name: ((X, Y), {}) for name in TWO.split()}
GOOD |= {name: ((X,), {"axis": 1, "keepdims": True}) for name in OVER.split()}
GOOD |= {
    "logical_and": ((MASK, MASK), {}), "logical_or": ((MASK, MASK), {}), "logical_not": ((MASK,), {}), "where": ((MASK, X, Y), {}),
    "clip": ((X, 1.0, 2.0), {}), "softmax": ((X,), {"axis": 0}), "log_softmax": ((X,), {"axis": 0}), "cumsum": ((X,), {"axis": 1}),
    "powi": ((X, 3), {}), "astype": ((X, qb.float32), {}), "reshape": ((X, (3, 2)), {}), "broadcast_to": ((V, (2, 3)), {}),
    "concat": (([X, Y], 0), {}), "stack": (([X, Y], 0), {}), "split": ((X, 3), {"axis": 1}), "repeat": ((X, 2), {"axis": 0}),
    "tile": ((X, (2, 1)), {}), "flip": ((X,), {"axis": 0}), "roll": ((X, 1), {"axis": 0}), "pad": ((X, 1), {"mode": "edge"}),
    "diag": ((V,), {"k": 1}), "diagonal": ((X,), {"offset": 1}), "trace": ((X,), {"offset": 1}), "meshgrid": ((V, V), {}),
    "moveaxis": ((X, 0, 1), {}), "swapaxes": ((X, 0, 1), {}), "expand_dims": ((X, 1), {}), "gather": ((X, [1, 0]), {"axis": 1}),
    "scatter_add": ((V, [0, 1], [1.0, 2.0]), {"axis": 0}), "matmul": ((X, V), {}), "dot": ((X, V), {}),
    "tensordot": ((X, V, 1), {}), "cross": ((V, V), {"axis": 0}), "einsum": (("ij,j->i", X, V), {}), "diff": ((X,), {"n": 1, "axis": 1}),
    "trapezoid": ((X,), {"x": V, "axis": 1}), "polyval": ((V, X), {}), "interp": ((X, V, V), {}), "zeros": (((2,),), {}),
    "ones": (((2,),), {}), "full": (((2,), 3.0), {}), "full_like": ((X, 3.0), {}), "eye": ((2, 3), {}), "arange": ((0, 3, 0.5), {}),
    "linspace": ((0.0, 1.0, 5), {}), "from_dlpack": ((X,), {}),
}  # fmt: skip

WRONG = [
    None, "x", "", b"x", object(), {}, {"a": X}, [], (), [[]], [None], ["x"], 1j, float, qb, lambda: 0, set(), Ellipsis, slice(1),
    True, 0, -1, 7, 2**40, 2**63, 10**30, -(2**63), 0.5, math.nan, math.inf, -math.inf,
    (0, 0), (5,), (-9, 1), [1.5], (2**40, 2**40), (1,) * 17, [2**62, 4], range(0), range(3), "edge", ("a", "b"), [[1, 2], [3]],
    X, V, SQUARE, MASK, qb.array(1.0), qb.array([[[1.0]]]), X.astype(qb.float32), X.slice(1, 0, 2), [X, V], [MASK, X],
    np.zeros((2, 3)), np.zeros(3, np.int8), np.zeros(2, complex), np.zeros((0, 3)), np.float32(2), np.zeros(3, "U1"), np.array(None),
    qb.float32, np.float16, "float99", bytearray(8), memoryview(b"abcd"), iter([1.0]), X.shape,
]  # fmt: skip


def find(name):
    """The function of a name, which may go through a module or an object of this file."""
    f = OBJECTS if name.split(".")[0] in OBJECTS else vars(qb)
    for part in name.split("."):
        f = f[part] if isinstance(f, dict) else getattr(f, part)
    return f


# ---- all that is no array function ----


def loss(p, x):
    return qb.mean((p["w"] * x - 1.0) ** 2)


def f(x):
    return qb.sum(x * x)


def identity(x):
    return x


def rule(x):
    return x * 2.0


@qb.custom_vjp
def own(x):
    return x * 2.0


@qb.custom_jvp
def forward(x):
    return x * 2.0


own.defvjp(lambda x: (x * 2.0, None), lambda res, ct: (ct * 2.0,))
forward.defjvp(lambda primals, tangents: (primals[0] * 2.0, tangents[0] * 2.0))


class Saved:
    """A file that can be read again and again."""

    def read(self):
        file = io.BytesIO()
        qb.save(file, P)
        return file.getvalue()


KEY, P = qb.random.key(3), {"w": qb.array(0.5)}
ADAM, SGD = qb.optim.Adam(0.1), qb.optim.SGD(0.1)
OBJECTS = {
    "Adam()": ADAM, "SGD()": SGD, "LBFGS()": qb.optim.LBFGS(max_iterations=3), "own": own, "forward": forward, "Treedef()": qb.tree.structure(P),
    "jit()": qb.jit(f), "vjp()": qb.vjp(f, V)[1], "lowered": qb.jit(f).lower(V), "view": X.slice(1, 0, 2), "Program": qb.jit(f).lower(V).program,
    "Compiler()": qb.Compiler(), "Trainer()": qb.optim.Trainer(loss, P, qb.optim.SGD(0.1), V), "Array": {},
}  # fmt: skip
# Numbers that would make these loop for ever: a count of 2**40 is a good one.
LONG = {"scan", "fori_loop", "while_loop", "optim.minibatches", "Trainer().step"}
MORE = {
    "random.key": ((0,), {}), "random.Key": ((1,), {}), "random.fold_in": ((KEY, 1), {}), "random.split": ((KEY, 2), {}),
    "random.uniform": ((KEY, (3,), qb.float32), {"minval": 0.0, "maxval": 1.0}), "random.normal": ((KEY, (3,)), {"dtype": qb.float32}),
    "random.truncated_normal": ((KEY, -1.0, 1.0, (3,)), {}), "random.bernoulli": ((KEY, 0.5), {"shape": (3,)}),
    "random.glorot_normal": ((KEY, (3, 2)), {}), "random.glorot_uniform": ((KEY, (3, 2)), {}), "random.he_normal": ((KEY, (3, 2)), {}),
    "random.permutation": ((KEY, V), {}), "random.choice": ((KEY, V, (2,)), {"replace": False, "p": None}),
    "grad": ((f,), {"argnums": 0, "has_aux": False}), "value_and_grad": ((f,), {"argnums": (0,)}), "jit": ((f,), {"static_argnums": (), "max_traces": 3, "device": None, "precision": None}),
    "vmap": ((f,), {"in_axes": 0, "out_axes": 0}), "jvp": ((f, (V,), (V,)), {}), "vjp": ((f, V), {}), "jacobian": ((identity,), {"argnums": 0}),
    "hessian": ((f,), {"argnums": 0}), "checkpoint": ((f,), {"static_argnums": ()}), "remat": ((f,), {}), "custom_jvp": ((identity,), {"nondiff_argnums": ()}),
    "custom_vjp": ((identity,), {"nondiff_argnums": ()}), "own": ((V,), {}), "forward": ((V,), {}), "own.defvjp": ((lambda x: (x, None), lambda res, ct: (ct,)), {}),
    "forward.defjvp": ((lambda primals, tangents: (primals[0] * 2.0, tangents[0] * 2.0),), {}),
    "jit()": ((V,), {}), "jit().lower": ((V,), {}), "vjp()": ((qb.array(1.0),), {}), "explain": ((qb.jit(f),), {}), "profile": ((f,), {}),
    "cond": ((True, identity, rule, V), {}), "switch": ((1, [identity, rule], V), {}), "fori_loop": ((0, 3, lambda i, c: c * 2.0, V), {"operands": (), "unroll": False}),
    "scan": ((lambda c, x: (c + x, c), qb.array(0.0), V), {"length": 3, "unroll": False}),
    "while_loop": ((lambda c: c < 3.0, lambda c: c + 1.0, qb.array(0.0)), {"operands": (), "max_steps": 5}),
    "ShapeDtype": (((2, 3),), {"dtype": qb.float32}), "Tensor": (((2,), [1.0, 2.0]), {"dtype": qb.float64}), "dtype": (("float32",), {}),
    "UnsupportedOperationError": (("text",), {"op": "sin", "device": "cpu"}),
    "Compiler": ((), {}), "Compiler().trace": ((f, [("x", (3,))]), {}), "Compiler().capability": (("cpu",), {}), "Program.compile": ((), {"target": "cpu", "device_ordinal": 0}),
    "lowered.compile": ((), {}), "view.slice": ((0, 0, 1), {"step": 1}),
    "Tensor.full": (((2,), 1.0), {}), "Tensor.eye": ((2, 3), {}), "Tensor.arange": ((0, 3), {"step": 1.0}), "Tensor.linspace": ((0.0, 1.0, 3), {}),
    "Tensor.zeros": (((2,),), {}), "Tensor.ones": (((2,),), {}), "Tensor.random_normal": (((2,), KEY), {"mean": 0.0, "stddev": 1.0}),
    "Tensor.random_uniform": (((2,), KEY), {"minval": 0.0, "maxval": 1.0, "dtype": qb.float32}), "Tensor.glorot_normal": (((2, 3), KEY), {}),
    "Tensor.split_key": ((KEY, 2), {}), "Tensor.fold_in_key": ((KEY, 1), {}), "Tensor.gt": ((X, Y), {}), "Tensor.slice": ((X, 0, 0, 1), {"step": 1}),
    "devices": ((), {}), "get_num_threads": ((), {}), "set_num_threads": ((0,), {}), "save": ((io.BytesIO(), P), {}), "load": ((Saved(),), {}),
    "tree.flatten": ((P,), {}), "tree.flatten_with_path": ((P,), {}), "tree.leaves": ((P,), {}), "tree.structure": ((P,), {}), "tree.map": ((rule, P), {}),
    "tree.unflatten": ((qb.tree.structure(P), [V]), {}), "Treedef().unflatten": (([V],), {}),
    "optim.SGD": ((0.1,), {"clip_norm": 1.0}), "optim.Adam": ((0.1,), {"b1": 0.9, "b2": 0.99, "eps": 1e-8, "clip_norm": None}), "optim.AdamW": ((0.1,), {"weight_decay": 0.1}),
    "optim.Lion": ((0.1,), {}), "optim.RMSprop": ((0.1,), {}), "optim.LBFGS": ((5,), {"max_iterations": 5, "tolerance_grad": 0.0, "line_search": "strong_wolfe"}),
    "optim.Trainer": ((loss, P, SGD, V), {"device": "cpu", "batch_argnums": (), "precision": None}), "Trainer().step": ((), {}), "Trainer().loss": ((), {}),
    "optim.clip_by_global_norm": ((P, 1.0), {}), "optim.constant": ((0.1,), {}), "optim.cosine_decay": ((0.1, 10), {"alpha": 0.0}),
    "optim.exponential_decay": ((0.1, 10, 0.5), {"transition_begin": 0, "staircase": False, "end_value": None}), "optim.piecewise_constant": (([1, 2], [1.0, 2.0, 3.0]), {}),
    "optim.warmup_cosine_decay": ((0.0, 0.1, 5, 10), {"end_value": 0.0}), "optim.minibatches": ((KEY, 2, V), {}),
    "Adam().init": ((P,), {}), "Adam().update": ((P, P, ADAM.init(P)), {}), "SGD().update": ((P, P, SGD.init(P)), {}), "Adam().step": (([V], [V]), {}),
    "LBFGS().minimize": ((f, V), {}),
}  # fmt: skip
# Not called with wrong arguments: what changes the process for good, and classes that nobody makes by hand.
APART = {
    "tree.register": "a class stays registered",
    "tree.register_dataclass": "a class stays registered",
    "Array": "an abstract class",
}
APART |= dict.fromkeys(["Executable", "Program", "TensorView", "TraceTensor", "tree.TreeDef"], "has no constructor")
APART |= dict.fromkeys(["QuablaError", "RetraceLimitError", "RetraceWarning", "TracerError"], "an exception")
