/* mindspore.c -- a folder that the MindSpore profiler wrote: raw, parsed or both; see
 * mindspore_int.h.
 *
 * The files of one device say the same things several times over. For each topic the best kind of
 * file is read, and the table source says of every file what it was used for, or why it was not. */
#include "import/mindspore/mindspore_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "import/sources.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 4
#define FILES_MAX 20000
#define DEVICES_MAX 4096

static const struct kind {
    enum ms_topic topic;
    const char *pattern;
    ms_reader *read;
    const char *use;
    bool sign;
} kinds[] = {
#define SIGN true
#define NONE false
#define X(topic, pattern, reader, use, sign) { topic, pattern, reader, use, sign },
#include "import/mindspore/mindspore_files.def"
#undef X
#undef SIGN
#undef NONE
};

/* Folders inside that belong to the profile. */
static const char *const inner[] = { "data",     "ASCEND_PROFILER_OUTPUT",    "PROF_*", "device_*",
                                     "timeline", "mindstudio_profiler_output" };

struct numbers {
    int64_t device; /* MS_NONE: the name has none */
    int64_t other[2];
};

static bool match(const char *p, const char *s, size_t len, struct numbers *n, int nother)
{
    for (; *p; p++) {
        if (*p == '*') {
            for (size_t skip = 0; skip <= len; skip++)
                if (match(p + 1, s + skip, len - skip, n, nother))
                    return true;
            return false;
        }
        if (*p == '@' || *p == '#') {
            uint64_t v;
            size_t digits = 0;

            while (digits < len && s[digits] >= '0' && s[digits] <= '9')
                digits++;
            if (!text_u64((struct text){ s, digits }, &v) || v > INT32_MAX)
                return false;
            if (*p == '@')
                n->device = (int64_t)v;
            else if (nother < 2)
                n->other[nother++] = (int64_t)v;
            s += digits;
            len -= digits;
            continue;
        }
        if (!len || *s != *p)
            return false;
        s++;
        len--;
    }
    return len == 0;
}

/* Whether a name, packed or not, is of a kind. */
static bool is_kind(const struct kind *k, const char *name, struct numbers *n)
{
    size_t len = strlen(name);

    if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
        len -= 3;
    else if (len > 4 && strcmp(name + len - 4, ".zst") == 0)
        len -= 4;
    *n = (struct numbers){ MS_NONE, { 0, 0 } };
    return match(k->pattern, name, len, n, 0);
}

struct file {
    char *path;
    const char *name; /* within path */
    struct numbers n;
    bool known; /* of some kind */
    bool noted; /* in the table source */
};

struct folder {
    struct ms m;
    const struct import_source *src;
    struct file *file;
    size_t n, cap;
    struct ms_device *device;
    size_t ndevice, device_cap;
    const char *reason; /* of the topic in hand: which file had it */
    uint64_t bytes, done;
};

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static bool is_inner(const char *name)
{
    struct numbers n;

    for (size_t i = 0; i < ARRAY_SIZE(inner); i++)
        if (match(inner[i], name, strlen(name), &n, 0))
            return true;
    return false;
}

/* Whether a folder has a file that only the profiler writes. */
static bool has_sign(const char *path, int depth)
{
    DIR *dir = opendir(path);
    bool found = false;
    struct numbers n;

    while (dir && !found) {
        const struct dirent *e = readdir(dir);

        if (!e)
            break;
        for (size_t i = 0; i < ARRAY_SIZE(kinds) && !found; i++)
            found = kinds[i].sign && is_kind(&kinds[i], e->d_name, &n);
        if (!found && depth < DEPTH_MAX && e->d_name[0] != '.' && is_inner(e->d_name)) {
            struct buf inside = { 0 };

            buf_addf(&inside, "%s/%s", path, e->d_name);
            found = !inside.failed && has_sign(buf_str(&inside), depth + 1);
            buf_release(&inside);
        }
        /* What newer versions write has plainer names. */
        if (!found && strcmp(e->d_name, "kernel_details.csv") == 0) {
            struct buf inside = { 0 };
            uint8_t head[1024];
            size_t len = 0;

            buf_addf(&inside, "%s/%s", path, e->d_name);
            found = !inside.failed &&
                    io_head(buf_str(&inside), head, sizeof(head), &len, NULL) == 0 &&
                    memmem(head, len, "Accelerator Core", strlen("Accelerator Core"));
            buf_release(&inside);
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

bool mindspore_sniff_dir(const char *path)
{
    return has_sign(path, 0);
}

static int file_add(struct folder *f, const char *path, const char *name)
{
    struct file *new;

    if (f->n >= FILES_MAX)
        return OPM_ELIMIT;
    if (!GROW(f->file, f->cap, f->n + 1))
        return OPM_ENOMEM;
    new = &f->file[f->n];
    *new = (struct file){ .path = mem_strdup(path), .n = { MS_NONE, { 0, 0 } } };
    if (!new->path)
        return OPM_ENOMEM;
    new->name = new->path + strlen(path) - strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(kinds) && !new->known; i++)
        new->known = is_kind(&kinds[i], name, &new->n);
    f->n++;
    return 0;
}

static int files_find(struct folder *f, const char *path, int depth)
{
    struct dirent **entry;
    struct buf name = { 0 };
    struct stat st;
    int rc = 0, n = scandir(path, &entry, visible, by_name);

    if (n < 0)
        return depth ? 0 : OPM_EIO;
    for (int i = 0; i < n; i++) {
        buf_clear(&name);
        buf_addf(&name, "%s/%s", path, entry[i]->d_name);
        if (rc == 0 && name.failed)
            rc = OPM_ENOMEM;
        if (rc == 0 && stat(buf_str(&name), &st) == 0) {
            if (S_ISREG(st.st_mode))
                rc = file_add(f, buf_str(&name), entry[i]->d_name);
            else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX && is_inner(entry[i]->d_name))
                rc = files_find(f, buf_str(&name), depth + 1);
        }
        free(entry[i]); /* scandir() allocated it */
    }
    free(entry);
    buf_release(&name);
    return rc;
}

static struct ms_device *device_of(struct folder *f, int64_t id)
{
    for (size_t i = 0; i < f->ndevice; i++)
        if (f->device[i].id == id)
            return &f->device[i];
    return NULL;
}

static int device_add(struct folder *f, int64_t id)
{
    struct ms_device *d;

    if (device_of(f, id))
        return 0;
    if (f->ndevice >= DEVICES_MAX)
        return OPM_ELIMIT;
    if (!GROW(f->device, f->device_cap, f->ndevice + 1))
        return OPM_ENOMEM;
    d = &f->device[f->ndevice++];
    *d = (struct ms_device){ .id = id, .origin_ns = MS_NONE };
    for (size_t i = 0; i < f->n; i++) {
        const struct file *file = &f->file[i];

        if (file->n.device == id && file->known && strncmp(file->name, "gpu_", 4) == 0)
            d->kind = "GPU";
        if (file->n.device == id && file->known && strncmp(file->name, "cpu_", 4) == 0 && !d->kind)
            d->kind = "CPU";
    }
    return 0;
}

static int by_id(const void *va, const void *vb)
{
    const struct ms_device *a = va, *b = vb;

    return a->id < b->id ? -1 : a->id > b->id;
}

/* A number in the name of the folder, "rank_3_2024...", else 0. */
static int64_t rank_of(const char *path)
{
    const char *at = strstr(path, "rank_");
    uint64_t v;

    for (const char *next = at; next; next = strstr(next + 1, "rank_"))
        at = next;
    return at && text_u64((struct text){ at + 5, strlen(at + 5) }, &v) && v <= INT32_MAX
               ? (int64_t)v
               : 0;
}

/* Files without a number belong to the only device there is. */
static int devices_find(struct folder *f)
{
    bool unnumbered = false;
    int rc = 0;

    for (size_t i = 0; i < f->n && rc == 0; i++) {
        if (f->file[i].known && f->file[i].n.device != MS_NONE)
            rc = device_add(f, f->file[i].n.device);
        unnumbered |= f->file[i].known && f->file[i].n.device == MS_NONE;
    }
    if (rc == 0 && unnumbered && !f->ndevice)
        rc = device_add(f, rank_of(f->src->path));
    for (size_t i = 0; i < f->n && f->ndevice; i++)
        if (f->file[i].known && f->file[i].n.device == MS_NONE)
            f->file[i].n.device = f->device[0].id;
    if (f->ndevice)
        qsort(f->device, f->ndevice, sizeof(*f->device), by_id);
    return rc;
}

static int note(struct folder *f, struct file *file, enum import_state state, const char *text)
{
    if (file->noted)
        return 0;
    file->noted = true;
    return import_part(f->src, file->path, state, text);
}

static int note_failed(struct folder *f, struct file *file, int rc, const opm_error *why)
{
    if (rc == OPM_ENOMEM || rc == OPM_ELIMIT)
        return rc;
    store_stat(f->m.st, STAT_file_unreadable, 1);
    return note(f, file, IMPORT_FAILED, why->msg);
}

/* The bytes of pieces that belong together, one after the other. */
static int read_joined(struct folder *f, const struct kind *k, struct ms_device *d,
                       struct file **piece, size_t n)
{
    struct io_map first = { 0 };
    struct buf all = { 0 };
    opm_error err = { 0 };
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct io_map m = { 0 };
        uint64_t max = f->src->sources ? f->src->sources->opts->max_bytes : 0;

        rc = io_map(&m, piece[i]->path, max, &err);
        if (rc) {
            rc = note_failed(f, piece[i], rc, &err);
            continue;
        }
        store_stat(f->m.st, STAT_file_truncated, m.cut);
        if (n == 1) {
            first = m;
            continue;
        }
        buf_add(&all, m.data, m.len);
        rc = all.failed ? OPM_ENOMEM : 0;
        io_map_release(&m);
    }
    f->m.path = piece[0]->path;
    if (!rc && first.data)
        rc = k->read(&f->m, d, first.data, first.len);
    else if (!rc && all.len)
        rc = k->read(&f->m, d, (const uint8_t *)all.data, all.len);
    json_texts_clear(&f->m.texts);
    if (!rc && f->m.texts.failed)
        rc = OPM_ENOMEM;
    io_map_release(&first);
    buf_release(&all);
    return rc;
}

static int by_piece(const void *va, const void *vb)
{
    const struct file *a = *(struct file *const *)va, *b = *(struct file *const *)vb;

    for (int i = 0; i < 2; i++)
        if (a->n.other[i] != b->n.other[i])
            return a->n.other[i] < b->n.other[i] ? -1 : 1;
    return strverscmp(a->path, b->path);
}

/* Read all files of a kind that belong to a device. */
static int read_kind(struct folder *f, const struct kind *k, struct ms_device *d)
{
    bool joined = strstr(k->pattern, "slice_#") != NULL;
    struct file **piece = mem_calloc(f->n + 1, sizeof(struct file *));
    struct numbers n;
    size_t count = 0;
    int rc = piece ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < f->n && rc == 0; i++)
        if (is_kind(k, f->file[i].name, &n) && f->file[i].n.device == d->id) {
            piece[count] = &f->file[i];
            memcpy(piece[count++]->n.other, n.other, sizeof(n.other));
        }
    if (count)
        qsort(piece, count, sizeof(struct file *), by_piece);
    d->added = 0;
    if (rc == 0 && joined && count)
        rc = read_joined(f, k, d, piece, count);
    for (size_t i = 0; i < count && !joined && rc == 0; i++)
        rc = read_joined(f, k, d, &piece[i], 1);
    for (size_t i = 0; i < count && rc == 0 && d->added; i++)
        rc = note(f, piece[i], IMPORT_READ, k->use);
    if (d->added && k->topic != MS_EXTRA && count)
        f->reason = piece[0]->name;
    mem_free(piece);
    return rc;
}

/* What is left of a topic that another kind of file has told about. */
static int skip_kind(struct folder *f, const struct kind *k, const struct ms_device *d)
{
    struct buf why = { 0 };
    struct numbers n;
    int rc = 0;

    if (k->topic == MS_AVERAGES)
        buf_addf(&why, "not needed: %s follow from the single executions", k->use);
    else
        buf_addf(&why, "not needed: %s came from %s", k->use, f->reason);
    for (size_t i = 0; i < f->n && rc == 0; i++) {
        struct file *file = &f->file[i];
        bool other = false;

        if (file->noted || file->n.device != d->id || !is_kind(k, file->name, &n))
            continue;
        /* A file may be of two kinds. */
        for (size_t j = 0; j < ARRAY_SIZE(kinds); j++)
            other |= kinds[j].topic > k->topic && is_kind(&kinds[j], file->name, &n);
        if (!other)
            rc = why.failed ? OPM_ENOMEM : note(f, file, IMPORT_SKIPPED, buf_str(&why));
    }
    buf_release(&why);
    return rc;
}

static int read_topic(struct folder *f, enum ms_topic topic, struct ms_device *d)
{
    int rc = 0;

    f->reason = "";
    for (size_t i = 0; i < ARRAY_SIZE(kinds) && rc == 0; i++) {
        if (kinds[i].topic != topic)
            continue;
        if ((d->has & 1u << topic && topic != MS_EXTRA) ||
            (topic == MS_AVERAGES && d->has & 1u << MS_SPANS))
            rc = skip_kind(f, &kinds[i], d);
        else
            rc = read_kind(f, &kinds[i], d);
        if (d->added)
            d->has |= 1u << topic;
        d->added = 0;
    }
    return rc;
}

static int missing(struct folder *f, const char *what)
{
    store_stat(f->m.st, STAT_part_missing, 1);
    return import_part(f->src, f->src->path, IMPORT_FAILED, what);
}

static int read_device(struct folder *f, struct ms_device *d)
{
    int rc = 0;

    store_part_begin(f->m.st, &d->part);
    for (int t = 0; t < MS_TOPIC_COUNT && rc == 0; t++)
        rc = read_topic(f, (enum ms_topic)t, d);
    if (rc == 0 && d->has & 1u << MS_SPANS && !(d->has & 1u << MS_TASKS) && !d->op.n)
        rc = missing(f, "task_desc_info and framework_raw are missing: tasks have no operators");
    return rc;
}

/* Files that nothing was made of. */
static int note_rest(struct folder *f)
{
    int rc = 0;

    for (size_t i = 0; i < f->n && rc == 0; i++) {
        struct file *file = &f->file[i];
        size_t len = strlen(file->name);

        if (file->noted)
            continue;
        if (len > 5 && strcmp(file->name + len - 5, ".done") == 0) {
            rc = note(f, file, IMPORT_SKIPPED, "a marker");
            continue;
        }
        store_stat(f->m.st, STAT_file_skipped, 1);
        rc = note(f, file, IMPORT_SKIPPED,
                  file->known ? "there is nothing in it" : "nothing is read from such files");
    }
    return rc;
}

static int facts(struct folder *f)
{
    struct buf devices = { 0 };
    bool raw = false, parsed = false;
    struct numbers n;
    int rc;

    for (size_t i = 0; i < f->ndevice; i++)
        buf_addf(&devices, "%s%" PRId64, i ? ", " : "", f->device[i].id);
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
            if (kinds[k].topic >= MS_OPS && kinds[k].topic <= MS_AVERAGES &&
                is_kind(&kinds[k], f->file[i].name, &n))
                *(strstr(kinds[k].pattern, "slice_#") ? &raw : &parsed) = true;
    rc = devices.failed ? OPM_ENOMEM
                        : import_meta(f->m.st, f->src, "mindspore.devices", buf_str(&devices));
    buf_release(&devices);
    if (!rc)
        rc = import_meta(f->m.st, f->src, "source.format", "mindspore");
    return rc ? rc
              : import_meta(f->m.st, f->src, "mindspore.files",
                            raw && parsed ? "raw and parsed"
                            : raw         ? "raw"
                                          : "parsed");
}

int mindspore_read_dir(struct store *st, const struct import_source *src, opm_error *err)
{
    struct folder f = { .src = src };
    bool any = false;
    int rc = ms_start(&f.m, st, src);

    if (rc == 0)
        rc = files_find(&f, src->path, 0);
    if (rc == 0)
        rc = devices_find(&f);
    for (size_t i = 0; i < f.ndevice && rc == 0; i++) {
        rc = read_device(&f, &f.device[i]);
        any |= f.device[i].has != 0;
    }
    if (rc == 0)
        rc = note_rest(&f);
    if (rc == 0)
        rc = facts(&f);
    for (size_t i = 0; i < f.ndevice; i++)
        ms_device_release(&f.device[i]);
    for (size_t i = 0; i < f.n; i++)
        mem_free(f.file[i].path);
    mem_free(f.device);
    mem_free(f.file);
    buf_release(&f.m.text);
    if (rc)
        return opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    return any ? 0
               : opm__fail(
                     err, OPM_EFORMAT,
                     "%s: looks like a folder of the MindSpore profiler, but there is nothing "
                     "in its files",
                     src->path);
}
