"""jit(f).lower, its text and its Program; the compiler facade; StableHLO text."""

import math
import re

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


def loss(params, x):
    return qb.mean(qb.tanh(x @ params["w"] + params["b"]) ** 2)


SPECS = (
    {"w": qb.ShapeDtype((2, 1), qb.float32), "b": qb.ShapeDtype((1,), qb.float32)},
    qb.ShapeDtype((2, 2), qb.float32),
)
TEXT = """\
%0 = input[name=params/b] : tensor<1xf32>
%1 = input[name=params/w] : tensor<2x1xf32>
%2 = input[name=x] : tensor<2x2xf32>
%3 = matmul(%2, %1) : tensor<2x1xf32>
%4 = add(%3, %0) : tensor<2x1xf32>
%5 = tanh(%4) : tensor<2x1xf32>
%6 = powi(%5, 2) : tensor<2x1xf32>
%7 = mean(%6) : tensor<f32>
"""


def f32(values):
    return qb.array(values, dtype=qb.float32)


def test_the_manuals_lowering():
    lowered = qb.jit(loss).lower(*SPECS)
    assert lowered.as_text() == TEXT + "outputs: [[]]\n"
    compiled = lowered.compile()
    params, x = {"w": f32([[0.5], [-0.3]]), "b": f32([0.1])}, f32([[1.0, 2.0], [3.0, 4.0]])
    assert repr(compiled(params, x)) == "Tensor(0.07218059, dtype=float32)"
    assert compiled(params, x).item() == qb.jit(loss)(params, x).item()
    assert lowered.program.lower_text() + "\n" == TEXT
    assert lowered.program.output_shapes == [[]]
    assert lowered.program.output_shape == []


@pytest.mark.parametrize(
    "args",
    [
        ({"w": f32([[0.5]]), "b": f32([0.1])}, f32([[1.0, 2.0]])),
        ({"w": f32([[0.5], [-0.3]])}, f32([[1.0, 2.0], [3.0, 4.0]])),
        ({"w": qb.ones((2, 1)), "b": f32([0.1])}, f32([[1.0, 2.0], [3.0, 4.0]])),
        ({"w": f32([[0.5], [-0.3]]), "b": 0.1}, f32([[1.0, 2.0], [3.0, 4.0]])),
        ({"w": f32([[0.5], [-0.3]]), "b": f32([0.1])},),
    ],
)
def test_a_compiled_program_rejects_another_signature(args):
    compiled = qb.jit(loss).lower(*SPECS).compile()
    with pytest.raises(ValueError, match="signature"):
        compiled(*args)


def test_a_compiled_program_takes_the_keywords_of_jit():
    compiled = (
        qb.jit(lambda x, y, n: (x - y) * n, static_argnames="n")
        .lower(qb.ShapeDtype((2,)), qb.ShapeDtype((2,)), n=3)
        .compile()
    )
    x, y = qb.ones((2,)), qb.zeros((2,))
    assert compiled(x, y, n=3).tolist() == compiled(y=y, n=3, x=x).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="static 3"):
        compiled(x, y=y, n=4)
    with pytest.raises(TypeError, match="keyword 'm' must be static"):
        compiled(x, y, m=3)


def test_a_compiled_program_rejects_another_static_value():
    compiled = qb.jit(lambda x, n: x * n, static_argnums=1).lower(qb.ShapeDtype((2,)), 3).compile()
    assert compiled(qb.ones((2,)), 3).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="static 3"):
        compiled(qb.ones((2,)), 4)
    compiled = qb.jit(lambda x, s: x * s).lower(qb.ShapeDtype((2,)), 2.0).compile()
    with pytest.raises(ValueError, match="2.0"):
        compiled(qb.ones((2,)), 2)


def test_the_function_is_not_run_and_every_call_traces():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * 2

    g = qb.jit(f)
    for _ in range(2):
        g.lower(qb.ShapeDtype((2,)))
    assert n == 2
    with pytest.raises(qb.TracerError, match="inside a traced function"):
        qb.jit(lambda x: g.lower(x))(qb.ones((2,)))


def test_a_program_of_several_outputs_is_run_by_input_names():
    program = qb.jit(qb.value_and_grad(loss)).lower(*SPECS).program
    assert program.output_shapes == [[], [1], [2, 1]]
    params, x = {"w": f32([[0.5], [-0.3]]), "b": f32([0.1])}, f32([[1.0, 2.0], [3.0, 4.0]])
    out = program.compile("cpu")({"params/w": params["w"], "params/b": params["b"], "x": x, "more": None})
    value, grads = qb.value_and_grad(loss)(params, x)
    assert [t.tolist() for t in out] == [value.tolist(), grads["b"].tolist(), grads["w"].tolist()]
    assert program.lower_text().endswith("outputs: [[], [1], [2, 1]]\n")
    for use in (lambda: program.vjp("y"), lambda: program.jvp("x"), lambda: program.output_shape):
        with pytest.raises(qb.UnsupportedOperationError, match="several outputs"):
            use()


def test_as_text_spells_the_ops_of_the_manual():
    x, m = qb.ShapeDtype((2, 3)), qb.ShapeDtype((3,))
    c = qb.array([1.0, 2.0, 3.0])

    def f(x, m, unused):
        y = qb.where(x > m, x * c, x**3 + 3.0)
        return qb.sum(y, axis=0), y[:, 0:1], y.T, qb.concat([y, y], 0), qb.sum(y)

    text = qb.jit(f).lower(x, m, m).as_text()
    for want in [
        "input[name=unused] : tensor<3xf64>",
        "compare(%0, %1, kind=greater) : tensor<2x3xi1>",
        "constant[dense] : tensor<2x3xf64>",
        "constant[value=3] : tensor<f64>",
        "powi(%0, 3)",
        ", axis=0) : tensor<3xf64>",
        "axis=1, start=0, length=1) : tensor<2x1xf64>",
        "axes=[1, 0]) : tensor<3x2xf64>",
        ") axis=0 : tensor<4x3xf64>",
        ") : tensor<f64>",
    ]:
        assert want in text, want
    assert text.endswith("outputs: [[3], [2, 1], [3, 2], [4, 3], []]\n")


# ---- the facade ----


def test_the_manuals_compiler_session():
    compiler = qb.Compiler()
    assert compiler.capabilities()["cpu"] is True
    specs = [("x", [2], qb.float64), ("w", [2], qb.float64)]
    program = compiler.trace(lambda x, w: qb.sum(qb.sin(x * w)), specs)
    assert program.lower_text() == (
        "%0 = input[name=x] : tensor<2xf64>\n"
        "%1 = input[name=w] : tensor<2xf64>\n"
        "%2 = mul(%0, %1) : tensor<2xf64>\n"
        "%3 = sin(%2) : tensor<2xf64>\n"
        "%4 = sum(%3) : tensor<f64>"
    )
    inputs = {"x": qb.array([1.0, 2.0]), "w": qb.array([0.5, 0.25])}
    assert repr(program.compile("cpu")(inputs)) == "Tensor(0.95885108, dtype=float64)"
    grads = program.vjp("y_bar")
    got = grads["w"].compile("cpu")({**inputs, "y_bar": qb.array(1.0)})
    np.testing.assert_allclose(got.numpy(), [0.87758255, 1.7551651], atol=2e-8)
    along = program.jvp("x").compile()(inputs)
    assert along.item() == pytest.approx(0.75 * math.cos(0.5), rel=1e-15)


def test_the_readmes_compiler_session():
    x = f32([-1.0, 0.5, 1.0, 2.0])
    params = {"w": f32([0.3, -0.2, 0.1, 0.4]), "b": f32(0.2)}

    def masked(w, b, x):
        y = qb.tanh(x * w + b)
        return qb.sum(qb.where(x > 0.0, y, 0.0) ** 2)

    specs = [("x", [4], qb.float32), ("w", [4], qb.float32), ("b", [], qb.float32)]
    program = qb.Compiler().trace(lambda x, w, b: masked(w, b, x), specs)
    inputs = {"x": x, **params}
    seed = {"loss_bar": f32(1.0)}
    assert program.compile("cpu").evaluate(inputs).item() == 0.6748224496841431
    assert program.vjp("loss_bar")["w"].compile("cpu")({**inputs, **seed}).tolist() == [
        -0.0,
        0.09867792576551437,
        0.53318190574646,
        1.2793999910354614,
    ]


def test_programs_and_executables_say_what_they_are():
    program = qb.Compiler().trace(lambda a, b: a @ b, [("a", (2, 3)), ("b", [3, 4])])
    assert program.output_shape == [2, 4]
    assert program.output_shapes == [[2, 4]]
    assert {k: v.shape for k, v in program.inputs.items()} == {"a": [2, 3], "b": [3, 4]}
    run = program.compile()
    assert (run.target, run.node_count) == ("cpu", 3)
    assert repr(run) == "Executable(target='cpu', node_count=3)"
    assert "output_shapes=[[2, 4]]" in repr(program)
    assert sorted(program.vjp("c")) == ["a", "b"]
    assert program.vjp("c")["a"].output_shape == [2, 3]
    assert program.vjp("c")["a"].vjp("d")["c"].output_shape == [2, 4]


def test_shapes_compare_and_hash():
    a, b = qb.ShapeDtype((2, 3)), qb.ShapeDtype([2, 3], "float64")
    assert a == b
    assert hash(a) == hash(b)
    assert a != qb.ShapeDtype((2, 3), qb.float32)
    assert a != qb.ShapeDtype((3, 2))
    assert a != (2, 3)


def test_derivatives_that_are_zero_are_zeros():
    program = qb.Compiler().trace(lambda a, b: a * 2.0, [("a", [2]), ("b", [3])])
    assert program.vjp("c")["b"].compile()({"a": qb.ones((2,)), "b": qb.ones((3,)), "c": qb.ones((2,))}).tolist() == [
        0.0,
        0.0,
        0.0,
    ]
    assert program.jvp("b").compile()({"a": qb.ones((2,)), "b": qb.ones((3,))}).tolist() == [0.0, 0.0]


def test_bad_uses_of_the_facade():
    compiler = qb.Compiler()
    program = compiler.trace(lambda x: x * 2, [("x", [2])])
    run = program.compile()
    x = qb.ones((2,))
    for use, kind, match in [
        (lambda: compiler.trace(3, []), TypeError, "takes a function"),
        (lambda: compiler.trace(lambda x: x, [("x",)]), TypeError, "a spec is"),
        (lambda: compiler.trace(lambda x: x, [(3, [2])]), TypeError, "a spec is"),
        (lambda: compiler.trace(lambda x, y: x, [("x", [2]), ("x", [2])]), ValueError, "named 'x'"),
        (lambda: compiler.trace(lambda x: (x, x), [("x", [2])]), TypeError, "returns one array, not a tuple"),
        (lambda: compiler.trace(lambda x: 3.0, [("x", [2])]), TypeError, "returns one array"),
        (lambda: compiler.capability("gpu"), ValueError, "'gpu' is not one of"),
        (lambda: program.compile("gpu"), ValueError, "'gpu' is not one of"),
        (lambda: program.compile("cpu", -1), ValueError, "negative"),
        (lambda: program.jvp("z"), ValueError, "no input named 'z'"),
        (lambda: program.vjp("x"), ValueError, "named 'x'"),
        (lambda: program.vjp(3), TypeError, "name of a new input"),
        (lambda: run({}), ValueError, "input 'x' is missing"),
        (lambda: run({"x": qb.ones((3,))}), ValueError, r"float64\[3\]; the program takes float64\[2\]"),
        (lambda: run({"x": x.astype(qb.float32)}), ValueError, "float32"),
        (lambda: run([x]), TypeError, "dict"),
        (lambda: qb.jit(lambda x: run({"x": x}))(x), qb.TracerError, "TraceTensor"),
    ]:
        with pytest.raises(kind, match=match):
            use()
    assert run({"x": [1, 2]}).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("target", ["cuda", "mlx"])
def test_a_target_that_is_not_built_is_unsupported(target):
    program = qb.Compiler().trace(lambda x: x * 2, [("x", [2])])
    if qb.Compiler().capability(target):
        pytest.skip("built here")
    with pytest.raises(qb.UnsupportedOperationError) as e:
        program.compile(target)
    assert e.value.device == target


# ---- StableHLO ----


def everything(x, m):
    y = qb.where(x > 0.5, x, -x) + qb.exp2(x) * qb.hypot(x, 2.0)
    y = y + qb.log2(qb.abs(x) + 1.0) + qb.sign(x) + qb.round(x) + x**5 + x**0 + qb.erf(x) + qb.tan(x)
    z = qb.concat([y[:, ::-1], y[::-2]], 0) + 0.0 * qb.stack([y[0], y[1], y[0]])
    s = qb.mean(z, axis=0) + qb.max(z) + qb.array([math.inf, math.nan, -math.inf])
    return qb.matmul(z, z.T) + qb.sum(s * qb.where(m, 1.0, 0.0)), (z.astype(qb.float32) > 0).astype(qb.bool_)


def test_stablehlo_is_a_module_with_a_main_function():
    program = qb.Compiler().trace(lambda x: qb.sin(x) * 2.0, [("x", [2])])
    assert program.stablehlo_text() == (
        "module @quabla {\n"
        "  func.func @main(%arg0: tensor<2xf64>) -> tensor<2xf64> {\n"
        "    %0 = stablehlo.sine %arg0 : tensor<2xf64>\n"
        "    %1 = stablehlo.constant dense<2.0> : tensor<2xf64>\n"
        "    %2 = stablehlo.multiply %0, %1 : tensor<2xf64>\n"
        "    return %2 : tensor<2xf64>\n"
        "  }\n"
        "}\n"
    )


def test_every_elementwise_op_has_a_word_in_stablehlo():
    for row in qb._core._ops():
        if row["arity"] not in (1, 2) or not row["elementwise"] or row["name"] in ("powi", "cast"):
            continue
        dtype = qb.bool_ if row["name"].startswith("logical") else qb.float64
        fun = getattr(qb, row["name"], None) or getattr(qb._core, row["name"])
        specs = [("x", [2], dtype), ("y", [2], dtype)][: row["arity"]]
        text = qb.Compiler().trace(fun, specs).stablehlo_text()
        assert re.search(r"(stablehlo|chlo)\.\w+|return %arg0", text), row["name"]


def test_control_flow_in_stablehlo():
    x = qb.ShapeDtype((2,))

    def text(f):
        return qb.jit(f).lower(x).program.stablehlo_text()

    branch = text(lambda x: qb.cond(qb.sum(x) > 0, qb.sin, lambda x: x * 2.0, x))
    assert '"stablehlo.if"(' in branch
    assert branch.count("stablehlo.return") == 2
    assert "}) : (tensor<i1>) -> tensor<2xf64>" in branch
    loop = text(lambda x: qb.scan(lambda c, i: (qb.sin(c) * x, c), x, length=4))
    assert "stablehlo.while(" in loop
    assert "stablehlo.constant dense<4> : tensor<i64>" in loop
    assert "-> tensor<4x2xf64>" in loop
    slices = text(qb.grad(lambda x: qb.sum(qb.scan(lambda c, i: (qb.tanh(c * x), c), x, length=4)[1])))
    assert "stablehlo.dynamic_slice" in slices
    bounded = text(lambda x: qb.while_loop(lambda c: qb.sum(c) < 9.0, lambda c: c * 2.0, x, max_steps=3))
    assert "stablehlo.and " in bounded
    assert "dense<3> : tensor<i64>" in bounded


def test_names_in_stablehlo_are_defined_before_they_are_used():
    for f in (everything, qb.jacobian(lambda x, m: everything(x, m)[0])):
        text = qb.jit(f).lower(qb.ShapeDtype((2, 3)), qb.ShapeDtype((3,), qb.bool_)).program.stablehlo_text()
        known = set(re.findall(r"(%arg\d+): ", text))
        for line in text.splitlines()[2:]:
            left, _, right = line.partition(" = ")
            assert set(re.findall(r"%\w+", right or left)) <= known, line
            if right:
                known.add(left.strip())


def test_indices_and_running_sums_in_stablehlo():
    def f(x):
        return qb.cumsum(x.gather([2, 0], axis=1), 0, reverse=True).scatter_add([0, 0], x[:, :2], axis=1)

    assert qb.jit(f).lower(qb.ShapeDtype((4, 3), qb.float32)).program.stablehlo_text() == (
        "module @quabla {\n"
        "  func.func @main(%arg0: tensor<4x3xf32>) -> tensor<4x2xf32> {\n"
        "    %0 = stablehlo.constant dense<[2, 0]> : tensor<2xi64>\n"
        '    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], '
        "start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 4, 1>}> : "
        "(tensor<4x3xf32>, tensor<2xi64>) -> tensor<4x2xf32>\n"
        "    %2 = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '    %3 = "stablehlo.reduce_window"(%1, %2) <{padding = dense<[[0, 3], [0, 0]]> : tensor<2x2xi64>, '
        "window_dimensions = array<i64: 4, 1>, window_strides = array<i64: 1, 1>}> ({\n"
        "    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):\n"
        "      %sum = stablehlo.add %lhs, %rhs : tensor<f32>\n"
        "      stablehlo.return %sum : tensor<f32>\n"
        "    }) : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>\n"
        "    %4 = stablehlo.slice %arg0 [0:4, 0:2] : (tensor<4x3xf32>) -> tensor<4x2xf32>\n"
        "    %5 = stablehlo.constant dense<[0, 0]> : tensor<2xi64>\n"
        '    %6 = "stablehlo.scatter"(%3, %5, %4) <{indices_are_sorted = false, scatter_dimension_numbers = '
        "#stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], "
        "index_vector_dim = 1>, unique_indices = false}> ({\n"
        "    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):\n"
        "      %sum = stablehlo.add %lhs, %rhs : tensor<f32>\n"
        "      stablehlo.return %sum : tensor<f32>\n"
        "    }) : (tensor<4x2xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x2xf32>\n"
        "    return %6 : tensor<4x2xf32>\n"
        "  }\n"
        "}\n"
    )
