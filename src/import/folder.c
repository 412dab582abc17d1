/* folder.c -- a folder as a trace: as the one profile that some importer knows it to be, or all
 * files in it that are traces, as if each had been named.
 *
 * A folder that `opmeter run` wrote is its recordings only: the other files say the same again. */
#include "import/sources.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 8       /* of folders in folders */
#define ENTRIES_MAX 20000 /* looked at in all */

struct seen {
    dev_t dev;
    ino_t ino;
};

/* What is to be read once all of the folder was seen. */
struct found {
    const struct importer *importer;
    const char *path;
    bool folder;
};

struct walk {
    struct sources *s;
    const char *top;
    size_t entries;
    size_t read, failed;
    struct found *found;
    size_t nfound, found_cap;
    struct seen *seen; /* folders and files: links may lead to them again */
    size_t nseen, seen_cap;
    char first[300]; /* the first file that is nothing we know */
    opm_error first_failure;
};

/* True if it was there before. */
static int seen_before(struct walk *w, const struct stat *st, bool *out)
{
    *out = false;
    for (size_t i = 0; i < w->nseen; i++)
        *out |= w->seen[i].dev == st->st_dev && w->seen[i].ino == st->st_ino;
    if (*out)
        return 0;
    if (!GROW(w->seen, w->seen_cap, w->nseen + 1))
        return OPM_ENOMEM;
    w->seen[w->nseen++] = (struct seen){ st->st_dev, st->st_ino };
    return 0;
}

/* Natural order, so that rank10 comes behind rank9, and 12.opm before what goes with it, such as
 * 12.cuda.opm: the first file of a trace speaks for all. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    const char *x = (*a)->d_name, *y = (*b)->d_name;
    size_t stem = strcspn(x, ".");

    if (strcspn(y, ".") == stem && memcmp(x, y, stem) == 0) {
        bool plain_x = x[stem] && !strchr(x + stem + 1, '.');
        bool plain_y = y[stem] && !strchr(y + stem + 1, '.');

        if (plain_x != plain_y)
            return plain_x ? -1 : 1;
    }
    return strverscmp(x, y);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static bool exists(const char *dir, const char *name)
{
    struct buf path = { 0 };
    struct stat st;
    bool found;

    buf_addf(&path, "%s/%s", dir, name);
    found = !path.failed && stat(buf_str(&path), &st) == 0 && S_ISREG(st.st_mode);
    buf_release(&path);
    return found;
}

/* What `opmeter run` left in a folder: a recording, maybe merged of those of instances in folders
 * below it. */
enum beside { NO_RECORDING, RECORDING, RECORDING_OF_ALL };

static enum beside run_folder(const char *path)
{
    bool own = exists(path, "trace.opm"), instances = exists(path, "instance_0/trace.opm");

    return own && instances ? RECORDING_OF_ALL : own || instances ? RECORDING : NO_RECORDING;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static int skip(struct walk *w, const char *path, const char *note)
{
    store_stat(w->s->st, STAT_file_skipped, 1);
    return source_file(w->s, path, IMPORT_SKIPPED, note, OPM_NULL_ID);
}

/* Beside a recording: what `opmeter run` wrote there is no loss worth counting. */
static int skip_derived(struct walk *w, const char *path)
{
    static const char *const names[] = { "trace.json", "operators.csv", "operators.xlsx",
                                         "summary.json", "summary.md" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(strrchr(path, '/') + 1, names[i]) == 0)
            return source_file(w->s, path, IMPORT_SKIPPED, "derived from the recording",
                               OPM_NULL_ID);
    return skip(w, path, "the folder holds a recording");
}

/* A file that can't be read does not keep the others from being read. */
static int note_failure(struct walk *w, const char *path, int rc, const opm_error *why)
{
    if (rc != OPM_ENOMEM && rc != OPM_ELIMIT && !w->failed++)
        w->first_failure = *why;
    return source_failed(w->s, path, rc, why);
}

static int take(struct walk *w, const struct importer *importer, const char *path, bool folder)
{
    const char *copy = arena_strndup(&w->s->strings, path, strlen(path));

    if (!copy || !GROW(w->found, w->found_cap, w->nfound + 1))
        return OPM_ENOMEM;
    w->found[w->nfound++] = (struct found){ importer, copy, folder };
    return 0;
}

struct parts {
    struct walk *w;
    const struct importer *importer;
};

static int take_part(void *ctx, const char *path)
{
    const struct parts *p = ctx;

    return take(p->w, p->importer, path, true);
}

static int read_found(struct walk *w, const struct found *f, opm_error *err)
{
    struct io_map m = { 0 };
    int rc;

    if (f->importer->summary) {
        w->read++;
        return source_put_later(w->s, f->importer, f->path, false);
    }
    rc = f->folder ? 0 : source_map(w->s, f->importer, f->path, &m, err);
    if (rc == 0)
        rc = source_read(w->s, f->importer, f->path, f->folder ? NULL : &m, err);
    io_map_release(&m);
    rc = budget_fail(budget_current(), f->path, rc, err);
    if (rc)
        return note_failure(w, f->path, rc, err);
    w->read++;
    return 0;
}

/* Recordings first: what else tells of a run was made of them and holds less. */
static int read_all(struct walk *w, opm_error *err)
{
    int rc = 0;

    for (int recordings = 1; recordings >= 0; recordings--)
        for (size_t i = 0; i < w->nfound && rc == 0; i++)
            if ((w->found[i].importer->read == opm_read) == recordings)
                rc = read_found(w, &w->found[i], err);
    return rc;
}

static int take_file(struct walk *w, const char *path, opm_error *err)
{
    uint8_t head[IMPORT_SNIFF_MAX];
    const struct importer *importer;
    char what[100], note[160];
    size_t len;
    int rc;

    if (ends_with(path, ".opm-live"))
        return source_file(w->s, path, IMPORT_SKIPPED, "the live buffer of the recording beside it",
                           OPM_NULL_ID);
    rc = io_head(path, head, sizeof(head), &len, err);
    if (rc)
        return note_failure(w, path, rc, err);
    importer = importer_of_content(w->s, head, len);
    if (importer && importer->read)
        return take(w, importer, path, false);
    describe_content(head, len, what, sizeof(what));
    if (!w->first[0])
        snprintf(w->first, sizeof(w->first), "%s is %s", path + strlen(w->top) + 1, what);
    snprintf(note, sizeof(note), "not a trace that opmeter knows: %s", what);
    return skip(w, path, note);
}

static int walk_folder(struct walk *w, const char *path, int depth, opm_error *err);

static int take_entry(struct walk *w, const char *path, enum beside beside, int depth,
                      opm_error *err)
{
    struct stat st;
    bool again;

    if (++w->entries > ENTRIES_MAX)
        return opm__fail(err, OPM_ELIMIT,
                         "%s: more than %d files; name the traces, or a folder with fewer", w->top,
                         ENTRIES_MAX);
    if (stat(path, &st) < 0)
        return skip(w, path, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return skip(w, path, "neither a file nor a folder");
    if (S_ISREG(st.st_mode) && beside != NO_RECORDING && !ends_with(path, "/trace.opm"))
        return skip_derived(w, path);
    if (S_ISDIR(st.st_mode) && beside == RECORDING_OF_ALL)
        return source_file(w->s, path, IMPORT_SKIPPED, "the recording beside it has it all",
                           OPM_NULL_ID);
    if (seen_before(w, &st, &again))
        return OPM_ENOMEM;
    if (again)
        return skip(w, path, "the same as one before");
    if (S_ISREG(st.st_mode))
        return take_file(w, path, err);
    if (depth == DEPTH_MAX)
        return skip(w, path, "folders in it are nested too deeply");
    return walk_folder(w, path, depth + 1, err);
}

static int walk_folder(struct walk *w, const char *path, int depth, opm_error *err)
{
    const struct importer *importer = importer_of_folder(w->s, path);
    enum beside beside = run_folder(path);
    struct dirent **entry;
    struct buf name = { 0 };
    int rc = 0, n;

    if (importer && importer->parts) {
        struct parts parts = { w, importer };

        rc = importer->parts(path, take_part, &parts, err);
        return rc && depth ? note_failure(w, path, rc, err) : rc;
    }
    if (importer)
        return take(w, importer, path, true);
    n = scandir(path, &entry, visible, by_name);
    if (n < 0) {
        rc =
            opm__fail(err, errno == ENOMEM ? OPM_ENOMEM : OPM_EIO, "%s: %s", path, strerror(errno));
        return depth ? note_failure(w, path, rc, err) : rc;
    }
    for (int i = 0; i < n; i++) {
        if (rc == 0) {
            buf_clear(&name);
            buf_addf(&name, "%s/%s", path, entry[i]->d_name);
            rc = name.failed ? OPM_ENOMEM : take_entry(w, buf_str(&name), beside, depth, err);
        }
        free(entry[i]); /* scandir() allocated it */
    }
    free(entry);
    buf_release(&name);
    return rc;
}

int import_folder(struct sources *s, const char *path, opm_error *err)
{
    size_t len = strlen(path);
    char *top = mem_strdup(path);
    struct walk w = { .s = s, .top = top };
    char names[IMPORT_NAMES_ROOM];
    struct stat st;
    bool again;
    int rc = OPM_ENOMEM;

    while (top && len > 1 && top[len - 1] == '/')
        top[--len] = '\0';
    if (top && (stat(top, &st) < 0 || seen_before(&w, &st, &again) == 0))
        rc = walk_folder(&w, top, 0, err);
    if (rc == 0)
        rc = read_all(&w, err);
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "%s: out of memory", path);
    if (rc == 0 && !w.read && w.failed) {
        *err = w.first_failure;
        rc = err->code;
    } else if (rc == 0 && !w.read) {
        importer_names(names);
        rc = w.first[0]
                 ? opm__fail(err, OPM_EFORMAT,
                             "%s: nothing in this folder is a trace that opmeter knows (%s); "
                             "it reads: %s",
                             path, w.first, names)
                 : opm__fail(err, OPM_EFORMAT,
                             "%s: there is no file in this folder; it should hold traces", path);
    }
    mem_free(w.found);
    mem_free(w.seen);
    mem_free(top);
    return rc;
}
