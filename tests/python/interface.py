"""The interface of arrays as users of it know it: names, parameters, defaults. Data only; test_interface.py and others read it.

"(...) each: names" is one parameter list of many names. self is left out of methods.
"""

FUNCTIONS = """
(obj, dtype=None) each: array asarray
arange(start, stop=None, step=1.0, dtype=None)
linspace(start, stop, num, dtype=None)
eye(n, m=None, dtype=None)
full(shape, fill_value, dtype=None)
(shape, dtype=None) each: ones zeros
full_like(x, fill_value, dtype=None)
(x, dtype=None) each: ones_like zeros_like
(x) each: abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor isinf log log10 log1p log2 reciprocal relu round sigmoid sign silu sin sinh softplus sqrt square tan tanh stop_gradient
(x, k=0) each: tril triu
(x, axis=None, keepdims=False) each: all any logsumexp max mean min norm prod sum
(x1, x2) each: atan2 fmod hypot logaddexp matmul maximum minimum mod power remainder
(a, b) each: dot kron outer
(lhs, rhs) each: equal greater greater_equal less less_equal logical_and logical_or not_equal
(value) each: isfinite isnan logical_not
astype(x, dtype)
broadcast_to(x, shape)
clip(x, lo=None, hi=None)
concat(matrices, axis=0)
cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None)
cumsum(x, axis=None, reverse=False)
diag(v, k=0)
(a, offset=0, axis1=0, axis2=1) each: diagonal trace
diff(a, n=1, axis=-1, prepend=None, append=None)
einsum(equation, *arrays, operands=(), optimize=True)
expand_dims(x, axis)
flip(m, axis=None)
gelu(x, approximate=True)
interp(x, xp, fp, left=None, right=None)
(x, axis=-1) each: log_softmax softmax
meshgrid(*xs, indexing='xy')
moveaxis(a, source, destination)
nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None)
pad(array, pad_width, mode='constant', constant_values=0)
polyval(p, x)
ravel(a)
repeat(a, repeats, axis=None)
reshape(x, shape)
roll(a, shift, axis=None)
split(x, indices_or_sections, axis=0)
squeeze(x, axis=None)
stack(tensors, axis=0)
(x, axis=None, keepdims=False, ddof=0) each: std var
swapaxes(a, axis1, axis2)
tensordot(a, b, axes=2)
tile(A, reps)
transpose(x, axes=None)
trapezoid(y, x=None, dx=1.0, axis=-1)
where(mask, on_true, on_false)
gather(x, indices, axis=0)
scatter_add(x, indices, updates, axis=0)
"""

METHODS = """
() each: abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh erf erfc exp expm1 floor isfinite isnan item log log10 log1p logical_not numpy relu round sigmoid sin sinh softplus sqrt stop_gradient tan tanh tolist
(k=0) each: tril triu
(rhs) each: add div equal greater greater_equal gt less less_equal logical_and logical_or matmul maximum minimum mul not_equal sub
(axis=None, keepdims=False) each: all any max mean min norm prod sum
astype(dtype)
atan2(x)
broadcast_to(shape)
cumsum(axis=None, reverse=False)
fmod(y)
gather(indices, axis=0)
powi(exponent)
reshape(*shape)
scatter_add(indices, updates, axis=0)
slice(axis, start, length, step=1)
transpose(axes=None)
where_select(on_true, on_false)
"""

TENSOR_ALONE = """
to_flat_list()
arange(start, stop, step=1.0)
eye(rows, cols=None)
fold_in_key(key, data)
full(shape, value)
glorot_normal(shape, key)
linspace(start, stop, num)
(shape) each: ones zeros
random_normal(shape, key, mean=0.0, stddev=1.0)
random_uniform(shape, key, minval=0.0, maxval=1.0, dtype=None)
split_key(key, count)
"""

STATIC = [
    "arange",
    "eye",
    "fold_in_key",
    "full",
    "glorot_normal",
    "linspace",
    "ones",
    "random_normal",
    "random_uniform",
    "split_key",
    "zeros",
]


def signatures(text):
    """{name: "(parameters)"} of such a text."""
    out = {}
    for line in text.strip().splitlines():
        head, each, names = line.partition(" each: ")
        if each:
            out |= dict.fromkeys(names.split(), head)
        else:
            name, parameters = line.split("(", 1)
            out[name] = "(" + parameters
    return out
