/* text.c and error.c */
#include "base/base.h"
#include "test.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static const char *number(double x)
{
    static char out[64];
    qb_error err;
    Text t = {0};
    text_number(&t, x);
    char *s = text_take(&t, &err);
    snprintf(out, sizeof out, "%s", s ? s : "(null)");
    mem_free(s);
    return out;
}

static void test_numbers_are_the_shortest_decimals(void)
{
    static const struct {
        double x;
        const char *s;
    } rows[] = {
        {0.1, "0.1"},
        {1, "1"},
        {-1, "-1"},
        {0, "0"},
        {-0.0, "-0"},
        {1e300, "1e+300"},
        {1e22, "1e+22"},
        {1e15, "1000000000000000"},
        {1e16, "1e+16"},
        {123456, "123456"},
        {100, "100"},
        {2.5, "2.5"},
        {-0.001, "-0.001"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {1.5e-7, "1.5e-07"},
        {3.141592653589793, "3.141592653589793"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {9007199254740993.0, "9007199254740992"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {(double)0.1f, "0.10000000149011612"},
        {0.00012345, "0.00012345"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_EQ_STR(number(rows[i].x), rows[i].s);
    CHECK_EQ_STR(number(copysign(NAN, -1)), "nan");
}

static void test_any_number_reads_back(void)
{
    uint64_t u = 1;
    int wrong = 0;
    for (int i = 0; i < 20000; i++) {
        u = hash_mix(u, (uint64_t)i);
        double x, y;
        memcpy(&x, &u, 8);
        if (i & 1) x = (double)(int64_t)u / 1e6;
        y = strtod(number(x), NULL);
        wrong += memcmp(&x, &y, 8) != 0 && !isnan(x);
    }
    CHECK_EQ_INT(wrong, 0);
}

static void test_text_grows(void)
{
    int64_t before = qb_test_live_bytes();
    qb_error err;
    Text t = {0};
    for (int i = 0; i < 1000; i++) text_add(&t, "%%%d = %s\n", i, "add");
    text_add(&t, "%0*d", 3000, 7);
    char *s = text_take(&t, &err);
    REQUIRE(s);
    CHECK_EQ_INT(strlen(s), 10 * 9 + 90 * 10 + 900 * 11 + 3000);
    CHECK(memcmp(s, "%0 = add\n%1 = add\n", 18) == 0);
    mem_free(s);
    s = text_take(&t, &err);
    CHECK_EQ_STR(s, "");
    mem_free(s);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void test_text_reports_the_first_failed_allocation(void)
{
    int64_t before = qb_test_live_bytes();
    for (int n = 1; n < 4; n++) {
        qb_error err = {0};
        Text t = {0};
        qb_test_fail_alloc(n);
        text_add(&t, "%0100d", 1);
        text_add(&t, "%0200d", 2);
        text_add(&t, "%0500d", 3);
        char *s = text_take(&t, &err);
        qb_test_fail_alloc(-1);
        CHECK(s == NULL);
        CHECK_EQ_INT(err.code, QB_EMEMORY);
    }
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void test_errors_carry_code_and_message(void)
{
    qb_error err;
    error_set(&err, QB_ESHAPE, "add: %s and %d", "f64[3]", 4);
    CHECK_EQ_INT(err.code, QB_ESHAPE);
    CHECK_EQ_STR(err.message, "add: f64[3] and 4");
    CHECK_EQ_STR(err.op, "");
    error_memory(&err, "an array", 1 << 30);
    CHECK_EQ_INT(err.code, QB_EMEMORY);
    CHECK_EQ_STR(err.message, "out of memory: no 1073741824 bytes for an array");
    error_memory(&err, "an array", -1);
    CHECK_EQ_STR(err.message, "out of memory: no room for an array");
    error_clear(&err);
    CHECK_EQ_INT(err.code, QB_OK);
    CHECK_EQ_STR(err.message, "");
}

static void test_a_long_message_is_cut_between_characters(void)
{
    qb_error err;
    char s[2000];
    for (int shift = 0; shift < 4; shift++) {
        memset(s, 'x', sizeof s);
        for (size_t i = (size_t)shift; i + 4 < sizeof s; i += 3)
            memcpy(s + i, "\xe2\x82\xac", 3); /* the euro sign */
        s[1999] = 0;
        error_set(&err, QB_EVALUE, "%s", s);
        size_t n = strlen(err.message);
        CHECK(n > 1020 && n < 1024);
        CHECK_EQ_INT((n - (size_t)shift) % 3, 0);
    }
    memset(s, 'x', sizeof s);
    s[1999] = 0;
    error_set(&err, QB_EVALUE, "%s", s);
    CHECK_EQ_INT(strlen(err.message), 1023);
}

int main(void)
{
    RUN(test_numbers_are_the_shortest_decimals);
    RUN(test_any_number_reads_back);
    RUN(test_text_grows);
    RUN(test_text_reports_the_first_failed_allocation);
    RUN(test_errors_carry_code_and_message);
    RUN(test_a_long_message_is_cut_between_characters);
    return test_report();
}
