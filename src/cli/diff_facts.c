/* diff_facts.c -- what is not the same in two sides; see diff_parts.h. */
#include "cli/diff_parts.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* What was measured is left out. */
static const char facts_sql[] =
    "SELECT key, value FROM meta WHERE (key GLOB 'model.*' OR key GLOB 'engine.*' OR key GLOB"
    " 'machine.*' OR key GLOB 'input.*' OR key IN ('run.batch', 'opmeter.version')) AND NOT"
    " (key GLOB '*_ns' OR key GLOB '*_per_s' OR key GLOB '*_bytes') ORDER BY key";

void diff_facts_release(struct diff_facts *f)
{
    for (size_t i = 0; i < f->n; i++)
        for (int s = 0; s < DIFF_SIDES; s++)
            buf_release(&f->fact[i].value[s]);
    mem_free(f->fact);
    arena_release(&f->text);
    *f = (struct diff_facts){ 0 };
}

static struct diff_fact *find(struct diff_facts *f, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->fact[i].key, key) == 0)
            return &f->fact[i];
    if (!GROW(f->fact, f->cap, f->n + 1))
        return NULL;
    f->fact[f->n] = (struct diff_fact){ .key = arena_strndup(&f->text, key, strlen(key)) };
    return f->fact[f->n].key ? &f->fact[f->n++] : NULL;
}

/* Whether the value is one of those in b. */
static bool has(const struct buf *b, const char *value)
{
    static const char between[] = " | ";
    const char *at = buf_str(b);
    size_t len = strlen(value);

    for (;;) {
        const char *end = strstr(at, between);
        size_t n = end ? (size_t)(end - at) : strlen(at);

        if (n == len && memcmp(at, value, n) == 0)
            return true;
        if (!end)
            return false;
        at = end + sizeof(between) - 1;
    }
}

int diff_facts_read(struct diff_facts *f, opm_trace *t, enum diff_side side)
{
    opm_rows *r = NULL;
    opm_error err = { 0 };
    int rc = opm_trace_query(t, facts_sql, &r, &err);
    bool ok = true;

    while (rc >= 0 && ok) {
        const char *value;
        struct diff_fact *at;

        rc = opm_rows_next(r, &err);
        if (rc != 1)
            break;
        at = find(f, opm_rows_text(r, 0, NULL));
        value = opm_rows_text(r, 1, NULL);
        ok = at;
        if (!ok || !value || (at->n[side] && has(&at->value[side], value)))
            continue;
        buf_addf(&at->value[side], "%s%s", at->n[side]++ ? " | " : "", value);
        ok = !at->value[side].failed;
    }
    opm_rows_close(r);
    if (!ok)
        return cli_out_of_memory();
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct diff_fact *)a)->key, ((const struct diff_fact *)b)->key);
}

void diff_facts_print(struct cli *cli, struct diff_facts *f)
{
    bool any = false;

    if (f->n)
        qsort(f->fact, f->n, sizeof(*f->fact), by_key);
    for (size_t i = 0; i < f->n; i++) {
        const struct diff_fact *fact = &f->fact[i];
        const char *value[DIFF_SIDES];
        struct buf line = { 0 };

        for (int s = 0; s < DIFF_SIDES; s++)
            value[s] = fact->n[s] ? buf_str(&fact->value[s]) : "N/A";
        if (strcmp(value[DIFF_A], value[DIFF_B]) == 0)
            continue;
        buf_addf(&line, "%s: %s, %s", fact->key, value[DIFF_A], value[DIFF_B]);
        cli_clean(&line);
        io_out_addf(&cli->out, "%s  %s\n", any ? "" : "Not the same in A and B:\n", buf_str(&line));
        buf_release(&line);
        any = true;
    }
    if (any)
        io_out_addf(&cli->out, "\n");
}
