/* fit.c: a whole training run without Python.

   The model u(x) = sin(w x) must solve u'' = -pi^2 sin(pi x), so w = pi. The program builds the graph of u at one point, takes the
   second derivative by two forward sweeps, maps it over 8 points, forms the mean squared residual, takes its gradient in
   w by a reverse sweep, compiles loss and gradient to one plan and runs it 300 times with a Newton-like step. */
#include <math.h>
#include <quabla.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 8, STEPS = 300 };
static const double PI = 3.14159265358979323846;

static void need(bool ok, const qb_error *err)
{
    if (ok) return;
    fprintf(stderr, "fit: %s: %s\n", qb_error_exception(err->code), err->message);
    exit(1);
}

/* A graph with scalar inputs x and w. */
static qb_graph *start(qb_value *xw, qb_error *err)
{
    qb_type scalar = qb_type_make(QB_F64, 0, NULL);
    qb_graph *g = qb_graph_new(err);
    need(g != NULL, err);
    xw[0] = qb_graph_input(g, "x", &scalar, err);
    xw[1] = qb_graph_input(g, "w", &scalar, err);
    return g;
}

static qb_graph *finish(qb_graph *g, qb_value out, qb_error *err)
{
    need(qb_graph_output(g, out, err) && qb_graph_freeze(g, err), err);
    return g;
}

/* du/dx of the graph of u(x, w), as another graph of (x, w). */
static qb_graph *derivative(const qb_graph *u, qb_error *err)
{
    qb_value xw[2], value, slope;
    qb_graph *g = start(xw, err);
    qb_type scalar = qb_type_make(QB_F64, 0, NULL);
    qb_value tangents[2] = {qb_constant(g, &scalar, 1.0, err), QB_NONE};
    need(qb_jvp(g, u, xw, tangents, &value, &slope, err), err);
    return finish(g, slope, err);
}

/* mean((u_xx + pi^2 sin(pi x))^2) over x: f64[8], w: f64[]. */
static qb_graph *loss_of(const qb_graph *u_xx, qb_error *err)
{
    int64_t points = POINTS;
    qb_type vector = qb_type_make(QB_F64, 1, &points), scalar = qb_type_make(QB_F64, 0, NULL);
    qb_graph *g = qb_graph_new(err);
    need(g != NULL, err);
    qb_value xw[2] = {qb_graph_input(g, "x", &vector, err), qb_graph_input(g, "w", &scalar, err)},
             curve;
    bool mapped[2] = {true, false}, out_mapped;
    need(qb_vmap(g, u_xx, xw, mapped, POINTS, &curve, &out_mapped, err), err);
    qb_value wave = qb_op1("sin", qb_op2("mul", xw[0], qb_constant(g, &scalar, PI, err), err), err);
    qb_value source = qb_op2("mul", wave, qb_constant(g, &scalar, PI * PI, err), err);
    qb_value residual = qb_op2("add", curve, source, err);
    qb_value square = qb_op2("mul", residual, residual, err);
    qb_value loss = qb_apply(g, qb_op_find("mean"), &square, 1, &(qb_attr){.n = -1}, err);
    return finish(g, loss, err);
}

/* loss and d loss / d w, as one program. */
static qb_graph *with_gradient(const qb_graph *loss, qb_error *err)
{
    qb_graph *g = qb_graph_new(err);
    need(g != NULL, err);
    qb_type scalar = qb_type_make(QB_F64, 0, NULL);
    qb_value args[2], value, grads[2], one;
    for (int i = 0; i < 2; i++)
        args[i] =
            qb_graph_input(g, qb_graph_input_name(loss, i), qb_graph_input_type(loss, i), err);
    one = qb_constant(g, &scalar, 1.0, err);
    need(qb_vjp(g, loss, args, &one, (bool[]){false, true}, &value, grads, err), err);
    need(qb_graph_output(g, value, err), err);
    return finish(g, grads[1], err);
}

int main(void)
{
    qb_error err = {0};
    qb_value xw[2];
    qb_graph *u = start(xw, &err);
    finish(u, qb_op1("sin", qb_op2("mul", xw[1], xw[0], &err), &err), &err);
    qb_graph *u_x = derivative(u, &err), *u_xx = derivative(u_x, &err);
    qb_graph *loss = loss_of(u_xx, &err), *step = with_gradient(loss, &err);
    qb_plan *plan = qb_compile(step, NULL, &err);
    need(plan != NULL, &err);

    double x[POINTS], w = 2.5, value = 0, slope = 0;
    for (int i = 0; i < POINTS; i++) x[i] = 0.05 + 0.9 * i / (POINTS - 1);
    for (int i = 0; i < STEPS; i++) {
        need(qb_plan_run(plan, (const void *[]){x, &w}, (void *[]){&value, &slope}, &err), &err);
        w -= 2e-3 * slope;
    }
    printf("w = %.6f, loss = %.1e, %d nodes\n", w, value, qb_plan_node_count(plan));

    qb_plan_release(plan);
    qb_graph *all[] = {u, u_x, u_xx, loss, step};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) qb_graph_release(all[i]);
    return fabs(w - PI) < 1e-6 ? 0 : 1;
}
