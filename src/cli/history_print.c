/* history_print.c -- what `opmeter history` prints; see history.h. */
#include "catalog/history_answer.h"
#include "cli/history.h"

#include "base/alloc.h"
#include "base/bar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BAR_COLUMNS 12
#define COMMIT_DIGITS 10

static void put_text(struct textable *t, const char *text)
{
    if (text && text[0])
        textable_text(t, text, strlen(text));
    else
        textable_null(t);
}

static void put_buf(struct textable *t, struct buf *b)
{
    textable_text(t, buf_str(b), b->len);
    buf_release(b);
}

static void put_ns(struct textable *t, double ns)
{
    char room[HUMAN_ROOM];

    put_text(t, isnan(ns) ? NULL : human_ns(room, ns));
}

static void put_real(struct textable *t, double v)
{
    if (isfinite(v))
        textable_real(t, v);
    else
        textable_null(t);
}

static int print_table(const struct history_view *v, struct textable *t)
{
    opm_error err;
    int rc = CLI_OK;

    if (!t)
        return cli_out_of_memory();
    if (!v->markdown)
        return cli_print_table(v->cli, t);
    if (textable_print(t, &v->cli->out, TEXTABLE_MARKDOWN, 0, false, &err) < 0)
        rc = cli_error("%s", err.msg);
    textable_free(t);
    return rc;
}

/* -- the whole, for people -- */

/* What there is to say of the run at a place. */
static void add_remark(const struct history *h, const struct history_series *s, size_t at,
                       struct buf *out)
{
    for (size_t k = 0; k < s->nchange; k++) {
        const struct change *c = &s->change[k].c;

        if (c->at != at)
            continue;
        if (out->len)
            buf_adds(out, "; ");
        if (c->kind != CHANGE_CODE)
            buf_addf(out, "%s: ", change_kind_names[c->kind]);
        history_size(c, out);
    }
    if (history_run_at(h, s, at)->run.accepted > 0)
        buf_adds(out, out->len ? "; accepted" : "accepted");
}

static void put_run(struct textable *t, const struct history_view *v,
                    const struct history_series *s, size_t at, double most)
{
    const struct history_run *r = history_run_at(v->h, s, at);
    struct buf text = { 0 };
    char when[HISTORY_TIME_ROOM];

    put_text(t, history_time(when, r->run.began_ns));
    if (r->run.commit_id)
        buf_addf(&text, "%.*s%s", COMMIT_DIGITS, r->run.commit_id, r->run.dirty > 0 ? "+" : "");
    put_buf(t, &text);
    put_ns(t, r->run.median_ns);
    bar_put(&text, r->run.median_ns / most, BAR_COLUMNS, v->markdown || cli_width() > 0);
    put_buf(t, &text);
    put_ns(t, r->run.loop_ns);
    add_remark(v->h, s, at, &text);
    put_buf(t, &text);
    put_text(t, r->labels);
}

static int print_runs(const struct history_view *v, const struct history_series *s)
{
    size_t first = v->last && (size_t)v->last < s->n ? s->n - (size_t)v->last : 0;
    struct textable *t = textable_new();
    double most = 0;

    if (!t)
        return cli_out_of_memory();
    for (size_t i = first; i < s->n; i++)
        most = MAX(most, history_run_at(v->h, s, i)->run.median_ns);
    textable_column(t, "time (UTC)", TEXTABLE_TEXT);
    textable_column(t, "commit", TEXTABLE_TEXT);
    textable_column(t, "latency", TEXTABLE_REAL);
    textable_column(t, "", TEXTABLE_TEXT);
    textable_optional(t, 1);
    textable_column(t, "fixed work", TEXTABLE_REAL);
    textable_optional(t, 3);
    textable_column(t, "change", TEXTABLE_TEXT);
    textable_column(t, "labels", TEXTABLE_TEXT);
    textable_optional(t, 2);
    for (size_t i = first; i < s->n; i++)
        put_run(t, v, s, i, most);
    return print_table(v, t);
}

static void print_heading(const struct history_view *v, size_t series)
{
    const struct history_series *s = &v->h->series[series];
    struct buf title = { 0 };

    history_title(s, v->h, &title);
    buf_addf(&title, ": %zu run%s", s->n, human_s((int64_t)s->n));
    if (series)
        io_out_addf(&v->cli->out, "\n");
    if (v->markdown)
        io_out_addf(&v->cli->out, "**%s**\n\n", buf_str(&title));
    else
        cli_heading(v->cli, "%s", buf_str(&title));
    buf_release(&title);
}

static void print_changes(const struct history_view *v, const struct history_series *s)
{
    for (size_t k = 0; k < s->nchange; k++) {
        struct buf text = { 0 };

        history_sentence(v->h, s, &s->change[k], &text);
        if (k == 0)
            io_out_addf(&v->cli->out, "\n");
        if (v->markdown)
            io_out_addf(&v->cli->out, "- %s\n", buf_str(&text));
        else
            cli_tell(v->cli, "%s", buf_str(&text));
        buf_release(&text);
    }
}

/* -- by type or operator -- */

struct part {
    const struct history_series *s;
    const char *name, *type; /* name NULL: all of the type */
};

/* See each part of a series that has a change of its own; the chance of a false one is shared by
 * all of them. CLI_OK, or what see() or memory says. */
static int each_part(const struct history_view *v, const struct history_series *s,
                     int (*see)(void *user, const struct part *p, const struct changes *found),
                     void *user)
{
    const struct history *h = v->h;
    double *value = mem_calloc(s->n, sizeof(*value)), *control = mem_calloc(s->n, sizeof(*control));
    struct changes_options o = v->options;
    int rc = value && control ? CLI_OK : cli_out_of_memory();

    o.alarm /= (double)MAX(h->nop, (size_t)1);
    for (size_t i = 0; i < s->n && rc == CLI_OK; i++)
        control[i] = history_run_at(h, s, i)->run.loop_ns;
    for (size_t k = 0; k < h->nop && rc == CLI_OK; k++) {
        struct part p = { s, v->by == BY_OP ? h->op[k].name : NULL, h->op[k].type };
        struct changes found;
        bool seen = false;

        for (size_t i = 0; i < k && v->by == BY_TYPE && !seen; i++)
            seen = strcmp(h->op[i].type, p.type) == 0;
        if (seen)
            continue;
        history_values(h, s, p.name, p.type, value);
        if (changes_find(value, control, s->n, &o, &found) < 0) {
            rc = cli_out_of_memory();
            continue;
        }
        if (found.n)
            rc = see(user, &p, &found);
        mem_free(found.change);
    }
    mem_free(value);
    mem_free(control);
    return rc;
}

struct part_table {
    const struct history_view *v;
    struct textable *t;
};

static int put_part(void *user, const struct part *p, const struct changes *found)
{
    struct part_table *to = user;

    for (size_t k = 0; k < found->n; k++) {
        const struct change *c = &found->change[k];
        struct buf text = { 0 };

        if (p->name)
            put_text(to->t, p->name);
        put_text(to->t, p->type);
        history_range(to->v->h, p->s, c, &text);
        put_buf(to->t, &text);
        put_ns(to->t, c->before);
        put_ns(to->t, c->after);
        history_size(c, &text);
        put_buf(to->t, &text);
        put_text(to->t, change_kind_names[c->kind]);
    }
    return CLI_OK;
}

static int print_parts(const struct history_view *v, const struct history_series *s)
{
    struct part_table to = { v, textable_new() };
    int rc;

    if (!to.t)
        return cli_out_of_memory();
    if (v->by == BY_OP)
        textable_column(to.t, "name", TEXTABLE_TEXT);
    textable_column(to.t, "type", TEXTABLE_TEXT);
    textable_column(to.t, "where", TEXTABLE_TEXT);
    textable_column(to.t, "before", TEXTABLE_REAL);
    textable_column(to.t, "after", TEXTABLE_REAL);
    textable_column(to.t, "change", TEXTABLE_TEXT);
    textable_column(to.t, "by", TEXTABLE_TEXT);
    rc = each_part(v, s, put_part, &to);
    if (rc == CLI_OK && textable_rows(to.t))
        return print_table(v, to.t);
    if (rc == CLI_OK)
        cli_tell(v->cli, "No %s changed.", v->by == BY_OP ? "operator" : "type");
    textable_free(to.t);
    return rc;
}

static int print_people(const struct history_view *v)
{
    int rc = CLI_OK;

    for (size_t i = 0; i < v->h->nseries && rc == CLI_OK; i++) {
        const struct history_series *s = &v->h->series[i];

        print_heading(v, i);
        rc = v->by == BY_WHOLE ? print_runs(v, s) : print_parts(v, s);
        if (rc == CLI_OK && v->by == BY_WHOLE)
            print_changes(v, s);
    }
    if (rc == CLI_OK && !v->markdown)
        cli_remark(v->cli,
                   "A series that is stable has a change with a chance of %.3g %%; changes below "
                   "%.3g %% are not mentioned.",
                   100 * v->options.alarm, 100 * v->options.min_effect);
    if (rc == CLI_OK && v->h->skipped)
        cli_remark(v->cli, "%zu row%s of the catalogue make%s no sense and %s passed over.",
                   v->h->skipped, human_s((int64_t)v->h->skipped), v->h->skipped == 1 ? "s" : "",
                   v->h->skipped == 1 ? "was" : "were");
    return rc;
}

/* -- CSV -- */

static int csv_part(void *user, const struct part *p, const struct changes *found)
{
    struct part_table *to = user;

    for (size_t k = 0; k < found->n; k++) {
        const struct change *c = &found->change[k];

        put_text(to->t, p->name);
        put_text(to->t, p->type);
        put_text(to->t, history_run_at(to->v->h, p->s, c->at ? c->at - 1 : 0)->run.id);
        put_text(to->t, history_run_at(to->v->h, p->s, c->end)->run.id);
        put_real(to->t, c->before);
        put_real(to->t, c->after);
        put_real(to->t, c->size);
        put_real(to->t, c->low);
        put_real(to->t, c->high);
        put_text(to->t, change_kind_names[c->kind]);
    }
    return CLI_OK;
}

static int print_csv_parts(const struct history_view *v)
{
    static const char *const texts[] = { "name", "type", "before_run", "after_run" };
    static const char *const reals[] = { "before_ns", "after_ns", "change", "low", "high" };
    struct part_table to = { v, textable_new() };
    int rc = to.t ? CLI_OK : cli_out_of_memory();

    for (size_t i = 0; i < ARRAY_SIZE(texts) && to.t; i++)
        textable_column(to.t, texts[i], TEXTABLE_TEXT);
    for (size_t i = 0; i < ARRAY_SIZE(reals) && to.t; i++)
        textable_column(to.t, reals[i], TEXTABLE_REAL);
    if (to.t)
        textable_column(to.t, "by", TEXTABLE_TEXT);
    for (size_t i = 0; i < v->h->nseries && rc == CLI_OK; i++)
        rc = each_part(v, &v->h->series[i], csv_part, &to);
    if (rc == CLI_OK)
        return cli_print_table(v->cli, to.t);
    if (to.t)
        textable_free(to.t);
    return rc;
}

static int print_csv(const struct history_view *v)
{
    struct textable *t = textable_new();

    if (v->by != BY_WHOLE) {
        if (t)
            textable_free(t);
        return print_csv_parts(v);
    }
    if (!t)
        return cli_out_of_memory();
    textable_column(t, "series", TEXTABLE_INT);
    textable_column(t, "run", TEXTABLE_TEXT);
    textable_column(t, "began_ns", TEXTABLE_INT);
    textable_column(t, "model", TEXTABLE_TEXT);
    textable_column(t, "commit", TEXTABLE_TEXT);
    textable_column(t, "median_ns", TEXTABLE_REAL);
    textable_column(t, "p99_ns", TEXTABLE_REAL);
    textable_column(t, "loop_ns", TEXTABLE_REAL);
    textable_column(t, "change", TEXTABLE_REAL);
    textable_column(t, "by", TEXTABLE_TEXT);
    textable_column(t, "labels", TEXTABLE_TEXT);
    for (size_t i = 0; i < v->h->nseries; i++) {
        const struct history_series *s = &v->h->series[i];

        for (size_t k = 0; k < s->n; k++) {
            const struct history_run *r = history_run_at(v->h, s, k);
            const struct change *c = NULL;

            for (size_t j = 0; j < s->nchange && !c; j++)
                c = s->change[j].c.at == k ? &s->change[j].c : NULL;
            textable_int(t, (int64_t)i);
            put_text(t, r->run.id);
            textable_int(t, r->run.began_ns);
            put_text(t, r->run.model);
            put_text(t, r->run.commit_id);
            put_real(t, r->run.median_ns);
            put_real(t, r->run.p99_ns);
            put_real(t, r->run.loop_ns);
            put_real(t, c ? c->size : (double)NAN);
            put_text(t, c ? change_kind_names[c->kind] : NULL);
            put_text(t, r->labels);
        }
    }
    return cli_print_table(v->cli, t);
}

/* -- JSON -- */

struct part_json {
    const struct history_view *v;
    struct json_writer *w;
};

static int json_part(void *user, const struct part *p, const struct changes *found)
{
    struct part_json *to = user;

    for (size_t k = 0; k < found->n; k++) {
        json_newline(to->w);
        json_object(to->w);
        json_key(to->w, "name");
        json_cstr(to->w, p->name);
        json_key(to->w, "type");
        json_cstr(to->w, p->type);
        history_answer_change(to->w, to->v->h, p->s, &found->change[k]);
        json_object_end(to->w);
    }
    return CLI_OK;
}

static int print_json(const struct history_view *v)
{
    struct json_writer w = { .out = &v->cli->out };
    struct part_json to = { v, &w };
    int rc = CLI_OK;

    json_object(&w);
    json_key(&w, "alarm");
    json_f64(&w, v->options.alarm);
    json_key(&w, "min_effect");
    json_f64(&w, v->options.min_effect);
    json_key(&w, "series");
    json_array(&w);
    for (size_t i = 0; i < v->h->nseries && rc == CLI_OK; i++) {
        const struct history_series *s = &v->h->series[i];

        json_newline(&w);
        json_object(&w);
        history_answer_series(&w, v->h, s);
        if (v->by != BY_WHOLE) {
            json_key(&w, v->by == BY_OP ? "operators" : "types");
            json_array(&w);
            rc = each_part(v, s, json_part, &to);
            json_array_end(&w);
        }
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&v->cli->out, "\n");
    return rc;
}

int history_print(const struct history_view *v)
{
    if (v->cli->json)
        return print_json(v);
    return v->cli->csv ? print_csv(v) : print_people(v);
}
