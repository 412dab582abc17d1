/* store.c -- build a trace and read it; see store.h. */
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/bound.h"

#include <string.h>

#define TABLE(name, doc) static const struct column_def name##_columns[] = {
#define COL(table, name, type, from, doc) { #name, COL_##type, FROM_##from, doc },
#define END(table) \
    }              \
    ;
#include "store/tables.def"
#undef TABLE
#undef COL
#undef END

const struct table_def store_table_defs[TABLE_COUNT] = {
#define TABLE(name, doc) [TABLE_##name] = { #name, doc, name##_columns, name##_col_COUNT },
#define COL(table, name, type, from, doc)
#define END(table)
#include "store/tables.def"
#undef TABLE
#undef COL
#undef END
};

static int lazy_new(struct lazy **out)
{
    struct lazy *lz = mem_calloc(1, sizeof(*lz));

    if (!lz)
        return OPM_ENOMEM;
    if (pthread_mutex_init(&lz->mutex, NULL)) {
        mem_free(lz);
        return OPM_ENOMEM;
    }
    *out = lz;
    return 0;
}

static void lazy_free(struct lazy *lz)
{
    if (!lz)
        return;
    for (int i = 0; i < span_col_COUNT; i++)
        column_release(&lz->span[i].col);
    packed_release(&lz->depth);
    pthread_mutex_destroy(&lz->mutex);
    mem_free(lz);
}

int store_new(struct store **out)
{
    struct store *st = mem_calloc(1, sizeof(*st));

    if (!st)
        return OPM_ENOMEM;
    if (pthread_mutex_init(&st->load_blocks.mutex, NULL)) {
        mem_free(st);
        return OPM_ENOMEM;
    }
    if (pthread_mutex_init(&st->args_wait.mutex, NULL)) {
        pthread_mutex_destroy(&st->load_blocks.mutex);
        mem_free(st);
        return OPM_ENOMEM;
    }
    for (int i = 0; i < TABLE_COUNT; i++)
        if (table_init(&st->table[i], &store_table_defs[i]))
            goto fail;
    if (lazy_new(&st->lazy))
        goto fail;
    *out = st;
    return 0;
fail:
    store_free(st);
    return OPM_ENOMEM;
}

void store_free(struct store *st)
{
    if (!st)
        return;
    lazy_free(st->lazy);
    for (int i = 0; i < TABLE_COUNT; i++)
        table_release(&st->table[i]);
    column_release(&st->span_site);
    packed_release(&st->span_track);
    column_release(&st->runs);
    packed_release(&st->loaded_track);
    mem_free(st->loaded_overlap);
    mem_free(st->load_blocks.first);
    pthread_mutex_destroy(&st->load_blocks.mutex);
    mem_free(st->site);
    mem_free(st->site_slot);
    mem_free(st->overlap_of);
    mem_free(st->flow_point);
    args_release(&st->args);
    args_wait_release(&st->args_wait);
    pthread_mutex_destroy(&st->args_wait.mutex);
    u64map_release(&st->meta_row);
    u64map_release(&st->mixed);
    strpool_release(&st->strings);
    mem_free(st);
}

/* Bytes of a text of more than STORE_TEXT_MAX that are kept, not cut within a character. */
static size_t text_cut(struct store *st, const char *s)
{
    size_t len = STORE_TEXT_MAX;

    while (len > STORE_TEXT_MAX - 4 && ((unsigned char)s[len] & 0xc0) == 0x80)
        len--;
    store_stat(st, STAT_text_cut, 1);
    return len;
}

int store_str(struct store *st, const char *s, size_t len, str_id *out)
{
    int rc;

    if (UNLIKELY(len > STORE_TEXT_MAX) && !st->frozen)
        len = text_cut(st, s);
    if (!st->frozen)
        return strpool_intern(&st->strings, s, len, out);
    pthread_mutex_lock(&st->lazy->mutex);
    rc = strpool_intern(&st->strings, s, len, out);
    pthread_mutex_unlock(&st->lazy->mutex);
    return rc;
}

int store_cstr(struct store *st, const char *s, str_id *out)
{
    if (!s) {
        *out = 0;
        return 0;
    }
    return store_str(st, s, strlen(s), out);
}

static size_t site_hash(const struct site *s)
{
    uint64_t h = s->name;

    h = (h ^ s->cat) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ s->layer) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 31 ^ s->phase) * 0x94d049bb133111ebu;
    h = (h ^ h >> 30 ^ s->op) * 0xd6e8feb86659fd93u;
    return (size_t)(h ^ h >> 32);
}

static bool site_equal(const struct site *a, const struct site *b)
{
    return a->name == b->name && a->cat == b->cat && a->layer == b->layer && a->phase == b->phase &&
           a->op == b->op;
}

/* The slot of a site, or the free slot where it belongs. There is a free slot. */
static size_t site_probe(const struct store *st, const struct site *site)
{
    size_t mask = st->nsite_slot - 1, i = site_hash(site) & mask;

    while (st->site_slot[i] && !site_equal(&st->site[st->site_slot[i] - 1], site))
        i = (i + 1) & mask;
    return i;
}

static int site_enlarge(struct store *st)
{
    size_t n = st->nsite_slot ? st->nsite_slot * 2 : 64;
    uint32_t *slot = mem_calloc(n, sizeof(*slot));

    if (!slot)
        return OPM_ENOMEM;
    mem_free(st->site_slot);
    st->site_slot = slot;
    st->nsite_slot = n;
    for (size_t i = 0; i < st->nsite; i++)
        slot[site_probe(st, &st->site[i])] = (uint32_t)i + 1;
    return 0;
}

int store_site(struct store *st, const struct site *site, uint32_t *out)
{
    size_t at;

    assert(!st->frozen || st->amended);
    if (st->nsite >= st->nsite_slot / 2 && site_enlarge(st))
        return OPM_ENOMEM;
    at = site_probe(st, site);
    if (!st->site_slot[at]) {
        if (st->nsite >= OPM_NULL_ID - 1 || !GROW(st->site, st->site_cap, st->nsite + 1))
            return OPM_ENOMEM;
        st->site[st->nsite] = *site;
        st->site_slot[at] = (uint32_t)++st->nsite;
    }
    *out = st->site_slot[at] - 1;
    return 0;
}

int spans_reserve(struct store *st, size_t need)
{
    struct table *t = &st->table[TABLE_span];
    struct column *ts = &t->col[span_col_ts], *dur = &t->col[span_col_dur];

    if (LIKELY(need <= st->span_cap))
        return 0;
    if (need > OPM_NULL_ID) /* ids are 32 bits */
        return OPM_ENOMEM;
    if (column_reserve(ts, need * sizeof(*ts->i64)) ||
        column_reserve(dur, need * sizeof(*dur->i64)) ||
        column_reserve(&st->span_site, need * sizeof(*st->span_site.id)))
        return OPM_ENOMEM;
    st->span_cap =
        MIN(MIN(ts->alloc, dur->alloc) / sizeof(int64_t), st->span_site.alloc / sizeof(uint32_t));
    return 0;
}

int store_reserve_spans(struct store *st, size_t n)
{
    assert(!st->frozen);
    if (n > OPM_NULL_ID)
        return OPM_ENOMEM;
    return spans_reserve(st, st->table[TABLE_span].nrow + n);
}

/* NULL for n more spans in a column that not every store has. */
static int spans_add_null(struct store *st, int col, size_t n)
{
    struct table *t = &st->table[TABLE_span];
    enum col_type type = t->def->col[col].type;

    if (LIKELY(!t->col[col].data))
        return 0;
    if (column_reserve(&t->col[col], (t->nrow + n) * column_width(type)))
        return OPM_ENOMEM;
    column_fill_null(&t->col[col], type, t->nrow, t->nrow + n);
    return 0;
}

/* Room for n spans in the columns that exist; their track is noted. */
static int spans_add(struct store *st, uint32_t track, size_t n)
{
    struct table *t = &st->table[TABLE_span];

    if (st->loaded && loaded_to_runs(st))
        return OPM_ENOMEM;
    if (n > OPM_NULL_ID || spans_reserve(st, t->nrow + n) ||
        spans_add_null(st, span_col_correlation, n) || spans_add_null(st, span_col_wait, n) ||
        spans_add_null(st, span_col_args, n))
        return OPM_ENOMEM;
    if (n && (!st->nrun || span_runs(st)[st->nrun - 1].track != track)) {
        if (column_reserve(&st->runs, (st->nrun + 1) * sizeof(struct span_run)))
            return OPM_ENOMEM;
        span_runs(st)[st->nrun++] = (struct span_run){ (uint32_t)t->nrow, track };
    }
    t->nrow += n;
    return 0;
}

int spans_column(struct store *st, int col)
{
    struct table *t = &st->table[TABLE_span];
    enum col_type type = t->def->col[col].type;

    if (t->col[col].data)
        return 0;
    if (column_reserve(&t->col[col], (t->nrow + 1) * column_width(type)))
        return OPM_ENOMEM;
    column_fill_null(&t->col[col], type, 0, t->nrow);
    return 0;
}

int store_add_span(struct store *st, const struct span_row *row, uint32_t *out_build_id)
{
    struct table *t = &st->table[TABLE_span];
    size_t i = t->nrow;

    assert(!st->frozen && row->site < st->nsite);
    if ((row->correlation != OPM_NULL_I64 && spans_column(st, span_col_correlation)) ||
        (row->args && spans_column(st, span_col_args)))
        return OPM_ENOMEM;
    if (spans_add(st, row->track, 1))
        return OPM_ENOMEM;
    t->col[span_col_ts].i64[i] = row->ts_ns;
    t->col[span_col_dur].i64[i] = row->dur_ns;
    st->span_site.id[i] = row->site;
    if (row->correlation != OPM_NULL_I64)
        t->col[span_col_correlation].i64[i] = row->correlation;
    if (row->args)
        t->col[span_col_args].id[i] = row->args;
    if (out_build_id)
        *out_build_id = (uint32_t)i;
    return 0;
}

int store_add_span_block(struct store *st, uint32_t track, size_t n, struct span_block *out)
{
    struct table *t = &st->table[TABLE_span];
    size_t first = t->nrow;

    assert(!st->frozen);
    if (spans_add(st, track, n))
        return OPM_ENOMEM;
    *out = (struct span_block){
        .ts = n ? t->col[span_col_ts].i64 + first : NULL,
        .dur = n ? t->col[span_col_dur].i64 + first : NULL,
        .site = n ? st->span_site.id + first : NULL,
        .first_build_id = (uint32_t)first,
    };
    return 0;
}

int store_span_set_args(struct store *st, uint32_t build_id, str_id args)
{
    assert((!st->frozen || st->args_wait.reading) && build_id < st->table[TABLE_span].nrow);
    if (UNLIKELY(!st->args_wait.reading) && store_args_read(st))
        return OPM_ENOMEM;
    if (spans_column(st, span_col_args))
        return OPM_ENOMEM;
    st->table[TABLE_span].col[span_col_args].id[build_id] = args;
    return 0;
}

int store_span_set_correlation(struct store *st, uint32_t build_id, int64_t correlation)
{
    assert(!st->frozen && build_id < st->table[TABLE_span].nrow);
    if (spans_column(st, span_col_correlation))
        return OPM_ENOMEM;
    st->table[TABLE_span].col[span_col_correlation].i64[build_id] = correlation;
    return 0;
}

int store_track_mixed(struct store *st, uint32_t track)
{
    return u64map_put(&st->mixed, track, 1);
}

int store_span_set_wait(struct store *st, uint32_t build_id, int64_t wait_ns)
{
    assert(!st->frozen && build_id < st->table[TABLE_span].nrow);
    if (spans_column(st, span_col_wait))
        return OPM_ENOMEM;
    st->table[TABLE_span].col[span_col_wait].i64[build_id] = wait_ns;
    return 0;
}

int store_span_set_site(struct store *st, uint32_t build_id, uint32_t site)
{
    assert((!st->frozen || st->amended) && build_id < st->table[TABLE_span].nrow &&
           site < st->nsite);
    st->span_site.id[build_id] = site;
    return 0;
}

int store_span_set_dur(struct store *st, uint32_t build_id, int64_t dur_ns)
{
    assert(!st->frozen && build_id < st->table[TABLE_span].nrow);
    loaded_forget(st);
    span_dur(st)[build_id] = dur_ns;
    return 0;
}

uint32_t store_span_get_site(const struct store *st, uint32_t build_id)
{
    assert(!st->frozen && build_id < st->table[TABLE_span].nrow);
    return st->span_site.id[build_id];
}

int64_t store_span_get_ts(const struct store *st, uint32_t build_id)
{
    assert(!st->frozen && build_id < st->table[TABLE_span].nrow);
    return span_ts(st)[build_id];
}

int store_add_flow(struct store *st, const struct flow_end *src, const struct flow_end *dst,
                   str_id kind)
{
    struct cell cells[flow_col_COUNT] = { [flow_col_kind] = cell_str(kind) };
    const struct flow_end *end[2] = { src, dst };
    uint32_t row;

    cells[flow_col_src] = cell_id(src->bind == FLOW_SPAN ? src->span : 0);
    cells[flow_col_dst] = cell_id(dst->bind == FLOW_SPAN ? dst->span : 0);
    if (store_add(st, TABLE_flow, cells, &row))
        return OPM_ENOMEM;
    for (uint8_t i = 0; i < 2; i++) {
        if (end[i]->bind == FLOW_SPAN)
            continue;
        if (!GROW(st->flow_point, st->flow_point_cap, st->nflow_point + 1))
            return OPM_ENOMEM;
        st->flow_point[st->nflow_point++] =
            (struct flow_point){ end[i]->ts_ns, end[i]->track, row, i, end[i]->bind == FLOW_NEXT };
    }
    return 0;
}

/* A row of meta, or the value of the row that has the key already. */
static int meta_put(struct store *st, str_id key, str_id value, uint32_t *out_row)
{
    struct table *t = &st->table[TABLE_meta];
    const uint64_t *row = u64map_get(&st->meta_row, key);
    struct column *values = &t->col[meta_col_value];

    if (!row) {
        if (table_add(t, (struct cell[meta_col_COUNT]){ cell_str(key), cell_str(value) }))
            return OPM_ENOMEM;
        *out_row = (uint32_t)t->nrow - 1;
        if (u64map_put(&st->meta_row, key, *out_row)) {
            t->nrow--;
            return OPM_ENOMEM;
        }
        return 0;
    }
    *out_row = (uint32_t)*row;
    if (!values->data) {
        if (column_reserve(values, t->nrow * sizeof(*values->id)))
            return OPM_ENOMEM;
        column_fill_null(values, COL_STR, 0, t->nrow);
    }
    values->id[*row] = value;
    return 0;
}

int store_add(struct store *st, enum table_id table, const struct cell *cells, uint32_t *out_row)
{
    uint32_t row;

    assert((!st->frozen || st->amended) && table != TABLE_span);
    if (table == TABLE_meta) {
        if (meta_put(st, cell_text_id(cells[meta_col_key]), cell_text_id(cells[meta_col_value]),
                     &row))
            return OPM_ENOMEM;
    } else {
        if (table_add(&st->table[table], cells))
            return OPM_ENOMEM;
        row = (uint32_t)st->table[table].nrow - 1;
    }
    if (out_row)
        *out_row = row;
    return 0;
}

int store_set(struct store *st, enum table_id table, size_t row, int col, struct cell cell)
{
    assert((!st->frozen || st->amended) && table != TABLE_span && table != TABLE_meta);
    return table_set(&st->table[table], row, col, cell);
}

int store_meta(struct store *st, const char *key, const char *value)
{
    uint32_t row;
    str_id k, v;

    assert(!st->frozen || st->amended);
    if (store_cstr(st, key, &k) || store_cstr(st, value, &v))
        return OPM_ENOMEM;
    return meta_put(st, k, v, &row);
}

void store_stat(struct store *st, enum stat_id stat, int64_t count)
{
    if (__builtin_add_overflow(st->stat[stat], MAX(count, (int64_t)0), &st->stat[stat]))
        st->stat[stat] = INT64_MAX;
}

void store_amend_begin(struct store *st)
{
    assert(st->frozen && !st->amended);
    st->amended = true;
}

int store_amend_end(struct store *st)
{
    int rc;

    assert(st->amended);
    rc = stats_write(st);
    st->amended = false;
    return rc;
}

size_t store_nrow(const struct store *st, enum table_id table)
{
    return st->table[table].nrow;
}

struct cell site_cell(const struct site *site, int col)
{
    switch (col) {
    case span_col_name:
        return cell_str(site->name);
    case span_col_cat:
        return cell_str(site->cat);
    case span_col_layer:
        return cell_str(site->layer);
    case span_col_phase:
        return cell_str(site->phase);
    default:
        assert(col == span_col_op);
        return cell_id(site->op);
    }
}

static struct cell derived_cell(const struct store *st, size_t row, int col)
{
    const struct lazy_column *lc = &st->lazy->span[col];

    if (col == span_col_depth) {
        if (!atomic_load_explicit(&st->lazy->depth_ready, memory_order_acquire) && derive_depth(st))
            return cell_null();
        return cell_i64(packed_get(&st->lazy->depth, row));
    }
    if (!atomic_load_explicit(&lc->ready, memory_order_acquire) && derive_column(st, col))
        return cell_null();
    if (!lc->col.data)
        return cell_null();
    return store_table_defs[TABLE_span].col[col].type == COL_I64 ? cell_i64(lc->col.i64[row])
                                                                 : cell_id(lc->col.id[row]);
}

static struct cell track_cell(const struct store *st, size_t row)
{
    uint32_t track = packed_get(&st->span_track, row);

    return track < st->table[TABLE_track].nrow ? cell_id(track) : cell_null();
}

static struct cell args_cell(const struct store *st, size_t row)
{
    const struct column *args = &st->table[TABLE_span].col[span_col_args];
    int rc = store_args_read(st);
    str_id id = !rc && args->data ? args->id[row] : 0;

    if (rc)
        return cell_null();
    if (id & ARGS_PACKED) {
        pthread_mutex_lock(&st->lazy->mutex);
        rc = args_intern(st, id, &id);
        pthread_mutex_unlock(&st->lazy->mutex);
        if (rc)
            return cell_null();
    }
    return cell_str(id);
}

struct cell store_cell(const struct store *st, enum table_id table, size_t row, int col)
{
    const struct table *t = &st->table[table];

    if (table != TABLE_span)
        return table_cell(t, row, col);
    assert(st->frozen && row < t->nrow);
    if (col == span_col_track)
        return track_cell(st, row);
    if (col == span_col_args)
        return args_cell(st, row);
    switch (t->def->col[col].from) {
    case FROM_SITE:
        return site_cell(&st->site[st->span_site.id[row]], col);
    case FROM_DERIVED:
        return derived_cell(st, row, col);
    default:
        return table_cell(t, row, col);
    }
}

int store_derive(const struct store *st, enum table_id table, int col)
{
    assert(st->frozen);
    if (store_table_defs[table].col[col].from != FROM_DERIVED)
        return 0;
    return col == span_col_depth ? derive_depth(st) : derive_column(st, col);
}

int store_column(const struct store *st, enum table_id table, int col, const void **out)
{
    const struct table *t = &st->table[table];

    assert(st->frozen);
    if (table == TABLE_span && (t->def->col[col].from == FROM_DERIVED || col == span_col_track ||
                                (col == span_col_args && store_args_packed(st)))) {
        if (derive_column(st, col))
            return OPM_ENOMEM;
        *out = st->lazy->span[col].col.data;
    } else {
        *out = t->col[col].data;
    }
    return 0;
}

const uint32_t *store_span_site(const struct store *st)
{
    assert(st->frozen);
    return st->span_site.id;
}

struct span_tracks store_span_tracks(const struct store *st)
{
    const struct packed *p = &st->span_track;

    assert(st->frozen);
    return (struct span_tracks){ .data = p->data,
                                 .width = p->width,
                                 .same = p->same,
                                 .ntrack = (uint32_t)st->table[TABLE_track].nrow };
}

const struct site *store_sites(const struct store *st, size_t *out_n)
{
    *out_n = st->nsite;
    return st->site;
}

void store_span_range(const struct store *st, int64_t from_ns, int64_t to_ns, size_t *first,
                      size_t *end)
{
    size_t n = st->table[TABLE_span].nrow;

    assert(st->frozen);
    *first = bound_i64(span_ts(st), n, from_ns);
    *end = MAX(*first, bound_i64(span_ts(st), n, to_ns));
}

uint32_t store_overlap_of(const struct store *st, uint32_t track)
{
    assert(st->frozen && track < st->table[TABLE_track].nrow);
    return st->overlap_of[track];
}

const struct strpool *store_strings(const struct store *st)
{
    return &st->strings;
}

const char *store_text(const struct store *st, str_id id)
{
    return strpool_get(&st->strings, id);
}

const char *store_meta_get(const struct store *st, const char *key)
{
    str_id k = strpool_find(&st->strings, key, strlen(key));
    const uint64_t *row = k ? u64map_get(&st->meta_row, k) : NULL;
    const struct column *values = &st->table[TABLE_meta].col[meta_col_value];

    return row && values->data ? store_text(st, values->id[*row]) : NULL;
}
