"""NumPy's own functions on our arrays: np.sum(x) sees the NumPy array that x exports, and returns what it makes of it.

NumPy asks the arrays among its arguments for `__array_function__`. It is never imported here.
"""

_ASKED = {"shape": tuple, "ndim": int, "size": int}  # what a traced array knows too


def array_function(self, function, types, args, kwargs):
    """Called by NumPy in place of a function of its own; TracerError for a traced array."""
    if function.__name__ in _ASKED and len(args) == 1 and not kwargs:
        return _ASKED[function.__name__](getattr(args[0], function.__name__))
    return function(*_exported(args), **_exported(kwargs))


def _exported(x):
    """x with the arrays of quabla in it, in lists, tuples and dicts too, as NumPy arrays."""
    if hasattr(x, "__array_function__") and hasattr(x, "numpy"):
        return x.numpy()
    if isinstance(x, dict):
        return {key: _exported(v) for key, v in x.items()}
    return type(x)(map(_exported, x)) if type(x) in (list, tuple) else x
