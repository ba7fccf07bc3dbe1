"""Control flow: cond, switch, fori_loop, scan, while_loop.

Outside a trace they are plain Python. Inside one, each becomes a region of the program: its bodies are traced, with a traced value
for every leaf of the carry. What else a body meets it may close over.
"""

import operator

from . import _core
from ._carry import (
    _a,
    _alike,
    _all_as,
    _as,
    _flat,
    _next,
    _rounds_alike,
    _same_structure,
    _settle,
    _settled,
    _text,
    _where,
)
from ._core import Tensor, TracerError, TraceTensor, tree

# ---- numbers

_MOST = 2**63 - 1  # sys.maxsize, and what a region counts to
_DYNAMIC = "For a number of steps that depends on data use while_loop, with max_steps=n where reverse mode is needed"
_WAY_OUT = {
    "fori_loop": _DYNAMIC,
    "scan": _DYNAMIC,
    "while_loop": "Take the most steps that may ever be needed, and let cond_fun end the loop before",
}


def _static(who, name, value, least):
    if isinstance(value, TraceTensor):
        raise TracerError(
            f"{who}: {name} is a traced value; it must be an int that is known while the function is traced. {_WAY_OUT[who]}"
        )
    if isinstance(value, bool):
        raise TypeError(f"{who}: {name} is a bool; an int is needed")
    try:
        number = operator.index(value)
    except TypeError:
        way_out = f", such as int({name})" if isinstance(value, Tensor) else ""
        raise TypeError(f"{who}: {name} is {_a(value)}; an int is needed{way_out}") from None
    if number < least:
        raise ValueError(f"{who}: {name} is {number}; it must be at least {least}")
    if number > _MOST:
        raise ValueError(f"{who}: {name} is {number}; it must be at most {_MOST}")
    return number


def _operands(who, operands):
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"{who}: operands is {_a(operands)}; a tuple of what the body takes last is needed")
    return _core._imported(tuple(operands))


# ---- cond


def cond(pred, true_fun, false_fun, *operands):
    """true_fun(*operands) where pred holds, else false_fun(*operands). Only one of them runs.

    pred: scalar bool, or a floating scalar (nonzero is true). operands: any pytrees; the functions may also close over values.
    Both must return the same structure of arrays of the same shapes and dtypes; a number takes the dtype of the other one's array.
    The branch that is not taken reaches neither value nor gradient, whatever is in it. Under vmap with a mapped pred both run and
    each example takes its own; with one pred for all still only one runs.

    Raises ValueError for a NaN predicate (a traced NaN is true), TypeError where the branches differ.

    >>> safe_log = lambda x: qb.cond(x > 0, qb.log, lambda x: 0.0, x)
    >>> qb.vmap(qb.grad(safe_log))(qb.array([2.0, -1.0]))
    Tensor([0.5, 0. ], dtype=float64)
    """
    kind = _core._leaf_type(pred)
    if kind is None:
        raise TypeError(f"cond: the predicate is {_a(pred)}, not a bool")
    if kind[1] != ():
        raise ValueError(f"cond: the predicate is {_text(kind)}; a scalar is needed, such as qb.all(x > 0)")
    operands = _core._imported(operands)
    if not isinstance(pred, TraceTensor):
        number = float(pred)
        if number != number:
            raise ValueError("cond: the predicate is NaN")
        return (true_fun if number else false_fun)(*operands)
    if kind[0] is not _core.bool_:
        pred = _core.not_equal(pred, 0)
    return _branch("cond", pred, {"true_fun": true_fun, "false_fun": false_fun}, operands)


def _branch(who, pred, funs, operands):
    """One region of the two functions, by name."""
    results = {}

    def traced(name, wanted=None):
        def run(_):
            results[name] = funs[name](*operands)
            leaves, _, _ = _flat(results[name], f"{who}: the result of {name}")
            return leaves if wanted is None else _all_as(leaves, wanted)

        return _core._trace_body(run, [])

    yes, no = funs
    bodies = {name: traced(name) for name in funs}
    _same_structure(who, f"the result of {yes}", results[yes], f"that of {no}", results[no])
    a, b = bodies[yes].types, bodies[no].types
    for i, (s, t) in enumerate(zip(a, b, strict=True)):
        if not _alike(s, t):
            raise TypeError(
                f"{who}: {yes} returns{_where(results[yes], i)} {_text(s)}, but {no} {_text(t)}; the branches must agree"
            )
    wanted = _settled(a, b)
    bodies = [body if body.types == wanted else traced(name, wanted) for name, body in bodies.items()]
    return tree.unflatten(tree.flatten(results[yes])[1], _core._cond(pred, *bodies))


def switch(index, branches, *operands):
    """branches[index](*operands). Only that branch runs; an index outside is the nearest inside.

    index: int, or an integral floating scalar (a traced one is rounded down). branches: a sequence of functions, as cond takes them.

    Raises TypeError for no branches and for an index that is no number, ValueError for a NaN index.

    >>> qb.switch(1, [qb.sin, qb.cos, qb.tan], qb.array(0.0))
    Tensor(1., dtype=float64)
    """
    branches = list(branches)
    if not branches:
        raise TypeError("switch: there are no branches")
    kind = _core._leaf_type(index)
    if kind is None or kind[0] is _core.bool_:
        raise TypeError(f"switch: the index is {_a(index) if kind is None else 'a bool'}; an int is needed")
    if kind[1] != ():
        raise ValueError(f"switch: the index is {_text(kind)}; a scalar is needed")
    operands = _core._imported(operands)
    if isinstance(index, TraceTensor):
        return _choose(index, branches, 0, operands)
    number = float(index)
    if number != number:
        raise ValueError("switch: the index is NaN")
    return branches[int(max(0, min(number, len(branches) - 1)))](*operands)


def _choose(index, branches, first, operands):
    if len(branches) == 1:
        return branches[0](*operands)
    half = len(branches) // 2
    halves = {
        f"branch {first}": lambda: _choose(index, branches[:half], first, operands),
        f"branch {first + half}": lambda: _choose(index, branches[half:], first + half, operands),
    }
    return _branch("switch", index < first + half, halves, ())


# ---- counted loops


def fori_loop(lower, upper, body_fun, init_val, *, operands=(), unroll=False):
    """carry = body_fun(i, carry, *operands) for i in range(lower, upper), from init_val on.

    lower, upper: ints known while tracing, at least 0. init_val: any pytree of arrays and numbers; the body returns the same structure,
    shapes and dtypes. Returns the last carry. i is an int outside a trace; in a trace, where the loop is one region of the program,
    a scalar array of the carry's dtype. unroll=True writes the iterations out and gives ints. Any derivative of any order exists;
    reverse mode keeps O(sqrt(upper - lower)) carries of a long loop.

    Raises TypeError where the carry changes, TracerError for a traced bound.

    >>> qb.fori_loop(0, 100, lambda i, x, a: x - 0.01 * a * x, qb.array([1.0, 2.0]), operands=(0.5,))
    Tensor([0.60577044, 1.21154087], dtype=float64)
    """
    lower = _static("fori_loop", "lower", lower, 0)
    upper = _static("fori_loop", "upper", upper, 0)
    operands = _operands("fori_loop", operands)

    def body(carry, i):
        return body_fun(i, carry, *operands), ()

    carry, _ = _loop("fori_loop", body, init_val, range(lower, upper), None, unroll)
    return carry


def scan(f, init, xs=None, *, length=None, operands=(), unroll=False):
    """Loop that carries a value and stacks another: carry, y = f(carry, x, *operands).

    xs: a pytree of arrays with one first axis, whose slices x are. Without xs, length is given and x is the number of the
    iteration: an int outside a trace, in a trace a scalar array of the carry's dtype. Returns (carry, ys), ys with the y of all
    iterations stacked along a new first axis. unroll, derivatives and errors as in fori_loop.

    >>> step = lambda c, i, w: ((c := qb.tanh(c * w + 0.1)), 2 * c)
    >>> carry, ys = qb.scan(step, qb.array([0.5, 1.0]), length=4, operands=(0.8,))
    >>> carry, ys.shape
    (Tensor([0.41178338, 0.47153359], dtype=float64), [4, 2])
    """
    operands = _operands("scan", operands)
    if xs is None:
        if length is None:
            raise TypeError("scan: give xs, or length=n")
        steps = range(_static("scan", "length", length, 1))
    else:
        steps = range(_first_axis(xs, length))

    def body(carry, x):
        result = f(carry, x, *operands)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"scan: the body returns {_a(result)}, not a pair (carry, y)")
        return result

    return _loop("scan", body, init, steps, xs, unroll)


def _first_axis(xs, length):
    leaves, _, types = _flat(xs, "scan: xs")
    if not leaves:
        raise TypeError("scan: xs has no arrays; give length=n")
    for i, kind in enumerate(types):
        if not kind[1]:
            raise ValueError(f"scan: xs{_where(xs, i)} is a scalar; it needs a first axis")
        if kind[1][0] != types[0][1][0]:
            raise ValueError(
                f"scan: xs{_where(xs, i)} has {kind[1][0]} along axis 0, the first of xs has {types[0][1][0]}"
            )
    count = types[0][1][0]
    if length is not None and _static("scan", "length", length, 1) != count:
        raise ValueError(f"scan: length is {length}, but xs has {count} along axis 0")
    return count


def _loop(who, body, init, steps, xs, unroll):
    return (_unrolled if unroll or not _core._tracing() else _region)(who, body, init, steps, xs)


def _unrolled(who, body, init, steps, xs, types=None):
    """Iteration by iteration, in a trace or outside. types: of the carry, where init has others."""
    leaves, structure, own = _flat(init, f"{who}: the carry")
    slices, rows = None if xs is None else tree.flatten(xs), []
    types = types or own
    leaves = _all_as(leaves, types)
    for i in steps:
        x = i if slices is None else tree.unflatten(slices[1], [_core.asarray(a)[i] for a in slices[0]])
        result, y = body(tree.unflatten(structure, leaves), x)
        leaves, after = _next(who, init, types, structure, result)
        if not _rounds_alike(types, after):
            return _unrolled(who, body, init, steps, xs, after)
        types = after
        row, row_structure, kinds = _flat(y, f"{who}: the second result of the body")
        if not rows:
            ys, ys_structure, row_types = y, row_structure, kinds
        if row_structure != ys_structure:
            _same_structure(who, "the first y", ys, "a later one", y)
        if kinds != row_types:
            row_types = _common(who, ys, row_types, kinds)
        rows.append(row)
    carry = tree.unflatten(structure, leaves)
    if not rows:
        return carry, None
    columns = [[_as(y, t) for y in column] for *column, t in zip(*rows, row_types, strict=True)]
    return carry, tree.unflatten(ys_structure, [_core.stack(column) for column in columns])


def _common(who, ys, a, b):
    """Types that both a y of types a and one of types b take."""
    for i, (s, t) in enumerate(zip(a, b, strict=True)):
        if not _alike(s, t):
            raise TypeError(
                f"{who}: y{_where(ys, i)} is {_text(s)} in the first iteration, but {_text(t)} in a later one"
            )
    return _settled(a, b)


def _region(who, body, init, steps, xs):
    """One scan. The number of an iteration is one more carry, counted up from the first. The body sees it in the dtype of the carry's
    first floating array; while there is none, it adopts what it meets, as a number does."""
    leaves, structure, types = _flat(init, f"{who}: the carry")
    slices, slice_types, slice_structure = [], [], None
    if xs is not None:
        slices, slice_structure, whole = _flat(xs, f"{who}: xs")
        slice_types = [(dtype, shape[1:], False) for dtype, shape, _ in whole]
    counter = [(_core.float64, (), True)] if xs is None else []
    seen = {}

    def trace(types):
        index_dtype = next((t[0] for t in types if t[0] is not _core.bool_ and not t[2]), None)

        def run(values):
            n, first = len(types), values[0] if counter else None
            carry = tree.unflatten(structure, values[len(counter) : len(counter) + n])
            if not counter:
                x = tree.unflatten(slice_structure, values[n:])
            else:
                x = _core.astype(first, index_dtype) if index_dtype else first
            result, y = body(carry, x)
            new, seen["types"] = _next(who, init, types, structure, result)
            row, seen["ys"], _ = _flat(y, f"{who}: the second result of the body")
            return ([first + 1.0] if counter else []) + new + row

        return _core._trace_body(run, counter + types + slice_types), seen["types"]

    traced, types = _settle(trace, types)
    carries = _all_as(leaves, types)
    if not steps:
        return tree.unflatten(structure, carries), None
    start = [float(steps[0])] if counter else []
    out = _core._scan(traced, len(steps), False, start + carries, [_core.asarray(a) for a in slices])[len(counter) :]
    return tree.unflatten(structure, out[: len(types)]), tree.unflatten(seen["ys"], out[len(types) :])


# ---- while


def while_loop(cond_fun, body_fun, init_val, *, operands=(), max_steps=None):
    """carry = body_fun(carry, *operands) while cond_fun(carry, *operands) holds, from init_val on.

    cond_fun returns a scalar bool. init_val: any pytree of arrays and numbers, which keeps its structure, shapes and dtypes. Forward
    derivatives run through the loop. Reverse mode needs max_steps: an int at which the loop ends whatever cond_fun says; its time and
    memory then grow with max_steps (the memory with its square root). Under vmap the loop runs while any example goes on, and a
    finished one keeps its carry bit for bit.

    Raises TypeError where cond_fun returns no bool or the carry changes; ValueError for reverse mode without max_steps.

    >>> newton = lambda a: qb.while_loop(lambda x: qb.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)
    >>> qb.vmap(newton)(qb.array([2.0, 9.0]))
    Tensor([1.41421356, 3.        ], dtype=float64)
    """
    operands = _operands("while_loop", operands)
    bound = 0 if max_steps is None else _static("while_loop", "max_steps", max_steps, 1)

    def test(carry):
        go = cond_fun(carry, *operands)
        kind = _core._leaf_type(go)
        if kind is None or kind[0] is not _core.bool_ or kind[1] != ():
            what = _a(go) if kind is None else _text(kind)
            raise TypeError(f"while_loop: cond_fun returns {what}; a scalar bool is needed")
        return go

    loop = _while_region if _core._tracing() else _while_eager
    return loop(test, lambda carry: body_fun(carry, *operands), init_val, bound)


def _while_eager(test, body, init, bound, types=None):
    """types: of the carry, where init has others."""
    leaves, structure, own = _flat(init, "while_loop: the carry")
    types, steps = types or own, 0
    carry = tree.unflatten(structure, _all_as(leaves, types))
    while (not bound or steps < bound) and bool(test(carry)):
        leaves, after = _next("while_loop", init, types, structure, body(carry))
        if not _rounds_alike(types, after):
            return _while_eager(test, body, init, bound, after)
        carry, types, steps = tree.unflatten(structure, leaves), after, steps + 1
    return carry


def _while_region(test, body, init, bound):
    leaves, structure, types = _flat(init, "while_loop: the carry")
    seen = {}

    def trace(types):
        def run(values):
            new, seen["types"] = _next("while_loop", init, types, structure, body(tree.unflatten(structure, values)))
            return new

        return _core._trace_body(run, types), seen["types"]

    step, types = _settle(trace, types)
    go = _core._trace_body(lambda values: [test(tree.unflatten(structure, values))], types)
    return tree.unflatten(structure, _core._while(go, step, bound, _all_as(leaves, types)))
