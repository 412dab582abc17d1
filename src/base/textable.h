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
enum textable_kind {
    TEXTABLE_TEXT,  /* a name: cut in the middle where there is no room, for its end tells most */
    TEXTABLE_PROSE, /* a sentence: broken into lines where there is no room */
    TEXTABLE_INT,
    TEXTABLE_REAL,
    TEXTABLE_ANY,   /* whatever its cells are: a name if one of them is a text, or none a number */
    TEXTABLE_SHARE, /* reals from 0 to 1: "12.5 %", in colour with a bar beside it */
};

struct textable;

struct textable *textable_new(void); /* NULL on failure */
void textable_column(struct textable *t, const char *name, enum textable_kind kind);
/* For people only, of the column that was added last: it is left out if no row has a value, and
 * where there is no room, those of the highest rank first; rank 0: never for that. */
void textable_optional(struct textable *t, int rank);
void textable_text(struct textable *t, const char *s, size_t len); /* cells go left to right; */
void textable_int(struct textable *t, int64_t v);                  /* a full row starts the next */
void textable_real(struct textable *t, double v);
void textable_null(struct textable *t);
size_t textable_rows(const struct textable *t);
/* width: terminal columns available, 0 for unlimited; columns are left out and the widest texts cut
 * with an ellipsis to fit. color: the header in bold, and bars. OPM_ENOMEM if any cell was lost. */
int textable_print(struct textable *t, struct io_out *out, enum textable_format format, int width,
                   bool color, opm_error *err);
/* After that, the columns for which there was no room; NULL at the end. */
const char *textable_no_room(const struct textable *t, size_t i);
void textable_free(struct textable *t);

#endif
