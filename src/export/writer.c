/* writer.c -- see writer.h. */
#include "export/writer.h"

#include "base/alloc.h"
#include "base/csv_write.h"
#include "base/error.h"
#include "base/json_write.h"
#include "base/redact.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

#define TEXT_MAX_BYTES ((size_t)64 << 20)

int writer_progress(const struct export_options *opts, const struct io_out *out, uint64_t done,
                    uint64_t total)
{
    if (out->err_no)
        return OPM_EIO;
    if (opts && opts->progress && opts->progress(opts->user, done, total))
        return OPM_ELIMIT;
    return 0;
}

/* Whether meta holds something that OPMETER_REDACT=all would have left out. */
static bool tells_facts(const struct store *st)
{
    for (size_t i = 0; i < store_nrow(st, TABLE_meta); i++) {
        struct cell key = store_cell(st, TABLE_meta, i, meta_col_key);
        struct cell value = store_cell(st, TABLE_meta, i, meta_col_value);

        if (redact_hides("all", store_text(st, key.str)) &&
            strcmp(store_text(st, value.str), REDACT_TEXT) != 0)
            return true;
    }
    return false;
}

bool writer_recording(const struct store *st, char out[WRITER_ID_ROOM])
{
    static const char key_end[] = ".recording.id";
    const char *id = store_meta_get(st, "recording.id");

    if (!id || strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
        return false;
    for (size_t i = 0; i < store_nrow(st, TABLE_meta); i++) {
        struct cell c = store_cell(st, TABLE_meta, i, meta_col_key);
        const char *key = c.kind == CELL_STR ? store_text(st, c.str) : "";
        size_t len = strlen(key), end = strlen(key_end);

        if (len >= end && strcmp(key + len - end, key_end) == 0)
            return false;
    }
    memcpy(out, id, WRITER_ID_ROOM);
    return true;
}

void writer_recording_member(const struct store *st, struct json_writer *w)
{
    char id[WRITER_ID_ROOM];

    if (!writer_recording(st, id))
        return;
    json_key(w, "recording.id");
    json_cstr(w, id);
}

int writer_open(struct io_out *out, const struct store *st, const char *path, opm_error *err)
{
    int rc = io_out_open(out, path, err);

    if (rc == 0 && tells_facts(st))
        io_out_private(out);
    return rc;
}

int writer_close(struct io_out *out, int rc, const char *path, opm_error *err)
{
    /* A failed write is known to out; it throws the file away by itself. */
    int close_rc = io_out_close(out, rc == 0 || rc == OPM_EIO, err);

    if (rc == 0 || rc == OPM_EIO)
        return close_rc;
    return opm__fail(err, rc, rc == OPM_ELIMIT ? "%s: given up on request" : "%s: out of memory",
                     path);
}

int fragments_init(struct fragments *f, size_t n)
{
    f->item = mem_calloc(n, sizeof(*f->item));
    f->n = n;
    return f->item ? 0 : OPM_ENOMEM;
}

void fragments_release(struct fragments *f)
{
    mem_free(f->item);
    buf_release(&f->text);
    *f = (struct fragments){ 0 };
}

int fragments_get(struct fragments *f, uint32_t i, fragment_fn *make, void *ctx, const char **out,
                  struct fragment *out_item)
{
    struct fragment *item = &f->item[i];

    assert(i < f->n);
    if (!item->len) {
        struct fragment made = { .at = f->text.len };
        int rc;

        if (f->text.len > TEXT_MAX_BYTES) {
            memset(f->item, 0, f->n * sizeof(*f->item));
            buf_release(&f->text); /* one of them may have been huge */
            made.at = 0;
        }
        rc = make(ctx, i, &f->text, &made.head);
        if (!rc && f->text.failed)
            rc = OPM_ENOMEM;
        if (rc)
            return rc;
        made.len = f->text.len - made.at;
        assert(made.len);
        *item = made;
    }
    *out = f->text.data + item->at;
    *out_item = *item;
    return 0;
}

void writer_csv_cell(struct io_out *out, const char *s, size_t len)
{
    if (len)
        csv_put(out, s, len, CSV_MARK);
}

bool text_is_utf8(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len) {
        uint64_t v;
        uint32_t cp;

        for (; len - i >= 8; i += 8) {
            memcpy(&v, s + i, 8);
            if (v & 0x8080808080808080u)
                break;
        }
        if (i == len)
            break;
        i += utf8_next(s + i, len - i, &cp);
        if (cp == UTF8_BAD)
            return false;
    }
    return true;
}

bool text_is_json(const char *s, size_t len)
{
    return json_valid(s, len) && text_is_utf8(s, len);
}

void text_add_utf8(struct buf *out, const char *s, size_t len)
{
    size_t from = 0;

    if (text_is_utf8(s, len)) {
        buf_add(out, s, len);
        return;
    }
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        size_t n = utf8_next(s + i, len - i, &cp);

        if (cp == UTF8_BAD) {
            buf_add(out, s + from, i - from);
            buf_add(out, "\xef\xbf\xbd", 3);
            from = i + n;
        }
        i += n;
    }
    buf_add(out, s + from, len - from);
}

char *text_put_u64(char *p, uint64_t v)
{
    char digits[20], *d = digits + sizeof(digits);

    do {
        *--d = (char)('0' + v % 10); /* bounded: 2^64 has 20 digits */
        v /= 10;
    } while (v);
    memcpy(p, d, (size_t)(digits + sizeof(digits) - d));
    return p + (digits + sizeof(digits) - d);
}

char *text_put_i64(char *p, int64_t v)
{
    if (v < 0)
        *p++ = '-';
    return text_put_u64(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

char *text_put_us(char *p, int64_t ns)
{
    uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    unsigned frac = (unsigned)(v % 1000);

    if (ns < 0)
        *p++ = '-';
    p = text_put_u64(p, v / 1000);
    *p++ = '.';
    *p++ = (char)('0' + frac / 100);
    *p++ = (char)('0' + frac / 10 % 10);
    *p++ = (char)('0' + frac % 10);
    return p;
}
