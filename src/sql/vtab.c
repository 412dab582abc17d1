/* vtab.c -- sources as SQLite virtual tables.
 *
 * A cursor walks either row numbers themselves or an array of them: the rows of one value (a slice
 * of an index), all rows by value (the whole index), or a sorted copy that the cursor owns. The
 * tables are declared WITHOUT ROWID and have a hidden column `rowid` instead: only then does
 * SQLite's colUsed say whether row numbers matter, which dropping equal rows depends on. */
#include "sql/vtab.h"

#include "base/alloc.h"
#include "base/bound.h"
#include "base/buf.h"
#include "sql/plan.h"
#include "sql/range.h"
#include <string.h>

/* Rows to look ahead when walking an array of row numbers; far enough to hide a cache miss. */
#define PREFETCH_ROWS 12
#define PREFETCH_COLS 6
#define LIST_MAP_BYTES ((size_t)1 << 20)

struct vtab {
    sqlite3_vtab base; /* must be first */
    struct source *s;
};

struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    const uint32_t *rows;     /* NULL: positions are row numbers */
    size_t pos;
    size_t left; /* positions from pos on */
    int dir;     /* 1 or -1 */
    size_t row;
    uint32_t *local; /* rows, if this cursor owns them */
    size_t nlocal;
    /* Skip rows equal to the one before in these columns. */
    struct index_order unique[INDEX_ORDER_MAX];
    int nunique;
    const struct index *jump; /* rows is this whole index: skip by its start[] */
    struct {
        const char *base;
        size_t size;
    } ahead[PREFETCH_COLS];
    int nahead;
};

static int fail(sqlite3_vtab *tab, int code, const opm_error *err)
{
    sqlite3_free(tab->zErrMsg);
    tab->zErrMsg = sqlite3_mprintf("%s", err->msg);
    return code == OPM_ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

static int vt_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                      char **err)
{
    static const char *const types[] = {
        [COL_I64] = "INTEGER", [COL_ID] = "INTEGER", [COL_STR] = "TEXT", [COL_F64] = "REAL"
    };
    struct source *s = aux;
    struct vtab *tab;
    struct buf sql = { 0 };
    int rc = SQLITE_NOMEM;

    (void)argc;
    (void)argv;
    (void)err;
    buf_adds(&sql, "CREATE TABLE x(");
    for (int i = 0; i < s->def->ncol; i++)
        buf_addf(&sql, "\"%s\" %s, ", s->def->col[i].name, types[s->def->col[i].type]);
    buf_adds(&sql, "rowid INTEGER HIDDEN NOT NULL PRIMARY KEY) WITHOUT ROWID");
    if (!sql.failed)
        rc = sqlite3_declare_vtab(db, buf_str(&sql));
    buf_release(&sql);
    if (rc != SQLITE_OK)
        return rc;
    tab = mem_calloc(1, sizeof(*tab));
    if (!tab)
        return SQLITE_NOMEM;
    tab->s = s;
    *out = &tab->base;
    return SQLITE_OK;
}

static int vt_disconnect(sqlite3_vtab *tab)
{
    mem_free(tab);
    return SQLITE_OK;
}

static int vt_best_index(sqlite3_vtab *tab, sqlite3_index_info *info)
{
    return plan_make(((struct vtab *)tab)->s, info);
}

static int vt_open(sqlite3_vtab *tab, sqlite3_vtab_cursor **out)
{
    struct cursor *c = mem_calloc(1, sizeof(*c));

    (void)tab;
    if (!c)
        return SQLITE_NOMEM;
    *out = &c->base;
    return SQLITE_OK;
}

/* Big ones in huge pages; small ones, made once per row of an outer table, from the heap. */
static uint32_t *list_alloc(size_t n)
{
    size_t bytes = MAX(n, (size_t)1) * sizeof(uint32_t);

    return bytes < LIST_MAP_BYTES ? mem_alloc(bytes) : mem_map(bytes);
}

static void list_free(uint32_t *list, size_t n)
{
    size_t bytes = MAX(n, (size_t)1) * sizeof(uint32_t);

    if (bytes < LIST_MAP_BYTES)
        mem_free(list);
    else
        mem_unmap(list, bytes);
}

static void cursor_reset(struct cursor *c)
{
    sqlite3_vtab_cursor base = c->base;

    if (c->local)
        list_free(c->local, c->nlocal);
    *c = (struct cursor){ .base = base, .dir = 1 };
}

static int vt_close(sqlite3_vtab_cursor *cur)
{
    cursor_reset((struct cursor *)cur);
    mem_free(cur);
    return SQLITE_OK;
}

/* Rows [first, end) that a filter leaves so far. */
struct rows {
    size_t first;
    size_t end;
    const uint32_t *list; /* or NULL; else rows are list[0..n) within [first, end) */
    size_t n;
};

/* Narrow r to rows whose row number (sorted == NULL) or sorted column lies in range. */
static void narrow(struct rows *r, struct range range, const int64_t *sorted, size_t nrow)
{
    size_t first = 0, end = nrow;

    if (range.lo > range.hi) {
        r->end = r->first;
        return;
    }
    if (sorted) {
        first = bound_i64(sorted, nrow, range.lo);
        if (range.hi < INT64_MAX)
            end = bound_i64(sorted, nrow, range.hi + 1);
    } else {
        if (range.hi < 0) {
            r->end = r->first;
            return;
        }
        if (range.lo > 0)
            first = (uint64_t)range.lo < nrow ? (size_t)range.lo : nrow;
        if ((uint64_t)range.hi < nrow)
            end = (size_t)range.hi + 1;
    }
    r->first = MAX(r->first, first);
    r->end = MAX(MIN(r->end, end), r->first);
}

enum found { FOUND_NONE, FOUND_RANK, FOUND_UNKNOWN };

/* Which rank does `column op v` ask for? FOUND_UNKNOWN leaves it to SQLite: comparing text with a
 * number depends on what the right-hand side was declared as. */
static int find_rank(const struct source *s, const struct index *ix, struct plan_term term,
                     sqlite3_value *v, uint32_t *rank, enum found *found)
{
    struct range range;
    int rc;

    *rank = 0;
    *found = FOUND_RANK;
    if (term.op == PLAN_IS_NULL)
        return SQLITE_OK;
    if (sqlite3_value_type(v) == SQLITE_NULL) {
        if (term.op == PLAN_EQ)
            *found = FOUND_NONE;
        return SQLITE_OK;
    }
    if (s->def->col[term.col].type == COL_STR) {
        const char *text;

        if (sqlite3_value_type(v) != SQLITE_TEXT) {
            *found = FOUND_UNKNOWN;
            return SQLITE_OK;
        }
        text = (const char *)sqlite3_value_text(v);
        if (!text)
            return SQLITE_NOMEM;
        if (!index_find_str(s, ix, text, (size_t)sqlite3_value_bytes(v), rank))
            *found = FOUND_NONE;
        return SQLITE_OK;
    }
    rc = range_of(PLAN_EQ, v, &range);
    if (rc != SQLITE_OK)
        return rc;
    if (range.lo != range.hi || !index_find_id(ix, range.lo, rank))
        *found = FOUND_NONE;
    return SQLITE_OK;
}

/* Narrow r to the rows of one value. */
static int lookup(struct cursor *c, struct source *s, struct plan_term term, sqlite3_value *v,
                  struct rows *r, opm_error *err)
{
    struct index *ix;
    enum found found;
    uint32_t rank;
    int rc = index_get(s, term.col, &ix, err);

    if (rc < 0)
        return fail(c->base.pVtab, rc, err);
    rc = find_rank(s, ix, term, v, &rank, &found);
    if (rc != SQLITE_OK || found == FOUND_UNKNOWN)
        return rc;
    if (found == FOUND_NONE) {
        r->end = r->first;
        return SQLITE_OK;
    }
    if (!index_groups(ix)) {
        c->nlocal = r->end - r->first;
        c->local = list_alloc(c->nlocal);
        if (!c->local)
            return SQLITE_NOMEM;
        for (size_t row = r->first; row < r->end; row++)
            if (index_rank(ix, row) == rank)
                c->local[r->n++] = (uint32_t)row;
        r->list = c->local;
        return SQLITE_OK;
    }
    rc = index_group(s, term.col, &ix, err);
    if (rc < 0)
        return fail(c->base.pVtab, rc, err);
    r->list = ix->rows + ix->start[rank];
    r->n = ix->start[rank + 1] - ix->start[rank];
    if (r->first > 0 || r->end < s->nrow) {
        size_t skip = bound_u32(r->list, r->n, r->first);

        r->n = bound_u32(r->list, r->n, r->end) - skip;
        r->list += skip;
    }
    return SQLITE_OK;
}

static int restrict_rows(struct cursor *c, struct source *s, const struct plan *p,
                         sqlite3_value **argv, struct rows *r)
{
    int look = -1;
    opm_error err;

    for (int i = 0; i < p->nterm; i++) {
        struct plan_term term = p->term[i];
        struct range range;
        int rc;

        if (!source_is_row(s, term.col) && term.col != s->sorted) {
            look = i; /* last, when the range is known */
            continue;
        }
        rc = range_of(term.op, argv[i], &range);
        if (rc != SQLITE_OK)
            return rc;
        if (source_is_row(s, term.col)) {
            narrow(r, range, NULL, s->nrow);
        } else {
            rc = source_column(s, term.col, &err);
            if (rc < 0)
                return fail(c->base.pVtab, rc, &err);
            if (s->col[term.col].kind == VCOL_I64)
                narrow(r, range, s->col[term.col].i64, s->nrow);
        }
    }
    if (look >= 0 && r->first < r->end)
        return lookup(c, s, p->term[look], argv[look], r, &err);
    return SQLITE_OK;
}

/* Put the rows into the order of the plan and the cursor at the first of them. */
static int arrange(struct cursor *c, struct source *s, const struct plan *p, const struct rows *r)
{
    struct index_order order[INDEX_ORDER_MAX];
    struct index *ix = NULL;
    size_t n = r->list ? r->n : r->end - r->first;
    uint32_t *copy;
    opm_error err;
    int rc;

    for (int i = 0; i < p->norder; i++) {
        rc = index_get(s, p->order[i].col, &ix, &err);
        if (rc < 0)
            return fail(c->base.pVtab, rc, &err);
        order[i] = (struct index_order){ ix, p->order[i].desc };
    }
    if (p->unique) {
        memcpy(c->unique, order, sizeof(order));
        c->nunique = p->norder;
    }
    c->left = n;
    if (n == 0)
        return SQLITE_OK;
    if (p->norder == 0) {
        c->rows = r->list;
        c->dir = p->rows < 0 ? -1 : 1;
        c->pos = (r->list ? 0 : r->first) + (c->dir < 0 ? n - 1 : 0);
        return SQLITE_OK;
    }
    /* One column, all rows: the index itself is the order, walked backwards for a falling one. */
    if (p->norder == 1 && n == s->nrow && index_groups(ix) &&
        (p->rows == 0 || (p->rows < 0) == order[0].desc)) {
        rc = index_group(s, p->order[0].col, &ix, &err);
        if (rc < 0)
            return fail(c->base.pVtab, rc, &err);
        c->rows = ix->rows;
        c->dir = order[0].desc ? -1 : 1;
        c->pos = c->dir < 0 ? n - 1 : 0;
        c->jump = c->nunique ? ix : NULL;
        return SQLITE_OK;
    }
    copy = list_alloc(2 * n);
    if (!copy)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t at = p->rows < 0 ? n - 1 - i : i;

        copy[i] = r->list ? r->list[at] : (uint32_t)(r->first + at);
    }
    c->rows = index_sort(copy, copy + n, n, order, p->norder);
    if (c->local)
        list_free(c->local, c->nlocal); /* the one that was copied */
    c->local = copy;
    c->nlocal = 2 * n;
    return SQLITE_OK;
}

/* Which arrays the rows ahead will be read from. */
static void plan_prefetch(struct cursor *c, const struct source *s, uint64_t used)
{
    for (int i = 0; i < s->def->ncol && c->nahead < PREFETCH_COLS; i++) {
        const struct vcol *col = &s->col[i];
        size_t size = col->kind == VCOL_I64 || col->kind == VCOL_F64 ? 8 : 4;

        if (!(used >> i & 1) || col->kind <= VCOL_ARGS)
            continue;
        for (int k = 0; k < c->nahead; k++)
            if (c->ahead[k].base == (const char *)col->data)
                size = 0; /* columns of sites share one array */
        if (size) {
            c->ahead[c->nahead].base = col->data;
            c->ahead[c->nahead++].size = size;
        }
    }
}

static inline void cursor_load(struct cursor *c)
{
    if (!c->rows) {
        c->row = c->pos;
        return;
    }
    c->row = c->rows[c->pos];
    if (c->left > PREFETCH_ROWS) {
        size_t ahead = c->rows[c->pos + (size_t)(c->dir * PREFETCH_ROWS)];

        for (int k = 0; k < c->nahead; k++)
            __builtin_prefetch(c->ahead[k].base + ahead * c->ahead[k].size);
    }
}

static int vt_filter(sqlite3_vtab_cursor *cur, int num, const char *text, int argc,
                     sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)cur;
    struct source *s = ((struct vtab *)cur->pVtab)->s;
    struct plan plan;
    struct rows r;
    opm_error err;
    int rc;

    (void)num;
    (void)argc;
    cursor_reset(c);
    plan_parse(&plan, text);
    rc = source_ready(s, &err);
    for (int i = 0; i < s->def->ncol && rc == 0; i++)
        if (plan.used >> i & 1)
            rc = source_column(s, i, &err);
    if (rc < 0)
        return fail(cur->pVtab, rc, &err);
    r = (struct rows){ .end = s->nrow };
    rc = restrict_rows(c, s, &plan, argv, &r);
    if (rc == SQLITE_OK)
        rc = arrange(c, s, &plan, &r);
    if (rc != SQLITE_OK) {
        c->left = 0;
        return rc;
    }
    if (c->rows)
        plan_prefetch(c, s, plan.used);
    if (c->left)
        cursor_load(c);
    return SQLITE_OK;
}

static inline void advance(struct cursor *c, size_t by)
{
    c->left -= by;
    c->pos += (size_t)((ptrdiff_t)by * c->dir);
}

/* Go on to the first row that differs from the present one in the order columns. */
static void skip_equal(struct cursor *c)
{
    size_t was = c->row;

    if (c->jump) {
        uint32_t rank = index_rank(c->jump, c->row);

        advance(c,
                c->dir > 0 ? c->jump->start[rank + 1] - c->pos : c->pos + 1 - c->jump->start[rank]);
        return;
    }
    do {
        int k = 0;

        advance(c, 1);
        if (c->left == 0)
            break;
        while (k < c->nunique &&
               index_rank(c->unique[k].ix, was) == index_rank(c->unique[k].ix, c->rows[c->pos]))
            k++;
        if (k < c->nunique)
            break;
    } while (true);
}

static int vt_next(sqlite3_vtab_cursor *cur)
{
    struct cursor *c = (struct cursor *)cur;

    if (UNLIKELY(c->nunique))
        skip_equal(c);
    else
        advance(c, 1);
    if (c->left)
        cursor_load(c);
    return SQLITE_OK;
}

static int vt_eof(sqlite3_vtab_cursor *cur)
{
    return ((struct cursor *)cur)->left == 0;
}

static void result_id(sqlite3_context *ctx, uint32_t id)
{
    if (id != OPM_NULL_ID)
        sqlite3_result_int64(ctx, id);
}

/* Pool strings never move, so SQLite may keep the pointer. */
static void result_str(sqlite3_context *ctx, const struct source *s, str_id id)
{
    const struct strpool *pool = store_strings(s->st);

    if (id)
        sqlite3_result_text64(ctx, strpool_get(pool, id), strpool_len(pool, id), SQLITE_STATIC,
                              SQLITE_UTF8);
}

static void free_text(void *p)
{
    mem_free(p);
}

static void result_args(sqlite3_context *ctx, const struct source *s, size_t row)
{
    struct buf text = { 0 };

    if (store_span_args(s->st, row, &text)) {
        buf_release(&text);
        sqlite3_result_error_nomem(ctx);
    } else if (text.data) {
        sqlite3_result_text64(ctx, text.data, text.len, free_text, SQLITE_UTF8);
    }
}

/* A value that is not set is NULL. */
static int vt_column(sqlite3_vtab_cursor *cur, sqlite3_context *ctx, int i)
{
    const struct cursor *c = (const struct cursor *)cur;
    struct source *s = ((struct vtab *)cur->pVtab)->s;
    const struct vcol *col = &s->col[i];

    if (UNLIKELY(col->kind == VCOL_UNKNOWN)) {
        opm_error err;
        int rc = source_column(s, i, &err);

        if (rc < 0)
            return fail(cur->pVtab, rc, &err);
    }
    switch (col->kind) {
    case VCOL_ROW:
        sqlite3_result_int64(ctx, (sqlite3_int64)c->row);
        break;
    case VCOL_ARGS:
        result_args(ctx, s, c->row);
        break;
    case VCOL_I64:
        if (col->i64[c->row] != OPM_NULL_I64)
            sqlite3_result_int64(ctx, col->i64[c->row]);
        break;
    case VCOL_F64:
        sqlite3_result_double(ctx, col->f64[c->row]); /* NaN becomes NULL */
        break;
    case VCOL_ID:
    case VCOL_SITE_ID:
        result_id(ctx, vcol_u32(col, c->row));
        break;
    case VCOL_STR:
    case VCOL_SITE_STR:
        result_str(ctx, s, vcol_u32(col, c->row));
        break;
    case VCOL_NULL:
    case VCOL_UNKNOWN:
        break;
    }
    return SQLITE_OK;
}

static int vt_rowid(sqlite3_vtab_cursor *cur, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct cursor *)cur)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 1,
    .xConnect = vt_connect, /* without xCreate the tables exist by themselves */
    .xBestIndex = vt_best_index,
    .xDisconnect = vt_disconnect,
    .xOpen = vt_open,
    .xClose = vt_close,
    .xFilter = vt_filter,
    .xNext = vt_next,
    .xEof = vt_eof,
    .xColumn = vt_column,
    .xRowid = vt_rowid,
};

int vtab_register(sqlite3 *db, struct source *s)
{
    assert(s->def->ncol < 63); /* colUsed has a bit for each, rowid included */
    return sqlite3_create_module_v2(db, s->def->name, &module, s, NULL);
}
