/* cambricon.c -- the folder that the profiler of Cambricon's TensorFlow models writes, in both of
 * its versions; see cambricon_int.h.
 *
 * Nodes of a step come from step_stats/, else from timeline/, else from summary.json, where they
 * have durations only. */
#include "import/cambricon/cambricon_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "import/sources.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

/* Whether dir/sub has a file named after a step whose content begins as it should. */
static bool has_steps(const char *dir, const char *sub, const char *prefix, const char *holds)
{
    struct buf path = { 0 };
    struct text model;
    bool found = false;
    int64_t step;
    DIR *d;

    buf_addf(&path, "%s/%s", dir, sub);
    d = path.failed ? NULL : opendir(buf_str(&path));
    while (d && !found) {
        const struct dirent *e = readdir(d);
        uint8_t head[1024];
        size_t len = 0;

        if (!e)
            break;
        if (!cam_name_read(e->d_name, prefix, &model, &step))
            continue;
        buf_clear(&path);
        buf_addf(&path, "%s/%s/%s", dir, sub, e->d_name);
        found = !path.failed && io_head(buf_str(&path), head, sizeof(head), &len, NULL) == 0 &&
                memmem(head, len, holds, strlen(holds));
    }
    if (d)
        closedir(d);
    buf_release(&path);
    return found;
}

static bool file_holds(const char *dir, const char *name, const char *holds)
{
    struct buf path = { 0 };
    uint8_t head[IMPORT_SNIFF_MAX];
    size_t len = 0;
    bool found;

    buf_addf(&path, "%s/%s", dir, name);
    found = !path.failed && io_head(buf_str(&path), head, sizeof(head), &len, NULL) == 0 &&
            memmem(head, len, holds, strlen(holds));
    buf_release(&path);
    return found;
}

bool cambricon_sniff_dir(const char *path)
{
    return has_steps(path, "step_stats", "stats_", "dev_stats") ||
           has_steps(path, "timeline", "timeline_", "traceEvents") ||
           file_holds(path, "summary.json", "\"app_stats\"") ||
           file_holds(path, "summary.json", "\"activity_stats\"") ||
           file_holds(path, "activity_stats_collection.json", "\"start\"");
}

struct folder {
    struct cam c;
    const struct import_source *src;
    opm_error *err;
};

/* The bytes of a file, or none: then it is noted as unreadable. */
static bool file_map(struct folder *f, const char *path, struct io_map *m)
{
    uint64_t max = f->src->sources ? f->src->sources->opts->max_bytes : 0;
    opm_error err = { 0 };
    int rc = io_map(m, path, max, &err);

    if (rc == OPM_ENOMEM)
        f->c.b.rc = rc;
    else if (rc) {
        store_stat(f->c.b.st, STAT_file_unreadable, 1);
        if (import_part(f->src, path, IMPORT_FAILED, err.msg))
            f->c.b.rc = OPM_ENOMEM;
    }
    if (!rc)
        store_stat(f->c.b.st, STAT_file_truncated, m->cut);
    return rc == 0;
}

static void note(struct folder *f, const char *path, enum import_state state, const char *text)
{
    if (import_part(f->src, path, state, text))
        f->c.b.rc = OPM_ENOMEM;
}

static void step_file(struct folder *f, const char *dir, const struct cam_file *file, bool stats)
{
    struct io_map m = { 0 };
    struct buf path = { 0 };
    str_id model_id;

    buf_addf(&path, "%s/%s", dir, file->name);
    if (path.failed) {
        f->c.b.rc = OPM_ENOMEM;
    } else if (file->num < 0) {
        store_stat(f->c.b.st, STAT_file_skipped, 1);
        note(f, buf_str(&path), IMPORT_SKIPPED, "its name has no number of a step");
    } else if (file->stale) {
        store_stat(f->c.b.st, STAT_file_skipped, 1);
        note(f, buf_str(&path), IMPORT_SKIPPED,
             "left by an earlier run: the steps of the last one began later");
    } else if (file_map(f, buf_str(&path), &m)) {
        model_id = file->model.len ? build_str(&f->c.b, file->model.p, file->model.len) : 0;
        if (stats) {
            cam_read_stats(&f->c, model_id, file->num, m.data, m.len);
            note(f, buf_str(&path), IMPORT_READ, "nodes of a step");
        } else {
            struct cam_step *s = cam_step(&f->c, model_id, file->num);
            bool known = s && s->stats;

            cam_read_timeline(&f->c, model_id, file->num, m.data, m.len);
            note(f, buf_str(&path), IMPORT_READ,
                 known ? "memory; its nodes came from step_stats" : "nodes and memory of a step");
        }
    }
    io_map_release(&m);
    buf_release(&path);
}

static void step_files(struct folder *f, const char *sub, bool stats, const struct u64map *listed)
{
    struct cam_files files;
    struct buf path = { 0 };

    buf_addf(&path, "%s/%s", f->src->path, sub);
    if (cam_files_list(&files, f->src->path, sub, stats ? "stats_" : "timeline_", listed) ||
        path.failed)
        f->c.b.rc = OPM_ENOMEM;
    for (size_t i = 0; i < files.n && !f->c.b.rc; i++) {
        step_file(f, buf_str(&path), &files.item[i], stats);
        if (f->src->progress && !f->c.b.rc && f->src->progress(f->src->user, i, files.n))
            f->c.b.rc = OPM_ELIMIT;
    }
    store_stat(f->c.b.st, STAT_file_skipped, (int64_t)files.beyond);
    cam_files_release(&files);
    buf_release(&path);
}

/* The steps of the last run, as its summary has them. */
static void list_steps(struct folder *f, struct u64map *out)
{
    struct buf path = { 0 };
    struct io_map m = { 0 };

    buf_addf(&path, "%s/summary.json", f->src->path);
    if (path.failed ||
        (io_map(&m, buf_str(&path), 0, NULL) == 0 && cam_list_steps(m.data, m.len, out)))
        f->c.b.rc = OPM_ENOMEM;
    io_map_release(&m);
    buf_release(&path);
}

static void one_file(struct folder *f, const char *name, const char *use,
                     void (*read)(struct cam *, const uint8_t *, size_t))
{
    struct io_map m = { 0 };
    struct buf path = { 0 };
    struct stat st;

    buf_addf(&path, "%s/%s", f->src->path, name);
    if (path.failed)
        f->c.b.rc = OPM_ENOMEM;
    else if (!f->c.b.rc && stat(buf_str(&path), &st) == 0 && file_map(f, buf_str(&path), &m)) {
        read(&f->c, m.data, m.len);
        json_texts_clear(&f->c.texts);
        note(f, buf_str(&path), IMPORT_READ, use);
    }
    io_map_release(&m);
    buf_release(&path);
}

/* Tables that the profiler made from what was read. */
static void note_rest(struct folder *f)
{
    struct dirent **entry;
    struct buf path = { 0 };
    struct stat st;
    int n = scandir(f->src->path, &entry, visible, by_name);

    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;

        buf_clear(&path);
        buf_addf(&path, "%s/%s", f->src->path, name);
        if (!f->c.b.rc && !path.failed && stat(buf_str(&path), &st) == 0 && S_ISREG(st.st_mode) &&
            strcmp(name, "summary.json") != 0 &&
            strcmp(name, "activity_stats_collection.json") != 0)
            note(f, buf_str(&path), IMPORT_SKIPPED, "derived from the other files");
        free(entry[i]); /* scandir() allocated it */
    }
    if (n >= 0)
        free(entry);
    buf_release(&path);
}

int cambricon_read_dir(struct store *st, const struct import_source *src, opm_error *err)
{
    struct folder f = {
        .c = { .b = { .st = st, .src = src }, .app = OPM_NULL_ID, .app_untimed = OPM_NULL_ID },
        .src = src
    };
    struct u64map listed = { 0 };
    bool any;

    list_steps(&f, &listed);
    one_file(&f, "activity_stats_collection.json", "activities", cam_read_activities);
    step_files(&f, "step_stats", true, &listed);
    step_files(&f, "timeline", false, &listed);
    u64map_release(&listed);
    any = f.c.nodes || f.c.activities;
    one_file(&f, "summary.json", any ? "names, and what the other files lack" : "durations",
             cam_read_summary);
    cam_steps_end(&f.c);
    note_rest(&f);
    build_meta(&f.c.b, "source.format", "cambricon");
    /* Files with times have them since 1970. */
    if (any)
        import_set_realtime(src, 0);
    any = f.c.nodes || f.c.app != OPM_NULL_ID;
    cam_release(&f.c);
    if (f.c.b.rc)
        return build_end(&f.c.b, err);
    return any ? 0
               : opm__fail(
                     err, OPM_EFORMAT,
                     "%s: looks like a profile of Cambricon's TensorFlow models, but there is "
                     "nothing in its files",
                     src->path);
}
