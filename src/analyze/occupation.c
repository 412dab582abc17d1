/* occupation.c -- what device and host did during each step. */
#include "analyze/analysis.h"
#include "analyze/busy.h"
#include "analyze/groups.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

/* The whole trace, if it has any span. */
static int whole(struct step_list *l, const struct store *st)
{
    struct step_row all = { .step = OPM_NULL_ID, .num = OPM_NULL_I64, .rank = OPM_NULL_I64 };
    size_t n = store_nrow(st, TABLE_span);

    for (size_t i = 0; i < n; i++) {
        int64_t dur = store_cell(st, TABLE_span, i, span_col_dur).i64;
        int64_t ts = store_cell(st, TABLE_span, i, span_col_ts).i64;

        if (i == 0)
            all.from_ns = ts;
        if (dur > 0 && add_ns(ts, dur) > all.to_ns)
            all.to_ns = add_ns(ts, dur);
    }
    l->row = mem_alloc(sizeof(*l->row));
    if (!l->row)
        return OPM_ENOMEM;
    *l->row = all;
    l->n = all.to_ns > all.from_ns;
    return 0;
}

static int add_step(const struct store *st, struct table *out, const struct step_row *s,
                    const int64_t *ns)
{
    double total = (double)s->to_ns - (double)s->from_ns;
    int rc = 0;

    for (int b = 0; b < BUCKET_COUNT && rc == 0; b++) {
        struct cell c[occupation_col_COUNT];

        c[occupation_col_step] = cell_id(s->step);
        c[occupation_col_num] = cell_i64(s->num);
        c[occupation_col_rank] = cell_i64(s->rank);
        c[occupation_col_warmup] = cell_i64(s->warmup);
        c[occupation_col_bucket] =
            cell_str(strpool_find(store_strings(st), bucket_names[b], strlen(bucket_names[b])));
        c[occupation_col_ns] = cell_i64(ns[b]);
        c[occupation_col_share] = total > 0 ? cell_f64((double)ns[b] / total) : cell_null();
        rc = table_add(out, c);
    }
    return rc;
}

int analyze_occupation(const struct store *st, struct table *out, opm_error *err)
{
    struct stretch *s = NULL;
    struct step_list l;
    int64_t *ns = NULL;
    int rc = step_list_get(&l, st);

    if (rc == 0 && l.n == 0 && store_nrow(st, TABLE_span)) {
        step_list_release(&l);
        rc = whole(&l, st);
    }
    if (rc == 0) {
        s = mem_alloc((l.n + 1) * sizeof(*s));
        ns = mem_alloc((l.n + 1) * BUCKET_COUNT * sizeof(*ns));
        rc = s && ns ? 0 : OPM_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        s[i] = (struct stretch){ l.row[i].from_ns, l.row[i].to_ns, l.row[i].rank };
    if (rc == 0)
        rc = busy_compute(st, s, l.n, ns);
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        rc = add_step(st, out, &l.row[i], ns + i * BUCKET_COUNT);
    mem_free(ns);
    mem_free(s);
    step_list_release(&l);
    return rc ? opm__fail(err, rc, "occupation: out of memory") : 0;
}
