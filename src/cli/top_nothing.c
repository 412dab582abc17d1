/* top_nothing.c -- why no operator passes the filters of `opmeter top`; see top.h. */
#include "cli/top.h"

#include "base/alloc.h"

#include <string.h>

/* The text nearest to word in a column of what the trace has executed; "" if it has word itself or
 * nothing like it. The caller frees it; NULL: out of memory. */
static char *nearest_text(const struct top *t, const char *column, const char *word, bool *has)
{
    struct nearest n = { word, NULL, 0 };
    struct buf sql = { 0 };
    char *copy = mem_strdup("");
    opm_rows *r = NULL;

    buf_addf(&sql, "SELECT DISTINCT %s FROM op_times WHERE %s IS NOT NULL", column, column);
    *has = false;
    if (!sql.failed && opm_trace_query(t->trace, buf_str(&sql), &r, NULL) == 0) {
        while (copy && opm_rows_next(r, NULL) > 0) {
            const char *text = opm_rows_text(r, 0, NULL), *before = n.best;

            *has |= strcmp(text, word) == 0;
            nearest_try(&n, text);
            if (n.best != before) { /* the text goes with its row */
                mem_free(copy);
                copy = mem_strdup(text);
                n.best = copy;
            }
        }
    }
    opm_rows_close(r);
    buf_release(&sql);
    return copy;
}

static void say_unknown(const struct top *t, const struct option_list *list, const char *column,
                        const char *what, struct buf *b)
{
    for (size_t i = 0; i < list->n; i++) {
        bool has;
        char *near = nearest_text(t, column, list->item[i], &has);

        if (near && !has) {
            buf_addf(b, "%s %s '%s'", b->len ? "," : ": there is", what, list->item[i]);
            if (*near)
                buf_addf(b, " (did you mean '%s'?)", near);
        }
        mem_free(near);
    }
}

int top_say_nothing(const struct top *t)
{
    struct buf b = { 0 };
    int rc;

    say_unknown(t, &t->type, "type", "no type", &b);
    if (!b.len)
        say_unknown(t, &t->opr_name, "name", "no name that begins with", &b);
    cli_clean(&b);
    io_out_addf(&t->cli->out, "No operator passes the filters%s.\n", buf_str(&b));
    rc = b.failed ? cli_out_of_memory() : CLI_OK;
    buf_release(&b);
    return rc;
}
