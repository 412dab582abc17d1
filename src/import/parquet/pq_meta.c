/* pq_meta.c -- see pq_meta.h. */
#include "import/parquet/pq_meta.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/thrift.h"
#include "format/parquet.h"

#include <string.h>
#include <strings.h>

uint64_t pq_rows_free = (uint64_t)1 << 17, pq_rows_per_byte = 512;

/* While the footer is read. */
struct reader {
    struct pq_meta *m;
    int rc;                        /* OPM_ENOMEM */
    size_t open[THRIFT_DEPTH_MAX]; /* members that groups of columns still have to come */
    int depth;
};

static void read_unit(struct thrift_struct *s, struct pq_leaf *leaf)
{
    struct thrift_struct inner = thrift_enter(s);
    struct thrift_field f;

    while (thrift_next(&inner, &f)) {
        leaf->scale = f.id == PARQUET_MILLIS ? 1000000 : f.id == PARQUET_MICROS ? 1000 : 1;
        thrift_skip(&inner, &f);
    }
}

/* What of a logical type bears on numbers. */
static void read_logical(struct thrift_struct *s, struct pq_leaf *leaf)
{
    struct thrift_struct in = thrift_enter(s), inner;
    struct thrift_field f, of;

    while (thrift_next(&in, &f)) {
        if (f.type != THRIFT_STRUCT) {
            thrift_skip(&in, &f);
            continue;
        }
        inner = thrift_enter(&in);
        while (thrift_next(&inner, &of)) {
            if ((f.id == PARQUET_LOGICAL_TIME || f.id == PARQUET_LOGICAL_TIMESTAMP) && of.id == 2 &&
                of.type == THRIFT_STRUCT) {
                read_unit(&inner, leaf);
                continue;
            }
            if (f.id == PARQUET_LOGICAL_INTEGER && of.id == 2)
                leaf->is_unsigned = !of.i;
            if (f.id == PARQUET_LOGICAL_DECIMAL && of.id == 1 && of.i)
                leaf->cannot = "decimal fractions";
            thrift_skip(&inner, &of);
        }
    }
}

static void note_converted(struct pq_leaf *leaf, int64_t converted)
{
    switch (converted) {
    case PARQUET_DECIMAL:
        leaf->cannot = leaf->cannot ? leaf->cannot : "decimal fractions";
        break;
    case PARQUET_TIME_MILLIS:
    case PARQUET_TIMESTAMP_MILLIS:
        leaf->scale = 1000000;
        break;
    case PARQUET_TIME_MICROS:
    case PARQUET_TIMESTAMP_MICROS:
        leaf->scale = 1000;
        break;
    case PARQUET_UINT_8:
    case PARQUET_UINT_16:
    case PARQUET_UINT_32:
    case PARQUET_UINT_64:
        leaf->is_unsigned = true;
        break;
    default:
        break;
    }
}

/* An element of the schema, which lists a tree in depth-first order: the root, then columns and
 * groups of columns. Those within groups are there and cannot be read. */
static void add_element(struct reader *r, const struct pq_leaf *e, int64_t children,
                        int64_t repetition)
{
    struct pq_meta *m = r->m;
    bool inside;

    while (r->depth && !r->open[r->depth - 1])
        r->depth--;
    inside = r->depth > 1;
    if (r->depth)
        r->open[r->depth - 1]--;
    if (children > 0 && r->depth < THRIFT_DEPTH_MAX) {
        r->open[r->depth++] = (size_t)children;
        return;
    }
    if (!r->depth || r->rc) /* the root without columns */
        return;
    if (!GROW(m->leaf, m->leaf_cap, m->nleaf + 1)) {
        r->rc = OPM_ENOMEM;
        return;
    }
    m->leaf[m->nleaf] = *e;
    m->leaf[m->nleaf].optional = repetition == PARQUET_OPTIONAL;
    if (inside || repetition == PARQUET_REPEATED)
        m->leaf[m->nleaf].cannot = "lists or structs";
    m->nleaf++;
}

static void read_element(struct reader *r, struct thrift_struct *s)
{
    struct thrift_struct in = thrift_enter(s);
    struct pq_leaf e = { .name = "", .type = -1, .scale = 1 };
    int64_t children = 0, repetition = PARQUET_REQUIRED, converted = -1;
    bool logical = false;
    struct thrift_field f;

    while (thrift_next(&in, &f)) {
        if (f.id == 1)
            e.type = f.i >= PARQUET_BOOLEAN && f.i <= PARQUET_FIXED ? (int)f.i : -1;
        else if (f.id == 2)
            e.width = f.i;
        else if (f.id == 3)
            repetition = f.i;
        else if (f.id == 4 && f.type == THRIFT_BINARY) {
            e.name = (const char *)f.p;
            e.len = f.len;
        } else if (f.id == 5)
            children = f.i;
        else if (f.id == 6)
            converted = f.i;
        if (f.id == 10 && f.type == THRIFT_STRUCT) {
            read_logical(&in, &e);
            logical = true;
        } else {
            thrift_skip(&in, &f);
        }
    }
    if (!logical)
        note_converted(&e, converted);
    if (!s->r->bad)
        add_element(r, &e, children, repetition);
}

static void read_statistics(struct thrift_struct *s, int64_t *nulls)
{
    struct thrift_struct in = thrift_enter(s);
    struct thrift_field f;

    while (thrift_next(&in, &f)) {
        if (f.id == 3)
            *nulls = f.i;
        thrift_skip(&in, &f);
    }
}

static void read_chunk_meta(struct thrift_struct *s, struct pq_chunk *c)
{
    struct thrift_struct in = thrift_enter(s);
    int64_t data = 0, dictionary = 0, size = 0, nulls = -1, nvalue = 0;
    struct thrift_field f;

    while (thrift_next(&in, &f)) {
        if (f.id == 12 && f.type == THRIFT_STRUCT) {
            read_statistics(&in, &nulls);
            continue;
        }
        switch (f.id) {
        case 4:
            c->codec = (int)MIN(MAX(f.i, -1), 99);
            break;
        case 5:
            nvalue = f.i;
            break;
        case 7:
            size = f.i;
            break;
        case 9:
            data = f.i;
            break;
        case 11:
            dictionary = f.i;
            break;
        default:
            break;
        }
        thrift_skip(&in, &f);
    }
    /* Some writers say 0, or a place behind the data, where there is no dictionary. */
    c->at = (uint64_t)(dictionary > 0 && dictionary < data ? dictionary : data);
    c->len = (uint64_t)size;
    c->nvalue = (uint64_t)nvalue;
    c->all_null = nvalue > 0 && nulls == nvalue;
    s->r->bad |= data < 0 || size < 0 || nvalue < 0;
}

static void read_chunk(struct reader *r, struct thrift_struct *s)
{
    struct thrift_struct in = thrift_enter(s);
    struct pq_chunk c = { 0 };
    struct pq_meta *m = r->m;
    struct thrift_field f;

    while (thrift_next(&in, &f)) {
        if (f.id == 1) /* the column is in another file */
            s->r->bad = true;
        else if (f.id == 3 && f.type == THRIFT_STRUCT)
            read_chunk_meta(&in, &c);
        else
            thrift_skip(&in, &f);
    }
    if (s->r->bad || r->rc)
        return;
    if (!GROW(m->chunk, m->chunk_cap, m->nchunk + 1))
        r->rc = OPM_ENOMEM;
    else
        m->chunk[m->nchunk++] = c;
}

static void read_group(struct reader *r, struct thrift_struct *s)
{
    struct thrift_struct in = thrift_enter(s);
    struct pq_meta *m = r->m;
    size_t nchunk = 0;
    int64_t nrow = 0;
    struct thrift_field f;

    while (thrift_next(&in, &f) && !r->rc) {
        if (f.id == 1 && f.type == THRIFT_LIST && f.item == THRIFT_STRUCT) {
            for (size_t i = 0; i < f.len && !s->r->bad && !r->rc; i++)
                read_chunk(r, &in);
            nchunk += f.len;
            continue;
        }
        if (f.id == 3)
            nrow = f.i;
        thrift_skip(&in, &f);
    }
    s->r->bad |= nrow < 0 || nchunk != m->nleaf;
    if (s->r->bad || r->rc)
        return;
    if (!GROW(m->group, m->group_cap, m->ngroup + 1))
        r->rc = OPM_ENOMEM;
    else
        m->group[m->ngroup++] = (uint64_t)nrow;
}

static void read_fact(struct reader *r, struct thrift_struct *s)
{
    struct thrift_struct in = thrift_enter(s);
    struct thrift_field f, key = { 0 }, value = { 0 };

    while (thrift_next(&in, &f)) {
        if (f.id == 1 && f.type == THRIFT_BINARY)
            key = f;
        if (f.id == 2 && f.type == THRIFT_BINARY)
            value = f;
        thrift_skip(&in, &f);
    }
    if (!s->r->bad && key.len == strlen(PARQUET_KEY_TABLE) && value.p &&
        memcmp(key.p, PARQUET_KEY_TABLE, key.len) == 0) {
        r->m->table = (const char *)value.p;
        r->m->table_len = value.len;
    }
}

static void read_footer(struct reader *r, struct thrift_struct *s)
{
    struct thrift_field f;

    while (thrift_next(s, &f) && !r->rc) {
        bool structs = f.type == THRIFT_LIST && f.item == THRIFT_STRUCT;

        if (structs && f.id == 2)
            for (size_t i = 0; i < f.len && !s->r->bad && !r->rc; i++)
                read_element(r, s);
        else if (structs && f.id == 4)
            for (size_t i = 0; i < f.len && !s->r->bad && !r->rc; i++)
                read_group(r, s);
        else if (structs && f.id == 5)
            for (size_t i = 0; i < f.len && !s->r->bad; i++)
                read_fact(r, s);
        else
            thrift_skip(s, &f);
    }
}

static int check(struct pq_meta *m, opm_error *err)
{
    uint64_t most = pq_rows_free + m->len * pq_rows_per_byte;

    for (size_t i = 0; i < m->ngroup; i++) {
        if (m->group[i] > most - MIN(most, m->nrow))
            return opm__fail(err, OPM_EFORMAT,
                             "%s: a Parquet file of %zu bytes that claims more than %llu rows: "
                             "damaged",
                             m->path, m->len, (unsigned long long)most);
        m->nrow += m->group[i];
    }
    for (size_t i = 0; i < m->nchunk; i++) {
        const struct pq_chunk *c = &m->chunk[i];

        if (c->at > m->len || c->len > m->len - c->at)
            return opm__fail(err, OPM_EFORMAT,
                             "%s: a damaged or cut Parquet file: column '%.*s' is said to lie "
                             "beyond its end",
                             m->path, (int)MIN(m->leaf[i % m->nleaf].len, (size_t)60),
                             m->leaf[i % m->nleaf].name);
    }
    return 0;
}

int pq_meta_read(struct pq_meta *m, const char *path, const uint8_t *data, size_t len,
                 opm_error *err)
{
    struct reader r = { .m = m };
    struct thrift_struct s;
    struct rd rd;
    uint32_t size;

    *m = (struct pq_meta){ .path = path, .data = data, .len = len };
    if (len >= 4 && memcmp(data, PARQUET_MAGIC_SEALED, 4) == 0)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: an encrypted Parquet file; opmeter reads plain ones", path);
    if (len < 4 || memcmp(data, PARQUET_MAGIC, 4) != 0)
        return opm__fail(err, OPM_EFORMAT, "%s: not a Parquet file", path);
    if (len < 4 + PARQUET_TAIL || memcmp(data + len - 4, PARQUET_MAGIC, 4) != 0)
        return opm__fail(err, OPM_ETRUNC,
                         "%s: a Parquet file without its end, where it says what it holds: it was "
                         "cut or is still being written",
                         path);
    rd = rd_of(data + len - PARQUET_TAIL, 4);
    size = rd_u32(&rd);
    if (size > len - 4 - PARQUET_TAIL)
        return opm__fail(err, OPM_EFORMAT,
                         "%s: a damaged Parquet file: its footer of %u bytes is "
                         "larger than the file",
                         path, size);
    rd = rd_of(data + len - PARQUET_TAIL - size, size);
    s = thrift_open(&rd);
    read_footer(&r, &s);
    if (r.rc)
        return opm__fail(err, r.rc, "%s: out of memory", path);
    if (rd.bad || !m->nleaf)
        return opm__fail(err, OPM_EFORMAT, "%s: a damaged Parquet file: its footer is malformed",
                         path);
    return check(m, err);
}

void pq_meta_release(struct pq_meta *m)
{
    mem_free(m->leaf);
    mem_free(m->group);
    mem_free(m->chunk);
    *m = (struct pq_meta){ 0 };
}

int pq_meta_find(const struct pq_meta *m, const char *name)
{
    for (size_t i = 0; i < m->nleaf; i++)
        if (m->leaf[i].len == strlen(name) &&
            strncasecmp(m->leaf[i].name, name, m->leaf[i].len) == 0)
            return (int)i;
    return -1;
}
