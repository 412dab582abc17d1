/* same_run.c -- which files tell of the same run, so that none is counted twice.
 *
 * A recording has an id, its session. Whatever opmeter makes of a recording carries it on: a file
 * of tables in its own head, a text or a folder's summary as the fact "recording.id" near its
 * beginning. A file whose run was told of by one that was read before is left out, and the table
 * source says so. Files of other producers have no such mark; where two of them belong together,
 * their readers know (import_same_run()). */
#include "import/sources.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "format/format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MARK "recording.id"
#define MARK_GAP 8 /* bytes between the key and the value, whatever the format */

static bool take_hex(const uint8_t *p, size_t len, char out[SAME_RUN_ROOM])
{
    if (len < SAME_RUN_ROOM - 1)
        return false;
    for (size_t i = 0; i < SAME_RUN_ROOM - 1; i++)
        if (!isxdigit(p[i]))
            return false;
    snprintf(out, SAME_RUN_ROOM, "%.*s", SAME_RUN_ROOM - 1, (const char *)p);
    return true;
}

/* Of several recordings there is no one mark. */
static bool text_mark(const uint8_t *head, size_t len, char out[SAME_RUN_ROOM])
{
    const uint8_t *at = memmem(head, len, MARK, strlen(MARK)), *end = head + len;

    if (!at)
        return false;
    at += strlen(MARK);
    if (memmem(at, (size_t)(end - at), "." MARK, strlen("." MARK)))
        return false;
    for (size_t gap = 0; gap < MARK_GAP && at + gap < end; gap++)
        if (take_hex(at + gap, (size_t)(end - at) - gap, out))
            return true;
    return false;
}

static bool opm_mark(const uint8_t *head, size_t len, char out[SAME_RUN_ROOM])
{
    struct opm_file_header h;
    bool any = false;

    if (len < sizeof(h))
        return false;
    memcpy(&h, head, sizeof(h));
    for (size_t i = 0; i < sizeof(h.session); i++) {
        snprintf(out + 2 * i, 3, "%02x", h.session[i]);
        any |= h.session[i] != 0;
    }
    return any;
}

int same_run_mark(const struct importer *importer, const char *path, char out[SAME_RUN_ROOM],
                  bool *found)
{
    uint8_t *head = mem_alloc(IMPORT_SNIFF_MAX);
    struct buf name = { 0 };
    struct stat st;
    size_t len = 0;
    int rc = 0;

    *found = false;
    buf_adds(&name, path);
    if (importer->read_dir)
        buf_adds(&name, "/summary.json");
    if (!head || name.failed)
        rc = OPM_ENOMEM;
    else if (stat(buf_str(&name), &st) == 0 && S_ISREG(st.st_mode))
        rc = io_head(buf_str(&name), head, IMPORT_SNIFF_MAX, &len, NULL);
    if (rc == 0 && len)
        *found = importer->read == opm_read ? opm_mark(head, len, out) : text_mark(head, len, out);
    buf_release(&name);
    mem_free(head);
    return rc == OPM_ENOMEM ? rc : 0;
}

const struct source_run *same_run_told(const struct sources *s, const char *id)
{
    for (size_t i = 0; i < s->nrun; i++)
        if (strcmp(s->run[i].id, id) == 0)
            return &s->run[i];
    return NULL;
}

int same_run_tell(struct sources *s, const char *id, const char *path, size_t source)
{
    struct source_run *r;

    if (!GROW(s->run, s->run_cap, s->nrun + 1))
        return OPM_ENOMEM;
    r = &s->run[s->nrun];
    snprintf(r->id, sizeof(r->id), "%s", id);
    r->path = arena_strndup(&s->strings, path, strlen(path));
    r->source = source;
    if (!r->path)
        return OPM_ENOMEM;
    s->nrun++;
    return 0;
}

/* "a/b/run_0.csv" and "c/run_0.json": run_0. */
static bool same_stem(const char *a, const char *b)
{
    const char *x = strrchr(a, '/') ? strrchr(a, '/') + 1 : a;
    const char *y = strrchr(b, '/') ? strrchr(b, '/') + 1 : b;
    size_t n = strcspn(x, "."), m = strcspn(y, ".");

    return n == m && n && memcmp(x, y, n) == 0;
}

bool import_same_run(const struct import_source *src, const char *format, struct store_part *out)
{
    const struct sources *s = src->sources;

    for (size_t i = 0; s && i < (size_t)src->index; i++)
        if (s->item[i].state == IMPORT_READ && strcmp(s->item[i].format, format) == 0 &&
            same_stem(s->item[i].path, src->path)) {
            *out = s->item[i].part;
            return true;
        }
    for (size_t i = 0; s && i < s->nrun; i++)
        if (s->run[i].source < (size_t)src->index && same_stem(s->run[i].path, src->path) &&
            s->item[s->run[i].source].state == IMPORT_READ) {
            *out = s->item[s->run[i].source].part;
            return true;
        }
    return false;
}
