/* arrow.c -- answers as an Arrow C stream; see opmeter_arrow.h.
 *
 * Whoever consumes the stream may move any child out of its parent, so every schema and every
 * array, dictionaries included, owns what it points to and is released by itself. */
#include "public/trace/trace.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sql/columns.h"

#include <errno.h>
#include <opmeter/opmeter_arrow.h>
#include <string.h>

#define BUFFERS_MAX 3

/* What is behind a schema: its name, and room for the pointers to its children. */
struct schema_own {
    char *name;
    struct ArrowSchema **child;
    struct ArrowSchema *of; /* the children and the dictionary themselves */
};

struct array_own {
    const void *buffer[BUFFERS_MAX];
    void *memory[BUFFERS_MAX]; /* to be freed */
    struct ArrowArray **child;
    struct ArrowArray *of;
};

/* The answer until it is handed out, and afterwards its names and types. */
struct stream {
    struct sql_columns columns;
    bool done;
};

static void schema_release(struct ArrowSchema *s)
{
    struct schema_own *own = s->private_data;

    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]->release)
            s->children[i]->release(s->children[i]);
    if (s->dictionary && s->dictionary->release)
        s->dictionary->release(s->dictionary);
    mem_free(own->name);
    mem_free(own->child);
    mem_free(own->of);
    mem_free(own);
    s->release = NULL;
}

/* A schema with room for n children, or for a dictionary. Valid to be released at once. */
static bool schema_new(struct ArrowSchema *s, const char *format, const char *name, int64_t n,
                       bool dictionary)
{
    struct schema_own *own = mem_calloc(1, sizeof(*own));

    if (!own)
        return false;
    own->name = mem_strdup(name);
    own->child = mem_calloc((size_t)n + 1, sizeof(*own->child));
    own->of = mem_calloc((size_t)n + 1, sizeof(*own->of));
    if (!own->name || !own->child || !own->of) {
        mem_free(own->name);
        mem_free(own->child);
        mem_free(own->of);
        mem_free(own);
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        own->child[i] = &own->of[i];
    *s = (struct ArrowSchema){ .format = format,
                               .name = own->name,
                               .flags = ARROW_FLAG_NULLABLE,
                               .n_children = n,
                               .children = own->child,
                               .dictionary = dictionary ? own->of : NULL,
                               .release = schema_release,
                               .private_data = own };
    return true;
}

static const char *format_of(enum sql_type type)
{
    switch (type) {
    case SQL_INT:
        return "l";
    case SQL_REAL:
        return "g";
    case SQL_TEXT:
        return "i";
    case SQL_NULL:
        break;
    }
    return "n";
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    const struct stream *s = stream->private_data;
    bool ok = schema_new(out, "+s", "", s->columns.ncol, false);

    if (!ok)
        return ENOMEM;
    out->flags = 0;
    for (int i = 0; ok && i < s->columns.ncol; i++) {
        const struct sql_column *c = &s->columns.col[i];

        ok = schema_new(out->children[i], format_of(c->type), c->name, 0, c->type == SQL_TEXT);
        if (ok && c->type == SQL_TEXT)
            ok = schema_new(out->children[i]->dictionary, "U", "", 0, false);
    }
    if (ok)
        return 0;
    schema_release(out);
    return ENOMEM;
}

static void array_release(struct ArrowArray *a)
{
    struct array_own *own = a->private_data;

    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
    if (a->dictionary && a->dictionary->release)
        a->dictionary->release(a->dictionary);
    for (size_t i = 0; i < BUFFERS_MAX; i++)
        mem_free(own->memory[i]);
    mem_free(own->child);
    mem_free(own->of);
    mem_free(own);
    a->release = NULL;
}

static struct array_own *array_new(struct ArrowArray *a, size_t length, int64_t nbuffer, int64_t n,
                                   bool dictionary)
{
    struct array_own *own = mem_calloc(1, sizeof(*own));

    if (!own)
        return NULL;
    own->child = mem_calloc((size_t)n + 1, sizeof(*own->child));
    own->of = mem_calloc((size_t)n + 1, sizeof(*own->of));
    if (!own->child || !own->of) {
        mem_free(own->child);
        mem_free(own->of);
        mem_free(own);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        own->child[i] = &own->of[i];
    *a = (struct ArrowArray){ .length = (int64_t)length,
                              .n_buffers = nbuffer,
                              .n_children = n,
                              .buffers = own->buffer,
                              .children = own->child,
                              .dictionary = dictionary ? own->of : NULL,
                              .release = array_release,
                              .private_data = own };
    return own;
}

/* Memory of the answer becomes a buffer of the array. */
static void give(struct array_own *own, size_t i, void *p, void *field)
{
    own->buffer[i] = own->memory[i] = p;
    memset(field, 0, sizeof(p));
}

static bool give_words(struct ArrowArray *a, struct sql_words *w)
{
    struct array_own *own;

    if (!w->offset)
        w->offset = mem_calloc(1, sizeof(*w->offset));
    if (!w->bytes)
        w->bytes = mem_calloc(1, 1);
    own = w->offset && w->bytes ? array_new(a, w->n, 3, 0, false) : NULL;
    if (!own)
        return false;
    give(own, 1, w->offset, &w->offset);
    give(own, 2, w->bytes, &w->bytes);
    return true;
}

static bool give_column(struct ArrowArray *a, struct sql_column *c, size_t nrow)
{
    bool text = c->type == SQL_TEXT;
    struct array_own *own = array_new(a, nrow, c->type == SQL_NULL ? 0 : 2, 0, text);

    if (!own || (text && !give_words(a->dictionary, &c->words)))
        return false;
    a->null_count = (int64_t)(c->type == SQL_NULL ? nrow : c->nulls);
    if (c->type == SQL_NULL)
        return true;
    give(own, 0, c->valid, &c->valid);
    give(own, 1, c->data, &c->data);
    return true;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct stream *s = stream->private_data;
    size_t nrow = s->columns.nrow;
    bool ok;

    memset(out, 0, sizeof(*out));
    if (s->done || nrow == 0)
        return 0;
    ok = array_new(out, nrow, 1, s->columns.ncol, false);
    if (!ok)
        return ENOMEM;
    s->done = true; /* a failure below leaves too little to try again */
    for (int i = 0; ok && i < s->columns.ncol; i++)
        ok = give_column(out->children[i], &s->columns.col[i], nrow);
    if (ok)
        return 0;
    array_release(out);
    return ENOMEM;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "out of memory";
}

static void stream_release(struct ArrowArrayStream *stream)
{
    struct stream *s = stream->private_data;

    sql_columns_release(&s->columns);
    mem_free(s);
    stream->release = NULL;
}

int opm_trace_arrow(opm_trace *t, const char *sql, struct ArrowArrayStream *out, opm_error *err)
{
    struct stream *s;
    int rc;

    if (!t || !sql || !out)
        return opm__fail(err, OPM_EINVAL, "opm_trace_arrow: %s is NULL",
                         !t    ? "t"
                         : sql ? "out"
                               : "sql");
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    rc = sql_columns(t->sql, sql, &s->columns, err);
    if (rc < 0) {
        mem_free(s);
        return rc;
    }
    *out = (struct ArrowArrayStream){ .get_schema = get_schema,
                                      .get_next = get_next,
                                      .get_last_error = get_last_error,
                                      .release = stream_release,
                                      .private_data = s };
    return 0;
}
