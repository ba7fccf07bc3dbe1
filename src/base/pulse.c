/* pulse.c: how a long run is interrupted. The caller sets one function for the process; loops ask
   it every few milliseconds. A clock costs as much as a small iteration, so it is read once in a
   number of iterations, which follows their pace. */
#include "base/base.h"
#include <time.h>

enum { MOST = 1024, EVERY_NS = 5000000 };

static _Atomic(qb_interrupt_fn *) asked;
static _Atomic(void *) asked_arg;

void pulse_set(qb_interrupt_fn *fn, void *arg)
{
    atomic_store(&asked, NULL); /* nobody calls the new function with the old argument */
    atomic_store(&asked_arg, arg);
    atomic_store(&asked, fn);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool pulse_slow(Pulse *p)
{
    qb_interrupt_fn *fn = atomic_load(&asked);
    int64_t t = fn ? now() : 0, passed = t - p->last;
    p->left = p->step = p->step ? p->step : 1;
    if (!fn) return p->left = MOST, true;
    if (!p->last || passed >= EVERY_NS) {
        bool stop = p->last && fn(atomic_load(&asked_arg));
        p->last = t;
        if (passed > 4 * (int64_t)EVERY_NS && p->step > 1) p->step /= 2;
        return !stop;
    }
    if (passed < EVERY_NS / 8 && p->step < MOST) p->step *= 2;
    return true;
}
