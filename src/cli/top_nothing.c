/* top_nothing.c -- why no operator passes the filters of `opmeter top`; see top.h. */
#include "cli/top.h"

static void say_unknown(const struct top *t, const struct option_list *list, const char *column,
                        const char *what, struct buf *b)
{
    struct buf sql = { 0 }, near = { 0 };

    buf_addf(&sql, "SELECT DISTINCT %s FROM op_times WHERE %s IS NOT NULL", column, column);
    for (size_t i = 0; i < list->n; i++) {
        buf_clear(&near);
        if (cli_near_text(t->trace, buf_str(&sql), list->item[i], &near))
            continue;
        buf_addf(b, "%s %s '%s'", b->len ? "," : ": there is", what, list->item[i]);
        if (near.len)
            buf_addf(b, " (did you mean '%s'?)", buf_str(&near));
    }
    b->failed |= sql.failed || near.failed;
    buf_release(&sql);
    buf_release(&near);
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
