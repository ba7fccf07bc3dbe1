/* text.c: a growing string. The first allocation that fails is remembered, what follows is dropped,
   text_take reports it. */
#include "base/base.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Room for n more bytes and the final zero. */
static bool reserve(Text *t, size_t n)
{
    if (t->failed) return false;
    if (n < t->size - t->used) return true;
    size_t size = t->size * 2 > t->used + n + 1 ? t->size * 2 : t->used + n + 1;
    if (size < 128) size = 128;
    char *data = mem_grow(t->data, t->used, size);
    if (!data) return t->failed = true, false;
    t->data = data;
    t->size = size;
    return true;
}

void text_add(Text *t, const char *format, ...)
{
    if (!reserve(t, 0)) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(t->data + t->used, t->size - t->used, format, args);
    if (n < 0)
        t->failed = true;
    else if ((size_t)n >= t->size - t->used && reserve(t, (size_t)n))
        vsnprintf(t->data + t->used, t->size - t->used, format, again);
    if (!t->failed) t->used += (size_t)n;
    va_end(again);
    va_end(args);
}

/* The fewest digits that read back as x, and the exponent of the first one. C's %e asks the locale
   for its point, so only digits are taken from it. */
static int digits_of(double x, char *digits, int *exponent)
{
    char s[64];
    int precision = 0, n = 0;
    do snprintf(s, sizeof s, "%.*e", precision, x);
    while (strtod(s, NULL) != x && precision++ < 17);
    char *e = strrchr(s, 'e');
    for (char *p = s; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    *exponent = (int)strtol(e + 1, NULL, 10);
    return n;
}

/* Plain decimals from 1e-4 to below 1e16, as Python writes them, and without a trailing ".0". */
void text_number(Text *t, double x)
{
    const char *sign = signbit(x) && !isnan(x) ? "-" : "";
    if (isnan(x) || isinf(x) || x == 0) {
        text_add(t, "%s%s", sign, isnan(x) ? "nan" : x == 0 ? "0" : "inf");
        return;
    }
    char d[32] = "";
    int e, n = digits_of(fabs(x), d, &e);
    if (e < -4 || e >= 16) {
        text_add(t, "%s%c%s%.*se%c%02d", sign, d[0], n > 1 ? "." : "", n - 1, d + 1,
                 e < 0 ? '-' : '+', abs(e));
    } else if (e < 0) {
        text_add(t, "%s0.%.*s%.*s", sign, -e - 1, "000", n, d);
    } else if (n <= e + 1) {
        text_add(t, "%s%.*s%.*s", sign, n, d, e + 1 - n, "000000000000000");
    } else {
        text_add(t, "%s%.*s.%.*s", sign, e + 1, d, n - e - 1, d + e + 1);
    }
}

char *text_take(Text *t, qb_error *err)
{
    reserve(t, 0);
    char *s = t->data;
    if (t->failed) {
        mem_free(s);
        s = NULL;
        error_memory(err, "a text", -1);
    } else {
        s[t->used] = 0;
    }
    *t = (Text){0};
    return s;
}
