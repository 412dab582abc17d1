/* chrome_json.h -- rows of a store as pieces of JSON, for chrome.c. */
#ifndef EXPORT_CHROME_JSON_H
#define EXPORT_CHROME_JSON_H

#include "base/json_write.h"
#include "export/timeline.h"

/* Keys of our own in the args of a span. */
enum arg_key {
    ARG_LAYER,
    ARG_PHASE,
    ARG_OP,
    ARG_STEP,
    ARG_RECORD,
    ARG_CORRELATION,
    ARG_NEVER_ENDED,
    ARG_COUNT,
};
extern const char *const arg_names[ARG_COUNT];
#define ARGS_NOT_OBJECT 0x8000u

/* Open an M event behind *nevent others; the caller adds members of args and closes it. tid < 0:
 * none. */
struct json_writer chrome_metadata(struct io_out *out, uint64_t *nevent, const char *name,
                                   int32_t pid, int32_t tid);
void chrome_metadata_end(struct json_writer *w);
void chrome_text(struct json_writer *w, const struct store *st, str_id id);
/* key: value, if there is a value. Text that is_json goes in as JSON if it is valid. */
void chrome_cell(struct json_writer *w, const struct store *st, const char *key,
                 enum table_id table, size_t row, int col, bool is_json);
/* Two objects, the first of which takes *out_head bytes: name and category, layer and phase. */
void chrome_site(const struct timeline *tl, uint32_t site, struct buf *out, size_t *out_head);
/* An object with the member "op": all columns of the operator and its tensors. */
void chrome_op(const struct timeline *tl, uint32_t op, struct buf *out);
/* Which of our keys (a bit each) the text has as a JSON object; ARGS_NOT_OBJECT if it is none that
 * may stand in a file. */
unsigned chrome_keys(const char *s, size_t len);

#endif
