/* source.c -- see source.h. */
#include "sql/source.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sql/index.h"

/* Columns that store_finish() leaves rising with the row number. */
static int sorted_column(enum source_kind kind, int id)
{
    if (kind != SOURCE_TABLE)
        return -1;
    switch (id) {
    case TABLE_span:
        return span_col_ts;
    case TABLE_sample:
        return sample_col_ts;
    case TABLE_step:
        return step_col_ts;
    case TABLE_record:
        return record_col_ts;
    default:
        return -1;
    }
}

int source_init(struct source *s, enum source_kind kind, int id, const struct table_def *def,
                const struct store *st)
{
    *s = (struct source){
        .kind = kind, .id = id, .def = def, .st = st, .sorted = sorted_column(kind, id)
    };
    s->col = mem_calloc((size_t)def->ncol + 1, sizeof(*s->col));
    if (!s->col)
        return OPM_ENOMEM;
    s->col[def->ncol].kind = VCOL_ROW;
    if (kind == SOURCE_TABLE) {
        s->nrow = store_nrow(st, (enum table_id)id);
        s->ready = true;
    }
    return 0;
}

void source_release(struct source *s)
{
    for (int i = 0; s->col && i <= s->def->ncol; i++)
        index_free(s->col[i].index);
    mem_free(s->col);
    table_release(&s->own);
    *s = (struct source){ 0 };
}

int source_ready(struct source *s, opm_error *err)
{
    int rc;

    if (s->ready)
        return 0;
    assert(s->kind == SOURCE_ANALYSIS);
    rc = analysis_run(s->st, (enum analysis_id)s->id, &s->own, err);
    if (rc < 0)
        return rc;
    s->nrow = s->own.nrow;
    s->ready = true;
    return 0;
}

static void site_column(struct source *s, int i)
{
    struct vcol *c = &s->col[i];
    const struct site *sites;
    size_t nsite;

    static_assert(sizeof(struct site) == SITE_STRIDE * sizeof(uint32_t), "sites are read as words");
    sites = store_sites(s->st, &nsite);
    c->u32 = store_span_site(s->st);
    switch (i) {
    case span_col_name:
        c->field = &sites->name;
        break;
    case span_col_cat:
        c->field = &sites->cat;
        break;
    case span_col_layer:
        c->field = &sites->layer;
        break;
    case span_col_phase:
        c->field = &sites->phase;
        break;
    case span_col_op:
        c->field = &sites->op;
        break;
    default:
        assert(!"a column of sites that struct site does not have");
    }
    c->kind = s->def->col[i].type == COL_ID ? VCOL_SITE_ID : VCOL_SITE_STR;
}

bool source_is_args(const struct source *s, int i)
{
    return s->kind == SOURCE_TABLE && s->id == TABLE_span && i == span_col_args &&
           store_args_packed(s->st);
}

int source_column(struct source *s, int i, opm_error *err)
{
    static const enum vcol_kind kinds[] = {
        [COL_I64] = VCOL_I64, [COL_ID] = VCOL_ID, [COL_STR] = VCOL_STR, [COL_F64] = VCOL_F64
    };
    struct vcol *c = &s->col[i];
    const void *data;
    int rc = source_ready(s, err);

    if (rc < 0 || c->kind != VCOL_UNKNOWN)
        return rc;
    if (source_is_row(s, i)) {
        c->kind = VCOL_ROW;
        return 0;
    }
    if (s->nrow == 0) {
        c->kind = VCOL_NULL;
        return 0;
    }
    if (s->def->col[i].from == FROM_SITE) {
        site_column(s, i);
        return 0;
    }
    if (source_is_args(s, i)) {
        c->kind = VCOL_ARGS;
        return 0;
    }
    if (s->kind == SOURCE_TABLE) {
        rc = store_column(s->st, (enum table_id)s->id, i, &data);
        if (rc < 0)
            return opm__fail(err, rc, "%s.%s: out of memory", s->def->name, s->def->col[i].name);
    } else {
        data = s->own.col[i].data;
    }
    c->data = data;
    c->kind = data ? kinds[s->def->col[i].type] : VCOL_NULL;
    return 0;
}
