/* printf.c -- printf() of SQL: each conversion by itself, made by SQLite, with widths that are
 * looked at before. */
#include "sql/costly_int.h"
#include <stdio.h>
#include <string.h>

#define NO_PRECISION (-1)

struct conversion {
    char flags[8];
    size_t nflag;
    int width;
    int precision;
    char kind;
};

struct arguments {
    sqlite3_value **v;
    int n;
};

static sqlite3_value *take(struct arguments *a)
{
    if (a->n == 0)
        return NULL;
    a->n--;
    return *a->v++;
}

static sqlite3_int64 take_int(struct arguments *a)
{
    sqlite3_value *v = take(a);

    return v ? sqlite3_value_int64(v) : 0;
}

static double take_real(struct arguments *a)
{
    sqlite3_value *v = take(a);

    return v ? sqlite3_value_double(v) : 0;
}

static const char *take_text(struct arguments *a)
{
    sqlite3_value *v = take(a);

    return v ? (const char *)sqlite3_value_text(v) : NULL;
}

/* The digits at *at, as many as an int holds: more than any limit otherwise. */
static int read_number(const char **at)
{
    int v = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++)
        v = v > (INT32_MAX - 9) / 10 ? INT32_MAX : v * 10 + (**at - '0');
    return v;
}

static int limited(sqlite3_int64 v)
{
    return (int)MIN(MAX(v, -INT32_MAX), INT32_MAX);
}

static void add_flag(struct conversion *c, char flag)
{
    if (!memchr(c->flags, flag, c->nflag) && c->nflag + 1 < sizeof(c->flags))
        c->flags[c->nflag++] = flag;
}

/* From behind the '%' to behind the letter. */
static const char *read_conversion(const char *at, struct arguments *a, struct conversion *c)
{
    *c = (struct conversion){ .precision = NO_PRECISION };
    for (; *at && strchr("-+ #!0,", *at); at++)
        add_flag(c, *at);
    if (*at == '*') {
        at++;
        c->width = limited(take_int(a));
        if (c->width < 0) {
            add_flag(c, '-');
            c->width = -c->width;
        }
    } else {
        c->width = read_number(&at);
    }
    if (*at == '.') {
        at++;
        if (*at == '*') {
            at++;
            c->precision = limited(take_int(a));
            if (c->precision < 0)
                c->precision = -c->precision;
        } else {
            c->precision = read_number(&at);
        }
    }
    for (int i = 0; i < 2 && *at == 'l'; i++)
        at++;
    c->kind = *at == 'z' ? 's' : *at; /* to a program, %z would free the text */
    return *at ? at + 1 : at;
}

/* Many at a time: near its limit a string grows by no more than what is appended. */
static void add_times(sqlite3_str *out, const char *text, int len, int times)
{
    char block[4080]; /* whole characters, whether of 2, 3 or 4 bytes */
    int fit = (int)sizeof(block) / len;

    for (int i = 0; i < fit; i++) /* bounded: fit is how many there is room for */
        memcpy(block + (size_t)i * (size_t)len, text, (size_t)len);
    for (; times > 0 && sqlite3_str_errcode(out) == SQLITE_OK; times -= fit)
        sqlite3_str_append(out, block, MIN(times, fit) * len);
}

/* %c: the first character of a text, as often as the precision says. */
static void add_char(sqlite3_str *out, const struct conversion *c, const char *text)
{
    int times = MAX(c->precision, 1), pad = MAX(c->width - times, 0), len = 1;
    bool left = memchr(c->flags, '-', c->nflag) != NULL;

    if (!text)
        text = "";
    if ((text[0] & 0xc0) == 0xc0)
        while (len < 4 && (text[len] & 0xc0) == 0x80)
            len++;
    if (!left)
        sqlite3_str_appendchar(out, pad, ' ');
    if (len == 1)
        sqlite3_str_appendchar(out, times, text[0]);
    else
        add_times(out, text, len, times);
    if (left)
        sqlite3_str_appendchar(out, pad, ' ');
}

/* False: no such conversion; what follows is left out, as SQLite does. */
static bool add(sqlite3_str *out, const struct conversion *c, struct arguments *a)
{
    char spec[48], precision[16] = "";
    const char *size = "";

    if (c->kind == 'c') {
        add_char(out, c, take_text(a));
        return true;
    }
    if (c->kind == 'n')
        return true;
    if (!c->kind || !strchr("dioruxXpfeEgGsqQw%", c->kind))
        return false;
    if (strchr("diouxXr", c->kind))
        size = "ll";
    if (c->precision >= 0)
        snprintf(precision, sizeof(precision), ".%d", c->precision);
    snprintf(spec, sizeof(spec), "%%%s%.0d%s%s%c", c->flags, c->width, precision, size, c->kind);
    if (c->kind == '%')
        sqlite3_str_appendf(out, spec);
    else if (c->kind == 'p')
        sqlite3_str_appendf(out, spec, (void *)(intptr_t)take_int(a));
    else if (*size)
        sqlite3_str_appendf(out, spec, take_int(a));
    else if (strchr("feEgG", c->kind))
        sqlite3_str_appendf(out, spec, take_real(a));
    else
        sqlite3_str_appendf(out, spec, take_text(a));
    return true;
}

/* A precision of text only shortens it. */
static bool is_too_long(const struct conversion *c, int max)
{
    return c->width > max || (c->precision > max && !(c->kind && strchr("sqQw", c->kind)));
}

void costly_printf(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sqlite3 *db = sqlite3_context_db_handle(ctx);
    struct arguments a = { argv + 1, argc - 1 };
    const char *at = argc ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    int max = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, -1);
    sqlite3_str *out;
    bool more = true;

    if (!at)
        return;
    out = sqlite3_str_new(db);
    while (*at && more && sqlite3_str_errcode(out) == SQLITE_OK && !costly_stopped(ctx)) {
        size_t plain = strcspn(at, "%");
        struct conversion c;

        sqlite3_str_append(out, at, (int)plain);
        at += plain;
        if (at[0] == '%' && !at[1]) {
            sqlite3_str_append(out, "%", 1);
            break;
        }
        if (!*at)
            break;
        at = read_conversion(at + 1, &a, &c);
        if (is_too_long(&c, max)) {
            sqlite3_free(sqlite3_str_finish(out));
            sqlite3_result_error_toobig(ctx);
            return;
        }
        more = add(out, &c, &a);
    }
    costly_result(ctx, out);
    costly_stopped(ctx); /* outdoes the result */
}
