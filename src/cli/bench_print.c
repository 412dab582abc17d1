/* bench_print.c -- what `opmeter bench` says at the end; see bench.h. */
#include "cli/bench.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The operators whose change makes up the whole, and their share of it. */
struct culprits {
    size_t n;
    double share;
    const char *type; /* of all of them; NULL: several */
};

static struct culprits culprits_of(const struct bench *b, const struct bench_result *r)
{
    double whole = r->e[0].ns[1] - r->e[0].ns[0];
    struct culprits c = { 0, 0, NULL };

    for (size_t i = 1; i < r->n; i++) {
        const struct trials_estimate *e = &r->e[i];
        const char *type = b->trials.op[e->op].type;

        if (e->verdict != r->e[0].verdict)
            continue;
        c.type = c.n == 0 || (c.type && strcmp(c.type, type) == 0) ? type : NULL;
        c.n++;
        c.share += (e->ns[1] - e->ns[0]) / whole;
    }
    return c;
}

/* A share in percent as it is printed, with one digit; never "-0.0". */
static double percent(double share)
{
    double p = round(1000 * share) / 10;

    return p == 0 ? 0 : p;
}

static void add_interval(struct buf *out, const struct trials_estimate *e, double sign)
{
    double low = sign * e->low, high = sign * e->high;

    buf_addf(out, "(%.1f to %.1f)", percent(MIN(low, high)), percent(MAX(low, high)));
}

static void add_minutes(struct buf *out, double ns)
{
    double minutes = ns / 60e9;

    if (minutes < 1)
        buf_addf(out, "about a minute more");
    else if (minutes < 120)
        buf_addf(out, "about %.0f more minutes", ceil(minutes));
    else if (minutes < 24 * 60)
        buf_addf(out, "about %.0f more hours", ceil(minutes / 60));
    else
        buf_adds(out, "a calmer machine");
}

void bench_sentence(const struct bench *b, size_t side, const struct bench_result *r,
                    struct buf *out)
{
    const struct trials_estimate *e = &r->e[0];
    struct culprits c;
    char name = b->side[side].letter;

    if (e->verdict == TRIALS_SLOWER || e->verdict == TRIALS_FASTER) {
        double sign = e->verdict == TRIALS_SLOWER ? 1 : -1;

        buf_addf(out, "%c is %.1f %% %s ", name, percent(fabs(e->change)),
                 trials_verdict_names[e->verdict]);
        add_interval(out, e, sign);
        c = culprits_of(b, r);
        if (c.n && c.share > 0)
            buf_addf(out, "; %.0f %% of it in %zu %s%soperator%s", 100 * MIN(c.share, 1), c.n,
                     c.type ? c.type : "", c.type && c.type[0] ? " " : "", c.n == 1 ? "" : "s");
        buf_adds(out, ".");
    } else if (e->verdict == TRIALS_SAME) {
        buf_addf(out, "%c is as fast as A: %+.1f %% ", name, percent(e->change));
        add_interval(out, e, 1);
        buf_adds(out, ".");
    } else {
        size_t more = trials_blocks_needed(e, &b->options) - e->blocks;

        buf_addf(out, "Whether %c is slower or faster cannot be told: %+.1f %% ", name,
                 percent(e->change));
        add_interval(out, e, 1);
        buf_adds(out, "; it needs ");
        add_minutes(out, (double)more * (double)b->spent_ns / (double)e->blocks);
        buf_adds(out, ".");
    }
}

void bench_circumstances(const struct bench *b, struct buf *out)
{
    size_t blocks = trials_blocks(&b->trials);
    double swing = b->loop_min_ns > 0 ? b->loop_max_ns / b->loop_min_ns - 1 : 0;

    buf_addf(
        out,
        "%zu processes of each side in %zu blocks, %.0f s, compared by %s; 95 %% intervals. "
        "Meanwhile a fixed loop differed by up to %.0f %%, %.1f %% of the processors' time was "
        "stolen, and the load was %.1f.",
        blocks * TRIALS_PER_BLOCK, blocks, (double)b->spent_ns / 1e9, bench_basis_names[b->basis],
        100 * swing, 100 * b->stolen, b->load);
    if (swing > 0.1 || b->stolen > 0.02)
        buf_adds(out, " That is not calm: intervals are wider for it.");
}

/* -- tables -- */

static void put_text(struct textable *t, const char *text)
{
    textable_text(t, text, strlen(text));
}

static void put_ns(struct textable *t, double ns)
{
    char room[HUMAN_ROOM];

    if (isnan(ns))
        textable_null(t);
    else
        put_text(t, human_ns(room, ns));
}

static void put_row(struct textable *t, const struct bench *b, const struct trials_estimate *e)
{
    const struct trials_op *op = e->op == TRIALS_WHOLE ? NULL : &b->trials.op[e->op];
    char text[64];

    put_text(t, op ? op->name : "latency");
    put_text(t, op ? op->type : "");
    put_ns(t, e->ns[0]);
    put_ns(t, e->ns[1]);
    if (isnan(e->change)) {
        textable_null(t);
        textable_null(t);
        put_text(t, isnan(e->ns[0]) ? "not in A" : "only in A");
        return;
    }
    snprintf(text, sizeof(text), "%+.1f %%", percent(e->change));
    put_text(t, text);
    snprintf(text, sizeof(text), "%+.1f to %+.1f", percent(e->low), percent(e->high));
    put_text(t, text);
    put_text(t, trials_verdict_names[e->verdict]);
}

static struct textable *make_table(const struct bench *b, size_t side, const struct bench_result *r,
                                   size_t shown)
{
    struct textable *t = textable_new();
    char letter[2] = { b->side[side].letter, '\0' };

    if (!t)
        return NULL;
    textable_column(t, "", TEXTABLE_TEXT);
    textable_column(t, "type", TEXTABLE_TEXT);
    textable_column(t, "A", TEXTABLE_REAL);
    textable_column(t, letter, TEXTABLE_REAL);
    textable_column(t, "change", TEXTABLE_REAL);
    textable_column(t, "interval", TEXTABLE_REAL);
    textable_column(t, "verdict", TEXTABLE_TEXT);
    for (size_t i = 0; i < shown; i++)
        put_row(t, b, &r->e[i]);
    return t;
}

static int print_people(struct bench *b, const struct bench_result *r, size_t side, int64_t top,
                        bool markdown)
{
    struct cli *cli = b->cli;
    size_t shown = top && (size_t)top < r->n - 1 ? (size_t)top + 1 : r->n;
    struct textable *t = make_table(b, side, r, shown);
    struct buf text = { 0 };
    opm_error err;
    int rc = CLI_OK;

    bench_sentence(b, side, r, &text);
    if (markdown)
        io_out_addf(&cli->out, "%s**%s**\n\n", side > 1 ? "\n" : "", buf_str(&text));
    else
        cli_heading(cli, "%s", buf_str(&text));
    buf_release(&text);
    if (!t)
        return cli_out_of_memory();
    if (!markdown)
        return cli_print_table(cli, t);
    if (textable_print(t, &cli->out, TEXTABLE_MARKDOWN, 0, false, &err) < 0)
        rc = cli_error("%s", err.msg);
    textable_free(t);
    return rc;
}

static void put_real(struct textable *t, double v)
{
    if (isfinite(v))
        textable_real(t, v);
    else
        textable_null(t);
}

static int print_csv(struct bench *b, const struct bench_result *r)
{
    static const char *const figures[] = { "a_ns", "b_ns", "change", "low", "high", "p" };
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "side", TEXTABLE_TEXT);
    textable_column(t, "name", TEXTABLE_TEXT);
    textable_column(t, "type", TEXTABLE_TEXT);
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        textable_column(t, figures[i], TEXTABLE_REAL);
    textable_column(t, "verdict", TEXTABLE_TEXT);
    for (size_t s = 1; s < b->trials.nsides; s++) {
        for (size_t i = 0; i < r[s].n; i++) {
            const struct trials_estimate *e = &r[s].e[i];
            const struct trials_op *op = e->op == TRIALS_WHOLE ? NULL : &b->trials.op[e->op];

            textable_text(t, &b->side[s].letter, 1);
            if (op)
                put_text(t, op->name);
            else
                textable_null(t);
            if (op)
                put_text(t, op->type);
            else
                textable_null(t);
            for (int k = 0; k < 2; k++)
                put_real(t, e->ns[k]);
            put_real(t, e->change);
            put_real(t, e->low);
            put_real(t, e->high);
            put_real(t, isnan(e->change) ? (double)NAN : e->p);
            put_text(t, trials_verdict_names[e->verdict]);
        }
    }
    return cli_print_table(b->cli, t);
}

static void json_estimate(struct json_writer *w, const struct bench *b,
                          const struct trials_estimate *e)
{
    const struct {
        const char *key;
        double v;
    } figures[] = { { "a_ns", e->ns[0] }, { "b_ns", e->ns[1] }, { "change", e->change },
                    { "low", e->low },    { "high", e->high },  { "p", e->p } };

    json_object(w);
    if (e->op != TRIALS_WHOLE) {
        json_key(w, "name");
        json_cstr(w, b->trials.op[e->op].name);
        json_key(w, "type");
        json_cstr(w, b->trials.op[e->op].type);
    }
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        json_key(w, figures[i].key);
        json_f64(w, figures[i].v);
    }
    json_key(w, "verdict");
    json_cstr(w, trials_verdict_names[e->verdict]);
    json_object_end(w);
}

static int print_json(struct bench *b, const struct bench_result *r)
{
    struct json_writer w = { .out = &b->cli->out };
    size_t blocks = trials_blocks(&b->trials);

    json_object(&w);
    json_key(&w, "blocks");
    json_f64(&w, (double)blocks);
    json_key(&w, "processes");
    json_f64(&w, (double)(blocks * TRIALS_PER_BLOCK));
    json_key(&w, "seconds");
    json_f64(&w, (double)b->spent_ns / 1e9);
    json_key(&w, "compared_by");
    json_cstr(&w, bench_basis_names[b->basis]);
    json_key(&w, "machine");
    json_object(&w);
    json_key(&w, "loop_min_ns");
    json_f64(&w, b->loop_min_ns);
    json_key(&w, "loop_max_ns");
    json_f64(&w, b->loop_max_ns);
    json_key(&w, "stolen");
    json_f64(&w, b->stolen);
    json_key(&w, "load");
    json_f64(&w, b->load);
    json_object_end(&w);
    json_key(&w, "sides");
    json_array(&w);
    for (size_t s = 0; s < b->trials.nsides; s++) {
        struct buf sentence = { 0 };
        char letter[2] = { b->side[s].letter, '\0' };

        json_newline(&w);
        json_object(&w);
        json_key(&w, "side");
        json_cstr(&w, letter);
        json_key(&w, "command");
        json_cstr(&w, b->side[s].text);
        if (s) {
            bench_sentence(b, s, &r[s], &sentence);
            json_key(&w, "answer");
            json_cstr(&w, buf_str(&sentence));
            buf_release(&sentence);
            json_key(&w, "latency");
            json_estimate(&w, b, &r[s].e[0]);
            json_key(&w, "operators");
            json_array(&w);
            for (size_t i = 1; i < r[s].n; i++) {
                json_newline(&w);
                json_estimate(&w, b, &r[s].e[i]);
            }
            json_array_end(&w);
        }
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&b->cli->out, "\n");
    return CLI_OK;
}

int bench_print(struct bench *b, const struct bench_result *r, int64_t top, bool markdown)
{
    struct buf text = { 0 };
    int rc = CLI_OK;

    if (b->cli->json)
        return print_json(b, r);
    if (b->cli->csv)
        return print_csv(b, r);
    for (size_t s = 0; s < b->trials.nsides && !markdown; s++)
        cli_say(b->cli, "%c: %s\n", b->side[s].letter, b->side[s].text);
    for (size_t s = 1; s < b->trials.nsides && rc == CLI_OK; s++) {
        if (!markdown)
            io_out_addf(&b->cli->out, "\n");
        rc = print_people(b, &r[s], s, top, markdown);
    }
    bench_circumstances(b, &text);
    if (rc == CLI_OK && markdown)
        io_out_addf(&b->cli->out, "\n%s\n", buf_str(&text));
    else if (rc == CLI_OK)
        cli_remark(b->cli, "%s", buf_str(&text));
    buf_release(&text);
    return rc;
}
