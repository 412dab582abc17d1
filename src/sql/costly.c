/* costly.c -- see costly.h; LIKE and GLOB are in wildcard.c, printf() is in printf.c. */
#include "sql/costly.h"

#include "sql/costly_int.h"
#include <string.h>

bool costly_stopped(sqlite3_context *ctx)
{
    const atomic_bool *stop = sqlite3_user_data(ctx);

    if (!atomic_load_explicit(stop, memory_order_relaxed))
        return false;
    sqlite3_result_error_code(ctx, SQLITE_INTERRUPT);
    return true;
}

void costly_result(sqlite3_context *ctx, sqlite3_str *text)
{
    int rc = sqlite3_str_errcode(text);
    sqlite3_uint64 len = (sqlite3_uint64)sqlite3_str_length(text);
    char *s = sqlite3_str_finish(text);

    if (rc == SQLITE_TOOBIG)
        sqlite3_result_error_toobig(ctx);
    else if (rc != SQLITE_OK)
        sqlite3_result_error_nomem(ctx);
    if (rc == SQLITE_OK && s)
        sqlite3_result_text64(ctx, s, len, sqlite3_free, SQLITE_UTF8);
    else
        sqlite3_free(s);
    if (rc == SQLITE_OK && !s)
        sqlite3_result_text(ctx, "", 0, SQLITE_STATIC);
}

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Bytes of the character at s[0..n), n > 0. */
static size_t char_bytes(const unsigned char *s, size_t n)
{
    size_t len = 1;

    if (s[0] >= 0xc0)
        while (len < n && is_tail(s[len]))
            len++;
    return len;
}

/* Where needle first stands in hay: bytes before it. Of text only where a character begins. */
static bool find(sqlite3_context *ctx, const unsigned char *hay, size_t nhay,
                 const unsigned char *needle, size_t nneedle, bool text, size_t *out)
{
    size_t from = 0;

    while (nneedle <= nhay - from && !costly_stopped(ctx)) {
        const unsigned char *at = memmem(hay + from, nhay - from, needle, nneedle);

        if (!at)
            return false;
        *out = (size_t)(at - hay);
        if (!text || at == hay || !is_tail(*at))
            return true;
        from = *out + 1;
    }
    return false;
}

static void instr(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    bool blob[2], text;
    const unsigned char *s[2];
    size_t n[2], at = 0;
    sqlite3_int64 chars = 1;

    (void)argc;
    for (int i = 0; i < 2; i++) {
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return;
        blob[i] = sqlite3_value_type(argv[i]) == SQLITE_BLOB;
    }
    text = !blob[0] || !blob[1];
    for (int i = 0; i < 2; i++) {
        s[i] = text ? sqlite3_value_text(argv[i]) : sqlite3_value_blob(argv[i]);
        n[i] = (size_t)sqlite3_value_bytes(argv[i]);
        if (!s[i] && n[i]) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
    }
    if (n[1] && !find(ctx, s[0], n[0], s[1], n[1], text, &at)) {
        if (!costly_stopped(ctx))
            sqlite3_result_int(ctx, 0);
        return;
    }
    for (size_t i = 1; i <= at; i++)
        chars += !text || !is_tail(s[0][i]);
    sqlite3_result_int64(ctx, chars);
}

static void replace(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const unsigned char *s[3];
    size_t n[3], from = 0, at;
    sqlite3_str *out;

    (void)argc;
    for (int i = 0; i < 3; i++) {
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return;
        s[i] = sqlite3_value_text(argv[i]);
        n[i] = (size_t)sqlite3_value_bytes(argv[i]);
        if (!s[i] && n[i]) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
    }
    if (n[1] == 0 || s[1][0] == '\0') {
        sqlite3_result_value(ctx, argv[0]);
        return;
    }
    out = sqlite3_str_new(sqlite3_context_db_handle(ctx));
    while (find(ctx, s[0] + from, n[0] - from, s[1], n[1], false, &at)) {
        sqlite3_str_append(out, (const char *)s[0] + from, (int)at);
        sqlite3_str_append(out, (const char *)s[2], (int)n[2]);
        from += at + n[1];
        if (sqlite3_str_errcode(out) != SQLITE_OK)
            break;
    }
    sqlite3_str_append(out, (const char *)s[0] + from, (int)(n[0] - from));
    costly_result(ctx, out);
    costly_stopped(ctx); /* outdoes the result */
}

/* Bytes of the character of set[0..nset) that s[0..n) begins with, or ends with; 0: none. */
static size_t member(const unsigned char *s, size_t n, bool end, const unsigned char *set,
                     size_t nset, sqlite3_context *ctx, bool *stopped)
{
    size_t len, tries = 0;

    for (size_t i = 0; i < nset; i += len) {
        len = char_bytes(set + i, nset - i);
        if (len <= n && memcmp(end ? s + n - len : s, set + i, len) == 0)
            return len;
        if ((++tries & 0xffff) == 0 && costly_stopped(ctx)) {
            *stopped = true;
            return 0;
        }
    }
    return 0;
}

static void trim(sqlite3_context *ctx, int argc, sqlite3_value **argv, bool left, bool right)
{
    const unsigned char *s, *set = (const unsigned char *)" ";
    size_t n, nset = 1, len, tries = 0;
    bool stopped = false;

    if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
        (argc > 1 && sqlite3_value_type(argv[1]) == SQLITE_NULL))
        return;
    s = sqlite3_value_text(argv[0]);
    n = (size_t)sqlite3_value_bytes(argv[0]);
    if (argc > 1) {
        set = sqlite3_value_text(argv[1]);
        nset = set ? strlen((const char *)set) : 0;
    }
    if (!s || !set) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    while ((left || right) && n && !stopped) {
        len = member(s, n, !left, set, nset, ctx, &stopped);
        if (len == 0) {
            right &= left; /* the other end has its turn, if there is one */
            left = false;
        } else if (left) {
            s += len;
        }
        n -= len;
        if ((++tries & 0xffff) == 0)
            stopped |= costly_stopped(ctx);
    }
    if (!stopped)
        sqlite3_result_text64(ctx, (const char *)s, n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void trim_both(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    trim(ctx, argc, argv, true, true);
}

static void trim_left(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    trim(ctx, argc, argv, true, false);
}

static void trim_right(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    trim(ctx, argc, argv, false, true);
}

int costly_register(struct sqlite3 *db, const atomic_bool *stop)
{
    static const struct {
        const char *name;
        int nargs;
        void (*run)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        { "printf", -1, costly_printf }, { "format", -1, costly_printf },
        { "replace", 3, replace },       { "instr", 2, instr },
        { "trim", 1, trim_both },        { "trim", 2, trim_both },
        { "ltrim", 1, trim_left },       { "ltrim", 2, trim_left },
        { "rtrim", 1, trim_right },      { "rtrim", 2, trim_right },
        { "like", 2, costly_like },      { "like", 3, costly_like },
        { "glob", 2, costly_glob },
    };
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc = SQLITE_OK;

    for (size_t i = 0; i < ARRAY_SIZE(functions) && rc == SQLITE_OK; i++)
        rc =
            sqlite3_create_function_v2(db, functions[i].name, functions[i].nargs, flags,
                                       (void *)(uintptr_t)stop, functions[i].run, NULL, NULL, NULL);
    return rc;
}
