/* box.h -- a table in boxes, whose cells may have several lines.
 *
 *     ╒═════════════╤═══════╕
 *     │ operator    │ time  │
 *     ╞═════════════╪═══════╡
 *     │ conv(data,c │ 5 ms  │
 *     │ -  onst)[4] │       │
 *     ╘═════════════╧═══════╛
 *
 * Made to fit: if there is not enough room, the wrapping columns get narrower first, then columns
 * are left out, those of the highest rank first. */
#ifndef CLI_BOX_H
#define CLI_BOX_H

#include "base/io.h"

struct box;

struct box *box_new(void); /* NULL on failure */
void box_free(struct box *b);
/* wrap: lines of its cells are broken at this width, what follows begins with "-  "; 0: never.
 * rank 0: never left out. */
void box_column(struct box *b, const char *header, int wrap, int rank);
/* Cells go left to right, a full row starts the next; '\n' starts a new line within one. */
void box_cell(struct box *b, const char *text, size_t len);
size_t box_rows(const struct box *b);

/* width 0: as wide as it gets. After it, box_left_out() says which columns there was no room for.
 * OPM_ENOMEM if anything was lost. */
int box_print(struct box *b, struct io_out *out, int width);
bool box_left_out(const struct box *b, size_t column);

#endif
