/* opm.c -- write a store as an .opm file of tables, which opens without sorting or parsing
 * anything; docs/format.md "Files of tables" is the specification. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/zblock.h"
#include "export/opm_pack.h"
#include "export/writer.h"
#include "format/colpack.h"
#include "format/crc32c.h"
#include "format/format.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRINGS_BYTES ((size_t)1 << 20) /* of text in a chunk, but for one that is longer */
#define THREADS_MAX ((size_t)4)

size_t opm_chunks_per_thread = 2;

struct opm_out {
    const struct store *st;
    const struct export_options *opts;
    struct io_out out;
    uint32_t *number; /* string -> its number in the file; 0: it is not needed */
    str_id *string;   /* and back, from 1 on */
    size_t nstring;
    uint32_t seq;
    struct opm_packer pack;
    uint64_t done, total; /* rows */
};

/* What is in the payload, as the next chunk; crc is the payload's. */
static int put_chunk_of(struct opm_out *o, enum opm_chunk_kind kind, struct buf *payload,
                        uint32_t crc)
{
    struct opm_chunk c = { .magic = OPM_CHUNK_MAGIC,
                           .kind = (uint16_t)kind,
                           .size = (uint32_t)payload->len,
                           .crc = crc,
                           .seq = o->seq++ };

    if (payload->failed)
        return OPM_ENOMEM;
    if (payload->len > OPM_CHUNK_MAX)
        return OPM_ELIMIT;
    c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
    io_out_add(&o->out, &c, sizeof(c));
    io_out_add(&o->out, buf_str(payload), payload->len);
    buf_clear(payload);
    return 0;
}

static uint32_t crc_of(const struct buf *payload)
{
    return payload->failed ? 0 : crc32c(buf_str(payload), payload->len);
}

static int put_chunk(struct opm_out *o, enum opm_chunk_kind kind)
{
    return put_chunk_of(o, kind, &o->pack.payload, crc_of(&o->pack.payload));
}

/* The one recording that the trace was made of; zeros if it is none, or several. */
static void take_session(const struct store *st, uint8_t out[16])
{
    char id[WRITER_ID_ROOM], digits[3] = "";

    if (!writer_recording(st, id))
        return;
    for (int i = 0; i < 16; i++) {
        memcpy(digits, id + 2 * i, 2);
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void put_header(struct opm_out *o)
{
    struct opm_file_header h = { .magic = OPM_FILE_MAGIC,
                                 .version = OPM_FORMAT_VERSION,
                                 .header_size = OPM_HEADER_SIZE,
                                 .clock_source = CLOCK_SOURCE_MONOTONIC,
                                 .ticks_per_s = 1000000000 };
    struct opm_file_status s = { .state = FILE_CLOSED };
    static const char zeros[OPM_HEADER_SIZE - sizeof(h) - sizeof(s)];

    take_session(o->st, h.session);
    h.crc = crc32c(&h, offsetof(struct opm_file_header, crc));
    s.crc = crc32c(&s, offsetof(struct opm_file_status, crc));
    io_out_add(&o->out, &h, sizeof(h));
    io_out_add(&o->out, &s, sizeof(s));
    io_out_add(&o->out, zeros, sizeof(zeros));
}

/* Give a string a number in the file, in the order of first use: what is used together then has
 * numbers that are close. */
static void use_string(struct opm_out *o, str_id id)
{
    if (id && !o->number[id]) {
        o->number[id] = (uint32_t)++o->nstring;
        o->string[o->nstring] = id;
    }
}

/* After store_args_read(). */
static void use_args(struct opm_out *o)
{
    for (size_t i = 0; store_has_args(o->st) && i < store_nrow(o->st, TABLE_span); i++) {
        size_t n;

        use_string(o, store_span_args_form(o->st, i, NULL, 0, &n));
        use_string(o, store_span_text_args(o->st, i));
    }
}

static int use_column(struct opm_out *o, enum table_id table, int col)
{
    const struct column_def *def = &store_table_defs[table].col[col];
    const void *data = NULL;
    int rc = 0;

    if (def->type != COL_STR || def->from != FROM_ADD)
        return 0;
    if (table == TABLE_span) {
        use_args(o);
        return 0;
    }
    rc = store_column(o->st, table, col, &data);
    for (size_t i = 0; data && !rc && i < store_nrow(o->st, table); i++)
        use_string(o, ((const str_id *)data)[i]);
    return rc;
}

static int use_strings(struct opm_out *o)
{
    int rc = store_args_read(o->st);
    size_t n = strpool_count(store_strings(o->st)) + 1, nsite;
    const struct site *sites = store_sites(o->st, &nsite);

    if (rc)
        return rc;
    o->number = mem_calloc(n, sizeof(*o->number));
    o->string = mem_calloc(n, sizeof(*o->string));
    if (!o->number || !o->string)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        use_string(o, sites[i].layer);
        use_string(o, sites[i].cat);
        use_string(o, sites[i].phase);
        use_string(o, sites[i].name);
    }
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int c = 0; c < store_table_defs[t].ncol && !rc; c++)
            rc = use_column(o, (enum table_id)t, c);
    return rc;
}

/* Lengths and bytes of strings [from, to) as a chunk. */
static int put_strings_part(struct opm_out *o, size_t from, size_t to)
{
    const struct strpool *pool = store_strings(o->st);
    struct buf text = { 0 }, packed = { 0 };
    bool plain;
    int rc = OPM_ENOMEM;

    for (size_t i = from; i < to; i++)
        opm_put_varint(&text, strpool_len(pool, o->string[i]));
    for (size_t i = from; i < to; i++)
        buf_add(&text, strpool_get(pool, o->string[i]), strpool_len(pool, o->string[i]));
    if (text.failed || zblock_pack(&packed, buf_str(&text), text.len))
        goto out;
    plain = packed.len >= text.len || text.len / OPM_STRING_RATIO > packed.len;
    opm_put_varint(&o->pack.payload, from);
    opm_put_varint(&o->pack.payload, to - from);
    buf_addc(&o->pack.payload, plain ? STRINGS_PLAIN : STRINGS_ZSTD);
    opm_put_varint(&o->pack.payload, text.len);
    buf_add(&o->pack.payload, plain ? buf_str(&text) : buf_str(&packed),
            plain ? text.len : packed.len);
    rc = put_chunk(o, CHUNK_STRINGS);
out:
    buf_release(&text);
    buf_release(&packed);
    return rc;
}

static int put_strings(struct opm_out *o)
{
    size_t from = 1, bytes = 0;
    int rc = 0;

    for (size_t i = 1; i <= o->nstring && !rc; i++) {
        bytes += strpool_len(store_strings(o->st), o->string[i]) + 2;
        if (bytes >= STRINGS_BYTES || i == o->nstring) {
            rc = put_strings_part(o, from, i + 1);
            from = i + 1;
            bytes = 0;
        }
    }
    return rc;
}

/* n rows more are written. */
static int rows_done(struct opm_out *o, size_t n)
{
    o->done += n;
    return writer_progress(o->opts, &o->out, o->done, o->total);
}

static int put_rows(struct opm_out *o, const char *table, const struct table_column *col,
                    size_t ncol, size_t nrow)
{
    int rc = 0;

    for (size_t from = 0; from < nrow && !rc; from += COLPACK_ROWS) {
        size_t n = MIN(nrow - from, (size_t)COLPACK_ROWS);

        rc = opm_pack_rows(&o->pack, table, col, ncol, from, n);
        if (!rc)
            rc = put_chunk(o, CHUNK_ROWS);
        if (!rc)
            rc = rows_done(o, n);
    }
    return rc;
}

static int put_table(struct opm_out *o, enum table_id table)
{
    const struct table_def *def = &store_table_defs[table];
    struct table_column *col = mem_calloc((size_t)def->ncol, sizeof(*col));
    size_t n = 0;
    int rc = col ? 0 : OPM_ENOMEM;

    for (int c = 0; c < def->ncol && !rc; c++) {
        if (def->col[c].from != FROM_ADD)
            continue;
        col[n].name = def->col[c].name;
        col[n].type = def->col[c].type;
        rc = store_column(o->st, table, c, &col[n].data);
        n += col[n].data != NULL;
    }
    if (!rc)
        rc = put_rows(o, def->name, col, n, store_nrow(o->st, table));
    mem_free(col);
    return rc;
}

/* The spans' sites as a table of their own. */
static int put_sites(struct opm_out *o)
{
    static const char *const names[] = { "name", "cat", "layer", "phase", "op" };
    size_t n;
    const struct site *s = store_sites(o->st, &n);
    uint32_t *column = mem_alloc(ARRAY_SIZE(names) * n * sizeof(*column));
    struct table_column col[ARRAY_SIZE(names)];
    int rc = column ? 0 : OPM_ENOMEM;

    for (size_t c = 0; c < ARRAY_SIZE(names) && !rc; c++)
        col[c] = (struct table_column){ names[c], c < 4 ? COL_STR : COL_ID, column + c * n };
    for (size_t i = 0; i < n && !rc; i++) {
        column[i] = s[i].name;
        column[n + i] = s[i].cat;
        column[2 * n + i] = s[i].layer;
        column[3 * n + i] = s[i].phase;
        column[4 * n + i] = s[i].op;
    }
    if (!rc)
        rc = put_rows(o, "site", col, ARRAY_SIZE(names), n);
    mem_free(column);
    return rc;
}

static size_t overlap_count(const struct store *st)
{
    size_t n = 0;

    for (uint32_t i = 0; i < store_nrow(st, TABLE_track); i++)
        n += store_overlap_of(st, i) != i;
    return n;
}

static int put_overlaps(struct opm_out *o)
{
    size_t n = overlap_count(o->st), k = 0;
    uint32_t *pair = mem_alloc(2 * n * sizeof(*pair));
    int rc;

    if (!pair)
        return OPM_ENOMEM;
    for (uint32_t i = 0; i < store_nrow(o->st, TABLE_track); i++) {
        if (store_overlap_of(o->st, i) == i)
            continue;
        pair[k] = i;
        pair[n + k++] = store_overlap_of(o->st, i);
    }
    rc = put_rows(o, "overlap",
                  (struct table_column[]){ { "track", COL_ID, pair }, { "of", COL_ID, pair + n } },
                  2, n);
    mem_free(pair);
    return rc;
}

/* Chunks of spans, packed by several threads. Each takes the next one, packs it and waits for its
 * turn to write it, so that the file does not depend on the threads. */
struct span_chunks {
    struct opm_out *o;
    const struct span_columns *columns;
    size_t nrow, nchunk;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    size_t next; /* chunk that nobody has taken yet */
    size_t turn; /* chunk that is written next */
    int rc;      /* the first failure; nothing is written any more */
};

static void write_span_chunk(struct span_chunks *s, struct opm_packer *pack, size_t n, uint32_t crc,
                             bool is_caller, int rc)
{
    struct opm_out *o = s->o;

    if (!rc)
        rc = put_chunk_of(o, CHUNK_ROWS, &pack->payload, crc);
    if (!rc && is_caller) {
        rc = rows_done(o, n); /* the user is called back on his own thread only */
    } else if (!rc) {
        o->done += n;
        rc = o->out.err_no ? OPM_EIO : 0;
    }
    s->rc = rc;
}

static void pack_span_chunks(struct span_chunks *s, struct opm_packer *pack, bool is_caller)
{
    for (;;) {
        size_t k, n;
        uint32_t crc;
        int rc;

        pthread_mutex_lock(&s->mutex);
        k = s->rc ? s->nchunk : s->next++;
        pthread_mutex_unlock(&s->mutex);
        if (k >= s->nchunk)
            return;
        n = MIN(s->nrow - k * COLPACK_ROWS, (size_t)COLPACK_ROWS);
        rc = opm_pack_spans(pack, s->columns, k * COLPACK_ROWS, n);
        crc = crc_of(&pack->payload);
        pthread_mutex_lock(&s->mutex);
        while (s->turn != k)
            pthread_cond_wait(&s->changed, &s->mutex);
        if (!s->rc)
            write_span_chunk(s, pack, n, crc, is_caller, rc);
        s->turn++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
    }
}

static void *pack_beside(void *arg)
{
    struct span_chunks *s = arg;
    struct opm_packer pack;

    /* Without memory for a second one, the first does it all. */
    if (opm_packer_init(&pack, s->o->st, s->o->number, s->o->nstring) == 0)
        pack_span_chunks(s, &pack, false);
    opm_packer_release(&pack);
    return NULL;
}

static int put_span_chunks(struct opm_out *o, const struct span_columns *c, size_t nrow)
{
    struct span_chunks s = {
        .o = o, .columns = c, .nrow = nrow, .nchunk = (nrow - 1) / COLPACK_ROWS + 1
    };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t want = MIN(MIN((size_t)MAX(cores, 1), s.nchunk / opm_chunks_per_thread), THREADS_MAX);
    pthread_t helper[THREADS_MAX];
    size_t nhelper = 0;

    if (pthread_mutex_init(&s.mutex, NULL))
        return OPM_ENOMEM;
    pthread_cond_init(&s.changed, NULL);
    while (nhelper + 1 < want && thread_start(&helper[nhelper], pack_beside, &s) == 0)
        nhelper++;
    pack_span_chunks(&s, &o->pack, true);
    while (nhelper)
        pthread_join(helper[--nhelper], NULL);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.mutex);
    return s.rc;
}

static int put_spans(struct opm_out *o)
{
    size_t nrow = store_nrow(o->st, TABLE_span);
    struct span_columns c = { .site = store_span_site(o->st) };
    int rc = store_column(o->st, TABLE_span, span_col_ts, &c.ts);

    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_dur, &c.dur);
    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_track, &c.track);
    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_correlation, &c.correlation);
    c.wait = store_given_waits(o->st); /* the rest follows from correlations */
    return rc || !nrow ? rc : put_span_chunks(o, &c, nrow);
}

static int put_contents(struct opm_out *o)
{
    size_t nsite;

    store_sites(o->st, &nsite);
    opm_put_varint(&o->pack.payload, o->nstring);
    opm_put_varint(&o->pack.payload, TABLE_COUNT + 2);
    opm_put_str(&o->pack.payload, "site");
    opm_put_varint(&o->pack.payload, nsite);
    opm_put_str(&o->pack.payload, "overlap");
    opm_put_varint(&o->pack.payload, overlap_count(o->st));
    o->total = nsite + overlap_count(o->st);
    for (int t = 0; t < TABLE_COUNT; t++) {
        opm_put_str(&o->pack.payload, store_table_defs[t].name);
        opm_put_varint(&o->pack.payload, store_nrow(o->st, (enum table_id)t));
        o->total += store_nrow(o->st, (enum table_id)t);
    }
    return put_chunk(o, CHUNK_CONTENTS);
}

/* What is few comes first: a file that was cut off still explains what it holds. */
static int put_all(struct opm_out *o)
{
    int rc;

    put_header(o);
    rc = use_strings(o);
    if (!rc)
        rc = opm_packer_init(&o->pack, o->st, o->number, o->nstring);
    if (!rc)
        rc = put_contents(o);
    if (!rc)
        rc = put_strings(o);
    if (!rc)
        rc = put_sites(o);
    for (int t = 0; t < TABLE_COUNT && !rc; t++)
        if (t != TABLE_span && t != TABLE_sample && t != TABLE_flow)
            rc = put_table(o, (enum table_id)t);
    if (!rc)
        rc = put_overlaps(o);
    if (!rc)
        rc = put_spans(o);
    if (!rc)
        rc = put_table(o, TABLE_sample);
    if (!rc)
        rc = put_table(o, TABLE_flow);
    return rc ? rc : put_chunk(o, CHUNK_END);
}

int export_opm(const struct store *st, const char *path, const struct export_options *opts,
               opm_error *err)
{
    struct opm_out o = { .st = st, .opts = opts };
    int rc = writer_open(&o.out, st, path, err);

    if (rc)
        return rc;
    rc = put_all(&o);
    opm_packer_release(&o.pack);
    mem_free(o.number);
    mem_free(o.string);
    return writer_close(&o.out, rc, path, err);
}
