/* test.h: the harness of the C tests. A test program is

       static void test_an_arena_grows(void) { CHECK(...); }
       int main(void) { RUN(test_an_arena_grows); return test_report(); }

   A failed check prints file, line and values and lets the test go on. A program that checks nothing
   fails. */
#ifndef QUABLA_TEST_H
#define QUABLA_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_checks, test_failures;
static const char *test_name = "main";

#define CHECK(cond) test_check((cond), __FILE__, __LINE__, #cond)
#define CHECK_EQ_INT(a, b) \
    test_eq_int((long long)(a), (long long)(b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_EQ_STR(a, b) test_eq_str((a), (b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_EQ_BITS(a, b, bytes) test_eq_bits((a), (b), (bytes), __FILE__, __LINE__, #a " == " #b)
#define CHECK_NEAR(a, b, tol) test_near((a), (b), (tol), __FILE__, __LINE__, #a " ~ " #b)
/* For what the rest of a test cannot do without. */
#define REQUIRE(cond)             \
    do {                          \
        if (!CHECK(cond)) return; \
    } while (0)
#define RUN(fn) test_run((fn), #fn)

/* Counts one check, and opens the report of a failed one. */
static inline bool test_check(bool ok, const char *file, int line, const char *what)
{
    test_checks++;
    if (ok) return true;
    test_failures++;
    fprintf(stderr, "%s:%d: %s: failed: %s\n", file, line, test_name, what);
    return false;
}

static inline bool test_eq_int(long long a, long long b, const char *file, int line,
                               const char *what)
{
    if (test_check(a == b, file, line, what)) return true;
    fprintf(stderr, "    left  %lld\n    right %lld\n", a, b);
    return false;
}

static inline bool test_eq_str(const char *a, const char *b, const char *file, int line,
                               const char *what)
{
    if (test_check(a && b && strcmp(a, b) == 0, file, line, what)) return true;
    fprintf(stderr, "    left  \"%s\"\n    right \"%s\"\n", a ? a : "(null)", b ? b : "(null)");
    return false;
}

/* Same bytes: -0.0 is not 0.0, and a NaN is its own payload. */
static inline bool test_eq_bits(const void *a, const void *b, size_t bytes, const char *file,
                                int line, const char *what)
{
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < bytes && x[i] == y[i]) i++;
    if (test_check(i == bytes, file, line, what)) return true;
    fprintf(stderr, "    byte %zu of %zu: left %02x, right %02x\n", i, bytes, x[i], y[i]);
    return false;
}

/* |a - b| <= tol; false when either is a NaN. */
static inline bool test_near(double a, double b, double tol, const char *file, int line,
                             const char *what)
{
    double d = a < b ? b - a : a - b;
    if (test_check(d <= tol || a == b, file, line, what)) return true;
    fprintf(stderr, "    left  %.17g\n    right %.17g\n    more than %g apart\n", a, b, tol);
    return false;
}

static inline void test_run(void (*fn)(void), const char *name)
{
    test_name = name;
    fn();
    test_name = "main";
}

/* The exit status of the program: 0 when at least one check ran and none failed. */
static inline int test_report(void)
{
    printf("%d checks, %d failed\n", test_checks, test_failures);
    return test_failures > 0 || test_checks == 0;
}

/* Programs first .. last of a test that draws `count` of them. SEED=n runs program n alone, and gives true; LAST=n all up to n. */
static inline bool test_seeds(uint64_t count, uint64_t *first, uint64_t *last)
{
    const char *only = getenv("SEED"), *until = getenv("LAST");
    *first = only ? strtoull(only, NULL, 10) : 1;
    *last = only ? *first : until ? strtoull(until, NULL, 10) : count;
    return only != NULL;
}

#endif
