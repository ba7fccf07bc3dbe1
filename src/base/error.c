/* error.c: one idiom. The caller owns the qb_error; whoever fails fills it and returns false or
   NULL. */
#include "base/base.h"
#include <stdio.h>

void error_clear(qb_error *err)
{
    err->code = QB_OK;
    err->op[0] = 0;
    err->message[0] = 0;
}

/* A message that was cut may end inside a character of the user's text, and Python refuses broken
   UTF-8. */
static void trim(char *s, size_t n)
{
    size_t start = n;
    while (start > 0 && n - start < 4 && ((unsigned char)s[start - 1] & 0xc0) == 0x80) start--;
    if (start == 0) return;
    unsigned char lead = (unsigned char)s[start - 1];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (n - start + 1 < length) s[start - 1] = 0;
}

void error_setv(qb_error *err, int code, const char *format, va_list args)
{
    err->code = code;
    err->op[0] = 0;
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    if (n < 0) err->message[0] = 0;
    if (n >= (int)sizeof err->message) trim(err->message, sizeof err->message - 1);
}

void error_set(qb_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_setv(err, code, format, args);
    va_end(args);
}

void error_memory(qb_error *err, const char *what, int64_t bytes)
{
    if (bytes < 0)
        error_set(err, QB_EMEMORY, "out of memory: no room for %s", what);
    else
        error_set(err, QB_EMEMORY, "out of memory: no %lld bytes for %s", (long long)bytes, what);
}
