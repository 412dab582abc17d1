/* regexp.c -- see regexp.h. The only file that knows PCRE2. */
#include "sql/regexp.h"

#include "base/common.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sqlite3.h>

#define TRIES_MAX 1000000 /* from one place of the text on */
#define SHORT_BYTES 256   /* with so many places at most, the tries bound the time */

/* Compiled once per statement: SQLite keeps it beside the constant argument. */
struct pattern {
    pcre2_code *code;
    pcre2_code *watched; /* for longer texts: asks on_step() between its items; NULL at first */
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static void pattern_free(void *p)
{
    struct pattern *pattern = p;

    pcre2_match_context_free(pattern->limits);
    pcre2_match_data_free(pattern->match);
    pcre2_code_free(pattern->watched);
    pcre2_code_free(pattern->code);
    sqlite3_free(pattern);
}

static void fail(sqlite3_context *ctx, const char *text, int code)
{
    PCRE2_UCHAR reason[120];
    char *message;

    if (pcre2_get_error_message(code, reason, sizeof(reason)) < 0)
        reason[0] = '\0';
    message = sqlite3_mprintf("regular expression '%s': %s", text, reason);
    if (message)
        sqlite3_result_error(ctx, message, -1);
    else
        sqlite3_result_error_nomem(ctx);
    sqlite3_free(message);
}

static int on_step(pcre2_callout_block *block, void *stop)
{
    (void)block;
    return atomic_load_explicit((const atomic_bool *)stop, memory_order_relaxed)
               ? PCRE2_ERROR_CALLOUT
               : 0;
}

/* NULL after a failure that is reported. */
static pcre2_code *compile_code(sqlite3_context *ctx, sqlite3_value *v, uint32_t more)
{
    const unsigned char *text = sqlite3_value_text(v);
    pcre2_code *code;
    PCRE2_SIZE offset;
    int why = 0;

    if (!text) {
        sqlite3_result_error_nomem(ctx);
        return NULL;
    }
    code = pcre2_compile(text, (PCRE2_SIZE)sqlite3_value_bytes(v),
                         PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | more, &why, &offset, NULL);
    if (!code)
        fail(ctx, (const char *)text, why);
    return code;
}

static struct pattern *compile(sqlite3_context *ctx, sqlite3_value *v)
{
    struct pattern *p = sqlite3_malloc(sizeof(*p));

    if (!p) {
        sqlite3_result_error_nomem(ctx);
        return NULL;
    }
    *p = (struct pattern){ 0 };
    p->code = compile_code(ctx, v, 0);
    if (!p->code) {
        pattern_free(p);
        return NULL;
    }
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (!p->match || !p->limits) {
        pattern_free(p);
        sqlite3_result_error_nomem(ctx);
        return NULL;
    }
    pcre2_set_match_limit(p->limits, TRIES_MAX);
    pcre2_set_callout(p->limits, on_step, sqlite3_user_data(ctx));
    return p;
}

static void regexp(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct pattern *p = sqlite3_get_auxdata(ctx, 0);
    const unsigned char *text;
    PCRE2_SIZE len;
    int found;

    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return; /* NULL */
    if (!p) {
        p = compile(ctx, argv[0]);
        if (!p)
            return;
        sqlite3_set_auxdata(ctx, 0, p, pattern_free);
        /* It may have been freed at once, for want of memory. */
        if (sqlite3_get_auxdata(ctx, 0) != p) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
    }
    text = sqlite3_value_text(argv[1]);
    if (!text) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    len = (PCRE2_SIZE)sqlite3_value_bytes(argv[1]);
    if (len > SHORT_BYTES && !p->watched) {
        p->watched = compile_code(ctx, argv[0], PCRE2_AUTO_CALLOUT);
        if (!p->watched)
            return;
    }
    found =
        pcre2_match(len > SHORT_BYTES ? p->watched : p->code, text, len, 0, 0, p->match, p->limits);
    if (found >= 0 || found == PCRE2_ERROR_NOMATCH)
        sqlite3_result_int(ctx, found >= 0);
    else if (found == PCRE2_ERROR_CALLOUT)
        sqlite3_result_error_code(ctx, SQLITE_INTERRUPT);
    else
        fail(ctx, (const char *)sqlite3_value_text(argv[0]), found);
}

int regexp_register(struct sqlite3 *db, const atomic_bool *stop)
{
    return sqlite3_create_function_v2(db, "regexp", 2,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                      (void *)(uintptr_t)stop, regexp, NULL, NULL, NULL);
}
