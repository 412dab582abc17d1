/* writer.h -- what the writers of all formats share: progress, the end, cached pieces, text. */
#ifndef EXPORT_WRITER_H
#define EXPORT_WRITER_H

#include "base/buf.h"
#include "base/json_write.h"
#include "export/export.h"

/* To be called now and then. 0, OPM_ELIMIT if the caller gives up, OPM_EIO if out failed. */
int writer_progress(const struct export_options *opts, const struct io_out *out, uint64_t done,
                    uint64_t total);
/* io_out_open() for a format that holds table meta: a new file with facts that others than its
 * owner have no business with (base/redact.h) is private. */
int writer_open(struct io_out *out, const struct store *st, const char *path, opm_error *err);
/* The id of the one recording that the trace was read from; false if it is none, or several. A
 * format that can hold it says it as "recording.id" in its first kilobytes, so that an importer
 * knows both files for one run. */
#define WRITER_ID_ROOM 33
bool writer_recording(const struct store *st, char out[WRITER_ID_ROOM]);
/* Close out, keeping the file if rc is 0, and give rc (OPM_ENOMEM, OPM_ELIMIT, OPM_EIO) its
 * message. Returns rc, or how closing failed. */
int writer_close(struct io_out *out, int rc, const char *path, opm_error *err);

/* A cell of CSV for spreadsheets, with the mark of CSV_MARK; an empty text is an empty cell. */
void writer_csv_cell(struct io_out *out, const char *s, size_t len);

/* Say it as a member of the object that is open; nothing if there is none. */
void writer_recording_member(const struct store *st, struct json_writer *w);

/* Pieces of text that are made once, per site or operator, and written once per span. Kept up to a
 * ceiling, beyond which all are forgotten and made anew: memory stays bounded however many there
 * are. */
struct fragment {
    size_t at;
    size_t head; /* bytes of the first of its two parts */
    size_t len;  /* bytes of both; 0: not made */
};

struct fragments {
    struct buf text;
    struct fragment *item;
    size_t n;
};

/* Append fragment i to out and tell how long its first part is. Never empty. 0 or an error. */
typedef int fragment_fn(void *ctx, uint32_t i, struct buf *out, size_t *out_head);

int fragments_init(struct fragments *f, size_t n); /* 0 or OPM_ENOMEM */
void fragments_release(struct fragments *f);       /* a zeroed one is fine */
/* Fragment i < n. *out is its text until the next call on f. */
int fragments_get(struct fragments *f, uint32_t i, fragment_fn *make, void *ctx, const char **out,
                  struct fragment *out_item);

/* Whether the text may stand in a JSON file as it is: one JSON value in valid UTF-8. */
bool text_is_json(const char *s, size_t len);
bool text_is_utf8(const char *s, size_t len);
/* Append s with every malformed sequence replaced by U+FFFD. */
void text_add_utf8(struct buf *out, const char *s, size_t len);

/* Digits at p, which has room for TEXT_DIGITS; returns their end. No NUL. */
#define TEXT_DIGITS 28
char *text_put_u64(char *p, uint64_t v);
char *text_put_i64(char *p, int64_t v);
char *text_put_us(char *p, int64_t ns); /* microseconds with three decimals */

#endif
