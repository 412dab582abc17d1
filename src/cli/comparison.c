/* comparison.c -- see comparison.h. */
#include "cli/comparison.h"

#include "base/alloc.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void comparison_release(struct comparison *c)
{
    align_release(&c->align);
    mem_free(c->e);
    *c = (struct comparison){ 0 };
}

double comparison_percent(double share)
{
    double p = round(1000 * share) / 10;

    return p == 0 ? 0 : p;
}

bool comparison_share(const char *text, double *out)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno || !isfinite(v))
        return false;
    while (*end == ' ')
        end++;
    if (strcmp(end, "%") != 0)
        return false;
    *out = v / 100;
    return v > 0 && v <= 100;
}

static bool is_operator(const struct trials_estimate *e)
{
    return e->op != TRIALS_WHOLE && e->op != TRIALS_TAIL_OP;
}

const char *comparison_name(const struct comparison *c, const struct trials_estimate *e)
{
    if (is_operator(e))
        return c->align.group[e->op].name;
    return e->op == TRIALS_WHOLE ? "latency" : "p99";
}

static const char *type_of(const struct comparison *c, const struct trials_estimate *e)
{
    return is_operator(e) ? c->align.group[e->op].type : "";
}

/* -- sentences -- */

/* The operators of a verdict, and what they changed by, a share of some time. */
struct culprits {
    size_t n;
    double share;
    const char *type; /* of all of them; NULL: several */
};

static struct culprits culprits_of(const struct comparison *c, enum trials_verdict verdict,
                                   double whole_ns)
{
    struct culprits out = { 0, 0, NULL };

    for (size_t i = 1; i < c->n; i++) {
        const struct trials_estimate *e = &c->e[i];
        const char *type = type_of(c, e);

        if (e->verdict != verdict)
            continue;
        out.type = out.n == 0 || (out.type && strcmp(out.type, type) == 0) ? type : NULL;
        out.n++;
        out.share += (e->ns[1] - e->ns[0]) / whole_ns;
    }
    return out;
}

static void add_interval(struct buf *out, const struct trials_estimate *e, double sign)
{
    double low = sign * e->low, high = sign * e->high;

    buf_addf(out, "(%.1f to %.1f)", comparison_percent(MIN(low, high)),
             comparison_percent(MAX(low, high)));
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

static void add_recordings(struct buf *out, size_t n)
{
    if (n > 1000)
        buf_adds(out, "a calmer machine");
    else
        buf_addf(out, "about %zu more recording%s of each", n, human_s((int64_t)n));
}

static void add_culprits(struct buf *out, const struct culprits *by)
{
    buf_addf(out, "%zu %s%soperator%s", by->n, by->type ? by->type : "",
             by->type && by->type[0] ? " " : "", human_s((int64_t)by->n));
}

/* Operators can be told sooner than the whole, whose noise is that of all of them. */
static void add_certain(const struct comparison *c, enum trials_verdict verdict, struct buf *out)
{
    struct culprits by = culprits_of(c, verdict, c->e[0].ns[0]);

    if (!by.n)
        return;
    buf_adds(out, " Certainly ");
    buf_addf(out, "%s %s ", trials_verdict_names[verdict], by.n == 1 ? "is" : "are");
    add_culprits(out, &by);
    buf_addf(out, ", by %.1f %% of the whole.", comparison_percent(fabs(by.share)));
}

void comparison_sentence(const struct comparison *c, const struct trials_options *o,
                         double sample_ns, struct buf *out)
{
    const struct trials_estimate *e = &c->e[0];

    if (e->verdict == TRIALS_SLOWER || e->verdict == TRIALS_FASTER) {
        struct culprits by = culprits_of(c, e->verdict, e->ns[1] - e->ns[0]);

        buf_addf(out, "%c is %.1f %% %s ", c->letter, comparison_percent(fabs(e->change)),
                 trials_verdict_names[e->verdict]);
        add_interval(out, e, e->verdict == TRIALS_SLOWER ? 1 : -1);
        if (by.n && by.share > 0) {
            buf_addf(out, "; %.0f %% of it in ", 100 * MIN(by.share, 1));
            add_culprits(out, &by);
        }
        buf_adds(out, ".");
    } else if (e->verdict == TRIALS_SAME) {
        buf_addf(out, "%c is as fast as A: %+.1f %% ", c->letter, comparison_percent(e->change));
        add_interval(out, e, 1);
        buf_adds(out, ".");
    } else {
        size_t more = trials_blocks_needed(e, o) - e->blocks;

        buf_addf(out, "Whether %c is slower or faster cannot be told: %+.1f %% ", c->letter,
                 comparison_percent(e->change));
        add_interval(out, e, 1);
        buf_adds(out, "; it needs ");
        if (sample_ns > 0)
            add_minutes(out, (double)more * sample_ns);
        else
            add_recordings(out, more);
        buf_adds(out, ".");
        add_certain(c, TRIALS_SLOWER, out);
        add_certain(c, TRIALS_FASTER, out);
    }
}

void comparison_tail(const struct comparison *c, struct buf *out)
{
    const struct trials_estimate *e = &c->tail;

    if (!c->has_tail)
        return;
    if (e->verdict == TRIALS_SLOWER || e->verdict == TRIALS_FASTER)
        buf_addf(out, "The tail moved: p99 is %.1f %% %s ", comparison_percent(fabs(e->change)),
                 e->verdict == TRIALS_SLOWER ? "longer" : "shorter");
    else
        buf_addf(out, "%s: p99 %+.1f %% ",
                 e->verdict == TRIALS_SAME ? "The tail did not move"
                                           : "Whether the tail moved cannot be told",
                 comparison_percent(e->change));
    add_interval(out, e, e->verdict == TRIALS_FASTER ? -1 : 1);
    buf_adds(out, ".");
}

/* Operators that only one side has, and their share of its time. */
struct alone {
    size_t n[2];
    double share[2];
};

static struct alone alone_of(const struct comparison *c)
{
    struct alone out = { 0 };
    double all[2] = { 0, 0 };

    for (size_t i = 1; i < c->n; i++) {
        const struct trials_estimate *e = &c->e[i];

        for (int s = 0; s < 2; s++) {
            if (isnan(e->ns[s]))
                continue;
            all[s] += e->ns[s];
            if (isnan(e->ns[!s])) {
                out.n[s] += c->align.group[e->op].n[s];
                out.share[s] += e->ns[s];
            }
        }
    }
    for (int s = 0; s < 2; s++)
        out.share[s] = all[s] > 0 ? out.share[s] / all[s] : 0;
    return out;
}

void comparison_alone(const struct comparison *c, struct buf *out)
{
    struct alone a = alone_of(c);

    if (!a.n[0] && !a.n[1])
        return;
    buf_addf(out,
             "Without a counterpart: %zu operator%s of A (%.1f %% of its operators' time) and %zu "
             "of %c (%.1f %%).",
             a.n[0], human_s((int64_t)a.n[0]), 100 * a.share[0], a.n[1], c->letter,
             100 * a.share[1]);
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

static void put_row(struct textable *t, const struct comparison *c, const struct trials_estimate *e)
{
    char text[64];

    put_text(t, comparison_name(c, e));
    put_text(t, type_of(c, e));
    put_ns(t, e->ns[0]);
    put_ns(t, e->ns[1]);
    if (isnan(e->change)) {
        textable_null(t);
        textable_null(t);
        put_text(t, isnan(e->ns[0])   ? "not in A"
                    : isnan(e->ns[1]) ? "only in A"
                                      : trials_verdict_names[TRIALS_UNSURE]);
        return;
    }
    snprintf(text, sizeof(text), "%+.1f %%", comparison_percent(e->change));
    put_text(t, text);
    snprintf(text, sizeof(text), "%+.1f to %+.1f", comparison_percent(e->low),
             comparison_percent(e->high));
    put_text(t, text);
    put_text(t, trials_verdict_names[e->verdict]);
}

struct textable *comparison_table(const struct comparison *c, size_t top)
{
    size_t shown = top && top < c->n - 1 ? top + 1 : c->n;
    struct textable *t = textable_new();
    char letter[2] = { c->letter, '\0' };

    if (!t)
        return NULL;
    textable_column(t, "", TEXTABLE_TEXT);
    textable_column(t, "type", TEXTABLE_TEXT);
    textable_column(t, "A", TEXTABLE_REAL);
    textable_column(t, letter, TEXTABLE_REAL);
    textable_column(t, "change", TEXTABLE_REAL);
    textable_column(t, "interval", TEXTABLE_REAL);
    textable_column(t, "verdict", TEXTABLE_TEXT);
    for (size_t i = 0; i < shown; i++) {
        put_row(t, c, &c->e[i]);
        if (i == 0 && c->has_tail)
            put_row(t, c, &c->tail);
    }
    return t;
}

static void put_real(struct textable *t, double v)
{
    if (isfinite(v))
        textable_real(t, v);
    else
        textable_null(t);
}

void comparison_csv_columns(struct textable *t)
{
    static const char *const figures[] = { "a_ns", "b_ns", "change", "low", "high", "p" };

    textable_column(t, "side", TEXTABLE_TEXT);
    textable_column(t, "name", TEXTABLE_TEXT);
    textable_column(t, "type", TEXTABLE_TEXT);
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        textable_column(t, figures[i], TEXTABLE_REAL);
    textable_column(t, "verdict", TEXTABLE_TEXT);
}

void comparison_csv(const struct comparison *c, struct textable *t)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct trials_estimate *e = &c->e[i];

        textable_text(t, &c->letter, 1);
        if (is_operator(e)) {
            put_text(t, comparison_name(c, e));
            put_text(t, type_of(c, e));
        } else {
            textable_null(t);
            textable_null(t);
        }
        for (int k = 0; k < 2; k++)
            put_real(t, e->ns[k]);
        put_real(t, e->change);
        put_real(t, e->low);
        put_real(t, e->high);
        put_real(t, isnan(e->change) ? (double)NAN : e->p);
        put_text(t, trials_verdict_names[e->verdict]);
    }
}

static void json_estimate(struct json_writer *w, const struct comparison *c,
                          const struct trials_estimate *e)
{
    const struct {
        const char *key;
        double v;
    } figures[] = { { "a_ns", e->ns[0] }, { "b_ns", e->ns[1] }, { "change", e->change },
                    { "low", e->low },    { "high", e->high },  { "p", e->p } };

    json_object(w);
    if (is_operator(e)) {
        json_key(w, "name");
        json_cstr(w, comparison_name(c, e));
        json_key(w, "type");
        json_cstr(w, type_of(c, e));
    }
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        json_key(w, figures[i].key);
        json_f64(w, figures[i].v);
    }
    json_key(w, "verdict");
    json_cstr(w, trials_verdict_names[e->verdict]);
    json_object_end(w);
}

void comparison_json(const struct comparison *c, struct json_writer *w)
{
    struct alone a = alone_of(c);

    json_key(w, "latency");
    json_estimate(w, c, &c->e[0]);
    if (c->has_tail) {
        json_key(w, "p99");
        json_estimate(w, c, &c->tail);
    }
    json_key(w, "operators");
    json_array(w);
    for (size_t i = 1; i < c->n; i++) {
        json_newline(w);
        json_estimate(w, c, &c->e[i]);
    }
    json_array_end(w);
    json_key(w, "alone");
    json_array(w);
    for (int s = 0; s < 2; s++) {
        json_object(w);
        json_key(w, "operators");
        json_i64(w, (int64_t)a.n[s]);
        json_key(w, "share");
        json_f64(w, a.share[s]);
        json_object_end(w);
    }
    json_array_end(w);
}

/* -- checks -- */

static enum comparison_told against_limit(const struct trials_estimate *e,
                                          const struct diff_check *check)
{
    double limit = check->share ? check->limit : check->limit / e->ns[0];

    if (isnan(e->change))
        return TOLD_NOTHING;
    if (e->low > limit)
        return TOLD_BAD;
    return e->high <= limit ? TOLD_GOOD : TOLD_NOTHING;
}

/* Is the group called so, or an operator in it? */
static bool called(const struct comparison *c, const struct trials *t,
                   const struct trials_estimate *e, const char *name)
{
    bool yes = strcmp(comparison_name(c, e), name) == 0;

    for (size_t i = 0; i < t->nops && !yes; i++)
        yes = c->align.group_of[i] == e->op && strcmp(t->op[i].name, name) == 0;
    return yes;
}

/* *by: what decided it; NULL if nothing is called so. */
static enum comparison_told check_ops(const struct comparison *c, const struct trials *t,
                                      const struct diff_check *check,
                                      const struct trials_estimate **by)
{
    bool any = strcmp(check->metric, "op") == 0;
    const char *name = any ? NULL : strchr(check->metric, ':') + 1;
    enum comparison_told told = TOLD_GOOD;

    *by = NULL;
    for (size_t i = 1; i < c->n && told != TOLD_BAD; i++) {
        const struct trials_estimate *e = &c->e[i];
        enum comparison_told one = against_limit(e, check);

        /* Of any operator, those count that changed for certain: some of many cannot be told. */
        if (any ? e->verdict != TRIALS_SLOWER : !called(c, t, e, name))
            continue;
        if (!*by || one != TOLD_GOOD) {
            *by = e;
            told = one;
        }
    }
    return *by || any ? told : TOLD_NOTHING;
}

bool comparison_knows(const char *metric)
{
    return strcmp(metric, "latency") == 0 || strcmp(metric, "median") == 0 ||
           strcmp(metric, "op") == 0 || strncmp(metric, "op:", 3) == 0;
}

enum comparison_told comparison_check(const struct comparison *c, const struct trials *t,
                                      const struct diff_check *check, struct buf *why)
{
    bool tail = strcmp(check->metric, "p99") == 0;
    bool ops = strncmp(check->metric, "op", 2) == 0 || strncmp(check->metric, "type:", 5) == 0;
    const struct trials_estimate *by = tail ? (c->has_tail ? &c->tail : NULL) : &c->e[0];
    char a[HUMAN_ROOM], to[HUMAN_ROOM];
    enum comparison_told told;

    if (ops)
        told = check_ops(c, t, check, &by);
    else
        told = by ? against_limit(by, check) : TOLD_NOTHING;
    if (told == TOLD_GOOD)
        return told;
    if (!by && tail)
        buf_addf(why, "--fail-if '%s': cannot be told: a process has fewer than %d iterations",
                 check->text, TRIALS_TAIL_ITERATIONS);
    else if (!by)
        buf_addf(why, "--fail-if '%s': no operator of %c is called so", check->text, c->letter);
    else if (isnan(by->change))
        buf_addf(why, "--fail-if '%s': %s ran on one side only", check->text,
                 comparison_name(c, by));
    else
        buf_addf(why, "--fail-if '%s': %s%s of %c: %s to %s, %+.1f %% (%.1f to %.1f)", check->text,
                 told == TOLD_BAD ? "" : "cannot be told: ", comparison_name(c, by), c->letter,
                 human_ns(a, by->ns[0]), human_ns(to, by->ns[1]), 100 * by->change, 100 * by->low,
                 100 * by->high);
    return told;
}
