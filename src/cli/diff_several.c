/* diff_several.c -- several recordings of each side; see diff_parts.h. */
#include "cli/comparison.h"
#include "cli/diff_parts.h"

#include "base/alloc.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#define SEED 1 /* the same answer for the same recordings */
#define DRAWS 4000

static int add_path(struct diff_paths *p, const char *path)
{
    char *own = GROW(p->path, p->cap, p->n + 1) ? mem_strdup(path) : NULL;

    if (!own)
        return cli_out_of_memory();
    p->path[p->n++] = own;
    return CLI_OK;
}

int diff_paths_add(struct diff_paths *p, const char *text)
{
    glob_t found = { 0 };
    struct stat st;
    int rc = CLI_OK;

    if (!strpbrk(text, "*?[") || stat(text, &st) == 0)
        return add_path(p, text);
    switch (glob(text, GLOB_TILDE, NULL, &found)) {
    case 0:
        for (size_t i = 0; i < found.gl_pathc && rc == CLI_OK; i++)
            rc = add_path(p, found.gl_pathv[i]);
        break;
    case GLOB_NOMATCH:
        rc = cli_error("%s: no file is called so", text);
        break;
    default:
        rc = cli_error("%s: the files that are called so cannot be listed", text);
    }
    globfree(&found);
    return rc;
}

void diff_paths_release(struct diff_paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        mem_free(p->path[i]);
    mem_free(p->path);
    *p = (struct diff_paths){ 0 };
}

/* A recording that counts twice makes processes look more alike than they are. */
static int check_twice(const struct diff_paths side[DIFF_SIDES])
{
    for (int s = 0; s < DIFF_SIDES; s++) {
        for (size_t i = 0; i < side[s].n; i++) {
            struct stat st, other;

            if (stat(side[s].path[i], &st) != 0)
                continue;
            for (int so = s; so < DIFF_SIDES; so++)
                for (size_t k = so == s ? i + 1 : 0; k < side[so].n; k++)
                    if (stat(side[so].path[k], &other) == 0 && other.st_dev == st.st_dev &&
                        other.st_ino == st.st_ino)
                        return cli_error(so == s ? "%s is there twice on one side: a recording "
                                                   "counts once"
                                                 : "%s is on both sides: a recording counts once",
                                         side[so].path[k]);
        }
    }
    return CLI_OK;
}

/* -- reading -- */

struct several {
    struct cli *cli;
    struct trials trials;
    struct diff_facts facts;
    enum recording_basis basis;
    const char *without; /* a recording that does not have it, or NULL */
};

static int read_one(struct several *x, char *path, enum diff_side side)
{
    enum recording_basis basis = x->basis;
    struct trial trial = { 0 };
    opm_trace *t = NULL;
    opm_error err;
    int rc = cli_open(x->cli, &t, &path, 1);

    if (rc == CLI_OK && recording_read(&x->trials, t, &trial, &basis, &err) < 0)
        rc = cli_error("%s: %s", path, err.msg);
    if (rc == CLI_OK)
        rc = diff_facts_read(&x->facts, t, side);
    if (rc == CLI_OK && !trial.n)
        x->without = path;
    else if (rc == CLI_OK && trials_add(&x->trials, side, &trial) < 0)
        rc = cli_out_of_memory();
    trial_release(&trial);
    opm_trace_close(t);
    return rc;
}

/* By the first kind of latency that all of them have. */
static int read_all(struct several *x, struct diff_paths side[DIFF_SIDES])
{
    int rc = CLI_OK;

    for (x->basis = RECORDING_BARE;; x->basis++) {
        x->trials.nsides = DIFF_SIDES;
        x->without = NULL;
        for (int s = 0; s < DIFF_SIDES; s++)
            for (size_t i = 0; i < side[s].n && rc == CLI_OK && !x->without; i++)
                rc = read_one(x, side[s].path[i], s);
        if (rc != CLI_OK || !x->without)
            return rc;
        if (x->basis == RECORDING_WHOLE)
            return cli_error("%s has neither steps nor what a whole program took: there is no "
                             "latency to compare",
                             x->without);
        trials_release(&x->trials);
        diff_facts_release(&x->facts);
    }
}

/* -- printing -- */

static void say_side(struct cli *cli, char letter, const struct diff_paths *p)
{
    cli_say(cli, "%c: %zu recordings, %s to %s\n", letter, p->n, p->path[0], p->path[p->n - 1]);
}

static void add_tail(const struct several *x, const struct comparison *c, struct buf *out)
{
    size_t fewest = SIZE_MAX;

    for (size_t s = 0; s < DIFF_SIDES; s++)
        for (size_t i = 0; i < x->trials.n[s]; i++)
            fewest = MIN(fewest, x->trials.trial[s][i].n);
    if (c->has_tail)
        comparison_tail(c, out);
    else
        buf_addf(
            out,
            "Whether the tail moved cannot be told: a recording has %zu iteration%s, p99 takes "
            "%d.",
            fewest, human_s((int64_t)fewest), TRIALS_TAIL_ITERATIONS);
}

static int print_people(struct several *x, const struct diff_paths side[DIFF_SIDES],
                        const struct comparison *c, const struct trials_options *o, int64_t top)
{
    struct buf text = { 0 };
    int rc;

    for (int s = 0; s < DIFF_SIDES; s++)
        say_side(x->cli, (char)('A' + s), &side[s]);
    io_out_addf(&x->cli->out, "\n");
    diff_facts_print(x->cli, &x->facts);
    comparison_sentence(c, o, 0, &text);
    cli_heading(x->cli, "%s", buf_str(&text));
    buf_clear(&text);
    add_tail(x, c, &text);
    cli_tell(x->cli, "%s", buf_str(&text));
    rc = cli_print_table(x->cli, comparison_table(c, (size_t)top));
    buf_clear(&text);
    comparison_alone(c, &text);
    if (rc == CLI_OK && text.len)
        cli_remark(x->cli, "%s", buf_str(&text));
    if (rc == CLI_OK)
        cli_remark(x->cli,
                   "%zu and %zu recordings, each taken for a process of its own, compared by %s; "
                   "95 %% intervals. What drifted between them counts as a difference: 'opmeter "
                   "bench' takes turns.",
                   side[DIFF_A].n, side[DIFF_B].n, recording_basis_names[x->basis]);
    buf_release(&text);
    return rc;
}

static int print_json(struct several *x, const struct comparison *c, const struct trials_options *o)
{
    struct json_writer w = { .out = &x->cli->out };
    struct buf text = { 0 };

    json_object(&w);
    json_key(&w, "recordings");
    json_array(&w);
    for (int s = 0; s < DIFF_SIDES; s++)
        json_i64(&w, (int64_t)x->trials.n[s]);
    json_array_end(&w);
    json_key(&w, "compared_by");
    json_cstr(&w, recording_basis_names[x->basis]);
    comparison_sentence(c, o, 0, &text);
    json_key(&w, "answer");
    json_cstr(&w, buf_str(&text));
    buf_clear(&text);
    add_tail(x, c, &text);
    json_key(&w, "tail");
    json_cstr(&w, buf_str(&text));
    comparison_json(c, &w);
    json_object_end(&w);
    io_out_addf(&x->cli->out, "\n");
    buf_release(&text);
    return CLI_OK;
}

static int print_csv(struct several *x, const struct comparison *c)
{
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    comparison_csv_columns(t);
    comparison_csv(c, t);
    return cli_print_table(x->cli, t);
}

static int parse_metrics(struct cli *cli, const struct diff_wanted *w)
{
    for (size_t i = 0; i < w->nchecks; i++) {
        const char *metric = w->check[i].metric;

        if (!comparison_knows(metric) && strcmp(metric, "p99") != 0 &&
            strncmp(metric, "type:", 5) != 0)
            return cli_usage(cli,
                             "--fail-if: several recordings are compared by latency, p99, op, "
                             "op:NAME and type:NAME, not '%s'",
                             metric);
    }
    return CLI_OK;
}

/* A figure that cannot be told is a failure, never a check passed. */
static int check_all(const struct several *x, const struct comparison *ops,
                     const struct comparison *types, const struct diff_wanted *w)
{
    struct buf why = { 0 };
    int rc = CLI_OK;

    for (size_t i = 0; i < w->nchecks; i++) {
        bool type = strncmp(w->check[i].metric, "type:", 5) == 0;
        enum comparison_told told;

        buf_clear(&why);
        told = comparison_check(type ? types : ops, &x->trials, &w->check[i], &why);
        if (told != TOLD_GOOD)
            cli_error("%s", buf_str(&why));
        if (told == TOLD_BAD)
            rc = CLI_CHECK;
        else if (told == TOLD_NOTHING && rc != CLI_CHECK)
            rc = CLI_FAILURE;
    }
    buf_release(&why);
    return rc;
}

static int compare(const struct trials *t, const struct trials_options *o, struct comparison *c)
{
    c->letter = 'B';
    c->has_tail = trials_tail(t, 1, o, &c->tail);
    return trials_compare(t, 1, o, &c->align, &c->e, &c->n) < 0 ? cli_out_of_memory() : CLI_OK;
}

int diff_several(struct cli *cli, struct diff_paths side[DIFF_SIDES], const struct diff_wanted *w)
{
    struct several x = { .cli = cli };
    struct comparison by_op = { 0 }, by_type = { 0 };
    struct trials_options o = {
        .min_effect = w->min_effect, .seed = SEED, .draws = DRAWS, .unpaired = true
    };
    const struct comparison *shown = w->by_type ? &by_type : &by_op;
    int rc = parse_metrics(cli, w);

    for (int s = 0; s < DIFF_SIDES && rc == CLI_OK; s++)
        if (side[s].n < 2)
            rc = cli_error("%c has one recording and the other side %zu: how much processes differ "
                           "must be known of both; record it more often, or compare one with one",
                           'A' + s, side[!s].n);
    if (rc == CLI_OK)
        rc = check_twice(side);
    if (rc == CLI_OK)
        rc = read_all(&x, side);
    if (rc == CLI_OK)
        rc = compare(&x.trials, &o, &by_op);
    o.by_type = true;
    if (rc == CLI_OK)
        rc = compare(&x.trials, &o, &by_type);
    if (rc == CLI_OK && cli->json)
        rc = print_json(&x, shown, &o);
    else if (rc == CLI_OK && cli->csv)
        rc = print_csv(&x, shown);
    else if (rc == CLI_OK)
        rc = print_people(&x, side, shown, &o, w->top);
    if (rc == CLI_OK)
        rc = check_all(&x, &by_op, &by_type, w);
    comparison_release(&by_op);
    comparison_release(&by_type);
    trials_release(&x.trials);
    diff_facts_release(&x.facts);
    return rc;
}
