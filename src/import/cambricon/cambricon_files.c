/* cambricon_files.c -- the files of a profile folder that are named after steps, and which of them
 * an earlier run left; see cambricon_int.h. */
#include "import/cambricon/cambricon_int.h"

#include "base/alloc.h"
#include "base/json_read.h"
#include "import/import.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

bool cam_name_read(const char *name, const char *prefix, struct text *model, int64_t *step)
{
    size_t len = strlen(name), n = len;
    uint64_t v;

    if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
        n = len = len - 3;
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n == len || !text_u64((struct text){ name + n, len - n }, &v) || v > INT32_MAX)
        return false;
    *step = (int64_t)v;
    *model = (struct text){ "", 0 };
    if (n == strlen(prefix) && memcmp(name, prefix, n) == 0)
        return true;
    if (n <= strlen("_step_") ||
        memcmp(name + n - strlen("_step_"), "_step_", strlen("_step_")) != 0)
        return false;
    *model = (struct text){ name, n - strlen("_step_") };
    return true;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

/* The number behind the first of a word; OPM_NULL_I64: there is none. */
static int64_t number_behind(const uint8_t *head, size_t len, const char *word)
{
    const uint8_t *at = memmem(head, len, word, strlen(word)), *end = head + len;
    const uint8_t *from;
    int64_t v;

    if (!at)
        return OPM_NULL_I64;
    for (at += strlen(word); at < end && *at == ' ';)
        at++;
    for (from = at; at < end && *at >= '0' && *at <= '9';)
        at++;
    return at < end && text_decimal((struct text){ (const char *)from, (size_t)(at - from) }, 0, &v)
               ? v
               : OPM_NULL_I64;
}

static int64_t first_start_us(const char *path, uint8_t *head)
{
    size_t len;
    int64_t v;

    if (io_head(path, head, IMPORT_SNIFF_MAX, &len, NULL) < 0)
        return OPM_NULL_I64;
    v = number_behind(head, len, "all_start_micros:");
    return v != OPM_NULL_I64 ? v : number_behind(head, len, "\"ts\":");
}

static bool same_model(const struct cam_file *a, const struct cam_file *b)
{
    return a->model.len == b->model.len &&
           (!a->model.len || memcmp(a->model.p, b->model.p, a->model.len) == 0);
}

uint64_t cam_listed_key(struct text model, int64_t num)
{
    uint64_t h = (uint64_t)num * 0x9e3779b97f4a7c15u + 1;

    for (size_t i = 0; i < model.len; i++)
        h = (h ^ (unsigned char)model.p[i]) * 0x100000001b3u;
    return h;
}

/* The files of one model, [from, to): they lie together, as the names are in order. */
static void judge(struct cam_file *from, struct cam_file *to, const struct u64map *listed)
{
    const struct cam_file *latest = NULL, *latest_listed = NULL;

    for (const struct cam_file *f = from; f < to; f++) {
        if (f->num < 0 || f->start_us == OPM_NULL_I64)
            continue;
        if (!latest || f->start_us > latest->start_us)
            latest = f;
        if (u64map_get(listed, cam_listed_key(f->model, f->num)) &&
            (!latest_listed || f->start_us > latest_listed->start_us))
            latest_listed = f;
    }
    for (struct cam_file *f = from; f < to; f++) {
        if (f->num < 0 || f->start_us == OPM_NULL_I64)
            continue;
        f->stale = f->num > latest->num && f->start_us < latest->start_us;
        f->stale |= latest_listed && f->start_us < latest_listed->start_us &&
                    !u64map_get(listed, cam_listed_key(f->model, f->num));
    }
}

int cam_files_list(struct cam_files *out, const char *folder, const char *sub, const char *prefix,
                   const struct u64map *listed)
{
    uint8_t *head = mem_alloc(IMPORT_SNIFF_MAX);
    struct dirent **entry = NULL;
    struct buf path = { 0 };
    int n, rc = head ? 0 : OPM_ENOMEM;

    *out = (struct cam_files){ 0 };
    buf_addf(&path, "%s/%s", folder, sub);
    n = path.failed ? 0 : scandir(buf_str(&path), &entry, visible, by_name);
    out->item = mem_calloc((size_t)MAX(n, 0) + 1, sizeof(*out->item));
    if (!out->item || path.failed)
        rc = OPM_ENOMEM;
    for (int i = 0; i < n; i++) {
        struct cam_file *f = rc ? NULL : &out->item[out->n];

        if (!rc && i < CAM_FILES_MAX) {
            f->name = mem_strdup(entry[i]->d_name);
            f->start_us = OPM_NULL_I64;
            buf_clear(&path);
            buf_addf(&path, "%s/%s/%s", folder, sub, entry[i]->d_name);
            rc = f->name && !path.failed ? 0 : OPM_ENOMEM;
            out->n++;
            if (rc || !cam_name_read(f->name, prefix, &f->model, &f->num))
                f->num = -1;
            else
                f->start_us = first_start_us(buf_str(&path), head);
        }
        free(entry[i]); /* scandir() allocated it */
    }
    free(entry);
    out->beyond = (size_t)MAX(n - CAM_FILES_MAX, 0);
    for (size_t i = 0, to; i < out->n && !rc; i = to) {
        for (to = i + 1; to < out->n && same_model(&out->item[i], &out->item[to]);)
            to++;
        judge(out->item + i, out->item + to, listed);
    }
    buf_release(&path);
    mem_free(head);
    return rc;
}

void cam_files_release(struct cam_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        mem_free(f->item[i].name);
    mem_free(f->item);
    *f = (struct cam_files){ 0 };
}

/* The members of op_stats, {"<model>": {"<step>": ..}}. */
static int list_models(struct json_reader *r, struct u64map *out)
{
    int rc = 0;

    if (json_read_next(r) != JSON_OBJECT)
        return 0;
    while (!rc && json_read_next(r) == JSON_KEY) {
        struct text model = { r->text, r->len };

        if (json_read_next(r) != JSON_OBJECT)
            continue;
        while (!rc && json_read_next(r) == JSON_KEY) {
            int64_t num;

            if (text_decimal((struct text){ r->text, r->len }, 0, &num)) {
                rc = u64map_put(out, cam_listed_key(model, num), 1);
                if (!rc)
                    rc = u64map_put(out, cam_listed_key((struct text){ "", 0 }, num), 1);
            }
            json_read_next(r);
            json_read_skip(r);
        }
    }
    return rc;
}

int cam_list_steps(const uint8_t *data, size_t len, struct u64map *out)
{
    struct json_reader r = json_read_of((const char *)data, len);

    if (json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (json_read_next(&r) == JSON_KEY) {
        if (json_read_is(&r, "op_stats"))
            return list_models(&r, out);
        json_read_next(&r);
        json_read_skip(&r);
    }
    return 0;
}
