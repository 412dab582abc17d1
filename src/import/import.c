/* import.c -- which importer reads a file, and reading it. */
#include "import/sources.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/content.h"
#include "base/error.h"
#include "base/nearest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const struct importer importers[] = {
#define FILE_IMPORTER(name, extension, doc, fn) \
    { name, extension, doc, .sniff = fn##_sniff, .read = fn##_read },
#define STREAM_IMPORTER(name, extension, doc, fn) \
    { name, extension, doc, .sniff = fn##_sniff, .read = fn##_read, .streams = true },
#define SUMMARY_IMPORTER(name, extension, doc, fn) \
    { name, extension, doc, .sniff = fn##_sniff, .read = fn##_read, .summary = true },
#define FOLDER_IMPORTER(name, doc, fn) \
    { name, "", doc, .sniff_dir = fn##_sniff_dir, .read_dir = fn##_read_dir },
#define PLACE_IMPORTER(name, extension, doc, fn) \
    { name,                                      \
      extension,                                 \
      doc,                                       \
      .sniff = fn##_sniff,                       \
      .read = fn##_read,                         \
      .sniff_dir = fn##_sniff_dir,               \
      .read_dir = fn##_read_dir,                 \
      .parts = fn##_parts },
#include "import/import.def"
    { .name = NULL },
};

static const struct importer *importer_of_name(const char *name, opm_error *err)
{
    struct nearest near = { name, NULL, 0 };
    char names[IMPORT_NAMES_ROOM];

    for (const struct importer *i = importers; i->name; i++) {
        if (strcmp(i->name, name) == 0)
            return i;
        nearest_try(&near, i->name);
    }
    importer_names(names);
    if (near.best)
        opm__fail(err, OPM_ENOTFOUND, "no import format '%s'; did you mean '%s'?", name, near.best);
    else
        opm__fail(err, OPM_ENOTFOUND, "no import format '%s'; there are: %s", name, names);
    return NULL;
}

const struct importer *importer_of_content(const struct sources *s, const uint8_t *data, size_t len)
{
    for (const struct importer *i = importers; i->name; i++)
        if ((!s->importer || s->importer == i) && i->sniff &&
            i->sniff(data, MIN(len, (size_t)IMPORT_SNIFF_MAX)))
            return i;
    return NULL;
}

const struct importer *importer_of_folder(const struct sources *s, const char *path)
{
    for (const struct importer *i = importers; i->name; i++)
        if ((!s->importer || s->importer == i) && i->sniff_dir && i->sniff_dir(path))
            return i;
    return NULL;
}

void importer_names(char to[IMPORT_NAMES_ROOM])
{
    size_t n = 0;

    to[0] = '\0';
    for (const struct importer *i = importers; i->name && n < IMPORT_NAMES_ROOM; i++)
        n += (size_t)snprintf(to + n, IMPORT_NAMES_ROOM - n, "%s%s", n ? ", " : "", i->name);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static int unknown_content(const char *path, const uint8_t *data, size_t len, bool packed,
                           opm_error *err)
{
    struct content known = content_of(data, len);
    char names[IMPORT_NAMES_ROOM], what[100];

    if (known.kind == CONTENT_ONNX)
        return opm__fail(err, OPM_EFORMAT,
                         "%s: an ONNX model, not a trace; 'opmeter run %s' measures it", path,
                         path);
    if (known.kind == CONTENT_MODEL)
        return opm__fail(err, OPM_EFORMAT, "%s: a model, not a trace: %s", path, known.what);
    importer_names(names);
    describe_content(data, len, what, sizeof(what));
    return opm__fail(err, OPM_EFORMAT,
                     "%s: not a trace that opmeter knows: looks like %s%s; it reads: %s", path,
                     what, packed ? ", packed" : "", names);
}

static int64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : OPM_NULL_I64;
}

/* A file that can be opened once more. */
static bool is_plain(const char *path)
{
    return file_bytes(path) != OPM_NULL_I64;
}

int source_file(struct sources *s, const char *path, enum import_state state, const char *note,
                uint32_t part_of)
{
    struct source_file *f;

    if (!GROW(s->file, s->file_cap, s->nfile + 1))
        return OPM_ENOMEM;
    f = &s->file[s->nfile];
    *f = (struct source_file){
        .path = arena_strndup(&s->strings, path, strlen(path)),
        .note = note ? arena_strndup(&s->strings, note, strlen(note)) : NULL,
        .state = state,
        .bytes = file_bytes(path),
        .part_of = part_of,
    };
    if (!f->path || (note && !f->note))
        return OPM_ENOMEM;
    s->nfile++;
    return 0;
}

/* Hand a packed file to an importer that streams. */
static int read_packed(struct sources *s, const struct importer *importer, const struct io_map *m,
                       struct import_source *src, opm_error *err)
{
    struct io_map lent = { .data = m->data, .len = m->len };
    struct io_unpack *u = NULL;
    uint8_t *head = mem_alloc(IMPORT_SNIFF_MAX);
    int rc = head ? io_unpack_open(&u, &lent, src->path, s->opts->max_bytes, err)
                  : opm__fail(err, OPM_ENOMEM, "%s: out of memory", src->path);

    if (!rc)
        rc = io_unpack_read(u, head, IMPORT_SNIFF_MAX, &src->len, err);
    io_unpack_close(u);
    u = NULL;
    if (!rc) {
        lent = (struct io_map){ .data = m->data, .len = m->len };
        rc = io_unpack_open(&u, &lent, src->path, s->opts->max_bytes, err);
    }
    if (!rc) {
        src->data = head;
        src->packed = u;
        rc = importer->read(s->st, src, err);
    }
    io_unpack_close(u);
    mem_free(head);
    return rc;
}

int source_map(struct sources *s, const struct importer *importer, const char *path,
               struct io_map *m, opm_error *err)
{
    return importer->streams ? io_map_packed(m, path, s->opts->max_bytes, err)
                             : io_map(m, path, s->opts->max_bytes, err);
}

/* *told: another file told of the run already. */
static int note_run(struct sources *s, const struct importer *importer, const char *path,
                    bool *told)
{
    const struct source_run *by;
    char id[SAME_RUN_ROOM], note[400];
    size_t source;
    bool marked;

    *told = false;
    if (same_run_mark(importer, path, id, &marked))
        return OPM_ENOMEM;
    if (!marked)
        return 0;
    by = same_run_told(s, id);
    if (!by)
        return same_run_tell(s, id, path, s->n);
    *told = true;
    source = by->source;
    snprintf(note, sizeof(note), "tells of the same run as %s", by->path);
    if (same_run_tell(s, id, path, source))
        return OPM_ENOMEM;
    return source_file(s, path, IMPORT_SKIPPED, note, OPM_NULL_ID);
}

static bool is_left_out(const struct import_captures *c, const char *path)
{
    for (size_t i = 0; c && c->left_out && i < c->n; i++)
        if (strcmp(c->path[i], path) == 0)
            return true;
    return false;
}

int source_read(struct sources *s, const struct importer *importer, const char *path,
                const struct io_map *m, opm_error *err)
{
    struct import_source src = { .path = path,
                                 .index = (int)s->n,
                                 .count = (int)s->n + 1,
                                 .progress = s->opts->progress,
                                 .user = s->opts->user,
                                 .sources = s };
    struct source *item;
    bool told;
    int rc;

    if (is_left_out(s->opts->captures, path))
        return source_file(s, path, IMPORT_READ,
                           "a capture of graphs, for operators of kernels of replays", OPM_NULL_ID)
                   ? opm__fail(err, OPM_ENOMEM, "%s: out of memory", path)
                   : 0;
    rc = note_run(s, importer, path, &told);

    if (rc || told)
        return rc ? opm__fail(err, rc, "%s: out of memory", path) : 0;
    if (s->n >= INT32_MAX || !GROW(s->item, s->cap, s->n + 1))
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    item = &s->item[s->n++];
    *item = (struct source){
        .path = arena_strndup(&s->strings, path, strlen(path)),
        .format = importer->name,
        .bytes = file_bytes(path),
        .instance = OPM_NULL_I64,
        .rank = OPM_NULL_I64,
        .clock = { .realtime_ns = OPM_NULL_I64 },
    };
    if (!item->path)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    store_part_begin(s->st, &item->part);
    if (m && io_is_packed(m) && importer->streams) {
        rc = read_packed(s, importer, m, &src, err);
    } else if (m) {
        src.data = m->data;
        src.len = m->len;
        src.cut = m->cut;
        rc = importer->read(s->st, &src, err);
    } else {
        rc = importer->read_dir(s->st, &src, err);
    }
    rc = budget_fail(budget_current(), path, rc, err);
    store_part_end(s->st, &s->item[src.index].part);
    if (rc)
        s->item[src.index].state = IMPORT_FAILED;
    return rc;
}

/* The importer of what is packed in m, found from the first of it alone: what nobody reads is not
 * unpacked. */
static int packed_content(struct sources *s, const char *path, const struct io_map *m,
                          const struct importer **out, opm_error *err)
{
    struct io_map lent = { .data = m->data, .len = m->len };
    uint8_t *head = mem_alloc(IMPORT_SNIFF_MAX);
    struct io_unpack *u = NULL;
    size_t len = 0;
    int rc = head ? io_unpack_open(&u, &lent, path, 0, err)
                  : opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);

    if (!rc)
        rc = io_unpack_read(u, head, IMPORT_SNIFF_MAX, &len, err);
    if (!rc) {
        *out = importer_of_content(s, head, len);
        if (!*out)
            rc = unknown_content(path, head, len, true, err);
    }
    io_unpack_close(u);
    mem_free(head);
    return rc;
}

/* The importer of what m holds, packed or not. */
static int content_importer(struct sources *s, const char *path, const struct io_map *m,
                            const struct importer **out, opm_error *err)
{
    if (io_is_packed(m))
        return packed_content(s, path, m, out, err);
    *out = importer_of_content(s, m->data, m->len);
    return *out ? 0 : unknown_content(path, m->data, m->len, false, err);
}

struct stream {
    struct sources *s;
    const char *path;
};

/* A stream that nobody will read is left where it is. */
static int stream_judge(void *user, const struct io_map *head, opm_error *err)
{
    const struct stream *stream = user;
    const struct importer *importer;

    return content_importer(stream->s, stream->path, head, &importer, err);
}

int source_put_later(struct sources *s, const struct importer *importer, const char *path,
                     bool named)
{
    const char *copy = arena_strndup(&s->strings, path, strlen(path));

    if (!copy || !GROW(s->later, s->later_cap, s->nlater + 1))
        return OPM_ENOMEM;
    s->later[s->nlater++] = (struct source_later){ copy, importer, named };
    return 0;
}

int source_failed(struct sources *s, const char *path, int rc, const opm_error *why)
{
    struct source *last = s->n ? &s->item[s->n - 1] : NULL;

    if (rc == OPM_ENOMEM || rc == OPM_ELIMIT)
        return rc;
    store_stat(s->st, STAT_file_unreadable, 1);
    if (!last || last->state != IMPORT_FAILED || last->note || strcmp(last->path, path) != 0)
        return source_file(s, path, IMPORT_FAILED, why->msg, OPM_NULL_ID);
    last->note = arena_strndup(&s->strings, why->msg, strlen(why->msg));
    return last->note ? 0 : OPM_ENOMEM;
}

static int read_later(struct sources *s, opm_error *err)
{
    opm_error first = { 0 };
    size_t read = 0;
    int rc = 0;

    for (size_t i = 0; i < s->n; i++)
        read += s->item[i].state == IMPORT_READ;
    for (size_t i = 0; i < s->nlater && !rc; i++) {
        const struct source_later *l = &s->later[i];
        struct io_map m = { 0 };

        rc = source_map(s, l->importer, l->path, &m, err);
        if (!rc)
            rc = source_read(s, l->importer, l->path, &m, err);
        io_map_release(&m);
        rc = budget_fail(budget_current(), l->path, rc, err);
        read += !rc;
        if (!rc || l->named)
            continue;
        if (!first.code)
            first = *err;
        rc = source_failed(s, l->path, rc, err);
    }
    if (rc || read || !first.code)
        return rc;
    *err = first;
    return err->code;
}

int import_file(struct sources *s, const char *path, opm_error *err)
{
    const struct importer *importer = s->importer;
    struct io_judge judge = { stream_judge, &(struct stream){ s, path } };
    struct io_map m = { 0 };
    int rc;

    rc = io_map_judged(&m, path, s->opts->max_bytes, importer ? NULL : &judge, err);
    if (rc < 0)
        return rc;
    if (!importer && ends_with(path, ".opm-live")) {
        io_map_release(&m);
        return opm__fail(err, OPM_EFORMAT,
                         "%s: this is the live buffer of a recording; open '%.*s' instead", path,
                         (int)(strlen(path) - strlen("-live")), path);
    }
    if (!importer)
        rc = content_importer(s, path, &m, &importer, err);
    if (rc == 0 && !importer->read)
        rc = opm__fail(err, OPM_EFORMAT, "%s: '%s' is read from a folder, and this is a file", path,
                       importer->name);
    if (rc == 0 && importer->summary && is_plain(path)) {
        rc = source_put_later(s, importer, path, true);
        io_map_release(&m);
        return rc ? opm__fail(err, rc, "%s: out of memory", path) : 0;
    }
    if (rc == 0 && !importer->streams)
        rc = io_map_unpack(&m, path, s->opts->max_bytes, err);
    if (rc == 0)
        rc = source_read(s, importer, path, &m, err);
    io_map_release(&m);
    return budget_fail(budget_current(), path, rc, err);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *import_detect(const char *path)
{
    const struct sources any = { 0 };
    const struct importer *importer = NULL;
    uint8_t head[IMPORT_SNIFF_MAX];
    size_t len;

    if (is_folder(path))
        importer = importer_of_folder(&any, path);
    else if (!ends_with(path, ".opm-live") && io_head(path, head, sizeof(head), &len, NULL) == 0)
        importer = importer_of_content(&any, head, len);
    return importer ? importer->name : NULL;
}

/* Passes on to whoever wants to know how far we are, and sees to the time. */
static int tick(void *user, uint64_t done, uint64_t total)
{
    const struct import_options *asked = user;

    if (!budget_time(budget_current()))
        return 1;
    return asked->progress ? asked->progress(asked->user, done, total) : 0;
}

void import_captures_release(struct import_captures *c)
{
    for (size_t i = 0; i < c->n; i++)
        mem_free((void *)(uintptr_t)c->path[i]);
    mem_free(c->path);
    *c = (struct import_captures){ 0 };
}

/* Captures among the sources, if another one replays graphs. */
static int note_captures(const struct sources *s)
{
    struct import_captures *c = s->opts->captures;
    bool replays = false;

    for (size_t i = 0; i < s->n; i++)
        replays |= s->item[i].replays && s->item[i].state == IMPORT_READ;
    for (size_t i = 0; i < s->n; i++) /* a pipe cannot be read again */
        replays &= s->item[i].bytes != OPM_NULL_I64 || is_folder(s->item[i].path);
    for (size_t i = 0; c && !c->left_out && replays && i < s->n; i++) {
        char *copy;

        if (!s->item[i].captures || s->item[i].state != IMPORT_READ)
            continue;
        copy = mem_strdup(s->item[i].path);
        if (!copy || !GROW(c->path, c->cap, c->n + 1)) {
            mem_free(copy);
            return OPM_ENOMEM;
        }
        c->path[c->n++] = copy;
    }
    return 0;
}

int import_all(struct store *st, const char *const *paths, size_t npaths,
               const struct import_options *opts, opm_error *err)
{
    struct import_options timed = { opts->format, opts->max_bytes, tick, (void *)(uintptr_t)opts,
                                    opts->captures };
    struct sources s = { .st = st, .opts = &timed };
    opm_error local;
    int rc = 0;

    if (!err)
        err = &local;

    if (opts->format) {
        s.importer = importer_of_name(opts->format, err);
        if (!s.importer)
            return OPM_ENOTFOUND;
    }
    for (size_t i = 0; i < npaths && rc == 0; i++)
        rc =
            is_folder(paths[i]) ? import_folder(&s, paths[i], err) : import_file(&s, paths[i], err);
    if (rc == 0)
        rc = read_later(&s, err);
    if (rc == 0 && (note_captures(&s) || sources_align(&s)))
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    mem_free(s.item);
    mem_free(s.file);
    mem_free(s.thread);
    mem_free(s.later);
    mem_free(s.run);
    arena_release(&s.strings);
    return rc;
}

static struct source *source_of(const struct import_source *src)
{
    return src->sources ? &src->sources->item[src->index] : NULL;
}

void import_set_graphs(const struct import_source *src, bool captures, bool replays)
{
    struct source *s = source_of(src);

    if (!s)
        return;
    s->captures = captures && !replays;
    s->replays = replays;
}

void import_set_realtime(const struct import_source *src, int64_t unix_ns)
{
    struct source *s = source_of(src);

    if (s)
        s->clock.realtime_ns = unix_ns;
}

void import_set_monotonic(const struct import_source *src, const char *boot, int64_t ns)
{
    struct source *s = source_of(src);

    if (!s)
        return;
    s->clock.boot = arena_strndup(&src->sources->strings, boot, strlen(boot));
    s->clock.monotonic_ns = ns;
}

/* Farther than this off, a counter is not what it says: stopped in between, or the file is damaged.
 * A first guess at the rate is good to a tenth of a percent. */
#define TICKS_OFF_NS 1e6
#define TICKS_OFF_SHARE 2e-3

static bool ticks_agree(const struct import_ticks *a, const struct import_ticks *b)
{
    double ticks = (double)(int64_t)(b->first - a->first);
    double ns = (double)(int64_t)((uint64_t)b->first_ns - (uint64_t)a->first_ns);

    return a->counter == b->counter && fabs(b->rate / a->rate - 1) < TICKS_OFF_SHARE &&
           fabs(ticks * a->rate - ns) < TICKS_OFF_NS + TICKS_OFF_SHARE * fabs(ns);
}

bool import_set_ticks(const struct import_source *src, const struct import_ticks *ticks,
                      struct import_ticks *out)
{
    struct source *s = source_of(src);

    if (!s || !s->clock.boot || !(ticks->rate > 0))
        return false;
    s->clock.ticks = *ticks;
    s->clock.leader = (size_t)src->index;
    for (size_t i = 0; i < (size_t)src->index; i++) {
        const struct source *other = &src->sources->item[i];

        if (other->clock.ticks.rate > 0 && other->clock.leader == i &&
            strcmp(other->clock.boot, s->clock.boot) == 0 &&
            ticks_agree(&other->clock.ticks, ticks)) {
            s->clock.leader = i;
            *out = other->clock.ticks;
            return true;
        }
    }
    return false;
}

uint32_t import_thread_track(const struct import_source *src, const struct import_thread *t)
{
    const struct sources *all = src->sources;

    for (size_t i = 0; all && i < all->nthread; i++) {
        const struct source_thread *other = &all->thread[i];

        if (other->tid == t->tid && strcmp(other->process, t->process) == 0 &&
            memcmp(other->recording, t->recording, sizeof(other->recording)) != 0)
            return other->track;
    }
    return OPM_NULL_ID;
}

int import_thread_add(const struct import_source *src, const struct import_thread *t,
                      uint32_t track)
{
    struct sources *all = src->sources;
    struct source_thread *item;

    if (!all)
        return 0;
    if (!GROW(all->thread, all->thread_cap, all->nthread + 1))
        return OPM_ENOMEM;
    item = &all->thread[all->nthread];
    *item = (struct source_thread){
        .process = arena_strndup(&all->strings, t->process, strlen(t->process)),
        .tid = t->tid,
        .track = track,
    };
    memcpy(item->recording, t->recording, sizeof(item->recording));
    if (!item->process)
        return OPM_ENOMEM;
    all->nthread++;
    return 0;
}

void import_set_instance(const struct import_source *src, int64_t instance)
{
    struct source *s = source_of(src);

    if (s)
        s->instance = instance;
}

void import_set_rank(const struct import_source *src, int64_t rank)
{
    struct source *s = source_of(src);

    if (s)
        s->rank = rank;
}

int import_meta(struct store *st, const struct import_source *src, const char *key,
                const char *value)
{
    struct buf prefixed = { 0 };
    int rc;

    if (!src->index || (strncmp(key, "record.", 7) == 0 && !store_meta_get(st, key)))
        return store_meta(st, key, value);
    buf_addf(&prefixed, "file%d.%s", src->index, key);
    rc = prefixed.failed ? OPM_ENOMEM : store_meta(st, buf_str(&prefixed), value);
    buf_release(&prefixed);
    return rc;
}

int import_part(const struct import_source *src, const char *path, enum import_state state,
                const char *note)
{
    if (!src->sources)
        return 0;
    return source_file(src->sources, path, state, note, (uint32_t)src->index);
}

int import_note(const struct import_source *src, const char *note)
{
    struct source *s = source_of(src);

    if (!s)
        return 0;
    s->note = arena_strndup(&src->sources->strings, note, strlen(note));
    return s->note ? 0 : OPM_ENOMEM;
}
