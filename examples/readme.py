"""The example of the README: find w with u(x) = sin(w x), u'' = -pi^2 sin(pi x), so w = pi."""

import math

import quabla as qb


def u(x, w):  # the model at one collocation point x
    return qb.sin(w * x)


u_xx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))  # exact second derivative at each point


def loss(params, x):  # residual of u'' = -pi^2 sin(pi x)
    return qb.mean((u_xx(x, params["w"]) + math.pi**2 * qb.sin(math.pi * x)) ** 2)


def main():
    x = qb.linspace(0.05, 0.95, 8)
    params, adam = {"w": qb.array(2.5)}, qb.optim.Adam(learning_rate=0.05)
    step = qb.jit(qb.value_and_grad(loss))  # traced and compiled on the first call
    for _ in range(300):
        value, grads = step(params, x)
        params = adam.step(params, grads)
    print(f"w = {params['w'].item():.6f}, loss = {value.item():.1e}")


if __name__ == "__main__":
    main()
