"""jacobian and hessian: a vjp or jvp of the traced function, for each unit vector of one leaf; many of them are batched by vmap.

The function is traced once. What it returns says which direction is cheaper; both are rewrites of that one graph. A leaf of the
output that does not depend on a leaf of the input costs no node: its block is zeros.
"""

import functools
import operator

from . import _core

__all__ = ["hessian", "jacobian"]


# So many unit vectors are followed one by one. vmap would put a short axis between that of the points and that of a layer, and rows
# that are broadcast along it are copied; the other way each is a stream of its own, and products merge as they do for u_x and u_t.
_FEW = 8


def _size(shape):
    return functools.reduce(operator.mul, shape, 1)


def _floating(leaf):
    return isinstance(leaf, (_core.Tensor, _core.TraceTensor)) and leaf.dtype is not _core.bool_


def _shape(leaf):
    return leaf.shape if isinstance(leaf, (_core.Tensor, _core.TraceTensor)) else []


def _along(derivative, leaf, count, k, out_axis):
    """derivative(None, ..., unit, ..., None) for every unit vector of `leaf`, which is argument k of `count`."""
    n = _size(leaf.shape)

    def one(unit):
        return derivative(*(unit if i == k else None for i in range(count)))

    if n == 1:
        return one(_core.ones(leaf.shape, dtype=leaf.dtype))
    units = _core.reshape(_core.eye(n, dtype=leaf.dtype), [n, *leaf.shape])
    if n <= _FEW:
        blocks = zip(*(one(units[i]) for i in range(n)))
        return [None if block[0] is None else _core.stack(list(block), axis=out_axis) for block in blocks]
    return _core.vmap(one, out_axes=out_axis)(units)


def _blocks(outs, ins, pull):
    """A list of rows, one for each output leaf, of blocks [*out.shape, *in.shape]; None for an input that has no derivative."""
    diff = [_floating(x) for x in ins]
    table = [[None] * len(ins) for _ in outs]
    n_out = sum(_size(y.shape) for y in outs if _floating(y))
    n_in = sum(_size(x.shape) for x, d in zip(ins, diff) if d)
    if n_out < n_in or not pull._can_push:
        for i, y in enumerate(outs):
            if _floating(y):
                table[i] = list(_along(pull._pull, y, len(outs), i, 0))
    else:
        for j, x in enumerate(ins):
            if diff[j]:
                for i, block in enumerate(_along(pull._push, x, len(ins), j, -1)):
                    table[i][j] = block
    for i, y in enumerate(outs):
        for j, x in enumerate(ins):
            if diff[j]:
                shape, block = [*_shape(y), *x.shape], table[i][j]
                table[i][j] = _core.zeros(shape, dtype=x.dtype) if block is None else _core.reshape(block, shape)
    return table


def _positions(label, argnums, n):
    out = [p + n if p < 0 else p for p in argnums]
    for given, p in zip(argnums, out):
        if not 0 <= p < n:
            raise ValueError(
                f"{label}: argnums {given} is out of range; it was called with {n} argument{'s'[: n != 1]}"
            )
    if len(set(out)) != len(out):
        raise ValueError(f"{label}: argnums {tuple(argnums)} names an argument twice")
    return out


def _jacobian(label, argnums, one, fun, *args):
    positions = _positions(label, argnums, len(args))
    if not positions:
        return ()

    def of(*diff):
        call = list(args)
        for p, x in zip(positions, diff):
            call[p] = x
        return fun(*call)

    out, pull = _core.vjp(of, *(args[p] for p in positions))
    outs, out_tree = _core.tree.flatten(out)
    for path, leaf in _core.tree.flatten_with_path(out)[0]:
        if _core._leaf_type(leaf) is None:
            place = f" at '{'/'.join(map(str, path))}'" if path else ""
            raise TypeError(
                f"{label}: the function returns a {type(leaf).__name__}{place}; its results are arrays and numbers"
            )
    ins, in_tree = _core.tree.flatten(pull._primals)
    rows = (in_tree.unflatten(row) for row in _blocks(outs, ins, pull))
    return out_tree.unflatten([row[0] if one else row for row in rows])


def _hessian(label, argnums, one, fun, *args):
    return _jacobian(label, argnums, one, functools.partial(_jacobian, label, argnums, one, fun), *args)


def _transform(label, impl, fun, argnums):
    one = isinstance(argnums, int) and not isinstance(argnums, bool)
    numbers = (argnums,) if one else argnums
    if not isinstance(numbers, (tuple, list)) or not all(type(p) is int for p in numbers):
        raise TypeError(f"argnums is an int or a tuple of ints, not {argnums!r}")
    numbers = tuple(numbers)
    return _core._transform(label, fun, functools.partial(impl, label, numbers, one), (numbers, one), numbers)


def jacobian(fun=None, argnums=0):
    """The Jacobian of fun in the arguments named by argnums: blocks of shape [*out.shape, *in.shape].

    fun may return any pytree of arrays, and the arguments may be pytrees: the result has the structure of the output, and in place
    of each leaf the structure of the argument (a tuple of them where argnums is a tuple). A bool input gives None; a bool or
    constant output gives zeros. Reverse mode is used when the output has fewer floating elements than the input, or when a function
    inside has only a reverse rule, and forward mode otherwise.

    Raises ValueError for argnums out of range or repeated.

    >>> qb.jacobian(lambda x: qb.stack([x[0] * x[1], x[0] ** 2]))(qb.array([1.0, 2.0]))
    Tensor([[2., 1.],
            [2., 0.]], dtype=float64)
    """
    if fun is None:
        return functools.partial(jacobian, argnums=argnums)
    return _transform("jacobian", _jacobian, fun, argnums)


def hessian(fun=None, argnums=0):
    """The second derivatives of fun: blocks [*in.shape, *in.shape], the forward-mode Jacobian of the gradient.

    Of a function that returns more than a scalar, each block has the output's shape in front. Structures are those of
    jacobian(jacobian(fun)).

    >>> qb.hessian(lambda x: qb.sum(x**3))(qb.array([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]], dtype=float64)
    """
    if fun is None:
        return functools.partial(hessian, argnums=argnums)
    return _transform("hessian", _hessian, fun, argnums)
