/* textable.h -- print rows as an aligned table, JSON, CSV or Markdown.
 *
 * Cells are copied. Widths count terminal columns of UTF-8 text; control bytes and invalid UTF-8
 * are shown as '?' in the aligned form and kept byte-exact in CSV, but not in TEXTABLE_CSV_SAFE,
 * which is CSV_SAFE of csv_write.h. NULL cells print as "N/A" in the
 * aligned form, empty in CSV, null in JSON. */
#ifndef BASE_TEXTABLE_H
#define BASE_TEXTABLE_H

#include "base/io.h"

enum textable_format {
    TEXTABLE_ALIGNED,
    TEXTABLE_JSON,
    TEXTABLE_CSV,
    TEXTABLE_CSV_SAFE,
    TEXTABLE_MARKDOWN
};
enum textable_kind { TEXTABLE_TEXT, TEXTABLE_INT, TEXTABLE_REAL };

struct textable;

struct textable *textable_new(void); /* NULL on failure */
void textable_column(struct textable *t, const char *name, enum textable_kind kind);
void textable_text(struct textable *t, const char *s, size_t len); /* cells go left to right; */
void textable_int(struct textable *t, int64_t v);                  /* a full row starts the next */
void textable_real(struct textable *t, double v);
void textable_null(struct textable *t);
size_t textable_rows(const struct textable *t);
/* width: terminal columns available, 0 for unlimited; the widest text column is cut with an
 * ellipsis to fit. bold: header in bold (terminals only). OPM_ENOMEM if any cell was lost. */
int textable_print(const struct textable *t, struct io_out *out, enum textable_format format,
                   int width, bool bold, opm_error *err);
void textable_free(struct textable *t);

#endif
