/* neural_engine_csv.c -- read the CSV of Intel's Neural Engine; see neural_engine.h.
 *
 * Three parts: ratios by weight shape (kept in meta), operators, totals (which follow from the
 * operators). The file has one time per operator and no starts: each operator becomes one span
 * behind the one before, all up to the sums in one step. Where their trace of the same run was
 * read, its executions count, and the CSV adds what it alone knows: weights, zeros, ratios and
 * aims. Ratios and aims are what people change in a spreadsheet; they are kept as they are. Their
 * writer forgets the place of a scalar's shape, which moves the rest of the row to the left; such
 * rows are put right. */
#include "import/neural_engine/neural_engine.h"

#include "base/csv_read.h"
#include "base/csv_write.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MAX 32
#define COLUMNS 16
#define MODEL_FIELD 19 /* of the row of sums, where there are several models */
#define TAIL 7         /* weight shape and what follows it: never moved, seen from the end */
#define TEXT_MAX 64
#define DENSE_BELOW 0.5 /* zeros from here on: their writer aims at no more */

struct reader {
    struct neural n;
    struct csv_field field[FIELDS_MAX];
    struct buf text[COLUMNS]; /* of the row, each without blanks around it */
    uint32_t track;
    int64_t now_ns;
    int64_t run_ns, nrun; /* where the run that is being read began, and its number */
    size_t nop, run_nop;  /* operators so far, and until that */
    enum { ADD_OPS, LOOK_UP_OPS, COMPLETE_OPS } mode;
    size_t not_found; /* LOOK_UP_OPS */
};

bool neural_engine_csv_sniff(const uint8_t *head, size_t len)
{
    struct csv_reader r = csv_read_of(head, len);
    struct csv_field f[4];

    return csv_read_row(&r, f, 4) >= 4 && csv_field_is(&f[0], "weight shape") && f[1].len > 11 &&
           memcmp(f[1].p + f[1].len - 10, "perf ratio", 10) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A list of dtypes: fp32;s8 ... */
static bool is_dtypes(const struct csv_field *f)
{
    size_t i = 0;

    while (i < f->len) {
        size_t letters = 0, digits = 0;

        while (i < f->len && f->p[i] >= 'a' && f->p[i] <= 'z')
            i++, letters++;
        while (i < f->len && is_digit(f->p[i]))
            i++, digits++;
        if (!letters || letters > 4 || !digits || digits > 2)
            return false;
        if (i < f->len && f->p[i++] != ';')
            return false;
    }
    return f->len > 0;
}

static void take(struct reader *r, int column, const struct csv_field *f)
{
    struct csv_field trimmed = *f;

    while (!f->quoted && trimmed.len && trimmed.p[0] == ' ')
        trimmed.p++, trimmed.len--;
    csv_field_text(&trimmed, &r->text[column]);
}

/* Fields into columns; n of them, COLUMNS if nothing is missing. */
static void arrange(struct reader *r, int n)
{
    int at = 3;

    for (int i = 0; i < COLUMNS; i++)
        buf_clear(&r->text[i]);
    for (int i = 0; i < 3; i++)
        take(r, i, &r->field[i]);
    for (int i = 0; i < TAIL; i++)
        take(r, COLUMNS - TAIL + i, &r->field[n - TAIL + i]);
    if (n == COLUMNS) {
        for (int i = 3; i < COLUMNS - TAIL; i++)
            take(r, i, &r->field[i]);
        return;
    }
    /* Names, perhaps shapes, dtypes: of inputs, then of outputs. */
    for (int column = 3; column < 9 && at < n - TAIL; column++) {
        bool shape = column == 4 || column == 7;

        if (shape && is_dtypes(&r->field[at]))
            continue;
        take(r, column, &r->field[at++]);
    }
    store_stat(r->n.st, STAT_column_missing, r->mode != LOOK_UP_OPS);
}

/* What a spreadsheet-safe writer put in front of a name is no part of it. */
static int intern(struct reader *r, int column, str_id *out)
{
    const char *s = buf_str(&r->text[column]);
    size_t len = r->text[column].len;

    *out = 0;
    if (!len)
        return 0;
    if (csv_is_marked(s, len))
        s++, len--;
    return store_str(r->n.st, s, len, out);
}

static const char *list_of(struct reader *r, int column)
{
    const char *s = buf_str(&r->text[column]);

    if (!*s)
        return NULL;
    return s + csv_is_marked(s, r->text[column].len);
}

/* No shape at all is a scalar's. */
static const char *shapes_of(struct reader *r, int column)
{
    return r->text[column - 1].len ? buf_str(&r->text[column]) : NULL;
}

static bool parse_ms(const char *text, int64_t *out_ns)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !(v >= 0 && v < 1e12))
        return false;
    *out_ns = (int64_t)(v * 1e6 + 0.5);
    return true;
}

/* "90%", "90.00%" or "0.9"; NaN if it is none. */
static double parse_share(const char *text)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text)
        return (double)NAN;
    while (*end == ' ')
        end++;
    if (*end == '%') {
        v /= 100;
        end++;
    }
    return !*end && v >= 0 && v < 1 ? v : (double)NAN;
}

/* A number in the place of the formula. */
static double parse_ratio(const char *text)
{
    char *end;
    double v = strtod(text, &end);

    return end != text && !*end && v > 0 && v < 1e9 ? v : (double)NAN;
}

static int add_operator(struct reader *r)
{
    struct neural *n = &r->n;
    const char *zeros = buf_str(&r->text[10]), *support = buf_str(&r->text[11]);
    struct neural_op_row row = { .sep = ';',
                                 .times = 'x',
                                 .zero_ratio = *zeros ? strtod(zeros, NULL) / 100 : (double)NAN,
                                 .sparse_support = strcasecmp(support, "true") == 0,
                                 .aim = parse_share(buf_str(&r->text[13])),
                                 .ratio = parse_ratio(buf_str(&r->text[14])),
                                 .in = { list_of(r, 3), shapes_of(r, 4), list_of(r, 5) },
                                 .out = { list_of(r, 6), shapes_of(r, 7), list_of(r, 8) } };
    struct site site = { .cat = n->word.op, .layer = n->word.framework, .phase = n->word.forward };
    int64_t dur;
    int rc;

    if (!parse_ms(buf_str(&r->text[12]), &dur)) {
        store_stat(n->st, STAT_bad_row, r->mode != LOOK_UP_OPS);
        return 0;
    }
    rc = intern(r, 0, &row.type);
    if (!rc)
        rc = intern(r, 1, &row.post_op);
    if (!rc)
        rc = intern(r, 2, &row.name);
    if (!rc)
        rc = intern(r, 9, &row.weight_shape);
    if (!(row.zero_ratio >= 0 && row.zero_ratio <= 1))
        row.zero_ratio = (double)NAN;
    if (isnan(row.aim) && row.sparse_support && row.weight_shape &&
        !(row.zero_ratio >= DENSE_BELOW))
        row.aim = 0; /* somebody took it out */
    if (!rc && r->mode != ADD_OPS) {
        uint32_t op = neural_find(n, row.name, row.type);

        r->nop++;
        r->not_found += op == OPM_NULL_ID;
        return r->mode == COMPLETE_OPS && op != OPM_NULL_ID ? neural_complete_op(n, &row, op) : 0;
    }
    if (!rc)
        rc = neural_add_op(n, &row, &site.op);
    site.name = row.name;
    if (!rc)
        rc = neural_add_span(n, r->track, r->now_ns, dur, &site, 0);
    if (r->now_ns > INT64_MAX / 2 - dur)
        return OPM_ELIMIT;
    r->now_ns += dur;
    r->nop++;
    return rc;
}

/* A row of part 1, as a fact: the ratios may have been edited. */
static int keep_ratios(struct reader *r, int n)
{
    char key[TEXT_MAX + 32];
    int rc;

    if (!r->field[0].len || r->field[0].len > TEXT_MAX)
        return 0;
    snprintf(key, sizeof(key), "neural_engine.ratios.%.*s", (int)r->field[0].len, r->field[0].p);
    buf_clear(&r->n.text);
    for (int i = 1; i < MIN(n, FIELDS_MAX); i++)
        buf_addf(&r->n.text, "%s%.*s", i > 1 ? "," : "", (int)r->field[i].len, r->field[i].p);
    rc = r->n.text.failed ? OPM_ENOMEM : 0;
    return rc ? rc : import_meta(r->n.st, r->n.src, key, buf_str(&r->n.text));
}

static bool is_totals(const struct reader *r, int n)
{
    for (int i = 0; i < MIN(n, 11); i++)
        if (r->field[i].len)
            return false;
    return n > 11;
}

/* The rows since the last sums are one run: a step. Of several models opmeter writes the name
 * behind their sums, of which there are n fields; what is called alike in them is not the same. */
static int end_run(struct reader *r, int n)
{
    struct site site = {
        .name = r->n.word.model, .cat = r->n.word.step, .layer = r->n.word.app, .op = OPM_NULL_ID
    };
    int64_t dur = r->now_ns - r->run_ns;
    size_t mark;
    int rc = 0;

    if (r->mode != ADD_OPS || r->nop == r->run_nop)
        return 0;
    if (n > MODEL_FIELD && csv_field_is(&r->field[MODEL_FIELD - 1], "model") &&
        r->field[MODEL_FIELD].len) {
        buf_clear(&r->n.text);
        csv_field_text(&r->field[MODEL_FIELD], &r->n.text);
        mark = csv_is_marked(buf_str(&r->n.text), r->n.text.len);
        rc = r->n.text.failed
                 ? OPM_ENOMEM
                 : store_str(r->n.st, buf_str(&r->n.text) + mark, r->n.text.len - mark, &site.name);
    }
    u64map_release(&r->n.ops);
    if (!rc)
        rc = neural_add_step(&r->n, r->track, r->nrun++, r->run_ns, dur, site.name, false);
    if (!rc)
        rc = neural_add_span(&r->n, r->track, r->run_ns, dur, &site, 0);
    r->run_ns = r->now_ns;
    r->run_nop = r->nop;
    return rc;
}

static int read_rows(struct reader *r, struct csv_reader *csv)
{
    bool operators = false;
    int rc = 0, n;

    while (!rc && csv_read_next(csv, r->field, FIELDS_MAX, &n)) {
        n = MIN(n, FIELDS_MAX);
        if (csv_field_is(&r->field[0], "operator type")) {
            operators = true;
        } else if (!operators) {
            if (csv->row > 1 && r->mode != LOOK_UP_OPS) /* the first is the head */
                rc = keep_ratios(r, n);
        } else if (is_totals(r, n)) {
            rc = end_run(r, n);
        } else {
            if (n > COLUMNS || n < 3 + TAIL) {
                store_stat(r->n.st, STAT_bad_row, r->mode != LOOK_UP_OPS);
                continue;
            }
            arrange(r, n);
            for (int i = 0; i < COLUMNS && !rc; i++)
                rc = r->text[i].failed ? OPM_ENOMEM : 0;
            if (!rc)
                rc = add_operator(r);
        }
        if (!rc && r->n.src->progress && csv->row % 1024 == 0 &&
            r->n.src->progress(r->n.src->user, (uint64_t)(csv->at - csv->start), r->n.src->len))
            rc = OPM_ELIMIT;
    }
    return rc;
}

/* Whether another source tells of the same run: it has the operators of every row. */
static int find_same_run(struct reader *r)
{
    struct csv_reader csv = csv_read_of(r->n.src->data, r->n.src->len);
    struct store_part part;
    int rc;

    if (!import_same_run(r->n.src, "neural-engine-trace", &part))
        return 0;
    rc = neural_take_ops(&r->n, &part);
    r->mode = LOOK_UP_OPS;
    if (!rc)
        rc = read_rows(r, &csv);
    r->mode = r->nop && !r->not_found ? COMPLETE_OPS : ADD_OPS;
    r->nop = 0;
    if (r->mode == ADD_OPS)
        u64map_release(&r->n.ops);
    return rc;
}

int neural_engine_csv_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct csv_reader csv = csv_read_of(src->data, src->len);
    struct reader r = { 0 };
    str_id name = 0;
    int rc = neural_init(&r.n, st, src);

    if (!rc)
        rc = find_same_run(&r);
    if (!rc)
        rc = store_cstr(st, "operators", &name);
    if (!rc && r.mode == ADD_OPS)
        rc = neural_add_track(&r.n, name, OPM_NULL_I64, OPM_NULL_I64, &r.track);
    if (!rc)
        rc = read_rows(&r, &csv);
    if (!rc && r.mode == COMPLETE_OPS)
        rc = import_note(src, "weights, ratios and aims; the run itself is told by another file");
    if (!rc && r.nop && r.mode == ADD_OPS) {
        rc = end_run(&r, 0);
        store_stat(st, STAT_start_unknown, (int64_t)r.nop);
    }
    if (!rc)
        store_stat(st, STAT_file_truncated, src->cut || csv.unclosed);
    if (rc)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    for (int i = 0; i < COLUMNS; i++)
        buf_release(&r.text[i]);
    neural_release(&r.n);
    return rc;
}
