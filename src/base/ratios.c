/* ratios.c -- see ratios.h. */
#include "base/ratios.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "ratios.json"
#define FILE_VERSION 1
#define FILE_MAX_BYTES (16 << 20)

const struct ratio_pattern ratio_patterns[] = {
#define X(name, n, k) { name, n, k },
    RATIOS_PATTERNS(X)
#undef X
        { NULL, 0, 0 },
};

const struct ratio_pattern *ratio_pattern_find(const char *name)
{
    for (const struct ratio_pattern *p = ratio_patterns; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

/* False when out of memory. */
static bool read_text(struct json_reader *r, char *out, size_t size)
{
    struct buf text = { 0 };
    bool ok;

    if (json_read_next(r) == JSON_STRING)
        json_read_text(r, &text);
    else
        json_read_skip(r);
    ok = !text.failed;
    snprintf(out, size, "%s", ok ? buf_str(&text) : "");
    buf_release(&text);
    return ok;
}

static void read_real(struct json_reader *r, double *out)
{
    json_read_next(r);
    if (!json_read_real(r, out))
        json_read_skip(r);
}

static void read_int(struct json_reader *r, int64_t *out)
{
    json_read_next(r);
    if (!json_read_int(r, out))
        json_read_skip(r);
}

/* Entries that say nothing usable are left out. */
static int read_entry(struct json_reader *r, struct ratios *to)
{
    char pattern[32] = "", weight[64] = "";
    struct ratio e = { 0 };
    bool ok = true;

    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "cpu"))
            ok &= read_text(r, e.cpu, sizeof(e.cpu));
        else if (json_read_is(r, "isa"))
            ok &= read_text(r, e.isa, sizeof(e.isa));
        else if (json_read_is(r, "pattern"))
            ok &= read_text(r, pattern, sizeof(pattern));
        else if (json_read_is(r, "weight"))
            ok &= read_text(r, weight, sizeof(weight));
        else if (json_read_is(r, "sparsity"))
            read_real(r, &e.sparsity);
        else if (json_read_is(r, "ratio"))
            read_real(r, &e.ratio);
        else if (json_read_is(r, "dense_ns"))
            read_real(r, &e.dense_ns);
        else if (json_read_is(r, "sparse_ns"))
            read_real(r, &e.sparse_ns);
        else if (json_read_is(r, "m"))
            read_int(r, &e.m);
        else
            json_read_skip(r);
    }
    if (!ok)
        return OPM_ENOMEM;
    e.pattern = ratio_pattern_find(pattern);
    if (!e.pattern || sscanf(weight, "%" SCNd64 "x%" SCNd64, &e.n, &e.k) != 2 || e.n <= 0 ||
        e.k <= 0 || !(e.ratio > 0 && e.ratio < 1e6) || !(e.sparsity >= 0 && e.sparsity < 1))
        return 0;
    if (!GROW(to->item, to->cap, to->n + 1))
        return OPM_ENOMEM;
    to->item[to->n++] = e;
    return 0;
}

static int read_file(struct ratios *to, const struct io_map *map, opm_error *err)
{
    struct json_reader r = json_read_of(map->data, map->len);
    int64_t version = 0;
    int rc = 0;

    if (json_read_next(&r) == JSON_OBJECT) {
        while (!rc && json_read_next(&r) == JSON_KEY) {
            if (json_read_is(&r, "version"))
                read_int(&r, &version);
            else if (json_read_is(&r, "ratios") && json_read_next(&r) == JSON_ARRAY)
                while (!rc && json_read_next(&r) == JSON_OBJECT)
                    rc = read_entry(&r, to);
            else
                json_read_skip(&r);
        }
    }
    if (rc)
        return opm__fail(err, rc, "%s: out of memory", to->path);
    if (r.token != JSON_OBJECT_END || json_read_next(&r) != JSON_DONE) {
        to->n = 0;
        return opm__fail(err, OPM_EFORMAT, "%s: not valid JSON at byte %zu; correct or remove it",
                         to->path, (size_t)(r.at - r.start));
    }
    if (version != FILE_VERSION) {
        to->n = 0;
        return opm__fail(err, OPM_EFORMAT, "%s: version %lld, expected %d; remove it", to->path,
                         (long long)version, FILE_VERSION);
    }
    return 0;
}

int ratios_load(struct ratios *r, opm_error *err)
{
    struct io_map map;
    int rc;

    *r = (struct ratios){ 0 };
    folder_cpu_name(r->cpu, sizeof(r->cpu));
    if (!folder_cache_path(r->path, sizeof(r->path), FILE_NAME)) {
        r->path[0] = '\0';
        return 0;
    }
    if (access(r->path, R_OK) != 0)
        return 0;
    rc = io_map(&map, r->path, FILE_MAX_BYTES, err);
    if (rc < 0)
        return rc;
    rc = read_file(r, &map, err);
    io_map_release(&map);
    return rc;
}

void ratios_release(struct ratios *r)
{
    mem_free(r->item);
    *r = (struct ratios){ 0 };
}

const struct ratio *ratios_like(const struct ratios *r, const struct ratio *like)
{
    for (size_t i = r->n; i-- > 0;) { /* of two the later counts, as in any list that is edited */
        const struct ratio *e = &r->item[i];

        if (e->n == like->n && e->k == like->k && e->pattern == like->pattern &&
            ratio_same_sparsity(e->sparsity, like->sparsity) && strcmp(e->isa, like->isa) == 0 &&
            (!e->isa[0] || e->m == like->m) && strcmp(e->cpu, r->cpu) == 0)
            return e;
    }
    return NULL;
}

const struct ratio *ratios_find(const struct ratios *r, const struct ratio_pattern *pattern,
                                double sparsity, int64_t n, int64_t k)
{
    const struct ratio like = { .pattern = pattern, .sparsity = sparsity, .n = n, .k = k };

    return ratios_like(r, &like);
}

int ratios_put(struct ratios *r, const struct ratio *entry)
{
    const struct ratio *old = ratios_like(r, entry);
    struct ratio *to;

    if (old) {
        to = &r->item[old - r->item];
    } else {
        if (!GROW(r->item, r->cap, r->n + 1))
            return OPM_ENOMEM;
        to = &r->item[r->n++];
    }
    *to = *entry;
    snprintf(to->cpu, sizeof(to->cpu), "%s", r->cpu);
    return 0;
}

static void put_entry(struct json_writer *w, const struct ratio *e)
{
    char weight[64];

    json_newline(w);
    json_object(w);
    json_key(w, "cpu");
    json_cstr(w, e->cpu);
    if (e->isa[0]) {
        json_key(w, "isa");
        json_cstr(w, e->isa);
    }
    json_key(w, "pattern");
    json_cstr(w, e->pattern->name);
    json_key(w, "sparsity");
    json_f64(w, e->sparsity);
    snprintf(weight, sizeof(weight), "%" PRId64 "x%" PRId64, e->n, e->k);
    json_key(w, "weight");
    json_cstr(w, weight);
    if (e->m > 0) {
        json_key(w, "m");
        json_i64(w, e->m);
    }
    json_key(w, "ratio");
    json_f64(w, e->ratio);
    if (e->dense_ns > 0 && e->sparse_ns > 0) {
        json_key(w, "dense_ns");
        json_f64(w, e->dense_ns);
        json_key(w, "sparse_ns");
        json_f64(w, e->sparse_ns);
    }
    json_object_end(w);
}

int ratios_save(const struct ratios *r, opm_error *err)
{
    char folder[RATIOS_PATH_MAX];
    struct json_writer w = { 0 };
    struct io_out out;
    int rc;

    if (!r->path[0])
        return opm__fail(err, OPM_ENOTFOUND,
                         "no place for " FILE_NAME ": neither OPMETER_CACHE, XDG_CACHE_HOME nor "
                         "HOME is set");
    snprintf(folder, sizeof(folder), "%s", r->path);
    *strrchr(folder, '/') = '\0';
    rc = *folder ? folder_make(folder, err) : 0;
    if (!rc)
        rc = io_out_open(&out, r->path, err);
    if (rc)
        return rc;
    w.out = &out;
    json_object(&w);
    json_key(&w, "version");
    json_i64(&w, FILE_VERSION);
    json_key(&w, "ratios");
    json_array(&w);
    for (size_t i = 0; i < r->n; i++)
        put_entry(&w, &r->item[i]);
    json_newline(&w);
    json_array_end(&w);
    json_object_end(&w);
    io_out_adds(&out, "\n");
    return io_out_close(&out, true, err);
}
