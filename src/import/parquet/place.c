/* place.c -- see place.h. */
#include "import/parquet/place.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/strpool.h"
#include "format/parquet.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 4      /* of folders KEY=VALUE in each other */
#define PARTS_MAX 100000 /* looked at */
#define END ".parquet"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n > m && strcmp(s + n - m, end) == 0;
}

static int find_table(const char *name, size_t len)
{
    for (int i = 0; i < TABLE_COUNT; i++)
        if (strlen(store_table_defs[i].name) == len &&
            memcmp(store_table_defs[i].name, name, len) == 0)
            return i;
    return -1;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_part(const struct dirent *e)
{
    return strchr(e->d_name, '=') && e->d_name[0] != '.';
}

static int is_parquet(const struct dirent *e)
{
    return ends_with(e->d_name, END) && e->d_name[0] != '.' && e->d_name[0] != '_';
}

/* The last component of a path of `len` bytes; its start. */
static size_t last_name(const char *path, size_t len)
{
    while (len && path[len - 1] != '/')
        len--;
    return len;
}

/* ROOT/TABLE/KEY=VALUE/... : where TABLE begins and ends. False: it is no such path. */
static bool split(const char *path, size_t *from, size_t *to)
{
    size_t end = strlen(path), start = last_name(path, end);

    for (int i = 0; i < DEPTH_MAX && start && memchr(path + start, '=', end - start); i++) {
        end = start - 1;
        start = last_name(path, end);
    }
    *from = start;
    *to = end;
    return find_table(path + start, end - start) >= 0;
}

/* Folders below `path` that hold files, as suffixes behind path[0..base). */
struct walk {
    struct strpool suffix;
    size_t base, looked;
};

static int walk_below(struct walk *w, const char *path, int depth)
{
    struct dirent **entry;
    struct buf name = { 0 };
    str_id id;
    int n, rc = 0;

    n = scandir(path, &entry, is_parquet, NULL);
    for (int i = 0; i < n; i++)
        free(entry[i]); /* scandir() allocated it */
    if (n >= 0)
        free(entry);
    if (n > 0 && strpool_intern(&w->suffix, path + w->base, strlen(path) - w->base, &id))
        return OPM_ENOMEM;
    n = depth < DEPTH_MAX ? scandir(path, &entry, is_part, by_name) : -1;
    for (int i = 0; i < n; i++) {
        buf_clear(&name);
        buf_addf(&name, "%s/%s", path, entry[i]->d_name);
        free(entry[i]);
        if (rc)
            continue;
        rc = name.failed ? OPM_ENOMEM : ++w->looked > PARTS_MAX ? OPM_ELIMIT : 0;
        if (!rc && is_folder(buf_str(&name)))
            rc = walk_below(w, buf_str(&name), depth + 1);
    }
    if (n >= 0)
        free(entry);
    buf_release(&name);
    return rc;
}

static bool root_is(const char *path)
{
    struct buf name = { 0 };
    bool found = false;

    for (int i = 0; i < TABLE_COUNT && !found; i++) {
        struct walk w = { 0 };

        buf_clear(&name);
        buf_addf(&name, "%s/%s" END, path, store_table_defs[i].name);
        found = !name.failed && is_file(buf_str(&name));
        if (found || name.failed)
            continue;
        name.len -= strlen(END);
        name.data[name.len] = '\0';
        w.base = name.len;
        found = is_folder(name.data) && walk_below(&w, name.data, 0) != OPM_ENOMEM &&
                strpool_count(&w.suffix) > 0;
        strpool_release(&w.suffix);
    }
    buf_release(&name);
    return found;
}

static bool below_is(const char *path)
{
    struct walk w = { .base = strlen(path) };
    size_t from, to;
    bool found = split(path, &from, &to) && walk_below(&w, path, 0) != OPM_ENOMEM &&
                 strpool_count(&w.suffix) > 0;

    strpool_release(&w.suffix);
    return found;
}

bool place_is(const char *path)
{
    return is_folder(path) && (below_is(path) || root_is(path));
}

static int by_text(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

/* "/job=17/..." : up to the end of the job's value; 0: there is none. */
static size_t job_len(const char *suffix)
{
    return strncmp(suffix, "/job=", 5) == 0 ? 1 + strcspn(suffix + 1, "/") : 0;
}

static int several_jobs(const char *path, const char *const *suffix, size_t n, opm_error *err)
{
    size_t len = n ? job_len(suffix[0]) : 0, jobs = 1;

    for (size_t i = 1; i < n; i++)
        jobs += job_len(suffix[i]) != job_len(suffix[i - 1]) ||
                memcmp(suffix[i], suffix[i - 1], job_len(suffix[i])) != 0;
    if (jobs < 2)
        return 0;
    return opm__fail(err, OPM_EFORMAT,
                     "%s: tables of %zu jobs; open one of them, such as %s/span%.*s", path, jobs,
                     path, (int)len, suffix[0]);
}

/* The folder that stands for a suffix: that of spans if it is there, else of another table. */
static int part_path(const char *root, const char *suffix, struct buf *out)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        buf_clear(out);
        buf_addf(out, "%s/%s%s", root, store_table_defs[i].name, suffix);
        if (out->failed)
            return OPM_ENOMEM;
        if (is_folder(buf_str(out)))
            return 0;
    }
    buf_clear(out);
    buf_adds(out, root);
    return out->failed ? OPM_ENOMEM : 0;
}

/* Suffixes of all tables, of which those below `under` are wanted. */
static int find_suffixes(struct walk *w, const char *root, const char *under, struct buf *path)
{
    int rc = 0;

    for (int i = 0; i < TABLE_COUNT && !rc; i++) {
        buf_clear(path);
        buf_addf(path, "%s/%s", root, store_table_defs[i].name);
        w->base = path->len;
        buf_adds(path, under);
        rc = path->failed ? OPM_ENOMEM : 0;
        if (!rc && is_folder(path->data))
            rc = walk_below(w, path->data, 0);
        buf_clear(path);
        buf_addf(path, "%s/%s" END, root, store_table_defs[i].name);
        if (!rc && !*under && is_file(buf_str(path))) {
            str_id id;

            rc = strpool_intern(&w->suffix, "", 0, &id);
        }
    }
    return rc;
}

int place_parts(const char *path, int (*each)(void *ctx, const char *part), void *ctx,
                opm_error *err)
{
    struct place p = { 0 };
    struct walk w = { 0 };
    struct buf name = { 0 };
    const char **suffix = NULL;
    size_t n = 0;
    int rc = OPM_ENOMEM;

    if (place_of(path, &p))
        rc = find_suffixes(&w, p.root, p.suffix, &name);
    n = rc ? 0 : strpool_count(&w.suffix);
    suffix = rc ? NULL : mem_alloc((n + 1) * sizeof(*suffix));
    if (!rc && !suffix)
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++)
        suffix[i] = strpool_get(&w.suffix, (str_id)(i + 1));
    if (!rc && n)
        qsort(suffix, n, sizeof(*suffix), by_text);
    if (!rc)
        rc = several_jobs(p.root, suffix, n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = part_path(p.root, suffix[i], &name);
        if (!rc)
            rc = each(ctx, buf_str(&name));
    }
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "%s: out of memory", path);
    if (rc == OPM_ELIMIT)
        opm__fail(err, rc, "%s: more than %d folders; open one job, or one rank", path, PARTS_MAX);
    mem_free(suffix);
    strpool_release(&w.suffix);
    buf_release(&name);
    place_release(&p);
    return rc;
}

bool place_of(const char *part, struct place *out)
{
    size_t from, to;
    bool below = split(part, &from, &to) && !root_is(part);

    out->root = mem_strdup(below && from ? part : below ? "." : part);
    out->suffix = mem_strdup(below ? part + to : "");
    if (below && from && out->root)
        out->root[from - 1] = '\0';
    return out->root && out->suffix;
}

void place_release(struct place *p)
{
    mem_free(p->root);
    mem_free(p->suffix);
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

bool place_value(const struct place *p, const char *key, struct buf *out)
{
    size_t len = strlen(key);

    for (const char *s = p->suffix; *s == '/'; s += strcspn(s, "/")) {
        size_t n = strcspn(++s, "/");

        if (n <= len || memcmp(s, key, len) != 0 || s[len] != '=')
            continue;
        if (n - len - 1 == strlen(PARQUET_NULL_FOLDER) &&
            memcmp(s + len + 1, PARQUET_NULL_FOLDER, n - len - 1) == 0)
            return false;
        for (size_t i = len + 1; i < n; i++) {
            bool coded =
                s[i] == '%' && i + 2 < n && hex_digit(s[i + 1]) >= 0 && hex_digit(s[i + 2]) >= 0;

            buf_addc(out, coded ? (char)(hex_digit(s[i + 1]) << 4 | hex_digit(s[i + 2])) : s[i]);
            i += coded ? 2 : 0;
        }
        return true;
    }
    return false;
}

int place_files(const struct place *p, enum table_id table, char ***out, size_t *n)
{
    struct buf path = { 0 };
    struct dirent **entry = NULL;
    size_t cap = 0;
    int found, rc = 0;

    *out = NULL;
    *n = 0;
    buf_addf(&path, "%s/%s%s", p->root, store_table_defs[table].name, p->suffix);
    found = path.failed ? -1 : scandir(buf_str(&path), &entry, is_parquet, by_name);
    for (int i = 0; i < MAX(found, 0) + 1 && !rc; i++) {
        buf_clear(&path);
        if (i < found)
            buf_addf(&path, "%s/%s%s/%s", p->root, store_table_defs[table].name, p->suffix,
                     entry[i]->d_name);
        else
            buf_addf(&path, "%s/%s" END, p->root, store_table_defs[table].name);
        if (i >= found && (*p->suffix || !is_file(buf_str(&path))))
            break;
        if (path.failed || !GROW(*out, cap, *n + 1)) {
            rc = OPM_ENOMEM;
            break;
        }
        (*out)[*n] = mem_strdup(path.data);
        rc = (*out)[*n] ? 0 : OPM_ENOMEM;
        *n += !rc;
    }
    for (int i = 0; i < found; i++)
        free(entry[i]);
    free(entry);
    buf_release(&path);
    return rc;
}

int place_table(const char *path)
{
    size_t len = strlen(path), start = last_name(path, len), from, to;
    char *folder;
    int table = -1;

    if (ends_with(path + start, END))
        table = find_table(path + start, len - start - strlen(END));
    if (table >= 0 || !start)
        return table;
    folder = mem_strdup(path);
    if (!folder)
        return -1;
    folder[start - 1] = '\0';
    if (split(folder, &from, &to))
        table = find_table(folder + from, to - from);
    mem_free(folder);
    return table;
}
